"""What hierarchies with normal rows share: their rows, likelihoods and exact terms."""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from benchmarks.hierarchies.linear import Term, squares

GRID = "scales on a grid with rejection, all else normal given them"


def one(hypers: Mapping[str, Any]) -> float:
    """Return the precision 1 of rows that are divided by their known sd."""
    return 1.0


def inverse_square(name: str) -> Any:
    """Return the function of hyperparameters exp(−2x), the precision of an sd whose logarithm x is
    called `name`.
    """
    return lambda hypers: np.exp(-2.0 * np.asarray(hypers[name], float))


def narrow_rows(**columns: Any) -> dict[str, np.ndarray]:
    """Return columns by name: whole numbers as int32, others as float32."""
    return {
        name: np.asarray(x, np.int32 if np.asarray(x).dtype.kind == "i" else np.float32)
        for name, x in columns.items()
    }


def double(x: Any) -> np.ndarray:
    """Return the rows that the model has, in float64."""
    return np.asarray(np.asarray(x, np.float32), np.float64)


def one_hot(groups: np.ndarray, num_groups: int) -> np.ndarray:
    """Return a 1 in the column of each row's group, shape (n, num_groups)."""
    return np.eye(num_groups)[groups]


def likelihood_term(design: np.ndarray, rows: Mapping[str, Any], sd_is_known: bool) -> Term:
    """Return the term of rows y ~ N(design x, sd), the sd `se` of the row or exp(`log_s`)."""
    y = double(rows["y"])
    if sd_is_known:
        se = double(rows["se"])
        return squares(one, design / se[:, None], y / se)
    return squares(inverse_square("log_s"), design, y)


def log_normal_density(position: Any, row: Any, fitted: Any) -> Any:
    """Return log N(y; fitted, sd) of a row up to a constant, the sd exp(`log_s`) or the row's."""
    if "log_s" in position:
        inverse_sd, log_inverse_sd = jnp.exp(-position["log_s"]), -position["log_s"]
    else:
        inverse_sd, log_inverse_sd = 1.0 / row["se"], -jnp.log(row["se"])
    return -0.5 * ((row["y"] - fitted) * inverse_sd) ** 2 + log_inverse_sd
