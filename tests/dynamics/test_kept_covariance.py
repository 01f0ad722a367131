"""The law of a friction that stays that of the last reset, where the covariance changes much within
the posterior.

One coefficient of a regression of four rows, one row a step: Cov(θ) is a parabola. Its exact law
with K steps from one reset to the next comes from a grid over θ, the θ before and the anchor ω; the
equations are typed here, and the library's step is compared with them.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.oracles import grid_laws
from tests.parts import as_drawn

pytestmark = pytest.mark.full

X, Y = 0.6 * np.array([1.0, 0.5, -0.4, 1.5]), np.array([0.5, -1.2, 2.0, 0.1])
SCALE, PRIOR_SCALE = 0.8, 2.0
PRECISION = (X**2).sum() / SCALE**2 + 1 / PRIOR_SCALE**2
MEAN = (X * Y).sum() / SCALE**2 / PRECISION
H, FRICTION, K = 0.2, 2.0, 5
SIGMA = np.sqrt(2 * FRICTION)
N = len(X)


def gradients(theta):
    """Of the batches of one row each, on a leading axis."""
    x, y = (np.reshape(v, (N, *[1] * np.ndim(theta))) for v in (X, Y))
    return theta / PRIOR_SCALE**2 + N * x * (x * theta - y) / SCALE**2


def kick(theta, p, anchor):
    """Where the momentum goes without the noise, for each batch, and how probable each is."""
    friction = FRICTION + H * gradients(anchor).var(axis=0) / 2
    return p - H * (gradients(theta) + friction * p), np.full(N, 1 / N)


@functools.cache
def law(period):
    """Mean, variance and E p² over a cycle of the typed equations."""
    grid = MEAN + PRECISION**-0.5 * np.linspace(-6, 6, 41)
    mean, variance, momentum, lost = grid_laws.semi_implicit_with_anchor(
        kick, H, SIGMA, grid, period, 60 // period
    )
    assert abs(lost) < 1e-7
    return mean, variance, momentum


def kernel(period):
    posterior = ewsg.models.linear_regression(noise_scale=SCALE, prior_scale=PRIOR_SCALE)
    return ewsg.nc_sghmc(
        posterior, H, friction=FRICTION, batch_size=1, covariance="kept", refresh_every=period
    )


def data():
    return {"x": jnp.asarray(X[:, None]), "y": jnp.asarray(Y)}


def test_the_grid_is_fine_enough():
    """With a reset in every step it is the law of another grid, of θ and the θ before alone."""
    grid = MEAN + PRECISION**-0.5 * np.linspace(-6, 6, 61)
    mean, variance, momentum = grid_laws.semi_implicit(
        lambda t, p: kick(t, p, t), H, SIGMA, grid, 60
    )
    np.testing.assert_allclose(law(1), (mean, variance, momentum), rtol=2e-5)


def test_what_keeping_it_costs_here():
    """The worst case, four rows: Var θ/Var off by 1 % with a reset a step, 6 % with one in five."""
    ratios = [law(period)[1] * PRECISION for period in (1, K)]
    assert ratios == pytest.approx([0.98906, 1.06407], abs=2e-5)


def test_steps_are_those_typed(x64):
    """Every batch at every step of two cycles, from states along a run."""
    made = kernel(K)
    state = made.init(jax.random.key(0), jnp.array([0.3]), data())

    @jax.jit
    def all_batches(state, noise, data):
        after = lambda row: made.transition(ewsg.Randomness(as_drawn(row), noise), state, data)[0]
        return jax.vmap(after)(jnp.arange(N)[:, None])

    anchor, rng = 0.0, np.random.default_rng(3)
    for step in range(2 * K + 1):
        theta, p = float(state.dynamics.position[0]), float(state.dynamics.momentum[0])
        anchor = theta if step % K == 0 else anchor
        xi = rng.normal()
        after = all_batches(state, jnp.array([xi]), data())
        expected = kick(np.float64(theta), p, np.float64(anchor))[0] + SIGMA * np.sqrt(H) * xi
        np.testing.assert_allclose(after.dynamics.momentum[:, 0], expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(
            after.dynamics.position[:, 0], theta + H * expected, rtol=1e-12, atol=1e-12
        )
        row = int(rng.integers(N))
        state = jax.tree.map(lambda x, row=row: x[row], after)
