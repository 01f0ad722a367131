"""Rows by probability over several parts of the data: each part draws its share of a batch from its
own rows.

Of a part c of probability P_c the b/S rows are drawn with pᵢ/P_c, and each stands for P_c S/(b pᵢ):
the sum over the parts is unbiased. What is in every batch has a place of the table to itself.
"""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array, Data, Key
from ewsg_jax.rows._independent import Independent
from ewsg_jax.rows._padded import Padded
from ewsg_jax.rows._scheme import Order, RowLaw
from ewsg_jax.rows._shards import Shard
from ewsg_jax.rows._spread import ends
from ewsg_jax.rows._view import Batch, all_rows, view


@module
class ProbabilityInParts(Independent):
    """The law of `by_probability` for batches of one size, of rows in S parts.

    Attributes:
        table: as of `ByProbability`, for each part, its rows by their number in it, uint32, shape
            (S, places, 4).
        first: where in the table each row of a part's share is drawn from, int32, shape (S, b/S).
        size: from how many places on, uint32, of the same shape.
        weight: what each row stands for, shape (S, rows of a part).
        given: what it was made from.
    """

    independent = False
    weighted = True

    table: Array
    first: Array
    size: Array
    weight: Array
    given: Any

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Batch:
        count = view(data).share(self.batch_size)
        words = rng.index_words(view(data).key(key), self.table.shape[1], count, words=2)
        place, coin = rng.scaled(words, self._of(self.size, data))
        threshold, own, alias, _ = jnp.moveaxis(
            pytrees.take(self._of(self.table, data, 0), self._of(self.first, data) + place), -1, 0
        )
        rows = jnp.where(coin < threshold, own, alias).astype(jnp.int32)
        return Batch(rows, weights=pytrees.take(self._of(self.weight, data, 0), rows))

    batches = RowLaw.batches

    def check(self, data: Data) -> None:
        n = self.given.probabilities.shape[0]
        # One part by itself is asked for its shapes alone.
        if not isinstance(data, Padded) and all_rows(data) != n:
            raise ValueError(
                f"rows must have a probability for each of the {all_rows(data)} rows of data; got "
                f"{n} probabilities"
            )

    def _of(self, parts: Array, data: Data, other: int | None = None) -> Array:
        """Return this part's; of data without parts, asked for shapes alone, all or one part."""
        if isinstance(data, Shard):
            return parts[data.part]
        return parts.reshape(-1) if other is None else parts[other]


def in_parts(given: Any, batch_size: int, parts: int) -> ProbabilityInParts:
    """Return the law of rows in this many parts.

    Args:
        given: what `by_probability` returned.
        batch_size: rows of all parts together.
        parts: their number.

    Raises:
        ValueError: a part has no row of a probability, or too few, or more strata than its share of
            a batch.
    """
    p = np.asarray(given.probabilities, np.float64)
    bounds, share = ends(len(p), parts), batch_size // parts
    laws = []
    # Each part is a law of its own, of its own rows: a batch has as many rows of every part.
    for part, (begin, end) in enumerate(itertools.pairwise(bounds)):
        own, total = p[begin:end], p[begin:end].sum()
        strata = None if given.strata is None else given.strata[int(begin) : int(end)]
        try:
            if not total:
                raise ValueError("its rows have no probability")
            within = type(given)(
                probabilities=jnp.asarray(own / total, given.probabilities.dtype), strata=strata
            )
            laws.append(within.of_size(share))
        except ValueError as error:
            raise ValueError(
                f"rows must have, in each of the {parts} parts into which mesh cuts them, at least "
                f"{share} of a probability for the part's share of a batch, one of each of its "
                f"strata; got part {part}, where {checks.reason(error)}"
            ) from error
    # One program serves all parts, so their tables are made equally long.
    places = max(len(law.certain) + len(law.table) for law in laws)
    most = int(np.diff(bounds).max())
    table, weight = np.zeros((parts, places, 4), np.uint32), np.zeros((parts, most))
    first, size = np.zeros((parts, share), np.int32), np.ones((parts, share), np.uint32)
    for part, law in enumerate(laws):
        # Rows that are certain come first, each as a place that always stays with its own row: all
        # are then drawn alike.
        count, drawn = len(law.certain), len(law.table)
        table[part, :count, :3] = np.array([np.full(count, 2**32 - 1), law.certain, law.certain]).T
        table[part, count : count + drawn] = law.table
        first[part, :count], size[part, count:] = np.arange(count), drawn
        first[part, count:] = count
        if law.places is not None:
            first[part, count:] += np.asarray(law.places.first)
            size[part, count:] = np.asarray(law.places.size)
        weight[part, : len(law.weight)] = law.weight
    made = (jnp.asarray(x) for x in (table, first, size, weight.astype(jnp.result_type(float))))
    names = ("table", "first", "size", "weight")
    return ProbabilityInParts(
        batch_size=batch_size, **dict(zip(names, made, strict=True)), given=given
    )
