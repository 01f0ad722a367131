"""A potential's curvature at a point: Newton's steps, and distances in standard deviations."""

import enum
import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.mode import settings


class Shape(enum.Enum):
    """The shape of a potential around a point."""

    CONVEX = "curved upwards in every direction"
    FLAT = "not curved in some direction"
    SADDLE = "curved downwards in some direction"


class Step(NamedTuple):
    """A step of Newton's method.

    Attributes:
        direction: the step, shape (d,); if the potential is not convex, a step downhill.
        distance: √(∇Vᵀ (∇²V)⁻¹ ∇V), its length in posterior standard deviations; inf if the
            potential is not convex.
        shape: the shape of the potential.
        is_still: whether the gradient is negligible, by the tolerance.
    """

    direction: np.ndarray
    distance: float
    shape: Shape
    is_still: bool


@dataclass(frozen=True, eq=False)
class Curvature:
    """∇²V = D C D, D the roots of its diagonal: no unit of a coordinate enters C.

    Attributes:
        scale: the diagonal of D, shape (d,).
        scaled: C, shape (d, d), with ones (or minus ones) on its diagonal.
        precise: whether it was computed in float64.
        by_differences: whether it was computed by differences of gradients.
    """

    scale: np.ndarray
    scaled: np.ndarray
    precise: bool
    by_differences: bool = False

    @classmethod
    def of(cls, hessian: np.ndarray, precise: bool, by_differences: bool = False) -> "Curvature":
        """Return the curvature of a Hessian, shape (d, d)."""
        # By the roots of its own diagonal, so that units of coordinates do not count.
        diagonal = np.abs(np.diag(hessian))
        largest = diagonal.max()
        scale = np.sqrt(np.where(diagonal > 0, diagonal, largest if largest > 0 else 1.0))
        scaled = hessian / scale[:, None] / scale
        return cls(scale, (scaled + scaled.T) / 2, precise, by_differences)

    def __repr__(self) -> str:
        return f"Curvature(of {len(self.scale)} coordinates, {self.shape.value})"

    @functools.cached_property
    def shape(self) -> Shape:
        """The shape of the potential, as far as rounding shows."""
        if self.inverse is not None:
            return Shape.CONVEX
        return Shape.SADDLE if self._eigen[0][0] < -self._rounding else Shape.FLAT

    @functools.cached_property
    def inverse(self) -> np.ndarray | None:
        """C⁻¹, shape (d, d); None if C is not positive definite, as far as rounding shows."""
        try:
            np.linalg.cholesky(self.scaled)
            inverse = np.linalg.inv(self.scaled)
        except np.linalg.LinAlgError:
            return None
        # No eigenvalue of C⁻¹ is above its trace.
        return inverse if np.trace(inverse) < 1 / self._rounding else None

    def step(self, gradient: np.ndarray, tolerance: float) -> Step:
        """Return the step of Newton's method, which goes downhill whatever the curvature.

        Args:
            gradient: ∇V, shape (d,).
            tolerance: posterior standard deviations below which the gradient is negligible.
        """
        scaled = gradient / self.scale
        if self.inverse is not None:
            ahead = self.inverse @ scaled
            # One step of refinement, for matrices whose condition takes half of the digits.
            ahead += self.inverse @ (scaled - self.scaled @ ahead)
            distance = float(np.sqrt(max(scaled @ ahead, 0.0)))
            return Step(-ahead / self.scale, distance, Shape.CONVEX, distance <= tolerance)
        # Divided by the size of each eigenvalue: downhill also along a negative one.
        values, vectors = self._eigen
        size = np.maximum(np.abs(values), settings.MIN_STEP_CURVATURE)
        along = vectors.T @ scaled
        ahead, is_still = along / size, bool(np.sum(along**2 / size) <= tolerance**2)
        if self.shape is Shape.SADDLE and is_still:
            # A gradient of 0 gives no direction: one standard deviation down the ridge.
            ahead[0] += (1.0 if along[0] >= 0 else -1.0) / np.sqrt(size[0])
        return Step(-(vectors @ ahead) / self.scale, np.inf, self.shape, is_still)

    def squared_length(self, moved: np.ndarray) -> float:
        """Return movedᵀ ∇²V moved."""
        moved = self.scale * moved
        return float(moved @ self.scaled @ moved)

    def weak(self) -> np.ndarray:
        """Return one sd in a direction of little curvature of a convex potential."""
        assert self.inverse is not None
        i = int(np.argmax(np.diag(self.inverse)))
        return self.inverse[i] / np.sqrt(self.inverse[i, i]) / self.scale

    @property
    def _rounding(self) -> float:
        rounding = settings.CURVATURE_ROUNDING
        if self.by_differences:
            rounding = settings.DIFFERENCE_ROUNDING
        return len(self.scale) * rounding[self.precise]

    @functools.cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        return np.linalg.eigh(self.scaled)
