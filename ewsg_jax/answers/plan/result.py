"""What `ewsg.plan` returns, and how it prints."""

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from ewsg_jax.answers.check.report import Report
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.candidates import CandidateForecast
from ewsg_jax.answers.plan.gaussian import Gaussian
from ewsg_jax.answers.plan.plot import plot
from ewsg_jax.answers.plan.run_requirements import (
    ALL_STEPS,
    burn_in_steps,
    ess_for_tolerance,
    steps_for_ess,
    thin_of,
)
from ewsg_jax.base import checks, limits
from ewsg_jax.base.table import aligned
from ewsg_jax.gradients._protocol import Evaluations
from ewsg_jax.kernels.in_coordinates import InCoordinates
from ewsg_jax.kernels.notes import with_findings
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks.finding import Finding, of_kinds


@dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """How to sample a posterior, and what is known of it before.

    Attributes:
        kernel: the kernel to run, in the units of the position. If the plan is not trusted, a note
            on it says so, which `ewsg_jax.sample` hands to its samples and `ewsg_jax.check` to the
            verdict on them; the note is no part of the kernel's value.
        start: a function of a key that returns the start of a chain: a draw wider than the
            posterior if that is near normal, otherwise a draw of the last pilot run that was not
            wrong, or of the warm-up.
        burn_in: first steps that are not kept.
        autocorrelation_time: steps of a chain that one effective draw takes, as ArviZ counts them.
        table: forecasts of all candidates, the best first, with the reason why each was not taken.
        gaussian: the normal approximation at the mode, judged and corrected: an answer without a
            chain if `gaussian.is_right`. None if there is no mode, or the posterior is far from
            normal around it.
        mode: the mode, or the position at which the search for it ended.
        report: the report of `check` on the last pilot run of the kernel; None if the posterior is
            near normal, and a forecast was enough.
        notes: what you should know, in words.
        tolerance: the largest relative error of a standard deviation.
        num_chains: number of chains of the planned run.
        data_passes_spent: passes over the data that planning took.
        seconds_spent: seconds that planning took, compiling included: in the search for the mode,
            the check of the normal approximation (`gaussian`), the warm-up by chains (`windows`),
            the forecasts of all `candidates`, the pilot runs (`trials`), the search for other
            `modes`, and in `all`.
        cost: gradient evaluations of the kernel.
        num_rows: n.
        by: what a run costs: rows and steps, passes over the data, or seconds on this machine.
        findings: what is wrong with the model, or with the pilot run of the kernel: records of a
            kind, a severity, a text and a cure.
    """

    kernel: Kernel
    start: Any
    burn_in: int
    autocorrelation_time: float
    table: tuple[CandidateForecast, ...]
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
    findings: tuple[Finding, ...] = ()

    def __post_init__(self) -> None:
        # What samples the kernel makes, and what checks them, says so too.
        text = f"the plan was not trusted: {'; '.join(self.doubts)}"
        finding = Finding("plan", "doubt", text, self.advice)
        kernel = with_findings(self.kernel, (finding,) if self.doubts else ())
        object.__setattr__(self, "kernel", kernel)

    @property
    def is_trusted(self) -> bool:
        """Whether nothing that was tried or worked out is a reason to doubt the plan.

        Either the corrected normal approximation is within tolerance and near normal, so that the
        distribution of the kernel's draws is known; or a pilot run of the kernel was judged by
        `ewsg_jax.check`, by at least 100 effective draws of chains that agree, and is within
        tolerance, or shows no bias when it would show a large one. The density is 0 at no
        draw, and no search from up to 100 sds away settled at another mode that chains have not
        visited; a narrow or farther one may be missed.
        """
        return not self.doubts

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the plan is not trusted, in words: the texts of all findings but notes; empty if it
        is trusted.
        """
        return tuple(finding.text for finding in self._doubtful)

    @property
    def advice(self) -> str:
        """What to do if the plan is not trusted, in words; empty if it is."""
        # Nothing else helps against these, and they may be the cause of all others.
        of_values = of_kinds(self._doubtful, "support", "edge")
        of_numbers = of_kinds(self._doubtful, "gradient") or of_kinds(self._doubtful, "spacing")
        if causes := of_values or of_numbers:
            return causes[0].cure
        return "; or ".join(dict.fromkeys(cause.cure for cause in self._doubtful if cause.cure))

    @property
    def _doubtful(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.severity != "note"]

    @property
    def ess(self) -> float:
        """Effective draws of all chains together with which Monte Carlo error moves no standard
        deviation by more than half of the tolerance.
        """
        return ess_for_tolerance(self.tolerance)

    @property
    def thin(self) -> int:
        """Steps from one kept draw to the next in a run of `plan.ess` effective draws: some five
        draws are kept for an effective one.
        """
        return thin_of(self.autocorrelation_time, self._steps(None) - self.burn_in)

    def sample_options(self, ess: float | None = None) -> dict[str, Any]:
        """Return the keyword arguments of `ewsg_jax.sample` that carry the plan out, a dictionary:
        `data_passes`, `num_chains`, `burn_in`, `thin` and `moments`. `sample(key, plan, data)` has
        them by itself.

        Some five draws are kept for an effective one, which costs 1.3 % of the effective draws at
        the most (for an autoregression); `samples.moments` are those of all steps after the
        burn-in.

        Args:
            ess: effective draws of all chains together, for means and for standard deviations.
                None: as many as `plan.ess`.

        Raises:
            TypeError, ValueError: `ess` is not a positive number.

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> x = jax.random.normal(jax.random.key(0), (400, 2))
            >>> plan = ewsg.plan(
            ...     jax.random.key(1), ewsg.models.gaussian_location(), jnp.zeros(2), x
            ... )
            >>> options = plan.sample_options(ess=1_000)
            >>> sorted(options)
            ['burn_in', 'data_passes', 'moments', 'num_chains', 'thin']
            >>> samples = ewsg.sample(jax.random.key(2), plan, x, **options)
            >>> bool(samples.moments.weight[0] == samples.num_steps - plan.burn_in)
            True
        """
        return {
            "data_passes": self.data_passes(ess),
            "num_chains": self.num_chains,
            "burn_in": self.burn_in,
            "thin": thin_of(self.autocorrelation_time, self._steps(ess) - self.burn_in),
            "moments": ALL_STEPS,
        }

    def data_passes(self, ess: float | None = None) -> float:
        """Return what `ewsg_jax.sample` takes for `data_passes`, for each chain, its burn-in
        included.

        Args:
            ess: effective draws of all chains together, for means and for standard deviations.
                None: as many as `plan.ess`.

        Raises:
            TypeError, ValueError: `ess` is not a positive number.
        """
        steps, cost = self._steps(ess), self.cost
        of_steps = steps * cost.expected if cost.counted else cost.of_steps(0, steps)
        return (cost.at_init + of_steps) / self.num_rows

    def seconds(self, ess: float | None = None) -> float:
        """Return the seconds that such a run takes on this machine, without compiling.

        Args:
            ess: effective draws of all chains together, as for `data_passes`.

        Raises:
            TypeError, ValueError: `ess` is not a positive number; the plan was not made with
                `by="seconds"`, or the steps of its kernel were not measured (NUTS, or a kernel for
                which no candidate of the table was taken).
        """
        if self.by != "seconds" or not self.table:
            raise ValueError(
                "by must be 'seconds' in ewsg_jax.plan for a plan to know how long a step takes; "
                f"got {self.by!r}{'' if self.table else ', and no candidates'}"
            )
        best = self.table[0]
        if not (self._is_candidate and np.isfinite(best.seconds)):
            raise ValueError(
                "kernel must be one of plan.table whose steps were measured; got "
                f"{self.kernel!r:.120}. Time some of its steps instead (samples.run_seconds)"
            )
        steps = burn_in_steps(best.time) + steps_for_ess(best.time, self.ess, self.num_chains)
        return best.seconds / steps * self._steps(ess)

    def _steps(self, ess: float | None) -> int:
        """Return the steps of each chain, its burn-in included."""
        if ess is not None:
            checks.positive("ess", ess)
        wanted = self.ess if ess is None else float(ess)
        return self.burn_in + steps_for_ess(self.autocorrelation_time, wanted, self.num_chains)

    def plot(self, path: Any = None) -> Any:
        """Draw passes and errors of all candidates; return the matplotlib figure.

        Args:
            path: the image file to write; None for none.

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
        lines += self._length_lines()
        if self.report is not None:
            # A pilot run is as short as may be: that it leaves means uncertain is no news.
            few = f"no bias seen in its {self.report.scores.ess:.0f} effective draws"
            outcome = few if self.report.outcome == "unsure" else self.report.verdict
            lines.append(f"its pilot run: {outcome}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines + (self._table_lines() if self.table else []))

    @property
    def _is_candidate(self) -> bool:
        """Whether the kernel is one of the table, in the coordinates of a hierarchy or in its own.
        NUTS is not: it is tried once the best of these has been.
        """
        kernel = self.kernel.kernel if isinstance(self.kernel, InCoordinates) else self.kernel
        return isinstance(kernel, Pair)

    def _length_lines(self) -> list[str]:
        """Return how long the run is, and what planning took: three lines."""
        # If a pilot run measured 5 % more steps for an effective draw, that is said.
        time, ratio = self.autocorrelation_time, 1.05
        is_slower = self.table and time > ratio * self.table[0].time
        by = (
            ", by its pilot run (the table's are predicted for a normal distribution)"
            if is_slower
            else ""
        )
        parts = ", ".join(
            f"{part} {seconds:.2g}" for part, seconds in self.seconds_spent.items() if part != "all"
        )
        return [
            f"burn-in {self.burn_in} steps, thin {self.thin}; {time:.3g} steps an effective "
            f"draw{by}",
            f"{self.data_passes():.3g} passes over the data by each of {self.num_chains} chains "
            f"for {self.ess:,.0f} effective draws",
            f"planning took {self.data_passes_spent:.3g} passes, {self.seconds_spent['all']:.2g} "
            f"s ({parts})",
        ]

    def _table_lines(self) -> list[str]:
        """Return the table of candidates, and what its costs are."""
        most = limits.LINES_SHOWN
        first = "taken" if self._is_candidate else "the best of these"
        lines = _table(self.table, first, self.by == "seconds")
        if len(self.table) > most:
            lines.append(f"({len(self.table)} candidates, the best {most} shown)")
        costs = {
            "rows": f"cost: rows, and {settings.STEP_COST_ROWS} more for each step",
            "passes": "cost: these",
        }
        cost = costs.get(self.by, "seconds: of steps measured here")
        return [*lines, f"passes: of all {self.num_chains} chains; {cost}"]


def _table(forecasts: tuple[CandidateForecast, ...], first: str, has_seconds: bool) -> list[str]:
    """Return the lines of the table of the best candidates, a header first; those of candidates
    without a batch size have the reason alone.

    Args:
        forecasts: all candidates, the best first.
        first: what the best one is called.
        has_seconds: whether there is a column of seconds.
    """
    shown, least = forecasts[: limits.LINES_SHOWN], 1e-4
    header = ["candidate", "batch", "step", "friction", "sd error", "steps/draw", "passes"]
    rows = [header + ["seconds"] * has_seconds + [""]]
    for forecast in shown:
        error = 100 * forecast.sd_error
        numbers = [
            str(forecast.batch_size),
            f"{forecast.step_size:.3g}",
            f"{forecast.friction:.3g}" if forecast.friction else "",
            f"<{100 * least:g} %" if forecast.sd_error < least else f"{error:.2g} %",
            f"{forecast.time:.3g}",
            f"{forecast.passes:.3g}",
        ]
        if has_seconds:
            numbers.append(f"{forecast.seconds:.3g}" if np.isfinite(forecast.seconds) else "")
        rows.append([str(forecast.candidate), *numbers, _why(forecast, forecasts[0], first)])
    width = max(len(str(forecast.candidate)) for forecast in forecasts)
    widths = (width, 6, 8, 8, 8, 10, 8, 8 * has_seconds)
    lines = aligned(rows, (0, len(rows[0]) - 1), widths)
    for number, forecast in enumerate(shown, 1):
        if not forecast.batch_size:
            lines[number] = f"{forecast.candidate!s:{width}}  {rows[number][-1]}"
    return lines


def _why(forecast: CandidateForecast, best: CandidateForecast, first: str) -> str:
    """Return why a candidate was not taken, in words; what it is called if it is the best."""
    if forecast.why_not:
        return forecast.why_not
    if forecast is best:
        return first
    if np.isfinite(forecast.seconds):
        return f"{forecast.seconds / best.seconds:.2g} times the time"
    if np.isfinite(best.seconds):
        return "not measured"
    return f"{forecast.cost / best.cost:.2g} times the cost"
