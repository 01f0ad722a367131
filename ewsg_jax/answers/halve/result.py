"""The result of `halve`, and how it is printed."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ewsg_jax.base import limits
from ewsg_jax.base.table import aligned
from ewsg_jax.base.typing import Position
from ewsg_jax.draws.convergence import rhat_in_words
from ewsg_jax.draws.coordinates import with_digits
from ewsg_jax.vectors.layout import vector


@dataclass(frozen=True, eq=False)
class Estimates:
    """Means and standard deviations, or differences of these, with standard errors."""

    mean: Position
    sd: Position
    mean_error: Position
    sd_error: Position


@dataclass(frozen=True, eq=False)
class Bias:
    """Means less the extrapolated ones, in extrapolated standard deviations, and standard
    deviations over the extrapolated ones, with standard errors.
    """

    mean_shift: Position
    sd_ratio: Position
    mean_shift_error: Position
    sd_ratio_error: Position


@dataclass(frozen=True, eq=False, repr=False)
class Halved:
    """The bias of a step size h, and moments without it. Pytrees are like the position, in float64.

    Attributes:
        outcome: "right" (h is within tolerance), "wrong" (an error is beyond it, Monte Carlo error
            included) or "unsure".
        verdict: the same in a sentence, with what to do.
        right_step: the step at which, to leading order, everything is within tolerance; NaN if a
            variance as the step goes to 0 would be negative.
        coarse: means and standard deviations at h (also called `whole`).
        fine: means and standard deviations at h/2 (also called `half`).
        difference: moments at h less those at h/2, with the small errors of pairs.
        extrapolated: moments as the step goes to 0, from means and variances
            (2^p m_{h/2} − m_h)/(2^p − 1). Errors are Monte Carlo errors and what orders beyond p
            may leave. An sd whose variance would be negative is NaN, and so is its bias.
        bias: the bias at h, with such errors.
        half_bias: the bias at h/2, with such errors.
        gain: how many times as long independent chains would run for the same errors of the
            differences: the median over coordinates, of means or of standard deviations, whichever
            is less.
        step_size: h.
        order: p of the bias, which is of order h^p.
        num_pairs: the number of pairs of chains.
        num_lost: the number of pairs that are left out because a chain is not finite.
        num_steps: steps of h that each pair made.
        num_kept: steps after the burn-in.
        data_passes: what a pair cost, in passes over the data.
        rhat: the largest split R-hat of a coordinate at h/2.
        is_cut: whether a pair diverged after the burn-in, or half of them or more anywhere: a part
            of the posterior may be cut off, and the outcome is not "right".
        tolerance: the tolerance that was given.
        error_rate: the error rate that was given.
        names: the names of the coordinates.
    """

    outcome: Literal["right", "wrong", "unsure"]
    verdict: str
    right_step: float
    coarse: Estimates
    fine: Estimates
    difference: Estimates
    extrapolated: Estimates
    bias: Bias
    half_bias: Bias
    gain: float
    step_size: float
    order: int
    num_pairs: int
    num_lost: int
    num_steps: int
    num_kept: int
    data_passes: float
    rhat: float
    is_cut: bool
    tolerance: float
    error_rate: float
    names: tuple[str, ...]

    @property
    def whole(self) -> Estimates:
        """The same as `coarse`."""
        return self.coarse

    @property
    def half(self) -> Estimates:
        """The same as `fine`."""
        return self.fine

    def __repr__(self) -> str:
        lost = f" ({self.num_lost} lost)" if self.num_lost else ""
        shift, ratio, shift_error, ratio_error = map(vector, vars(self.bias).values())
        half_shift, half_ratio, *_ = map(vector, vars(self.half_bias).values())
        mean, sd, mean_error, sd_error = map(vector, vars(self.extrapolated).values())
        # A mean may be off by twice as many tolerances.
        size = np.maximum(np.abs(ratio - 1), np.abs(shift) / 2)
        shown = np.argsort(-size, kind="stable")[: limits.LINES_SHOWN]
        heads = "sd too wide by", "at h/2", "mean off by (sd)", "at h/2", "extrapolated mean", "sd"
        rows = [
            (
                self.names[i],
                f"{100 * (ratio[i] - 1):.2f} ± {100 * ratio_error[i]:.2f} %",
                f"{100 * (half_ratio[i] - 1):.2f} %",
                f"{shift[i]:.3f} ± {shift_error[i]:.3f}",
                f"{half_shift[i]:.3f}",
                f"{with_digits(mean[i], sd[i])} ± {mean_error[i]:.2g}",
                f"{sd[i]:.4g} ± {sd_error[i]:.2g}",
            )
            for i in shown
        ]
        lines = [
            f"Halving: {self.verdict}",
            f"{self.num_pairs} pairs of chains{lost} with h = {self.step_size:.4g} and h/2, "
            f"{self.num_kept:,} of {self.num_steps:,} steps kept, {self.data_passes:.3g} passes "
            f"each; R-hat {rhat_in_words(self.rhat, 3)}",
            f"bias of order h{f'^{self.order}' if self.order > 1 else ''}; common noise is worth "
            f"runs {self.gain:.3g} times as long",
            *aligned([("coordinate", *heads), *rows]),
        ]
        if len(shown) < len(self.names):
            lines.append(f"({len(shown)} of {len(self.names)} coordinates: the largest biases)")
        return "\n".join(lines)
