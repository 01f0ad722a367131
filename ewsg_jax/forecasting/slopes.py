"""Slopes and curvatures of a potential averaged over a normal law around its mode.

    r(P) = E ∇V,   H(P) = E ∇²V = E[∇V zᵀ] P⁻¹   over z ~ N(0, P) (Stein's identity)

The law of a chain sees these, not the curvature at the mode: where they differ, the posterior is not normal. Chains
of an unbiased estimate settle where the mean of ∇V over their law is 0, that is −H(P)⁻¹ r(P) away from the mode.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax import _tree
from ewsg_jax._types import Array, Data, Position
from ewsg_jax.forecasting.law import normal
from ewsg_jax.posterior import Posterior
from ewsg_jax.rows.gathering import gather, num_rows
from ewsg_jax.rows.spread import Spread

MOST_EVALUATIONS = 2**20
"""∇Vᵢ; rows, evenly spaced, stand for all."""
PLACES = 256
NEAR = 0.05
"""Standard deviations at which the curvature is that at the mode."""


class Slopes(NamedTuple):
    """What a law sees more than its mode.

    Attributes:
        mean: r(P), shape (d,).
        bend: H(P) less the curvature at the mode, shape (d, d).
    """

    mean: np.ndarray
    bend: np.ndarray


def slopes(posterior: Posterior, position: Position, root: np.ndarray, data: Data) -> Slopes:
    """Return what a law of the covariance R Rᵀ sees.

    Args:
        posterior: what is sampled.
        position: the mode.
        root: R, shape (d, d), in the coordinates of the position.
        data: the rows.
    """
    d, n = len(root), num_rows(data)
    count = max(PLACES, 2 * d + 2)
    draws = normal(7, count, d)
    some = min(n, max(1, MOST_EVALUATIONS // (2 * count)))
    rows = (np.arange(some) * (n / some)).astype(np.int32)
    # Of rows on several devices each has its own: they are no batch, which would be gathered.
    batch, data = (None, data.some(rows)) if isinstance(data, Spread) else (jnp.asarray(rows), data)
    places = np.concatenate([draws, NEAR * draws]) @ root.T
    found = np.asarray(_slopes(posterior, position, jnp.asarray(places, jnp.float32), batch, data, n), float)
    # Of the same draws and rows: what these lack of all is in both.
    wide, near = found[:count], found[count:]
    bend = np.linalg.solve(root.T, (draws.T @ wide - draws.T @ near / NEAR) / count)
    return Slopes(wide.mean(0) - near.mean(0), (bend + bend.T) / 2)


@functools.partial(jax.jit, static_argnums=(0, 5))
def _slopes(
    posterior: Posterior, position: Position, places: Array, rows: Array | None, data: Data, n: int
) -> Array:
    flat, unravel = ravel_pytree(position)
    batch = None if rows is None else gather(data, rows)

    def of_place(place: Array) -> Array:
        here = unravel((flat + place).astype(flat.dtype))
        if batch is None:
            whole = posterior.likelihood_gradient(here, data, widened=True)
            likelihood = _tree.combine((n / num_rows(data), whole))
        else:
            likelihood = posterior.batch_gradient(here, data, batch, widened=True)
        return ravel_pytree(_tree.combine((1, _tree.widened(posterior.prior_gradient(here))), (1, likelihood)))[0]

    return jax.lax.map(of_place, places, batch_size=16)
