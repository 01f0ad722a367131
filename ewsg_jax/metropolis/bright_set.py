"""The set of bright data of FlyMC: how it is drawn at the start and moved, at a cost that does not
depend on n.

Given the position, datum i is bright with odds Oᵢ = (Lᵢ/Bᵢ)^(1/T) − 1, independently of the others.
A move (implicit resampling, Maclaurin & Adams 2015) selects each of the n data with probability q;
S is the selected set. A bright datum becomes dark with probability min(1, q/Oᵢ), selected or not; a
dark selected datum becomes bright with probability min(1, Oᵢ/q). Each datum then changes in both
directions equally often: Oᵢ·min(1, q/Oᵢ) = q·min(1, Oᵢ/q).

Both sets are bounded. Let U be the data that become bright, D those that become dark, and S' be S
without them, with all of D, and with each of U again with probability q: S' has the distribution of
the set that the reverse move selects. The move is accepted only if S and S' are at most as large as
may be selected and the new set is at most as large as may be bright; else the set stays. The
condition is the same for the reverse move, so the distribution above is invariant, restricted to
sets that fit.

Explicit resampling redraws r data, chosen uniformly, from their distribution given θ: datum i is
bright with probability 1 − (Bᵢ/Lᵢ)^(1/T), whatever it was. It is a Gibbs step, so the joint
distribution is invariant however the r data are chosen, as long as the choice does not depend on
their brightness. If the new set does not fit, the old one stays.
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, rng
from ewsg_jax.base.typing import Array, Data, Key, Scalar
from ewsg_jax.rows._view import Batch, num_rows


class BrightSet(NamedTuple):
    """Row numbers of the bright data and their gaps log Lᵢ − log Bᵢ, at the front of arrays of
    fixed length.

    Attributes:
        rows: int32, −1 in free places.
        gaps: 0 in free places.
    """

    rows: Array
    gaps: Array


class Selected(NamedTuple):
    """The selected data S, ascending, in an array of fixed length.

    Attributes:
        rows: row numbers; the last one in places that are not used.
        used: whether each place is used.
        is_whole: whether all of S fits into the array.
    """

    rows: Batch
    used: Array
    is_whole: Array


class Resampling(NamedTuple):
    """Logs of uniform numbers, one for each place, that decide which proposals are accepted."""

    darken: Array
    brighten: Array


class Redrawing(NamedTuple):
    """Logs of uniform numbers, one for each chosen datum, that redraw its brightness."""

    log_uniforms: Array


def log_odds(gaps: Array) -> Array:
    """Return log(L/B − 1) for log(L/B); −∞ for a gap that is lost in rounding."""
    gaps = jnp.maximum(gaps, 0)
    return gaps + jnp.log(-jnp.expm1(-gaps))


def uniforms_per_skip(probability: float) -> int:
    """Return how many uniform numbers a geometric skip is made from."""
    # Below, the 24 bits of one float32 uniform number are too few for a skip.
    return 1 if probability >= 2.0**-12 else 2


def select(log_uniforms: Array, probability: float, n: int) -> Selected:
    """Select each of n data, n < 2³¹, with probability q, by geometric skips.

    The last skip only shows whether one more datum would have been selected. Uniform numbers of
    resolution ε (2⁻²³ in float32) give each skip, or for q below 2⁻¹² each of its two parts, its
    probability up to about ε; a part of probability about √q then has a relative error of about
    ε/√q.
    """
    # Unsigned 32 bits hold n + 1 and the sum of two numbers up to n.
    skips = jnp.minimum(_skips(log_uniforms, probability, n), jnp.uint32(n))
    most = jnp.uint32(n + 1)
    ends = jax.lax.associative_scan(lambda a, b: jnp.minimum(a, most - b) + b, skips + 1)
    rows = jnp.minimum(ends[:-1], jnp.uint32(n)) - 1
    return Selected(Batch(rows.astype(jnp.int32)), ends[:-1] <= n, ends[-1] > n)


def _skips(log_uniforms: Array, probability: float, n: int) -> Array:
    """Return geometric numbers k, of probability q(1 − q)^k, anything from n on above n; uint32."""
    rate = -math.log1p(-probability)
    if uniforms_per_skip(probability) == 1:
        return jnp.minimum(jnp.floor(log_uniforms / -rate), 2.0**31).astype(jnp.uint32)
    # A float32 knows no whole numbers above 2²⁴ and few small differences of its logarithm: so k =
    # size·high + low, of which the high part is geometric too, and the low one independent of it.
    size = 2 ** min(20, round(-math.log2(probability) / 2))
    high, low = log_uniforms[0::2], log_uniforms[1::2]
    of_high = jnp.minimum(jnp.floor(high / (-rate * size)), n // size + 1).astype(jnp.uint32)
    # Inverse of its distribution function, (1 − e^(−rate·k)) / (1 − e^(−rate·size)), at the uniform
    # number.
    within = jnp.log1p(-math.expm1(-rate * size) * jnp.expm1(low)) / -rate
    return of_high * jnp.uint32(size) + jnp.minimum(jnp.floor(within), size - 1).astype(jnp.uint32)


def first_bright(
    key: Key,
    gaps_of: Callable[[Data], Array],
    data: Data,
    capacity: int,
    temperature: Scalar,
    chunk_size: int,
) -> tuple[BrightSet, Array]:
    """Draw all n brightness variables by chunks; return the first that fit, and their number."""
    n = num_rows(data)
    size = min(chunk_size, n)

    def add(i: Array, carry: tuple[BrightSet, Array]) -> tuple[BrightSet, Array]:
        bright, count = carry
        # The last chunk begins earlier, so that all are equally long; rows that it has in common
        # with the one before are not drawn twice.
        first = jnp.minimum(i * size, n - size)
        rows = jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, first, size), data)
        numbers = (first + jnp.arange(size)).astype(jnp.int32)
        gaps = jnp.maximum(gaps_of(rows), 0).astype(bright.gaps.dtype)
        log_probability = jnp.log(-jnp.expm1(-gaps / temperature))
        chosen = rng.log_uniform(jax.random.fold_in(key, i), (size,)) <= log_probability
        chosen &= numbers >= i * size
        added = inserted(bright, BrightSet(numbers, gaps), chosen, count)
        return added, count + jnp.sum(chosen, dtype=jnp.int32)

    dtype = jax.eval_shape(gaps_of, data).dtype
    empty = BrightSet(jnp.full(capacity, -1, jnp.int32), jnp.zeros(capacity, dtype))
    return jax.lax.fori_loop(0, -(-n // size), add, (empty, jnp.int32(0)))


def resample(
    bright: BrightSet,
    selected: Selected,
    gaps: Array,
    randomness: Resampling,
    probability: float,
    temperature: Scalar,
) -> tuple[BrightSet, Array, Array]:
    """Make one move of the set by implicit resampling, S with its gaps at the present position.

    Returns:
        The set, the number of dark data that were selected, and whether everything fitted; if not,
        the set is the old one.
    """
    log_q = math.log(probability)
    is_bright, place, is_selected = _selected(bright, selected)
    is_dark = selected.used.at[jnp.where(is_selected, place, selected.used.size)].set(
        False, mode="drop"
    )

    darkened = is_bright & (randomness.darken <= log_q - log_odds(bright.gaps / temperature))
    log_accept = jnp.minimum(log_odds(gaps / temperature) - log_q, 0)
    brightened = is_dark & (randomness.brighten <= log_accept)
    # Given acceptance, the uniform number over its bound is uniform again: it selects for the
    # reverse move.
    back = brightened & (randomness.brighten <= log_accept + log_q)

    count = jnp.sum(selected.used) - jnp.sum(brightened) - jnp.sum(darkened & is_selected)
    proposals_back = count + jnp.sum(darkened) + jnp.sum(back)
    may_move = selected.is_whole & (proposals_back <= selected.used.size)
    others = BrightSet(selected.rows.indices, gaps)
    moved, fits = _changed(bright, is_bright & ~darkened, others, brightened, may_move)
    return moved, jnp.sum(is_dark, dtype=jnp.int32), fits


def _selected(bright: BrightSet, selected: Selected) -> tuple[Array, Array, Array]:
    """Return which places hold bright data, their places in S if they were in it, and which are."""
    is_bright, numbers = bright.rows >= 0, selected.rows.indices
    # A loop of few iterations, each a small program on a GPU; on a CPU unrolling it takes longer
    # with one chain.
    unrolled = functools.partial(jnp.searchsorted, method="scan_unrolled")
    place = jax.lax.platform_dependent(numbers, bright.rows, cpu=jnp.searchsorted, default=unrolled)
    place = jnp.minimum(place, numbers.size - 1)
    return is_bright, place, is_bright & (numbers[place] == bright.rows) & selected.used[place]


def _changed(
    bright: BrightSet, stays: Array, others: BrightSet, chosen: Array, may_move: Array | bool
) -> tuple[BrightSet, Array]:
    """Return the data of a set that stay with the chosen data of others, and whether they fit; if
    they do not, the old set.
    """
    num_staying = jnp.sum(stays)
    fits = may_move & (num_staying + jnp.sum(chosen) <= bright.rows.size)
    empty = BrightSet(jnp.full_like(bright.rows, -1), jnp.zeros_like(bright.gaps))
    moved = inserted(inserted(empty, bright, stays, 0), others, chosen, num_staying)
    return jax.tree.map(lambda new, old: jnp.where(fits, new, old), moved, bright), fits


def inserted(target: BrightSet, source: BrightSet, chosen: Array, first: Array | int) -> BrightSet:
    """Return a set with the chosen data of another at the places from `first` on, if they exist."""
    place = jnp.where(chosen, first + jnp.cumsum(chosen) - 1, target.rows.size)
    return jax.tree.map(
        lambda t, s: t.at[place].set(s.astype(t.dtype), mode="drop"), target, source
    )


def check_probability(name: str, value: object) -> float:
    """Check and return a number in (0, 1)."""
    takes = f"{name} must be a number between 0 and 1"
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        raise TypeError(f"{takes}; got {checks.describe(value)}")
    if not 0 < value < 1:
        raise ValueError(f"{takes}; got {value}")
    return float(value)


def default_max_selected(probability: float) -> Callable[[int], int]:
    """Return the largest number of selected data as a function of n: nq + 6√(nq) + 8."""
    return lambda n: min(n, math.ceil(n * probability + 6 * math.sqrt(n * probability)) + 8)


def choose(key: Key, count: int, n: int) -> Selected:
    """Return r different row numbers below n, ascending, at a cost that does not depend on n."""
    # Each row is compared with those before it, which makes all subsets equally probable; a larger
    # subset is drawn by a keyed permutation, at a cost of order r instead of r².
    if count <= 256:
        rows = rng.rows(key, n, count, replace=False)
    else:
        words = jax.random.bits(key, (2,), jnp.uint32)
        rows = rng.permuted(words, jnp.int32(0), jnp.arange(count, dtype=jnp.int32), n)
    return Selected(Batch(jnp.sort(rows)), jnp.ones(count, bool), jnp.bool_(True))


def redraw(
    bright: BrightSet, selected: Selected, gaps: Array, randomness: Redrawing, temperature: Scalar
) -> tuple[BrightSet, Array, Array]:
    """Make one move of the set by explicit resampling; arguments and results as in `resample`."""
    is_bright, _, is_chosen = _selected(bright, selected)
    gaps = jnp.maximum(gaps, 0)
    # Given θ a row is bright with probability 1 − (B/L)^(1/T), whatever it was.
    redrawn = randomness.log_uniforms <= jnp.log(-jnp.expm1(-gaps / temperature))
    others = BrightSet(selected.rows.indices, gaps)
    moved, fits = _changed(bright, is_bright & ~is_chosen, others, redrawn, True)
    return moved, redrawn.size - jnp.sum(is_chosen, dtype=jnp.int32), fits
