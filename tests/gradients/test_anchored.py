"""What anchors leave of rounding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients._control_variate import ControlVariateMemory
from tests.gradients.six_rows import no_weight


@pytest.mark.parametrize("rows", ["random", "by probability"])
def test_near_its_anchor_an_estimate_is_as_exact_as_the_difference(rows):
    """In float32, sums of 2,000 rows of 200 each: the small sum is rounded, not two large ones."""
    n, d, b = 400_000, 5, 2_000
    rng = np.random.default_rng(0)
    x = (1 + rng.normal(size=(n, d))).astype(np.float32)
    data = {"x": jnp.asarray(x), "y": jnp.asarray(rng.random(n) < 0.4, jnp.float32)}
    anchor = np.full(d, 0.1, np.float32)
    point = anchor + np.float32(1e-4)
    law = (
        "random"
        if rows == "random"
        else ewsg.rows.by_probability(jnp.asarray(1 + rng.random(n), jnp.float32))
    )
    estimator = ewsg.gradients.control_variate(
        ewsg.models.logistic_regression(), batch_size=b, center=jnp.asarray(anchor), rows=law
    )

    @jax.jit
    def estimate_of(key, point, data):
        zero = ControlVariateMemory(jnp.asarray(anchor), jnp.zeros(d))
        estimate, _ = estimator.propose(estimator.draw(key, data), zero, point, data, no_weight)
        return estimate.gradient - estimator.posterior.prior_gradient(point), estimate.batch[
            0
        ].indices

    gradient, drawn = jax.device_get(estimate_of(jax.random.key(0), jnp.asarray(point), data))
    weight = (
        np.full(b, n / b)
        if rows == "random"
        else np.asarray(estimator.law.weight[drawn], np.float64)
    )
    wide = x[drawn].astype(np.float64)
    mean_of = lambda at: 1 / (1 + np.exp(-wide @ at.astype(np.float64)))
    exact = wide.T @ (weight * (mean_of(point) - mean_of(anchor)))
    # Each residual is known to some 6e-8, in independent roundings.
    assert np.abs(gradient - exact).max() < 2e-7 * np.sqrt(weight**2 @ wide**2).max()
