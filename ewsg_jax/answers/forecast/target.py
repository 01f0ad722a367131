"""The posterior around its mode, as far as it is near normal: what laws of a position see of it.

In coordinates y = D (θ − mode), D² the diagonal of ∇²V. Slopes and curvatures are averaged over a
normal law there:

    r(P) = E ∇V,   H(P) = E ∇²V = E[∇V zᵀ] P⁻¹   over z ~ N(0, P) (Stein's identity)

The law of a chain sees these, not the curvature at the mode: where they differ, the posterior is
not normal. Chains of an unbiased estimate settle where the mean of ∇V over their law is 0, that is
−H(P)⁻¹ r(P) away from the mode.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.answers.forecast import stability, stationary
from ewsg_jax.answers.forecast.result import NORMAL
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

BENDS = (NORMAL[0] - 1, NORMAL[1] - 1)
"""Part of the mode's curvature by which a law's may differ and still be near normal."""
ROUNDS = 2
"""Of the target's own covariance and the curvature that it sees."""
PLACES = (1.0, 2.0)
"""Widths of the normal approximation at which walls are looked for, on either side."""
MOST_EVALUATIONS = 2**20
"""∇Vᵢ; rows, evenly spaced, stand for all."""
DRAWS = 256
NEAR = 0.05
"""Standard deviations at which the curvature is that at the mode."""


class Slopes(NamedTuple):
    """What a law sees more than its mode.

    Attributes:
        mean: r(P), shape (d,).
        bend: H(P) less the curvature at the mode, shape (d, d).
    """

    mean: np.ndarray
    bend: np.ndarray


class Target:
    """A posterior around its mode.

    Attributes:
        unit: the diagonal of D, shape (d,).
        hessian: ∇²V at the mode, shape (d, d).
        covariance: of the target, by the curvature that its own law sees, shape (d, d).
        own: what the target's law sees more than its mode.
        bends: the least and the largest part of the mode's curvature by which that seen has
            differed so far.
    """

    def __init__(
        self, posterior: Posterior, mode: Mode, curvature: Curvature, temperature: float, data: Data
    ) -> None:
        self.posterior, self.mode, self.data, self._temperature = posterior, mode, data, temperature
        self.layout = Layout.of(mode.position)
        self.unit, self.hessian = curvature.scale, curvature.scaled
        assert curvature.inverse is not None
        self._narrow, self.bends = curvature.inverse, (0.0, 0.0)
        self._widest = np.zeros_like(self.hessian)
        self._last: tuple[np.ndarray, Slopes] | None = None
        self._widths = temperature * curvature.inverse
        # Worked out once: several kernels are told of in turn. Of the data nothing may be
        # remembered.
        question, arrays = ("target", posterior, temperature), (data, mode.position)
        self.covariance, self.own, self.bends, self._widest = remembered(
            question, self._settled, arrays, curvature
        )

    def _settled(self) -> tuple[np.ndarray, Slopes, tuple[float, float], np.ndarray]:
        covariance = self._widths
        for _ in range(ROUNDS):
            self.own = self.seen(covariance)
            covariance = self._temperature * np.linalg.inv(self.hessian + self.own.bend)
        return covariance, self.own, self.bends, self._widest

    def seen(self, covariance: np.ndarray) -> Slopes:
        """Return what a law of the position sees more than the mode, worked out once for each."""
        if self._last is not None and self._last[0] is covariance:
            return self._last[1]
        d, unit = len(self.unit), self.unit
        widths = stationary.root(covariance[:d, :d]) / unit[:, None]
        found = slopes(self.posterior, self.mode.position, widths, self.data)
        inner, bend = stationary.root(self._narrow), found.bend / unit / unit[:, None]
        ratios, vectors = np.linalg.eigh(inner @ bend @ inner)
        if ratios[-1] >= self.bends[1]:
            self._widest = bend
        self.bends = (min(self.bends[0], float(ratios[0])), max(self.bends[1], float(ratios[-1])))
        outer = np.linalg.inv(inner) @ vectors
        seen = Slopes(found.mean / unit, outer * np.clip(ratios, *BENDS) @ outer.T)
        self._last = (covariance, seen)
        return seen

    def steepest(self, mass: Mass | None) -> float:
        """Return the largest curvature chains meet, in a mass's coordinates, here or on average."""
        widths = stationary.root(self._widths) / self.unit
        places = (
            np.concatenate([width * stationary.normal(17, 2, len(self.unit)) for width in PLACES])
            @ widths
        )
        of = PotentialSpec(self.posterior, self.layout, CHUNK_SIZE, False)
        met = remembered(
            (
                "walls",
                self.posterior,
                self._temperature,
                None if mass is None else pytrees.digest(mass.given),
            ),
            lambda: stability.largest_curvature(of, mass, self.mode.position, places, self.data),
            (self.data, self.mode.position),
            self.mode.curvature,
        )
        average = self.unit[:, None] * (self.hessian + self._widest) * self.unit
        return max(met, stability.in_mass(mass, average, self.layout))


def slopes(posterior: Posterior, position: Position, root: np.ndarray, data: Data) -> Slopes:
    """Return what a law of the covariance R Rᵀ sees around the mode, R of shape (d, d) in the
    coordinates of the position.
    """
    d, n = len(root), num_rows(data)
    count = max(DRAWS, 2 * d + 2)
    draws = stationary.normal(7, count, d)
    some = min(n, max(1, MOST_EVALUATIONS // (2 * count)))
    rows = (np.arange(some) * (n / some)).astype(np.int32)
    # Of rows on several devices each has its own: they are no batch, which would be gathered.
    batch, data = (None, data.some(rows)) if isinstance(data, Spread) else (jnp.asarray(rows), data)
    places = np.concatenate([draws, NEAR * draws]) @ root.T
    found = np.asarray(
        _slopes(posterior, position, jnp.asarray(places, jnp.float32), batch, data, n), float
    )
    # Of the same draws and rows: what these lack of all is in both.
    wide, near = found[:count], found[count:]
    bend = np.linalg.solve(root.T, (draws.T @ wide - draws.T @ near / NEAR) / count)
    return Slopes(wide.mean(0) - near.mean(0), (bend + bend.T) / 2)


@functools.partial(jax.jit, static_argnums=(0, 5))
def _slopes(
    posterior: Posterior, position: Position, places: Array, rows: Array | None, data: Data, n: int
) -> Array:
    flat, unravel = ravel_pytree(position)
    batch = None if rows is None else gather(data, rows)

    def of_place(place: Array) -> Array:
        here = unravel((flat + place).astype(flat.dtype))
        if batch is None:
            whole = posterior.likelihood_gradient(here, data, widened=True)
            likelihood = pytrees.combine((n / num_rows(data), whole))
        else:
            likelihood = posterior.batch_sum(here, data, batch)
        return ravel_pytree(
            pytrees.combine((1, pytrees.widened(posterior.prior_gradient(here))), (1, likelihood))
        )[0]

    return jax.lax.map(of_place, places, batch_size=16)
