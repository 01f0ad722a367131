"""What halving says: exact moments in, and runs whose laws are known by quadrature."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ewsg_jax as ewsg
from ewsg_jax.answers.halve import estimates
from ewsg_jax.answers.halve.coupled import coupled
from ewsg_jax.answers.halve.estimates import Estimated
from ewsg_jax.kernels.in_coordinates import InCoordinates
from tests.answers.halve.pairs import MODEL, dynamics_of, known_pairs, of_ones_own
from tests.answers.halve.test_order import SKEWED, skewed_moments, truth

pytestmark = pytest.mark.full

DATA = jnp.linspace(-1.0, 1.0, 40)[:, None]
CHANCE = 4.9
"""Standard errors that chance exceeds once in a million times."""


def formulas(averages, p):
    """Means and sds of all laws, in their order, of the averages over pairs of one coordinate."""
    mean, apart, whole, half = averages
    at_h, right = mean + apart, (p * mean - (mean + apart)) / (p - 1)
    sds, sd = jnp.sqrt(jnp.array([whole, half])), jnp.sqrt((p * half - whole) / (p - 1))
    estimates = [
        (at_h, sds[0]),
        (mean, sds[1]),
        (apart, sds[0] - sds[1]),
        (right, sd),
        ((at_h - right) / sd, sds[0] / sd),
        ((mean - right) / sd, sds[1] / sd),
    ]
    return jnp.array(estimates)


@pytest.mark.parametrize("order", [1, 2])
def test_laws_are_those_of_the_moments_and_errors_those_of_pairs(x64, order):
    """The errors against the spread over pairs of the formulas' linear parts."""
    rng, count = np.random.default_rng(0), 300
    mean, apart = rng.normal(size=(count, 3)), 0.2 * rng.normal(size=(count, 3))
    half = rng.gamma(50.0, 0.1, size=(count, 3))
    pairs = np.stack([mean, apart, half * rng.normal(1.2, 0.1, size=(count, 3)), half])
    found = estimates.extrapolated(pairs, order)
    # Chains differ by their means too, around a mean that is estimated: by n − 1.
    np.testing.assert_allclose(found["fine"].value[1] ** 2, half.mean(0) + mean.var(0, ddof=1))
    between = [m - m.mean(0) for m in (mean + apart, mean)]
    spread = [v + off**2 * count / (count - 1) for v, off in zip(pairs[2:], between, strict=True)]
    each = np.stack([mean, apart, *spread])
    for i in range(3):
        averages, off = each[..., i].mean(1), each[..., i] - each[..., i].mean(1, keepdims=True)
        value, chance = (np.array([law[k][:, i] for law in found.values()]) for k in (0, 1))
        np.testing.assert_allclose(value, formulas(averages, 2.0**order), rtol=1e-10)
        linear = np.asarray(jax.jacfwd(formulas)(averages, 2.0**order)) @ off
        np.testing.assert_allclose(chance, linear.std(-1, ddof=1) / count**0.5, rtol=0.05)


def test_the_gain_is_that_over_independent_runs():
    rng = np.random.default_rng(2)
    mean, apart = rng.normal(size=(4_000, 2)), 0.1 * rng.normal(size=(4_000, 2))
    # Of variances it is more, and the less counts.
    variance = rng.gamma(5.0, 100.0, size=(4_000, 1)) * np.ones((1, 2))
    found = estimates.extrapolated(np.stack([mean, apart, 1.001 * variance, variance]), 1)
    assert estimates.gain_of(found) == pytest.approx((1 + 1 + 0.01) / 0.01, rel=0.15)


def test_rhat_is_that_of_arviz():
    from arviz_stats.base import array_stats

    draws = np.random.default_rng(3).normal(size=(6, 400, 2)) + 0.3 * np.arange(6)[:, None, None]

    def part(values):
        mean, variance = values.mean(1), values.var(1)
        return np.stack([mean, 0 * mean, variance, variance])

    found = estimates.rhat_of_halves(part(draws[:, :200]), part(draws[:, 200:]), 200)
    expected = max(
        array_stats.rhat(draws[..., i], chain_axis=0, draw_axis=1, method="split") for i in range(2)
    )
    assert found == pytest.approx(float(expected), rel=1e-12)


def bias_of(ratio, chance, shift=0.0, shift_chance=0.0, beyond=0.0):
    return Estimated(*np.array([[[shift], [ratio]], [[shift_chance], [chance]], [[0.0], [beyond]]]))


def judged(bias):
    names = ("a",) * bias.value.shape[1]
    return estimates.judge_step(
        bias, names, 32, estimates.tolerable_step(bias, 0.1, 1, 0.05), 0.05, 0.02
    )


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
        (
            (1.1, 0.04),
            "unsure",
            "2 tolerances off, ± 0.8 by Monte Carlo error and 0 by what",
        ),
        ((1.04, 0.02), "unsure", "may leave. Run longer"),
        ((1.0, 0.01, 0.05, 0.04), "unsure", "the mean of a is 0.5 tolerances off, ± 0.4"),
        ((1.04, np.inf), "unsure", "may leave. Run longer"),
        ((1.3, 0.005), "wrong", "Take halved.extrapolated, or a step of 0.017"),
        ((1.2, 0.005), "wrong", "Take halved.extrapolated, or a step of 0.025"),
        ((1.1, 0.005, 0.0, 0.0, 0.06), "unsure", "Halve h: more steps do not decide"),
        ((1.2, 0.005, 0.0, 0.0, 0.06), "wrong", "too wide by 20 ± 6 % (a)"),
        ((1.02, 0.005, 0.0, 0.0, 0.025), "unsure", "may leave. Run longer"),
        ((1.02, 0.002, 0.0, 0.0, 0.025), "right", "within tolerance"),
    ],
)
def test_verdicts(numbers, outcome, says):
    told = judged(bias_of(*numbers))
    assert told.outcome == outcome
    assert says in told.text


def test_many_coordinates_make_no_false_alarm():
    """Three standard errors are beyond chance for one coordinate, and not for a hundred."""
    one = bias_of(1.3, 0.1)
    assert judged(one).outcome == "wrong"
    assert judged(Estimated(*np.repeat(one, 100, axis=2))).outcome == "unsure"


def test_a_negative_variance_is_told():
    estimated = estimates.extrapolated(known_pairs(5.0, 1.0), 1)
    assert np.isnan(estimated["extrapolated"].value[1])
    told = judged(estimated["bias"])
    assert told.outcome == "wrong"
    assert "too large to extrapolate" in told.text


def test_errors_at_h_and_at_half_of_it_are_known_though_extrapolation_fails():
    """They are Monte Carlo errors alone: what was sampled is not extrapolated."""
    estimated = estimates.extrapolated(known_pairs(5.0, 1.0), 1)
    for name in ("coarse", "fine", "difference"):
        assert np.isfinite(estimated[name].value).all()
        assert np.isfinite(estimated[name].error).all()


@pytest.mark.parametrize("order", [1, 2])
def test_the_right_step_is_right_to_leading_order(order):
    # 4 times the tolerance: a quarter of the step, or half of it.
    for bias in (bias_of(1.2, 0.005, 0.1, 0.01), bias_of(1.0, 0.005, 0.4, 0.01)):
        right = estimates.tolerable_step(bias, 0.8, order, 0.05)
        assert right == pytest.approx(0.8 / 4 ** (1 / order))


def test_a_skewed_target_is_told_as_it_is(x64, optimised):
    """Moments at h, h/2 and differences against exact laws, within chance; and the truth."""
    kernel = ewsg.kernel(dynamics_of("langevin", 0.2, temperature=1.0), ewsg.gradients.full(SKEWED))
    options = {"num_chains": 400, "burn_in": 100}
    halved = ewsg.halve(
        jax.random.key(5), kernel, jnp.zeros(1), jnp.zeros((1, 1)), 3_000, **options
    )
    (means, variances) = np.transpose([skewed_moments("langevin", h) for h in (0.2, 0.1)])
    sds, mean, sd = variances**0.5, truth()[0], truth()[1] ** 0.5
    for found, expected in (
        (halved.whole, (means[0], sds[0])),
        (halved.half, (means[1], sds[1])),
        (halved.difference, (means[0] - means[1], sds[0] - sds[1])),
        (halved.extrapolated, (2 * means[1] - means[0], (2 * variances[1] - variances[0]) ** 0.5)),
    ):
        assert abs(found.mean[0] - expected[0]) < CHANCE * found.mean_error[0]
        assert abs(found.sd[0] - expected[1]) < CHANCE * found.sd_error[0]
    # Errors are small enough to tell: the bias is many times theirs.
    assert abs(halved.difference.sd[0]) > 20 * halved.difference.sd_error[0]
    assert halved.gain > 20
    # What extrapolation leaves of the bias is of order h², and in its errors.
    assert abs(halved.extrapolated.sd[0] / sd - 1) < abs(halved.whole.sd[0] / sd - 1) / 5
    assert abs(halved.extrapolated.sd[0] - sd) < halved.extrapolated.sd_error[0]
    assert abs(halved.extrapolated.mean[0] - mean) < 0.02
    assert (halved.outcome, halved.num_lost, halved.is_cut) == ("wrong", 0, False)

    text = repr(halved)
    assert text.startswith("Halving: wrong at h: too wide by ")
    assert "400 pairs of chains with h = 0.2 and h/2, 2,900 of 3,000 steps kept" in text
    assert "bias of order h; common noise is worth runs " in text
    assert f"{halved.extrapolated.sd[0]:.4g} ± {halved.extrapolated.sd_error[0]:.2g}" in text
    assert "position[0]" in text
    assert max(map(len, text.splitlines())) < 140


def test_errors_are_those_of_many_runs(optimised):
    """Means of differences of 60 runs spread as their errors say: χ², α = 1e-6 each side."""
    kernel, data = ewsg.sgld(MODEL, 0.03, batch_size=2), jnp.linspace(-2.0, 2.0, 6)[:, None]
    options = {"num_chains": 16, "burn_in": 100}
    runs = [
        ewsg.halve(jax.random.key(seed), kernel, jnp.zeros(1), data, 400, **options).difference
        for seed in range(60)
    ]
    for name in ("mean", "sd"):
        values = np.array([getattr(run, name)[0] for run in runs])
        errors = np.array([getattr(run, f"{name}_error")[0] for run in runs])
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
    key, options = jax.random.key(1), {"num_chains": 8, "burn_in": 20}
    halved = ewsg.halve(key, kernel, start, data, 61, **options)
    paired = lambda key: (start(key), start(key))
    draws = ewsg.sample(key, coupled(kernel), paired, data, 61, **options).draws
    for found, positions in zip((halved.whole, halved.half), draws, strict=True):
        for name, values in positions.items():
            np.testing.assert_allclose(found.mean[name], values.mean((0, 1)), rtol=1e-7)
            variance = values.var(1).mean(0) + values.mean(1).var(0, ddof=1)
            np.testing.assert_allclose(found.sd[name], np.sqrt(variance), rtol=1e-7)
    assert halved.names == ("a[0]", "b[0]", "b[1]")
    assert (halved.num_kept, halved.num_pairs, halved.order) == (41, 8, 1)
    assert halved.data_passes == pytest.approx(61 * 3 * 2 / 10)
    names = ["x", "y", "z"]
    named = ewsg.halve(key, kernel, start, data, 61, num_chains=8, names=names)
    assert named.names == ("x", "y", "z")
    assert named.num_kept == 61 - 15


def test_small_differences_have_their_digits_far_from_0(optimised):
    """At 10⁴ sds in float32, where numbers are 10⁻³ of one apart, they are those at 0."""
    kernel = ewsg.ld(ewsg.models.gaussian_location(noise_scale=40**0.5), 0.3)

    def difference(center):
        start, data = jnp.full(1, center), center + 6 * DATA
        halved = ewsg.halve(jax.random.key(2), kernel, start, data, 4_000)
        return halved.difference.mean[0]

    near, far = difference(0.0), difference(1e4)
    assert abs(near) > 1e-4
    assert far == pytest.approx(near, abs=5e-5)


@pytest.mark.parametrize("burn_in", [100, 0])
def test_pairs_that_are_lost_are_left_out_and_told(burn_in):
    """A potential with a cliff: chains that start beyond it leave for infinity."""
    cliff = ewsg.Posterior(
        lambda p, x: 0.0 * x[0], lambda p: jnp.where(p[0] > 50.0, p[0] ** 4, -0.5 * p[0] ** 2)
    )
    kernel, data = ewsg.ld(cliff, 0.05), jnp.zeros((1, 1))
    start = lambda key: jnp.where(jax.random.uniform(key) < 0.3, 100.0, 0.0)[None]
    options = {"burn_in": burn_in}
    with pytest.warns(RuntimeWarning, match="diverged"):
        halved = ewsg.halve(jax.random.key(3), kernel, start, data, 40_000, **options)
    assert 3 < halved.num_lost < 20
    assert abs(halved.half.sd[0] - 1) < 0.05
    lost = f"{halved.num_lost} of 32 pairs of chains diverged"
    # In the burn-in, fewer than half: the start was bad. Later a part of the law may be cut off.
    assert halved.is_cut == (burn_in == 0)
    assert halved.outcome == ("unsure" if halved.is_cut else "right")
    says = f"{lost}: a part of the posterior" if halved.is_cut else f". {lost}: left out"
    assert says in halved.verdict
    assert "right at h within tolerance" in halved.verdict


def test_chains_that_have_not_converged_tell_nothing():
    kernel = ewsg.ld(ewsg.models.gaussian_location(), 1e-5)
    start = lambda key: 10 * jax.random.normal(key, (1,))
    halved = ewsg.halve(jax.random.key(0), kernel, start, DATA, 1_000, burn_in=0)
    assert halved.outcome == "unsure"
    assert "not converged (R-hat" in halved.verdict


def test_a_dynamics_of_ones_own_that_says_its_order_is_taken(x64, optimised):
    """At a large step: 0.19 is left where 0.21 is right, and the error says so."""
    kernel = ewsg.kernel(of_ones_own(0.25), ewsg.gradients.full(ewsg.models.gaussian_location()))
    options = {"num_chains": 64}
    halved = ewsg.halve(
        jax.random.key(0), kernel, jnp.zeros(1), jnp.zeros((1, 1)), 4_000, **options
    )
    sd, error = halved.extrapolated.sd[0], halved.extrapolated.sd_error[0]
    assert abs(sd - 1.0) > 3 * halved.half.sd_error[0]
    assert abs(sd - 1.0) < error


def test_a_run_that_is_interrupted_says_nothing(monkeypatch):
    run = lambda *given, **options: replace(ewsg.sample(*given, **options), interrupted=True)
    monkeypatch.setattr("ewsg_jax.answers.halve.halve.sample", run)
    with pytest.raises(KeyboardInterrupt):
        ewsg.halve(jax.random.key(0), ewsg.ld(MODEL, 0.1), jnp.zeros(1), DATA, 100)


def test_a_kernel_in_coordinates_has_the_bias_of_its_positions():
    """In units of a third, with one noise: moments of the kernel there, times three."""
    to = ewsg.bijectors.affine(jnp.full(1, 2.0), 9.0)
    inner = ewsg.uld(MODEL.transformed(to), 0.02, friction=1.0)
    kernel = InCoordinates(kernel=inner, posterior=MODEL, bijector=to)
    run = {"num_steps": 400, "num_chains": 8, "progress": False}
    there = ewsg.halve(jax.random.key(0), inner, jnp.zeros(1), DATA, **run)
    halved = ewsg.halve(jax.random.key(0), kernel, jnp.full(1, 2.0), DATA, **run)
    for name in ("coarse", "fine", "extrapolated"):
        one, other = getattr(halved, name), getattr(there, name)
        np.testing.assert_allclose(one.mean, 2 + 3 * other.mean, rtol=1e-4)
        np.testing.assert_allclose(one.sd, 3 * other.sd, rtol=1e-3)
    np.testing.assert_allclose(halved.bias.sd_ratio, there.bias.sd_ratio, rtol=1e-3)
    assert (halved.step_size, halved.order) == (there.step_size, there.order)
