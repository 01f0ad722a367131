"""Trained networks as starts of chains."""

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import networks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(100, 2)).astype(np.float32)
DATA = {"x": X, "y": (X @ [1.0, -2.0] + 0.1 * RNG.normal(size=100)).astype(np.float32)}
PARAMS = {"w": np.array([[0.1], [-0.1]], np.float32), "b": np.ones(1, np.float32)}


def apply(params, x):
    return x @ params["w"] + params["b"]


def test_what_is_not_sampled_is_trained_once_and_carried():
    model = networks.posterior(apply, PARAMS, DATA, likelihood=networks.normal(0.1), sampled="b")
    warm = networks.warm_start(jax.random.key(0), model, DATA, num_members=3, seconds=5.0)
    assert warm.position["b"].shape == (3, 1)
    weights = warm.model.params(jax.tree.map(lambda x: x[0], warm.position))["w"]
    # Near the least squares, as the prior is wide and the rows are many.
    design = np.column_stack([X, np.ones(100)])
    exact = np.linalg.lstsq(design, DATA["y"], rcond=None)[0]
    np.testing.assert_allclose(weights[:, 0], exact[:2], atol=0.06)
    assert float(jnp.max(jnp.abs(warm.position["b"]))) < 0.1
    assert np.all(warm.log_score > 0)  # a right model has 0.88
