"""The target around its mode: averages of its gradient and curvature over normal distributions.

In coordinates y = D (θ − mode), D² the diagonal of ∇²V, over z ~ N(0, P):

    r(P) = E ∇V,   H(P) = E ∇²V = E[∇V zᵀ] P⁻¹ (Stein's identity)

The stationary distribution of a chain depends on these averages, not on the curvature at the mode;
if the two differ, the posterior is not normal. The mean of a chain with unbiased estimates is
the point at which the average of ∇V is 0, −H(P)⁻¹ r(P) away from the mode.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.answers.forecast import settings, stability, stationary
from ewsg_jax.answers.mode.curvature import Curvature
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base import pytrees
from ewsg_jax.base.checked_arrays import remembered
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.dynamics._mass import Mass
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.rows._view import CHUNK_SIZE, gather, num_rows
from ewsg_jax.vectors.layout import Layout
from ewsg_jax.vectors.potential import PotentialSpec


class Averages(NamedTuple):
    """What averages over a normal distribution add to the values at the mode.

    Attributes:
        gradient: r(P), shape (d,).
        curvature_change: H(P) less the curvature at the mode, shape (d, d).
    """

    gradient: np.ndarray
    curvature_change: np.ndarray


class Target:
    """A posterior around its mode.

    Attributes:
        unit: the diagonal of D, shape (d,).
        hessian: ∇²V at the mode, shape (d, d).
        covariance: the covariance of the target, by the curvature averaged over the target, shape
            (d, d).
        at_target: the averages over the target.
        change_range: the least and the largest curvature change so far, relative to the curvature
            at the mode, over all directions.
    """

    def __init__(
        self, posterior: Posterior, mode: Mode, curvature: Curvature, temperature: float, data: Data
    ) -> None:
        self.posterior, self.mode, self.data, self._temperature = posterior, mode, data, temperature
        self.layout = Layout.of(mode.position)
        self.unit, self.hessian = curvature.scale, curvature.scaled
        assert curvature.inverse is not None
        self._inverse_hessian, self.change_range = curvature.inverse, (0.0, 0.0)
        self._largest_change = np.zeros_like(self.hessian)
        self._last: tuple[np.ndarray, Averages] | None = None
        # The covariance of the normal approximation at the mode.
        self._normal_covariance = temperature * curvature.inverse
        # Computed once for several kernels, whose forecasts are asked for in turn. What is
        # remembered may hold no data.
        question, arrays = ("target", posterior, temperature), (data, mode.position)
        self.covariance, self.at_target, self.change_range, self._largest_change = remembered(
            question, self._settled, arrays, curvature
        )

    def _settled(self) -> tuple[np.ndarray, Averages, tuple[float, float], np.ndarray]:
        """Return the covariance of the target and the averages over it, each from the other."""
        covariance = self._normal_covariance
        for _ in range(settings.TARGET_ROUNDS):
            self.at_target = self.averages(covariance)
            hessian = self.hessian + self.at_target.curvature_change
            covariance = self._temperature * np.linalg.inv(hessian)
        return covariance, self.at_target, self.change_range, self._largest_change

    def averages(self, covariance: np.ndarray) -> Averages:
        """Return the averages over a normal distribution of the position, computed once for each.

        Curvature changes are clipped to those of a posterior that is near normal.
        """
        if self._last is not None and self._last[0] is covariance:
            return self._last[1]
        d, unit = len(self.unit), self.unit
        root = stationary.root(covariance[:d, :d]) / unit[:, None]
        exact = averaged(self.posterior, self.mode.position, root, self.data)
        # The change relative to the curvature at the mode, by direction, and clipped there.
        inner = stationary.root(self._inverse_hessian)
        change = exact.curvature_change / unit / unit[:, None]
        ratios, vectors = np.linalg.eigh(inner @ change @ inner)
        if ratios[-1] >= self.change_range[1]:
            self._largest_change = change
        low, high = self.change_range
        self.change_range = (min(low, float(ratios[0])), max(high, float(ratios[-1])))
        outer = np.linalg.inv(inner) @ vectors
        least, largest = settings.NORMAL_CURVATURES
        clipped = outer * np.clip(ratios, least - 1, largest - 1) @ outer.T
        averages = Averages(exact.gradient / unit, clipped)
        self._last = (covariance, averages)
        return averages

    def largest_curvature(self, mass: Mass | None) -> float:
        """Return the largest curvature that chains meet, at draws or on average, in the coordinates
        of a mass.

        Draws are four of the normal approximation, two of them twice as far away.
        """
        root = stationary.root(self._normal_covariance) / self.unit
        draws = [distance * stationary.normal(17, 2, len(self.unit)) for distance in (1.0, 2.0)]
        places = np.concatenate(draws) @ root
        of = PotentialSpec(self.posterior, self.layout, CHUNK_SIZE, False)
        factor = None if mass is None else pytrees.digest(mass.given)
        at_draws = remembered(
            ("largest curvature", self.posterior, self._temperature, factor),
            lambda: stability.largest_curvature(of, mass, self.mode.position, places, self.data),
            (self.data, self.mode.position),
            self.mode.curvature,
        )
        average = self.unit[:, None] * (self.hessian + self._largest_change) * self.unit
        return max(at_draws, stability.in_mass(mass, average, self.layout))


def averaged(posterior: Posterior, position: Position, root: np.ndarray, data: Data) -> Averages:
    """Return the averages over N(position, R Rᵀ), in the coordinates of the position.

    Args:
        posterior: the target.
        position: the mode.
        root: R, shape (d, d).
        data: the rows, of which some stand for all.

    Raises:
        ValueError: a gradient at a draw is not finite.
    """
    d, n = len(root), num_rows(data)
    count = max(256, 2 * d + 2)
    draws = stationary.normal(7, count, d)
    num_used = min(n, max(1, settings.MAX_EVALUATIONS // (2 * count)))
    rows = (np.arange(num_used) * (n / num_used)).astype(np.int32)
    # If rows are on several devices each has some: as a batch they would be gathered.
    if isinstance(data, Spread):
        batch, data = None, data.subset(rows)
    else:
        batch = jnp.asarray(rows)
    places = np.concatenate([draws, settings.MODE_DISTANCE * draws]) @ root.T
    gradients = np.asarray(
        _gradients(posterior, position, jnp.asarray(places, jnp.float32), batch, data, n), float
    )
    # Each draw has a gradient where it is, and one near the mode.
    is_finite = np.isfinite(gradients).all(axis=1).reshape(2, count).all(axis=0)
    if not is_finite.all():
        num_lost = int(np.sum(~is_finite))
        raise ValueError(
            "posterior must have a finite gradient around its mode for a forecast "
            "(posterior.transformed(…) takes a bounded parameter to all numbers); got "
            f"{num_lost} of {count} draws without one, from a normal distribution as wide as the "
            "posterior or as chains. Run the kernel for some steps and check the draws instead"
        )
    # The same draws and rows at both distances: what these rows lack cancels in the difference.
    far, near = gradients[:count], gradients[count:]
    products = (draws.T @ far - draws.T @ near / settings.MODE_DISTANCE) / count
    change = np.linalg.solve(root.T, products)
    return Averages(far.mean(0) - near.mean(0), (change + change.T) / 2)


@functools.partial(jax.jit, static_argnums=(0, 5))
def _gradients(
    posterior: Posterior, position: Position, places: Array, rows: Array | None, data: Data, n: int
) -> Array:
    """Return gradients of V at places less the position, (places, d), from some rows."""
    flat, unravel = ravel_pytree(position)
    batch = None if rows is None else gather(data, rows)

    def at_place(place: Array) -> Array:
        here = unravel((flat + place).astype(flat.dtype))
        if batch is None:
            total = posterior.likelihood_gradient(here, data, widened=True)
            likelihood = pytrees.combine((n / num_rows(data), total))
        else:
            likelihood = posterior.batch_sum(here, data, batch)
        return ravel_pytree(
            pytrees.combine((1, pytrees.widened(posterior.prior_gradient(here))), (1, likelihood))
        )[0]

    return jax.lax.map(at_place, places, batch_size=16)
