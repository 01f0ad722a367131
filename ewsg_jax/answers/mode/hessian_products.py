"""The curvature of a potential of many coordinates, by products of the Hessian with vectors.

The method of conjugate gradients, in coordinates of about equal curvature. The Lanczos matrix that
it makes shows the least curvature, and with it and the residual how far its answer may be from the
true one.
"""

from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.mode.curvature import LEAST, Shape, Step
from ewsg_jax.answers.mode.lanczos import tridiagonal
from ewsg_jax.answers.mode.potential import Point, Potential

MOST_PRODUCTS = 200
"""Products with vectors for one answer."""
RESIDUAL = 1e-4
"""Relative residual at which an answer is precise enough."""


class Answer(NamedTuple):
    """What the method of conjugate gradients found for H x = b, in scaled coordinates.

    Attributes:
        x: the answer as far as it went.
        squared_residual: ‖b − H x‖².
        search: the last search direction p.
        curvature: pᵀ H p, not positive where the method had to end.
        least: the least eigenvalue of the Lanczos matrix of its steps: the least curvature that was
            met.
    """

    x: np.ndarray
    squared_residual: float
    search: np.ndarray
    curvature: float
    least: float


class Probes:
    """The curvature at a point, known by products with vectors alone."""

    def __init__(self, potential: Potential, unit: np.ndarray, point: Point) -> None:
        self._potential, self._unit, self._point = potential, unit, point

    def step(self, gradient: np.ndarray, tolerance: float) -> Step:
        """Return the step of Newton's method; the true distance is hardly above its own.

        Near a mode a second answer, for a vector at random, looks for directions curved downwards.
        """
        b = self._unit * gradient
        # At a mode there is no way to go; the curvature is still to be known.
        if not np.any(b):
            return self._verified(np.zeros_like(b), 0.0, 0.0, np.inf, gradient, tolerance)
        found = self._solve(b)
        if not found.curvature > 0:
            return self._downwards(found, gradient)
        # A Lanczos matrix that is not positive: directions along which nothing curves.
        least = found.least
        if least <= 0:
            return Step(-self._unit * found.x, np.inf, Shape.FLAT, True)
        # What is left of the residual adds at most its square over the least curvature.
        product, squared = float(b @ found.x), found.squared_residual
        if product + squared / least > tolerance**2:
            return Step(
                -self._unit * found.x, float(np.sqrt(product + squared / least)), Shape.BOWL, False
            )
        return self._verified(found.x, product, squared, least, gradient, tolerance)

    def squared_length(self, moved: np.ndarray) -> float:
        """Return movedᵀ ∇²V moved."""
        return float(moved @ self._potential.product(self._point, moved))

    def weak(self) -> np.ndarray:
        """Return one standard deviation in a direction at random."""
        way = self._unit * self._random()
        return way / np.sqrt(abs(self.squared_length(way)))

    def _verified(
        self,
        x: np.ndarray,
        product: float,
        squared: float,
        least: float,
        gradient: np.ndarray,
        tolerance: float,
    ) -> Step:
        # A step sees curvature along its own way alone; a direction at random sees the rest.
        other = self._solve(self._random())
        if not other.curvature > 0:
            return self._downwards(other._replace(x=x), gradient)
        least = min(least, other.least)
        if least <= LEAST:
            return Step(-self._unit * x, np.inf, Shape.FLAT, True)
        distance = float(np.sqrt(product + squared / least))
        return Step(-self._unit * x, distance, Shape.BOWL, distance <= tolerance)

    def _downwards(self, found: Answer, gradient: np.ndarray) -> Step:
        """Return what was found so far, and one sd in the direction curved downwards."""
        size = np.sqrt(max(-found.curvature, LEAST * float(found.search @ found.search)))
        sign = 1.0 if gradient @ (self._unit * found.search) >= 0 else -1.0
        return Step(
            -self._unit * (found.x + sign * found.search / size), np.inf, Shape.SADDLE, False
        )

    def _random(self) -> np.ndarray:
        return np.random.default_rng(0).normal(size=self._unit.shape)

    def _solve(self, b: np.ndarray) -> Answer:
        """Return x of unit ∇²V unit x = b: until precise enough, until curved downwards, or until
        too many passes.
        """
        x, left, search, squared = np.zeros_like(b), b, b, float(b @ b)
        enough, curvature = RESIDUAL**2 * squared, 1.0
        lengths, ratios = [], []
        while squared > enough and len(lengths) < MOST_PRODUCTS:
            image = self._unit * self._potential.product(self._point, self._unit * search)
            curvature = float(search @ image)
            # Only where the curvature is positive is the length of the step one.
            if not curvature > 0:
                break
            lengths.append(squared / curvature)
            x, left = x + lengths[-1] * search, left - lengths[-1] * image
            before, squared = squared, float(left @ left)
            ratios.append(squared / before)
            search = left + ratios[-1] * search
        return Answer(x, squared, search, curvature, _least(np.array(lengths), np.array(ratios)))


def _least(alpha: np.ndarray, beta: np.ndarray) -> float:
    """Return the least eigenvalue of the Lanczos matrix of steps of these lengths and ratios."""
    if not len(alpha):
        return np.inf
    diagonal = 1 / alpha + np.concatenate([[0.0], beta[:-1] / alpha[:-1]])
    return float(np.linalg.eigvalsh(tridiagonal(diagonal, np.sqrt(beta[:-1]) / alpha[:-1]))[0])
