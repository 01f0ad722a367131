"""Draws where the density is 0: outside of a prior's walls, or where a row cannot be.

A gradient does not show it: of `jnp.where(inside, …, -jnp.inf)` it is 0 outside, as on any plateau. So densities
themselves are evaluated: the prior at every draw, the likelihood at every draw on some rows, or on all where these
are few.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._types import Array, Data, Key, PyTree
from ewsg_jax.checking.draws import Draws
from ewsg_jax.posterior import Posterior
from ewsg_jax.rows.gathering import num_rows
from ewsg_jax.rows.spread import Spread
from ewsg_jax.support import Outside

ROWS_AT_ONCE = 2**16
"""Rows whose densities are evaluated together."""


def outside(key: Key, posterior: Posterior, draws: Draws, data: Data, batch_size: int) -> Outside:
    """Return the shares of draws where a density is not finite.

    Args:
        key: a typed PRNG key, for rows.
        posterior: what should have been sampled.
        draws: which.
        data: all n rows.
        batch_size: rows for each draw, at most; all rows where there are no more, else random ones for each draw.
    """
    flat = draws.flat
    n = num_rows(data)
    count = min(n, batch_size)
    numbers = None
    if isinstance(data, Spread):
        # One batch for all draws: rows are on devices of their own.
        data = data.take(jax.random.choice(key, n, (count,), replace=False))
    elif count < n:
        numbers = jax.random.randint(key, (len(flat), count), 0, n)
    together = max(1, min(ROWS_AT_ONCE // count, len(flat)))
    places = jnp.asarray(flat, jnp.result_type(float, *draws.layout.dtypes))
    found = np.asarray(_are_finite(posterior, draws.layout, together, places, numbers, data))
    return Outside(*(1 - found.mean(0)).tolist())


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _are_finite(
    posterior: Posterior, layout: PyTree, together: int, places: Array, numbers: Array | None, data: Data
) -> Array:
    """Return whether prior and likelihood are finite at places (draws, d), shape (draws, 2)."""

    def at(part: tuple[Array, Array | None]) -> Array:
        place, own = part
        position = layout.tree(place)
        rows = data if own is None else jax.tree.map(lambda x: x[own], data)
        likelihood = jnp.all(jnp.isfinite(posterior.log_likelihoods(position, rows)))
        return jnp.stack([jnp.all(jnp.isfinite(posterior.log_prior(position))), likelihood])

    return jax.lax.map(at, (places, numbers), batch_size=together)
