"""Rows by probability: row i with pᵢ, standing for 1/(b pᵢ) rows; rows that are rare and matter are seen often.

    (1/b) Σ_{i∈I} ∇Vᵢ/pᵢ,   i ~ p, independent

is unbiased, of covariance (1/b)(Σᵢ ∇Vᵢ∇Vᵢᵀ/pᵢ − ∇V∇Vᵀ), least in trace for pᵢ ∝ ‖∇Vᵢ‖. Rows with b pᵢ ≥ 1 are taken
in every step, exactly, and the rest of the batch is drawn from the others.

A draw costs the same however many rows there are (Walker 1977; Vose 1991): a uniform row, and the toss of a coin
between that row and another one, its alias.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check, _random, _tree
from ewsg_jax._module import Part, module
from ewsg_jax._types import Array, Data, Key
from ewsg_jax.rows import gathering
from ewsg_jax.rows.gathering import Batch, num_rows
from ewsg_jax.rows.independent import Independent

WORD = 2**32


@module
class RowProbabilities(Part):
    """What `by_probability` and `leverage` return: n probabilities, for a batch of any size.

    Attributes:
        probabilities: pᵢ, shape (n,), of sum 1.
    """

    made_by = "by_probability"

    probabilities: Array

    def of_size(self, batch_size: int) -> "ByProbability":
        """Return the law of batches of so many rows.

        Raises:
            ValueError: nothing is left to draw from, but rows are to be drawn.
        """
        p = np.asarray(self.probabilities, np.float64)
        certain = _certain(p, batch_size)
        others = np.flatnonzero((p > 0) & ~certain)
        drawn = batch_size - int(certain.sum())
        if drawn and not len(others):
            raise ValueError(
                f"batch_size must be at most {certain.sum()}, the rows that have a probability; got {batch_size}"
            )
        weight, table = certain.astype(np.float64), np.zeros((0, 4))
        if drawn:
            threshold, alias, realised = _alias_table(p[others] / p[others].sum())
            table = np.stack([threshold, others, others[alias], 0 * others], axis=1)
            weight[others] = 1 / (drawn * realised)
        return ByProbability(
            batch_size=batch_size,
            certain=jnp.asarray(np.flatnonzero(certain), jnp.int32),
            table=jnp.asarray(table, jnp.uint32),
            weight=jnp.asarray(weight, jnp.result_type(float)),
            given=self,
        )


@module
class ByProbability(Independent):
    """The law of `by_probability` for batches of one size.

    Attributes:
        certain: rows that are in every batch.
        table: for each of k uniform places how often, of 2³², it stays with its own row, that row, and the one that
            it goes to else; uint32, shape (k, 4), the last column 0: 16 bytes are fetched as one.
        weight: what each row stands for, shape (n,); 0 where it is never seen.
        given: what it was made from.
    """

    independent = False  # the rows that are certain are not
    lists_batches = False

    certain: Array
    table: Array
    weight: Array
    given: RowProbabilities

    def draw(self, key: Key, data: Data) -> Array:
        count = self.batch_size - self.certain.shape[0]
        if not count:
            return self.certain
        k = self.table.shape[0]
        place, coin = _random.scaled_with_rest(_random.index_words(key, k, count, words=2), jnp.uint32(k))
        threshold, own, alias, _ = jnp.moveaxis(_tree.take(self.table, place), -1, 0)
        return jnp.concatenate([self.certain, jnp.where(coin < threshold, own, alias).astype(jnp.int32)])

    def gather(self, randomness: Array, data: Data) -> Batch:
        # The weights too, ahead of the step: from a table of n numbers they are as dear as the rows.
        return gathering.gather(data, randomness)._replace(weights=self.weights(randomness))

    def batch(self, randomness: Array | Batch, memory: Any, data: Data) -> Batch:
        return randomness if isinstance(randomness, Batch) else self.gather(randomness, data)

    def weights(self, indices: Array) -> Array:
        return _tree.take(self.weight, indices)

    def check(self, data: Data) -> None:
        if num_rows(data) != self.weight.shape[0]:
            raise ValueError(
                f"rows must have a probability for each of the {num_rows(data)} rows of data; got "
                f"{self.weight.shape[0]} probabilities"
            )

    def named(self) -> dict[str, Any]:
        return {"rows": self.given}


def by_probability(weights: Array) -> RowProbabilities:
    """Draw rows in proportion to weights, and let each stand for as many rows as make the gradient unbiased.

    Args:
        weights: how often each row is to be seen, not negative, not all zero, shape (n,); divided by their sum. A
            row of weight 0 is never seen: it has no part in the gradient then, which is right where its gradient
            is 0 alone.

    Returns:
        What `rows=` takes, in `uniform`, `svrg`, `saga` and `control_variate` and the methods made of them.

    Raises:
        TypeError, ValueError: it is no such array, or it is traced.

    References:
        S. Putcha, C. Nemeth and P. Fearnhead, Preferential subsampling for stochastic gradient Langevin dynamics,
            2022: with weights that are norms of the rows' gradients.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> law = ewsg.rows.by_probability(jnp.array([1.0, 1.0, 8.0]))
        >>> estimator = ewsg.gradients.uniform(ewsg.models.gaussian_location(), batch_size=2, rows=law)
        >>> estimator.law.certain.tolist()  # 2 · 0.8 ≥ 1: in every batch, and one of the other two beside it
        [2]
    """
    takes = "weights must be an array (n,) of numbers that are not negative and not all zero"
    if not isinstance(weights, jax.Array | np.ndarray) or _check.is_traced(weights):
        raise TypeError(f"{takes}, known before anything is compiled; got {_check.describe(weights)}")
    known = np.asarray(weights)
    is_real = jnp.issubdtype(known.dtype, jnp.floating) or jnp.issubdtype(known.dtype, jnp.integer)
    if known.ndim != 1 or not is_real:
        raise ValueError(f"{takes}; got {_check.describe(weights)}")
    known = known.astype(np.float64)
    if not np.isfinite(known).all() or (known < 0).any() or not known.sum() > 0:
        least = "NaN" if np.isnan(known).any() else f"{known.min() if len(known) else 0:.3g}"
        raise ValueError(f"{takes}; got {len(known)} numbers, the least {least}, of sum {known.sum():.3g}")
    return RowProbabilities(probabilities=jnp.asarray(known / known.sum(), jnp.result_type(float)))


def leverage(inputs: Array, covariance: Array) -> RowProbabilities:
    """Draw rows by their norms in the metric of the posterior, √(xᵢᵀ C xᵢ): those that bear on it, however rare.

    For linear predictors ∇Vᵢ is a multiple of xᵢ. In a metric in which the posterior has width 1 a row's norm says
    how far one of its kind may move it; a column that few rows have makes theirs large.

    Args:
        inputs: the xᵢ, shape (n, d).
        covariance: C, near the posterior's, such as the inverse of the curvature at the mode: (d, d), or its
            diagonal (d,).

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> x = jnp.array([[1.0, 0.0], [1.0, 0.0], [1.0, 30.0]])
        >>> law = ewsg.rows.leverage(x, jnp.linalg.inv(x.T @ x + jnp.eye(2)))
        >>> print((3 * law.probabilities).round(1))  # the third row alone tells of the second column
        [0.8 0.8 1.4]
    """
    for name, value in {"inputs": inputs, "covariance": covariance}.items():
        if not isinstance(value, jax.Array | np.ndarray) or _check.is_traced(value):
            raise TypeError(f"{name} must be an array of numbers; got {_check.describe(value)}")
    x, metric = np.asarray(inputs, np.float64), np.asarray(covariance, np.float64)
    if x.ndim != 2:
        raise ValueError(f"inputs must be an array (n, d); got {_check.describe(inputs)}")
    d = x.shape[1]
    if metric.shape not in ((d,), (d, d)):
        raise ValueError(f"covariance must have the shape ({d},) or ({d}, {d}); got {_check.describe(covariance)}")
    squares = x**2 @ metric if metric.ndim == 1 else np.einsum("ij,jk,ik->i", x, metric, x, optimize=True)
    if not np.isfinite(squares).all() or (squares < 0).any():
        raise ValueError("covariance must be finite, without negative eigenvalues; got one that is not")
    return by_probability(jnp.asarray(np.sqrt(squares)))


def _certain(p: np.ndarray, batch_size: int) -> np.ndarray:
    """Return which rows are in every batch: those of b pᵢ ≥ 1, and of the others as often as there are any."""
    certain = np.zeros(len(p), bool)
    while True:
        left, mass = batch_size - certain.sum(), p[~certain].sum()
        more = ~certain & (p > 0) & (left * p >= mass * (1 - 1e-12))
        if not left or not more.any():
            return certain
        certain |= more


def _alias_table(p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return thresholds of 2³², aliases as places, and the probabilities that they make, exactly."""
    k = len(p)
    scaled, alias = p * k, np.arange(k)
    small, large = list(np.flatnonzero(scaled < 1)), list(np.flatnonzero(scaled >= 1))
    stays = np.ones(k)
    while small and large:
        low, high = small.pop(), large[-1]
        stays[low], alias[low] = scaled[low], high
        scaled[high] -= 1 - scaled[low]
        if scaled[high] < 1:
            small.append(large.pop())
    # 2³² − 1 at the most: a place without an alias goes to itself either way.
    threshold = np.minimum(np.round(stays * WORD), WORD - 1)
    kept = np.where(alias == np.arange(k), WORD, threshold)
    realised = kept + np.bincount(alias, WORD - kept, minlength=k)
    return threshold, alias, realised / (WORD * k)
