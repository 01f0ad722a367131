"""The potential on the host, point by point: its value, gradient and Hessian over all rows.

In float32 a gradient over 10⁵ rows may be wrong by some posterior standard deviations, and with
columns of unlike scales by many. So what a mode is judged by is worked out in float64 where the
model allows it, chunk by chunk, from data and positions that stay what they are.
"""

from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax.answers.mode.curvature import DIFFERENCES, Curvature
from ewsg_jax.base import checks, freshness
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import all_rows
from ewsg_jax.vectors import differences, potential
from ewsg_jax.vectors.layout import Layout

AT_ONCE = 32
"""Dimension up to which Newton's method begins at the start."""
QUICKER = 2**27
"""Rows times squared numbers up to which it does so too: every step of it takes this many."""
AT_ONCE_LINEAR = 256
"""The same for models through linear predictors, whose Hessians cost less."""
MOST_DENSE = 1_000
"""Dimension up to which the Hessian is a matrix."""
MOST_METRICS, UNIT = 3, 4.0
"""How often directions of unit curvature are sought, and the factor up to which it is a unit."""
MOST_TOGETHER = 32.0
"""Passes up to which a Hessian is worked out with the gradient of a point that may be rejected:
another program takes longer to compile.
"""
EVEN, WORSE = 1e-3, 10.0
"""Asymmetry of a matrix of differences, relative to unit curvature, that is small; and the factor
above the least beyond which still longer steps are not tried.
"""


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
    """V over all rows, evaluated on the host point by point, with a count of passes.

    Attributes:
        of: what shapes the programs.
        twice: whether JAX can differentiate the model twice; where not, by differences of
            gradients.
        data: all n rows.
        is_dense: whether the Hessian is worked out as a matrix.
        data_passes: gradients, and products of the Hessian with vectors, over all rows so far; a
            model through linear predictors has its Hessian with the gradient.
    """

    def __init__(
        self, posterior: Posterior, position: Position, data: Data, chunk_size: int, lazy: bool
    ) -> None:
        leaves, structure = jax.tree.flatten(checks.shapes(data))
        layout = Layout.of(position)
        # One program for equal posteriors and shapes, which are what it is known by.
        self.of, self.twice = potential.of_potential(
            posterior, layout, chunk_size, structure, tuple(leaves), freshness.now()
        )
        self.data, self._lazy, self.data_passes = data, lazy, 0.0
        self._metric: Metric | None = None
        if not self.twice:
            self.take_differences()
        self.size = sum(x.size for x in jax.tree.leaves(position))
        self.is_dense = self.size <= MOST_DENSE
        # One gradient comes with it.
        # Of a linear predictor a Hessian is a product of matrices; else it is a gradient a column.
        self._hessian_cost = 1.0 if posterior.predictor is not None else 1.0 + self.size

    def take_differences(self) -> None:
        """Take differences of gradients for second derivatives from now on, where asked for."""
        self.twice, self._lazy = False, True

    def noise(self, value: float) -> float:
        """Return by how much a value may be wrong by rounding."""
        return (1e-13 if self.of.wide else 1e-6) * abs(value)

    def at(self, flat: np.ndarray, is_trial: bool = False) -> Point:
        """Return what is known at a point, rounded where the model is not given float64; of a
        trial, which may be rejected, no Hessian that costs many passes.
        """
        # Where the model sees float32, the point is what it sees.
        flat = flat if self.of.wide else self.of.layout.rounded(flat)
        with self.of.precision():
            if self._lazy or (is_trial and self._hessian_cost > MOST_TOGETHER):
                self.data_passes += 1
                value, gradient = jax.device_get(
                    potential.value_and_gradient(self.of, flat, self.data)
                )
                return Point(flat, float(value), _float64(gradient), None)
            self.data_passes += self._hessian_cost
            value, gradient, hessian = jax.device_get(
                potential.derivatives(self.of, flat, self.data)
            )
            return Point(flat, float(value), _float64(gradient), _float64(hessian))

    def hessian(self, point: Point) -> np.ndarray:
        """Return ∇²V, shape (d, d).

        Raises:
            ValueError: it is not finite.
        """
        if not self.twice:
            return self._by_differences(point)
        if point.hessian is not None:
            return point.hessian
        self.data_passes += self._hessian_cost
        with self.of.precision():
            return _float64(
                jax.device_get(potential.derivatives(self.of, point.flat, self.data)[2])
            )

    def product(self, point: Point, v: np.ndarray) -> np.ndarray:
        """Return ∇²V v of a vector, shape (d,)."""
        self.data_passes += 1
        with self.of.precision():
            return _float64(potential.hessian_product(self.of, point.flat, v, self.data))

    def _by_differences(self, point: Point) -> np.ndarray:
        """Return ∇²V by differences of gradients along directions of unit curvature.

        So an error is relative to the curvature of its own direction, however unlike these are. The
        directions are those of the last point, or are found here; a rough function is given longer
        steps.
        """
        parts = differences.STEPS_IN_SDS[8 if self.of.wide else 4]
        if self._metric is None:
            # Along coordinates first, whose curvatures give the first directions.
            self._metric = Metric.of(
                self._along(point, np.eye(self.size), parts[1], 0.0), self.of.wide
            )
        hessian = np.empty(0)
        for _ in range(MOST_METRICS):
            best, least = np.empty(0), np.inf
            for part in parts:
                found = (
                    self._along(point, self._metric.directions.T, part, part)
                    @ self._metric.directions
                )
                # Asymmetry shows what differences have lost, for a Hessian has none.
                uneven = float(np.abs(found - found.T).max())
                if uneven < least:
                    best, least = found, uneven
                if uneven <= EVEN or uneven > WORSE * least:
                    break
            inverse, ends = self._metric.inverse, np.abs(np.linalg.eigvalsh((best + best.T) / 2))
            hessian = inverse.T @ (best + best.T) @ inverse / 2
            # Directions of unit curvature take one step length for all: until they are that.
            is_unit = ends.max() <= UNIT and ends.min() >= 1 / UNIT
            self._metric = Metric.of(hessian, self.of.wide)
            if is_unit:
                break
        return hessian

    def _along(self, point: Point, ways: np.ndarray, part: float, first: float) -> np.ndarray:
        """Return ∇²V v of each row v."""
        at_once = potential.HESSIAN_BLOCK
        # Filled up to whole blocks, so that one program serves any number of directions.
        rows = (
            ways
            if len(ways) <= at_once
            else np.resize(ways, (-(-len(ways) // at_once) * at_once, self.size))
        )
        self.data_passes += 2 * len(ways)
        with self.of.precision():
            dtype = (
                np.float64 if self.of.wide else np.result_type(np.float32, *self.of.layout.dtypes)
            )
            given = (np.asarray(each, dtype) for each in (point.flat, rows, part, first))
            found = _float64(
                jax.device_get(potential.differences_along(self.of, *given, self.data))
            )[: len(ways)]
        if not np.all(np.isfinite(found)):
            raise ValueError(
                "log_likelihood and log_prior must have a finite gradient all around the position "
                "for their second derivatives, which are differences of gradients here (JAX "
                f"differentiates them once only); got {np.sum(~np.isfinite(found).all(1))} of "
                f"{self.size} directions without one, at V = {point.value:.4g}"
            )
        return found


class Metric(NamedTuple):
    """Directions of unit curvature: L of L Lᵀ = |∇²V|⁻¹, and its inverse.

    Attributes:
        directions: L, in columns, shape (d, d).
        inverse: L⁻¹.
    """

    directions: np.ndarray
    inverse: np.ndarray

    @classmethod
    def of(cls, hessian: np.ndarray, wide: bool) -> "Metric":
        """Return that of ∇²V, curved downwards or flat in some direction or not."""
        curvature = Curvature.of(hessian, wide, by_differences=True)
        values, vectors = np.linalg.eigh(curvature.scaled)
        size = np.sqrt(np.maximum(np.abs(values), DIFFERENCES[wide]))
        return cls(
            vectors / size / curvature.scale[:, None], size[:, None] * vectors.T * curvature.scale
        )


def _float64(x: Array) -> np.ndarray:
    return np.asarray(x, np.float64)


def is_newton_quick(posterior: Posterior, position: Position, data: Data) -> bool:
    """Return whether Newton's method begins at the start: where Hessians are cheap; else L-BFGS."""
    dimension = sum(leaf.size for leaf in jax.tree.leaves(position))
    if posterior.predictor is not None:
        return dimension <= AT_ONCE_LINEAR
    is_cheap = dimension <= MOST_DENSE and all_rows(data) * dimension**2 <= QUICKER
    return dimension <= AT_ONCE or is_cheap
