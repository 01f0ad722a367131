"""The largest eigenvalue of a matrix that is known by its products."""

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

from ewsg_jax.base import pytrees
from ewsg_jax.base.power_iteration import power_iteration


@pytest.mark.parametrize("eigenvalues", [(9.0, -4.0, 2.0, 0.5), (-9.0, 4.0, 2.0, 0.5)])
def test_it_is_the_largest_without_its_sign(eigenvalues):
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    matrix = jnp.asarray(turn @ np.diag(eigenvalues) @ turn.T, jnp.float32)
    like = {"a": jnp.zeros((1, 3)), "b": jnp.zeros(())}
    _, unravel = jax.flatten_util.ravel_pytree(like)

    def product(v):
        return unravel(matrix @ jax.flatten_util.ravel_pytree(v)[0])

    v, image = power_iteration(product, like, jax.random.key(0))
    np.testing.assert_allclose(pytrees.squared_norm(v), 1.0, rtol=1e-5)
    np.testing.assert_allclose(pytrees.inner(v, image), eigenvalues[0], rtol=1e-4)
    direction = jax.flatten_util.ravel_pytree(v)[0]
    np.testing.assert_allclose(abs(direction @ turn[:, 0]), 1.0, atol=1e-3)


def test_the_length_of_the_image_holds_if_both_signs_have_it():
    eigenvalues = jnp.array([5.0, -5.0, 1.0])
    v, image = power_iteration(lambda v: eigenvalues * v, jnp.zeros(3), jax.random.key(1))
    np.testing.assert_allclose(jnp.sqrt(pytrees.squared_norm(image)), 5.0, rtol=1e-4)
    assert abs(pytrees.inner(v, image)) < 4.9
