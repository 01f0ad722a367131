"""The posteriors of `answers.py`: regressions of real data and of rows made up, and models."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.answers.case import Case, Data, Density, Regression
from benchmarks.answers.models import MODELS
from benchmarks.answers.rare_rows import load
from ewsg_jax.datasets._table import find, read

FEWEST = 20
OUTLYING = 10.0
SYNTHETIC = 5_000_000, 30


def log_density(is_linear: bool) -> Density:
    """Return the log density of a regression, up to a constant: one matrix product
    forth, one back.
    """

    def of(position: jax.Array, data: Data) -> jax.Array:
        fitted = data["x"] @ position
        if is_linear:
            rows = -0.5 * jnp.square(data["y"] - fitted)
        else:  # as NumPyro has it: its derivative takes 0.7 times that of jax.nn.softplus
            rows = (
                data["y"] * fitted - jnp.maximum(fitted, 0) - jnp.log1p(jnp.exp(-jnp.abs(fitted)))
            )
        return jnp.sum(rows) - 0.5 * position @ position

    return of


def regression(
    name: str,
    title: str,
    load: Callable[[], Data],
    is_linear: bool = False,
    has_outliers: bool = False,
) -> Regression:
    """Return a regression of these rows: x of shape (n, d), float32, and y of shape (n,)."""
    made = ewsg.models.linear_regression() if is_linear else ewsg.models.logistic_regression()
    return Regression(
        name,
        title,
        load,
        made,
        log_density(is_linear),
        is_linear=is_linear,
        has_outliers=has_outliers,
    )


def covertype(all_columns: bool) -> dict[str, jax.Array]:
    """Return Covertype's training rows, with all columns or those of which both classes have twenty
    rows.
    """
    rows = load()
    x: np.ndarray = np.asarray(rows.x)
    y: np.ndarray = np.asarray(rows.y)
    if not all_columns:
        counts = [
            min(np.count_nonzero(column[y == label] == column.max()) for label in (0, 1))
            for column in x.T
        ]
        are_two = [len(np.unique(column)) == 2 for column in x.T]
        x = x[
            :,
            np.array(
                [not two or count >= FEWEST for two, count in zip(are_two, counts, strict=True)]
            ),
        ]
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
    """Return the rows of a file `name`.npz of the data folder: standardised features, an intercept,
    a response.
    """
    arrays = read(find((f"{name}.npz",), "It holds X and y, as the UCI archive has them."), name)
    x, y = arrays["X"], arrays["y"]
    scaled = ewsg.datasets.standardisation(x)(x)
    scaled = np.column_stack([scaled, np.ones(len(scaled), np.float32)])
    return {
        "x": jnp.asarray(scaled, jnp.float32),
        "y": jnp.asarray(response(y.astype(np.float64)), jnp.float32),
    }


_ALL = (
    regression(
        "protein",
        "protein (linear)",
        lambda: small("protein", lambda y: (y - y.mean()) / y.std()),
        is_linear=True,
    ),
    regression(
        "bike",
        "bike (busier than the median hour)",
        lambda: small("bike", lambda y: y > np.median(y)),
    ),
    regression("letter", "letter (A to M or N to Z)", lambda: small("letter", lambda y: y < 13)),
    regression(
        "eeg", "EEG, outliers left in", lambda: small("eeg", lambda y: y), has_outliers=True
    ),
    regression("covertype_46", "Covertype, 46 columns", lambda: covertype(False)),
    regression("covertype", "Covertype, all columns", lambda: covertype(True)),
    regression("synthetic", "five million rows, 30 columns", synthetic),
)
CASES: dict[str, Case] = {case.name: case for case in _ALL} | MODELS
