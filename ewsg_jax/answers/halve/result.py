"""What halving the step says."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ewsg_jax.base.table import aligned
from ewsg_jax.base.typing import Position
from ewsg_jax.draws.convergence import rhat_in_words
from ewsg_jax.draws.coordinates import with_digits
from ewsg_jax.vectors.layout import vector

MOST_SHOWN = 12
"""Coordinates of which the table shows a row each: those with the largest bias."""


@dataclass(frozen=True, eq=False)
class Estimates:
    """Means and standard deviations, or what those of two laws differ by, with standard errors."""

    mean: Position
    sd: Position
    mean_error: Position
    sd_error: Position


@dataclass(frozen=True, eq=False)
class Bias:
    """How far off a law is, with standard errors: like the position.

    Attributes:
        mean_shift: its means less the extrapolated ones, in extrapolated standard deviations.
        sd_ratio: its standard deviations over the extrapolated ones.
    """

    mean_shift: Position
    sd_ratio: Position
    mean_shift_error: Position
    sd_ratio_error: Position


@dataclass(frozen=True, eq=False, repr=False)
class Halved:
    """How wrong a step size is, and what is right. Trees, in float64, are like the position.

    Attributes:
        outcome: whether h is right within tolerance, wrong beyond chance, or neither is known.
        verdict: the same in words, with what to do.
        right_step: the step at which, to leading order, everything is right within tolerance.
        whole, half: means and standard deviations at h, and at h/2.
        difference: those at h less those at h/2, with the small errors of pairs.
        extrapolated: those as the step goes to 0, from means and variances
            (2^p m_{h/2} − m_h)/(2^p − 1). Errors are of chance and of what orders beyond p may
            leave.
        bias, half_bias: of the laws at h, and at h/2, with such errors.
        gain: how many times as long independent chains would run to know differences as well: the
            median over coordinates, of means or of standard deviations, whichever is less.
        step_size: h.
        order: p, of the bias: h^p.
        num_pairs: pairs of chains there were.
        num_lost: of these, pairs that are left out, for one of their chains is not finite.
        num_steps, num_kept: steps of h that each made, and those after the burn-in.
        data_passes: what each pair cost, in passes over the data.
        rhat: the largest split R-hat of a coordinate at h/2.
        drifts: whether moments change over the steps that are kept, beyond chance.
        is_cut: whether a pair diverged after the burn-in, or half of them or more anywhere: a part
            of the posterior may be cut off, and no outcome is right.
        tolerance, error_rate: as given.
        names: of the coordinates.
    """

    outcome: Literal["right", "wrong", "unsure"]
    verdict: str
    right_step: float
    whole: Estimates
    half: Estimates
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
    drifts: bool
    is_cut: bool
    tolerance: float
    error_rate: float
    names: tuple[str, ...]

    def __repr__(self) -> str:
        lost = f" ({self.num_lost} lost)" if self.num_lost else ""
        power = "h" if self.order == 1 else f"h^{self.order}"
        lines = [
            f"Halving: {self.verdict}",
            f"{self.num_pairs} pairs of chains{lost} with h = {self.step_size:.4g} and h/2, "
            f"{self.num_kept:,} of {self.num_steps:,} steps kept, {self.data_passes:.3g} passes "
            f"each; R-hat {rhat_in_words(self.rhat, 3)}",
            f"bias of order {power}; common noise is worth runs {self.gain:.3g} times as long",
        ]
        shift, wide, shift_error, wide_error = map(vector, vars(self.bias).values())
        half_shift, half_wide, *_ = map(vector, vars(self.half_bias).values())
        mean, sd, mean_error, sd_error = map(vector, vars(self.extrapolated).values())
        # A mean may be off by twice as many tolerances.
        size = np.maximum(np.abs(wide - 1), np.abs(shift) / 2)
        shown = np.argsort(-size, kind="stable")[:MOST_SHOWN]
        heads = "sd too wide by", "at h/2", "mean off by (sd)", "at h/2", "extrapolated mean", "sd"
        table = [("coordinate", *heads)]
        table += [
            (
                self.names[i],
                f"{100 * (wide[i] - 1):.2f} ± {100 * wide_error[i]:.2f} %",
                f"{100 * (half_wide[i] - 1):.2f} %",
                f"{shift[i]:.3f} ± {shift_error[i]:.3f}",
                f"{half_shift[i]:.3f}",
                f"{with_digits(mean[i], sd[i])} ± {mean_error[i]:.2g}",
                f"{sd[i]:.4g} ± {sd_error[i]:.2g}",
            )
            for i in shown
        ]
        lines += aligned(table)
        if len(shown) < len(self.names):
            lines.append(f"({len(shown)} of {len(self.names)} coordinates: the largest biases)")
        return "\n".join(lines)
