"""Whether a law of rows of one's own counts every row once, on average."""

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._module import Part, is_own
from ewsg_jax._types import Array, Data, Key, PyTree
from ewsg_jax.rows.law import RowLaw, laws_of
from ewsg_jax.rows.view import Batch, num_rows

NUM_DRAWS, MOST_NUMBERS = 4096, 2**23
"""Batches, and row numbers of all of them."""
ROUNDING = 1e-4
"""Of sums in float32, as a part of n."""
NUM_SIGNS = 32
"""Signs of rows, over which weights are summed."""
SURE, LEAST = 6.0, 0.01
"""Standard errors, and the part of n, beyond which a mean of sums is another."""


def check_rows(part: Part, data: Data) -> None:
    """Check laws of rows of one's own: in the mean over batches the weight of every row must be 1.

    Sums of weights over all rows, and over rows with signs drawn once for each, are compared with
    what they are where every row counts once. Unequal rows are found where batches hold several
    times n rows together; of more rows only the sum of all weights is known.

    Args:
        part: a kernel, in which they are.
        data: all rows, in memory.

    Raises:
        ValueError: weights have another mean.
    """
    for law in laws_of(part):
        if is_own(type(law)) and not law.ordered:
            _check(law, data)


def _check(law: RowLaw, data: Data) -> None:
    n = num_rows(data)
    count = max(64, min(NUM_DRAWS, MOST_NUMBERS // law.batch_size))
    found = np.asarray(_sums(law, jax.random.key(53), n, count, data), float)
    rows = np.arange(n, dtype=np.uint32)
    wanted = np.array([n, *(_signs(rows, k).sum(dtype=float) for k in range(NUM_SIGNS))])
    off, error = found.mean(0) - wanted, found.std(0) / np.sqrt(count)
    takes = (
        "kernel must have a law of rows in which every row counts once on average (weights that "
        f"sum to n, or rows that are equally probable) for a forecast; got {law!r}"
    )
    if abs(off[0]) > SURE * error[0] + LEAST * n:
        raise ValueError(f"{takes}, whose weights sum to {found[:, 0].mean() / n:.3g} n on average")
    # All signs together: each by itself says little of weights that differ a little.
    known = np.maximum(error[1:], ROUNDING * n)
    if np.mean((off[1:] / known) ** 2) > 1 + SURE * np.sqrt(2 / NUM_SIGNS):
        raise ValueError(f"{takes}, in which some rows count more than others")


def _signs(rows: PyTree, which: int) -> PyTree:
    """Return 1 or −1 of each row number, a hash of it."""
    mixed = (rows + np.uint32(which * 0x9E3779B9 % 2**32)) * np.uint32(0x85EBCA6B)
    mixed = (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return 1.0 - 2.0 * (mixed >> np.uint32(31))


@jax.jit(static_argnums=(2, 3))
def _sums(law: RowLaw, key: Key, n: int, count: int, data: Data) -> Array:
    """Return sums of weights of drawn batches, plain and with signs, shape (count, 1 + signs)."""

    def of_batch(key: Key) -> Array:
        drawn = law.draw(key, data, None)
        weights = jnp.asarray(n / law.batch_size)
        if isinstance(drawn, Batch):
            rows = drawn.indices
            weights = weights if drawn.weights is None else drawn.weights
        else:
            rows = (drawn.start + jnp.arange(drawn.size)) % n
        signs = [_signs(rows.astype(jnp.uint32), k) for k in range(NUM_SIGNS)]
        return jnp.stack([jnp.sum(weights * each) for each in (jnp.ones(rows.shape), *signs)])

    return jax.lax.map(of_batch, jax.random.split(key, count), batch_size=256)
