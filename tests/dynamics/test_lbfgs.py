"""The factor of an L-BFGS matrix against dense matrices and the two-loop recursion."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ewsg_jax.dynamics import _lbfgs as lbfgs
from tests.oracles import quasi_newton as oracle

pytestmark = pytest.mark.full


def stack(pairs, size, count, oldest):
    """Pairs in time as a tree of two leaves, the oldest at a place; one number of each alone."""
    turned = np.roll(np.array(pairs).reshape(count, 2, size), oldest, axis=0).swapaxes(0, 1)
    return {"alone": jnp.asarray(turned[..., 0]), "rest": jnp.asarray(turned[..., 1:])}


def tree(vector):
    return {"alone": vector[0], "rest": vector[1:]}


@functools.partial(jax.jit, static_argnames="size")
def both_matrices(pairs, usable, oldest, gamma, size):
    found = lbfgs.factor(pairs, usable, oldest, gamma)
    units = jnp.eye(size)

    def columns(times):
        def column(unit):
            made = times(found, tree(unit))
            return jnp.concatenate([made["alone"][None], made["rest"]])

        return jax.vmap(column)(units).T

    return columns(lbfgs.times), columns(lbfgs.transposed_times)


@pytest.mark.usual_parameters("2", "4")
@pytest.mark.parametrize("memory_size", [2, 3, 4, 5, 6])
def test_factor_is_that_of_the_two_loop_recursion(x64, memory_size):
    """S Sᵀ = H by columns, S the product of dense factors; any pairs left out, at any turn."""
    rng = np.random.default_rng(memory_size)
    size, count = 7, memory_size - 1
    for trial in range(12):
        pairs = rng.normal(size=(count, 2, size)) * np.exp(rng.normal(size=(count, 2, 1)))
        pairs[:, 1] *= np.sign(np.sum(pairs[:, 0] * pairs[:, 1], axis=1))[:, None]
        usable = rng.random(count) < (1.0 if trial < 4 else 0.6)
        pairs[~usable & (rng.random(count) < 0.5), 1] *= -1
        oldest, gamma = int(rng.integers(count)), float(np.exp(rng.normal()))
        root, transposed = both_matrices(
            stack(pairs, size, count, oldest),
            jnp.asarray(np.roll(usable, oldest)),
            jnp.int32(oldest),
            gamma,
            size,
        )
        used = [(s, y) for (s, y), is_used in zip(pairs, usable, strict=True) if is_used]
        expected = oracle.inverse_hessian(used, gamma, size)
        np.testing.assert_allclose(
            root @ root.T, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max()
        )
        np.testing.assert_allclose(transposed, root.T, rtol=1e-9, atol=1e-10 * np.abs(root).max())
        dense = oracle.factor(used, gamma, size)
        np.testing.assert_allclose(root, dense, rtol=1e-8, atol=1e-9 * np.abs(dense).max())


def test_no_pairs_are_no_matrix(x64):
    root, _ = both_matrices(
        stack(np.full((3, 2, 4), 7.0), 4, 3, 0), jnp.zeros(3, bool), jnp.int32(0), 0.25, 4
    )
    np.testing.assert_array_equal(root, 0.5 * np.eye(4))


@pytest.mark.full
@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 1), ("float32", 3), ("float32", 8), ("float64", 3)]
)
def test_any_history_gives_a_positive_definite_matrix(dtype, size, request):
    """10⁴ histories of all sizes and angles, mostly of no chain: S is finite, none dies."""
    if dtype == "float64":
        request.getfixturevalue("x64")
    rng, number, count = np.random.default_rng(size), 10_000, 4
    scale = 10.0 ** rng.uniform(-6, 6, size=(number, 2, count, 1))
    vectors = rng.normal(size=(number, 2, count, size))
    # A third of them are nearly along one another, and a third of a quadratic that is nearly
    # singular.
    vectors[::3] = (
        vectors[::3, :, :1]
        + 10.0 ** rng.uniform(-8, 0, size=(len(vectors[::3]), 1, 1, 1)) * vectors[::3]
    )
    vectors[1::3, 1] = vectors[1::3, 0] * 10.0 ** rng.uniform(-6, 6, size=size)
    scale[1::3, 1] = scale[1::3, 0]
    pairs = jnp.asarray(vectors * scale, dtype)
    gamma = jnp.asarray(10.0 ** rng.uniform(-3, 3, number), dtype)

    @jax.jit
    @jax.vmap
    def matrices(pairs, gamma):
        usable = jax.vmap(lambda s, y: lbfgs.is_usable(s, y, 1e-4))(pairs[0], pairs[1])
        found = lbfgs.factor(pairs, usable, jnp.int32(1), gamma)
        columns = (jax.vmap(functools.partial(f, found))(jnp.eye(size, dtype=dtype)) for f in FORMS)
        return jnp.any(found.weights != 0), *columns

    has_pairs, root, transposed = (np.asarray(x, np.float64) for x in matrices(pairs, gamma))
    assert root.dtype == np.float64
    assert 0.5 < has_pairs.mean() < 1
    assert np.isfinite(root).all()
    assert np.isfinite(transposed).all()
    smallest = np.linalg.svd(root, compute_uv=False)[:, -1]
    assert smallest.min() > 0
    largest = np.abs(root).max(axis=(1, 2), keepdims=True)
    assert np.max(np.abs(root - transposed.swapaxes(1, 2)) / largest) < (
        0.02 if dtype == "float32" else 1e-9
    )


FORMS = (lbfgs.times, lbfgs.transposed_times)


@pytest.mark.usual_parameters("exponents1")
@pytest.mark.parametrize("exponents", [(18, 18), (-30, 10), (25, -25), (18, -30), (12, 30)])
def test_sizes_at_the_ends_of_float32_do_no_harm(exponents):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(200, 2, 3, 4))
    vectors[:, 1] *= np.sign(np.sum(vectors[:, 0] * vectors[:, 1], axis=-1, keepdims=True))
    # The last pair is of ordinary size.
    powers = np.array([exponents[0], 5, 0]), np.array([exponents[1], -5, 0])
    vectors *= 10.0 ** np.stack(powers)[:, :, None]

    @jax.jit
    @jax.vmap
    def applied(pairs):
        found = lbfgs.factor(pairs, jnp.ones(3, bool), jnp.int32(0), 1.0)
        return [f(found, jnp.ones(4)) for f in FORMS]

    assert np.isfinite(applied(jnp.asarray(vectors, jnp.float32))).all()


@pytest.mark.parametrize(
    ("s", "y", "is_usable"),
    [
        ([1.0, 0.0], [0.09, 1.0], False),
        ([1.0, 0.0], [0.11, 1.0], True),
        ([1.0, 0.0], [-1.0, 0.0], False),
        ([0.0, 0.0], [1.0, 0.0], False),
        ([1.0, 0.0], [0.0, 0.0], False),
        ([1.0, 0.0], [np.nan, 0.0], False),
        ([1.0, 0.0], [np.inf, 0.0], False),
    ],
)
def test_pairs_of_little_curvature_are_left_out(s, y, is_usable):
    assert bool(lbfgs.is_usable(jnp.array(s), jnp.array(y), 0.1)) == is_usable
