"""The posteriors of `answers.py`: real data with their model, and rows made up."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.rare_rows import load
from ewsg_jax.datasets.folder import find, read

FEWEST = 20
OUTLYING = 10.0
SYNTHETIC = 5_000_000, 30


class Case(NamedTuple):
    """Data and model.

    Attributes:
        name: on the command line and in results.
        title: in tables.
        load: gives x of shape (n, d), float32, and y of shape (n,).
        is_linear: a linear regression with noise 1, else a logistic one; the prior is N(0, I) for both.
        has_outliers: rows beyond `OUTLYING` sds are walls, and without them the posterior is nearly normal.
    """

    name: str
    title: str
    load: Callable[[], dict[str, jax.Array]]
    is_linear: bool = False
    has_outliers: bool = False

    @property
    def model(self) -> ewsg.Posterior:
        """The posterior."""
        return ewsg.models.linear_regression() if self.is_linear else ewsg.models.logistic_regression()


def covertype(all_columns: bool) -> dict[str, jax.Array]:
    """Return Covertype's training rows, with all columns or those of which both classes have twenty rows."""
    rows = load()
    x: np.ndarray = np.asarray(rows.x)
    y: np.ndarray = np.asarray(rows.y)
    if not all_columns:
        counts = [min(np.count_nonzero(column[y == label] == column.max()) for label in (0, 1)) for column in x.T]
        are_two = [len(np.unique(column)) == 2 for column in x.T]
        x = x[:, np.array([not two or count >= FEWEST for two, count in zip(are_two, counts, strict=True)])]
    return {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(y)}


def synthetic() -> dict[str, jax.Array]:
    """Return five million rows."""
    n, d = SYNTHETIC
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), np.float32)
    x[:, 0] = 1
    chance = 1 / (1 + np.exp(-x @ (rng.standard_normal(d) / 4).astype(np.float32)))
    return {"x": jnp.asarray(x), "y": jnp.asarray(rng.random(n) < chance, jnp.float32)}


def small(name: str, response: Callable[[np.ndarray], np.ndarray]) -> dict[str, jax.Array]:
    """Return the rows of a file `name`.npz of the data folder: standardised features, an intercept, a response."""
    arrays = read(find((f"{name}.npz",), "It holds X and y, as the UCI archive has them."), name)
    x, y = arrays["X"], arrays["y"]
    scaled = ewsg.datasets.standardisation(x)(x)
    scaled = np.column_stack([scaled, np.ones(len(scaled), np.float32)])
    return {"x": jnp.asarray(scaled, jnp.float32), "y": jnp.asarray(response(y.astype(np.float64)), jnp.float32)}


_ALL = (
    Case(
        "protein", "protein (linear)", lambda: small("protein", lambda y: (y - y.mean()) / y.std()), is_linear=True
    ),
    Case("bike", "bike (busier than the median hour)", lambda: small("bike", lambda y: y > np.median(y))),
    Case("letter", "letter (A to M or N to Z)", lambda: small("letter", lambda y: y < 13)),
    Case("eeg", "EEG, outliers left in", lambda: small("eeg", lambda y: y), has_outliers=True),
    Case("covertype_46", "Covertype, 46 columns", lambda: covertype(False)),
    Case("covertype", "Covertype, all columns", lambda: covertype(True)),
    Case("synthetic", "five million rows, 30 columns", synthetic),
)
CASES = {case.name: case for case in _ALL}
