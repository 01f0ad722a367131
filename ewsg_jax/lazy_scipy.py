"""SciPy, imported when it is first asked for: it takes as long to import as this library."""

from collections.abc import Callable
from typing import Any

import numpy as np


def student_quantile(degrees_of_freedom: object, probability: object) -> Any:
    """Return the quantile of Student's t, shaped like the arguments."""
    from scipy.special import stdtrit

    return stdtrit(degrees_of_freedom, probability)


def normal_quantile(probability: object) -> Any:
    """Return the quantile of the standard normal law, shaped like the argument."""
    from scipy.special import ndtri

    return ndtri(probability)


def lu_factor(matrix: np.ndarray) -> Any:
    """Return the LU factorisation of a matrix (m, m), as `lu_solve` takes it."""
    from scipy.linalg import lu_factor

    return lu_factor(matrix)


def lu_solve(factor: object, right: np.ndarray) -> np.ndarray:
    """Return A⁻¹ b for b of shape (m,) or (m, q), A as `lu_factor` returned it."""
    from scipy.linalg import lu_solve

    return lu_solve(factor, right)


def root_between(
    function: Callable[[float], float], low: float, high: float, error: float
) -> float:
    """Return where a function is 0, to that absolute error; its signs at both ends must differ."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=error))  # type: ignore[arg-type] - the root alone, by default
