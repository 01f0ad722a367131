"""The result of a forecast, and how it is printed."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ewsg_jax.answers.forecast import settings
from ewsg_jax.base import checks, limits
from ewsg_jax.base.typing import Position
from ewsg_jax.draws.coordinates import flattened, named
from ewsg_jax.vectors.layout import vector


@dataclass(frozen=True, eq=False)
class Forecast:
    """What a kernel will do on a posterior that is near normal around a mode.

    Attributes:
        variance_ratio: the stationary variance of the chain over the variance of the target (above
            1: over-dispersed), a pytree like the position; infinite if the step is unstable at the
            mode.
        mean_shift: the stationary mean of the chain less that of the target, in standard deviations
            of the target, a pytree like the position. It is of first order in the third derivatives
            of V and in the exponential weights; NaN without a stationary distribution.
        autocorrelation_time: 1 + 2 Σ of the autocorrelations of a coordinate, in steps, a pytree
            like the position: that many steps are worth one independent draw for its mean.
        covariance: the stationary covariance of the d parameters of the position in `ravel_pytree`
            order, shape (d, d).
        target: the covariance of the target by the same calculation, shape (d, d): the inverse of
            the curvature averaged over the target.
        direction_ratios: the least and the largest variance ratio over all directions, which need
            not be those of coordinates.
        curvature_seen: the least and the largest curvature of a direction, averaged over the
            stationary distribution (and over the target), over the mode's: 1 for a normal
            posterior. Outside of ½ … 2 it is far from normal, and the forecast is for a posterior
            that has no more than half or twice the mode's curvature.
        step_size: h of the kernel.
        largest_step: the largest stable h for the largest curvature at draws of once and twice the
            width of the normal approximation; NaN for a dynamics whose step depends on the position
            itself.
        passes_per_step: evaluations of ∇Vᵢ in a step over n, refreshes included on average.
        passes_at_start: evaluations of ∇Vᵢ before the first step, over n.
        by: what the noise of batches is known by, in words.
        is_settled: whether noise and stationary covariance have converged; if not, those of the
            last round are given.
        kernel: the kernel.
    """

    variance_ratio: Position
    mean_shift: Position
    autocorrelation_time: Position
    covariance: np.ndarray
    target: np.ndarray
    direction_ratios: tuple[float, float]
    curvature_seen: tuple[float, float]
    step_size: float
    largest_step: float
    passes_per_step: float
    passes_at_start: float
    by: str
    is_settled: bool
    kernel: Any

    @property
    def is_stable(self) -> bool:
        """Whether chains stay near the mode: a stationary distribution exists, and h is stable."""
        is_finite = bool(np.isfinite(vector(self.variance_ratio)).all())
        return is_finite and not self.step_size > self.largest_step

    @property
    def is_near_normal(self) -> bool:
        """Whether the posterior is as assumed: no average curvature is half or twice the mode's."""
        least, largest = settings.NORMAL_CURVATURES
        return not (self.curvature_seen[0] < least or self.curvature_seen[1] > largest)

    def passes(self, ess: float = 1.0) -> float:
        """Return the passes over the data that `ess` independent draws of the slowest mean cost.

        Args:
            ess: effective sample size, of all chains together.

        Raises:
            TypeError, ValueError: it is no positive number.
        """
        checks.positive("ess", ess)
        slowest = float(np.max(vector(self.autocorrelation_time)))
        return self.passes_at_start + ess * slowest * self.passes_per_step

    def __repr__(self) -> str:
        largest = "" if np.isnan(self.largest_step) else f", largest stable {self.largest_step:.3g}"
        lines = [
            f"Forecast of {self.kernel}",
            f"step {self.step_size:.3g}{largest}; {self.passes_per_step:.3g} passes a step, "
            f"{self.passes():.3g} an independent draw of the slowest coordinate",
            "variance ratios of all directions from {:.4g} to {:.4g}".format(
                *self.direction_ratios
            ),
            f"by {self.by}"
            + ("" if self.is_settled else "; noise and covariance have not converged"),
        ]
        if not self.is_stable:
            lines.append("UNSTABLE: chains leave the mode, or oscillate around it")
        if not self.is_near_normal:
            low, high = self.curvature_seen
            lines.append(
                f"NOT NEAR NORMAL: average curvatures are {low:.2g} to {high:.2g} times the "
                "mode's; run the kernel and check the draws instead"
            )
        ratio, shift, time = map(
            vector, (self.variance_ratio, self.mean_shift, self.autocorrelation_time)
        )
        one_draw = jax.tree.map(lambda x: x[None, None], self.variance_ratio)
        _, names = flattened(named(one_draw, "position"))
        order = np.argsort(-np.abs(np.log(ratio)), kind="stable")
        most = limits.LINES_SHOWN
        shown = np.sort(order) if len(ratio) <= most else order[:most]
        width = max(len("coordinate"), *(len(names[i]) for i in shown))
        lines.append(
            f"{'coordinate':{width}}  variance ratio  mean shift (sd)  autocorrelation time"
        )
        for i in shown:
            lines.append(f"{names[i]:{width}}  {ratio[i]:14.4g}  {shift[i]:15.2g}  {time[i]:20.4g}")
        if len(ratio) > most:
            lines.append(
                f"{'median':{width}}  {np.median(ratio):14.4g}  {np.median(shift):15.2g}  "
                f"{np.median(time):20.4g}  of all {len(ratio)}"
            )
        return "\n".join(lines)
