"""Plans that their own trials, or densities, give reason to doubt: said first, and warned of."""

import functools
import warnings
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.plan import other_modes as room
from ewsg_jax.answers.plan import pilot_run, settings
from ewsg_jax.answers.plan.other_modes import find_other_modes
from ewsg_jax.answers.plan.pilot_run import PilotRun
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.model_checks.support import NONE
from tests.densities import flat, location, none

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
Y = jnp.asarray(RNG.normal(0.02, 1.0, 100), jnp.float32)
PAIRS = jnp.asarray(RNG.normal([0.0, 0.05], size=(100, 2)), jnp.float32)
COUNTS = jnp.asarray(RNG.multinomial(1, [0.02, 0.3, 0.68], 60), jnp.float32)
UPTO = jnp.asarray(RNG.uniform(0.0, 2.0, 100), jnp.float32)
ROWS = jnp.zeros(20)
INF = jnp.inf


@pytest.mark.full
def test_a_plan_whose_pilot_run_was_not_judged_is_printed(monkeypatch):
    """How long an effective draw takes is then what was predicted."""

    def check(*arguments, **options):
        raise ValueError("nothing moved")

    monkeypatch.setattr(pilot_run, "check", check)
    posterior = ewsg.Posterior(lambda t, row: row * t - jnp.exp(t), lambda t: -0.5 * t**2)
    with pytest.warns(RuntimeWarning, match="not trusted"):
        planned = ewsg.plan(KEY, posterior, 0.0, jnp.ones(3), methods=["uld"], seconds=20.0)
    assert "could not be judged: nothing moved" in planned.doubts[0]
    predicted = planned.burn_in / settings.BURN_IN_TIMES
    assert planned.autocorrelation_time == pytest.approx(predicted)
    assert np.isfinite(planned.data_passes())
    assert "NOT TRUSTED" in str(planned)


def two_modes(w, row):
    """Two normal laws, far apart: 1/20 of the log density to each of 20 rows."""
    return jnp.logaddexp(-0.5 * jnp.sum((w - 3) ** 2), -0.5 * jnp.sum((w + 3) ** 2)) / len(ROWS)


WALL = (
    "of (the )?draws of (its pilot run|the normal approximation) .* % lie where log_prior is -inf"
)
DOUBTED = {
    "a wall": (location, lambda t: jnp.where(t > -0.1, 0.0, -INF), 0.5, Y, WALL, "bijector"),
    "a wall in the likelihood": (
        lambda t, row: jnp.where(t < 0.1 + 0 * row, -0.5 * (row - t) ** 2, -INF),
        flat,
        0.0,
        Y,
        "lie where log_likelihood is -inf or NaN",
        "bijector",
    ),
    "an order": (
        location,
        lambda p: jnp.where(p[0] < p[1], 0.0, -INF),
        [0.0, 1.0],
        PAIRS,
        WALL,
        "ordered",
    ),
    "a simplex": (
        lambda p, row: jnp.sum(row * jnp.log(jnp.append(p, 1 - p.sum()))),
        lambda p: jnp.where(jnp.all(p > 0) & (p.sum() < 1), 0.0, -INF),
        [0.3, 0.3],
        COUNTS,
        "its pilot run",  # NUTS keeps within, and so short a trial does not judge it
        "a bijector",
    ),
    "another mode": (two_modes, flat, [1.0, 1.0], ROWS, "there is another mode", "parametrisation"),
    "a flat direction": (
        lambda w, row: -0.5 * (w[0] + w[1] - row) ** 2,
        flat,
        [1.0, 1.0],
        Y,
        "chains of its pilot run do not agree.*worth .* independent draws.*found no mode",
        "NUTS",
    ),
    "a density without bound": (
        none,
        # Student's t with 4 degrees of freedom: a hierarchy of normal effects is solved.
        lambda w: (
            -(w[0] ** 2) / 18
            - 2.5 * jnp.sum(jnp.log1p(w[1:] ** 2 * jnp.exp(-2 * w[0]) / 4))
            - 4 * w[0]
        ),
        [0.1] * 5,
        ROWS,
        "its pilot run",
        "non-centred",
    ),
}


SELDOM = {"an order", "a simplex"}


@pytest.mark.full
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.sweep) if name in SELDOM else name for name in DOUBTED],
)
def test_a_plan_that_is_not_trusted_says_so_first(name):
    log_likelihood, log_prior, start, data, reason, cure = DOUBTED[name]
    posterior = ewsg.Posterior(log_likelihood, log_prior)
    with pytest.warns(
        RuntimeWarning, match=f"the plan is not trusted: .*{reason}.*What to do: .*{cure}"
    ):
        plan = ewsg.plan(KEY, posterior, jnp.asarray(start, jnp.float32), data, max_passes=100.0)
    assert not plan.is_trusted
    assert repr(plan).startswith(f"NOT TRUSTED: {plan.doubts[0]}")
    assert plan.gaussian is None or not plan.gaussian.is_right
    # It is a plan all the same.
    assert np.isfinite([plan.data_passes(), plan.data_passes(ess=100), plan.burn_in]).all()


@pytest.mark.full
@pytest.mark.parametrize(
    "log_prior",
    [pytest.param(flat, marks=pytest.mark.sweep), lambda t: jnp.where(t > -5, 0.0, -INF)],
)
def test_a_plan_that_is_trusted_is_not_warned_of(log_prior):
    """With a wall fifty widths away too."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plan = ewsg.plan(KEY, ewsg.Posterior(location, log_prior), jnp.float32(0.5), Y)
    assert plan.is_trusted
    assert plan.gaussian.is_right
    assert plan.doubts == ()
    assert plan.advice == ""
    assert repr(plan).startswith("Plan: ")


@pytest.mark.sweep
def test_a_support_that_the_data_bound_is_not_trusted():
    """U(0, θ): V falls to where the density ends, and trials walk out of it."""
    posterior = ewsg.Posterior(
        lambda t, row: jnp.where(row < t, -jnp.log(t), -INF), lambda t: -0.5 * t**2
    )
    with pytest.warns(RuntimeWarning, match="log_likelihood is -inf.*bijector.*largest or"):
        plan = ewsg.plan(KEY, posterior, jnp.float32(3.0), UPTO, max_passes=100.0)
    assert not plan.is_trusted


def test_what_a_trial_gives_reason_to_doubt():
    """Each sign by itself; a bias that is not seen in enough draws is none."""
    rows = jnp.asarray(RNG.normal(size=(40, 1)), jnp.float32)
    model = ewsg.models.gaussian_location()
    center, sd = float(rows.mean()), 40**-0.5
    draws = center + sd * RNG.normal(size=(8, 200, 1)).astype(np.float32)

    def of(draws, **changes):
        report = ewsg.check(KEY, draws, model, rows)
        return PilotRun(None, None, report, 200, 1.0)._replace(**changes)  # pyright: ignore[reportArgumentType]

    def doubts(draws, **changes):
        return [finding.text for finding in of(draws, **changes).findings]

    assert doubts(draws) == []
    assert "is wrong: too wide" in doubts(center + 1.3 * (draws - center))[0]
    assert "do not agree (R-hat" in doubts(draws + 3 * np.arange(8)[:, None, None])[0]
    lost = draws.copy()
    lost[3, 50:] = np.nan
    assert "1 of 8 chains of its pilot run diverged" in doubts(lost)[0]
    assert "independent draws, and 100" in doubts(draws[:, :8])[0]
    assert (
        "could not be judged: nothing moved"
        in doubts(draws, report=None, why_not="nothing moved")[0]
    )
    outside = NONE._replace(prior=0.02, share=0.02)
    assert "2 % lie where log_prior is -inf" in doubts(draws, outside=outside)[0]
    assert of(draws, outside=outside).is_wrong
    assert doubts(draws, outside=outside._replace(prior=0.004, share=0.004)) == []
    # What a rare event makes of them: as large an error in the identities as the effect.
    report = of(draws).report
    assert report is not None
    rare = replace(report, sd_ratio=jnp.array([2.2]), sd_ratio_error=jnp.array([0.35]))
    assert "is wrong: too wide by 120 ± 35 % (position[0])" in doubts(draws, report=rare)[0]
    assert of(draws, report=rare).is_wrong
    blind = replace(report, scores=report.scores._replace(distance=7.5))
    assert "may be biased: a bias of 7.5 sd would not be seen" in doubts(draws, report=blind)[0]
    noisy = replace(report, sd_ratio=jnp.array([1.2]), sd_ratio_error=jnp.array([0.1]))
    assert doubts(draws, report=noisy) == []


def is_list(value):
    return isinstance(value, list)


def mode_of(posterior, start, data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return ewsg.find_mode(KEY, posterior, start, data)


MIXTURE = jnp.asarray(RNG.normal(size=300) + np.where(RNG.random(300) < 0.4, -2, 2), jnp.float32)
THREE = jnp.asarray(RNG.normal(size=600) + 5 * RNG.integers(3, size=600), jnp.float32)
SUBJECT = np.repeat(np.arange(15), 4)
TRAITS = {
    "i": jnp.asarray(SUBJECT, jnp.int32),
    "y": jnp.asarray(
        RNG.normal(size=15)[SUBJECT, None] * [1.0, 2.0, -1.5] + 0.3 * RNG.normal(size=(60, 3)),
        jnp.float32,
    ),
}


def of_components(p, row):
    """Means, widths and weights of three components."""
    of_each = -0.5 * ((row - p["mean"]) / jnp.exp(p["width"])) ** 2 - p["width"]
    prior = -0.5 * sum(jnp.sum(x**2) for x in jax.tree.leaves(p)) / 25 / len(THREE)
    return jax.nn.logsumexp(of_each + jax.nn.log_softmax(p["weight"])) + prior


def of_factor(p, row, sign=lambda x: x):
    """Traits of subjects and their loadings: with the other sign the same."""
    prior = -0.5 * (jnp.sum(p["trait"] ** 2) + jnp.sum(p["loading"] ** 2) / 4) / len(SUBJECT)
    fit = row["y"] - sign(p["loading"]) * p["trait"][row["i"]]
    return -0.5 * jnp.sum(fit**2) / 0.09 + prior


def in_groups(p, row):
    """Means of subjects around one of their own: neighbours changed are no mode."""
    prior = -0.5 * jnp.sum((p["effect"] - p["mean"]) ** 2) / len(SUBJECT)
    return -0.5 * (row["y"][0] - p["effect"][row["i"]]) ** 2 / 0.09 + prior


SPREAD_OUT = {"mean": [0.0, 5.0, 10.0], "width": [0.0] * 3, "weight": [0.0] * 3}
LOADED = {"loading": [1.0, 2.0, -1.5], "trait": [0.1] * 15}
MODES = {
    "of three components with widths and weights": (of_components, SPREAD_OUT, THREE, True),
    "of a factor and its loadings": (of_factor, LOADED, TRAITS, True),
    "of loadings that are known to be positive": (
        functools.partial(of_factor, sign=jnp.exp),
        {"loading": [0.0, 0.5, -1.0], "trait": [0.1] * 15},
        TRAITS | {"y": TRAITS["y"] * jnp.array([1.0, 1.0, -1.0])},
        False,
    ),
    "in groups": (in_groups, {"mean": 0.0, "effect": [0.0] * 15}, TRAITS, False),
    "of two members that may be exchanged": (
        lambda m, row: jnp.logaddexp(-0.5 * (row - m[0]) ** 2, -0.5 * (row - m[1]) ** 2),
        [-1.0, 1.0],
        MIXTURE,
        True,
    ),
    "in ten dimensions": (
        lambda w, row: (
            jnp.logaddexp(-0.5 * jnp.sum((w - 2) ** 2), -0.5 * jnp.sum((w + 2) ** 2)) / len(ROWS)
        ),
        [1.0] * 10,
        ROWS,
        True,
    ),
    "a mode that holds nothing": (
        lambda w, row: (
            jnp.logaddexp(-0.5 * jnp.sum((w - 3) ** 2), -0.5 * jnp.sum((w + 3) ** 2) - 20)
            / len(ROWS)
        ),
        [1.0, 1.0],
        ROWS,
        False,
    ),
    "in one of twenty coordinates, six widths away": (
        lambda w, row: (
            (jnp.logaddexp(-0.5 * w[0] ** 2, -0.5 * (w[0] - 6) ** 2) - 0.5 * jnp.sum(w[1:] ** 2))
            / len(ROWS)
        ),
        [0.1] * 20,
        ROWS,
        True,
    ),
    "a small one, four widths away": (
        lambda w, row: (
            jnp.logaddexp(-0.5 * w[0] ** 2, np.log(1 / 9) - 0.5 * (w[0] - 4) ** 2) / len(ROWS)
        ),
        [0.1],
        ROWS,
        True,
    ),
    "the tails of a Cauchy law": (
        lambda t, row: -jnp.log1p(t[0] ** 2) / len(ROWS),
        [0.1],
        ROWS,
        False,
    ),
    "a funnel": (
        lambda w, row: (
            -(w[0] ** 2 / 18 + 0.5 * jnp.sum(w[1:] ** 2) * jnp.exp(-w[0]) + 2 * w[0]) / len(ROWS)
        ),
        [0.3] * 5,
        ROWS,
        False,
    ),
    "rows of a Cauchy law": (
        lambda t, row: -jnp.sum(jnp.log1p((row - t) ** 2)),
        [0.0],
        jnp.asarray(RNG.standard_cauchy(200), jnp.float32),
        False,
    ),
    "skewed": (lambda t, row: jnp.sum(3 * t - jnp.exp(t)) / len(ROWS), [0.0, 0.0], ROWS, False),
    "one normal law": (location, [0.0], Y, False),
}


@pytest.mark.usual_parameters("one normal law", "in one of twenty coordinates, six widths away")
@pytest.mark.parametrize("name", MODES)
def test_other_modes_are_found_and_none_is_made_up(name):
    log_likelihood, start, data, wanted = MODES[name]
    posterior = ewsg.Posterior(log_likelihood, flat)
    lists = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), start, is_leaf=is_list)
    whitening = Whitening.at_mode(mode_of(posterior, lists, data))
    assert bool(find_other_modes(posterior, whitening, data)) is wanted


@pytest.mark.full
def test_a_log_concave_likelihood_is_not_searched(monkeypatch):
    monkeypatch.setattr(room, "_search_ends", None)
    model = ewsg.models.gaussian_location()
    whitening = Whitening.at_mode(mode_of(model, jnp.zeros(2), PAIRS))
    assert find_other_modes(model, whitening, PAIRS) == []


@pytest.mark.full
def test_a_prior_of_two_modes_beside_a_log_concave_likelihood_is_searched():
    def of_two(w):
        return jnp.sum(jnp.logaddexp(-0.5 * w**2, -0.5 * (w - 8) ** 2))

    model = ewsg.Posterior(lambda w, row: -0.005 * (row - w[0]) ** 2, of_two, log_concave=True)
    whitening = Whitening.at_mode(mode_of(model, jnp.zeros(1), ROWS))
    (other,) = find_other_modes(model, whitening, ROWS)
    np.testing.assert_allclose(other.place, 8 / 1.2, rtol=1e-3)  # V = 0.1 w² + (w − 8)²/2


@pytest.mark.full
def test_a_mode_that_all_chains_visit_is_no_doubt():
    """Of two normal laws at 0 and 4: chains at both, at the first, and one that stays there."""
    whitening = Whitening.at_mode(
        mode_of(ewsg.Posterior(lambda w, row: -0.025 * w**2, flat), jnp.float32(0.1), ROWS)
    )
    other = room.OtherMode(np.array([4.0]), 3)
    near = RNG.normal(size=(4, 100, 1)).clip(-1, 1)
    both = near + 4.0 * (np.arange(100) % 10 == 0)[:, None]
    assert other.is_visited(whitening, both)
    assert not other.is_visited(whitening, near)
    assert not other.is_visited(whitening, np.concatenate([both, near[:1]]))


@pytest.mark.full
@pytest.mark.parametrize(
    ("gap", "is_trusted"),
    [pytest.param(3.0, True, id="chains cross"), pytest.param(6.0, False, id="none does")],
)
def test_a_plan_is_trusted_beside_another_mode_where_chains_have_been_there(gap, is_trusted):
    def of_two(w):
        return jnp.logaddexp(-0.5 * w**2, -0.5 * (w - gap) ** 2)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        plan = ewsg.plan(KEY, ewsg.Posterior(none, of_two), jnp.float32(0.1), ROWS)
    assert plan.is_trusted is is_trusted
    assert plan.gaussian is not None
    assert not plan.gaussian.is_right
    where = plan.notes if is_trusted else plan.doubts
    assert any("there is another mode" in each for each in where)
