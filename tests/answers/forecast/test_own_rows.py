"""Forecasts measure the noise of a custom scheme of rows on the batches that it draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests import own

pytestmark = pytest.mark.full

KEY, N = jax.random.key(0), 100
MODEL = ewsg.models.gaussian_location()
ROWS = jax.random.normal(KEY, (N, 2))


@ewsg.module
class Plain(ewsg.rows.RowLaw):
    """Five rows at random."""

    def draw(self, key, data, order=None):
        return ewsg.rows.Batch(jax.random.randint(key, (self.batch_size,), 0, N))


@ewsg.module
class Pairs(ewsg.rows.RowLaw):
    """Each row twice: batches of half as many rows."""

    def draw(self, key, data, order=None):
        rows = jax.random.randint(key, (self.batch_size // 2,), 0, N)
        return ewsg.rows.Batch(jnp.concatenate([rows, rows]))


@pytest.mark.parametrize(("scheme", "batch_size"), [(Plain, 4), (Pairs, 2)])
def test_its_noise_is_that_of_its_batches(scheme, batch_size):
    mode = ewsg.find_mode(KEY, MODEL, jnp.zeros(2), ROWS)

    def excess(rows, size):
        estimator = ewsg.gradients.uniform(MODEL, batch_size=size, rows=rows)
        kernel = ewsg.kernel(ewsg.dynamics.langevin(5e-3), estimator)
        ratio = ewsg.forecast(kernel, mode, ROWS).variance_ratio
        without = ewsg.forecast(ewsg.ld(MODEL, 5e-3), mode, ROWS).variance_ratio
        return np.asarray(ratio) - np.asarray(without)

    mine, theirs = excess(scheme(batch_size=4), 4), excess("random", batch_size)
    assert theirs.min() > 0.1
    np.testing.assert_allclose(mine, theirs, rtol=0.1)


def test_a_dynamics_of_ones_own_is_refused():
    mode = ewsg.find_mode(KEY, MODEL, jnp.zeros(2), ROWS)
    kernel = ewsg.kernel(own.momentum(0.1, 6.0), ewsg.gradients.full(MODEL))
    with pytest.raises(ValueError, match=r"got momentum\. Run .* and check the draws"):
        ewsg.forecast(kernel, mode, ROWS)
