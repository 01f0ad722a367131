"""The curvature of a potential of many coordinates, by its directions of largest curvature.

By Lanczos' method, in coordinates of about equal curvature. All directions that it does not find
are given one curvature, for which the trace of the inverse is the one of the method's quadrature.
"""

from dataclasses import dataclass

import numpy as np

from ewsg_jax.answers.mode.lanczos import lanczos
from ewsg_jax.answers.mode.potential import HostPotential, Point
from ewsg_jax.base.factors import LowRank


@dataclass(frozen=True, eq=False)
class CurvatureOfMany:
    """∇²V ≈ W⁻¹ (μ I + Y (Θ − μ I) Yᵀ) W⁻¹, with W the units of the coordinates.

    Attributes:
        unit: the diagonal of W, shape (d,).
        directions: Y, orthonormal columns, shape (d, r).
        values: the diagonal of Θ, positive, shape (r,).
        others: μ, the harmonic mean of the curvatures of the other directions.
    """

    unit: np.ndarray
    directions: np.ndarray
    values: np.ndarray
    others: float

    def __repr__(self) -> str:
        d, r = self.directions.shape
        return f"CurvatureOfMany(of {d} coordinates, {r} directions)"

    @property
    def covariance(self) -> LowRank:
        """(∇²V)⁻¹."""
        return LowRank(self.unit**2 / self.others, self.directions, self.others / self.values)


def curvature_of_many(
    potential: HostPotential, unit: np.ndarray, point: Point, rank: int
) -> CurvatureOfMany | None:
    """Return the curvature at a point by `rank` directions; None if a curvature is negative."""
    spectrum = lanczos(lambda v: unit * potential.product(point, unit * v), len(unit), rank)
    if spectrum.least <= 0:
        return None
    left = len(unit) - len(spectrum.values)
    width = (
        (spectrum.mean_inverse * len(unit) - float(np.sum(1 / spectrum.values))) / left
        if left
        else 1.0
    )
    # The quadrature is from one direction at random: of few directions it may miss too much.
    others = 1 / width if width > 0 else float(spectrum.values.min())
    return CurvatureOfMany(unit, spectrum.directions, spectrum.values, others)
