"""Metrics from draws and gradients; hierarchical models in both parametrisations, warmed up by
chains in windows.
"""

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.start import Among, Start
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.candidate_table import CandidateTable
from ewsg_jax.answers.plan.candidates import Candidate, candidates_for
from ewsg_jax.answers.plan.metric import (
    least_fisher_metric,
    metric_of_gradients,
    shrunk_covariance,
)
from ewsg_jax.answers.plan.request import PlanRequest
from ewsg_jax.answers.plan.run_requirements import RunRequirements
from ewsg_jax.answers.plan.warm_up import WarmUp, _estimator, far_from_normal, run_warm_up
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base.factors import LowRank, variances
from ewsg_jax.vectors.layout import Layout

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
ROOT = np.tril(RNG.normal(size=(6, 6)), -1) + np.diag([0.01, 0.1, 1.0, 3.0, 10.0, 100.0])
COVARIANCE = ROOT @ ROOT.T
PRECISION = np.linalg.inv(COVARIANCE)


def dense(of):
    return np.asarray(of.covariance, np.float64)


@pytest.mark.usual_parameters("not arrived")
@pytest.mark.parametrize("draws", ["not arrived", "too wide", "of a cube"])
def test_the_metric_of_a_normal_law_is_its_covariance_whatever_the_draws_are(draws):
    """Also where they lie by no law near it, for slopes are linear. From other units it is found in
    some steps.
    """
    rng = np.random.default_rng(1)
    at = {
        "not arrived": 50 + 1e-3 * rng.normal(size=(40, 6)),
        "too wide": 3 * rng.normal(size=(40, 6)),
        "of a cube": rng.uniform(size=(40, 6)),
    }[draws] @ ROOT.T
    slopes = at @ PRECISION
    kept = least_fisher_metric(at, slopes, slopes, COVARIANCE)
    np.testing.assert_allclose(dense(kept), COVARIANCE, rtol=1e-6)
    assert kept.variance_ratio == pytest.approx(1, rel=1e-6)
    found = np.eye(6)
    for _ in range(60):
        found = dense(least_fisher_metric(at, slopes, slopes, found))
    whitened = np.linalg.solve(ROOT, np.linalg.solve(ROOT, found).T)
    np.testing.assert_allclose(np.linalg.eigvalsh(whitened), 1, rtol=0.05)


@pytest.mark.full
def test_noise_of_batches_leaves_the_metric_as_it_is():
    at = RNG.normal(size=(20_000, 6)) @ ROOT.T
    # As large as the slopes themselves, in every direction.
    noise = [np.linalg.solve(ROOT.T, RNG.normal(size=(6, 20_000))).T for _ in range(2)]
    slopes = at @ PRECISION
    with_noise = least_fisher_metric(at, slopes + noise[0], slopes + noise[1], COVARIANCE)
    as_one = least_fisher_metric(at, slopes + noise[0], slopes + noise[0], COVARIANCE)
    assert with_noise.variance_ratio < 1.1
    assert as_one.variance_ratio > 1.3


@pytest.mark.full
def test_the_covariance_of_few_draws_has_a_share_of_the_metric_before():
    """0.3 d / (d + ESS) of it: a fifth where 6 numbers have 3 effective draws."""
    at = RNG.normal(size=(50, 6)) @ ROOT.T
    found = shrunk_covariance(at, 3.0, COVARIANCE)
    np.testing.assert_allclose(found, 0.8 * np.cov(at.T) + 0.2 * COVARIANCE, rtol=1e-10)


@pytest.mark.full
def test_many_numbers_have_a_metric_of_low_rank():
    size = 1_024
    scale = np.exp(RNG.normal(size=size))
    basis, _ = np.linalg.qr(RNG.normal(size=(size, 2)))
    wide = np.array([100.0, 0.01])
    stretched = (basis * (np.sqrt(wide) - 1)) @ basis.T
    normal = RNG.normal(size=(400, size))
    at = scale * (normal + normal @ stretched)
    inverse = (basis * (1 / wide - 1)) @ basis.T
    slopes = (at / scale + at / scale @ inverse) / scale
    found = least_fisher_metric(at, slopes, slopes, metric_of_gradients(slopes)).covariance
    assert isinstance(found, LowRank)
    assert found.basis.shape == (size, settings.METRIC_RANK)
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(settings.METRIC_RANK), atol=1e-8)
    right = scale**2 * (1 + (basis**2) @ (wide - 1))
    assert np.quantile(np.abs(variances(found) / right - 1), 0.9) < 0.35
    # The wide and the narrow direction are found, shrunk as of 400 draws.
    in_units = basis.T * np.sqrt(found.diagonal) / scale
    told = (
        in_units @ in_units.T
        + (in_units @ found.basis * (found.values - 1)) @ (in_units @ found.basis).T
    )
    assert told[0, 0] > 10
    assert told[1, 1] < 0.1


@pytest.mark.full
def test_units_of_low_rank_are_those_of_its_matrix():
    """Its diagonal, and L⁻¹ v, which the kernel's own factor takes back."""
    rng = np.random.default_rng(2)
    basis, _ = np.linalg.qr(rng.normal(size=(7, 2)))
    diagonal, values = np.exp(rng.normal(size=7)), np.array([9.0, 0.25])
    low = LowRank(jnp.asarray(diagonal), jnp.asarray(basis), jnp.asarray(values))
    unit = np.sqrt(np.diag(diagonal))
    matrix = unit @ (np.eye(7) + (basis * (values - 1)) @ basis.T) @ unit
    np.testing.assert_allclose(variances(low), np.diag(matrix), rtol=1e-5)
    np.testing.assert_allclose(variances(matrix), np.diag(matrix))
    whitening = Whitening(jnp.zeros(7), low, mode=None)
    differences = rng.normal(size=(3, 7))
    back = [
        whitening.factor.times(jnp.asarray(each, jnp.float32))
        for each in whitening.whiten(differences)
    ]
    np.testing.assert_allclose(np.stack(back), differences, rtol=1e-4, atol=1e-5)


@pytest.mark.full
def test_a_table_of_whole_gradients_costs_more_than_its_rows():
    """SAGA's of a model that is not of linear predictors: a row counts four times, beside 64 rows a
    step.
    """
    rows = jnp.asarray(np.random.default_rng(3).normal(size=(400, 2)), jnp.float32)
    posterior = ewsg.Posterior(lambda w, x: -0.5 * jnp.sum((x - w) ** 2), lambda w: 0.0)
    asked = request(posterior, jnp.zeros(2), rows)
    whitening = Whitening.at_mode(asked.mode)
    choice = CandidateTable(
        posterior,
        whitening,
        rows,
        whitening.draw_places(KEY, 64, 1.0),
        asked.candidates,
        1.0,
        asked.requirements,
    )
    law = choice._schemes("splitting")[0]
    (of_saga, saga), (of_uniform, uniform) = (
        choice._cost(Candidate("splitting", name, "random"), 8, law) for name in ("saga", "uniform")
    )
    # Of the same steps: what they cost beside their rows is the same.
    assert saga - 4 * of_saga == uniform - of_uniform > 0


class Groups(NamedTuple):
    """Normal rows in groups, whose means have an unknown mean and width: known by quadrature.

    Attributes:
        rows: group and value.
        mean, sd: of (μ, log τ, the groups' means).
    """

    rows: dict[str, np.ndarray]
    mean: np.ndarray
    sd: np.ndarray


def of_width(lt, is_lognormal):
    """The log prior of log τ: τ ~ |N(0, 1)|, or log τ ~ N(0, 1)."""
    return -(lt**2) / 2 if is_lognormal else lt - jnp.exp(2 * lt) / 2


def groups(num_groups, each, seed, is_lognormal=False):
    """μ ~ N(0, 2²), uⱼ ~ N(μ, τ²), rows ~ N(uⱼ, 1), τ as of `of_width`: given τ all is normal."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(num_groups), each)
    y = 0.5 + 0.8 * rng.normal(size=num_groups)[group] + rng.normal(size=len(group))
    bar = np.array([y[group == j].mean() for j in range(num_groups)])
    grid = np.linspace(-7, 2, 4_001)
    logs, moments = [], []
    for log_width in grid:
        t = np.exp(2 * log_width)
        total = t + 1 / each
        precision = num_groups / total + 1 / 4
        mu, var = bar.sum() / total / precision, 1 / precision
        fit = np.sum((bar - mu) ** 2) / total + mu**2 / 4
        logs.append(
            -0.5 * (num_groups * np.log(total) + fit + np.log(precision))
            + float(of_width(log_width, is_lognormal))
        )
        share = t / total
        u, u_var = share * bar + (1 - share) * mu, share / each + (1 - share) ** 2 * var
        moments.append(np.r_[mu, log_width, u, var + mu**2, log_width**2, u_var + u**2])
    weights = np.exp(np.array(logs) - max(logs))
    first, second = np.split(weights @ np.array(moments) / weights.sum(), 2)
    return Groups(
        {"g": group.astype(np.int32), "y": y.astype(np.float32)}, first, np.sqrt(second - first**2)
    )


def in_groups(centred, num_groups, is_lognormal=False):
    """Return the posterior, a start, and the function that gives (μ, log τ, the groups' means) of
    draws.
    """

    def prior(p):
        return -(p["mu"] ** 2) / 8 + of_width(p["lt"], is_lognormal)

    def of_group(p, j):
        return p["u"][j] if centred else p["mu"] + jnp.exp(p["lt"]) * p["u"][j]

    def log_prior(p):
        if not centred:
            return prior(p) - jnp.sum(p["u"] ** 2) / 2
        return (
            prior(p)
            - num_groups * p["lt"]
            - jnp.sum((p["u"] - p["mu"]) ** 2) * jnp.exp(-2 * p["lt"]) / 2
        )

    posterior = ewsg.Posterior(
        lambda p, row: -0.5 * (row["y"] - of_group(p, row["g"])) ** 2, log_prior
    )
    start = {"mu": jnp.zeros(()), "lt": jnp.zeros(()), "u": jnp.zeros(num_groups)}

    def told(draws):
        p = {name: np.asarray(x, float).reshape(-1, *x.shape[2:]) for name, x in draws.items()}
        u = p["u"] if centred else p["mu"][:, None] + np.exp(p["lt"])[:, None] * p["u"]
        return np.column_stack([p["mu"], p["lt"], u])

    return posterior, start, told


@pytest.mark.full
@pytest.mark.parametrize(
    ("each", "centred", "is_lognormal"),
    [
        (3, True, False),
        pytest.param(3, False, False, marks=pytest.mark.sweep),
        pytest.param(60, True, False, marks=pytest.mark.sweep),
        (60, False, False),
        pytest.param(3, True, True, marks=pytest.mark.sweep),
    ],
)
def test_groups_are_right_in_both_parametrisations(each, centred, is_lognormal):
    """Few rows in a group and many: means and widths of all numbers against quadrature.

    With a log-normal width the centred density has a mode, where τ = e⁻¹¹ and hardly any mass.
    """
    known = groups(12, each, each, is_lognormal)
    posterior, start, told = in_groups(centred, 12, is_lognormal)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # centred, the density has no mode
        plan = ewsg.plan(KEY, posterior, start, known.rows)
        samples = ewsg.sample(
            jax.random.key(1),
            plan.kernel,
            plan.start,
            known.rows,
            data_passes=plan.data_passes(ess=4_000),
            num_chains=8,
            burn_in=plan.burn_in,
        )
    assert plan.is_trusted, plan.doubts
    assert plan.seconds_spent["all"] >= sum(plan.seconds_spent.values()) / 2 > 0
    draws = told(samples.position)
    np.testing.assert_allclose((draws.mean(0) - known.mean) / known.sd, 0, atol=0.15)
    np.testing.assert_allclose(draws.std(0) / known.sd, 1, atol=0.08)


@pytest.mark.full
def test_no_chain_is_lost_from_where_a_plan_starts():
    """Thirty counts of rates that differ much, not centred. A normal law of the posterior's moments
    has draws where rates and gradients are huge: from there some chains in a hundred diverge.
    """
    rng = np.random.default_rng(2)
    counts = rng.poisson(np.exp(0.3 + 2 * rng.normal(size=30)))
    rows = {"g": np.arange(30, dtype=np.int32), "y": counts.astype(np.float32)}

    def log_likelihood(p, row):
        log_rate = p["mu"] + jnp.exp(p["lt"]) * p["u"][row["g"]]
        return row["y"] * log_rate - jnp.exp(log_rate)

    def log_prior(p):
        return -(p["mu"] ** 2) / 8 + of_width(p["lt"], False) - jnp.sum(p["u"] ** 2) / 2

    posterior = ewsg.Posterior(log_likelihood, log_prior)
    start = {"mu": jnp.zeros(()), "lt": jnp.zeros(()), "u": jnp.zeros(30)}
    plan = ewsg.plan(KEY, posterior, start, rows)
    options = {"num_chains": 2_000, "keep": None}
    draws = ewsg.sample(KEY, plan.kernel, plan.start, rows, 150, **options)
    assert draws.is_finite.all()
    flat = np.column_stack(
        [np.reshape(x, (2_000, -1)) for x in jax.tree.leaves(draws.state.position)]
    )
    normal = Start(Layout.of(start).tree(flat.mean(0)), jnp.asarray(np.cov(flat.T), jnp.float32))
    with pytest.warns(RuntimeWarning, match="diverged|blew up"):
        lost = ~ewsg.sample(KEY, plan.kernel, normal, rows, 150, **options).is_finite
    assert lost.sum() >= 5


@pytest.mark.full
def test_chains_start_among_draws():
    """Each as often as any other; the same for a key alone and among others; none twice where there
    are enough.
    """
    draws = {"a": jnp.arange(8.0), "b": jnp.arange(16.0).reshape(8, 2)}
    among, keys = Among(draws), jax.random.split(KEY, 8_000)
    found = among.of_keys(keys)
    counts = np.bincount(np.asarray(found["a"], int), minlength=8)
    assert np.abs(counts - 1_000).max() < 5 * (1_000 * 7 / 8) ** 0.5
    np.testing.assert_array_equal(found["b"][:, 0], 2 * found["a"])
    assert among(keys[3])["a"] == found["a"][3]
    assert sorted(among.subset(KEY, 8)["a"].tolist()) == list(range(8))
    assert among.subset(KEY, 9)["b"].shape == (9, 2)
    with pytest.raises(TypeError, match="key must be one typed PRNG key"):
        among(0)


def request(posterior, start, rows, max_passes=2_000.0):
    rows = jax.tree.map(jnp.asarray, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mode = ewsg.find_mode(KEY, posterior, start, rows)
    wanted = RunRequirements(0.05, 1_000, settings.NUM_PILOT_CHAINS, None, 2**30)
    return PlanRequest(
        posterior=posterior,
        data=rows,
        start_position=start,
        mode=mode,
        candidates=candidates_for(posterior, None),
        requirements=wanted,
        max_passes=max_passes,
        data_for_runs=rows,
    )


@pytest.mark.full
def test_windows_find_the_units_of_a_normal_law_from_a_start_far_away():
    """Of widths from 0.01 to 100, without a mode; and say so where they may not go on."""
    precision = jnp.asarray(PRECISION, jnp.float32)
    normal = ewsg.Posterior(lambda w, x: -0.5 * w @ precision @ w * x, lambda w: 0.0)
    asked = request(normal, jnp.full(6, 30.0), jnp.full(10, 0.1))
    found = run_warm_up(KEY, asked, None)
    assert not found.why_not_settled
    whitened = np.linalg.solve(
        ROOT, np.linalg.solve(ROOT, np.asarray(found.whitening.covariance)).T
    )
    values = np.linalg.eigvalsh(whitened)
    assert values[0] > 1 / 4
    assert values[-1] < 4
    few = request(normal, jnp.full(6, 30.0), jnp.full(10, 0.1), max_passes=300.0)
    assert "max_passes=300" in run_warm_up(KEY, few, None).why_not_settled


@pytest.mark.full
@pytest.mark.parametrize("groups", [8, 500, 8_000])
def test_batches_have_the_rows_that_their_noise_asks_for(groups):
    """A row of one in k groups adds k − 1 times the variance of a gradient, by counting: of b rows
    (k − 1) / b. A step of h = 0.5 makes a quarter of that of the posterior's variance.
    """
    rows = jnp.arange(2**17) % groups
    posterior = ewsg.Posterior(lambda p, j: -0.5 * p[j] ** 2, lambda p: 0.0)
    width = float((groups / len(rows)) ** 0.5)
    whitening = Whitening(jnp.zeros(groups), LowRank(*low_rank_of(groups, width**2)), mode=None)
    asked = PlanRequest(
        posterior=posterior,
        data=rows,
        start_position=None,
        mode=None,  # pyright: ignore[reportArgumentType]
        candidates=[],
        requirements=RunRequirements(0.05, 1_000, 8, None, 2**30),
        max_passes=1.0,
    )
    draws = width * np.random.default_rng(4).normal(size=(64, groups))
    estimator, size = _estimator(asked, WarmUp(whitening, draws, 0.0, ""))
    needed = (groups - 1) / 4 / settings.WINDOW_NOISE_SHARE
    if needed > len(rows) / settings.MIN_BATCHES_IN_DATA:
        assert (type(estimator), size) == (type(ewsg.gradients.full(posterior)), len(rows))
    else:
        # As large as the largest of so many groups' noises is met, in powers of two.
        assert max(1_000, needed) <= size <= max(1_000, 8 * needed)
        assert estimator.batch_size == size


def low_rank_of(size, variance):
    return (
        np.full(size, variance),
        np.eye(size, min(size, settings.METRIC_RANK)),
        np.ones(min(size, settings.METRIC_RANK)),
    )


@pytest.mark.full
def test_a_mode_that_says_nothing_is_told_from_one_that_does():
    known = groups(12, 60, seed=60)
    near, start, _ = in_groups(False, 12)
    quadratic = ewsg.Posterior(
        lambda p, row: -0.5 * (row["y"] - p["u"][row["g"]]) ** 2, lambda p: 0.0
    )
    exact = request(quadratic, {"u": jnp.zeros(12)}, known.rows)
    assert far_from_normal(KEY, exact, Whitening.at_mode(exact.mode)) == ""
    few = request(near, start, groups(12, 3, seed=3).rows)
    assert "variances are off" in far_from_normal(KEY, few, Whitening.at_mode(few.mode))


@pytest.mark.full
def test_stiff_places_are_where_gradients_are_largest_in_units_of_the_posterior():
    """Widths 1 and 0.1: a slope of 3 along the first is steeper than one of 20 along the second."""
    center, covariance = jnp.array([1.0, 2.0]), jnp.diag(jnp.array([1.0, 0.01]))
    slopes = np.array([[0.0, 20.0], [3.0, 0.0], [0.0, 1.0]])
    draws = np.array([[1.0, 2.5], [4.0, 2.0], [1.0, 2.0]])
    warm = WarmUp(Whitening(center, covariance, mode=None), draws, 0.0, "", gradients=slopes)
    np.testing.assert_allclose(warm.stiff_places(2), [[3.0, 0.0], [0.0, 0.5]], atol=1e-6)
    # Without a window there are no gradients to choose by.
    assert len(warm._replace(gradients=None).stiff_places(2)) == 2


@pytest.mark.full
@pytest.mark.parametrize("start", [{"a": jnp.zeros(()), "b": jnp.zeros(2)}, {"a": jnp.zeros(2)}])
def test_a_posterior_without_widths_is_refused(start):
    """A parameter that nothing reads; two of which only the sum is read: both without a prior."""
    flat = ewsg.Posterior(lambda p, x: -0.5 * (x - jnp.sum(p["a"])) ** 2, lambda p: 0.0)
    rows = np.linspace(-1.0, 1.0, 60, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        with pytest.raises(ValueError, match="posterior must be proper, with widths"):
            ewsg.plan(KEY, flat, start, rows)
