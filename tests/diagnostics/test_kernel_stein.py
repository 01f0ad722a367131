"""Kernel Stein discrepancy and thinning by it: kernels by autodiff, and quadrature."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.check.draws import draws_of
from ewsg_jax.answers.check.gradients import fresh_gradients
from ewsg_jax.answers.check.stein import blocks_of
from ewsg_jax.diagnostics import _kernel_stein as kernel_stein
from ewsg_jax.diagnostics import kernel_stein_discrepancy, stein_thinning
from ewsg_jax.diagnostics._kernel_stein import SteinKernel

KEY = jax.random.key(0)
RNG = np.random.default_rng(5)
X = RNG.normal(size=(60, 2)) @ [[1.0, 0.7], [0.0, 0.5]]
ROWS = {"x": X, "y": (RNG.random(60) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)}
LOGISTIC = ewsg.models.logistic_regression(prior_scale=1.0)
MODE = ewsg.find_mode(KEY, LOGISTIC, jnp.zeros(2), ROWS)
DRAWS = (MODE.position + RNG.normal(size=(3, 24, 2)) * [0.5, 0.9]).astype(np.float32)
NORMAL, ONE_ROW = ewsg.models.gaussian_location(), np.zeros((1, 1), np.float32)
UNIT = ewsg.find_mode(KEY, NORMAL, jnp.zeros(1), ONE_ROW)
"""The target N(0, 1), and a metric that is 1."""


def by_autodiff(u, v, g, h, scale):
    """The Stein operator in both arguments, float64: traces and gradients by JAX."""

    def k(a, b):
        return (scale**2 + jnp.sum((a - b) ** 2)) ** -0.5

    with jax.enable_x64(True):
        u, v, g, h = (jnp.asarray(x, jnp.float64) for x in (u, v, g, h))
        mixed = jax.jacfwd(jax.grad(k, 0), 1)(u, v)
        return float(
            jnp.trace(mixed)
            - jax.grad(k, 0)(u, v) @ h
            - jax.grad(k, 1)(u, v) @ g
            + k(u, v) * (g @ h)
        )


def scores_of(draws, temperature=1.0, mode=MODE):
    """Draws and ∇V/T of the logistic posterior in the metric of its mode, typed out in NumPy."""
    flat = np.asarray(draws, np.float64).reshape(-1, 2)
    residual = 1 / (1 + np.exp(-flat @ X.T)) - ROWS["y"]
    slopes = (flat + residual @ X) / temperature
    root = np.linalg.cholesky(temperature * np.asarray(mode.covariance))
    return np.linalg.solve(root, (flat - np.asarray(mode.position)).T).T, slopes @ root


def gram(draws, scale=1.0, temperature=1.0, mode=MODE):
    """All of the Stein kernel, pair by pair."""
    u, h = scores_of(draws, temperature, mode)
    pairs = range(len(u))
    return np.array([[by_closed_form(u[i], u[j], h[i], h[j], scale) for j in pairs] for i in pairs])


def by_closed_form(u, v, g, h, scale):
    """The same as by automatic differentiation, one pair at a time (which a test compares)."""
    r = u - v
    q = scale**2 + r @ r
    return len(u) * q**-1.5 - 3 * (r @ r) * q**-2.5 - r @ (g - h) * q**-1.5 + g @ h * q**-0.5


@pytest.mark.usual_parameters("3-0.6")
@pytest.mark.parametrize(("d", "scale"), [(1, 1.0), (3, 0.6)])
def test_the_stein_kernel_by_automatic_differentiation(d, scale):
    u, h = RNG.normal(size=(2, 5, d))
    kernel = SteinKernel(u, h, scale)
    right = [[by_autodiff(u[i], u[j], h[i], h[j], scale) for j in range(5)] for i in range(5)]
    np.testing.assert_allclose(
        kernel.between(slice(None), slice(None)), right, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        kernel.between(slice(1, 3), slice(2, 5)), np.array(right)[1:3, 2:5], rtol=1e-9
    )
    np.testing.assert_allclose(kernel.diagonal, np.diag(right), rtol=1e-9)
    np.testing.assert_allclose(
        by_closed_form(u[0], u[1], h[0], h[1], scale), right[0][1], rtol=1e-9
    )


def test_the_stein_kernel_has_mean_zero_under_the_target():
    """∫ κ(x, y) N(y; 0, 1) dy = 0 for every x, by quadrature."""
    y = np.linspace(-12, 12, 2001)
    law = np.exp(-(y**2) / 2) / np.sqrt(2 * np.pi) * (y[1] - y[0])
    x = np.array([-2.0, 0.0, 0.3, 4.0])
    both = np.concatenate([x, y])[:, None]
    means = SteinKernel(both, both, 1.0).between(slice(0, 4), slice(4, None)) @ law
    np.testing.assert_allclose(means, 0, atol=1e-10)
    wrong = SteinKernel(both, 0.9 * both, 1.0).between(slice(0, 4), slice(4, None)) @ law
    assert np.abs(wrong).min() > 1e-3


def expected(mean, sd):
    """E κ(X, Y) of X, Y ~ N(mean, sd²), target N(0, 1): E δ(X) k(X, Y) δ(Y), δ = s_p − s_q."""
    y = np.linspace(-10, 10, 1001)
    law = np.exp(-(y**2) / 2) / np.sqrt(2 * np.pi) * (y[1] - y[0])
    x = mean + sd * y
    delta = law * (-x + (x - mean) / sd**2)
    return delta @ (1 / np.sqrt(1 + (x[:, None] - x) ** 2)) @ delta


@pytest.mark.full
@pytest.mark.parametrize(("mean", "sd"), [(0.4, 1.0), (0.0, 1.5), (-0.3, 0.7)])
def test_its_expectation_under_another_law(mean, sd):
    """The kernel's mean over a grid is the closed form's; exact draws' within its error."""
    y = np.linspace(-10, 10, 1001)
    law = np.exp(-(y**2) / 2) / np.sqrt(2 * np.pi) * (y[1] - y[0])
    x = (mean + sd * y)[:, None]
    whole = slice(None)
    right = expected(mean, sd)
    assert law @ SteinKernel(x, x, 1.0).between(whole, whole) @ law == pytest.approx(
        right, rel=1e-8
    )
    draws = mean + sd * np.random.default_rng(1).normal(size=(4, 500, 1))
    for temperature in (1.0, 4.0):
        found = kernel_stein_discrepancy(
            KEY, draws * temperature**0.5, NORMAL, ONE_ROW, mode=UNIT, temperature=temperature
        )
        assert abs(found.squared - right) < 4 * found.error < 0.5 * right
        assert found.p_value < 0.01
        assert found.value == pytest.approx(found.squared**0.5)


@pytest.mark.parametrize("temperature", [1.0, 2.5])
def test_against_all_pairs(monkeypatch, temperature):
    """The mean over pairs of different draws, and its jackknife over blocks, whatever the tiles."""
    pairs = gram(DRAWS, 0.8, temperature) * (1 - np.eye(72))
    whole = kernel_stein_discrepancy(
        KEY, DRAWS, LOGISTIC, ROWS, mode=MODE, scale=0.8, temperature=temperature
    )
    monkeypatch.setattr(kernel_stein, "TILE", 7)
    found = kernel_stein_discrepancy(
        KEY, DRAWS, LOGISTIC, ROWS, mode=MODE, scale=0.8, temperature=temperature
    )
    assert found.squared == pytest.approx(whole.squared, rel=1e-12)
    assert found.p_value == whole.p_value
    assert found.squared == pytest.approx(pairs.sum() / (72 * 71), rel=1e-4)
    blocks = np.array_split(np.arange(72), found.num_blocks)
    assert {len(block) for block in blocks} == {72 // found.num_blocks}
    left = [np.delete(np.arange(72), block) for block in blocks]
    without = np.array([pairs[np.ix_(i, i)].sum() / (len(i) * (len(i) - 1)) for i in left])
    error = np.sqrt((len(left) - 1) * without.var())
    assert found.error == pytest.approx(error, rel=1e-3)
    assert (found.num_draws, found.data_passes) == (72, 72.0)


@pytest.mark.full
def test_the_draws_own_metric_does_not_know_units():
    """Of draws and rows in other units and turned: the same."""
    plain = kernel_stein_discrepancy(KEY, DRAWS, NORMAL, X.astype(np.float32))
    turned = np.array([[3.0, 1.0], [-0.5, 0.2]])
    precision = np.linalg.inv(turned @ turned.T)
    posterior = ewsg.Posterior(lambda w, x: -0.5 * (w - x) @ precision @ (w - x), lambda w: 0.0)
    moved = kernel_stein_discrepancy(KEY, DRAWS @ turned.T, posterior, X @ turned.T)
    assert moved.squared == pytest.approx(plain.squared, rel=1e-3)


@pytest.mark.full
def test_a_metric_of_widths_where_draws_are_few():
    """With fewer than four draws for each number and one more, coordinate by coordinate."""
    draws = (
        RNG.normal(size=(2, 24, 12))
        * np.linspace(0.2, 3, 12)
        @ np.linalg.qr(RNG.normal(size=(12, 12)))[0]
    )
    found = kernel_stein_discrepancy(KEY, draws, NORMAL, np.zeros((1, 12), np.float32))
    flat = draws.reshape(-1, 12)
    u, h = (flat - flat.mean(0)) / flat.std(0), flat * flat.std(0)
    pairs = [
        by_closed_form(u[i], u[j], h[i], h[j], 1.0) for i in range(48) for j in range(48) if i != j
    ]
    assert found.squared == pytest.approx(np.mean(pairs), rel=1e-4)


@pytest.mark.full
def test_noise_of_gradients_does_not_bias_it():
    """The mean over many keys is that with all rows."""
    whole = kernel_stein_discrepancy(KEY, DRAWS, LOGISTIC, ROWS, batch_size=None)
    found = [
        kernel_stein_discrepancy(key, DRAWS, LOGISTIC, ROWS, batch_size=4)
        for key in jax.random.split(KEY, 40)
    ]
    values = np.array([each.squared for each in found])
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - whole.squared) < 4 * error
    assert found[0].data_passes == pytest.approx(2 * 72 * 2 / 60 + 1)
    twice = draws_of(np.concatenate([DRAWS, DRAWS]), None, 10**4)
    noisy = fresh_gradients(
        KEY, LOGISTIC, twice, jax.tree.map(jnp.asarray, ROWS), 4, None, 1.0
    ).mean
    exact = fresh_gradients(
        KEY, LOGISTIC, twice, jax.tree.map(jnp.asarray, ROWS), 60, None, 1.0
    ).mean
    noise = (noisy - exact).reshape(2, 72, 2) * twice.flat.std(0)
    # There is noise, and draws at one place do not have it in common.
    assert np.sum(noise**2, 2).mean() > 20 * error
    assert abs(np.sum(noise[0] * noise[1])) < 0.3 * np.sum(noise[0] ** 2)


@pytest.mark.full
def test_p_values_of_right_draws():
    """At most as often below 10 % as chance in 100 runs, independent draws and chains."""
    rng, runs = np.random.default_rng(2), 100
    for memory in (0.0, 0.7):
        low = 0
        for _ in range(runs):
            draws, here = [], rng.normal(size=(4, 1))
            for noise in rng.normal(size=(100, 4, 1)):
                here = memory * here + (1 - memory**2) ** 0.5 * noise
                draws.append(here)
            draws = np.stack(draws, 1)
            low += kernel_stein_discrepancy(KEY, draws, NORMAL, ONE_ROW, mode=UNIT).p_value < 0.1
        assert 1 <= low <= 24, (memory, low)  # Binomial(100, 0.1): beyond 24 once in 10⁵


def test_thinning_is_the_greedy_choice():
    draws = DRAWS[:1, :12]
    pairs, chosen, after = gram(draws), [], []
    for _ in range(15):
        sums = [pairs[np.ix_([*chosen, i], [*chosen, i])].sum() for i in range(12)]
        chosen.append(int(np.argmin(sums)))
        after.append(np.sqrt(min(sums)) / len(chosen))
    few = stein_thinning(KEY, draws, LOGISTIC, ROWS, 15, mode=MODE)
    assert few.draw.tolist() == chosen
    assert few.chain.tolist() == [0] * 15
    np.testing.assert_allclose(few.discrepancy, after, rtol=1e-4)
    assert "15 of 12 draws" in str(few)


@pytest.mark.full
def test_thinning_of_a_lost_chain_and_of_shared_batches():
    """Numbers are those in the samples; of a run that lost a chain, in any order of rows."""
    kernel = ewsg.sgld(LOGISTIC, 1e-2, batch_size=8)
    samples = ewsg.sample(KEY, kernel, jnp.zeros(2), ROWS, 20, num_chains=3)
    lost = dataclasses.replace(
        samples, diverged_at=np.array([-1, 3, -1]), shared_minibatch=False, draws=samples.draws
    )
    shared = dataclasses.replace(lost, shared_minibatch=True)
    kept = samples.draws[[0, 2]]
    right = stein_thinning(KEY, kept, LOGISTIC, ROWS, 6).of(kept)
    for each in (lost, shared):
        few = stein_thinning(KEY, each, LOGISTIC, ROWS, 6)
        assert set(few.chain.tolist()) <= {0, 2}
        assert few.num_draws == 40
        np.testing.assert_array_equal(few.of(each), right)
    alone, together = (
        kernel_stein_discrepancy(KEY, each, LOGISTIC, ROWS) for each in (lost, shared)
    )
    assert together.squared == pytest.approx(alone.squared, rel=1e-6)
    of_time = blocks_of(lost.draws[[0, 2]].astype(float), True).number
    assert together.num_blocks == of_time


@pytest.mark.full
def test_every_so_many_draws_and_trees():
    """A tree gives what an array gives; draws beyond `max_draws` are thinned, numbers kept."""
    posterior = ewsg.Posterior(
        lambda p, x: -0.5 * ((p["a"] - x[0]) ** 2 + (p["b"] - x[1]) ** 2), lambda p: 0.0 * p["a"]
    )
    rows = X.astype(np.float32)
    draws = RNG.normal(size=(2, 100, 2)).astype(np.float32)
    tree = {"a": draws[..., 0], "b": draws[..., 1]}
    one = kernel_stein_discrepancy(KEY, draws, NORMAL, rows)
    assert kernel_stein_discrepancy(KEY, tree, posterior, rows).squared == pytest.approx(
        one.squared, rel=1e-5
    )
    few = stein_thinning(KEY, tree, posterior, rows, 10, max_draws=64)
    assert few.num_draws == 64
    kept = np.unique(np.linspace(0, 99, 32).astype(int))
    again = stein_thinning(KEY, draws[:, kept], NORMAL, rows, 10)
    np.testing.assert_array_equal(few.draw, kept[again.draw])
    np.testing.assert_array_equal(few.of(tree)["b"], draws[few.chain, few.draw, 1])


def test_float64():
    with jax.enable_x64(True):
        mode = ewsg.find_mode(KEY, LOGISTIC, jnp.zeros(2, jnp.float64), ROWS)
        found = kernel_stein_discrepancy(KEY, DRAWS.astype(np.float64), LOGISTIC, ROWS, mode=mode)
    pairs = gram(DRAWS, mode=mode) * (1 - np.eye(72))
    assert found.squared == pytest.approx(pairs.sum() / (72 * 71), rel=1e-9)
