"""Whether a likelihood that is NaN in float32 is finite in float64: rounding, and what cures it.

The Cholesky factor of a kernel matrix is the usual case. Rounding to float32 makes eigenvalues
negative that are below 1e-7 of the largest, and a jitter of 1e-10 on its diagonal is lost.
"""

import functools
from collections.abc import Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, freshness, jaxprs
from ewsg_jax.base.compiling import in_float64
from ewsg_jax.base.numeric import X64
from ewsg_jax.base.typing import Array, Data, Position, PyTree
from ewsg_jax.model_checks.densities import some_rows
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.support_structure import can_end
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.rows._view import view

FACTORS = {"cholesky", "lu", "eigh", "svd", "triangular_solve"}
"""Primitives that need a matrix that rounding leaves regular."""
ENABLE_X64 = f"enable x64 ({X64}, position and data in float64)"
JITTER = (
    ", or add a larger jitter to the diagonal of the matrix that is factored (1e-5 of its largest "
    "entry; float32 loses 1e-10)"
)


def lost_to_rounding(posterior: Posterior, position: Position, data: Data) -> list[Finding]:
    """Return a finding if the likelihood is NaN on all of some rows, 128 at most, and finite on all
    of them in float64, or takes a Cholesky factor; none if it is not, or if that cannot be
    evaluated. Arrays in float32 that a function closes over stay so, and round in float64 too.

    Args:
        posterior: the model.
        position: a position, in the dtypes in which the model is run.
        data: the rows; nothing is evaluated if devices share them.
    """
    if isinstance(data, Spread):
        return []
    rows = some_rows(view(data).tree)
    try:
        if not np.isnan(_values(posterior, position, rows)).all():
            return []
        with in_float64():
            wide = np.asarray(_values(posterior, *jax.tree.map(widened, (position, rows))))
    except Exception:
        return []  # What cannot be evaluated by itself is not judged.
    names = sorted({str(jnp.result_type(x)) for x in jax.tree.leaves(position)})
    text = f"log_likelihood is NaN on all rows in {' and '.join(names)}, "
    if wide.dtype == np.float64 and np.isfinite(wide).all():
        text += "and finite in float64"
    elif "cholesky" in _primitives_of(posterior, position, data):
        text += "in which a matrix whose Cholesky factor it takes may not be positive definite"
    else:
        return []
    return [Finding("precision", "error", text, cure_of_rounding(posterior, position, data))]


def check_digits(posterior: Posterior, positions: list[Position], data: Data) -> None:
    """Check that the likelihood is not lost to rounding at positions. Nothing is evaluated if it
    factors no matrix, and holds no logarithm or root of what may be negative.

    Raises:
        ValueError: it is NaN there, and finite in float64.
    """
    if factors_matrices(posterior, positions[0], data) or can_end(posterior, positions[0], data)[1]:
        for position in positions:
            if rounded := lost_to_rounding(posterior, position, data):
                raise ValueError(
                    "posterior must have a log_likelihood that the dtypes of its positions hold; "
                    f"got one with which {rounded[0]}"
                )


def cure_of_rounding(posterior: Posterior, position: Position, data: Data) -> str:
    """Return what to do about a likelihood that is finite in float64 alone: x64, and a jitter if it
    factors a matrix.
    """
    return ENABLE_X64 + JITTER * factors_matrices(posterior, position, data)


def factors_matrices(posterior: Posterior, position: Position, data: Data) -> bool:
    """Return whether the likelihood factors a matrix that it computes from the position."""
    return bool(_primitives_of(posterior, position, data) & FACTORS)


def _primitives_of(posterior: Posterior, position: Position, data: Data) -> frozenset[str]:
    """Return the names of the primitives of the likelihood."""
    shapes = jax.tree.flatten((checks.shapes(position), checks.datum(view(data).tree)))
    return _primitives(posterior, shapes[1], tuple(shapes[0]), freshness.now())


@functools.lru_cache(maxsize=256)
def _primitives(
    posterior: Posterior, structure: object, leaves: tuple[Any, ...], as_of: Hashable
) -> frozenset[str]:
    program = jax.make_jaxpr(posterior.log_likelihood)(*jax.tree.unflatten(structure, leaves))
    return frozenset(x.primitive.name for x in jaxprs.equations(program))


def widened(x: Array | np.ndarray) -> np.ndarray:
    """Return an array on the host, in float64 if it has floating-point numbers."""
    known = np.asarray(x)
    return known.astype(np.float64) if jnp.issubdtype(known.dtype, jnp.floating) else known


@functools.partial(jax.jit, static_argnums=0)
def _values(posterior: Posterior, position: Position, rows: PyTree) -> Array:
    return posterior.log_likelihoods(position, rows)
