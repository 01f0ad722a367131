"""Each coordinate's own slope, row by row: one wrong derivative of many is lost in their sum.

Along a line between draws all d derivatives are added up, and over rows as well, where most of them
cancel. So each coordinate is moved alone, and each row's log density compared with its derivative:

    log p(a + h eⱼ) − log p(a − h eⱼ) ≈ 2 h ∂ⱼ log p(a)

This only finds whom to suspect, for two values and one derivative do not show whether a wall lies
between them: `slopes` decides.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._types import Array, Data
from ewsg_jax.checking.brascamp_lieb import log_prior
from ewsg_jax.checking.draws import Draws
from ewsg_jax.compiling import UNOPTIMISED
from ewsg_jax.posterior import Posterior
from ewsg_jax.rows.view import num_rows
from ewsg_jax.support import evenly, take_rows

MOST_COORDINATES = 512
"""Coordinates that are moved; of more, as many drawn at random."""
PLACES, MOST_ROWS = 8, 128
"""Draws at which they are moved, and rows at each, others at another draw."""
MOST_NUMBERS = 2**22
"""Numbers of derivatives of rows at once: with more coordinates there are fewer rows."""
STEP = 0.15
"""Of the standard deviation of draws, to either side."""
ULPS = 4
"""Roundings of a position by which log densities are moved, to see what rounding does to them."""
TOO_FAR, BY_ROUNDING = 0.05, 3.0
"""Relative difference, and how many times that by rounding, from which on one is suspected."""
AT_ONCE = 32
"""Coordinates that are moved together."""


class Suspect(NamedTuple):
    """A coordinate whose derivative is not what values say.

    Attributes:
        number: of the coordinate.
        step: by which it was moved to either side.
        rows: where most of the difference is.
    """

    number: int
    step: float
    rows: Data


def coordinates(d: int) -> np.ndarray:
    """Return the numbers of those that are moved, sorted: all d, or 512 drawn at random."""
    if d <= MOST_COORDINATES:
        return np.arange(d)
    return np.sort(np.random.default_rng(d).choice(d, MOST_COORDINATES, replace=False))


def suspects(posterior: Posterior, draws: Draws, data: Data, most: int) -> list[Suspect]:
    """Return at most `most` coordinates, those that differ most first.

    Args:
        posterior: whose functions are compared.
        draws: around which.
        data: all n rows, not on several devices.
        most: how many.
    """
    flat, d = draws.flat, draws.size
    places = np.resize(flat[evenly(len(flat), PLACES)], (PLACES, d))
    steps = STEP * flat.std(0)
    chosen = coordinates(d)
    # Whole blocks of coordinates, the last one filled up: one loop without a remainder.
    padded = np.resize(chosen, -(-len(chosen) // AT_ONCE) * AT_ONCE).astype(np.int32)
    rows = _blocks(data, d)
    dtype = jnp.result_type(float, *draws.layout.dtypes)
    found = np.asarray(
        _differences(
            posterior, draws.layout, places.astype(dtype), steps.astype(dtype), padded, rows
        ),
        np.float64,
    )[:, : len(chosen)]
    # Of log prior and log likelihood, shape (2, coordinates): sums of squares over places.
    with np.errstate(invalid="ignore", divide="ignore"):
        off, whole, rounding = np.sqrt(found.sum(0)).T
        share = np.where(off > BY_ROUNDING * rounding, off / whole, 0.0)
    share = np.nan_to_num(share).max(0)
    order = np.argsort(-share, kind="stable")[:most]
    worst = np.argmax(found[:, :, :, 0].max(2), axis=0)
    return [
        Suspect(
            int(chosen[k]),
            float(steps[chosen[k]]),
            jax.tree.map(lambda x, k=k: x[worst[k]], rows),
        )
        for k in order
        if share[k] > TOO_FAR
    ]


def _blocks(data: Data, d: int) -> Data:
    """Return some rows for each place, leaves (places, rows, …)."""
    n = num_rows(data)
    count = max(1, min(n, MOST_ROWS, MOST_NUMBERS // d))
    # Evenly spaced over all rows, at each place and over all places.
    numbers = np.resize(evenly(n, PLACES * count), PLACES * count)
    numbers = np.tile(np.arange(n), PLACES) if count == n else numbers.reshape(count, PLACES).T
    taken = take_rows(data, numbers.ravel())
    return jax.tree.map(lambda x: x.reshape(PLACES, count, *x.shape[1:]), taken)


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=UNOPTIMISED)
def _differences(
    posterior: Posterior, layout: Any, places: Array, steps: Array, chosen: Array, rows: Data
) -> Array:
    """Return sums of squares over rows, shape (places, coordinates, 2, 3): of log prior and log
    likelihood what values and derivatives differ by, what the larger of them is, and rounding.
    """
    eps, prior = jnp.finfo(places.dtype).eps, functools.partial(log_prior, posterior, layout)
    # The place itself, the same a few roundings off, and each coordinate to both sides: all by one
    # copy of the model, in whole blocks.
    none, one = jnp.zeros(AT_ONCE, chosen.dtype), jnp.ones(len(chosen), places.dtype)
    numbers = jnp.concatenate([none, chosen, chosen])
    ways = jnp.concatenate([none.astype(places.dtype), one, -one])
    factors = jnp.ones_like(ways).at[1].set(1 + ULPS * eps)

    def at(given: tuple[Array, Data]) -> Array:
        place, own = given

        def values(moved: tuple[Array, Array, Array]) -> Array:
            number, way, factor = moved
            flat = (factor * place).at[number].add(way * steps[number])
            of_rows = posterior.log_likelihoods(layout.tree(flat), own)
            return jnp.concatenate([prior(flat)[None], of_rows.astype(flat.dtype)])

        of_rows = -posterior.flat_row_gradients(layout.tree(place), own)
        slopes = jnp.concatenate([jax.grad(prior)(place)[None], of_rows])
        found = jax.lax.map(values, (numbers, ways, factors), batch_size=AT_ONCE)
        rounding = jnp.hypot(found[1] - found[0], eps * found[0])
        up, down = jnp.split(found[AT_ONCE:], 2)
        rise, step = up - down, steps[chosen]
        way = (place[chosen] + step) - (place[chosen] - step)
        by_slope = way[:, None] * slopes[:, chosen].T
        # A row beyond a wall says nothing.
        known = jnp.isfinite(rise) & jnp.isfinite(by_slope)
        largest = jnp.maximum(jnp.abs(rise), jnp.abs(by_slope))
        parts = jnp.stack([rise - by_slope, largest, jnp.broadcast_to(rounding, rise.shape)], 2)
        squares = jnp.where(known[..., None], parts, 0) ** 2
        return jnp.stack([squares[:, 0], squares[:, 1:].sum(1)], axis=1)

    return jax.lax.map(at, (places, rows))
