"""A potential's curvature at a point: Newton's steps, and distances in standard deviations."""

import enum
import functools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

FLAT = {True: 1e-14, False: 1e-6}
"""Times d, for curvatures in float64 or not: relative ones below it are rounding."""
DIFFERENCES = {True: 1e-9, False: 1e-5}
"""The same of curvatures by differences of gradients in float64 or not."""
LEAST = 1e-8
"""Relative curvature, where some is not positive, below which a step takes none."""


class Shape(enum.Enum):
    """Of a potential around a point."""

    BOWL = "curved upwards in every direction"
    FLAT = "not curved in some direction"
    SADDLE = "curved downwards in some direction"


class Step(NamedTuple):
    """Where Newton's method goes.

    Attributes:
        direction: the whole step, shape (d,); where the shape is no bowl one that goes downhill.
        distance: √(∇Vᵀ (∇²V)⁻¹ ∇V), its length in posterior standard deviations; inf where the
            shape is no bowl.
        shape: of the potential.
        is_still: whether the slope is nothing beside the tolerance.
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
        precise: whether it was worked out in float64.
        by_differences: whether by differences of gradients.
    """

    scale: np.ndarray
    scaled: np.ndarray
    precise: bool
    by_differences: bool = False

    @classmethod
    def of(cls, hessian: np.ndarray, precise: bool, by_differences: bool = False) -> "Curvature":
        """Return that of a matrix."""
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
        """Of the potential, as far as rounding shows."""
        if self.inverse is not None:
            return Shape.BOWL
        return Shape.SADDLE if self._eigen[0][0] < -self._rounding else Shape.FLAT

    @functools.cached_property
    def inverse(self) -> np.ndarray | None:
        """C⁻¹, shape (d, d), or None where C is not positive definite, as far as rounding shows."""
        try:
            np.linalg.cholesky(self.scaled)
            inverse = np.linalg.inv(self.scaled)
        except np.linalg.LinAlgError:
            return None
        # No eigenvalue of C⁻¹ is above its trace.
        return inverse if np.trace(inverse) < 1 / self._rounding else None

    def step(self, gradient: np.ndarray, tolerance: float) -> Step:
        """Return the step of Newton's method, downhill where the curvature is not positive too."""
        slope = gradient / self.scale
        if self.inverse is not None:
            whole = self.inverse @ slope
            # One step of refinement, for matrices whose condition takes half of the digits.
            whole += self.inverse @ (slope - self.scaled @ whole)
            distance = float(np.sqrt(max(slope @ whole, 0.0)))
            return Step(-whole / self.scale, distance, Shape.BOWL, distance <= tolerance)
        # By the size of each eigenvalue: downhill also where it is negative.
        values, vectors = self._eigen
        size, along = np.maximum(np.abs(values), LEAST), vectors.T @ slope
        whole, is_still = along / size, bool(np.sum(along**2 / size) <= tolerance**2)
        if self.shape is Shape.SADDLE and is_still:
            # Where the slope says nothing: one standard deviation down the ridge.
            whole[0] += (1.0 if along[0] >= 0 else -1.0) / np.sqrt(size[0])
        return Step(-(vectors @ whole) / self.scale, np.inf, self.shape, is_still)

    def squared_length(self, moved: np.ndarray) -> float:
        """Return movedᵀ ∇²V moved."""
        moved = self.scale * moved
        return float(moved @ self.scaled @ moved)

    def weak(self) -> np.ndarray:
        """Return one sd in a direction of little curvature, where the shape is a bowl."""
        assert self.inverse is not None
        i = int(np.argmax(np.diag(self.inverse)))
        return self.inverse[i] / np.sqrt(self.inverse[i, i]) / self.scale

    @property
    def _rounding(self) -> float:
        return len(self.scale) * (DIFFERENCES if self.by_differences else FLAT)[self.precise]

    @functools.cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray]:
        return np.linalg.eigh(self.scaled)
