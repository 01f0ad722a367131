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
from ewsg_jax.answers.forecast.dynamics_step import stationary_each, steps_of
from ewsg_jax.answers.halve.estimates import extrapolated
from ewsg_jax.answers.halve.order import order_of, order_of_noise, remainder_share
from tests.answers.halve.pairs import (
    DYNAMICS,
    LAMBDA,
    MODEL,
    ROWS,
    TEMPERATURE,
    dynamics_of,
    full,
    known_pairs,
    of_batches,
    of_ones_own,
)
from tests.dynamics.test_order import slopes
from tests.oracles import hermite, lyapunov

pytestmark = pytest.mark.full

SIZES = 0.08 / 2.0 ** np.arange(4)
SD = 1, 0
"""The standard deviation of the first coordinate of a law."""


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
        found = extrapolated(known_pairs(one, half), order)
        left.append(float(found["extrapolated"].value[SD]) ** 2 / target - 1)
        # What is told of the bias at h is what was extrapolated.
        told = (one / target / (1 + left[-1])) ** 0.5
        assert found["bias"].value[SD] == pytest.approx(told, rel=1e-12)
    if max(np.abs(left)) < 1e-9:
        # With full gradients ABOBA and BAOAB have no bias here, and that of OABAO is h² and nothing
        # else.
        assert name in ("ABOBA", "BAOAB", "OABAO")
        assert of is full
        return
    assert slopes(left)[-1] > order + 0.85
    assert abs(left[-1]) < abs(by_step[-2] / target - 1) / 4


LARGE = {
    "langevin": (ewsg.dynamics.langevin, {}, 1),
    "exact": (ewsg.dynamics.exact, {"friction": 2.0}, 1),
    "euler": (ewsg.dynamics.euler, {"friction": 2.0}, 1),
    "semi_implicit": (ewsg.dynamics.semi_implicit, {"friction": 6.0}, 2),
    "splitting": (ewsg.dynamics.splitting, {"friction": 2.0}, 2),
    "own": (of_ones_own, {}, 1),
}


@pytest.mark.parametrize("name", LARGE)
def test_errors_cover_what_extrapolation_leaves_at_large_steps(name):
    """The exact laws of linear steps, up to a bias of a half: without chance the right sd is in."""
    make, numbers, order = LARGE[name]
    model = ewsg.models.gaussian_location()
    kernel = ewsg.kernel(make(0.1, **numbers), ewsg.gradients.full(model))
    share, left = remainder_share(kernel, order), []

    def ratio(h, lam):
        """The stationary variance over the right one."""
        (step,) = steps_of({"": [make(float(h), **numbers)]})[""]
        return lam * float(stationary_each(step, np.array([lam]), np.zeros(1)).variance[0])

    for lam, h in itertools.product((1.0, 4.0, 20.0), 2.0 ** np.arange(-6, 1.5, 0.5)):
        one, half = ratio(h, lam), ratio(h / 2, lam)
        if not 0.5 < one < 2 or abs(one - 1) < 0.01:
            continue
        found = extrapolated(known_pairs(one, half), order, share)
        rights = {"extrapolated": 1.0, "bias": one**0.5, "half_bias": half**0.5}
        for name, right in rights.items():
            assert abs(found[name].value[SD] - right) <= found[name].error[SD]
        left.append(abs(found["extrapolated"].value[SD] - 1))
    assert len(left) > 5
    assert max(left) > 0.005  # there is something to cover


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
    kernel = ewsg.kernel(dynamics_of(name, h, temperature=T), ewsg.gradients.full(SKEWED))
    start = kernel.init(jax.random.key(0), jnp.zeros(1), jnp.zeros((1, 1)))
    step = lambda z, xi: np.asarray(_moved(kernel, start, jnp.asarray(z), jnp.asarray(xi)))
    mean, variance = truth()
    size = len(start.dynamics._fields) - 1
    law = hermite.stationary([step], [mean, 0.0][:size], [variance**0.5, 1.0][:size], 16, 40, 12)
    center = law(lambda z: z[:, 0])
    return center, law(lambda z: (z[:, 0] - center) ** 2)


@pytest.mark.parametrize("name", [name for name in DYNAMICS if name not in ("exact", "BUB")])
def test_the_order_is_that_of_means_and_variances_of_a_skewed_target(x64, name):
    """Of those with one normal a coordinate; of semi_implicit, whose momentum is of order h."""
    biases = np.array([skewed_moments(name, h) for h in (0.2, 0.1, 0.05)]) - truth()
    order = dynamics_of(name, 0.1).bias_order
    for bias in biases.T:
        np.testing.assert_allclose(slopes(bias), order, atol=0.25)
        assert abs(slopes(bias)[-1] - order) < 0.12


def test_orders_of_estimators():
    """Those of unknown order that have no row here are among the wrong calls."""
    data, uniform = jnp.asarray(ROWS), functools.partial(ewsg.gradients.uniform, MODEL)
    by_probability = ewsg.rows.by_probability(np.arange(1.0, 6.0))
    strata = {"labels": lambda data: jnp.zeros(5, int), "num_strata": 1}
    for estimator, order in (
        (ewsg.gradients.full(MODEL), math.inf),
        (uniform(batch_size=2), 1),
        (uniform(batch_size=2, rows="blocks"), 1),
        (uniform(batch_size=2, rows=by_probability), 1),
        (uniform(batch_size=5, replace=False), math.inf),  # all rows, in every step
        (ewsg.gradients.control_variate(MODEL, batch_size=2), 1),
        (ewsg.gradients.stratified(MODEL, batch_size=2, **strata), 1),
        (uniform(batch_size=2, rows="block_sweeps"), None),
    ):
        assert order_of_noise(estimator, data) == order
    baoab = ewsg.kernel(dynamics_of("BAOAB", 0.1), uniform(batch_size=5, replace=False))
    assert order_of(baoab, data) == 2
    assert order_of(of_batches("BAOAB", 0.1), data) == 1
    noise_reduced = ewsg.dynamics.noise_reduced(0.1, friction=1.0)
    assert not hasattr(noise_reduced, "bias_order")
