"""Packages that only some functions need: some may not be installed, and SciPy takes as long to
import as this library.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

EXTRAS = {
    "arviz": ("ArviZ", "diagnostics"),
    "pandas": ("pandas", "diagnostics"),
    "matplotlib": ("matplotlib", "plots"),
    "sklearn": ("scikit-learn", "data"),
    "pyarrow": ("pyarrow", "parquet"),
    "flax": ("flax", "networks"),
    "equinox": ("Equinox", "networks"),
    "blackjax": ("BlackJAX", "nuts"),
    "numpyro": ("NumPyro", "numpyro"),
    "pymc": ("PyMC", "pymc"),
}
"""What each is called, and the extra that installs it. (tqdm, of the extra progress, is used if it
is installed.)
"""


def module(name: str, needed_by: str) -> Any:
    """Return a module, by its dotted name, of a package that may not be installed.

    If it is not, the error says what needs it, and the smallest extra that installs it.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package, extra = EXTRAS[name.split(".")[0]]
        raise ImportError(
            f"{needed_by} needs {package}: pip install 'ewsg_jax[{extra}]'"
        ) from error


def student_quantile(degrees_of_freedom: object, probability: object) -> Any:
    """Return the quantile of Student's t, shaped like the arguments."""
    from scipy.special import stdtrit

    return stdtrit(degrees_of_freedom, probability)


def normal_quantile(probability: object) -> Any:
    """Return the quantile of the standard normal distribution, shaped like the argument."""
    from scipy.special import ndtri

    return ndtri(probability)


def error_function(x: object) -> Any:
    """Return erf of the numbers, shaped like the argument."""
    from scipy.special import erf

    return erf(x)


def fourier() -> Any:
    """Return SciPy's Fourier transforms: of many series at once, in half of NumPy's time."""
    return importlib.import_module("scipy.fft")


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
    """Return the root of a function, to that absolute error; its signs at both ends must differ."""
    from scipy.optimize import brentq

    return float(brentq(function, low, high, xtol=error))  # type: ignore[arg-type] - the root alone, by default
