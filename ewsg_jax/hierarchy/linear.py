"""Conditional means that are linear in the other coordinates, and log widths that are.

Almost all hierarchies have such, if scales are given by their logarithms. Then no derivative of the
prior is needed in a step, which compiles and runs in a part of the time.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.typing import Array
from ewsg_jax.hierarchy.conditionals import Conditional

SAME = 1e-3
"""Difference of a derivative between two places, above which a function is not linear: what is
less is rounding of float32.
"""


class LinearFunctions(NamedTuple):
    """Functions of a vector (d,), each with few coefficients.

    Attributes:
        constant: their values at 0, shape (functions,).
        places: the coordinates that they depend on, shape (functions, most).
        weights: their coefficients, the same shape.
    """

    constant: Array
    places: Array
    weights: Array

    def __call__(self, flat: Array) -> Array:
        """Return the values at a vector, shape (functions,)."""
        weights = jnp.asarray(self.weights, flat.dtype)
        return jnp.asarray(self.constant, flat.dtype) + jnp.sum(weights * flat[self.places], axis=1)


class LinearConditionals(NamedTuple):
    """The distribution of the effects of a level, given the coordinates above it.

    Attributes:
        mean: conditional means.
        log_width: logarithms of conditional standard deviations.
    """

    mean: LinearFunctions
    log_width: LinearFunctions

    def __call__(self, flat: Array) -> Conditional:
        """Return means and widths at a vector (d,)."""
        return Conditional(self.mean(flat), jnp.exp(self.log_width(flat)))


def linear_functions(
    points: np.ndarray,
    values: np.ndarray,
    stepped: np.ndarray,
    steps: np.ndarray,
    units: np.ndarray,
    dtype: np.dtype,
) -> LinearFunctions | None:
    """Return functions as linear ones; None if they are not.

    Args:
        points: some places, shape (places, d).
        values: the functions there, shape (places, functions).
        stepped: the functions one step along each coordinate away, shape (places, d, functions).
        steps: the length of the step along each coordinate, shape (d,).
        units: what is 1 to each function, shape (functions,).
        dtype: the dtype of the numbers.
    """
    points, values, stepped = points / steps, values / units, stepped / units
    derivatives = np.swapaxes(stepped - values[:, None], 1, 2)
    size = np.maximum(np.abs(values).max(), 1.0)
    if not np.isfinite(derivatives).all() or np.ptp(derivatives, axis=0).max() > SAME * size:
        return None
    weights = derivatives.mean(0)
    weights[np.abs(weights) < SAME] = 0.0
    constants = values - points @ weights.T
    if np.ptp(constants, axis=0).max() > SAME * size:
        return None
    constant = constants.mean(0)
    # Where widths span many powers of ten, rounding in the widest is much in the narrowest.
    constant[np.abs(constant) < 100 * np.finfo(dtype).eps * size] = 0.0
    most = max(1, int((weights != 0).sum(1).max()))
    places = np.argsort(-np.abs(weights), axis=1, kind="stable")[:, :most]
    chosen = np.take_along_axis(weights, places, axis=1) * units[:, None] / steps[places]
    return LinearFunctions(
        jnp.asarray((constant * units).astype(dtype)),
        jnp.asarray(places.astype(np.int32)),
        jnp.asarray(chosen.astype(dtype)),
    )
