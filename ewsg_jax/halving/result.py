"""What halving the step says."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ewsg_jax._types import Position
from ewsg_jax.halving import verdict as verdicts
from ewsg_jax.halving.moments import Extrapolation, Known, Law, Off
from ewsg_jax.preparation.programs import Layout
from ewsg_jax.sampling.coordinates import with_digits

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
        sd_ratio: its standard deviations over the extrapolated ones.
        mean_shift: its means less the extrapolated ones, in extrapolated standard deviations.
    """

    sd_ratio: Position
    sd_ratio_error: Position
    mean_shift: Position
    mean_shift_error: Position


def _with(known: Known, beyond: np.ndarray | float) -> Known:
    """Return numbers with errors of chance and of higher orders together."""
    return Known(known.value, np.hypot(known.error, beyond))


@dataclass(frozen=True, eq=False, repr=False)
class Halved:
    """How wrong a step size is, and what is right. Trees, in float64, are like the position.

    Attributes:
        step_size: h.
        order: p, of the bias: h^p.
        num_pairs: pairs of chains there were.
        num_lost: of these, pairs that are left out, for one of their chains is not finite.
        num_steps: steps of h that each made.
        num_kept: of these, those after the burn-in.
        data_passes: what each pair cost, in passes over the data.
        rhat: the largest split R-hat of a coordinate at h/2.
        drifts: whether moments change over the steps that are kept, beyond chance.
        tolerance: as given.
        names: of the coordinates.
        is_cut: whether a pair diverged after the burn-in, or half of them or more anywhere: a part
            of the posterior may be cut off, and no outcome is right.
    """

    step_size: float
    order: int
    num_pairs: int
    num_lost: int
    num_steps: int
    num_kept: int
    data_passes: float
    rhat: float
    drifts: bool
    tolerance: float
    error_rate: float = field(repr=False)
    names: tuple[str, ...]
    layout: Layout = field(repr=False)
    found: Extrapolation = field(repr=False)
    is_cut: bool = False

    @property
    def whole(self) -> Estimates:
        """At h."""
        return self._told(self.found.whole)

    @property
    def half(self) -> Estimates:
        """At h/2."""
        return self._told(self.found.half)

    @property
    def difference(self) -> Estimates:
        """At h less at h/2, with errors of pairs: the part of them that common noise leaves."""
        return self._told(self.found.difference)

    @property
    def extrapolated(self) -> Estimates:
        """As the step goes to 0: means and variances (2^p m_{h/2} − m_h)/(2^p − 1).

        Errors are of chance and of what orders beyond p may have left: two step sizes do not show
        of which order a bias is.
        """
        mean, sd = self.found.right
        beyond = self.found.beyond
        return self._told(Law(_with(mean, beyond.mean), _with(sd, beyond.sd)))

    @property
    def bias(self) -> Bias:
        """Of the law at h."""
        return self._off(self._biases[0])

    @property
    def half_bias(self) -> Bias:
        """Of the law at h/2."""
        return self._off(self._biases[1])

    @property
    def _biases(self) -> tuple[Off, Off]:
        """Of the laws at h and h/2, with all errors."""
        beyond = self.found.beyond
        (ratio, shift), (half_ratio, half_shift) = self.found.bias, self.found.half_bias
        return (
            Off(_with(ratio, beyond.sd_ratio), _with(shift, beyond.mean_shift)),
            Off(_with(half_ratio, beyond.half_ratio), _with(half_shift, beyond.half_shift)),
        )

    @property
    def gain(self) -> float:
        """How many times as long independent chains would run to know differences as well.

        The median over coordinates, of means or of variances, whichever is less.
        """
        return self.found.gain

    @property
    def right_step(self) -> float:
        """The step at which, to leading order, everything is right within tolerance."""
        return verdicts.right_step(self.found, self.step_size, self.order, self.tolerance)

    @property
    def outcome(self) -> Literal["right", "wrong", "unsure"]:
        """Whether h is right within tolerance, wrong beyond chance, or neither is known."""
        return self._judged.outcome

    @property
    def verdict(self) -> str:
        """The same in words, with what to do."""
        return self._judged.text

    @property
    def _judged(self) -> verdicts.Verdict:
        return verdicts.of(
            self.found,
            self.names,
            self.num_pairs - self.num_lost,
            self.num_lost,
            self.rhat,
            self.drifts,
            self.right_step,
            self.tolerance,
            self.error_rate,
            self.is_cut,
        )

    def __repr__(self) -> str:
        (ratio, shift), (half_ratio, half_shift) = self._biases
        beyond, (mean, sd) = self.found.beyond, self.found.right
        mean, sd = _with(mean, beyond.mean), _with(sd, beyond.sd)
        lost = f" ({self.num_lost} lost)" if self.num_lost else ""
        power = "h" if self.order == 1 else f"h^{self.order}"
        lines = [
            f"Halving: {self.verdict}",
            f"{self.num_pairs} pairs of chains{lost} with h = {self.step_size:.4g} and h/2, "
            f"{self.num_kept:,} of {self.num_steps:,} steps kept, {self.data_passes:.3g} passes "
            f"each; R-hat {self.rhat:.3f}",
            f"bias of order {power}; common noise is worth runs {self.gain:.3g} times as long",
        ]
        size = verdicts.size_of(self.found.bias, self.tolerance).off.reshape(2, -1).max(0)
        shown = np.argsort(-size, kind="stable")[:MOST_SHOWN]
        width = max(len("coordinate"), *(len(self.names[i]) for i in shown))
        lines.append(
            f"{'coordinate':{width}}  {'sd too wide by':>16} {'at h/2':>8}  "
            f"{'mean off by (sd)':>16} {'at h/2':>7}  {'extrapolated mean':>24}  {'sd':>20}"
        )
        for i in shown:
            wide = f"{100 * (ratio.value[i] - 1):.2f} ± {100 * ratio.error[i]:.2f} %"
            off = f"{shift.value[i]:.3f} ± {shift.error[i]:.3f}"
            means = f"{with_digits(mean.value[i], sd.value[i])} ± {mean.error[i]:.2g}"
            sds = f"{sd.value[i]:.4g} ± {sd.error[i]:.2g}"
            lines.append(
                f"{self.names[i]:{width}}  {wide:>16} {100 * (half_ratio.value[i] - 1):>6.2f} %  "
                f"{off:>16} {half_shift.value[i]:>7.3f}  {means:>24}  {sds:>20}"
            )
        if len(shown) < len(self.names):
            lines.append(
                f"({len(self.names)} coordinates, the {len(shown)} with the largest bias shown)"
            )
        return "\n".join(lines)

    def _told(self, law: Law) -> Estimates:
        tree = self.layout.tree
        mean, sd = law
        return Estimates(
            *(tree(x, np.float64) for x in (mean.value, sd.value, mean.error, sd.error))
        )

    def _off(self, off: Off) -> Bias:
        return Bias(*(self.layout.tree(x, np.float64) for part in off for x in part))
