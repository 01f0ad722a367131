"""Normal scores of the ranks of draws, of one coordinate: of the draws and of their distances from
the median, from one sort.
"""

from typing import NamedTuple

import numpy as np

from ewsg_jax.base.optional import normal_quantile

FEWEST_PACKED_DRAWS = 2**12
"""Draws from which numbers of 32 bits are sorted with their places as numbers of 64 bits, in a
third of the time; of fewer both are quick.
"""


class Ranks(NamedTuple):
    """The draws of one coordinate in order.

    Attributes:
        order: the place of each in the draws, shape (n,).
        ordered: the draws in order, shape (n,), float64.
        table: the scores of the ranks 1 to n without ties, shape (n,).
    """

    order: np.ndarray
    ordered: np.ndarray
    table: np.ndarray

    def scores(self) -> np.ndarray:
        """Return normal scores of the draws, shape (n,)."""
        return self._at_places(self.order, self.ordered)

    def folded_scores(self) -> np.ndarray:
        """Return normal scores of the distances from the median, shape (n,)."""
        half = len(self.ordered) // 2
        median = (self.ordered[(len(self.ordered) - 1) // 2] + self.ordered[half]) / 2
        distances = np.abs(self.ordered - median)
        # They fall up to the median and rise behind it: a stable sort merges the two pieces.
        merged = np.argsort(distances, kind="stable")
        return self._at_places(self.order[merged], distances[merged])

    def quantile(self, probability: float) -> float:
        """Return a quantile, interpolated linearly as by `numpy.quantile`."""
        place = (len(self.ordered) - 1) * probability
        low = int(place)
        left, right = self.ordered[low], self.ordered[min(low + 1, len(self.ordered) - 1)]
        share, gap = place - low, right - left
        return float(left + share * gap if share < 0.5 else right - (1 - share) * gap)

    def _at_places(self, order: np.ndarray, ordered: np.ndarray) -> np.ndarray:
        ranked = np.empty_like(self.table)
        ranked[order] = _of_ties(ordered, self.table)
        return ranked


def rank_scores(count: int) -> np.ndarray:
    """Return the normal scores of the ranks 1 to n (Blom 1958), shape (n,)."""
    return _blom(np.arange(count), count)


def ranks(draws: np.ndarray, table: np.ndarray) -> Ranks:
    """Return the order of the draws of one coordinate.

    Args:
        draws: the draws, shape (n,), float64.
        table: what `rank_scores` returns for n, which serves all coordinates.
    """
    if len(draws) >= FEWEST_PACKED_DRAWS:
        narrow = draws.astype(np.float32)
        if np.array_equal(narrow, draws):
            return Ranks(*_packed_order(narrow), table)
    order = np.argsort(draws)
    return Ranks(order, draws[order], table)


def _packed_order(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of draws of 32 bits, fewer than 2³², and the draws in order, float64."""
    negative = np.uint32(2**31)
    bits = draws.view(np.uint32)
    # Whole numbers in the order of the draws: a negative one has all bits turned, others the first.
    turned = np.where(bits & negative, ~bits, bits | negative)
    packed = turned.astype(np.uint64)
    packed <<= np.uint64(32)
    packed |= np.arange(len(draws), dtype=np.uint64)
    packed.sort()
    turned = (packed >> np.uint64(32)).astype(np.uint32)
    bits = np.where(turned & negative, turned ^ negative, ~turned)
    return packed.astype(np.uint32).astype(np.intp), bits.view(np.float32).astype(np.float64)


def _of_ties(ordered: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Return the scores of draws in order: equal ones have the score of their mean rank."""
    tied = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(tied):
        return table
    begins = np.flatnonzero(np.diff(tied, prepend=-2) > 1)
    first, last = tied[begins], tied[np.append(begins[1:], len(tied)) - 1] + 1
    lengths = last - first + 1
    within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    scores = table.copy()
    scores[np.repeat(first, lengths) + within] = np.repeat(
        _blom((first + last) / 2, len(ordered)), lengths
    )
    return scores


def _blom(number: np.ndarray, count: int) -> np.ndarray:
    return normal_quantile((number + 0.625) / (count + 0.25))
