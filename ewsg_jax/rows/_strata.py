"""How the rows of a batch go to strata."""

import jax
import jax.numpy as jnp

from ewsg_jax.base.typing import Array


def allocate(sizes: Array, batch_size: int) -> Array:
    """Return how many of b rows each stratum gets: one if it is not empty, and each further row to
    the stratum that lacks most.

    With no stratum below n/b rows this is the method of the largest remainder.

    Args:
        sizes: how many rows, or what probability, each stratum has, shape (strata,).
        batch_size: b.
    """
    quota = batch_size * (sizes / jnp.sum(sizes))
    seats = (sizes > 0).astype(jnp.int32)

    def seat_one(i: Array, seats: Array) -> Array:
        lacking = jnp.where(sizes > 0, quota - seats.astype(quota.dtype), -jnp.inf)
        return seats.at[jnp.argmax(lacking)].add(jnp.where(jnp.sum(seats) < batch_size, 1, 0))

    return jax.lax.fori_loop(0, batch_size, seat_one, seats)
