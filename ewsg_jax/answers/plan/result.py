"""What a plan says."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ewsg_jax.answers.check.report import Report
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan.choice import OVERHEAD
from ewsg_jax.answers.plan.gaussian import Gaussian
from ewsg_jax.answers.plan.plot import plot
from ewsg_jax.answers.plan.run_size import Candidate, burn_in_of, steps_of
from ewsg_jax.base import checks
from ewsg_jax.base.table import aligned
from ewsg_jax.gradients._protocol import Evaluations
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks.gradient import GRADIENT_CURE
from ewsg_jax.model_checks.support import SUPPORT_CURE

SURE = 3.3
"""Standard errors by which chance moves a sd of some hundreds at most."""
LONGER = 1.05
"""Times as slow as predicted, from which on a trial is slower than that."""
LEAST = 1e-4
"""The least relative error that is shown."""
ADVICE = (
    "another parametrisation (of groups or a path: non-centred where rows say little of each "
    "member, centred where they say much; a bijector for what is bounded), a proper prior for what "
    "grows without bound, longer trials (max_passes=), or NUTS of NumPyro or BlackJAX on the same "
    "functions; judge any run by ewsg_jax.check"
)
MOST_SHOWN = 12
"""Candidates of which the table shows a row each."""


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """How to sample a posterior, and what is known of it before.

    Attributes:
        kernel: what to run, in the units of the position.
        start: where chains start, a function of a key: draws wider than the posterior where that
            is near normal, else draws of the last trial that was not wrong, or of the warm-up.
        burn_in: first steps that are not kept.
        autocorrelation_time: steps of a chain that one effective draw takes, as ArviZ counts them.
        table: all candidates, the best first, with what each would do and why it lost.
        gaussian: the normal approximation at the mode, judged and corrected: an answer without a
            chain where `gaussian.is_right`. None where there is no mode, or the posterior is far
            off around it.
        mode: where the search ended.
        report: what `check` says of the last trial of the kernel; None where the posterior is near
            normal, and a forecast was enough.
        notes: what one should know, in words.
        tolerance: as given.
        num_chains: of the run that is planned.
        data_passes_spent: over the data, by planning.
        seconds_spent: by planning, compiling included: in the search for the mode, the check of the
            normal approximation (`gaussian`), the warm-up by chains (`windows`), the forecasts of
            all `candidates`, the `trials`, the search for other `modes`, and in `all`.
        doubts: why the plan is not trusted, in words; none where it is.
    """

    kernel: Kernel
    start: Any
    burn_in: int
    autocorrelation_time: float
    table: tuple[Candidate, ...]
    gaussian: Gaussian | None
    mode: Mode
    report: Report | None
    notes: tuple[str, ...]
    tolerance: float
    num_chains: int
    data_passes_spent: float
    seconds_spent: dict[str, float]
    cost: Evaluations = field(repr=False)
    num_rows: int = field(repr=False)
    by: Literal["rows", "passes", "seconds"] = field(repr=False)
    doubts: tuple[str, ...] = ()

    @property
    def is_trusted(self) -> bool:
        """Whether what was tried or worked out gives no reason for doubt.

        Either the normal approximation, corrected, is right and near normal, so that the law of the
        kernel is known; or a trial of the kernel was judged by `ewsg_jax.check`, by at least 100
        effective draws of chains that agree, and is right, or shows no bias where it would
        show a large one. No draws lie where the density is 0, and no search from up to 100 widths
        away settled at another mode that chains have not visited; a narrow or farther one may be
        missed.
        """
        return not self.doubts

    @property
    def advice(self) -> str:
        """What to do where the plan is not trusted, in words; empty where it is."""
        if not self.doubts:
            return ""
        if any("-inf" in doubt for doubt in self.doubts):
            return SUPPORT_CURE
        if any("is not that of its values" in doubt for doubt in self.doubts):
            return GRADIENT_CURE
        return ADVICE

    @property
    def ess(self) -> float:
        """Effective draws with which chance moves no standard deviation by more than half of the
        tolerance.
        """
        return enough(self.tolerance)

    def data_passes(self, ess: float | None = None) -> float:
        """Return what `ewsg_jax.sample` takes for `data_passes`, of each chain, its burn-in
        included.

        Args:
            ess: effective draws of all chains together, for means and for standard deviations;
                None: as many that chance moves no sd by more than half of the tolerance.

        Raises:
            TypeError, ValueError: it is no positive number.
        """
        steps, cost = self._steps(ess), self.cost
        of_steps = steps * cost.expected if cost.counted else cost.of_steps(0, steps)
        return (cost.at_init + of_steps) / self.num_rows

    def seconds(self, ess: float | None = None) -> float:
        """Return the seconds that such a run takes on this machine, compiling apart.

        Args:
            ess: as of `data_passes`.

        Raises:
            TypeError, ValueError: it is no positive number; the plan was not made with
                `by="seconds"`, or knows no candidates.
        """
        if not self.table or not np.isfinite(self.table[0].seconds):
            raise ValueError(
                "by must be 'seconds' in ewsg_jax.plan for a plan to know how long a step takes; "
                f"got {self.by!r}{'' if self.table else ', and no candidates'}"
            )
        best = self.table[0]
        of_step = best.seconds / (
            burn_in_of(best.time) + steps_of(best.time, self.ess, self.num_chains)
        )
        return of_step * self._steps(ess)

    def _steps(self, ess: float | None) -> int:
        """Return the steps of each chain, its burn-in included."""
        if ess is not None:
            checks.positive("ess", ess)
        wanted = self.ess if ess is None else float(ess)
        return self.burn_in + steps_of(self.autocorrelation_time, wanted, self.num_chains)

    def plot(self, path: Any = None) -> Any:
        """Draw passes and errors of all candidates; return the matplotlib figure.

        Args:
            path: of an image file to write; None: none.

        Raises:
            ImportError: matplotlib is not installed.
            TypeError: the path is not a file path.
        """
        return plot(repr(self.kernel), self.table, self.ess, self.tolerance, path)

    def __repr__(self) -> str:
        lines = (
            [f"NOT TRUSTED: {'; '.join(self.doubts)}", f"what to do: {self.advice}"]
            if self.doubts
            else []
        )
        lines.append(f"Plan: {self.kernel}")
        if self.gaussian is not None:
            lines.append(f"without a chain: {self.gaussian.verdict}")
        passes = (
            f"{self.data_passes():.3g} passes over the data by each of {self.num_chains} chains"
        )
        slower = self.table and self.autocorrelation_time > LONGER * self.table[0].time
        by = ", by its trial (the table's are predicted for a normal law)" if slower else ""
        lines.append(
            f"burn-in {self.burn_in} steps; {self.autocorrelation_time:.3g} steps an effective "
            f"draw{by}"
        )
        lines.append(f"{passes} for {self.ess:,.0f} effective draws")
        parts = ", ".join(
            f"{part} {took:.2g}" for part, took in self.seconds_spent.items() if part != "all"
        )
        lines.append(
            f"planning took {self.data_passes_spent:.3g} passes, {self.seconds_spent['all']:.2g} "
            f"s ({parts})"
        )
        if self.report is not None:
            # A trial is as short as may be: that it leaves means uncertain is no news.
            few = f"no bias seen in its {self.report.scores.ess:.0f} effective draws"
            lines.append(
                f"its trial: {few if self.report.outcome == 'unsure' else self.report.verdict}"
            )
        lines += [f"note: {note}" for note in self.notes]
        if self.table:
            # NUTS is no candidate: it was tried when the best of these had been.
            first = "taken" if isinstance(self.kernel, Pair) else "the best of these"
            lines += _lines(self.table, first, self.by == "seconds")
            if len(self.table) > MOST_SHOWN:
                lines.append(f"({len(self.table)} candidates, the best {MOST_SHOWN} shown)")
            costs = {
                "rows": f"cost: rows, and {OVERHEAD} more for each step",
                "passes": "cost: these",
            }
            cost = costs.get(self.by, "seconds: of steps measured here")
            lines.append(f"passes: of all {self.num_chains} chains; {cost}")
        return "\n".join(lines)


def enough(tolerance: float) -> float:
    """Return the effective draws with which chance moves no sd by more than half of the
    tolerance.
    """
    return float(np.ceil((SURE / (tolerance / 2)) ** 2 / 2))


def why(candidate: Candidate, best: Candidate, first: str = "taken") -> str:
    """Return why a candidate lost, in words; of the best one what it is."""
    if candidate.why_not:
        return candidate.why_not
    if candidate is best:
        return first
    if np.isfinite(candidate.seconds):
        return f"{candidate.seconds / best.seconds:.2g} times the time"
    if np.isfinite(best.seconds):
        return "not measured"
    return f"{candidate.cost / best.cost:.2g} times the cost"


def _lines(table: tuple[Candidate, ...], first: str, has_seconds: bool) -> list[str]:
    """Return the table of the best candidates, a header first; the reason alone of those that have
    no batch size.
    """
    names = [str(each.way) for each in table]
    header = ["candidate", "batch", "step", "friction", "sds off", "steps/draw", "passes"]
    rows = [header + ["seconds"] * has_seconds + [""]]
    for each in table[:MOST_SHOWN]:
        off = f"{100 * each.sd_error:.2g}" if each.sd_error >= LEAST else f"<{100 * LEAST:g}"
        numbers = [
            str(each.batch_size),
            f"{each.step_size:.3g}",
            f"{each.friction:.3g}" if each.friction else "",
            f"{off} %",
            f"{each.time:.3g}",
            f"{each.passes:.3g}",
        ]
        if has_seconds:
            numbers.append(f"{each.seconds:.3g}" if np.isfinite(each.seconds) else "")
        rows.append([str(each.way), *numbers, why(each, table[0], first)])
    longest = max(map(len, names))
    lines = aligned(rows, (0, len(rows[0]) - 1), (longest, 6, 8, 8, 7, 10, 8, 8 * has_seconds))
    for i, each in enumerate(table[:MOST_SHOWN], 1):
        if not each.batch_size:
            lines[i] = f"{names[i - 1]:{longest}}  {rows[i][-1]}"
    return lines
