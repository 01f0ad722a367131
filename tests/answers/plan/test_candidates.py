"""What a candidate is told, against laws by hand in one dimension; and what is made of a trial."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.curvature import Curvature
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan.candidate_table import CandidateTable
from ewsg_jax.answers.plan.candidates import Candidate
from ewsg_jax.answers.plan.gaussian import gaussian_at_mode
from ewsg_jax.answers.plan.pilot_run import PilotRun
from ewsg_jax.answers.plan.run_requirements import RunRequirements, burn_in_steps, steps_for_ess
from ewsg_jax.answers.plan.scheme_errors import scheme_forecasts
from ewsg_jax.answers.plan.whitening import Whitening

KEY = jax.random.key(0)
N = 64
MODEL = ewsg.models.gaussian_location()
DATA = jnp.linspace(-1, 1, N)[:, None]
MODE = Mode(
    jnp.zeros(1), True, 0.0, 0.0, 0.0, 1, 1.0, Curvature.of(np.full((1, 1), float(N)), True)
)
WHITENING = Whitening(MODE.position, jnp.eye(1) / N, MODE)
REQUIREMENTS = RunRequirements(0.05, 4_000.0, 8, None, 2**30, is_restricted=True)
NOISE = 5.0
"""Of a batch of one row: the variance of its gradient in units of the posterior's width, s²."""


def choice(*among, **wanted):
    return CandidateTable(
        MODEL,
        WHITENING,
        DATA,
        WHITENING.draw_places(KEY, 64, 1.0),
        list(among),
        1.0,
        dataclasses.replace(REQUIREMENTS, **wanted),
    )


def told(estimator, size, scheme, dynamics="langevin", noise=NOISE):
    """What a way is told at a batch and a step, of which another coordinate has half of
    the noise.
    """
    return choice()._forecast(
        Candidate(dynamics, estimator, "random"), size, scheme, (noise, 3 / 4 * noise)
    )


def one(dynamics, step_size, friction=0.0):
    """The scheme of a step nearest to that."""
    found = scheme_forecasts(dynamics, 1.0)
    return min(
        found,
        key=lambda scheme: abs(scheme.step_size / step_size - 1) + abs(scheme.friction - friction),
    )


@pytest.mark.parametrize("size", [4, 16])
def test_the_heat_of_a_batch_by_hand(size):
    """θ' = (1 − h)θ + h √(s²/b) ξ + √(2h) ζ; s² a number, or times θ², or times (θ − ω)² of an
    older ω.
    """
    scheme = one("langevin", 0.03)
    h, heat, period = scheme.step_size, NOISE / size, N // size
    ages = (1 - h) ** np.arange(period)
    by_hand = {
        "uniform": (2 + h * heat) / (2 - h),
        "control_variate": 2 / (2 - h - h * heat),
        "svrg": 2 / (2 - h - h * heat * 2 * (1 - ages.mean())),
    }
    for estimator, variance in by_hand.items():
        # An anchor's distance is that of the scheme without noise, whose variance is not quite 1.
        rtol = 0.02 if estimator == "svrg" else 1e-4
        found = told(estimator, size, scheme)
        np.testing.assert_allclose(found.sd_error, variance**0.5 - 1, rtol=rtol, err_msg=estimator)


def test_a_table_is_as_hot_as_its_rows_are_old():
    """θ' = (1 − h)θ + h(φᵢ − mean φ) + √(2h) ζ, φᵢ' = θ: the second moments of θ, φᵢ and two φ,
    solved for.
    """
    for step_size in (0.1, 0.03):
        scheme = one("langevin", step_size)
        h = scheme.step_size
        a, rest = 1 - h, (N - 1) / N
        moments = [
            [1 - a**2 - h**2 * rest, h**2 * rest],
            [-a / N + rest * h / N, 1 - rest * a - rest * h / N],
        ]
        variance = np.linalg.solve(moments, [2 * h, 0])[0]
        assert variance > 1 + 1.5 * (scheme.variance - 1)
        found = told("saga", 1, scheme, noise=0.0)
        np.testing.assert_allclose(found.sd_error, variance**0.5 - 1, rtol=0.06)


def test_the_slope_of_a_momentum_is_its_step_over_twice_the_friction():
    for friction, dynamics in itertools.product(
        (0.7, 2.0), ("splitting", "semi_implicit", "ABOBA")
    ):
        scheme = one(dynamics, 0.02, friction)
        np.testing.assert_allclose(
            scheme.noise_response, scheme.step_size / (2 * scheme.friction), rtol=0.05
        )


def test_errors_of_a_scheme_and_of_its_noise_are_added():
    """A splitting is too cold; the noise that would hide it is no cure."""
    scheme = one("splitting", 0.5, 2.0)
    cold = 1 - scheme.variance**0.5
    assert cold > 0.005
    heat = 2 * (1 - scheme.variance) / scheme.noise_response
    assert told("uniform", 1, scheme, "splitting", heat).sd_error > 1.9 * cold


def test_a_way_is_at_its_cheapest_batch_and_step():
    """By looking at all of them; burn-in and the rows that a step itself is worth are among the
    cost.
    """
    ways = Candidate("splitting", "uniform", "random"), Candidate("langevin", "full", "all")
    found = {each.candidate: each for each in choice(*ways, tolerance=0.2).forecasts}
    for way in ways:
        sizes = (N,) if way.estimator == "full" else (8, 16, 32)
        most, _ = choice().noise("uniform", "random")
        right = []
        for size, scheme in itertools.product(sizes, scheme_forecasts(way.dynamics, 1.0)):
            heat = 0.0 if way.estimator == "full" else scheme.noise_response * most / size
            off = abs(scheme.sd_error) + (scheme.variance + heat) ** 0.5 - scheme.variance**0.5
            steps = burn_in_steps(scheme.time) + steps_for_ess(scheme.time, REQUIREMENTS.ess, 8)
            if off <= 0.1:
                right.append(((size + 64) * steps * 8, size, scheme.step_size, scheme.friction))
        best = found[way]
        assert (best.cost, best.batch_size, best.step_size, best.friction) == min(right)
    assert burn_in_steps(3.3) == np.ceil(8 * 3.3)
    assert steps_for_ess(3.3, 4_000, 8) == np.ceil(4_000 * 3.3 / 8)


def test_what_is_far_from_right_is_not_taken():
    """Half of the tolerance is for chance."""
    uniform = Candidate("langevin", "uniform", "random")
    for tolerance in (0.02, 0.3):
        (found,) = choice(uniform, tolerance=tolerance, batch_size=8).forecasts
        assert found.why_not or found.sd_error <= tolerance / 2
    (none,) = choice(uniform, tolerance=1e-4, batch_size=8).forecasts
    assert none.why_not.startswith("error of sds")
    assert none.cost == np.inf


def test_the_memory_of_all_chains_is_counted():
    """A table of N numbers, of one chain; of eight there is no room."""
    saga = Candidate("langevin", "saga", "random")
    for chains, fits in ((1, True), (8, False)):
        (found,) = choice(saga, num_chains=chains, memory_limit=4 * N * 4, tolerance=0.2).forecasts
        assert ("a table of" not in found.why_not) is fits


def test_a_table_above_its_own_limit_is_not_taken(monkeypatch):
    """SAGA would raise when it is run; the plan takes another way."""
    monkeypatch.setattr(
        ewsg.gradients, "saga", functools.partial(ewsg.gradients.saga, memory_limit=4 * N - 1)
    )
    (found,) = choice(
        Candidate("langevin", "saga", "random"), num_chains=1, tolerance=0.2
    ).forecasts
    assert found.why_not.startswith("a table of")


def test_a_mean_moves_with_the_variance_as_far_as_it_is_from_the_mode():
    away = Whitening.of_covariance(MODE, jnp.full(1, 0.5), np.eye(1) / N)
    assert away.mean_shift == pytest.approx(0.5 * N**0.5)
    scheme = one("langevin", 0.25)
    there = CandidateTable(MODEL, away, DATA, away.draw_places(KEY, 64, 1.0), [], 1.0, REQUIREMENTS)
    found = there._forecast(Candidate("langevin", "full", "all"), N, scheme, None)
    assert found.mean_error == pytest.approx((2 / (2 - 0.25) - 1) * 4)
    assert found.why_not
    assert told("uniform", 8, scheme).mean_error == 0


def test_leverage_is_in_the_units_of_the_posterior():
    """Of one weight, and of two classes, whose blocks are averaged."""
    x = np.random.default_rng(0).normal(size=(40, 2)) * [1, 9]
    covariance = np.array([[1.0, 0.09], [0.09, 0.02]])
    expected = ewsg.rows.leverage(x, covariance).probabilities
    linear = ewsg.models.linear_regression(noise_scale=1.0)
    rows = {"x": jnp.asarray(x, jnp.float32), "y": jnp.zeros(40, jnp.int32)}
    found = Whitening(jnp.zeros(2), jnp.asarray(covariance), MODE).leverage(linear, rows)
    np.testing.assert_allclose(found.probabilities, expected, rtol=1e-4)
    softmax = ewsg.models.softmax_regression()
    both = np.einsum("ij,ab->iajb", covariance, np.diag([0.5, 1.5])).reshape(4, 4)
    found = Whitening(jnp.zeros((2, 2)), jnp.asarray(both), MODE).leverage(softmax, rows)
    np.testing.assert_allclose(found.probabilities, expected, rtol=1e-4)


def a_pilot_run(draws, steps=1_000):
    """Of a run that gave these draws, a step each."""
    kernel = ewsg.ld(MODEL, 0.01)
    samples = ewsg.sample(KEY, kernel, jnp.zeros(1), DATA, 2)
    report = ewsg.check(KEY, draws, MODEL, DATA)
    return PilotRun(kernel, samples, report, steps, report.data_passes)


def outcome_of(trial):
    assert trial.report is not None
    return trial.report.outcome


def normal_draws(width=1.0, seed=0):
    return np.random.default_rng(seed).normal(size=(8, 200, 1)) * width / (N + 1) ** 0.5


@pytest.mark.full
def test_a_trial_that_lost_a_chain_is_wrong():
    right = normal_draws()
    assert not a_pilot_run(right).is_wrong
    lost = right.copy()
    lost[3, 50:] = np.nan
    # Those that stayed have not been where it was lost.
    assert outcome_of(a_pilot_run(lost)) == "unsure"
    assert a_pilot_run(lost).is_wrong
    assert a_pilot_run(normal_draws(1.5)).is_wrong
    # Chains that have not met yet are to run on.
    apart = right + np.linspace(-3, 3, 8)[:, None, None] / N**0.5
    assert outcome_of(a_pilot_run(apart)) == "wrong"
    assert a_pilot_run(apart).is_short
    assert not a_pilot_run(apart).is_wrong


@pytest.mark.full
def test_a_trial_tells_steps_of_a_chain():
    """Draws that are independent, ten steps apart: an effective draw takes as many steps of all
    chains.
    """
    trial = a_pilot_run(normal_draws(1.5), steps=2_000)
    assert 8 < trial.time < 16
    assert trial._replace(report=None).is_wrong


def test_the_normal_approximation_is_right_where_errors_are_within_tolerance():
    found = gaussian_at_mode(KEY, MODEL, MODE, DATA, 0.05)
    assert found.is_right
    assert found.doubt < 0.5
    assert found.report.corrected is not None
    for factor, right in ((0.9, False), (1.1, True)):
        strict = dataclasses.replace(found, tolerance=factor * found.doubt * found.tolerance)
        assert strict.is_right is right
        assert strict.doubt == pytest.approx(1 / factor)


@pytest.mark.full
@pytest.mark.parametrize(("rows", "scale"), [(N, 1.0), (3, 10.0)])
def test_a_thousand_rows_are_evaluated_at_each_draw(monkeypatch, rows, scale):
    """As by a check of a run, whose program is the same; a posterior of three rows is skewed, and
    is seen to be.
    """
    made = []

    def looked(*arguments, batch_size, **options):
        report = ewsg.check(*arguments, batch_size=batch_size, **options)
        made.append((batch_size, report.data_passes))
        return report

    monkeypatch.setattr("ewsg_jax.answers.plan.gaussian.check", looked)
    told = jnp.arange(4_100) < rows
    model = ewsg.models.logistic_regression(prior_scale=scale)
    data = {
        "x": told[:, None].astype(jnp.float32),
        "y": (jnp.arange(4_100) % 2 if rows == N else told).astype(int),
    }
    mode = ewsg.find_mode(KEY, model, jnp.zeros(1), data)
    found = gaussian_at_mode(
        KEY, model, mode, data, 0.05, Whitening.at_mode(mode).leverage(model, data)
    )
    assert [size for size, _ in made] == [1_000]
    assert found.report.data_passes == made[0][1]
    assert (found.is_right and found.is_normal) is (rows == N)


@pytest.mark.full
def test_positions_of_half_precision_are_planned_in_float32():
    half = MODE._replace(position=MODE.position.astype(jnp.bfloat16))
    plan = ewsg.plan(KEY, MODEL, half.position, DATA, mode=half, methods=["ld"])
    assert plan.start(KEY).dtype == jnp.float32
    assert plan.gaussian is not None
    assert plan.gaussian.is_right
