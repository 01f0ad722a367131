"""Data of the real posteriors, as their models take them."""

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ewsg_jax as ewsg

LETTERS, LETTER_ROWS = "BDR", 5_000
"""Softmax regression is on the rows of these letters among the first rows of the file."""


class Prepared(NamedTuple):
    """Data as the models take them, in float64.

    Attributes:
        x: inputs, shape (n, p); the intercept is a column of ones.
        y: responses, shape (n,).
        names: the parameters', in the order of a flat position.
        about: what was done to the data, in words.
    """

    x: np.ndarray
    y: np.ndarray
    names: tuple[str, ...]
    about: str

    @property
    def fingerprint(self) -> list[float]:
        """Three numbers that change with any row, column or their order."""
        rows, columns = np.cos(np.arange(len(self.y))), np.sqrt(1 + np.arange(self.x.shape[1]))
        return [
            rounded(value, 8)
            for value in (rows @ self.x @ columns, rows @ self.x**2 @ columns, rows @ self.y)
        ]


def rounded(x: Any, digits: int = 3) -> float:
    """Return a number with so many digits."""
    return float(f"{float(x):.{digits}g}")


def posteriordb(kind: str, name: str) -> Any:
    """Return what a zipped file of posteriordb holds."""
    path = Path(os.environ["EWSG_JAX_DATA"]) / "posteriordb" / kind / f"{name}.json.zip"
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(archive.namelist()[0]))


def regression_names(num_inputs: int) -> tuple[str, ...]:
    """Return posteriordb's names of a linear model's parameters."""
    return (*(f"beta[{i}]" for i in range(1, num_inputs + 1)), "sigma")


def prepare_kidiq() -> Prepared:
    """Return kidiq, as the model kidscore_momiq takes it."""
    data = posteriordb("data", "kidiq")
    x = np.column_stack([np.ones(data["N"]), data["mom_iq"]])
    return Prepared(
        x, np.array(data["kid_score"], float), regression_names(2), "score on 1 and the mother's IQ"
    )


def prepare_mesquite() -> Prepared:
    """Return mesquite, as the model logmesquite takes it."""
    data = posteriordb("data", "mesquite")
    logs = [np.log(data[k]) for k in ("diam1", "diam2", "canopy_height", "total_height", "density")]
    x = np.column_stack([np.ones(data["N"]), *logs, data["group"]])
    return Prepared(
        x,
        np.log(data["weight"]),
        regression_names(7),
        "log weight on 1, five logarithms and the group",
    )


def prepare_sblrc() -> Prepared:
    """Return sblrc, as the model blr takes it."""
    data = posteriordb("data", "sblrc")
    return Prepared(
        np.array(data["X"]), np.array(data["y"]), regression_names(5), "y on X as they are"
    )


def standardised(dataset: ewsg.datasets.Dataset) -> np.ndarray:
    """Return standardised features and an intercept."""
    return ewsg.datasets.standardise(dataset, dataset)[0].with_intercept().x.astype(np.float64)


def prepare_logistic(name: str) -> Prepared:
    """Return Pima or Statlog heart."""
    data = ewsg.datasets.load(name)
    return Prepared(
        standardised(data),
        data.y.astype(float),
        (*data.feature_names, "intercept"),
        "standardised features and an intercept",
    )


def prepare_letter() -> Prepared:
    """Return some letters of the first rows."""
    data = ewsg.datasets.letter()
    first = data.take(np.arange(LETTER_ROWS))
    kinds = [ord(letter) - ord("A") for letter in LETTERS]
    data = first.take(np.flatnonzero(np.isin(first.y, kinds)))
    names = (
        f"{feature}.{letter}"
        for feature in (*data.feature_names, "intercept")
        for letter in LETTERS
    )
    y = np.searchsorted(kinds, data.y)
    about = (
        f"letters {', '.join(LETTERS)} of the first {LETTER_ROWS:,} rows, standardised "
        "features and an intercept"
    )
    return Prepared(standardised(data), y.astype(float), tuple(names), about)


PREPARE: dict[str, Callable[[], Prepared]] = {
    "kidiq": prepare_kidiq,
    "mesquite": prepare_mesquite,
    "sblrc": prepare_sblrc,
    "pima": lambda: prepare_logistic("pima"),
    "heart": lambda: prepare_logistic("heart"),
    "letter": prepare_letter,
}
MODELS = {
    "kidiq": "linear, σ unknown (kidscore_momiq)",
    "mesquite": "linear, σ unknown (logmesquite)",
    "sblrc": "linear, σ unknown (blr)",
    "pima": "logistic, prior N(0, I)",
    "heart": "logistic, prior N(0, I)",
    "letter": "softmax, prior N(0, I)",
}
