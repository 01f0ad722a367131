"""A covariance in each structure: functions of its eigenvalues, and its product with a vector."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from ewsg_jax.gradients import Covariance
from tests.gradients.six_rows import close
from tests.gradients.test_covariance_tracking import matrix_of


@pytest.mark.usual_parameters("dense", "low_rank")
@pytest.mark.parametrize(
    "structure", ["dense", "diagonal", "low_rank", "factored", "low_rank_factored"]
)
def test_functions_of_the_eigenvalues(x64, structure):
    """Σ f(C) v, with C outside its basis 0."""
    rng = np.random.default_rng(4)
    root, basis = rng.normal(size=(5, 5)), np.linalg.qr(rng.normal(size=(5, 2)))[0]
    inner = np.array([[2.0, 0.4], [0.4, 1.0]])
    values, vectors = np.linalg.eigh(root @ root.T)
    small, turned = np.linalg.eigh(inner)
    matrix, within = {
        "dense": (root @ root.T, None),
        "diagonal": (rng.uniform(1, 2, 5), None),
        "low_rank": (inner, basis),
        "factored": (values, vectors),
        "low_rank_factored": (small, basis @ turned),
    }[structure]
    covariance = Covariance(jnp.asarray(matrix), None if within is None else jnp.asarray(within))
    dense = matrix_of(covariance)
    dense = np.diag(dense) if structure == "diagonal" else dense
    values, vectors = np.linalg.eigh(dense)
    u, v = rng.normal(size=(2, 5))
    expected = vectors @ (
        np.sqrt(values.clip(0) + 1) * (vectors.T @ u) + np.exp(-values) * (vectors.T @ v)
    )
    split = lambda x: {"a": jnp.asarray(x[:1]), "b": jnp.asarray(x[1:].reshape(2, 2))}
    found = covariance.combine(
        (lambda x: jnp.sqrt(jnp.maximum(x, 0) + 1), split(u)), (lambda x: jnp.exp(-x), split(v))
    )
    close(np.asarray(ravel_pytree(found)[0]), expected, 1e-12)
    one_term = covariance.combine((lambda x: jnp.exp(-x), split(v)))
    close(np.asarray(ravel_pytree(one_term)[0]), vectors @ (np.exp(-values) * (vectors.T @ v)))
    close(np.asarray(ravel_pytree(covariance.times(split(u)))[0]), dense @ u, 1e-12)


def test_times_keeps_the_types():
    vector = {"a": jnp.ones(2, jnp.bfloat16), "b": jnp.ones((), jnp.float32)}
    product = Covariance(jnp.eye(3, dtype=jnp.float32)).times(vector)
    assert jax.tree.map(lambda x: x.dtype, product) == jax.tree.map(lambda x: x.dtype, vector)
