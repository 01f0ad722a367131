"""The curvature of a potential of many coordinates, by products of the Hessian with vectors.

The method of conjugate gradients, in coordinates of about equal curvature. The Lanczos matrix that
it makes shows the least curvature, and with it and the residual how far its answer may be from the
true one.
"""

from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.mode import settings
from ewsg_jax.answers.mode.curvature import Shape, Step
from ewsg_jax.answers.mode.lanczos import tridiagonal
from ewsg_jax.answers.mode.potential import HostPotential, Point


class Solution(NamedTuple):
    """The solution of H x = b by conjugate gradients, in scaled coordinates.

    Attributes:
        x: the solution, as far as the method went.
        squared_residual: ‖b − H x‖².
        search: the last search direction p.
        curvature: pᵀ H p, not positive if the method had to end for that.
        least: the least eigenvalue of the Lanczos matrix of its steps: the least curvature that was
            met.
    """

    x: np.ndarray
    squared_residual: float
    search: np.ndarray
    curvature: float
    least: float


class HessianProducts:
    """The curvature at a point, known by products with vectors alone.

    Args:
        potential: the potential.
        unit: units of the coordinates in which curvatures are about equal, shape (d,).
        point: the point.
    """

    def __init__(self, potential: HostPotential, unit: np.ndarray, point: Point) -> None:
        self._potential, self._unit, self._point = potential, unit, point

    def step(self, gradient: np.ndarray, tolerance: float) -> Step:
        """Return the step of Newton's method; the true distance is hardly above the one given.

        Near a mode a second solution, for a vector at random, looks for directions of negative
        curvature.

        Args:
            gradient: ∇V, shape (d,).
            tolerance: posterior standard deviations at which the search ends.
        """
        b = self._unit * gradient
        # At a mode the step is 0; the curvature is still to be known.
        if not np.any(b):
            return self._verified(np.zeros_like(b), 0.0, 0.0, np.inf, gradient, tolerance)
        solution = self._solve(b)
        if not solution.curvature > 0:
            return self._downwards(solution, gradient)
        # The Lanczos matrix is not positive: there are directions without curvature.
        least = solution.least
        if least <= 0:
            return Step(-self._unit * solution.x, np.inf, Shape.FLAT, True)
        # The residual adds at most its square over the least curvature.
        product, squared = float(b @ solution.x), solution.squared_residual
        if product + squared / least > tolerance**2:
            return Step(
                -self._unit * solution.x,
                float(np.sqrt(product + squared / least)),
                Shape.CONVEX,
                False,
            )
        return self._verified(solution.x, product, squared, least, gradient, tolerance)

    def squared_length(self, moved: np.ndarray) -> float:
        """Return movedᵀ ∇²V moved."""
        return float(moved @ self._potential.product(self._point, moved))

    def weak(self) -> np.ndarray:
        """Return one standard deviation in a direction at random."""
        direction = self._unit * self._random()
        return direction / np.sqrt(abs(self.squared_length(direction)))

    def _verified(
        self,
        x: np.ndarray,
        product: float,
        squared: float,
        least: float,
        gradient: np.ndarray,
        tolerance: float,
    ) -> Step:
        """Return a step whose distance is within the tolerance, if no curvature is negative.

        Args:
            x: the solution of H x = b, in scaled coordinates.
            product: bᵀ x.
            squared: ‖b − H x‖².
            least: the least curvature that its solution met.
            gradient: ∇V, shape (d,).
            tolerance: posterior standard deviations at which the search ends.
        """
        # A step shows the curvature along itself alone; a direction at random shows the rest.
        other = self._solve(self._random())
        if not other.curvature > 0:
            return self._downwards(other._replace(x=x), gradient)
        least = min(least, other.least)
        if least <= settings.MIN_STEP_CURVATURE:
            return Step(-self._unit * x, np.inf, Shape.FLAT, True)
        distance = float(np.sqrt(product + squared / least))
        return Step(-self._unit * x, distance, Shape.CONVEX, distance <= tolerance)

    def _downwards(self, solution: Solution, gradient: np.ndarray) -> Step:
        """Return the solution so far, and one sd in the direction of negative curvature."""
        size = np.sqrt(
            max(
                -solution.curvature,
                settings.MIN_STEP_CURVATURE * float(solution.search @ solution.search),
            )
        )
        sign = 1.0 if gradient @ (self._unit * solution.search) >= 0 else -1.0
        return Step(
            -self._unit * (solution.x + sign * solution.search / size), np.inf, Shape.SADDLE, False
        )

    def _random(self) -> np.ndarray:
        return np.random.default_rng(0).normal(size=self._unit.shape)

    def _solve(self, b: np.ndarray) -> Solution:
        """Return x of unit ∇²V unit x = b.

        The method ends when x is precise enough, at a negative curvature, or after too many passes.
        """
        x, left, search, squared = np.zeros_like(b), b, b, float(b @ b)
        enough, curvature = settings.SOLUTION_RESIDUAL**2 * squared, 1.0
        lengths, ratios = [], []
        # Each product is a pass over the data.
        while squared > enough and len(lengths) < 200:
            image = self._unit * self._potential.product(self._point, self._unit * search)
            curvature = float(search @ image)
            # Without a positive curvature the step has no length.
            if not curvature > 0:
                break
            lengths.append(squared / curvature)
            x, left = x + lengths[-1] * search, left - lengths[-1] * image
            before, squared = squared, float(left @ left)
            ratios.append(squared / before)
            search = left + ratios[-1] * search
        return Solution(x, squared, search, curvature, _least(np.array(lengths), np.array(ratios)))


def _least(alpha: np.ndarray, beta: np.ndarray) -> float:
    """Return the least eigenvalue of the Lanczos matrix of steps of these lengths and ratios."""
    if not len(alpha):
        return np.inf
    diagonal = 1 / alpha + np.concatenate([[0.0], beta[:-1] / alpha[:-1]])
    return float(np.linalg.eigvalsh(tridiagonal(diagonal, np.sqrt(beta[:-1]) / alpha[:-1]))[0])
