"""The one place that draws noise and the one place that draws row indices.

Everything random in the library goes through these two functions, so a test can watch every key.
"""

import functools
import itertools
import math
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.compiling import UNOPTIMISED
from ewsg_jax.base.typing import Array, Key, PyTree

NoiseKind = Literal["gaussian", "rademacher", "moment_matched"]
NOISE_KINDS = ("gaussian", "rademacher", "moment_matched")

ONE_WORD_LIMIT = 400_000
"""Largest n for which one random word per index is used: its relative bias is at most n/2³²."""

FEISTEL_ROUNDS = 12
"""Rounds of the bijection behind an epoch's permutation: with 8, probabilities of small n are up to
2 % off."""
WALKS_PER_TURN = 8
"""Walks along an epoch's cycles between two tests of whether all are back, on accelerators. Set by
hand."""


def keys_of(key: Key, count: int) -> list[Key]:
    """Return `count` keys of one: each by the same small program, whatever their number."""
    return [folded(key, number) for number in range(count)]


@functools.partial(jax.jit, compiler_options=UNOPTIMISED)
def _folded(key: Key, number: Array) -> Key:
    return jax.random.fold_in(key, number)


def folded(key: Key, number: int) -> Key:
    """Return the key of this number, as `jax.random.fold_in` does, compiled in less time."""
    return _folded(key, np.uint32(number))


@functools.partial(jax.jit, static_argnums=1, compiler_options=UNOPTIMISED)
def split(key: Key, shape: int | tuple[int, ...]) -> Array:
    """Return keys as `jax.random.split` does, compiled in less time."""
    return jax.random.split(key, shape)


def host_generator(key: Key) -> np.random.Generator:
    """Return a generator of NumPy, whose numbers take no program for each shape."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel())


def host_normals(key: Key, shape: tuple[int, ...]) -> np.ndarray:
    """Return standard normal numbers, float32."""
    return host_generator(key).standard_normal(shape, np.float32)


def noise(key: Key, like: PyTree, kind: NoiseKind = "gaussian") -> PyTree:
    """Draw independent numbers of mean 0 and variance 1, shaped like the leaves of a pytree of
    floating-point arrays or shapes: Gaussian, ±1 with equal probability ("rademacher"), or of 256
    values with the first seven moments of a Gaussian ("moment_matched").
    """
    leaves, structure = jax.tree.flatten(like)
    draw = {"gaussian": jax.random.normal, "rademacher": signs, "moment_matched": matched}[kind]
    dtypes = list(dict.fromkeys(x.dtype for x in leaves))
    drawn: list[Any] = [None] * len(leaves)
    # One draw for all leaves of a dtype: a network of 4 leaves compiles six times faster than with
    # a draw for each.
    for number, dtype in enumerate(dtypes):
        places = [place for place, x in enumerate(leaves) if x.dtype == dtype]
        sizes = [math.prod(leaves[place].shape) for place in places]
        key_of_dtype = key if len(dtypes) == 1 else jax.random.fold_in(key, number)
        flat = draw(key_of_dtype, (sum(sizes),), dtype)
        for place, part in zip(
            places, jnp.split(flat, list(itertools.accumulate(sizes))[:-1]), strict=True
        ):
            drawn[place] = part.reshape(leaves[place].shape)
    return jax.tree.unflatten(structure, drawn)


def signs(key: Key, shape: tuple[int, ...], dtype: Any) -> Array:
    """Draw ±1 with equal probability, 32 of them from each random word."""
    count = math.prod(shape)
    words = jax.random.bits(key, (-(-count // 32), 1), jnp.uint32)
    bits = (words >> jnp.arange(32, dtype=jnp.uint32)[None]) & 1
    return (1 - 2 * bits.astype(jnp.int32)).ravel()[:count].reshape(shape).astype(dtype)


def matched(key: Key, shape: tuple[int, ...], dtype: Any) -> Array:
    """Draw numbers whose first seven moments are those of N(0, 1), four from each random word.

    They have 256 equally probable values, at most 2.9, whose distribution function is within 0.023
    of the Gaussian one; the eighth moment is 95 in place of 105.
    """
    count = math.prod(shape)
    words = jax.random.bits(key, (-(-count // 4),), jnp.uint32)
    # Bytes of words, not shifts of them: half the time on a CPU.
    levels = jax.lax.bitcast_convert_type(words, jnp.int8).ravel()[:count]
    u = (levels.astype(np.promote_types(np.float32, dtype)) + 0.5) / 128
    # An odd, increasing polynomial. Its last three coefficients make the second, fourth and sixth
    # moments 1, 3 and 15; the others bring it near to the quantiles of N(0, 1).
    square, total = u * u, jnp.zeros_like(u)
    for coefficient in (24.5, -44.0, 26.33586424767168, -5.532378309508626, 1.7100487096009316):
        total = total * square + coefficient
    return (u * total).reshape(shape).astype(dtype)


def rows(
    key: Key,
    num_rows: int | Array,
    batch_size: int,
    replace: bool = True,
    *,
    most: int | None = None,
) -> Array:
    """Draw `batch_size` row numbers in [0, `num_rows`), int32, at a cost that does not depend on n.

    With replacement each is uniform; without, their set is uniform over all subsets of that size
    (Floyd's algorithm; the order inside the batch is not uniform, and nothing depends on it).
    The probability of a row differs from 1/n by a factor within 1 ± n/2³² (n ≤ 400,000) or
    1 ± n/2⁶⁴ (above). If n is known only to the program, `most` is the largest that it can be.
    """
    limit: Any = num_rows if most is None else most
    words = index_words(key, limit, batch_size)
    if replace:
        return scaled(words, jnp.uint32(num_rows))[0]
    first = num_rows - batch_size

    def add_one(k: Array, chosen: Array) -> Array:
        last = (first + k).astype(jnp.int32)
        row, _ = scaled(words[:, k], (last + 1).astype(jnp.uint32))
        return chosen.at[k].set(jnp.where(jnp.any(chosen == row), last, row))

    return jax.lax.fori_loop(0, batch_size, add_one, jnp.full((batch_size,), -1, jnp.int32))


def index_words(key: Key, num_rows: int, batch_size: int, words: int | None = None) -> Array:
    """Draw the words of shape (words per index, b) that `scaled` makes row numbers from."""
    return jax.random.bits(
        key, (words or (1 if num_rows <= ONE_WORD_LIMIT else 2), batch_size), jnp.uint32
    )


def scaled(words: Array, bound: Array) -> tuple[Array, Array]:
    """Map uniform words to row numbers in [0, bound), int32: ⌊w·bound / 2³²⌋ of one word, ⌊w·bound
    / 2⁶⁴⌋ of two; and to the first 32 bits of the remainder.

    Words are uint32, shape (1, …) or (2, …), the first one the most significant; the bound is
    uint32, below 2³¹. The remainder of two words is uniform, whatever the row.
    """
    # The high word of the product with each word, from products of halves: there are no 64 bits.
    mask = jnp.uint32(0xFFFF)
    factor = bound[None] if jnp.ndim(bound) else bound
    a_high, a_low, b_high, b_low = words >> 16, words & mask, factor >> 16, factor & mask
    middle = a_high * b_low + (a_low * b_low >> 16)
    cross = (middle & mask) + a_low * b_high
    high = a_high * b_high + (middle >> 16) + (cross >> 16)
    low = words[0] * bound
    if words.shape[0] == 1:
        return high[0].astype(jnp.int32), low
    rest = low + high[1]
    carry = rest < low
    return (high[0] + carry.astype(jnp.uint32)).astype(jnp.int32), rest


def log_uniform(key: Key, shape: tuple[int, ...]) -> Array:
    """Draw log(u) with u uniform on (0, 1]: never infinite."""
    return jnp.log1p(-jax.random.uniform(key, shape))


def permuted(words: Array, epoch: Array, places: Array, num_rows: int) -> Array:
    """Return what a permutation of [0, `num_rows`), n ≥ 1, puts at places of any shape, int32,
    without a list of n.

    A keyed bijection: a Feistel network on the next power of four, walked along its cycles until it
    is back below n (at most four times the rows, so a few walks); for each epoch another. All
    permutations are made from two uint32 words.
    """
    key = jax.random.fold_in(jax.random.wrap_key_data(words, impl="threefry2x32"), epoch)
    # Arrays of their own: out of one, whose last axis they are, the loop below would read number by
    # number.
    rounds = list(jax.random.bits(key, (FEISTEL_ROUNDS,), jnp.uint32))
    half = max(1, -(-(num_rows - 1).bit_length() // 2))
    mask = jnp.uint32(2**half - 1)

    def encrypt(x: Array) -> Array:
        left, right = x >> half, x & mask
        for number in range(FEISTEL_ROUNDS):
            left, right = right, left ^ (_mixed(right ^ rounds[number]) & mask)
        return (left << half) | right

    def walk_on(x: Array, walks: int) -> Array:
        def outside(carry: tuple[Array, Array]) -> Array:
            x, has_walked = carry
            return (x >= num_rows) | ~has_walked

        def walk(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            return jnp.where(outside(carry), encrypt(carry[0]), carry[0]), jnp.bool_(True)

        def turn(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            return (
                walk(carry)
                if walks == 1
                else jax.lax.fori_loop(0, walks, lambda _, c: walk(c), carry, unroll=True)
            )

        # The first walk is one of the loop: a program with the network in it once compiles sooner.
        return jax.lax.while_loop(
            lambda carry: jnp.any(outside(carry)), turn, (x, jnp.bool_(False))
        )[0]

    # A GPU asks the host before every turn of such a loop, and walks are little work to it.
    one, several = (functools.partial(walk_on, walks=walks) for walks in (1, WALKS_PER_TURN))
    return jax.lax.platform_dependent(places.astype(jnp.uint32), cpu=one, default=several).astype(
        jnp.int32
    )


def _mixed(x: Array) -> Array:
    """Mix the bits of 32-bit words: shifts and odd multipliers (the finaliser of MurmurHash3)."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
