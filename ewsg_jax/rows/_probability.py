"""Rows by probability: row i with pᵢ, standing for 1/(b pᵢ) rows; rows that are rare and matter are
seen often.

    (1/b) Σ_{i∈I} ∇Vᵢ/pᵢ,   i ~ p, independent

is unbiased, of covariance (1/b)(Σᵢ ∇Vᵢ∇Vᵢᵀ/pᵢ − ∇V∇Vᵀ), least in trace for pᵢ ∝ ‖∇Vᵢ‖. Rows with b
pᵢ ≥ 1 are taken in every step, exactly, and the rest of the batch is drawn from the others.

Within strata c of probability P_c, b_c of the b rows are drawn from each, row i standing for
P_c/(b_c pᵢ); the covariance is Σ_c (1/b_c)(P_c Σ_{i∈c} ∇Vᵢ∇Vᵢᵀ/pᵢ − (Σ_{i∈c} ∇Vᵢ)(…)ᵀ), with b_c =
b P_c never more than without.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checked_arrays, checks, pytrees, rng
from ewsg_jax.base.modules import Part, module
from ewsg_jax.base.needs import Need
from ewsg_jax.base.typing import Array, Data, Key
from ewsg_jax.rows._alias import alias_table, certain_rows
from ewsg_jax.rows._independent import Independent
from ewsg_jax.rows._probability_parts import ProbabilityInParts, in_parts
from ewsg_jax.rows._scheme import Order, SamplingScheme
from ewsg_jax.rows._strata import allocate
from ewsg_jax.rows._view import Batch, num_rows


class Places(NamedTuple):
    """The part of the table that each row is drawn from, shape (rows drawn,).

    Attributes:
        first: the first place of its stratum, int32.
        size: how many places that stratum has, uint32.
    """

    first: Array
    size: Array


@module
class RowProbabilities(Part):
    """What `importance_weighted` and `leverage` return: n probabilities, for batches of any size.

    Attributes:
        probabilities: pᵢ, shape (n,), of sum 1.
        strata: the stratum of each row, 0, 1, …, shape (n,); None for one stratum.
    """

    made_by = "by_probability"

    probabilities: Array
    strata: Array | None = None

    def of_size(self, batch_size: int) -> "ByProbability":
        """Return the scheme that draws batches of this size.

        Raises:
            ValueError: fewer rows have a probability than a batch has rows, or there are more
                strata than rows in a batch.
        """
        p = np.asarray(self.probabilities, np.float64)
        certain, weight = certain_rows(p, batch_size), np.zeros(len(p))
        tables, first, size, places = [np.zeros((0, 4), np.uint32)], [], [], 0
        # Within a stratum a row may be so probable that it is certain too; the others share what is
        # left of the batch.
        for rows, drawn in self._strata(p, certain, batch_size):
            always = certain_rows(p[rows], drawn)
            certain[rows[always]] = True
            others, drawn = rows[~always], drawn - int(always.sum())
            if not drawn:
                continue
            table, realised = self._table(p, others)
            tables.append(table)
            # By the probabilities that the table makes, not those asked for, which 32 bits round:
            # estimates stay unbiased.
            weight[others] = 1 / (drawn * realised)
            first += [places] * drawn
            size += [len(others)] * drawn
            places += len(others)
        weight[certain] = 1
        stratified = self.strata is not None
        return ByProbability(
            batch_size=batch_size,
            certain=jax.device_put(np.flatnonzero(certain).astype(np.int32)),
            table=jax.device_put(np.concatenate(tables)),
            weight=jax.device_put(weight.astype(jnp.result_type(float))),
            places=Places(jnp.asarray(first, jnp.int32), jnp.asarray(size, jnp.uint32))
            if stratified
            else None,
            given=self,
        )

    def _table(self, p: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a table that draws some rows, and its probabilities; that of all rows once."""

        def make() -> tuple[np.ndarray, np.ndarray]:
            threshold, alias, realised = alias_table(p[rows] / p[rows].sum())
            columns = [threshold, rows, rows[alias], np.zeros_like(rows)]
            return np.stack([column.astype(np.uint32) for column in columns], axis=1), realised

        return (
            make()
            if len(rows) < len(p)
            else checked_arrays.remembered("alias table", make, self.probabilities)
        )

    def _strata(
        self, p: np.ndarray, certain: np.ndarray, batch_size: int
    ) -> list[tuple[np.ndarray, int]]:
        """Return the rows of each stratum that may be drawn, and how many of them are."""
        # Rows of probability 0 are in no table, and have no weight.
        others = np.flatnonzero((p > 0) & ~certain)
        drawn = batch_size - int(certain.sum())
        if drawn and not len(others):
            raise ValueError(
                f"batch_size must be at most {certain.sum()}, the rows that have a probability; "
                f"got {batch_size}"
            )
        if self.strata is None or not len(others):
            return [(others, drawn)] if drawn else []
        # By probability, not by number: a stratum gets rows for what its weights come to.
        label = np.asarray(self.strata)[others]
        sizes = np.bincount(label, p[others])
        if drawn < np.count_nonzero(sizes):
            raise ValueError(
                f"batch_size must be at least {np.count_nonzero(sizes) + certain.sum()}: a row of "
                f"each of the {np.count_nonzero(sizes)} strata, and {certain.sum()} rows that are "
                f"in every batch; got {batch_size}"
            )
        # On known numbers, even if the kernel is made while something is traced.
        with jax.ensure_compile_time_eval():
            seats = np.asarray(allocate(jnp.asarray(sizes), drawn))
        return [(others[label == c], int(seats[c])) for c in np.flatnonzero(sizes)]


@module
class ByProbability(Independent):
    """The scheme of `importance_weighted` for batches of one size.

    Attributes:
        certain: rows that are in every batch.
        table: for each of k uniform places how often, of 2³², it stays with its own row, that row,
            and the row that it goes to otherwise; uint32, shape (k, 4), the last column 0: 16 bytes
            are fetched as one.
        weight: how many rows each row stands for, shape (n,); 0 for a row that is never drawn.
        places: the part of the table for each row that is drawn; None for all of it.
        given: the probabilities that it was made from.
    """

    needs = frozenset({Need.ALL_ROWS})

    independent = False  # the rows that are certain are not
    weighted = True

    certain: Array
    table: Array
    weight: Array
    places: Places | None = None
    given: RowProbabilities

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Batch:
        rows = self._rows(key)
        return Batch(rows, weights=pytrees.take(self.weight, rows))

    def _rows(self, key: Key) -> Array:
        count = self.batch_size - self.certain.shape[0]
        if not count:
            # Nothing is random: every batch is the same.
            return self.certain
        k = self.table.shape[0]
        words = rng.index_words(key, k, count, words=2)
        # The high word is a place of the table, the low one its coin: both of one draw.
        place, coin = rng.scaled(words, jnp.uint32(k) if self.places is None else self.places.size)
        place = place if self.places is None else self.places.first + place
        # One gather of 16 bytes a row brings threshold, row and alias together.
        threshold, stay, alias, _ = jnp.moveaxis(pytrees.take(self.table, place), -1, 0)
        return jnp.concatenate(
            [self.certain, jnp.where(coin < threshold, stay, alias).astype(jnp.int32)]
        )

    batches = SamplingScheme.batches

    def check(self, data: Data) -> None:
        if num_rows(data) != self.weight.shape[0]:
            raise ValueError(
                f"rows must have a probability for each of the {num_rows(data)} rows of data; got "
                f"{self.weight.shape[0]} probabilities"
            )

    def over_parts(self, parts: int) -> ProbabilityInParts:
        return in_parts(self.given, self.batch_size, parts)


def importance_weighted(
    weights: Array | np.ndarray, *, strata: Array | None = None
) -> RowProbabilities:
    """Draw rows in proportion to weights, and weight their gradients so that sums are unbiased.

    `by_probability` is an older name of the same function.

    Args:
        weights: how often each row is to be drawn, not negative, not all zero, shape (n,); divided
            by their sum. A row of weight 0 is never drawn, and adds nothing to the gradient: that
            is right only for a row whose gradient is 0.
        strata: the stratum of each row, whole numbers from 0, shape (n,), such as
            `ewsg_jax.cluster` makes: each stratum has rows in every batch, in proportion to its
            weights, and at least one. Default: one stratum.

    Returns:
        What `rows=` takes, in `uniform`, `svrg`, `saga` and `control_variate` and the methods made
        of them.

    Raises:
        TypeError, ValueError: an argument is not such an array, or it is traced.

    References:
        S. Putcha, C. Nemeth and P. Fearnhead, Preferential subsampling for stochastic gradient
            Langevin dynamics, 2022: with weights that are norms of the rows' gradients.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> rows = ewsg.rows.importance_weighted(jnp.array([1.0, 1.0, 8.0]))
        >>> estimator = ewsg.gradients.uniform(
        ...     ewsg.models.gaussian_location(), batch_size=2, rows=rows
        ... )
        >>> estimator.law.certain.tolist()  # 2 · 0.8 ≥ 1: in every batch, with one of the others
        [2]
    """
    takes = "weights must be an array (n,) of numbers that are not negative and not all zero"
    if not isinstance(weights, jax.Array | np.ndarray) or checks.is_traced(weights):
        raise TypeError(
            f"{takes}, known before anything is compiled; got {checks.describe(weights)}"
        )
    known = np.asarray(weights)
    is_real = jnp.issubdtype(known.dtype, jnp.floating) or jnp.issubdtype(known.dtype, jnp.integer)
    if known.ndim != 1 or not is_real:
        raise ValueError(f"{takes}; got {checks.describe(weights)}")
    known = known.astype(np.float64)
    # In float64, so that a sum of many small weights does not vanish.
    if not np.isfinite(known).all() or (known < 0).any() or not known.sum() > 0:
        least = "NaN" if np.isnan(known).any() else f"{known.min() if len(known) else 0:.3g}"
        raise ValueError(
            f"{takes}; got {len(known)} numbers, the least {least}, of sum {known.sum():.3g}"
        )
    probabilities = jax.device_put((known / known.sum()).astype(jnp.result_type(float)))
    return RowProbabilities(probabilities=probabilities, strata=_labels(strata, len(known)))


def _labels(strata: object, n: int) -> Array | None:
    """Check the strata of n rows."""
    if strata is None:
        return None
    takes = f"strata must be an array ({n},) of whole numbers from 0, the stratum of each row"
    if not isinstance(strata, jax.Array | np.ndarray) or checks.is_traced(strata):
        raise TypeError(
            f"{takes}, known before anything is compiled; got {checks.describe(strata)}"
        )
    if strata.shape != (n,) or not jnp.issubdtype(strata.dtype, jnp.integer):
        raise ValueError(f"{takes}; got {checks.describe(strata)}")
    if int(strata.min()) < 0:
        raise ValueError(f"{takes}; got {int(strata.min())}")
    # Numbered from 0, because labels may be ids that do not fit in 32 bits.
    return jnp.asarray(np.unique(np.asarray(strata), return_inverse=True)[1], jnp.int32)
