"""The order of the bias that each dynamics and estimator declares, and what extrapolation leaves.

Exact stationary moments: on a normal target by Lyapunov equations, on a skewed one in Hermite
polynomials.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax import Randomness
from ewsg_jax.halving.moments import extrapolated
from ewsg_jax.halving.order import order_of, order_of_noise
from tests.halving.pairs import (
    DYNAMICS,
    LAMBDA,
    MODEL,
    ROWS,
    TEMPERATURE,
    dynamics_of,
    full,
    known_pairs,
    of_batches,
)
from tests.oracles import hermite, lyapunov

pytestmark = pytest.mark.full

SIZES = 0.08 / 2.0 ** np.arange(4)


def slopes(errors):
    errors = np.abs(errors)
    return np.log2(errors[:-1] / errors[1:])


@pytest.mark.parametrize("of", [full, of_batches], ids=["full", "batches"])
@pytest.mark.parametrize("name", DYNAMICS)
def test_what_extrapolation_leaves_is_of_a_higher_order(linearize, name, of):
    data = jnp.asarray(ROWS)
    batches = None if of is full else jnp.arange(5)[:, None]
    target = TEMPERATURE / LAMBDA

    def variance(h):
        return lyapunov.stationary(linearize(of(name, h), 1, data, batches).steps)[1][0, 0]

    order = order_of(of(name, 0.1), data)
    assert order == (1 if of is of_batches else of(name, 0.1).dynamics.bias_order)
    by_step = [variance(h) for h in (*SIZES, SIZES[-1] / 2)]
    left = []
    for one, half in itertools.pairwise(by_step):
        found = extrapolated(known_pairs([one, half]), order)
        left.append(float(found.right.sd.value[0]) ** 2 / target - 1)
        # What is told of the bias at h is what was extrapolated.
        assert found.bias.sd_ratio.value[0] == pytest.approx(
            (one / target / (1 + left[-1])) ** 0.5, rel=1e-12
        )
    if max(np.abs(left)) < 1e-9:
        # With full gradients ABOBA and BAOAB have no bias here, and that of OABAO is h² and nothing
        # else.
        assert name in ("ABOBA", "BAOAB", "OABAO")
        assert of is full
        return
    assert slopes(left)[-1] > order + 0.85
    assert abs(left[-1]) < abs(by_step[-2] / target - 1) / 4


# A skewed target with an entire potential: V = θ²/2 + A sin θ.
A, T = 0.4, 1.0
SKEWED = ewsg.Posterior(
    lambda theta, x: 0.0 * x[0], lambda theta: -(theta[0] ** 2) / 2 - A * jnp.sin(theta[0])
)


@functools.cache
def truth():
    grid = np.linspace(-12, 12, 200_001)
    weights = np.exp(-(grid**2 / 2 + A * np.sin(grid)) / T)
    weights /= weights.sum()
    mean = weights @ grid
    return float(mean), float(weights @ (grid - mean) ** 2)


@jax.jit
def _moved(kernel, start, points, noise):
    names = [name for name in start.dynamics._fields if name != "step"]

    def one(z, xi):
        parts = {name: x[None] for name, x in zip(names, z, strict=True)}
        state = start._replace(dynamics=start.dynamics._replace(**parts))
        moved, _ = kernel.transition(Randomness((), xi[None]), state, jnp.zeros((1, 1)))
        return jnp.concatenate([getattr(moved.dynamics, name) for name in names])

    return jax.vmap(one)(points, noise)


def skewed_moments(name, h):
    """Mean and variance of the position's law, exact but for the polynomials' cut."""
    dynamics = dynamics_of(name, h, temperature=T)
    kernel = ewsg.kernel(dynamics, ewsg.gradients.full(SKEWED))
    start = kernel.init(jax.random.key(0), jnp.zeros(1), jnp.zeros((1, 1)))
    step = lambda z, xi: np.asarray(_moved(kernel, start, jnp.asarray(z), jnp.asarray(xi)))
    mean, variance = truth()
    size = len(start.dynamics._fields) - 1
    law = hermite.stationary([step], [mean, 0.0][:size], [variance**0.5, 1.0][:size], 16, 40, 12)
    center = law(lambda z: z[:, 0])
    return center, law(lambda z: (z[:, 0] - center) ** 2)


ONE_NORMAL = [name for name in DYNAMICS if name not in ("exact", "BUB")]


@pytest.mark.parametrize("name", ONE_NORMAL)
def test_the_order_is_that_of_means_and_variances_of_a_skewed_target(x64, name):
    """Of semi_implicit too, whose momentum has a bias of order h."""
    sizes = np.array([0.2, 0.1, 0.05])
    biases = np.array([skewed_moments(name, h) for h in sizes]) - truth()
    order = dynamics_of(name, 0.1).bias_order
    for bias in biases.T:
        np.testing.assert_allclose(slopes(bias), order, atol=0.25)
        assert abs(slopes(bias)[-1] - order) < 0.12


def test_orders_that_are_known_and_those_that_are_not():
    data = jnp.asarray(ROWS)
    uniform = functools.partial(ewsg.gradients.uniform, MODEL)
    langevin, baoab = dynamics_of("langevin", 0.1), dynamics_of("BAOAB", 0.1)
    for dynamics, estimator, order in (
        (langevin, ewsg.gradients.full(MODEL), 1),
        (baoab, ewsg.gradients.full(MODEL), 2),
        (baoab, uniform(batch_size=2), 1),
        (baoab, uniform(batch_size=2, rows="blocks"), 1),
        (baoab, uniform(batch_size=2, rows=ewsg.rows.by_probability(np.arange(1.0, 6.0))), 1),
        (baoab, uniform(batch_size=5, replace=False), 2),  # all rows, in every step
        (baoab, ewsg.gradients.control_variate(MODEL, batch_size=2), 1),
        (
            baoab,
            ewsg.gradients.stratified(
                MODEL, batch_size=2, labels=lambda d: jnp.zeros(5, int), num_strata=1
            ),
            1,
        ),
    ):
        assert order_of(ewsg.kernel(dynamics, estimator), data) == order
    epochs = [
        uniform(batch_size=2, rows=rows) for rows in ("epochs", "block_epochs", "block_sweeps")
    ]
    weighted = ewsg.gradients.exponentially_weighted(uniform(batch_size=2), chain_length=1)
    anchored = ewsg.gradients.svrg(MODEL, batch_size=2, refresh_every=3)
    for estimator in (*epochs, weighted, anchored, ewsg.gradients.saga(MODEL, batch_size=2)):
        assert order_of_noise(estimator, data) is None
    assert order_of_noise(ewsg.gradients.full(MODEL), data) == math.inf
    for dynamics in (
        ewsg.dynamics.thermostat(0.1, friction=1.0),
        ewsg.dynamics.preconditioned(0.1),
        ewsg.dynamics.noise_corrected(0.1, friction=1.0),
        ewsg.dynamics.noise_reduced(0.1, friction=1.0),
    ):
        assert not hasattr(dynamics, "bias_order")
