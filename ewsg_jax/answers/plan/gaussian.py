"""An answer without a chain: the posterior taken to be normal around its mode, judged and corrected
by its gradients.
"""

from dataclasses import dataclass, replace

import jax
import numpy as np
from jax.sharding import Mesh

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.check.check import check
from ewsg_jax.answers.check.report import Report
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan import settings
from ewsg_jax.base import checks, limits, rng
from ewsg_jax.base.factors import HostFactor
from ewsg_jax.base.typing import Data, Key, Position, PyTree
from ewsg_jax.draws.mean_and_sd import mean_of, sd_of
from ewsg_jax.model_checks.finding import Finding, of_kinds, texts
from ewsg_jax.model_checks.not_finite import not_finite
from ewsg_jax.model_checks.support import NONE, Outside, outside
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.potential import PotentialSpec


class NoGradientError(ValueError):
    """The potential has no gradient at draws of the normal approximation.

    Attributes:
        share: the share of draws at which the potential or its gradient is not finite.
    """

    def __init__(self, message: str, share: float) -> None:
        super().__init__(message)
        self.share = share


@dataclass(frozen=True, eq=False, repr=False)
class Gaussian:
    """The normal approximation at the mode, judged and corrected by the gradients at its draws.

    Attributes:
        draws: draws of N(mode, (∇²V)⁻¹), a pytree like the position with the leading axes
            (chain, draw).
        report: the report of `ewsg_jax.check` on them; `report.correct(draws)` returns corrected
            draws.
        tolerance: the largest relative error of a standard deviation, the plan's argument.
        outside: the share of the draws at which the density is 0, which no gradient shows.
        findings: other modes and tails of the density, which no draw around the mode shows.
    """

    draws: PyTree
    report: Report
    tolerance: float
    outside: Outside = NONE
    findings: tuple[Finding, ...] = ()

    @property
    def is_alone(self) -> bool:
        """Whether no search settled at another mode."""
        return not of_kinds(self.findings, "other_mode")

    @property
    def tails(self) -> str:
        """Why the density has no finite integral, or no standard deviation, in words; empty if it
        has both as far as is known.
        """
        return texts(self.findings, "improper", "heavy_tail")

    @property
    def mean(self) -> Position:
        """Corrected means, in float64; the draws' own if no correction is known."""
        if self.report.corrected is None:
            return self.report.draws.numbers(self._moments[0])
        return self.report.corrected.mean

    @property
    def sd(self) -> Position:
        """Corrected standard deviations, like the position in float64; the draws' own if no
        correction is known.
        """
        if self.report.corrected is None:
            return self.report.draws.numbers(self._moments[1])
        return self.report.corrected.sd

    @property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """The draws' own means and standard deviations, shape (d,) each."""
        chains = np.arange(settings.NUM_PILOT_CHAINS)
        mean = mean_of(self.draws, chains)
        return vector(mean), vector(sd_of(self.draws, chains, mean))

    @property
    def doubt(self) -> float:
        """The largest error of the correction over the tolerance: of a sd, relatively, or half of
        that of a mean, in sds.
        """
        if self.report.corrected is None:
            return float("inf")
        mean_error, sd_error = self.report.corrected.errors
        return check_settings.ERRORS_ALLOWED * max(mean_error / 2, sd_error) / self.tolerance

    @property
    def is_right(self) -> bool:
        """Whether corrected means and standard deviations are known within tolerance."""
        if self.outside.matters(self.tolerance) or self.report.mistaken:
            return False
        return self.is_alone and not self.tails and self.doubt <= 1

    @property
    def is_normal(self) -> bool:
        """Whether the posterior has the shape of a normal distribution, once the draws have its
        mean and covariance.
        """
        scores = self.report.scores if self.report.rest is None else self.report.rest
        return scores.distance <= check_settings.NEAR_TARGET

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
            else "its shape, which is not normal"
        )
        return (
            f"{name}{corrected} is right within tolerance, for means and standard deviations; "
            f"a run adds {added}"
        )

    def __repr__(self) -> str:
        return f"Gaussian: {self.verdict}\n{self.report!r}"


def num_draws(size: int) -> int:
    """Return at how many draws an approximation of `size` coordinates is checked, of all chains:
    as many as `check` takes by default, unless they are too many numbers.
    """
    num_chains, most = settings.NUM_PILOT_CHAINS, 4 * limits.NUMBERS_AT_ONCE // size
    of_chain = int(np.clip(most, 8 * num_chains, check_settings.DRAWS_TO_USE[0])) // num_chains
    return num_chains * of_chain


def gaussian_at_mode(
    key: Key,
    posterior: Posterior,
    mode: Mode,
    data: Data,
    tolerance: float,
    rows: Rows | None = None,
    mesh: Mesh | None = None,
) -> Gaussian:
    """Return the normal approximation at a mode, judged and corrected.

    Args:
        key: a typed PRNG key.
        posterior: the target.
        mode: the mode with its curvature.
        data: all n rows.
        tolerance: the largest relative error of a standard deviation.
        rows: how the rows of gradients are drawn; None: as `check` draws them.
        mesh: devices that share the rows; None for one.

    Raises:
        NoGradientError: the potential has no gradient at some draws.
        ValueError: the curvature at the mode is not positive definite.
    """
    num_chains, center = settings.NUM_PILOT_CHAINS, vector(mode.position)
    count = num_draws(len(center)) // num_chains
    for_draws, for_batches = rng.keys_of(key, 2)
    factor = HostFactor(mode.inverse_mass)
    flat = center + factor.draws(for_draws, num_chains * count)
    all_draws = Layout.of(mode.position).tree(flat)
    draws = jax.device_put(
        jax.tree.map(lambda x: x.reshape(num_chains, count, *x.shape[1:]), all_draws)
    )
    outside_support = outside(posterior, all_draws, data)

    try:
        report = check(
            for_batches,
            draws,
            posterior,
            data,
            tolerance=tolerance,
            batch_size=settings.ROWS_PER_DRAW,
            rows=rows,
            mesh=mesh,
        )
    except ValueError as error:
        share, what = _share_without_gradient(posterior, mode, all_draws, data)
        raise NoGradientError(
            "posterior must have a gradient some widths around its mode (posterior.transformed(…) "
            "takes a bounded parameter to all numbers); of draws of the normal approximation "
            f"there, {checks.reason(error)}{what}",
            share,
        ) from error
    passes = outside_support.data_passes + report.data_passes
    return Gaussian(draws, replace(report, data_passes=passes), tolerance, outside_support)


def takes_all_rows(data: Data) -> bool:
    """Return whether the gradient at each draw is that of all rows, because these are few."""
    return num_rows(data) <= check_settings.FULL_DATA_BATCHES * settings.ROWS_PER_DRAW


def _share_without_gradient(
    posterior: Posterior, mode: Mode, draws: PyTree, data: Data
) -> tuple[float, str]:
    """Return the share of draws at which the potential or its gradient is not finite; and which of
    them it is, in words, at the first such draw.
    """
    potential = PotentialSpec(posterior, Layout.of(mode.position), CHUNK_SIZE, False)
    # One at a time: a few of them say what is not finite.
    count = min(64, jax.tree.leaves(draws)[0].shape[0])
    reasons = [
        not_finite(potential, vector(jax.tree.map(lambda x, i=i: x[i], draws)), data)
        for i in range(count)
    ]
    reasons = [reason for reason in reasons if reason]
    return len(reasons) / count, f": {reasons[0]}" if reasons else ""
