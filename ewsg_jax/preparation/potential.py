"""The potential on the host, point by point: its value, gradient and Hessian over all rows.

In float32 a gradient over 10⁵ rows may be wrong by some posterior standard deviations, and with columns of unlike
scales by many. So what a mode is judged by is worked out in float64 where the model allows it, chunk by chunk, from
data and positions that stay what they are.
"""

from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax import _check, freshness
from ewsg_jax._types import Array, Data, Position
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation import programs
from ewsg_jax.preparation.programs import Layout

MOST_DENSE = 1_000
"""Numbers of a position up to which the Hessian is a matrix."""


class Point(NamedTuple):
    """A point and what is known there.

    Attributes:
        flat: where, shape (d,).
        value: V.
        gradient: ∇V, shape (d,).
        hessian: ∇²V, shape (d, d), where it was worked out with the gradient.
    """

    flat: np.ndarray
    value: float
    gradient: np.ndarray
    hessian: np.ndarray | None

    def is_finite(self) -> bool:
        """Return whether all of it is."""
        parts = (self.value, self.gradient, 0.0 if self.hessian is None else self.hessian)
        return all(bool(np.all(np.isfinite(part))) for part in parts)


class Potential:
    """V over all rows, evaluated on the host point by point, with a count of the passes over the data.

    Attributes:
        of: what shapes the programs.
        data: all n rows.
        is_dense: whether the Hessian is worked out as a matrix.
        data_passes: gradients, and products of the Hessian with vectors, over all rows so far; a model through
            linear predictors has its Hessian with the gradient.
    """

    def __init__(self, posterior: Posterior, position: Position, data: Data, chunk_size: int, lazy: bool) -> None:
        leaves, structure = jax.tree.flatten(_check.shapes(data))
        self.of = programs.of_potential(
            posterior, Layout.of(position), chunk_size, structure, tuple(leaves), freshness.now()
        )
        self.data, self._lazy, self.data_passes = data, lazy, 0.0
        self.size = sum(x.size for x in jax.tree.leaves(position))
        self.is_dense = self.size <= MOST_DENSE
        # One gradient comes with it.
        self._hessian_cost = 1.0 if posterior.predictor is not None else 1.0 + self.size

    def noise(self, value: float) -> float:
        """Return by how much a value may be wrong by rounding."""
        return (1e-13 if self.of.wide else 1e-6) * abs(value)

    def at(self, flat: np.ndarray) -> Point:
        """Return what is known at a point, which is rounded where the model is not given float64."""
        flat = flat if self.of.wide else self.of.layout.rounded(flat)
        with self.of.precision():
            if self._lazy:
                self.data_passes += 1
                value, gradient = jax.device_get(programs.value_and_gradient(self.of, flat, self.data))
                return Point(flat, float(value), _float64(gradient), None)
            self.data_passes += self._hessian_cost
            value, gradient, hessian = jax.device_get(programs.derivatives(self.of, flat, self.data))
            return Point(flat, float(value), _float64(gradient), _float64(hessian))

    def hessian(self, point: Point) -> np.ndarray:
        """Return ∇²V, shape (d, d)."""
        if point.hessian is not None:
            return point.hessian
        self.data_passes += self._hessian_cost
        with self.of.precision():
            return _float64(jax.device_get(programs.derivatives(self.of, point.flat, self.data)[2]))


def _float64(x: Array) -> np.ndarray:
    return np.asarray(x, np.float64)
