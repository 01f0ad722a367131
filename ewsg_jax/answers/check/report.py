"""What a check says."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import jax
import numpy as np

from ewsg_jax.answers.check import verdict as verdicts
from ewsg_jax.answers.check.affine import between
from ewsg_jax.answers.check.correction import DOUBTED, Moments
from ewsg_jax.answers.check.draws import Draws, draws_of, like
from ewsg_jax.answers.check.function_values import values_at
from ewsg_jax.answers.check.kinetic import Kinetic
from ewsg_jax.answers.check.moved_draws import Reckoning
from ewsg_jax.answers.check.plot import Panel, plot
from ewsg_jax.answers.check.stein import FARTHEST, Scores
from ewsg_jax.base import checks
from ewsg_jax.base.typing import Position, PyTree
from ewsg_jax.draws.convergence import rhat_in_words
from ewsg_jax.draws.coordinates import CONVERGED, with_digits
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.layout import vector

NEW, ENOUGH = 0.5, 1_000
"""Effective draws of each used, from which those between say more, and from which it is known."""
MOST_SHOWN = 12
"""Coordinates of which the table shows a row each: those with the largest bias."""
MOST_USED = 16_000
"""Draws that are used where fewer cannot decide, if the caller does not say."""
SMALL, MOST_SMALL = 4, 9
"""Numbers of a small leaf, which the table shows first, and how many of all of these."""
UNKNOWN = 3.0
"""Of a ratio, or of a mean in sds: a number with a larger error is not shown."""


def _known(value: Any, error: Any, width: int) -> str:
    """Return a number and its error, or that it is unknown, or as large as can be measured."""
    if np.isinf(error) and np.isfinite(value):
        return "> 10" if value >= 10 else "< -10" if value <= -10 else "> 5"
    return f"{value:{width}.3f} ± {error:5.3f}" if error < UNKNOWN else "unknown"


def _short(z: float) -> str:
    if z > FARTHEST:
        return f"> {FARTHEST:.0e}"
    return f"{z:.1f}" if z < 1e4 else f"{z:.1e}"


@dataclass(frozen=True, eq=False)
class Corrected:
    """Moments of the target, by the draws and the gradients at them; trees like the position.

    Attributes:
        mean, sd: of each coordinate.
        mean_error, sd_error: their standard errors. Chance, and what the correction leaves where
            draws are far from the target.
        covariance: shape (d, d), over the parameters, in `ravel_pytree` order; None above 1,000
            numbers, and where there are fewer than some 1.3 draws for each of them.
        by: which Stein functions they were found with.
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
        return float(np.max(vector(self.mean_error) / sd)), float(
            np.max(vector(self.sd_error) / sd)
        )


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """How wrong draws are. Trees are like the position.

    Attributes:
        sd_ratio: the draws' standard deviations over the target's: of all draws, those that were
            not used too.
        sd_ratio_error: its standard error, of the target's side: of these draws, not of others of
            the kind; infinite where all that is known is that the ratio is above 5. All four are
            NaN where chains do not agree and nothing is corrected, or where `cut_off` says why.
        mean_shift: the draws' mean less the target's, of the same draws, in standard deviations of
            the target.
        mean_shift_error: its standard error; infinite where the shift is at least 10.
        corrected: the moments that the draws should have; None where they are not known well enough
            to be taken.
        not_corrected: in words, why not; empty where they are.
        scores: Stein's identities: whether what is wrong is more than chance.
        rest: the same of the draws, moved to the corrected mean and covariance: what no affine map
            mends, for it is of another shape. None where draws are near enough, or too few, to be
            moved.
        outside: in words, which share of the draws is where a density is 0; empty where none is
            seen.
        impossible: in words, that draws are wider than the prior, which a log-concave likelihood
            does not allow; empty where they are not, or this is not known.
        mistaken: in words, that the gradient is not that of the log density; empty where none is
            seen. Every other number is made of gradients.
        num_compared: along how many coordinates it was compared with the log density's values:
            all, or 512 where there are more; 0 where rows lie on several devices, or positions
            have fewer digits than float32.
        rhat: the largest split R-hat of a coordinate, NaN of one chain.
        apart: the name of that coordinate.
        num_chains: chains there were.
        num_lost: of these, chains that diverged, or are not finite, and are left out.
        num_draws: draws of each chain.
        num_used: draws that were used, of all chains.
        data_passes: what the gradients cost, in passes over the data.
        tolerance: as given.
        names: of the coordinates.
        note: in words, which coordinates are as wide as a normal prior alone, or far from it;
            empty where none is.
        kinetic: the kinetic temperature of the run over the target's, where its kernel was given.
        no_kinetic: why it is not known, for the kernel that was given.
        lost: in words, which chains are left out, and when they diverged; empty where none is.
        is_cut: whether one of them diverged among its draws, or half of all chains or more
            anywhere: a part of the posterior may be cut off, and no outcome is right.
        num_steps: steps of each chain over which the draws are spread; 0 of draws from elsewhere.
        cut_off: in words, that draws lie at a wall where the density is not 0. Stein's identities
            do not hold there: nothing is known by them, and shifts and ratios are NaN.
    """

    sd_ratio: Position
    sd_ratio_error: Position
    mean_shift: Position
    mean_shift_error: Position
    corrected: Corrected | None
    not_corrected: str
    scores: Scores
    rest: Scores | None
    outside: str
    impossible: str
    rhat: float
    num_chains: int
    num_lost: int
    num_draws: int
    num_used: int
    data_passes: float
    tolerance: float
    names: tuple[str, ...]
    reckonings: tuple[Reckoning, ...] = field(repr=False)
    moments: Moments = field(repr=False)
    note: str = ""
    kinetic: Kinetic | None = None
    no_kinetic: str = field(default="", repr=False)
    mistaken: str = ""
    num_compared: int = 0
    apart: str = ""
    lost: str = ""
    is_cut: bool = False
    num_steps: int = 0
    cut_off: str = ""

    @property
    def outcome(self) -> Literal["right", "wrong", "unsure"]:
        """Whether draws are right within tolerance, wrong beyond chance, or neither is known."""
        return self._found.outcome

    @property
    def verdict(self) -> str:
        """The same in words, with what to do."""
        return self._found.text

    @property
    def draws(self) -> Draws:
        """Those that were used."""
        return self.reckonings[0].draws

    @property
    def num_unseen(self) -> int:
        """Draws of the chains that count that were not used."""
        return (self.num_chains - self.num_lost) * self.num_draws - self.num_used

    @property
    def has_more(self) -> bool:
        """Whether unused draws would say more, as those used are nearly independent."""
        is_new = self.num_used < ENOUGH or self.scores.ess >= NEW * self.num_used
        return self.num_unseen > 0 and is_new

    @property
    def needs_more(self) -> bool:
        """Whether draws that were not used might decide what those that were used cannot."""
        return self.has_more and not self.cut_off and self._of_draws.outcome == "unsure"

    @property
    def _found(self) -> verdicts.Verdict:
        found = self._of_draws
        return verdicts.without_a_part(found, self.lost) if self.is_cut else found

    @property
    def _of_draws(self) -> verdicts.Verdict:
        return verdicts.of(
            self.scores,
            vector(self.sd_ratio),
            vector(self.sd_ratio_error),
            vector(self.mean_shift),
            vector(self.mean_shift_error),
            self.names,
            self.rhat,
            self.tolerance,
            "" if self.is_cut else self.lost,
            self.impossible,
            self.has_more,
            self.corrected is not None,
            self.outside,
            self.mistaken,
            self.apart,
            verdicts.Spent(
                self.num_used, self.num_used + self.num_unseen, MOST_USED, self.num_steps
            ),
            self.draws.kurtosis,
            self.cut_off,
        )

    def expectation(self, function: Callable[[Any], PyTree]) -> tuple[PyTree, PyTree]:
        """Return the target's expectation of a function of the position, and its standard error.

        By a regression on Stein functions. Of draws that were moved, by what differs from that of
        the draws as they were, too.

        Args:
            function: `function(position) -> tree of arrays`, for one draw; of a probability, true
                or false.

        Raises:
            TypeError, ValueError: it is no such function; nothing can be corrected
                (`report.not_corrected`).
        """
        checks.function("function", function, "(position) -> tree of arrays")
        values = [values_at(each.draws, function) for each in self.reckonings]
        self._check_corrected("expectation")
        found = []
        for leaves in zip(*(each.leaves for each in values), strict=True):
            told = [
                each.correction.expectation(leaf)
                for each, leaf in zip(self.reckonings, leaves, strict=True)
            ]
            (first, doubt), (last, error) = told[0], told[-1]
            if len(told) > 1:
                error = np.sqrt(error**2 + (last - first) ** 2 + (DOUBTED * doubt) ** 2)
            found.append((last, error))
        return values[0].told([mean for mean, _ in found]), values[0].told(
            [error for _, error in found]
        )

    def _check_corrected(self, name: str) -> None:
        if self.corrected is None:
            raise ValueError(
                f"{name} must be of draws that can be corrected; got {self.not_corrected}. Take "
                "smaller steps or run longer, and check again"
            )

    def correct(self, samples: Samples | PyTree) -> Any:
        """Return draws moved by the affine map from the checked ones' moments to the target's.

        Chains that diverged, or are not finite, stay as they are: they do not count.

        Args:
            samples: those that were checked, or others of the same run; draws beyond bounds are not
                moved back.

        Raises:
            TypeError, ValueError: they are no draws of this position; nothing can be corrected
                (`report.not_corrected`).
        """
        moved = draws_of(samples, None, None)
        if moved.layout != self.draws.layout:
            raise ValueError("samples must be of the position that was checked; got others")
        self._check_corrected("correct")
        right = self.moments
        to = between(
            self.draws.flat,
            right.mean,
            right.sd**2 if right.covariance is None else right.covariance,
        )
        if not isinstance(samples, Samples):
            return like(samples, to(moved.values), moved.chains)
        draws = like(samples.draws, to(moved.values), moved.chains)
        return replace(samples, draws=draws, moments=None)

    def worst(self, count: int = MOST_SHOWN) -> np.ndarray:
        """Return the numbers of the `count` coordinates with the largest bias beside its error."""
        ratio, shift = np.abs(np.log(vector(self.sd_ratio))), np.abs(vector(self.mean_shift))
        size = np.maximum(ratio / self.tolerance, shift / (2 * self.tolerance))
        return np.argsort(-size, kind="stable")[:count]

    def table(self, *names: str) -> str:
        """Return the table of coordinates: a line each, with the corrected mean and sd.

        What is printed has those of small leaves (scalars, and up to four numbers), and those with
        the largest bias.

        Args:
            names: of the coordinates that are wanted: `"z[3]"`, or of a leaf, all of it, `"z"`, or
                of a branch of the tree, `"layer"`. Default: all coordinates.

        Raises:
            TypeError, ValueError: a name is no string, or that of no coordinate.

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
        return "\n".join(self._rows(np.concatenate(chosen)))

    def _named(self, name: str) -> np.ndarray:
        found = [
            i
            for i, own in enumerate(self.names)
            if own == name or own.startswith((f"{name}[", f"{name}."))
        ]
        if not found:
            raise ValueError(
                f"names must be of coordinates or leaves, such as {self.names[0]!r}; got {name!r}"
            )
        return np.array(found)

    def plot(self, path: Any = None) -> Any:
        """Draw sd ratios and mean shifts of all coordinates with errors; return the figure.

        Args:
            path: of an image file to write; None: none.

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
        """What E[g u] says of the draws' temperature, which is a property of a stationary law."""
        if self.rhat > CONVERGED:
            return "not known, for the chains do not agree"
        if self.cut_off:
            return "not known, for the density ends among the draws"
        value, error = 1 + self.scores.excess, self.scores.excess_error
        if value <= 0:
            return f"not known: {value:.2g} ± {error:.2g} of the target's is that of no law"
        if error > UNKNOWN:
            return "not known"
        return f"{value:.3f} ± {error:.3f} of the target's, averaged over directions"

    def _shown(self) -> tuple[np.ndarray, np.ndarray]:
        """Return which coordinates are printed: those of small leaves, and others of large bias.

        Of a model with many effects of groups and a few numbers that all share, these are few.
        """
        sizes = [int(np.size(leaf)) for leaf in jax.tree.leaves(self.sd_ratio)]
        is_small = np.repeat([size <= SMALL for size in sizes], sizes)
        order = self.worst(len(self.names))
        if len(order) <= MOST_SHOWN or is_small.all():
            return order[:0], order[:MOST_SHOWN]
        first = np.sort([i for i in order if is_small[i]][:MOST_SMALL]).astype(int)
        rest = order[~np.isin(order, first)][: MOST_SHOWN - len(first)]
        return first, rest

    def _rows(self, shown: np.ndarray) -> list[str]:
        """Return lines of the table, the header first; one line where nothing is known."""
        ratio, ratio_error = vector(self.sd_ratio), vector(self.sd_ratio_error)
        shift, shift_error = vector(self.mean_shift), vector(self.mean_shift_error)
        mean, sd = self.moments.mean, self.moments.sd
        errors = np.maximum(self.moments.mean_error / sd, self.moments.sd_error)
        least = np.min([ratio_error[shown], shift_error[shown], errors[shown]])
        if not least < UNKNOWN:
            return [
                f"of {len(shown)} coordinates nothing is known: errors are above {UNKNOWN:g} sd"
            ]
        width = max(len("coordinate"), *(len(self.names[i]) for i in shown))
        lines = [
            f"{'coordinate':{width}}  sd / target's     mean shift (sd)   corrected mean         sd"
        ]
        return lines + [
            f"{self.names[i]:{width}}  {_known(ratio[i], ratio_error[i], 6):>14}  "
            f"{_known(shift[i], shift_error[i], 7):>15}  "
            + (
                f"{with_digits(mean[i], sd[i]):>14} {sd[i]:10.4g}"
                if errors[i] < UNKNOWN
                else f"{'unknown':>14} {'unknown':>10}"
            )
            for i in shown
        ]

    def __repr__(self) -> str:
        lost = f" ({self.num_lost} diverged, left out)" if self.num_lost else ""
        shared = (
            "; chains share their batches: errors are from blocks of time"
            if self.draws.shared
            else ""
        )
        scores = ", ".join(
            f"{name}: {_short(score.z)}" for name, score in self.scores.worst.items()
        )
        lines = [
            f"Check: {self.verdict}",
            f"{self.num_chains} chains{lost} of {self.num_draws:,} draws, {self.num_used:,} used "
            f"for {self.data_passes:.3g} passes; R-hat {rhat_in_words(self.rhat, 3)}, ESS "
            f"{self.scores.ess:.0f}{shared}",
            f"Stein's identities, worst |z| ({scores}); above {self.scores.bound:.1f} is no chance",
            f"temperature: {self._temperature}",
        ] + [str(self.kinetic or self.no_kinetic)] * bool(self.kinetic or self.no_kinetic)
        first, rest = self._shown()
        shown = np.concatenate([first, rest])
        rows = self._rows(shown)
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
        return "\n".join(lines + [f"note: {self.note}"] * bool(self.note))
