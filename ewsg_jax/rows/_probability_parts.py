"""Rows by probability over several parts of the data: each part draws its share of a batch from its
own rows.

A part c of probability P_c draws its b/S rows with probabilities pᵢ/P_c, and each stands for
P_c S/(b pᵢ): the sum over the parts is unbiased. A row that is in every batch has a place of the
table to itself.
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
from ewsg_jax.rows._scheme import Order, SamplingScheme
from ewsg_jax.rows._shards import Shard
from ewsg_jax.rows._spread import ends
from ewsg_jax.rows._view import Batch, all_rows, view


@module
class ProbabilityInParts(Independent):
    """The scheme of `importance_weighted` for batches of one size, of rows in S parts.

    Attributes:
        table: that of `ByProbability` for each part, rows by their numbers in the part, uint32,
            shape (S, places, 4).
        first: the first place of the table that each row of a part's share is drawn from, int32,
            shape (S, b/S).
        size: the number of these places, uint32, shape (S, b/S).
        weight: how many rows each row stands for, shape (S, rows of a part).
        given: the probabilities that it was made from.
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
        threshold, stay, alias, _ = jnp.moveaxis(
            pytrees.take(self._of(self.table, data, 0), self._of(self.first, data) + place), -1, 0
        )
        rows = jnp.where(coin < threshold, stay, alias).astype(jnp.int32)
        return Batch(rows, weights=pytrees.take(self._of(self.weight, data, 0), rows))

    batches = SamplingScheme.batches

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


def in_parts(source: Any, batch_size: int, parts: int) -> ProbabilityInParts:
    """Return the scheme for rows in several parts.

    Args:
        source: the `RowProbabilities` of all rows.
        batch_size: rows of all parts together.
        parts: how many parts there are.

    Raises:
        ValueError: a part has no row of a probability, or too few, or more strata than its share of
            a batch.
    """
    p = np.asarray(source.probabilities, np.float64)
    bounds, share = ends(len(p), parts), batch_size // parts
    schemes = []
    # Each part has a scheme of its own rows: a batch has as many rows of every part.
    for part, (begin, end) in enumerate(itertools.pairwise(bounds)):
        of_part, total = p[begin:end], p[begin:end].sum()
        strata = None if source.strata is None else source.strata[int(begin) : int(end)]
        try:
            if not total:
                raise ValueError("its rows have no probability")
            within = type(source)(
                probabilities=jnp.asarray(of_part / total, source.probabilities.dtype),
                strata=strata,
            )
            schemes.append(within.of_size(share))
        except ValueError as error:
            raise ValueError(
                f"rows must have, in each of the {parts} parts into which mesh cuts them, at least "
                f"{share} of a probability for the part's share of a batch, one of each of its "
                f"strata; got part {part}: {checks.reason(error)}"
            ) from error
    # One program serves all parts, so their tables are made equally long.
    places = max(len(scheme.certain) + len(scheme.table) for scheme in schemes)
    most = int(np.diff(bounds).max())
    table, weight = np.zeros((parts, places, 4), np.uint32), np.zeros((parts, most))
    first, size = np.zeros((parts, share), np.int32), np.ones((parts, share), np.uint32)
    for part, scheme in enumerate(schemes):
        # Rows that are certain come first, each as a place that always stays with its own row: all
        # are then drawn alike.
        certain, count, drawn = scheme.certain, len(scheme.certain), len(scheme.table)
        table[part, :count, :3] = np.array([np.full(count, 2**32 - 1), certain, certain]).T
        table[part, count : count + drawn] = scheme.table
        first[part, :count], size[part, count:] = np.arange(count), drawn
        first[part, count:] = count
        if scheme.places is not None:
            first[part, count:] += np.asarray(scheme.places.first)
            size[part, count:] = np.asarray(scheme.places.size)
        weight[part, : len(scheme.weight)] = scheme.weight
    return ProbabilityInParts(
        batch_size=batch_size,
        table=jnp.asarray(table),
        first=jnp.asarray(first),
        size=jnp.asarray(size),
        weight=jnp.asarray(weight.astype(jnp.result_type(float))),
        given=source,
    )
