"""A data set: features, responses and their source; rows to fit on and rows to judge by."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ewsg_jax.base import checks

INTERCEPT = "intercept"


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows of features with a response each.

    Attributes:
        x: features, shape (n, d).
        y: responses, shape (n,); 0 and 1 for a binary one.
        feature_names: d names.
        name: what the data set is called.
        source: its origin, in words.

    Raises:
        TypeError: x or y is no array of numbers, or a name is no text.
        ValueError: the shapes do not agree, or there is no row.

    Example:
        >>> import numpy as np, ewsg_jax as ewsg
        >>> data = ewsg.datasets.Dataset(
        ...     np.eye(2), np.array([0, 1]), ("a", "b"), "tiny", "made here"
        ... )
        >>> data.with_intercept().feature_names
        ('a', 'b', 'intercept')
    """

    x: np.ndarray
    y: np.ndarray
    feature_names: tuple[str, ...]
    name: str
    source: str

    def __post_init__(self) -> None:
        for name, value in (("x", self.x), ("y", self.y)):
            if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
                raise TypeError(
                    f"{name} must be a NumPy array of real numbers; got {checks.describe(value)}"
                )
        checks.texts("feature_names", self.feature_names)
        if (
            self.x.ndim != 2
            or self.y.shape != self.x.shape[:1]
            or len(self.feature_names) != self.x.shape[1]
        ):
            raise ValueError(
                "a data set takes x of shape (n, d), y of shape (n,) and d feature names; got x of "
                f"shape {self.x.shape}, y of shape {self.y.shape} and {len(self.feature_names)} "
                "feature_names"
            )
        if not self.x.size:
            raise ValueError(f"x must have rows and features; got an array of shape {self.x.shape}")

    @property
    def num_rows(self) -> int:
        """The number of rows, n."""
        return self.x.shape[0]

    def rows(self) -> dict[str, np.ndarray]:
        """Return `{"x": …, "y": …}` in float32: the data that the regression models take."""
        return {"x": np.ascontiguousarray(self.x, np.float32), "y": self.y.astype(np.float32)}

    def take(self, rows: np.ndarray) -> "Dataset":
        """Return the data set of these rows, by number.

        Raises:
            TypeError, ValueError: the rows are no array of numbers from 0 to n − 1.
        """
        checks.indices("rows", rows, self.num_rows)
        return dataclasses.replace(self, x=self.x[rows], y=self.y[rows])

    def without(self, columns: Sequence[str]) -> "Dataset":
        """Return the data set without these features.

        Raises:
            TypeError: the columns are no list of names.
            ValueError: there is no feature of that name.
        """
        checks.texts("columns", columns)
        for name in columns:
            checks.one_of("columns", name, self.feature_names)
        kept = [i for i, name in enumerate(self.feature_names) if name not in set(columns)]
        names = tuple(self.feature_names[i] for i in kept)
        return dataclasses.replace(self, x=self.x[:, kept], feature_names=names)

    def with_intercept(self) -> "Dataset":
        """Return the data set with a last column of ones."""
        ones = np.ones((self.num_rows, 1), self.x.dtype)
        names = (*self.feature_names, INTERCEPT)
        return dataclasses.replace(self, x=np.hstack([self.x, ones]), feature_names=names)


def split(dataset: Dataset, test_fraction: float, seed: int) -> tuple[Dataset, Dataset]:
    """Split the rows at random into training and test rows.

    The test set has ⌈n·fraction⌉ rows: for Covertype and 0.2, 116,203, which leaves 464,809 to
    train on.

    Args:
        dataset: the data set.
        test_fraction: share of the rows held out, above 0 and below 1.
        seed: seed of the shuffle; the same seed gives the same split.

    Raises:
        TypeError, ValueError: the data set is none, the seed is not a whole number from 0 on, the
            fraction is not above 0 and below 1, or one part would be empty.

    Example:
        >>> import ewsg_jax as ewsg
        >>> train, test = ewsg.datasets.split(ewsg.datasets.breast_cancer(), 0.2, seed=0)
        >>> train.num_rows, test.num_rows
        (455, 114)
    """
    checks.instance("dataset", dataset, Dataset, "as ewsg_jax.datasets.load returns")
    checks.fraction("test_fraction", test_fraction)
    checks.integer("seed", seed, minimum=0)
    # A product such as 10 · 0.3 = 3.0000000000000004 is meant to be 3.
    num_test = math.ceil(dataset.num_rows * float(test_fraction) - 1e-9)
    if not 0 < num_test < dataset.num_rows:
        raise ValueError(
            f"test_fraction must leave rows in both parts of {dataset.num_rows}; got "
            f"{test_fraction}"
        )
    order = np.random.default_rng(seed).permutation(dataset.num_rows)
    return dataset.take(order[num_test:]), dataset.take(order[:num_test])
