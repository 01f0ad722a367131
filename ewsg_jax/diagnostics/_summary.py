"""Mean, standard deviation, R-hat, effective sample size and Monte Carlo error of every coordinate:
as a table, for pandas and as a CSV file; and the distance between two such summaries.
"""

import csv
import io
import numbers
import os
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ewsg_jax.answers.check.draws import SAMPLES_MUST_BE, tree_of
from ewsg_jax.base import checks, limits, optional, pytrees
from ewsg_jax.base.files import path_of, write_whole
from ewsg_jax.base.table import aligned
from ewsg_jax.base.typing import PyTree
from ewsg_jax.diagnostics._coordinates import coordinates
from ewsg_jax.draws import convergence
from ewsg_jax.draws.convergence import CONVERGED, rhat_in_words
from ewsg_jax.draws.coordinates import Names, flattened, named, with_digits
from ewsg_jax.run.samples import Samples, diverged_of

COORDINATE = "coordinate"
"""Heading of the column of names."""
MAX_SUMMARY_COORDINATES = 10_000
"""Coordinates that are summarised, milliseconds each; set by hand."""


@dataclass(frozen=True, eq=False)
class Summary:
    """A row of numbers for each coordinate; arrays of shape (coordinate,).

    Attributes:
        names: the coordinates' names.
        mean: posterior mean.
        sd: posterior standard deviation, over all draws of the chains that did not diverge.
        rhat: rank-normalised split R-hat (Vehtari et al. 2021); NaN if it is undefined.
        ess_bulk: effective sample size for the middle of the distribution.
        ess_tail: effective sample size for its 5 and 95 % quantiles.
        mcse: Monte Carlo standard error of the mean.
        probabilities: probabilities of the requested quantiles, shape (quantile,).
        quantiles: quantiles of the draws, interpolated linearly, shape (quantile, coordinate); NaN
            if a draw is not finite.
        num_chains: number of chains, diverged ones included.
        num_draws: number of kept draws of each chain.
        notes: reasons not to trust these numbers, in words.
        num_diverged: number of chains that diverged; they are left out of all numbers.
    """

    names: tuple[str, ...]
    mean: np.ndarray
    sd: np.ndarray
    rhat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray
    mcse: np.ndarray
    probabilities: np.ndarray
    quantiles: np.ndarray
    num_chains: int
    num_draws: int
    notes: tuple[str, ...]
    num_diverged: int = 0

    @property
    def worst_rhat(self) -> float:
        """The largest R-hat of all coordinates, NaN if there is none."""
        # Infinite if no chain moves and their positions differ.
        known = self.rhat[~np.isnan(self.rhat)]
        return float(known.max()) if known.size else np.nan

    @property
    def least_ess(self) -> float:
        """The smallest bulk effective sample size of all coordinates, NaN if there is none."""
        finite = self.ess_bulk[np.isfinite(self.ess_bulk)]
        return float(finite.min()) if finite.size else np.nan

    def worst(self, count: int = limits.LINES_SHOWN) -> np.ndarray:
        """Return the numbers of the `count` coordinates of largest R-hat (else the first ones)."""
        # Without R-hat no coordinate is worse than another.
        if len(self.names) <= count or np.isnan(self.worst_rhat):
            return np.arange(min(count, len(self.names)))
        return np.sort(np.argsort(-np.nan_to_num(self.rhat, nan=-np.inf), kind="stable")[:count])

    def columns(self) -> dict[str, np.ndarray]:
        """Return all numbers by name, shape (coordinate,) each; quantiles are called `5%` etc."""
        names = ("mean", "sd", "mcse", "rhat", "ess_bulk", "ess_tail")
        quantiles = zip(map(_percent, self.probabilities), self.quantiles, strict=True)
        return {name: getattr(self, name) for name in names} | dict(quantiles)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` of all columns, indexed by the coordinates' names.

        Raises:
            ImportError: pandas is not installed.
        """
        pd = optional.module("pandas", "to_pandas")
        return pd.DataFrame(self.columns(), index=pd.Index(self.names, name=COORDINATE))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write all columns to a file of comma-separated values, UTF-8, a line for each coordinate.

        Args:
            path: path of the file; an existing file is replaced. Numbers are written such that they
                are read back exactly, `nan` for NaN.

        Raises:
            TypeError: the path is not a file path.
            OSError: the file cannot be written.
        """
        text, columns = io.StringIO(), self.columns()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([COORDINATE, *columns])
        for name, *row in zip(self.names, *columns.values(), strict=True):
            # Python's shortest text that is read back as the same number.
            writer.writerow([name, *map(float, row)])
        write_whole(path_of(path), lambda file: file.write(text.getvalue().encode()))

    def __str__(self) -> str:
        quantile_titles = map(_percent, self.probabilities)
        rows = [["", "mean", "sd", "mcse", "R-hat", "ESS bulk", "ESS tail", *quantile_titles]]
        shown = self.worst()
        for i in shown:
            rows.append(
                [
                    self.names[i],
                    with_digits(self.mean[i], self.sd[i]),
                    f"{self.sd[i]:.4g}",
                    f"{self.mcse[i]:.2g}",
                    rhat_in_words(float(self.rhat[i]), 4),
                    f"{self.ess_bulk[i]:.0f}",
                    f"{self.ess_tail[i]:.0f}",
                    *(with_digits(quantile[i], self.sd[i]) for quantile in self.quantiles),
                ]
            )
        longest = max(map(len, self.names))
        widths = [longest + 1, 9, 9, 9, 7, *[9] * (2 + len(self.probabilities))]
        lines = aligned(rows, least=widths, gap=" ")
        if len(shown) < len(self.names):
            which = "first" if np.isnan(self.worst_rhat) else "of largest R-hat"
            lines.append(f"({len(self.names)} coordinates, the {len(shown)} {which} shown)")
        left_out = f" ({self.num_diverged} diverged, left out)" if self.num_diverged else ""
        lines.append(f"{self.num_chains} chains{left_out} of {self.num_draws} draws")
        return "\n".join(lines + [f"note: {note}" for note in self.notes])


def summary(
    samples: Samples | PyTree, names: Names = None, *, quantiles: Sequence[float] = ()
) -> Summary:
    """Summarise a run coordinate by coordinate; R-hat, ESS and MCSE are as in ArviZ.

    Chains that diverged are left out, and a note names them. Too few draws, one chain, or draws
    that are not finite give NaN and a note, never an exception.

    Args:
        samples: what `ewsg_jax.sample` returned; or draws of anything, a pytree of arrays with the
            leading axes (chain, draw), such as predictions by `samples.predict(…,
            keep_draws=True)`. In arrays diverged chains are not known and not left out.
        names: a name for each coordinate. Default: its path in the pytree.
        quantiles: probabilities of the quantiles, from 0 to 1, such as (0.05, 0.5, 0.95). Default:
            no quantiles.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or there are more than
            10,000 coordinates.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = jax.random.normal(jax.random.key(0), (50, 2))
        >>> kernel = ewsg.uld(ewsg.models.gaussian_location(), 5e-2, friction=10.0)
        >>> start = lambda key: jax.random.normal(key, (2,))
        >>> samples = ewsg.sample(
        ...     jax.random.key(1), kernel, start, data, 2_000, num_chains=4, burn_in=200
        ... )
        >>> summary = ewsg.diagnostics.summary(samples, names=["first", "second"])
        >>> bool(summary.worst_rhat < 1.05), summary.notes
        (True, ())
        >>> summary = ewsg.diagnostics.summary(samples, quantiles=(0.05, 0.5, 0.95))
        >>> summary.quantiles.shape, list(summary.columns())[-3:]
        ((3, 2), ['5%', '50%', '95%'])
        >>> of_norms = ewsg.diagnostics.summary(jnp.linalg.norm(samples.position, axis=-1))
        >>> of_norms.names
        ('draws',)
    """
    if names is not None:
        checks.texts("names", names)
    probabilities = _probabilities_of(quantiles)
    # From shapes, before any draw is copied.
    if isinstance(samples, Samples):
        check_size(samples)
        draws, own_names = coordinates(samples, names)
        all_chains = samples.num_chains
    else:
        draws, own_names = flattened(_arrays(samples), names)
        all_chains = len(draws)
    num_chains, num_draws, size = draws.shape
    unknown = np.full(size, np.nan)

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # A coordinate that never moved or is not finite gives 0/0; the table shows NaN for it.
        warnings.simplefilter("ignore", RuntimeWarning)
        has_draws = num_chains * num_draws > 0
        known = convergence.of_draws(draws)
        rhat = known.rhat if num_chains > 1 else unknown
        return Summary(
            names=own_names,
            mean=draws.mean(axis=(0, 1)) if has_draws else unknown,
            sd=draws.std(axis=(0, 1), ddof=1) if num_chains * num_draws > 1 else unknown,
            rhat=rhat,
            ess_bulk=known.ess_bulk,
            ess_tail=known.ess_tail,
            mcse=known.mcse,
            probabilities=probabilities,
            quantiles=_quantiles(draws, probabilities),
            num_chains=all_chains,
            num_draws=num_draws,
            notes=tuple(
                _notes(samples if isinstance(samples, Samples) else None, draws, rhat, own_names)
            ),
            num_diverged=all_chains - num_chains,
        )


def _quantiles(draws: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Return the quantiles of all chains' draws, NaN if there is no draw or one is not finite."""
    flat = draws.reshape(-1, draws.shape[2])
    if not probabilities.size or not len(flat):
        return np.full((len(probabilities), draws.shape[2]), np.nan)
    return np.where(np.isfinite(flat).all(axis=0), np.quantile(flat, probabilities, axis=0), np.nan)


def _arrays(samples: PyTree) -> dict[str, np.ndarray]:
    """Check draws in arrays, (chain, draw, …), and return them by name."""
    arrays = named(jax.tree.map(np.asarray, tree_of(samples)), "draws")
    if any(x.dtype.kind in "cOSU" for x in arrays.values()):
        raise ValueError(
            f"{SAMPLES_MUST_BE} of real numbers; got "
            f"{checks.listed('samples', checks.shapes(samples))}"
        )
    _check_coordinates(arrays)
    return arrays


def check_size(samples: Samples) -> None:
    """Check that there are not too many coordinates, from shapes alone."""
    checks.instance("samples", samples, Samples, "what ewsg_jax.sample returns, runs[i] of a stack")
    _check_coordinates(samples.named())


def _check_coordinates(leaves: dict[str, np.ndarray]) -> None:
    size = pytrees.size(leaves, leading_axes=2)
    if size > MAX_SUMMARY_COORDINATES:
        raise ValueError(
            f"samples must have at most {MAX_SUMMARY_COORDINATES:,} coordinates to be summarised; "
            f"got {size:,}: keep a function of the position, such as its norms or some predictions "
            "(sample(…, keep=…)), or summarise a part, dataclasses.replace(samples, draws=…)"
        )


def _notes(
    samples: Samples | None, draws: np.ndarray, rhat: np.ndarray, names: tuple[str, ...]
) -> list[str]:
    """Return reasons not to trust a summary; `samples` is the run of the draws, if there is one."""
    notes, left = [], len(draws)
    known = rhat[~np.isnan(rhat)]
    worst = float(known.max()) if known.size else 1.0
    if samples is not None and left < samples.num_chains:
        what = "nothing is left to summarise"
        if left:
            those = "it" if left == samples.num_chains - 1 else "them"
            without = f"; without {those} R-hat is {rhat_in_words(worst, 3)}" if known.size else ""
            what = f"left out of all these numbers{without}"
        notes.append(f"{diverged_of(samples.diverged_at)}: {what}")
    if worst > CONVERGED:
        notes.append(
            f"R-hat {rhat_in_words(worst, 2)}: the chains have different distributions. There "
            "are several modes (a control variate centred on one makes chains in the others too "
            "wide), or the run is far too short"
        )
    if left == 1:
        notes.append("one chain: R-hat compares chains, so there is none; run at least 4")
    if draws.shape[1] < convergence.FEWEST_CHAIN_DRAWS:
        notes.append(
            f"fewer than {convergence.FEWEST_CHAIN_DRAWS} draws a chain: no R-hat, ESS or Monte "
            "Carlo error"
        )
    elif samples is not None and samples.common_start:
        notes.append(
            "all chains started at one point, which makes R-hat too kind; "
            "start them apart (a function of a key as position)"
        )
    if samples is not None and samples.shared_minibatch and left > 1:
        notes.append(
            "the chains share their batches and are not independent: ESS is too large, MCSE and "
            "R-hat are too small; ewsg_jax.check allows for it"
        )
    still = np.flatnonzero(np.ptp(draws, axis=(0, 1)) == 0) if draws.shape[1] > 1 and left else []
    if len(still):
        most = limits.NAMES_SHOWN
        shown = ", ".join(names[i] for i in still[:most]) + ", …" * (len(still) > most)
        notes.append(
            f"one number in all draws: {shown}. Its ESS and Monte Carlo error mean nothing; if "
            "chains should have moved, their steps were lost in rounding, or all were rejected"
        )
    lost = int(np.sum(~np.isfinite(draws).all(axis=(1, 2))))
    if lost:
        notes.append(f"{lost} of {left} chains have draws that are not finite")
    if samples is None:
        return notes
    if samples.overflow.any():
        notes.append(
            f"in up to {samples.overflow.max()} steps a bounded set could not hold what it should "
            "(samples.overflow): these draws are not of the posterior"
        )
    if samples.interrupted:
        notes.append("the run was interrupted")
    return notes


@dataclass(frozen=True, eq=False)
class Distance:
    """Means and standard deviations of a run against a reference, coordinate by coordinate.

    Attributes:
        mean: (mean − reference mean) / reference sd, shape (coordinate,).
        sd_ratio: sd / reference sd, shape (coordinate,).
        monte_carlo: root mean square of `mean` expected from the Monte Carlo errors of both runs
            alone; NaN if they are unknown.
    """

    mean: np.ndarray
    sd_ratio: np.ndarray
    monte_carlo: float

    @property
    def largest(self) -> float:
        """The largest absolute standardised difference of means."""
        return float(np.max(np.abs(self.mean)))

    @property
    def root_mean_square(self) -> float:
        """The root mean square of the standardised differences of means."""
        return float(np.sqrt(np.mean(np.square(self.mean))))

    def __str__(self) -> str:
        low, middle, high = np.quantile(self.sd_ratio, [0, 0.5, 1])
        return (
            f"means off by {self.root_mean_square:.3f} sd (root mean square, Monte Carlo error "
            f"alone: {self.monte_carlo:.3f}), at most {self.largest:.3f} sd; ratio of sds "
            f"{middle:.3f} (median), {low:.3f} to {high:.3f}"
        )


def distance(run: Summary, reference: Summary) -> Distance:
    """Compare the summary of a run with that of a reference run of the same posterior.

    Args:
        run: the summary of the run.
        reference: the summary of the reference run.

    Raises:
        TypeError: an argument is not a `Summary`.
        ValueError: the two do not have the same coordinates.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = jax.random.normal(jax.random.key(0), (50, 2))
        >>> def run(seed):
        ...     kernel = ewsg.uld(ewsg.models.gaussian_location(), 5e-2, friction=10.0)
        ...     return ewsg.sample(
        ...         jax.random.key(seed), kernel, jnp.zeros(2), data, 4_000, num_chains=4
        ...     )
        >>> one, other = (ewsg.diagnostics.summary(run(seed)) for seed in (1, 2))
        >>> bool(ewsg.diagnostics.distance(one, other).largest < 0.2)
        True
    """
    checks.instance("run", run, Summary, "what ewsg_jax.diagnostics.summary returns")
    checks.instance("reference", reference, Summary, "what ewsg_jax.diagnostics.summary returns")
    if run.names != reference.names:
        raise ValueError(
            f"run and reference must have the same coordinates; got {len(run.names)} and "
            f"{len(reference.names)}, beginning with {run.names[0]!r} and {reference.names[0]!r}"
        )
    # Errors of both runs: the reference has a Monte Carlo error, too.
    with np.errstate(all="ignore"):
        error = np.sqrt(
            np.mean((np.square(run.mcse) + np.square(reference.mcse)) / np.square(reference.sd))
        )
        return Distance(
            (run.mean - reference.mean) / reference.sd, run.sd / reference.sd, float(error)
        )


def _probabilities_of(quantiles: object) -> np.ndarray:
    """Check and return the probabilities of quantiles, different numbers from 0 to 1."""
    takes = "quantiles must be a list of different probabilities, from 0 to 1"
    if isinstance(quantiles, str) or not isinstance(quantiles, Collection):
        raise TypeError(f"{takes}; got {checks.describe(quantiles)}")
    for value in quantiles:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError(f"{takes}; got {checks.describe(value)} in it")
        if not 0 <= float(value) <= 1:
            raise ValueError(f"{takes}; got {value} in it")
    probabilities = np.array(list(quantiles), np.float64)
    if len(np.unique(probabilities)) < len(probabilities):
        raise ValueError(f"{takes}; got {checks.describe(quantiles)}")
    return probabilities


def _percent(probability: float) -> str:
    """Return the name of the quantile of a probability: 5% for 0.05."""
    return f"{100 * probability:.10g}%"
