"""Rows by their norms in the metric of the posterior."""

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, limits
from ewsg_jax.base.typing import Array
from ewsg_jax.rows._probability import RowProbabilities, importance_weighted
from ewsg_jax.rows._view import CHUNK_SIZE

REAL = np.floating, np.integer, np.bool_


def leverage(inputs: Array | np.ndarray, covariance: Array | np.ndarray) -> RowProbabilities:
    """Draw rows by norms in the posterior's metric, √(xᵢᵀ C xᵢ): those that matter, even rare.

    For linear predictors ∇Vᵢ is a multiple of xᵢ. In a metric in which all posterior sds are 1, the
    norm of a row bounds how far such a row may move the posterior; a column that is 0 for most rows
    makes the norms of the others large.

    Args:
        inputs: the xᵢ, shape (n, d).
        covariance: C, an approximation of the posterior covariance, such as the inverse Hessian at
            the mode: a matrix (d, d), or its diagonal (d,).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> x = jnp.array([[1.0, 0.0], [1.0, 0.0], [1.0, 30.0]])
        >>> rows = ewsg.rows.leverage(x, jnp.linalg.inv(x.T @ x + jnp.eye(2)))
        >>> print((3 * rows.probabilities).round(1))  # only the third row informs x₂'s weight
        [0.8 0.8 1.4]
    """
    for name, value in {"inputs": inputs, "covariance": covariance}.items():
        if not isinstance(value, jax.Array | np.ndarray) or checks.is_traced(value):
            raise TypeError(f"{name} must be an array of numbers; got {checks.describe(value)}")
        if not any(jnp.issubdtype(value.dtype, kind) for kind in REAL):
            raise ValueError(f"{name} must hold real numbers; got {checks.describe(value)}")
        checks.finite(name, value)
    x, metric = np.asarray(inputs), np.asarray(covariance, np.float64)
    if x.ndim != 2 or not len(x):
        raise ValueError(
            f"inputs must be an array (n, d) of at least one row; got {checks.describe(inputs)}"
        )
    d = x.shape[1]
    if metric.shape not in ((d,), (d, d)):
        raise ValueError(
            f"covariance must have the shape ({d},) or ({d}, {d}); got "
            f"{checks.describe(covariance)}"
        )
    squares = np.concatenate(
        [_squares(x[i : i + CHUNK_SIZE], metric) for i in range(0, len(x), CHUNK_SIZE)]
    )
    if not np.isfinite(squares).all() or (squares < 0).any():
        raise ValueError(
            "covariance must have no negative eigenvalues, and norms that are finite; got one with "
            f"a squared norm of {squares.min():.3g}"
        )
    # Rows of zeros too may fill a batch that is larger than all others together.
    norms = np.sqrt(np.maximum(squares, limits.FLOAT64_ROUNDING * squares.mean()))
    return importance_weighted(norms.astype(jnp.result_type(float)))


def _squares(x: np.ndarray, metric: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    return wide**2 @ metric if metric.ndim == 1 else np.einsum("ij,ij->i", wide @ metric, wide)
