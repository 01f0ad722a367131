"""What halving says: exact moments in, and runs whose laws are known by quadrature."""

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ewsg_jax as ewsg
from ewsg_jax.halving import moments, verdict
from ewsg_jax.halving.coupled import coupled, doubled
from ewsg_jax.halving.moments import Known, Law, Pairs
from tests.halving.pairs import MODEL
from tests.halving.test_order import SKEWED, dynamics_of, skewed_moments, truth

pytestmark = pytest.mark.full

DATA = jnp.linspace(-1.0, 1.0, 40)[:, None]
CHANCE = 4.9
"""Standard errors that chance exceeds once in a million times."""


def some_pairs(seed=0, pairs=12, d=3, num_steps=100):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=(pairs, 2, d))
    return Pairs(num_steps, mean, rng.gamma(5.0, size=(pairs, 2, d)), mean[:, 0] - mean[:, 1])


def test_moments_of_a_few_draws_are_those_of_all_of_them():
    """In two parts of unlike lengths, against NumPy on the draws themselves."""
    rng = np.random.default_rng(1)
    draws = rng.normal(2.0, 3.0, (10, 2, 30, 4))

    def of(part):
        mean, variance = part.mean(2), part.var(2)
        return Pairs(part.shape[2], mean, variance, mean[:, 0] - mean[:, 1])

    both = of(draws[:, :, :7]).joined(of(draws[:, :, 7:]))
    for found, expected in zip(both, of(draws), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_extrapolation_is_that_of_the_moments_and_its_errors_those_of_pairs(order):
    pairs = some_pairs()
    found, p = moments.extrapolated(pairs, order), 2**order
    mean = pairs.mean.mean(0)
    spread = (pairs.variance + (pairs.mean - mean) ** 2 * 12 / 11).mean(0)
    np.testing.assert_allclose(found.whole.mean.value, mean[0])
    np.testing.assert_allclose(found.half.sd.value, np.sqrt(spread[1]))
    np.testing.assert_allclose(found.right.mean.value, (p * mean[1] - mean[0]) / (p - 1))
    np.testing.assert_allclose(found.right.sd.value**2, (p * spread[1] - spread[0]) / (p - 1))
    sd = found.right.sd.value
    # The bias at h that the difference tells, and that at h/2.
    np.testing.assert_allclose(found.bias.mean_shift.value, (mean[0] - mean[1]) * p / (p - 1) / sd)
    np.testing.assert_allclose(found.half_bias.mean_shift.value, (mean[0] - mean[1]) / (p - 1) / sd)
    np.testing.assert_allclose(found.half_bias.sd_ratio.value, found.half.sd.value / sd)
    # Leaving out one pair after the other (the jackknife) tells the same errors, to a tenth with
    # twelve pairs.
    left = [moments.extrapolated(without(pairs, i), order) for i in range(12)]
    for take in (
        lambda found: found.right.mean,
        lambda found: found.difference.mean,
        lambda found: found.difference.sd,
        lambda found: found.half.sd,
        lambda found: found.right.sd,
        lambda found: found.bias.sd_ratio,
    ):
        each = np.array([take(one).value for one in left])
        by_jackknife = np.sqrt(11 / 12 * np.sum((each - each.mean(0)) ** 2, axis=0))
        np.testing.assert_allclose(take(found).error, by_jackknife, rtol=0.5)


def without(pairs, i):
    return Pairs(pairs.num_steps, *(np.delete(x, i, axis=0) for x in pairs[1:]))


def test_variances_of_few_pairs_are_not_too_small():
    """Chains that stand still each at a draw: their mean is not known, but estimated."""
    mean = np.array([0.0, 1.0, 4.0, 2.0, -3.0, 2.5, 1.0, 0.5])[:, None, None] * np.ones((1, 2, 1))
    found = moments.extrapolated(Pairs(9, mean, 0 * mean, 0 * mean[:, 0]), 1)
    assert found.whole.sd.value[0] == pytest.approx(mean[:, 0, 0].std(ddof=1))


def test_the_gain_is_that_over_independent_runs():
    rng = np.random.default_rng(2)
    half = rng.normal(size=(4_000, 1, 2))
    apart = 0.1 * rng.normal(size=(4_000, 2))
    mean = np.concatenate([half + apart[:, None], half], axis=1)
    # Of variances it is more, and the less counts.
    variance = rng.gamma(5.0, 100.0, size=(4_000, 1, 1)) * np.ones(mean.shape)
    found = moments.extrapolated(Pairs(10, mean, variance, apart), 1)
    assert found.gain == pytest.approx((1 + 1 + 0.01) / 0.01, rel=0.15)


def test_a_negative_variance_is_told():
    found = moments.extrapolated(
        Pairs(
            10,
            np.zeros((8, 2, 1)),
            np.array([5.0, 1.0])[None, :, None] + np.zeros((8, 2, 1)),
            np.zeros((8, 1)),
        ),
        1,
    )
    assert np.isnan(found.right.sd.value)
    told = judged(found)
    assert told.outcome == "wrong"
    assert "too large to extrapolate" in told.text


def test_runs_that_change_are_told_and_others_seldom():
    def halves(seed, change):
        # Pairs of one law have their own means; the second half is theirs again, with chance of its
        # own.
        rng = np.random.default_rng(seed)
        parts = [rng.normal(size=(32, 2, 3)) for _ in range(2)]
        parts[1][:, :, 1] += change
        variances = rng.gamma(50.0, size=(2, 32, 2, 3))
        return [
            Pairs(50, mean, v, mean[:, 0] - mean[:, 1])
            for mean, v in zip(parts, variances, strict=True)
        ]

    assert moments.drifts(*halves(0, 3.0))
    assert sum(moments.drifts(*halves(seed, 0.0)) for seed in range(300)) <= 3  # of 0.3


def test_rhat_is_that_of_arviz():
    from arviz_stats.base import array_stats

    draws = np.random.default_rng(3).normal(size=(6, 400, 2)) + 0.3 * np.arange(6)[:, None, None]

    def part(values):
        two = np.repeat(values[:, None], 2, axis=1)
        return Pairs(values.shape[1], two.mean(2), two.var(2), np.zeros((6, 2)))

    found = moments.rhat(part(draws[:, :200]), part(draws[:, 200:]))
    expected = max(
        array_stats.rhat(draws[..., i], chain_axis=0, draw_axis=1, method="split") for i in range(2)
    )
    assert found == pytest.approx(float(expected), abs=0.005)


def judged(found, *, rhat=1.0, drifts=False, num_lost=0, tolerance=0.05, is_cut=False):
    right = verdict.right_step(found, 0.1, 1, tolerance)
    options = (right, tolerance, 0.02, is_cut)
    return verdict.of(found, ("a",), 32, num_lost, rhat, drifts, *options)


def extrapolation(ratio, ratio_error, shift=0.0, shift_error=0.0):
    one = lambda value, error=0.001: Known(np.array([value]), np.array([error]))
    bias = moments.Off(one(ratio, ratio_error), one(shift, shift_error))
    law = Law(one(0.0), one(1.0))
    return moments.Extrapolation(law, law, law, law, bias, bias, 10.0)


@pytest.mark.parametrize(
    ("numbers", "outcome", "says"),
    [
        ((1.02, 0.005), "right", "within tolerance (5 % of sds, 0.1 sd of means)"),
        (
            (1.1, 0.005),
            "wrong",
            "too wide by 10 ± 0.5 % (a). Take halved.extrapolated, or a step of 0.05",
        ),
        ((0.9, 0.005), "wrong", "too narrow by 10"),
        ((1.0, 0.005, 0.2, 0.01), "wrong", "mean off by 0.2 ± 0.01 sd (a)"),
        ((1.1, 0.04), "unsure", "the sd of a is 2 ± 0.8 tolerances off"),
        ((1.04, 0.02), "unsure", "not enough steps"),
        ((1.0, 0.01, 0.05, 0.04), "unsure", "the mean of a is 0.5 ± 0.4 tolerances off"),
        ((1.3, 0.005), "wrong", "counts than the leading order: halve a step of 0.017"),
        ((1.2, 0.005), "wrong", "Take halved.extrapolated, or a step of 0.025"),
    ],
)
def test_verdicts(numbers, outcome, says):
    told = judged(extrapolation(*numbers))
    assert told.outcome == outcome
    assert says in told.text


@pytest.mark.parametrize("order", [1, 2])
def test_the_right_step_is_right_to_leading_order(order):
    # 4 times the tolerance: a quarter of the step, or half of it.
    right = verdict.right_step(extrapolation(1.2, 0.005, 0.1, 0.01), 0.8, order, 0.05)
    assert right == pytest.approx(0.8 / 4 ** (1 / order))
    assert verdict.right_step(
        extrapolation(1.0, 0.005, 0.4, 0.01), 0.8, order, 0.05
    ) == pytest.approx(right)


def test_chains_that_have_not_settled_tell_nothing():
    for told in (
        judged(extrapolation(1.1, 0.001), rhat=1.3),
        judged(extrapolation(1.1, 0.001), drifts=True),
    ):
        assert told.outcome == "unsure"
        assert "not settled" in told.text
    assert "3 pairs of chains are lost" in judged(extrapolation(1.1, 0.001), num_lost=3).text


@pytest.fixture(scope="module")
def skewed():
    """Langevin dynamics on the skewed target, in float64; 400 pairs."""
    with jax.enable_x64(True):
        jax.config.update("jax_disable_most_optimizations", False)
        kernel = ewsg.kernel(
            dynamics_of("langevin", 0.2, temperature=1.0), ewsg.gradients.full(SKEWED)
        )
        halved = ewsg.halve(
            jax.random.key(5),
            kernel,
            jnp.zeros(1),
            jnp.zeros((1, 1)),
            3_000,
            num_chains=400,
            burn_in=100,
        )
        jax.config.update("jax_disable_most_optimizations", True)
        laws = np.array([skewed_moments("langevin", h) for h in (0.2, 0.1)])
    return halved, laws


def test_a_skewed_target_is_told_as_it_is(skewed):
    """Moments at h, h/2 and differences against exact laws, within chance; and the truth."""
    halved, laws = skewed
    for found, (mean, variance) in ((halved.whole, laws[0]), (halved.half, laws[1])):
        assert abs(found.mean[0] - mean) < CHANCE * found.mean_error[0]
        assert abs(found.sd[0] - variance**0.5) < CHANCE * found.sd_error[0]
    apart, sds = halved.difference, np.sqrt(laws[:, 1])
    assert abs(apart.mean[0] - (laws[0, 0] - laws[1, 0])) < CHANCE * apart.mean_error[0]
    assert abs(apart.sd[0] - (sds[0] - sds[1])) < CHANCE * apart.sd_error[0]
    # Errors are small enough to tell: the bias is many times theirs.
    assert abs(apart.sd[0]) > 20 * apart.sd_error[0]
    assert halved.gain > 20
    # What extrapolation leaves of the bias is of order h².
    mean, variance = truth()
    exact = np.array([2 * laws[1, 0] - laws[0, 0], np.sqrt(2 * laws[1, 1] - laws[0, 1])])
    found = halved.extrapolated
    assert abs(found.mean[0] - exact[0]) < CHANCE * found.mean_error[0]
    assert abs(found.sd[0] - exact[1]) < CHANCE * found.sd_error[0]
    assert abs(found.sd[0] / variance**0.5 - 1) < abs(halved.whole.sd[0] / variance**0.5 - 1) / 5
    assert abs(found.mean[0] - mean) < 0.02
    assert halved.outcome == "wrong"
    assert halved.num_lost == 0


def test_what_is_printed(skewed):
    text = repr(skewed[0])
    assert text.startswith("Halving: wrong at h: too wide by ")
    assert "400 pairs of chains with h = 0.2 and h/2, 2,900 of 3,000 steps kept" in text
    assert "bias of order h; common noise is worth runs " in text
    assert "position[0]" in text
    assert max(map(len, text.splitlines())) < 140


def test_errors_are_those_of_many_runs(optimised):
    """Means of differences of 60 runs spread as their errors say: χ², α = 1e-6 each side."""
    kernel = ewsg.sgld(MODEL, 0.03, batch_size=2)
    data = jnp.linspace(-2.0, 2.0, 6)[:, None]
    runs = [
        ewsg.halve(
            jax.random.key(seed),
            kernel,
            jnp.zeros(1),
            data,
            400,
            num_chains=16,
            burn_in=100,
            progress=False,
        )
        for seed in range(60)
    ]
    for name in ("mean", "sd"):
        values = np.array([getattr(run.difference, name)[0] for run in runs])
        errors = np.array([getattr(run.difference, f"{name}_error")[0] for run in runs])
        ratio = values.var(ddof=1) / np.mean(errors**2)
        # Errors of 16 pairs are estimates too: with them the ratio is F(59, some 60 · 15).
        low, high = stats.f.ppf([1e-6, 1 - 1e-6], 59, 60 * 15)
        assert low < ratio < high


def test_it_is_a_run_of_the_coupled_kernel_and_starts_where_it_is_told(x64):
    """Moments are those of `sample`'s own draws, whatever the tree and however it starts."""
    posterior = ewsg.Posterior(
        lambda p, x: -0.5 * jnp.sum((x[:1] - p["a"]) ** 2) - 0.5 * jnp.sum((x[1:] - p["b"]) ** 2),
        lambda p: 0.0,
    )
    kernel = ewsg.sghmc(posterior, 0.1, friction=2.0, batch_size=2)
    data = jax.random.normal(jax.random.key(0), (10, 3))
    start = lambda key: {"a": jax.random.normal(key, (1,)), "b": jnp.ones(2)}
    key = jax.random.key(1)
    halved = ewsg.halve(key, kernel, start, data, 61, num_chains=8, burn_in=20, progress=False)
    paired = lambda key: doubled(start(key))
    samples = ewsg.sample(
        key, coupled(kernel), paired, data, 61, num_chains=8, burn_in=20, progress=False
    )
    for name in ("a", "b"):
        draws = samples.position[name]
        np.testing.assert_allclose(halved.whole.mean[name], draws[:, :, 0].mean((0, 1)), rtol=1e-7)
        np.testing.assert_allclose(halved.half.mean[name], draws[:, :, 1].mean((0, 1)), rtol=1e-7)
        within = (
            draws.var(1).mean(0) + np.sum((draws.mean(1) - draws.mean((0, 1))) ** 2, axis=0) / 7
        )
        np.testing.assert_allclose(halved.whole.sd[name], np.sqrt(within[0]), rtol=1e-7)
    assert halved.names == ("a[0]", "b[0]", "b[1]")
    assert (halved.num_kept, halved.num_pairs, halved.order) == (41, 8, 1)
    assert halved.data_passes == pytest.approx(61 * 3 * 2 / 10)
    named = ewsg.halve(
        key, kernel, start, data, 61, num_chains=8, names=["x", "y", "z"], progress=False
    )
    assert named.names == ("x", "y", "z")
    assert named.num_kept == 61 - 15


def test_small_differences_have_their_digits_far_from_0(optimised):
    """At 10⁴ sds in float32, where numbers are 10⁻³ of one apart, they are those at 0."""
    kernel = ewsg.ld(ewsg.models.gaussian_location(noise_scale=40**0.5), 0.3)

    def differences(center):
        run = lambda seed: ewsg.halve(
            jax.random.key(seed),
            kernel,
            jnp.full(1, center),
            center + 6 * DATA,
            4_000,
            progress=False,
        )
        return np.array([run(seed).difference.mean[0] for seed in (2, 3, 4)])

    near, far = differences(0.0), differences(1e4)
    assert np.abs(near).max() > 1e-3
    np.testing.assert_allclose(far, near, atol=5e-5)


def test_pairs_that_are_lost_are_left_out_and_told():
    """A potential with a cliff: chains that start beyond it leave for infinity."""
    cliff = ewsg.Posterior(
        lambda p, x: 0.0 * x[0], lambda p: jnp.where(p[0] > 50.0, p[0] ** 4, -0.5 * p[0] ** 2)
    )
    kernel = ewsg.ld(cliff, 0.1)
    start = lambda key: jnp.where(jax.random.uniform(key) < 0.3, 100.0, 0.0)[None]
    with pytest.warns(RuntimeWarning, match="diverged"):
        halved = ewsg.halve(
            jax.random.key(3), kernel, start, jnp.zeros((1, 1)), 400, progress=False
        )
    assert 3 < halved.num_lost < 20
    assert np.isfinite(halved.extrapolated.sd).all()
    assert 0.8 < halved.half.sd[0] < 1.3
    assert f"{halved.num_lost} pairs of chains are lost" in repr(halved)
    assert not halved.is_cut  # they diverged in the burn-in, and are fewer than half


def test_no_step_is_right_where_a_part_may_be_cut_off():
    right = judged(extrapolation(1.001, 0.001), num_lost=2)
    assert right.outcome == "right"
    assert "; 2 pairs of chains are lost" in right.text
    cut = judged(extrapolation(1.001, 0.001), num_lost=2, is_cut=True)
    assert cut.outcome == "unsure"
    assert cut.text.startswith("2 pairs of chains are lost, and a part of the posterior")
    assert judged(extrapolation(1.2, 0.001), num_lost=2, is_cut=True).outcome == "wrong"


def test_a_dynamics_of_ones_own_that_says_its_order_is_taken(x64):
    """Langevin dynamics typed anew, two normals a coordinate, one part of state: its own law."""
    kernel = ewsg.kernel(Doubled(**ewsg.hyperparameters(step_size=0.2)), ewsg.gradients.full(MODEL))
    weights = np.array(coupled(kernel).weights)
    np.testing.assert_allclose(weights @ weights.T, np.eye(2), atol=1e-12)
    data = jnp.linspace(-1.0, 1.0, 5)[:, None]
    halved = ewsg.halve(
        jax.random.key(6), kernel, jnp.zeros(1), data, 2_000, num_chains=64, progress=False
    )
    lam = 5 / 1.3**2
    for found, h in ((halved.whole, 0.2), (halved.half, 0.1)):
        expected = (lam * (1 - h * lam / 2)) ** -0.5
        assert abs(found.sd[0] - expected) < CHANCE * found.sd_error[0]
    assert halved.gain > 20


class DoubledState(NamedTuple):
    position: Any
    step: Any


@ewsg.module
class Doubled(ewsg.dynamics.Dynamics):
    bias_order = 1

    step_size: Any

    def init(self, key, position):
        return DoubledState(position, jnp.int32(0))

    def draw(self, key, state):
        keys = jax.random.split(key)
        return tuple(
            jax.random.normal(own, state.position.shape, state.position.dtype) for own in keys
        )

    def apply(self, noise, prepared, estimate, gradient_at):
        h = self.step_size(prepared.step)
        moved = prepared.position - h * estimate.gradient + jnp.sqrt(h) * (noise[0] + noise[1])
        return DoubledState(moved, prepared.step + 1)


def test_a_run_that_is_interrupted_says_nothing(monkeypatch):
    run = lambda *given, **options: replace(ewsg.sample(*given, **options), interrupted=True)
    monkeypatch.setattr("ewsg_jax.halving._halve.sample", run)
    with pytest.raises(KeyboardInterrupt):
        ewsg.halve(jax.random.key(0), ewsg.ld(MODEL, 0.1), jnp.zeros(1), DATA, 100, progress=False)
