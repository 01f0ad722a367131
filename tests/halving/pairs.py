"""Kernels whose halving is judged, and both chains' step as affine map on a Gaussian."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from ewsg_jax import Randomness
from ewsg_jax.halving.moments import Pairs
from tests.parts import as_drawn

GAMMA, TEMPERATURE = 1.6, 0.7
DYNAMICS = (
    "langevin",
    "euler",
    "semi_implicit",
    "splitting",
    "exact",
    "ABOBA",
    "BAOAB",
    "OBABO",
    "OABAO",
    "BUB",
)
ROWS = np.array([[-1.0], [0.3], [0.7], [2.2], [5.0]])
NOISE_SCALE = 1.3
LAMBDA = len(ROWS) / NOISE_SCALE**2
MODEL = ewsg.models.gaussian_location(noise_scale=NOISE_SCALE)


def known_pairs(variances, means=((0.0, 0.0),)):
    """Pairs of chains that all have the same moments, without noise."""
    mean = np.broadcast_to(np.transpose(means), (8, 2, 1))
    variance = np.broadcast_to(variances, (8, 2))[..., None]
    return Pairs(100, mean, variance, mean[:, 0] - mean[:, 1])


def dynamics_of(name, h, **options):
    options = {"temperature": TEMPERATURE} | options
    if name == "langevin":
        return ewsg.dynamics.langevin(h, **options)
    options["friction"] = GAMMA
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
    flat, unravel = ravel_pytree(
        (start.dynamics.position, start.dynamics.whole, start.dynamics.half)
    )
    at, unravel_noise = ravel_pytree(noise)

    def step(z, noise, batch):
        position, whole, half = unravel(z)
        state = start._replace(
            dynamics=start.dynamics._replace(position=position, whole=whole, half=half)
        )
        moved, _ = kernel.transition(
            Randomness(jax.tree.map(as_drawn, batch), unravel_noise(noise)), state, data
        )
        return ravel_pytree((moved.dynamics.position, moved.dynamics.whole, moved.dynamics.half))[0]

    def maps(batch):
        z = jnp.linspace(-1.0, 1.5, flat.size)
        matrix, factor = jax.jacfwd(step, argnums=(0, 1))(z, 0 * at, batch)
        return matrix, step(z, 0 * at, batch) - matrix @ z, factor @ factor.T

    return (
        jax.vmap(maps)(batches)
        if batches is not None
        else jax.tree.map(lambda x: x[None], maps(((), ())))
    )


def steps_of(kernel, data, batches=None):
    """`(matrix, shift, noise)` of pairs of batches, in (θ, θ at h/2, the rest of h, of h/2)."""
    start = kernel.init(jax.random.key(0), jnp.zeros((2, data.shape[1])), data)
    noise = kernel.draw(jax.random.key(1), start, data).noise
    return list(zip(*map(np.asarray, _maps(kernel, start, noise, data, batches)), strict=True))
