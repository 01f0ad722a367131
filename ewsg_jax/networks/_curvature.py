"""The largest curvature of a network's potential, which bounds the step size of its chains."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import pytrees
from ewsg_jax.base.power_iteration import power_iteration
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.networks._model import NetworkModel


def largest_curvature(
    key: Key, model: NetworkModel, positions: Position, rows: Data, num_rows: int
) -> np.ndarray:
    """Return the largest absolute eigenvalue of V's Hessian at each position, shape (position,).

    The Hessian is that in units of the prior's standard deviations, diag(sd) ∇²V diag(sd).

    Args:
        key: a typed PRNG key.
        model: the network.
        positions: positions, a pytree with a leading axis.
        rows: some of the rows, which stand for all.
        num_rows: n, the number of all rows.
    """
    return np.asarray(_power_iteration(model, key, positions, rows, jnp.float32(num_rows)))


@functools.partial(jax.jit, static_argnums=0)
def _power_iteration(
    model: NetworkModel, key: Key, positions: Position, rows: Data, num_rows: Array
) -> Array:
    network_key, start_key = jax.random.split(key)
    rows_per_row = num_rows / jax.tree.leaves(rows)[0].shape[0]
    sds = jax.tree.map(jnp.sqrt, model.prior_variance)

    def potential(position: Position) -> Array:
        densities = model.log_density(position, rows, network_key)
        return -rows_per_row * jnp.sum(densities) - model._assembly.log_prior(position)

    def times(a: PyTree, b: PyTree) -> PyTree:
        return jax.tree.map(jnp.multiply, a, b)

    def of_position(position: Position) -> Array:
        def product(v: PyTree) -> PyTree:
            return times(sds, jax.jvp(jax.grad(potential), (position,), (times(sds, v),))[1])

        # The length of the image, for curvatures of both signs bound a step.
        _, image = power_iteration(product, position, start_key)
        return jnp.sqrt(pytrees.squared_norm(image))

    return jax.vmap(of_position)(positions)
