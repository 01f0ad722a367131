"""The potential on the host, point by point: its value, gradient and Hessian over all rows.

In float32 a gradient over 10⁵ rows may be wrong by some posterior standard deviations, and with
columns of different scales by many. So a mode is judged by sums in float64 if the model allows it,
chunk by chunk, from data and positions in the dtypes that they have.
"""

from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax.answers.mode import settings
from ewsg_jax.answers.mode.curvature import Curvature
from ewsg_jax.base import checks, freshness, limits, pytrees
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import all_rows
from ewsg_jax.vectors import differences, potential
from ewsg_jax.vectors.layout import Layout


class Point(NamedTuple):
    """A point, with the potential and its derivatives.

    Attributes:
        flat: the position, shape (d,).
        value: V.
        gradient: ∇V, shape (d,).
        hessian: ∇²V, shape (d, d); None if it was not computed with the gradient.
    """

    flat: np.ndarray
    value: float
    gradient: np.ndarray
    hessian: np.ndarray | None

    def is_finite(self) -> bool:
        """Return whether the potential and its derivatives are finite."""
        parts = (self.value, self.gradient, 0.0 if self.hessian is None else self.hessian)
        return all(bool(np.all(np.isfinite(part))) for part in parts)


class HostPotential:
    """V over all rows, evaluated on the host point by point, with a count of passes.

    Attributes:
        of: the static description of the potential, which shapes compiled programs.
        twice: whether JAX differentiates the model twice; if not, second derivatives are
            differences of gradients.
        data: all n rows.
        is_dense: whether the Hessian is computed as a matrix.
        data_passes: gradients and products of the Hessian with vectors so far, over all rows; a
            model through linear predictors has its Hessian with the gradient.
    """

    def __init__(
        self, posterior: Posterior, position: Position, data: Data, chunk_size: int, lazy: bool
    ) -> None:
        leaves, structure = jax.tree.flatten(checks.shapes(data))
        layout = Layout.of(position)
        # One program for equal posteriors and shapes, by which it is looked up.
        self.of, self.twice = potential.of_potential(
            posterior, layout, chunk_size, structure, tuple(leaves), freshness.now()
        )
        self.data, self._lazy, self.data_passes = data, lazy, 0.0
        self._metric: UnitDirections | None = None
        if not self.twice:
            self.take_differences()
        self.size = pytrees.size(position)
        self.is_dense = self.size <= limits.MAX_DENSE_DIMENSION
        # For a linear predictor a Hessian is a product of matrices; otherwise it takes a gradient
        # for each column. The gradient comes with it.
        self._hessian_cost = 1.0 if posterior.predictor is not None else 1.0 + self.size

    def take_differences(self) -> None:
        """Use differences of gradients for second derivatives from now on."""
        self.twice, self._lazy = False, True

    def noise(self, value: float) -> float:
        """Return the error that rounding may leave in a value."""
        return (1e-13 if self.of.wide else 1e-6) * abs(value)

    def at(self, flat: np.ndarray, may_be_rejected: bool = False) -> Point:
        """Return the potential at a point.

        Args:
            flat: the position, shape (d,), which is rounded if the model is not given float64.
            may_be_rejected: compute no Hessian that costs many passes.
        """
        # The point is the one at which the model is evaluated.
        flat = flat if self.of.wide else self.of.layout.rounded(flat)
        with self.of.precision():
            # A program for the gradient alone takes longer to compile.
            if self._lazy or (may_be_rejected and self._hessian_cost > 32.0):
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
        """Return ∇²V v for a vector v, shape (d,)."""
        self.data_passes += 1
        with self.of.precision():
            return _float64(potential.hessian_product(self.of, point.flat, v, self.data))

    def _by_differences(self, point: Point) -> np.ndarray:
        """Return ∇²V by differences of gradients along directions of unit curvature.

        So an error is relative to the curvature of its own direction, however different these are.
        The directions are those of the last point, or are computed here; a rough function gets
        longer steps.

        Raises:
            ValueError: a gradient near the point is not finite.
        """
        # Lengths of a step over one sd, the shortest first.
        parts = differences.STEPS_IN_SDS[8 if self.of.wide else 4]
        if self._metric is None:
            # Along coordinates first, whose curvatures give the first directions.
            self._metric = UnitDirections.of(
                self._along(point, np.eye(self.size), parts[1], 0.0), self.of.wide
            )
        hessian = np.empty(0)
        for _ in range(3):
            # In these directions all curvatures are near 1. The step length with the least
            # asymmetry is taken: a Hessian has none, so it shows what differences lose.
            best, least = np.empty(0), np.inf
            for part in parts:
                along = self._along(point, self._metric.directions.T, part, part)
                matrix = along @ self._metric.directions
                asymmetry = float(np.abs(matrix - matrix.T).max())
                if asymmetry < least:
                    best, least = matrix, asymmetry
                # Relative to unit curvature; by hand.
                is_small = asymmetry <= 1e-3
                if is_small or asymmetry > 10.0 * least:
                    break
            symmetric, inverse = (best + best.T) / 2, self._metric.inverse
            hessian = inverse.T @ symmetric @ inverse
            # One step length suits all directions if their curvatures are within a factor of four
            # of 1; otherwise the directions of this Hessian come next.
            sizes = np.abs(np.linalg.eigvalsh(symmetric))
            is_unit = sizes.max() <= 4.0 and sizes.min() >= 1 / 4.0
            self._metric = UnitDirections.of(hessian, self.of.wide)
            if is_unit:
                break
        return hessian

    def _along(self, point: Point, vectors: np.ndarray, part: float, first: float) -> np.ndarray:
        """Return ∇²V v for each row v of an array, shape (rows, d)."""
        at_once = potential.HESSIAN_BLOCK
        # Filled up to whole blocks, so that one program serves any number of directions.
        rows = (
            vectors
            if len(vectors) <= at_once
            else np.resize(vectors, (-(-len(vectors) // at_once) * at_once, self.size))
        )
        self.data_passes += 2 * len(vectors)
        with self.of.precision():
            dtype = (
                np.float64 if self.of.wide else np.result_type(np.float32, *self.of.layout.dtypes)
            )
            arrays = (np.asarray(x, dtype) for x in (point.flat, rows, part, first))
            products = _float64(
                jax.device_get(potential.differences_along(self.of, *arrays, self.data))
            )[: len(vectors)]
        if not np.all(np.isfinite(products)):
            raise ValueError(
                "log_likelihood and log_prior must have a finite gradient all around the position "
                "for their second derivatives, which are differences of gradients here (JAX "
                f"differentiates them once only); got {np.sum(~np.isfinite(products).all(1))} of "
                f"{self.size} directions without one, at V = {point.value:.4g}"
            )
        return products


class UnitDirections(NamedTuple):
    """Directions of unit curvature: L of L Lᵀ = |∇²V|⁻¹, and its inverse.

    Attributes:
        directions: L, in columns, shape (d, d).
        inverse: L⁻¹.
    """

    directions: np.ndarray
    inverse: np.ndarray

    @classmethod
    def of(cls, hessian: np.ndarray, wide: bool) -> "UnitDirections":
        """Return the directions for ∇²V, which need not be positive definite."""
        curvature = Curvature.of(hessian, wide, by_differences=True)
        values, vectors = np.linalg.eigh(curvature.scaled)
        size = np.sqrt(np.maximum(np.abs(values), settings.DIFFERENCE_ROUNDING[wide]))
        return cls(
            vectors / size / curvature.scale[:, None], size[:, None] * vectors.T * curvature.scale
        )


def _float64(x: Array) -> np.ndarray:
    return np.asarray(x, np.float64)


def is_newton_quick(posterior: Posterior, position: Position, data: Data) -> bool:
    """Return whether Newton's method begins at the start, without L-BFGS: if Hessians are cheap."""
    dimension = pytrees.size(position)
    if posterior.predictor is not None:
        return dimension <= settings.NEWTON_DIMENSION_LINEAR
    # Each of Newton's steps takes so many multiplications.
    is_cheap = all_rows(data) * dimension**2 <= 2**27
    is_dense = dimension <= limits.MAX_DENSE_DIMENSION
    return dimension <= settings.NEWTON_DIMENSION or (is_dense and is_cheap)
