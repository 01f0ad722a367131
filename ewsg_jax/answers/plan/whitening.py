"""Coordinates in which a posterior is taken to be N(0, I): y = L⁻¹(θ − center), with L Lᵀ its
covariance.
"""

import functools
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.mode.start import Among, Start
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.gaussian import Gaussian
from ewsg_jax.base import limits, pytrees
from ewsg_jax.base.factors import Factor, HostFactor, LowRank, factor_of, variances
from ewsg_jax.base.typing import Data, Key, Position
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows import leverage
from ewsg_jax.rows._probability import RowProbabilities
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.row_subsets import evenly


class NoWidthsError(ValueError):
    """No covariance of the posterior is found: it may be improper."""


@dataclass(frozen=True, eq=False)
class Whitening:
    """A center and a covariance of the posterior, with the mode that was found.

    Attributes:
        center: a pytree like the position.
        inverse_mass: the covariance, as `inverse_mass=` of a kernel takes it.
        mode: the mode, or the position at which the search for it ended, with the curvature there.
        row_probabilities: how rows are drawn by leverage in a metric near this one; None if this
            has not been worked out.
        is_from_chains: whether the covariance is that of chains, as the mode's is no answer.
    """

    center: Position
    inverse_mass: Any
    mode: Mode
    row_probabilities: RowProbabilities | None = None
    is_from_chains: bool = False

    @classmethod
    def at_mode(cls, mode: Mode) -> "Whitening":
        """Return the coordinates of the normal approximation at a mode."""
        return cls(mode.position, mode.inverse_mass, mode)

    @classmethod
    def of_covariance(
        cls,
        mode: Mode,
        center: Position,
        covariance: np.ndarray | LowRank,
        is_from_chains: bool = False,
    ) -> "Whitening":
        """Return the coordinates of a mean and a covariance, a matrix (d, d) or of low rank."""
        at = jax.tree.map(lambda x, like: np.asarray(x, like.dtype), center, mode.position)
        dtype = jnp.result_type(float, *(x.dtype for x in jax.tree.leaves(at)))
        return cls(
            jax.device_put(at),
            pytrees.placed(covariance, dtype),
            mode,
            is_from_chains=is_from_chains,
        )

    @classmethod
    def from_chains(
        cls, mode: Mode, center: Position, covariance: np.ndarray | LowRank
    ) -> "Whitening":
        """Return the coordinates of a mean and a covariance that chains found.

        Raises:
            NoWidthsError: the covariance is not positive definite in float32.
        """
        whitening = cls.of_covariance(mode, center, covariance, is_from_chains=True)
        try:
            _ = whitening.factor, whitening.host_factor
        except ValueError as error:
            raise NoWidthsError(
                "posterior must be proper, with widths that float32 holds and chains of a warm-up "
                "cross; got one in which they find none: it is improper, or proper and wider than "
                "they go, as a Gamma(0.01, 0.01) of which no row says more. Give every parameter a "
                "proper log_prior, and a narrower one if it has one, leave out columns that are "
                "sums of others, and standardise the rest"
            ) from error
        return whitening

    def corrected(self, gaussian: Gaussian) -> "Whitening":
        """Return the mean and covariance of the corrected normal approximation if its errors are
        small, otherwise these.
        """
        corrected = gaussian.report.corrected
        if (
            corrected is None
            or corrected.covariance is None
            or gaussian.doubt > settings.TRUSTED_CORRECTION
        ):
            return self
        whitening = Whitening.of_covariance(self.mode, corrected.mean, corrected.covariance)
        return replace(whitening, row_probabilities=self.row_probabilities)

    @functools.cached_property
    def factor(self) -> Factor:
        """L."""
        return factor_of(self.inverse_mass, "covariance")

    @functools.cached_property
    def host_factor(self) -> HostFactor:
        """L on the host, for many vectors at once."""
        return HostFactor(self.inverse_mass)

    @functools.cached_property
    def layout(self) -> Layout:
        """How a position is a vector of d numbers."""
        return Layout.of(self.center)

    @property
    def start(self) -> Start[Position]:
        """Starts of chains: draws of a normal distribution wider than the posterior."""
        return Start(self.center, self.inverse_mass)

    @functools.cached_property
    def covariance(self) -> np.ndarray | LowRank:
        """The covariance in float64, on the host."""
        return jax.tree.map(lambda x: np.asarray(x, np.float64), self.inverse_mass)

    @functools.cached_property
    def sd(self) -> np.ndarray:
        """Standard deviations of the coordinates, shape (d,)."""
        return np.sqrt(variances(self.covariance))

    @functools.cached_property
    def mean_shift(self) -> float:
        """The largest distance of a mean from the mode, in sds; 1 at most if it is from chains."""
        distances = np.abs(vector(self.center) - vector(self.mode.position)) / self.sd
        largest = float(np.max(distances))
        # A mode that is no answer does not show how minibatch noise moves a mean either.
        return min(1.0, largest) if self.is_from_chains else largest

    def whiten(self, differences: np.ndarray) -> np.ndarray:
        """Return L⁻¹ v for differences v of positions, shape (count, d)."""
        return self.host_factor.solved(differences)

    def positions(self, whitened: np.ndarray) -> np.ndarray:
        """Return the positions center + L y for y of shape (count, d), as vectors."""
        return vector(self.center) + self.host_factor.times(whitened)

    def whiten_gradients(self, gradients: np.ndarray) -> np.ndarray:
        """Return Lᵀ g for gradients g, shape (count, d)."""
        return self.host_factor.transposed(gradients)

    def scaled_gradients(self, gradients: np.ndarray) -> np.ndarray:
        """Return C g over the standard deviations of the coordinates, shape (count, d)."""
        return self.host_factor.times(self.whiten_gradients(gradients)) / self.sd

    def draw_places(self, key: Key, count: int, width: float) -> np.ndarray:
        """Return draws of N(0, width² C), which are positions less the center, shape (count, d),
        float32.
        """
        return np.float32(width) * self.host_factor.draws(key, count)

    def start_among(self, draws: np.ndarray) -> Among[Position]:
        """Return starts of chains at some of these draws, shape (draws, d), evenly spaced."""
        most = min(64, limits.NUMBERS_AT_ONCE // draws.shape[1])
        chosen = draws[evenly(len(draws), max(1, most))]
        return Among(jax.device_put(self.layout.tree(chosen)))

    def leverage(self, posterior: Posterior, data: Data) -> RowProbabilities:
        """Return how rows are drawn by leverage: by the norms of their inputs in this metric.

        Args:
            posterior: the target, a model of linear predictors.
            data: all n rows.
        """
        if self.row_probabilities is not None:
            return self.row_probabilities
        assert posterior.predictor is not None
        inputs = jax.vmap(posterior.predictor.inputs)(data)
        size = inputs.shape[1]
        if isinstance(self.inverse_mass, LowRank):
            return leverage(inputs, (self.sd**2).reshape(size, -1).mean(1))
        # Several linear predictors of one row, such as classes: their blocks are averaged.
        blocks = np.asarray(self.inverse_mass, np.float64).reshape(
            size, len(self.sd) // size, size, -1
        )
        return leverage(inputs, np.einsum("iaja->ij", blocks) / blocks.shape[1])
