"""The curvature of a potential of many coordinates, by products of the Hessian with vectors.

The method of conjugate gradients, in coordinates of about equal curvature. The Lanczos matrix that
it makes shows the least curvature, and with it and the residual how far its answer may be from the
true one.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import products
from ewsg_jax._types import Array, Data, PyTree
from ewsg_jax.preparation.curvature import LEAST, Shape, Step
from ewsg_jax.preparation.lanczos import tridiagonal
from ewsg_jax.preparation.potential import Point, Potential
from ewsg_jax.preparation.programs import Of, hessian_product, product_with

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
        lengths: of its steps α, shape (MOST_PRODUCTS,).
        ratios: β, of successive squared residuals, shape (MOST_PRODUCTS,).
        num_steps: of the method.
    """

    x: np.ndarray
    squared_residual: float
    search: np.ndarray
    curvature: float
    lengths: np.ndarray
    ratios: np.ndarray
    num_steps: int

    @property
    def is_positive(self) -> bool:
        """Whether no direction curved downwards was met."""
        return self.curvature > 0

    def least(self) -> float:
        """Return the least eigenvalue of the Lanczos matrix: the least curvature that was met."""
        alpha, beta = self.lengths[: self.num_steps], self.ratios[: self.num_steps]
        diagonal = 1 / alpha + np.concatenate([[0.0], beta[:-1] / alpha[:-1]])
        beside = np.sqrt(beta[:-1]) / alpha[:-1]
        return float(np.linalg.eigvalsh(tridiagonal(diagonal, beside))[0])


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
        if not found.is_positive:
            return self._downwards(found, gradient)
        # A Lanczos matrix that is not positive: directions along which nothing curves.
        least = found.least()
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
        potential = self._potential
        potential.data_passes += 1
        with potential.of.precision():
            return float(
                moved
                @ np.asarray(hessian_product(potential.of, self._point.flat, moved, potential.data))
            )

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
        if not other.is_positive:
            return self._downwards(other._replace(x=x), gradient)
        least = min(least, other.least())
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
        potential = self._potential
        with potential.of.precision():
            found = _conjugate_gradients(
                potential.of, self._point.flat, self._unit, b, potential.data
            )
            x, squared, search, curvature, lengths, ratios, count = jax.device_get(found)
        # Each product is a pass over the data, the one that met a negative curvature too.
        potential.data_passes += int(count) + (not curvature > 0)
        return Answer(x, float(squared), search, float(curvature), lengths, ratios, int(count))


@jax.jit(static_argnums=0)
def _conjugate_gradients(of: Of, flat: Array, unit: Array, b: Array, data: Data) -> Any:
    """Solve unit ∇²V unit x = b; `Answer` says what is returned."""
    product, dot = product_with(of, flat, data), products.matmul
    enough = RESIDUAL**2 * dot(b, b)
    none = jnp.zeros(MOST_PRODUCTS, flat.dtype)

    # Until precise enough, until curved downwards, or until too many passes.
    def goes_on(carry: PyTree) -> Array:
        _, _, squared, _, curvature, _, _, count = carry
        return (squared > enough) & (curvature > 0) & (count < MOST_PRODUCTS)

    def step(carry: PyTree) -> PyTree:
        x, residual, squared, search, _, lengths, ratios, count = carry
        image = unit * product(unit * search)
        curvature = dot(search, image)
        length = squared / curvature

        # Only where the curvature is positive is the length of the step one.
        def moved() -> Any:
            left = residual - length * image
            ratio = dot(left, left) / squared
            return (
                x + length * search,
                left,
                dot(left, left),
                left + ratio * search,
                curvature,
                lengths.at[count].set(length),
                ratios.at[count].set(ratio),
                count + 1,
            )

        return jax.lax.cond(
            curvature > 0,
            moved,
            lambda: (x, residual, squared, search, curvature, lengths, ratios, count),
        )

    one = jnp.ones((), flat.dtype)
    start = (jnp.zeros_like(b), b, dot(b, b), b, one, none, none, jnp.int32(0))
    x, _, squared, search, curvature, lengths, ratios, count = jax.lax.while_loop(
        goes_on, step, start
    )
    return x, squared, search, curvature, lengths, ratios, count
