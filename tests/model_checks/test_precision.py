"""A likelihood that is NaN in float32 and finite in float64 says so at each door, with the cure."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.model_checks.not_finite import not_finite
from ewsg_jax.model_checks.precision import lost_to_rounding
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.potential import PotentialSpec

X = np.linspace(-3.0, 3.0, 30)  # float64
Y = jnp.sin(X)[None]
START = {"scale": jnp.zeros(()), "z": jnp.full(30, 0.1)}
WHY = (
    r"log_likelihood is NaN on all rows in float32, and finite in float64: enable x64 .* or add a "
    r"larger jitter to the diagonal"
)


def kernel_model(jitter, x=X):
    """Values of a Gaussian process at 30 places, with the Cholesky factor of their covariance."""

    def log_likelihood(p, y):
        square = ((x[:, None] - x) * jnp.exp(-p["scale"])) ** 2
        root = jnp.linalg.cholesky(jnp.exp(-0.5 * square) + jitter * jnp.eye(30))
        return -0.5 * jnp.sum((y - root @ p["z"]) ** 2) / 0.1**2

    return ewsg.Posterior(log_likelihood, lambda p: -0.5 * (p["scale"] ** 2 + jnp.sum(p["z"] ** 2)))


LOST, KEPT = kernel_model(1e-10), kernel_model(1e-4)
CLOSED_OVER = kernel_model(1e-10, jnp.asarray(X, jnp.float32))


def test_rounding_is_told_from_what_is_nan_in_float64_too():
    (found,) = lost_to_rounding(LOST, START, Y)
    assert re.search(WHY, str(found))
    (found,) = lost_to_rounding(CLOSED_OVER, START, Y)
    assert "float32, in which a matrix whose Cholesky factor it takes may not be" in found.text
    assert "jitter" in found.cure
    assert lost_to_rounding(KEPT, START, Y) == []
    no_root = ewsg.Posterior(lambda p, y: jnp.sum(y) * jnp.log(-1 - p**2), lambda p: 0.0)
    assert lost_to_rounding(no_root, jnp.zeros(()), Y) == []
    # exp(100) overflows in float32 alone, and no matrix is factored.
    overflow = ewsg.Posterior(
        lambda p, y: jnp.exp(100 * p) - 2 * jnp.exp(100 * p) + 0 * jnp.sum(y), lambda p: 0.0
    )
    (found,) = lost_to_rounding(overflow, jnp.ones(()), Y)
    assert "jitter" not in found.cure


def test_what_is_not_finite_is_said_with_the_cure():
    layout, flat = Layout.of(START), vector(START)
    said = not_finite(PotentialSpec(LOST, layout, 100, False), flat, Y)
    assert re.fullmatch(WHY + r".*", said)
    assert not_finite(PotentialSpec(LOST, layout, 100, True), flat, Y) == ""


@pytest.mark.full
def test_a_check_says_so():
    draws = jax.tree.map(
        lambda x: np.random.default_rng(0).normal(size=(2, 8, *x.shape)).astype(np.float32) / 10,
        START,
    )
    with pytest.raises(ValueError, match=r"where it has none: " + WHY):
        ewsg.check(jax.random.key(0), draws, LOST, Y)


@pytest.mark.full
def test_a_run_says_so_and_names_no_array_without_effect():
    kernel = ewsg.ld(LOST, 1e-3)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ewsg.sample(jax.random.key(0), kernel, START, Y, 10, num_chains=2)
    first, last = (str(each.message) for each in told)
    assert re.search(WHY, first)
    assert "in float64 it is finite" in last
    assert "larger jitter" in last


@pytest.mark.full
def test_a_plan_says_so():
    with pytest.raises(
        ValueError, match="the dtypes of its positions hold; got one with which " + WHY
    ):
        ewsg.plan(jax.random.key(0), LOST, START, Y, progress=False)
