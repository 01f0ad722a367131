"""Explicit resampling of FlyMC's bright set: r data, chosen uniformly, are drawn again from their
law given θ.

Datum i of the chosen ones is bright with probability 1 − (Bᵢ/Lᵢ)^(1/T), whatever it was: a Gibbs
step, so the joint law is kept whichever r data are chosen without regard to it. Where the new set
has no room the old one stays, which keeps the law restricted to sets that fit: the same condition
holds the other way.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax import _random
from ewsg_jax._types import Array, Key, Scalar
from ewsg_jax.exact.bright_set import BrightSet, Selected, empty_like, placed, put
from ewsg_jax.rows.view import Batch

MOST_COMPARED = 256
"""Chosen data of which each is compared with those before it, so that all sets are equally
probable; more are what a keyed bijection puts at the first places, at a cost that grows with r and
not with its square.
"""


class Redrawing(NamedTuple):
    """What draws the chosen data again: the logarithm of a uniform number for each."""

    log_uniforms: Array


def choose(key: Key, count: int, n: int) -> Selected:
    """Return r different ones of n data, ascending, at a cost that does not depend on n."""
    if count <= MOST_COMPARED:
        rows = _random.rows(key, n, count, replace=False)
    else:
        words = jax.random.bits(key, (2,), jnp.uint32)
        rows = _random.permuted(words, jnp.int32(0), jnp.arange(count, dtype=jnp.int32), n)
    return Selected(Batch(jnp.sort(rows)), jnp.ones(count, bool), jnp.bool_(True))


def redraw(
    bright: BrightSet, selected: Selected, gaps: Array, randomness: Redrawing, temperature: Scalar
) -> tuple[BrightSet, Array, Array]:
    """Make one move of the set.

    Args:
        bright: the set, with the gaps at the present position.
        selected: the chosen data.
        gaps: theirs there.
        randomness: what draws them.
        temperature: T.

    Returns:
        The set, how many of the chosen data were dark, and whether everything fitted; where not,
        the set is the old one.
    """
    is_bright = bright.rows >= 0
    numbers = selected.rows.indices
    # Where each bright row would stand among the chosen ones, if it is one.
    place = placed(numbers, bright.rows)
    is_chosen = is_bright & (numbers[place] == bright.rows)
    gaps = jnp.maximum(gaps, 0)
    # Given θ a row is bright with probability 1 − (B/L)^(1/T), whatever it was.
    lit = randomness.log_uniforms <= jnp.log(-jnp.expm1(-gaps / temperature))

    stays = is_bright & ~is_chosen
    kept = jnp.sum(stays)
    # A set that would not fit is not moved: the step reports it.
    fits = kept + jnp.sum(lit) <= bright.rows.size
    moved = put(put(empty_like(bright), bright, stays, 0), BrightSet(numbers, gaps), lit, kept)
    moved = jax.tree.map(lambda new, old: jnp.where(fits, new, old), moved, bright)
    return moved, numbers.size - jnp.sum(is_chosen, dtype=jnp.int32), fits
