"""Kernels whose halving is judged, and both chains' step as affine map on a Gaussian."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from ewsg_jax import Randomness
from tests import own
from tests.parts import as_drawn

GAMMA, TEMPERATURE = 1.6, 0.7
OF_A_MOMENTUM = ("euler", "semi_implicit", "splitting", "exact")
PALINDROMES = ("ABOBA", "BAOAB", "OBABO", "OABAO", "BUB")
DYNAMICS = ("langevin", *OF_A_MOMENTUM, *PALINDROMES)
ROWS = np.array([[-1.0], [0.3], [0.7], [2.2], [5.0]])
NOISE_SCALE = 1.3
LAMBDA = len(ROWS) / NOISE_SCALE**2
MODEL = ewsg.models.gaussian_location(noise_scale=NOISE_SCALE)


@ewsg.module
class Own(own.Momentum):
    """Two normals a coordinate, in a tuple, and an order that it declares."""

    bias_order = 1


def of_ones_own(h, temperature=1.0, friction=6.0):
    numbers = ewsg.hyperparameters(step_size=h, temperature=temperature, friction=friction)
    return Own(**numbers, alpha=0.3)


def known_pairs(whole, half):
    """Moments of pairs of chains that all have the same variances, without noise."""
    return np.array([0.0, 0.0, whole, half])[:, None, None] * np.ones((8, 1))


def dynamics_of(name, h, **options):
    options = {"temperature": TEMPERATURE} | options
    if name == "langevin":
        return ewsg.dynamics.langevin(h, **options)
    options["friction"] = GAMMA
    if name == "own":
        return of_ones_own(h, **options)
    if name.isupper():
        return ewsg.dynamics.palindrome(name, h, **options)
    return getattr(ewsg.dynamics, name)(h, **options)


def full(name, h, **options):
    return ewsg.kernel(dynamics_of(name, h, **options), ewsg.gradients.full(MODEL))


def of_batches(name, h, batch_size=1, replace=True):
    estimator = ewsg.gradients.uniform(MODEL, batch_size=batch_size, replace=replace)
    return ewsg.kernel(dynamics_of(name, h), estimator)


@jax.jit
def _maps(kernel, start, noise, data, batches):
    states = start.dynamics.coarse, start.dynamics.fine
    flat, unravel = ravel_pytree([state._replace(step=()) for state in states])
    at, unravel_noise = ravel_pytree(noise)

    def step(z, noise, batch):
        whole, half = (state._replace(step=start.step) for state in unravel(z))
        state = start._replace(dynamics=start.dynamics._replace(coarse=whole, fine=half))
        drawn = Randomness(jax.tree.map(as_drawn, batch), unravel_noise(noise))
        _, *moved = kernel.transition(drawn, state, data)[0].dynamics
        return ravel_pytree([state._replace(step=()) for state in moved])[0]

    def maps(batch):
        z = jnp.linspace(-1.0, 1.5, flat.size)
        matrix, factor = jax.jacfwd(step, argnums=(0, 1))(z, 0 * at, batch)
        return matrix, step(z, 0 * at, batch) - matrix @ z, factor @ factor.T

    if batches is None:
        return jax.tree.map(lambda x: x[None], maps(((), ())))
    return jax.vmap(maps)(batches)


def steps_of(kernel, data, batches=None):
    """`(matrix, shift, noise)` of pairs of batches, in the state at h, then that at h/2."""
    start = kernel.init(jax.random.key(0), (jnp.zeros(data.shape[1]),) * 2, data)
    noise = kernel.draw(jax.random.key(1), start, data).noise
    return list(zip(*map(np.asarray, _maps(kernel, start, noise, data, batches)), strict=True))
