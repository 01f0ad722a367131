"""Positions where the density is 0: which they are is known from the support, by NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.model_checks import densities
from ewsg_jax.model_checks.support import Outside
from ewsg_jax.vectors.row_subsets import evenly

pytestmark = pytest.mark.full

RNG = np.random.default_rng(0)
N = 300
Y = RNG.normal(size=N).astype(np.float32)
X = RNG.uniform(0, 2, N).astype(np.float32)


def normal(mean, y):
    return -0.5 * (y - jnp.sum(mean)) ** 2


def walls(inside, log_likelihood=normal):
    return ewsg.Posterior(log_likelihood, lambda p: jnp.where(inside(p), 0.0, -jnp.inf))


def outside(posterior, positions, rows):
    """By few rows, as at the end of a run: the first positions are spread over all."""
    count = jax.tree.leaves(positions)[0].shape[0]
    first = evenly(count, 32)
    order = np.concatenate([first, np.setdiff1d(np.arange(count), first)])
    spread = jax.tree.map(lambda x: x[order], positions)
    found = densities.densities(posterior, spread, densities.some_rows(rows), 32 * 128)
    return Outside.of(~np.isfinite(found.log_prior), ~np.isfinite(found.log_likelihood))


def test_the_share_is_that_of_the_positions():
    positions = np.linspace(-1, 1, 201).astype(np.float32)
    found = outside(walls(lambda p: p > 0), positions, Y)
    assert found.prior == pytest.approx(101 / 201)
    assert found.likelihood == 0
    assert "50.2 % of draws where log_prior is -inf or NaN" in str(found)


@pytest.mark.parametrize("value", [jnp.nan, jnp.inf, -jnp.inf])
def test_what_is_no_number_counts(value):
    posterior = ewsg.Posterior(normal, lambda p: jnp.where(p > 0, 0.0, value))
    assert outside(posterior, np.array([-1.0, 1.0, 2.0, 3.0], np.float32), Y).prior == 0.25


@pytest.mark.parametrize(
    ("inside", "positions", "share"),
    [
        (lambda p: jnp.all(p > 0) & (jnp.sum(p) < 1), RNG.uniform(-0.2, 0.5, (200, 3)), None),
        (lambda p: p[0] < p[1], RNG.normal(size=(200, 2)), None),
        (lambda p: jnp.sum(p**2) < 1, np.full((7, 2), 2.0), 1.0),
        (lambda p: True, RNG.normal(size=(200, 2)), 0.0),
    ],
    ids=["a simplex", "an order", "a ball", "everywhere"],
)
def test_supports_by_where(inside, positions, share):
    expected = (
        1 - np.mean([bool(inside(jnp.asarray(p))) for p in positions]) if share is None else share
    )
    found = outside(walls(inside), positions.astype(np.float32), Y)
    assert found.prior == pytest.approx(expected, abs=1e-12)
    assert bool(found) == (expected > 0)


def test_a_support_that_depends_on_the_data():
    """x uniform on (0, θ): a row above θ has no density."""
    posterior = ewsg.Posterior(
        lambda top, x: jnp.where(x < top, -jnp.log(top), -jnp.inf), lambda top: 0.0
    )
    below, above = np.full(20, 1.0, np.float32), np.full(60, 3.0, np.float32)
    found = outside(posterior, np.concatenate([above, below]), X)
    assert found.prior == 0
    assert found.likelihood == pytest.approx(0.25, abs=0.02)
    assert outside(posterior, above, X) == Outside()


def test_few_positions_few_rows_and_trees():
    posterior = ewsg.Posterior(
        lambda p, row: -0.5 * (row["y"] - p["m"]) ** 2 / p["s"] ** 2 - jnp.log(p["s"]),
        lambda p: jnp.where(p["s"] > 0, -p["s"], -jnp.inf),
    )
    positions = {"m": np.zeros(3, np.float32), "s": np.array([1.0, -1.0, 2.0], np.float32)}
    found = outside(posterior, positions, {"y": Y[:2]})
    assert (found.prior, found.likelihood) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    # log of a scale below 0 is NaN; both are evaluated.
    assert str(found).count("33.3 %") == 2


def test_the_potential_is_that_of_the_rows():
    positions = RNG.normal(size=5).astype(np.float32)
    found = densities.densities(
        ewsg.models.gaussian_location(), positions[:, None], Y[:100, None], 10**6
    )
    mean = np.mean(-0.5 * (Y[:100] - positions[:, None]) ** 2, axis=1) - 0.5 * np.log(2 * np.pi)
    expected = -found.log_prior - N * mean
    np.testing.assert_allclose(
        found.potential(N) - expected, found.potential(N)[0] - expected[0], atol=1e-2
    )


def test_one_program_serves_all_numbers_of_positions(caplog):
    posterior = walls(lambda p: p > 0)
    with jax.log_compiles():
        for count in (1, 7, 256, 1_000):
            outside(posterior, np.ones(count, np.float32), Y)
    assert caplog.text.count("Finished XLA compilation of jit(_evaluated)") <= 1


def test_a_large_position_is_evaluated_fewer_times():
    assert densities.sizes(10**6, np.zeros((4, 10))) == (256, 32, 128)
    assert densities.sizes(500, np.zeros((4, 10)))[1:] == (4, 32)
    most, few, _ = densities.sizes(10**6, np.zeros((1, 10**6)))
    assert most * 10**6 <= densities.limits.NUMBERS_AT_ONCE
    assert few == 4


def test_any_number_of_positions_takes_one_program():
    posterior = ewsg.Posterior(
        lambda p, row: -0.5 * (row - p["a"]) ** 2, lambda p: -0.5 * jnp.sum(p["b"] ** 2)
    )
    rows, rng = jnp.arange(5.0), np.random.default_rng(0)
    before = densities._priors._cache_size(), densities._likelihoods._cache_size()
    for count in (1, 8, 21):
        p = {"a": rng.normal(size=count), "b": rng.normal(size=(count, 2))}
        p = jax.tree.map(lambda x: x.astype(np.float32), p)
        expected = -0.5 * (p["b"] ** 2).sum(1) - 0.5 * ((rows - p["a"][:, None]) ** 2).sum(1)
        values = densities.log_densities(posterior, p, rows)
        np.testing.assert_allclose(values, expected, rtol=1e-6)
    after = densities._priors._cache_size(), densities._likelihoods._cache_size()
    assert after == (before[0] + 1, before[1] + 1)
