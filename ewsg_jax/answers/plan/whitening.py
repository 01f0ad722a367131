"""Coordinates in which a posterior is taken to be N(0, I): y = L⁻¹(θ − center), L Lᵀ its
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
from ewsg_jax.answers.plan.gaussian import Gaussian
from ewsg_jax.base import pytrees
from ewsg_jax.base.factors import Factor, HostFactor, LowRank, factor_of, variances
from ewsg_jax.base.typing import Data, Key, Position
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows import leverage
from ewsg_jax.rows._probability import RowProbabilities
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.row_subsets import evenly

MOST_STARTS, MOST_NUMBERS = 64, 2**22
"""Draws at which chains may start, and numbers in all of them, at most."""
TRUSTED = 4.0
"""Times what is tolerated: errors of a corrected covariance above which the mode's own is taken."""


class NoWidthsError(ValueError):
    """Chains find no widths of the posterior: it may have none."""


@dataclass(frozen=True, eq=False)
class Frame:
    """A center and a covariance, with the mode from which they come.

    Attributes:
        center: a tree like the position.
        inverse_mass: the covariance, as `inverse_mass=` takes it.
        mode: whose curvature is known.
        rows: by their norms in a metric near this one, where they are known.
        of_chains: whether chains found it, as the mode says little.
    """

    center: Position
    inverse_mass: Any
    mode: Mode
    rows: RowProbabilities | None = None
    of_chains: bool = False

    @functools.cached_property
    def factor(self) -> Factor:
        """L."""
        return factor_of(self.inverse_mass, "covariance")

    @functools.cached_property
    def layout(self) -> Layout:
        """Of positions."""
        return Layout.of(self.center)

    @property
    def start(self) -> Start[Position]:
        """Where chains start."""
        return Start(self.center, self.inverse_mass)

    @functools.cached_property
    def known(self) -> np.ndarray | LowRank:
        """The covariance in float64, on the host."""
        return jax.tree.map(lambda x: np.asarray(x, np.float64), self.inverse_mass)

    @functools.cached_property
    def sd(self) -> np.ndarray:
        """Standard deviations of the coordinates, shape (d,)."""
        return np.sqrt(variances(self.known))

    @functools.cached_property
    def shift(self) -> float:
        """How far the mean is from the mode, at most, in sd; no more than 1 where chains say so."""
        found = float(np.max(np.abs(vector(self.center) - vector(self.mode.position)) / self.sd))
        # Where the mode says nothing of the posterior, it says nothing of what heat does to a mean.
        return min(1.0, found) if self.of_chains else found

    @functools.cached_property
    def on_host(self) -> HostFactor:
        """L, for many vectors."""
        return HostFactor(self.inverse_mass)

    def unit(self, values: np.ndarray) -> np.ndarray:
        """Return L⁻¹ v of differences (count, d)."""
        return self.on_host.solved(values)

    def moved(self, units: np.ndarray) -> np.ndarray:
        """Return positions center + L y of y (count, d), as vectors."""
        return vector(self.center) + self.on_host.times(units)

    def places(self, key: Key, count: int, width: float) -> np.ndarray:
        """Return draws less the center, `width` times as wide as the posterior, shape (count, d),
        float32.
        """
        return np.float32(width) * self.on_host.draws(key, count)

    def among(self, draws: np.ndarray) -> Among[Position]:
        """Return a start at some of these draws, shape (draws, d), evenly spaced."""
        most = max(1, min(MOST_STARTS, MOST_NUMBERS // draws.shape[1]))
        some = draws[evenly(len(draws), most)]
        return Among(jax.device_put(self.layout.tree(some)))

    def weighed(self, gradients: np.ndarray) -> np.ndarray:
        """Return C g in units of the coordinates' standard deviations, of gradients (count, d)."""
        return self.on_host.times(self.whitened(gradients)) / self.sd

    def whitened(self, gradients: np.ndarray) -> np.ndarray:
        """Return Lᵀ g, of gradients (count, d)."""
        return self.on_host.transposed(gradients)

    def leverage(self, posterior: Posterior, data: Data) -> RowProbabilities:
        """Return rows by their norms in this metric, of a model of linear predictors."""
        if self.rows is not None:
            return self.rows
        assert posterior.predictor is not None
        inputs = jax.vmap(posterior.predictor.inputs)(data)
        size = inputs.shape[1]
        if isinstance(self.inverse_mass, LowRank):
            return leverage(inputs, (self.sd**2).reshape(size, -1).mean(1))
        blocks = np.asarray(self.inverse_mass, np.float64).reshape(
            size, len(self.sd) // size, size, -1
        )
        return leverage(inputs, np.einsum("iaja->ij", blocks) / blocks.shape[1])

    @classmethod
    def at_mode(cls, mode: Mode) -> "Frame":
        """Return a mode's own."""
        return cls(mode.position, mode.inverse_mass, mode)

    def corrected(self, gaussian: Gaussian) -> "Frame":
        """Return this one, of a mode, corrected where the correction is to be trusted."""
        right = gaussian.report.corrected
        if right is None or right.covariance is None or gaussian.doubt > TRUSTED:
            return self
        return replace(Frame.at(self.mode, right.mean, right.covariance), rows=self.rows)

    @classmethod
    def at(
        cls, mode: Mode, center: Position, covariance: np.ndarray | LowRank, of_chains: bool = False
    ) -> "Frame":
        """Return that of a mean and a covariance, (d, d) or of low rank."""
        at = jax.tree.map(lambda x, like: np.asarray(x, like.dtype), center, mode.position)
        dtype = jnp.result_type(float, *(x.dtype for x in jax.tree.leaves(at)))
        return cls(jax.device_put(at), pytrees.placed(covariance, dtype), mode, of_chains=of_chains)

    @classmethod
    def by_chains(cls, mode: Mode, center: Position, covariance: np.ndarray | LowRank) -> "Frame":
        """Return that of a mean and a covariance that chains found.

        Raises:
            NoWidthsError: it is none, or such as float32 does not hold.
        """
        frame = cls.at(mode, center, covariance, of_chains=True)
        try:
            _ = frame.factor, frame.on_host
        except ValueError as error:
            raise NoWidthsError(
                "posterior must be proper, with widths that float32 holds; got one in which chains "
                "find none: give every parameter a proper log_prior, leave out columns that are "
                "sums of others, and standardise the rest"
            ) from error
        return frame
