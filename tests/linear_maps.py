"""A step as affine maps on a Gaussian posterior, one a batch, by the Jacobians of `transition`."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax import Randomness
from tests.parts import as_drawn


class AffineMaps(NamedTuple):
    """z' = matrix z + shift + factor ξ, one map per batch in front; z = (position, momentum), and
    the memory behind them where it moves too.
    """

    matrix: np.ndarray
    shift: np.ndarray
    factor: np.ndarray

    @property
    def noise(self):
        """The covariance of factor ξ."""
        return self.factor @ self.factor.swapaxes(1, 2)

    @property
    def steps(self):
        """`(matrix, shift, noise)` of every batch, as `lyapunov.stationary` takes them."""
        return list(zip(self.matrix, self.shift, self.noise, strict=True))


def moving(state, with_memory):
    """Return z, and a function that puts another one in its place.

    Every floating-point leaf of position, momentum and memory; `with_memory` False leaves the
    memory as it is. What rounding has taken from a sum is no part of the law: it stays 0.
    """
    leaves, tree = jax.tree.flatten(state)
    end = len(leaves) if with_memory else len(jax.tree.leaves(state.dynamics))
    rounding = [id(x) for x in jax.tree.leaves(getattr(state.memory, "error", ()))]
    places = [
        i
        for i, x in enumerate(leaves[:end])
        if jnp.issubdtype(x.dtype, jnp.floating) and id(x) not in rounding
    ]
    z, unravel = ravel_pytree([leaves[i] for i in places])

    def put(z):
        given = dict(zip(places, unravel(z), strict=True))
        return jax.tree.unflatten(tree, [given.get(i, x) for i, x in enumerate(leaves)])

    return z, put


# One program for all kernels of one structure.
@functools.partial(jax.jit, static_argnames="with_memory")
def _maps(kernel, start, some_noise, data, batches, with_memory):
    first, put = moving(start, with_memory)
    some_noise, unravel = ravel_pytree(some_noise)

    def step(z, noise, batch):
        drawn = Randomness(as_drawn(batch), unravel(noise))
        moved, _ = kernel.transition(drawn, put(z), data)
        return moving(moved, with_memory)[0]

    z, other_z = (jnp.linspace(*ends, first.size) for ends in ((-1.0, 1.5), (2.0, -3.0)))
    noise = jnp.zeros_like(some_noise)

    def maps(batch):
        jacobians = jax.jacfwd(lambda *at: (step(*at, batch),) * 2, argnums=(0, 1), has_aux=True)
        (matrix, factor), end = jacobians(z, noise)
        shift = end - matrix @ z
        return (matrix, shift, factor), step(other_z, some_noise, batch) - (
            matrix @ other_z + shift + factor @ some_noise
        )

    return jax.vmap(maps)(batches) if batches is not None else maps(())


def linearize(kernel, dimension, data, batches=None, stage=0, with_memory=False):
    """Return the maps of a kernel's step.

    Args:
        kernel: an affine one.
        dimension: of the position.
        data: the rows.
        batches: what an estimator draws, with the batches on the leading axis; None for a kernel of
            the full gradient.
        stage: the step's number.
        with_memory: whether the memory is part of z.
    """
    start = kernel.init(jax.random.key(0), jnp.zeros(dimension), data).at_step(jnp.int32(stage))
    some_noise = kernel.draw(jax.random.key(1), start, data).noise
    found, curvature = _maps(kernel, start, some_noise, data, batches, with_memory)
    np.testing.assert_allclose(curvature, 0, atol=1e-10, err_msg="the step is not affine")
    maps_by_batch = (np.asarray(x) if batches is not None else np.asarray(x)[None] for x in found)
    return AffineMaps(*maps_by_batch)
