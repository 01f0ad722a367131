"""The curvature of a potential of many coordinates, by its directions of largest curvature.

By Lanczos' method, in coordinates of about equal curvature. The directions that it does not find
are taken to be of one curvature, such that the trace of the inverse is that which the method's
quadrature gives.
"""

from dataclasses import dataclass

import numpy as np

from ewsg_jax.answers.mode.lanczos import lanczos
from ewsg_jax.answers.mode.potential import Point, Potential
from ewsg_jax.base.factors import LowRank


@dataclass(frozen=True, eq=False)
class CurvatureOfMany:
    """∇²V = W⁻¹ (μ I + Y (Θ − μ I) Yᵀ) W⁻¹, W the units of the coordinates, as near as may be.

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
        return LowRank(self.unit**2 / self.others, self.directions, self.others / self.values)  # type: ignore[arg-type]


def curvature_of_many(
    potential: Potential, unit: np.ndarray, point: Point, rank: int
) -> CurvatureOfMany | None:
    """Return the curvature by `rank` largest directions at a point; None where one is negative."""
    found = lanczos(lambda v: unit * potential.product(point, unit * v), len(unit), rank)
    if found.least <= 0:
        return None
    left = len(unit) - len(found.values)
    width = (
        (found.mean_inverse * len(unit) - float(np.sum(1 / found.values))) / left if left else 1.0
    )
    # The quadrature is of one direction at random, which among few directions may tell too little.
    others = 1 / width if width > 0 else float(found.values.min())
    return CurvatureOfMany(unit, found.directions, found.values, others)
