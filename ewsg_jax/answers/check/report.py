"""What a check reports."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import jax
import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.affine import between
from ewsg_jax.answers.check.centred import in_coordinates_of, in_position
from ewsg_jax.answers.check.correction import TargetMoments
from ewsg_jax.answers.check.draws import Draws, draws_of, like
from ewsg_jax.answers.check.function_values import values_at
from ewsg_jax.answers.check.kinetic import Kinetic
from ewsg_jax.answers.check.more_draws import AvailableDraws
from ewsg_jax.answers.check.moved_draws import Analysis
from ewsg_jax.answers.check.plot import Panel, plot
from ewsg_jax.answers.check.report_table import table_lines
from ewsg_jax.answers.check.stein import Scores
from ewsg_jax.answers.check.verdict import (
    Evidence,
    Measured,
    Verdict,
    judge,
    with_doubts,
    without_a_part,
)
from ewsg_jax.base import checks, limits
from ewsg_jax.base.typing import Position, PyTree
from ewsg_jax.draws.convergence import CONVERGED, rhat_in_words
from ewsg_jax.model_checks.finding import Finding, of_kinds, texts
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.layout import vector


def _in_short(z: float) -> str:
    if z > settings.MAX_SDS:
        return f"> {settings.MAX_SDS:.0e}"
    return f"{z:.1f}" if z < 1e4 else f"{z:.1e}"


@dataclass(frozen=True, eq=False)
class Corrected:
    """Moments of the target, from the draws and the gradients at them.

    All but `covariance` and `by` are pytrees like the position, of NumPy arrays in float64.

    Attributes:
        mean: the mean of each coordinate.
        sd: its standard deviation.
        mean_error: standard errors of the means: Monte Carlo error, and what the correction leaves
            if draws are far from the target.
        sd_error: the same of the standard deviations.
        covariance: the covariance matrix in `ravel_pytree` order, shape (d, d); None above 1,000
            parameters, or with fewer than some 1.3 draws for each of them.
        by: the Stein functions that the moments were computed with, in words.
    """

    mean: Position
    sd: Position
    mean_error: Position
    sd_error: Position
    covariance: np.ndarray | None
    by: str

    @property
    def errors(self) -> tuple[float, float]:
        """The largest error of a mean, in sds, and of a standard deviation, relatively."""
        sd = vector(self.sd)
        of_means = float(np.max(vector(self.mean_error) / sd))
        return of_means, float(np.max(vector(self.sd_error) / sd))


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """How wrong draws are, and what is right. Pytrees are like the position.

    Attributes:
        sd_ratio: standard deviations of all draws, unused ones too, over those of the target.
        sd_ratio_error: their standard errors, of the target's side: of these draws, not of others
            from the same sampler; infinite if all that is known is that the ratio is above 5. All
            four are NaN if chains do not agree and nothing is corrected, or if `cut_off` says why.
        mean_shift: the mean of all draws less that of the target, in sds of the target.
        mean_shift_error: its standard error; infinite if the shift is at least 10.
        corrected: the moments that the draws should have; None if they are not known well enough.
        not_corrected: why not, in words; empty if there are corrected moments.
        scores: Stein's identities at the draws: whether a bias is more than Monte Carlo error.
        rest: the same at the draws moved to the corrected mean and covariance: a bias of shape,
            which no affine map removes. None if draws were near enough, or too few, to be moved.
        rhat: the largest split R-hat of a coordinate; NaN for one chain.
        apart: the name of that coordinate.
        data_passes: the cost of the gradients, in passes over the data.
        tolerance: the tolerance that `check` was given.
        draws: the draws that were used.
        findings: what is wrong with the model, or with the places of draws, and notes on it.
        kinetic: the kinetic temperature of the run over that of the target; None without `kernel=`.
        no_kinetic: why it is unknown for the kernel that was given; else empty.
        num_compared: the number of coordinates along which the gradient was compared with values
            of the log density: all, or 512 if there are more; 0 if rows lie on several devices, or
            positions have fewer digits than float32.
        num_steps: the steps of each chain over which draws are spread; 0 for draws from elsewhere.
    """

    sd_ratio: Position
    sd_ratio_error: Position
    mean_shift: Position
    mean_shift_error: Position
    corrected: Corrected | None
    not_corrected: str
    scores: Scores
    rest: Scores | None
    rhat: float
    apart: str
    data_passes: float
    tolerance: float
    draws: Draws = field(repr=False)
    analyses: tuple[Analysis, ...] = field(repr=False)
    moments: TargetMoments = field(repr=False)
    findings: tuple[Finding, ...] = ()
    kinetic: Kinetic | None = None
    no_kinetic: str = field(default="", repr=False)
    num_compared: int = 0
    num_steps: int = 0

    @property
    def outcome(self) -> Literal["right", "wrong", "unsure"]:
        """Either "right" within tolerance, "wrong" beyond Monte Carlo error, or "unsure"."""
        return self._verdict.outcome

    @property
    def verdict(self) -> str:
        """The outcome in words, with what to do; first, why the plan of the run was not trusted, if
        it was not, and that draws were made at several temperatures.
        """
        return self._verdict.text

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates."""
        return self.draws.names

    @property
    def num_chains(self) -> int:
        """The number of chains, those that were left out too."""
        return len(self.draws.values) + self.num_lost

    @property
    def num_lost(self) -> int:
        """How many of them diverged, or are not finite, and were left out."""
        return self.draws.num_lost

    @property
    def num_draws(self) -> int:
        """The number of draws of each chain."""
        return self.draws.num_draws

    @property
    def num_used(self) -> int:
        """The number of draws that were used, over all chains."""
        return len(self.draws.flat)

    @property
    def num_unseen(self) -> int:
        """The number of draws that were not used, of the chains that count."""
        return (self.num_chains - self.num_lost) * self.num_draws - self.num_used

    @property
    def lost(self) -> str:
        """Which chains were left out and when they diverged, in words; empty if none was."""
        return self.draws.lost

    @property
    def is_cut(self) -> bool:
        """Whether a part of the posterior may be cut off, so that no outcome is right: a chain
        diverged after its first draw, or half of all chains or more did at any time.
        """
        return self.draws.is_cut

    @property
    def outside(self) -> str:
        """Which share of the draws lies where a density is 0, in words; empty if none does."""
        return texts(self.findings, "support")

    @property
    def cut_off(self) -> str:
        """That draws lie at an edge at which the density is not 0, in words. Stein's identities do
        not hold there: nothing is known by them, and shifts and ratios are NaN.
        """
        return texts(self.findings, "edge")

    @property
    def mistaken(self) -> str:
        """That the gradient is not that of the log density, in words; empty if none is seen to be.
        Every other number is made of gradients.
        """
        return texts(self.findings, "gradient")

    @property
    def impossible(self) -> str:
        """That draws are wider than the prior, which a log-concave likelihood does not allow, in
        words; empty if they are not, or if this is unknown.
        """
        return "; ".join(finding.text for finding in self.findings if _is_impossible(finding))

    @property
    def note(self) -> str:
        """What a user may want to know of a model even if the draws are right, in words: such as
        coordinates as wide as a normal prior, or far from it; empty if there is nothing.
        """
        return "; ".join(str(finding) for finding in self.findings if finding.severity == "note")

    @property
    def has_more(self) -> bool:
        """Whether unused draws would add information: those used are nearly independent."""
        num_used = self.num_used
        # Of few draws the least effective sample size of many directions is below half.
        is_new = num_used < 1_000 or self.scores.ess >= 0.5 * num_used
        return self.num_unseen > 0 and is_new

    @property
    def needs_more(self) -> bool:
        """Whether unused draws might decide what those that were used cannot."""
        if self.cut_off or of_kinds(self.findings, "no_identity"):
            return False
        return self.has_more and judge(self._evidence).outcome == "unsure"

    @property
    def _verdict(self) -> Verdict:
        verdict = judge(self._evidence)
        if self.is_cut:
            verdict = without_a_part(verdict, self.lost)
        before = of_kinds(self.findings, "plan", "temperature")
        return with_doubts(verdict, texts(one for one in before if one.severity != "note"))

    @property
    def _evidence(self) -> Evidence:
        num_used = self.num_used
        return Evidence(
            scores=self.scores,
            sd_ratio=Measured(vector(self.sd_ratio), vector(self.sd_ratio_error)),
            mean_shift=Measured(vector(self.mean_shift), vector(self.mean_shift_error)),
            kurtosis=self.draws.kurtosis,
            names=self.names,
            rhat=self.rhat,
            tolerance=self.tolerance,
            findings=self.findings,
            worst_mixed=self.apart,
            left_out="" if self.is_cut else self.lost,
            has_more=self.has_more,
            is_corrected=self.corrected is not None,
            available=AvailableDraws(
                used=num_used,
                total=num_used + self.num_unseen,
                default=settings.DRAWS_TO_USE[-1],
                num_steps=self.num_steps,
            ),
        )

    def expectation(self, function: Callable[[Any], PyTree]) -> tuple[PyTree, PyTree]:
        """Return the target's expectation of a function of the position, and its standard error.

        It comes from a regression on Stein functions. If draws were moved, the error contains the
        difference from the answer of the original draws.

        Args:
            function: `function(position) -> pytree of arrays`, for one draw; for a probability, a
                function that returns true or false.

        Returns:
            The expectation and its standard error, pytrees like what the function returns.

        Raises:
            TypeError, ValueError: it is no such function; nothing can be corrected
                (`report.not_corrected`).
        """
        checks.function("function", function, "(position) -> pytree of arrays")
        self._check_positions("expectation")
        values = [values_at(in_position(analysis.draws), function) for analysis in self.analyses]
        self._check_corrected("expectation")
        results = []
        for leaves in zip(*(at_draws.leaves for at_draws in values), strict=True):
            answers = [
                analysis.correction.expectation(leaf)
                for analysis, leaf in zip(self.analyses, leaves, strict=True)
            ]
            (original, original_error), (mean, error) = answers[0], answers[-1]
            if len(answers) > 1:
                doubt = settings.UNMOVED_ERROR_SHARE * original_error
                error = np.sqrt(error**2 + (mean - original) ** 2 + doubt**2)
            results.append((mean, error))
        means, errors = ([result[k] for result in results] for k in (0, 1))
        return values[0].as_tree(means), values[0].as_tree(errors)

    def _check_positions(self, name: str) -> None:
        if not self.analyses:
            raise ValueError(
                f"{name} must be of a check of positions; got that of a function: leave of= out, "
                "or take report.corrected"
            )

    def _check_corrected(self, name: str) -> None:
        if self.corrected is None:
            raise ValueError(
                f"{name} must be of draws that can be corrected; got {self.not_corrected}. Take "
                "smaller steps or run longer, and check again"
            )

    def correct(self, samples: Samples | PyTree) -> Any:
        """Return draws, moved by the affine map from moments of the checked draws to the target's.

        Chains that diverged, or are not finite, stay as they are: they do not count.

        Args:
            samples: the draws that were checked, or others of the same run; draws beyond bounds
                are not moved back.

        Returns:
            Samples, or a pytree of draws, as it was given.

        Raises:
            TypeError, ValueError: they are no draws of this position; nothing can be corrected
                (`report.not_corrected`).
        """
        self._check_positions("correct")
        moved = draws_of(samples, None, None)
        if moved.layout != self.draws.layout:
            raise ValueError("samples must be of the position that was checked; got others")
        self._check_corrected("correct")
        checked = self.analyses[0].draws
        right = self.moments if checked.centring is None else self.analyses[-1].correction.moments
        to = between(
            checked.flat,
            right.mean,
            right.sd**2 if right.covariance is None else right.covariance,
        )
        values = in_position(in_coordinates_of(checked, moved).moved(to)).values
        if not isinstance(samples, Samples):
            return like(samples, values, moved.chains)
        draws = like(samples.draws, values, moved.chains)
        return replace(samples, draws=draws, moments=None)

    def worst(self, count: int = 12) -> np.ndarray:
        """Return the numbers of the coordinates with the largest bias, at most `count` of them.

        Args:
            count: the number of coordinates.
        """
        ratio, shift = np.abs(np.log(vector(self.sd_ratio))), np.abs(vector(self.mean_shift))
        size = np.maximum(ratio / self.tolerance, shift / (2 * self.tolerance))
        return np.argsort(-size, kind="stable")[:count]

    def table(self, *names: str) -> str:
        """Return the table of coordinates: a line each, with the corrected mean and sd.

        `print(report)` has the coordinates of small leaves (scalars, and up to four parameters),
        and those with the largest bias.

        Args:
            names: names of coordinates, such as `"z[3]"`, of leaves, such as `"z"`, which are
                shown whole, or of branches of the pytree, such as `"layer"`. Default: all
                coordinates.

        Raises:
            TypeError, ValueError: a name is not a string, or not that of a coordinate.

        Example:
            >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
            >>> model, data = ewsg.models.gaussian_location(), jnp.linspace(-1.0, 1.0, 80)
            >>> draws = jax.random.normal(jax.random.key(0), (4, 1_000, 2)) / 40**0.5
            >>> report = ewsg.check(jax.random.key(1), draws, model, data.reshape(40, 2))
            >>> len(report.table("position[1]").splitlines())  # the header, and one
            2
        """
        for name in names:
            if not isinstance(name, str):
                raise TypeError(f"names must be strings; got {checks.describe(name)}")
        chosen = (
            [np.arange(len(self.names))] if not names else [self._named(name) for name in names]
        )
        return "\n".join(self._lines(np.concatenate(chosen)))

    def _named(self, name: str) -> np.ndarray:
        """Return the numbers of the coordinates of a leaf, of a branch, or of one coordinate."""
        numbers = [
            i
            for i, full_name in enumerate(self.names)
            if full_name == name or full_name.startswith((f"{name}[", f"{name}."))
        ]
        if not numbers:
            raise ValueError(
                f"names must be of coordinates or leaves, such as {self.names[0]!r}; got {name!r}"
            )
        return np.array(numbers)

    def plot(self, path: Any = None) -> Any:
        """Draw sd ratios and mean shifts of all coordinates with errors; return the figure.

        Args:
            path: the image file to write. Default: none is written.

        Raises:
            ImportError: matplotlib is not installed.
            TypeError: the path is not a file path.
        """
        ratio, shift = vector(self.sd_ratio), vector(self.mean_shift)
        panels = [
            Panel("sd / target's", ratio, vector(self.sd_ratio_error), 1.0, self.tolerance),
            Panel("mean shift (sd)", shift, vector(self.mean_shift_error), 0.0, 2 * self.tolerance),
        ]
        return plot(self.verdict, panels, path)

    @property
    def _temperature(self) -> str:
        """The temperature of the draws by E[g u]; only a stationary distribution has one."""
        if self.rhat > CONVERGED:
            return "not known, for the chains do not agree"
        if self.cut_off:
            return "not known, for the density ends among the draws"
        value, error = 1 + self.scores.excess, self.scores.excess_error
        if value <= 0:
            return (
                f"not known: {value:.2g} ± {error:.2g} of the target's is that of no distribution"
            )
        if error > settings.NOTHING_KNOWN_SDS:
            return "not known"
        return f"{value:.3f} ± {error:.3f} of the target's, averaged over directions"

    def _shown(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the coordinates that are printed: those of small leaves first, such
        as the few parameters that all groups of a hierarchy share, and others of large bias.
        """
        sizes = [int(np.size(leaf)) for leaf in jax.tree.leaves(self.sd_ratio)]
        is_small = np.repeat([size <= 4 for size in sizes], sizes)
        order = self.worst(len(self.names))
        if len(order) <= limits.LINES_SHOWN or is_small.all():
            return order[:0], order[: limits.LINES_SHOWN]
        first = np.sort([i for i in order if is_small[i]][: 3 * limits.LINES_SHOWN // 4]).astype(
            int
        )
        rest = order[~np.isin(order, first)][: limits.LINES_SHOWN - len(first)]
        return first, rest

    def _lines(self, coordinates: np.ndarray) -> list[str]:
        """Return the lines of the table for these coordinates, the header first."""
        evidence = self._evidence
        return table_lines(
            coordinates, self.names, evidence.sd_ratio, evidence.mean_shift, self.moments
        )

    def __repr__(self) -> str:
        lost = f" ({self.num_lost} diverged, left out)" if self.num_lost else ""
        shared = (
            "; chains share their batches: errors are from blocks of time"
            if self.draws.shared
            else ""
        )
        scores = ", ".join(
            f"{name}: {_in_short(score.z)}" for name, score in self.scores.worst.items()
        )
        lines = [
            f"Check: {self.verdict}",
            f"{self.num_chains} chains{lost} of {self.num_draws:,} draws, {self.num_used:,} used "
            f"for {self.data_passes:.3g} passes; R-hat {rhat_in_words(self.rhat, 3)}, ESS "
            f"{self.scores.ess:.0f}{shared}",
            f"Stein's identities, worst |z| ({scores}); above {self.scores.bound:.1f} is more than "
            "Monte Carlo error",
            f"temperature: {self._temperature}",
        ] + [str(self.kinetic or self.no_kinetic)] * bool(self.kinetic or self.no_kinetic)
        first, rest = self._shown()
        shown = np.concatenate([first, rest])
        rows = self._lines(shown)
        lines += rows
        if len(rows) > 1 and len(shown) < len(self.names):
            which = f"the {len(shown)} with the largest bias"
            if len(first):
                which = (
                    f"{len(first)} of the smallest leaves and the {len(rest)} with the largest bias"
                )
            lines.append(f"({len(self.names)} coordinates, {which} shown; others by report.table)")
        if self.num_compared < len(self.names):
            lines.append(
                f"gradients compared with values along {self.num_compared} of {len(self.names)} "
                "coordinates"
            )
        lines += [f"not corrected: {self.not_corrected}"] * bool(self.not_corrected)
        lines += [f"the plan advised: {one.cure}" for one in of_kinds(self.findings, "plan")]
        return "\n".join(lines + [f"note: {self.note}"] * bool(self.note))


def _is_impossible(finding: Finding) -> bool:
    return finding.kind == "prior" and finding.severity == "error"
