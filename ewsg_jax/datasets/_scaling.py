"""Features with mean 0 and standard deviation 1 over the training rows, or rotated to principal
components too.

`standardisation` is the map with the way back for weights; `whiten` is a map to other weights.
"""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple, overload

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, limits
from ewsg_jax.base.typing import Data, PyTree
from ewsg_jax.datasets._dataset import Dataset

A_DATASET = "a Dataset (as ewsg_jax.datasets.load and split return)"


@dataclass(frozen=True, eq=False)
class Standardisation:
    """The map z = (x − mean) · factor of each feature, made by `standardisation`.

    Attributes:
        mean: over the training rows, shape (d,), float64.
        factor: 1 over the standard deviation there, and 0 for a feature that is constant, shape
            (d,), float64.
        feature_names: d names, or None if there were none.
    """

    mean: np.ndarray
    factor: np.ndarray
    feature_names: tuple[str, ...] | None

    @overload
    def __call__(self, rows: Dataset) -> Dataset: ...

    @overload
    def __call__(self, rows: np.ndarray | jax.Array) -> np.ndarray: ...

    def __call__(self, rows: Data) -> Data:
        """Return rows with standardised features, float32: a data set or an array (n, d), as given.

        Raises:
            TypeError, ValueError: the rows are neither, are not finite or have other features.
        """
        self._checked("rows", rows, "the training rows")
        return self._of(rows)

    def _of(self, rows: Data) -> Data:
        if isinstance(rows, Dataset):
            return dataclasses.replace(rows, x=self._of(rows.x))
        return ((np.asarray(rows) - self.mean) * self.factor).astype(np.float32)

    def _checked(self, name: str, rows: object, of: str) -> None:
        """Check rows, an argument of that name, which must have the features `of` others."""
        x, names = _features(name, rows), getattr(rows, "feature_names", None)
        known = names is not None and self.feature_names is not None
        if x.shape[1] != len(self.mean) or (known and names != self.feature_names):
            called = f" that begin with {names[0]!r}" if names else ""
            raise ValueError(
                f"{name} must have the {len(self.mean)} features of {of}; got {x.shape[1]}{called}"
            )

    def original(
        self, weights: object, intercept: object = 0.0, *, axis: int = -1
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return weights and intercept of the original features with the same linear predictor.

        With z = (x − m)·f, zᵀw + b = xᵀ(f w) + b − (f m)ᵀw: there is an intercept even if there
        was none. A constant feature gets the weight 0. Draws are mapped one by one: there may be
        any other axes.

        Args:
            weights: the weights of the standardised features, d numbers along one axis, such as
                draws (chain, draw, d).
            intercept: the intercept of the standardised features: a number, or an array of the
                weights' shape less that axis.
            axis: the axis of the features; −1 for one row of weights, 0 for those of
                `softmax_regression`, (d, k).

        Returns:
            Weights of the same shape, and an intercept of that shape without the axis, float64.

        Raises:
            TypeError, ValueError: an argument has the wrong type, value or shape.
        """
        w, b = _numbers("weights", weights), _numbers("intercept", intercept)
        takes = f"weights must have d = {len(self.mean)} numbers along the axis of features"
        if isinstance(axis, bool) or not isinstance(axis, int) or not -w.ndim <= axis < w.ndim:
            raise ValueError(f"{takes}; got shape {w.shape} and axis {checks.describe(axis)}")
        if w.shape[axis] != len(self.mean):
            raise ValueError(f"{takes}; got shape {w.shape}, {w.shape[axis]} along axis {axis}")
        last = np.moveaxis(w, axis, -1)
        if b.shape not in ((), last.shape[:-1]):
            raise ValueError(
                f"intercept must be a number or of shape {last.shape[:-1]}; got shape {b.shape}"
            )
        scaled = last * self.factor
        return np.moveaxis(scaled, -1, axis), np.asarray(b - scaled @ self.mean)


def standardisation(train: object) -> Standardisation:
    """Return the map that subtracts features' training means and divides by their deviations.

    A feature that is constant over the training rows says nothing about the response: it becomes
    zero.

    Args:
        train: a data set, or an array of real numbers, shape (n, d).

    Raises:
        TypeError, ValueError: it is neither, or its features are not finite.

    Example:
        >>> import numpy as np, ewsg_jax as ewsg
        >>> x = np.array([[1.0, 30.0], [3.0, 10.0], [5.0, 50.0]])
        >>> scaling = ewsg.datasets.standardisation(x)
        >>> z, w, b = scaling(x), np.array([0.5, -1.0]), 2.0
        >>> w_of_x, b_of_x = scaling.original(w, b)
        >>> bool(np.allclose(x @ w_of_x + b_of_x, z @ w + b))
        True
    """
    x = _features("train", train)
    mean = x.mean(axis=0, dtype=np.float64)
    scale = x.std(axis=0, dtype=np.float64)
    # Compared with the largest value, whatever the unit: 1e-19 coulomb may vary by much.
    low, high = (np.asarray(end, np.float64) for end in (x.min(axis=0), x.max(axis=0)))
    largest = np.maximum(np.abs(low), np.abs(high))
    constant = scale <= limits.FLOAT64_ROUNDING * largest
    factor = np.where(constant, 0.0, 1 / np.where(constant, 1.0, scale))
    return Standardisation(mean, factor, getattr(train, "feature_names", None))


@overload
def standardise(train: Dataset, test: Dataset) -> tuple[Dataset, Dataset]: ...


@overload
def standardise(
    train: np.ndarray | jax.Array, test: np.ndarray | jax.Array
) -> tuple[np.ndarray, np.ndarray]: ...


def standardise(train: Data, test: Data) -> tuple[Data, Data]:
    """Subtract each feature's mean over the training rows and divide by its deviation there.

    A feature that is constant over the training rows says nothing about the response: it becomes
    zero in both parts. `standardisation` gives the map itself, and weights of the original features
    from those of these.

    Args:
        train: the rows that the means and standard deviations come from: a data set, or an array of
            real numbers, shape (n, d).
        test: rows scaled by the same numbers, given in the same way.

    Returns:
        Both parts, data sets or arrays as given; features in float32.

    Raises:
        TypeError, ValueError: an argument is neither, its features are not finite, or those of the
            two differ.

    Example:
        >>> import ewsg_jax as ewsg
        >>> train, test = ewsg.datasets.split(ewsg.datasets.breast_cancer(), 0.2, seed=0)
        >>> train, test = ewsg.datasets.standardise(train, test)
        >>> bool(abs(train.x.mean(0)).max() < 1e-6), train.x.dtype
        (True, dtype('float32'))
    """
    scaling = standardisation(train)
    if isinstance(train, Dataset) != isinstance(test, Dataset):
        takes = A_DATASET if isinstance(train, Dataset) else "an array of real numbers"
        raise TypeError(f"test must be {takes} like train; got {checks.describe(test)}")
    scaling._checked("test", test, "train")
    return scaling._of(train), scaling._of(test)


class Whitened(NamedTuple):
    """The two parts in whitened features.

    Attributes:
        train: training rows, of covariance I.
        test: test rows, by the same map.
        num_dropped: directions without variance, dropped.
    """

    train: Dataset
    test: Dataset
    num_dropped: int


def whiten(train: Dataset, test: Dataset) -> Whitened:
    """Rotate features to their principal components over the training rows, of variance 1.

    A spherical prior on whitened weights is another prior than a spherical one on the original
    weights.

    Args:
        train: the rows that the components come from; best standardised before.
        test: rows mapped by the same numbers.

    Raises:
        TypeError, ValueError: an argument is no data set, its features are not finite, those of the
            two differ, or no feature varies.

    Example:
        >>> import numpy as np, ewsg_jax as ewsg
        >>> train, test = ewsg.datasets.split(ewsg.datasets.breast_cancer(), 0.2, seed=0)
        >>> whitened = ewsg.datasets.whiten(*ewsg.datasets.standardise(train, test))
        >>> bool(np.allclose(np.cov(whitened.train.x.T, bias=True), np.eye(30), atol=1e-3))
        True
    """
    for name, part in (("train", train), ("test", test)):
        checks.instance(name, part, Dataset, "as ewsg_jax.datasets.load and split return")
    scaling = standardisation(train)
    scaling._checked("test", test, "train")
    mean = scaling.mean
    centred = train.x - mean
    variances, directions = np.linalg.eigh(centred.T @ centred / train.num_rows)
    order = np.argsort(variances)[::-1]
    # Directions whose variance is below this share of the largest are rounding, not data.
    kept = order[variances[order] > 1e-8 * variances[order[0]]]
    if not kept.size:
        raise ValueError(
            "train must have features that vary over its rows; every one is constant; got "
            f"{checks.describe(train.x)}"
        )
    matrix = directions[:, kept] / np.sqrt(variances[kept])
    names = tuple(f"component_{i}" for i in range(1, kept.size + 1))

    def mapped(dataset: Dataset) -> Dataset:
        x = ((dataset.x - mean) @ matrix).astype(np.float32)
        return dataclasses.replace(dataset, x=x, feature_names=names)

    return Whitened(mapped(train), mapped(test), train.x.shape[1] - kept.size)


def _features(name: str, rows: PyTree) -> np.ndarray:
    """Check and return the features of a data set, or an array of them."""
    if isinstance(rows, Dataset):
        checks.finite(f"{name}.x", rows.x)
        return rows.x
    takes = f"{A_DATASET} or an array of real numbers, shape (n, d)"
    known = isinstance(rows, np.ndarray | jax.Array) and not checks.is_traced(rows)
    if not known or rows.dtype.kind not in "biuf":
        raise TypeError(f"{name} must be {takes}; got {checks.describe(rows)}")
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"{name} must be {takes}, n and d at least 1; got {checks.describe(rows)}")
    checks.finite(name, rows)
    return np.asarray(rows)


def _numbers(name: str, value: object) -> np.ndarray:
    """Check and return numbers in float64."""
    known = isinstance(
        value, np.ndarray | jax.Array | np.number | int | float
    ) and not checks.is_traced(value)
    kind = jnp.result_type(value) if known else np.dtype(object)
    if not (jnp.issubdtype(kind, jnp.floating) or jnp.issubdtype(kind, jnp.integer)):
        raise TypeError(f"{name} must be an array of real numbers; got {checks.describe(value)}")
    return np.asarray(value, np.float64)
