"""The data of Li et al.: 70 % of the rows to train on, 10 % to choose by and 20 % to judge by."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from ewsg_jax import datasets
from ewsg_jax._types import Data
from ewsg_jax.datasets.folder import find

REGRESSION = ("concrete", "airfoil", "parkinsons_updrs", "parkinsons_updrs, 21 features", "bike")
CLASSIFICATION = ("pima", "messidor", "eeg")
FOLDS = 8
"""Of the 80 % that are not judged by: one of them is the paper's 10 %."""
WILD = 10.0
"""Interquartile ranges from the median beyond which a row of EEG is left out."""


class Rows(NamedTuple):
    """Rows of FOLDS equal parts, all but the last of which are to train on at the end, and rows to judge by."""

    chosen_by: Data
    train: Data
    test: Data


def rows_of(name: str, seed: int) -> Rows:
    """Return a data set, split; standardised by the rows that are not judged by, y too where it is a quantity.

    Logistic regression has an intercept. Up to seven rows are left over.
    """
    x, y = arrays(name)
    order = np.random.default_rng(seed).permutation(len(x))
    num_test = round(0.2 * len(x))
    kept = (len(x) - num_test) // FOLDS * FOLDS
    judged, known = order[:num_test], order[num_test : num_test + kept]
    x = (x - x[known].mean(0)) / x[known].std(0)
    if name in REGRESSION:
        y = (y - y[known].mean()) / y[known].std()
    else:
        x = np.column_stack([np.ones(len(x)), x])

    def part(which: np.ndarray) -> Data:
        kind: Any = jnp.float32 if name in REGRESSION else jnp.int32
        return {"x": jnp.asarray(x[which], jnp.float32), "y": jnp.asarray(y[which], kind)}

    return Rows(part(known), part(known[: kept // FOLDS * (FOLDS - 1)]), part(judged))


def arrays(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return features and responses.

    The paper's 21 features of Parkinsons telemonitoring are the 19, the motor score and the number of the subject:
    the motor score is nearly the answer. Rows of EEG with wild values are left out.
    """
    data = datasets.load(name.split(",")[0])
    x, y = np.asarray(data.x, float), np.asarray(data.y, float)
    if name == "parkinsons_updrs, 21 features":
        with np.load(find(("parkinsons_updrs.npz",), "It holds y_motor and subject beside X and y")) as file:
            x = np.column_stack([x, file["y_motor"], file["subject"]])
    if name == "eeg":
        low, middle, high = np.quantile(x, [0.25, 0.5, 0.75], axis=0)
        tame = (np.abs(x - middle) <= WILD * (high - low)).all(1)
        x, y = x[tame], y[tame]
    return x, y
