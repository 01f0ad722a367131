"""A mass from a pilot's draws: only where they differ from the curvature by over their error."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base.factors import factor_of
from ewsg_jax.diagnostics._inverse_mass import _eigen, _population_variance
from ewsg_jax.dynamics import LowRank

pytestmark = pytest.mark.full

D = 6
RNG = np.random.default_rng(5)
ROOT = RNG.normal(size=(D, D)) + 3 * np.eye(D)
DENSE = ROOT @ ROOT.T
BASIS = np.linalg.qr(RNG.normal(size=(D, 2)))[0]
LOW = LowRank(np.linspace(0.5, 4.0, D), BASIS, np.array([9.0, 0.2]))
GIVEN = {"dense": DENSE, "diagonal": np.linspace(0.5, 4.0, D), "low rank": LOW}


def matrix_of(given):
    """What an inverse mass is, as a matrix: L Lᵀ of its factor."""
    with jax.enable_x64(True):
        factor = factor_of(
            jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), given), "inverse_mass"
        )
        L = np.stack([factor.times(row) for row in jnp.eye(D)], axis=1)
    return L @ L.T


def chains(rng, num_chains, num_draws, d, memory=0.0, widths=1.0):
    """Draws of N(0, diag(widths²)), each chain an autoregression that forgets by this factor."""
    noise = rng.normal(size=(num_draws + 1, num_chains, d))
    x = [noise[0]]
    for step in noise[1:]:
        x.append(memory * x[-1] + np.sqrt(1 - memory**2) * step)
    return np.stack(x[1:], axis=1) * widths


@functools.cache
def run():
    """A run, whose draws are exchanged for made ones."""
    kernel = ewsg.ld(ewsg.models.gaussian_location(), 1e-3)
    return ewsg.sample(jax.random.key(0), kernel, jnp.zeros(2), jnp.ones((4, 2)), 4)


def found(draws, covariance, **options):
    return ewsg.diagnostics.inverse_mass(
        dataclasses.replace(run(), draws=draws), covariance, **options
    )


@pytest.mark.usual_parameters("diagonal", "low rank")
@pytest.mark.parametrize("kind", GIVEN)
def test_draws_of_the_covariance_leave_it_as_it_is(x64, kind):
    C = matrix_of(GIVEN[kind])
    draws = chains(np.random.default_rng(0), 4, 500, D) @ np.linalg.cholesky(C).T
    jax.tree.map(np.testing.assert_array_equal, found(draws, GIVEN[kind]), GIVEN[kind])


@pytest.mark.parametrize("kind", GIVEN)
def test_directions_that_differ_are_corrected_and_no_others(x64, kind):
    """One of thrice the width, one of a third: within 4 standard errors; others exactly 1."""
    C = matrix_of(GIVEN[kind])
    L = np.linalg.cholesky(C)
    axes = np.linalg.qr(np.random.default_rng(1).normal(size=(D, D)))[0]
    true = np.array([9.0, 1 / 9, 1, 1, 1, 1])
    n = 4 * 4_000
    draws = chains(np.random.default_rng(2), 4, 4_000, D, widths=np.sqrt(true)) @ axes.T @ L.T
    made = found(draws, GIVEN[kind])
    assert isinstance(made, LowRank) == (kind != "dense")
    inverse = np.linalg.inv(L)
    white = axes.T @ inverse @ matrix_of(made) @ inverse.T @ axes
    np.testing.assert_allclose(np.diag(white)[:2], true[:2], rtol=4 * np.sqrt(2 / n) + 0.01)
    # Two directions were changed, by an error that is of order √(d/n) in their place.
    np.testing.assert_allclose(white, np.diag(true), atol=9 * 4 * np.sqrt(D / n) / 3)
    values = np.linalg.eigvalsh(inverse @ matrix_of(made) @ inverse.T)
    np.testing.assert_allclose(values[1:5], 1, atol=1e-9)


@pytest.mark.parametrize(
    ("true", "ratio"), [(0.05, 0.02), (0.2, 0.5), (4.0, 0.02), (4.0, 2.0), (30.0, 0.5), (30.0, 2.0)]
)
def test_the_eigenvalue_of_a_spike_gives_the_spike(true, ratio):
    """λ = ℓ + (d/n) ℓ/(ℓ − 1), for those that stand out: |ℓ − 1| > √(d/n)."""
    assert _population_variance(true + ratio * true / (true - 1), ratio) == pytest.approx(true)


@pytest.mark.full
def test_a_spread_that_is_of_few_draws_is_taken_off(x64):
    """400 draws in 200 dimensions: a variance of 5 shows as 5 + (200/400) 5/4, and comes back."""
    d, n, got = 200, 400, []
    for seed in range(20):
        draws = chains(
            np.random.default_rng(seed),
            2,
            n // 2,
            d,
            widths=np.where(np.arange(d) == 0, 5**0.5, 1.0),
        )
        made = found(draws, np.ones(d))
        assert made.values.shape == (1,)
        got.append(made.values[0])
    assert abs(np.mean(got) - 5) < 4 * 5 * np.sqrt(2 / n / len(got)) < 0.6


def test_eigenvectors_of_more_numbers_than_draws():
    flat = np.random.default_rng(4).normal(size=(4, 9))
    values, vectors = _eigen(flat)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(4), atol=1e-12)
    np.testing.assert_allclose((vectors * values) @ vectors.T, flat.T @ flat / 4, atol=1e-12)


CASES = [
    (4, 250, 1, 0.0),
    (4, 250, 5, 0.5),
    (2, 25, 60, 0.5),
    (8, 100, 50, 0.9),
    (4, 100, 20, 0.97),
]


def changed(num_chains, num_draws, d, memory, seeds, **options):
    """In how many runs whose draws are of I it is not left as it is."""
    C = np.eye(d, dtype=np.float32)
    made = lambda seed: chains(
        np.random.default_rng(seed), num_chains, num_draws, d, memory
    ).astype(np.float32)
    return sum(not np.array_equal(found(made(seed), C, **options), C) for seed in range(seeds))


@pytest.mark.parametrize(("num_chains", "num_draws", "d", "memory"), CASES)
def test_few_or_correlated_draws_of_it_leave_it_as_it_is(num_chains, num_draws, d, memory):
    """Their covariance has eigenvalues of 0.09 to 4.4 where all are 1."""
    assert changed(num_chains, num_draws, d, memory, 8) == 0


@pytest.mark.sweep
@pytest.mark.parametrize("error_rate", [0.01, 0.1])
@pytest.mark.parametrize(("num_chains", "num_draws", "d", "memory"), CASES)
def test_false_alarms_are_as_rare_as_is_said(num_chains, num_draws, d, memory, error_rate):
    """Of 200 runs no more than the rate, and 4 standard errors."""
    most = 200 * error_rate + 4 * np.sqrt(200 * error_rate * (1 - error_rate))
    assert changed(num_chains, num_draws, d, memory, 200, error_rate=error_rate) <= most


def test_chains_that_do_not_agree_say_nothing():
    """Their spread is where they are, not the posterior's."""
    draws = chains(np.random.default_rng(0), 4, 400, 2, 0.2) + 10 * np.arange(4)[:, None, None]
    np.testing.assert_array_equal(found(draws, np.eye(2)), np.eye(2))


def test_a_tree_and_the_next_run():
    """In leaf order; in a kernel its noise is then ten times as wide in that coordinate."""
    posterior = ewsg.Posterior(
        lambda p, row: 0.0 * row, lambda p: -0.5 * (p["a"] ** 2 / 100 + jnp.sum(p["b"] ** 2))
    )
    rng = np.random.default_rng(3)
    draws = {
        "a": chains(rng, 4, 500, 1, widths=10.0)[..., 0].astype(np.float32),
        "b": chains(rng, 4, 500, 3).astype(np.float32),
    }
    made = found(draws, {"a": np.float32(1.0), "b": np.ones(3, np.float32)})
    assert made.basis.shape == (4, 1)
    np.testing.assert_allclose(np.abs(made.basis[:, 0]), [1, 0, 0, 0], atol=0.05)
    np.testing.assert_allclose(made.values, 100, rtol=0.2)
    kernel = ewsg.ld(posterior, 0.1, inverse_mass=made)
    start = {"a": jnp.float32(10.0), "b": jnp.zeros(3)}
    data = jnp.zeros(2)
    moved, _ = kernel.step(jax.random.key(0), kernel.init(jax.random.key(0), start, data), data)
    assert abs(float(moved.position["a"]) - 10.0) > 0.3
