"""Candidate zero, without a chain: the posterior taken to be normal around its mode, judged and
corrected.
"""

from dataclasses import dataclass, replace

import jax
import numpy as np
from jax.sharding import Mesh

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.check.check import check
from ewsg_jax.answers.check.report import Report
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base import checks, rng
from ewsg_jax.base.factors import HostFactor
from ewsg_jax.base.typing import Data, Key, Position, PyTree
from ewsg_jax.model_checks.not_finite import not_finite
from ewsg_jax.model_checks.support import NONE, Outside, outside
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._view import CHUNK_SIZE
from ewsg_jax.run.samples import mean_of, sd_of
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.potential import PotentialSpec

NUM_CHAINS, MOST_DRAWS, MOST_NUMBERS = 8, 4_000, 2**24
"""In what form draws come, how many of all together, and how many numbers."""
ROWS = 1_000
"""Rows for each draw, as of a check of draws by default: one program serves both."""
MANY_ROWS = check_settings.FULL_DATA_BATCHES * ROWS
"""Above this many rows not all of them are evaluated for each draw."""
MOST_LOOKS = 64
"""Draws that are evaluated one by one for what is not finite there."""
NEAR = 0.1
"""What a Stein function may show of another shape, in standard deviations, for a posterior to be
near normal.
"""


class NoGradientError(ValueError):
    """The potential has no gradient at draws of the normal approximation.

    Attributes:
        share: of some draws where it is not finite, or has no gradient.
    """

    def __init__(self, message: str, share: float) -> None:
        super().__init__(message)
        self.share = share


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian:
    """The normal approximation at the mode, and what is right by the gradients at its draws.

    Attributes:
        draws: of N(mode, (∇²V)⁻¹), a tree like the position with the leading axes (chain, draw).
        report: what `ewsg_jax.check` says of them; `report.correct(draws)` moves them to where they
            should be.
        tolerance: as given.
        outside: how many of the draws lie where the density is 0, which no gradient shows.
        is_alone: whether no search settled at another mode, which no draw here shows.
        tails: in words, that the density does not fall as that of a law with a standard deviation,
            which no draw shows either; empty where this is not seen.
    """

    draws: PyTree
    report: Report
    tolerance: float
    outside: Outside = NONE
    is_alone: bool = True
    tails: str = ""

    @property
    def mean(self) -> Position:
        """Corrected means, a tree like the position; the draws' own where these are not known."""
        if self.report.corrected is None:
            return self.report.draws.as_position(self._moments[0])
        return self.report.corrected.mean

    @property
    def sd(self) -> Position:
        """Corrected standard deviations, of the same kind."""
        if self.report.corrected is None:
            return self.report.draws.as_position(self._moments[1])
        return self.report.corrected.sd

    @property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """The draws' own mean and standard deviation, shape (d,)."""
        every = np.arange(NUM_CHAINS)
        mean = mean_of(self.draws, every)
        return vector(mean), vector(sd_of(self.draws, every, mean))

    @property
    def doubt(self) -> float:
        """The largest error of a corrected mean, in sds, or of a sd, relatively, over what is
        tolerated.
        """
        if self.report.corrected is None:
            return float("inf")
        of_mean, of_sd = self.report.corrected.errors
        return check_settings.ERRORS_ALLOWED * max(of_mean / 2, of_sd) / self.tolerance

    @property
    def is_right(self) -> bool:
        """Whether corrected means and standard deviations are known within tolerance."""
        if self.outside.matters(self.tolerance) or self.report.mistaken:
            return False
        return self.is_alone and not self.tails and self.doubt <= 1

    @property
    def is_normal(self) -> bool:
        """Whether the posterior is of a normal law's shape, once the draws have its mean and
        covariance.
        """
        rest = self.report.scores if self.report.rest is None else self.report.rest
        return rest.distance <= NEAR

    @property
    def verdict(self) -> str:
        """What may be taken from it, in words."""
        name = "the Gaussian at the mode"
        if self.report.mistaken:
            return f"{name} is judged by another gradient: {self.report.mistaken}"
        if self.outside.matters(self.tolerance):
            return f"{name} is not right: of its draws {self.outside.in_short}"
        if not self.is_alone:
            return f"{name} is not right: there is another mode"
        if self.tails:
            return f"{name} is not right: {self.tails}"
        if self.report.corrected is None:
            return f"{name} cannot be corrected: {self.report.not_corrected}"
        if not (self.is_right or self.report.outcome == "right"):
            return (
                f"{name} cannot be corrected: errors up to {self.doubt:.2g} times what is tolerated"
            )
        corrected = "" if self.report.outcome == "right" else ", corrected,"
        added = (
            "shape, and probabilities of tails"
            if self.is_normal
            else "its shape, which is not a normal law's"
        )
        return (
            f"{name}{corrected} is right within tolerance, for means and standard deviations; "
            f"a run adds {added}"
        )

    def __repr__(self) -> str:
        return f"Gaussian: {self.verdict}\n{self.report!r}"


def gaussian(
    key: Key,
    posterior: Posterior,
    mode: Mode,
    data: Data,
    tolerance: float,
    by_norm: Rows | None = None,
    mesh: Mesh | None = None,
) -> Gaussian:
    """Return the normal approximation at a mode, judged, with these rows where they are given.

    Raises:
        ValueError: the mode has no widths; `NoGradientError` where the potential has none at draws.
    """
    size = sum(x.size for x in jax.tree.leaves(mode.position))
    count = int(np.clip(MOST_NUMBERS // size, 8 * NUM_CHAINS, MOST_DRAWS)) // NUM_CHAINS
    for_draws, for_batches = rng.keys_of(key, 2)
    flat = vector(mode.position) + HostFactor(mode.inverse_mass).draws(
        for_draws, NUM_CHAINS * count
    )
    all_draws = Layout.of(mode.position).tree(flat)
    draws = jax.device_put(
        jax.tree.map(lambda x: x.reshape(NUM_CHAINS, count, *x.shape[1:]), all_draws)
    )
    beyond = outside(posterior, all_draws, data)

    try:
        report = check(
            for_batches,
            draws,
            posterior,
            data,
            tolerance=tolerance,
            batch_size=ROWS,
            rows=by_norm,
            mesh=mesh,
        )
    except ValueError as error:
        share, where = _without(posterior, mode, all_draws, data)
        raise NoGradientError(
            "posterior must have a gradient some widths around its mode (posterior.transformed(…) "
            "takes a bounded parameter to all numbers); of draws of the normal approximation "
            f"there, {checks.reason(error)}{where}",
            share,
        ) from error
    passes = beyond.data_passes + report.data_passes
    return Gaussian(draws, replace(report, data_passes=passes), tolerance, beyond)


def _without(posterior: Posterior, mode: Mode, draws: PyTree, data: Data) -> tuple[float, str]:
    """Return the share of draws where the potential or its gradient is not finite, and which part,
    in words.
    """
    of = PotentialSpec(posterior, Layout.of(mode.position), CHUNK_SIZE, False)
    count = min(MOST_LOOKS, jax.tree.leaves(draws)[0].shape[0])
    said = [
        not_finite(of, vector(jax.tree.map(lambda x, i=i: x[i], draws)), data) for i in range(count)
    ]
    found = [each for each in said if each]
    return len(found) / count, f": {found[0]}" if found else ""
