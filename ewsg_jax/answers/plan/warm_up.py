"""Warming up by chains, where the normal approximation at the mode is no answer.

Some chains go ahead in windows by underdamped dynamics, at steps that are stable where they are.
The draws of a window and the gradients there give the metric of the next (`metric.py`). Windows get
longer until the metric no longer changes. One program makes all of them.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax import gradients
from ewsg_jax.answers.check.draws import Draws, draws_of
from ewsg_jax.answers.check.gradients import FreshGradients, fresh_gradients
from ewsg_jax.answers.plan.candidates import Way
from ewsg_jax.answers.plan.gaussian import ROWS
from ewsg_jax.answers.plan.metric import DENSE, metric_of, start_of
from ewsg_jax.answers.plan.noise import noise_of
from ewsg_jax.answers.plan.request import Asked
from ewsg_jax.answers.plan.stiff_directions import steepest
from ewsg_jax.answers.plan.whitening import Frame
from ewsg_jax.base import rng
from ewsg_jax.base.factors import LowRank
from ewsg_jax.base.typing import Key
from ewsg_jax.gradients._protocol import GradientEstimator
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._view import num_rows
from ewsg_jax.run.internal_run import inner_run
from ewsg_jax.run.layout import MOST_STEPS_PER_BLOCK, WORK_PER_BLOCK
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.layout import vector

NUM_CHAINS = 8
LENGTHS = (1, 1, 2, 3, 4, 6, 8, 12, 16, 24)
"""Of windows, in those of the first."""
FEWEST_DRAWS, OF_LOW_RANK, MOST_NUMBERS = 32, 64, 2**23
"""Draws of a chain that a window keeps, at least, and for a metric of low rank; numbers of all that
it keeps, at most.
"""
FULL, MOST_FULL = 100_000, 1_000_000
"""Rows up to which every step takes all of them; and up to which chains may find their way without
the mode.
"""
HOT, FEWER = 0.1, 16
"""What the noise of batches may add to a variance, relatively; and times fewer rows than all that
they must have, for rows that are fetched cost more than rows in order.
"""
FRICTION, LONGEST = 1.0, 0.5
"""In units of the metric: of a posterior of width 1 the friction, and the largest step."""
STABLE = 0.5
"""Of the largest step that is stable where chains are, the part that is taken."""
OUTLYING = 5.0
"""Times as far out, or as steep, as the chain in the middle: a chain that diverged, or has not
arrived.
"""
SETTLED, STILL = 4.0, 1.0
"""Once the metric has settled: the largest factor of a variance, and the largest move of a mean, in
sd.
"""
FALLS = 0.6
"""The part of the last factor to which it falls where longer windows help. Where it does not, draws
are too few for their dimension, or no metric fits: the posterior is curved.
"""
FAR = 2.0
"""Standard deviations that a mean is off its mode, beyond which the normal approximation is not
corrected.
"""
NOISE_AT = 64
"""Draws at which that noise is measured."""
FIRST_WIDTH = 0.3
"""Of where chains begin around a start without widths."""


class Warmed(NamedTuple):
    """What the windows found.

    Attributes:
        frame: the units of the posterior.
        draws: of the last window, without chains that diverged, shape (draws, d).
        data_passes: of all chains.
        why_not: why it has not settled, in words; empty where it has.
        ratio: the largest factor by which the last window changed a variance.
        slopes: the gradients at the draws, shape (draws, d); None where no window was made.
    """

    frame: Frame
    draws: np.ndarray
    data_passes: float
    why_not: str
    ratio: float = np.inf
    slopes: np.ndarray | None = None

    @property
    def is_curved(self) -> bool:
        """Whether no metric fits well, for all that longer windows would do."""
        return not self.why_not and self.ratio > SETTLED

    @property
    def notes(self) -> list[str]:
        """What is said of a plan by chains."""
        said = ["the posterior is not near normal: chosen by trials, in units that chains met"]
        if self.why_not:
            said.append(f"the warm-up has not settled: {self.why_not}")
        if self.is_curved:
            said.append(
                f"a variance still changed by a factor of {self.ratio:.3g} from one window to the "
                "next: no metric fits where parameters scale each other. Effects of groups with "
                "many rows are better centred, those of groups with few rows non-centred"
            )
        return said

    def places(self, count: int) -> np.ndarray:
        """Return some draws less the center, shape (count or fewer, d)."""
        some = self.draws[:: max(1, len(self.draws) // count)][:count]
        return np.asarray(some - vector(self.frame.center), np.float32)

    def steep_places(self, count: int) -> np.ndarray:
        """Return the draws less the center where gradients are largest, shape (count or fewer, d).

        In units of the posterior |∇V|² is the trace of the curvature, in the mean of draws nearby:
        of all draws these are where the steepest wall is met.
        """
        if self.slopes is None:
            return self.places(count)
        size = np.sum(self.frame.whitened(self.slopes) ** 2, axis=1)
        steep = self.draws[np.argsort(-size, kind="stable")[:count]]
        return np.asarray(steep - vector(self.frame.center), np.float32)


def warmed(key: Key, asked: Asked, frame: Frame | None) -> Warmed:
    """Return the units of a posterior, from chains that go ahead in windows.

    Args:
        key: a typed PRNG key.
        asked: of which posterior.
        frame: to begin with; None: around where the search for a mode began.
    """
    for_start, *keys = rng.keys_of(key, 1 + len(LENGTHS))
    if frame is None:
        frame, positions = _begun(asked, for_start)
    else:
        positions = vector(frame.center) + frame.places(for_start, NUM_CHAINS, 1.0)
    size, kept = positions.shape[1], _num_kept(positions.shape[1])
    # No shorter than what a run does at once, so that one program makes windows of every length.
    at_once = min(MOST_STEPS_PER_BLOCK, WORK_PER_BLOCK // (size * num_rows(asked.data)))
    thin = max(1, -(-at_once // (2 * kept)))
    made, damping = Warmed(frame, positions, 0.0, "no window was made"), 1.0
    for length, own in zip(LENGTHS, keys, strict=True):
        for_run, for_gradients = rng.keys_of(own, 2)
        estimator, batch_size = _estimator(asked, made)
        steps = 2 * kept * thin * length
        samples = _ahead(for_run, asked, estimator, made, positions, damping, steps, thin * length)
        if samples is None:
            return made._replace(why_not=f"{made.why_not} (max_passes={asked.max_passes:,.0f})")
        made = made._replace(data_passes=made.data_passes + NUM_CHAINS * samples.data_passes)
        try:
            found = draws_of(samples, None, samples.num_draws * NUM_CHAINS)
        except ValueError:  # no chain is left, or none moved
            damping, made = damping / 4, made._replace(why_not="all chains diverged")
            continue
        fresh = fresh_gradients(
            for_gradients, asked.posterior, found, asked.data, batch_size, "random", 1.0
        )
        made = made._replace(data_passes=made.data_passes + fresh.data_passes)
        inside = _inside(found, fresh, made.frame)
        if not inside.any():
            damping, made = damping / 4, made._replace(why_not="no chain has a finite gradient")
            continue
        lost = NUM_CHAINS - int(inside.sum())
        damping = damping / 2 if lost else min(1.0, 1.5 * damping)
        # Chains that diverged start again where others are.
        positions = np.resize(found.values[inside, -1], positions.shape)
        rows = np.repeat(inside, found.values.shape[1])
        first, draws = fresh.first[rows], found.flat[rows]
        second = first if fresh.first is fresh.second else fresh.second[rows]
        metric = metric_of(draws, first, second, made.frame.known)
        moved = float(np.max(np.abs(metric.center - vector(made.frame.center)) / made.frame.sd))
        center = made.frame.layout.tree(metric.center)
        frame = Frame.by_chains(asked.mode, center, metric.covariance)
        limit = SETTLED if metric.ratio <= FALLS * made.ratio else np.inf
        # The first windows are too short to tell.
        why_not = _why_not(metric.ratio, limit, moved, lost) or (
            "" if length > 1 else "its windows were short"
        )
        slopes = fresh.mean[rows]
        made = Warmed(frame, draws, made.data_passes, why_not, metric.ratio, slopes)
        if not why_not:
            break
    return made


def is_far(key: Key, asked: Asked, frame: Frame) -> str:
    """Return how far the posterior is off the normal law of a frame, in words; empty where it may
    be near.

    A first check of some draws, which costs little: `gaussian.py` says whether that law is an
    answer.
    """
    for_draws, for_gradients = rng.keys_of(key, 2)
    count = NUM_CHAINS * _num_kept(len(frame.sd))
    flat = vector(frame.center) + frame.places(for_draws, count, 1.0)
    fresh = _gradients_at(for_gradients, asked, frame, flat)
    if isinstance(frame.known, LowRank) or not fresh.is_finite:
        return ""
    metric = metric_of(flat, fresh.first, fresh.second, frame.known)
    off = np.abs(metric.covariance @ fresh.mean.mean(0)) / np.sqrt(np.diag(metric.covariance))
    if metric.ratio <= SETTLED and off.max() <= FAR:
        return ""
    return (
        f"variances are off by a factor of up to {metric.ratio:.3g}, means by up to "
        f"{off.max():.2g} sd"
    )


def _ahead(
    key: Key,
    asked: Asked,
    estimator: GradientEstimator,
    made: Warmed,
    positions: np.ndarray,
    damping: float,
    num_steps: int,
    thin: int,
) -> Samples | None:
    """Return the second half of a window; None where it would take more passes than are allowed."""
    frame = made.frame
    # Chains that have left a wall come back to it.
    off = [positions - vector(frame.center), made.steep_places(NUM_CHAINS)]
    places = np.concatenate(off).astype(np.float32)
    wall = steepest(asked.posterior, frame, places, asked.data).curvature
    step_size = damping * min(LONGEST, 2 * STABLE / max(wall, np.finfo(np.float32).tiny) ** 0.5)
    # As most candidates are that take all rows, whose trials and runs share its program.
    moves = Way("BAOAB", "full", "all").dynamics_of(step_size, FRICTION, frame.inverse_mass)
    moving, n = kernel(moves, estimator), num_rows(asked.data)
    if moving.evaluations(asked.data).of_steps(0, num_steps) > n * asked.max_passes:
        return None
    return inner_run(
        key,
        moving,
        jax.device_put(frame.layout.tree(positions)),
        asked.given,
        num_steps,
        stacked=True,
        burn_in=num_steps // 2,
        thin=thin,
        mesh=asked.mesh,
    )


def _why_not(ratio: float, limit: float, moved: float, lost: int) -> str:
    """Return why a window is not the last, in words; empty where it may be."""
    if lost:
        return f"{lost} of {NUM_CHAINS} chains diverged, or have not arrived"
    if ratio > limit:
        return f"a variance still changed by a factor of {ratio:.3g}"
    if moved > STILL:
        return f"a mean still moved by {moved:.2g} standard deviations"
    return ""


def _begun(asked: Asked, key: Key) -> tuple[Frame, np.ndarray]:
    """Return the units of the gradients where the search for a mode began, and positions around
    there.
    """
    for_normal, for_gradients = rng.keys_of(key, 2)
    at = vector(asked.begin)
    positions = at + FIRST_WIDTH * rng.host_normals(for_normal, (NUM_CHAINS, len(at)))
    ones = np.ones_like(positions)
    here = Frame.at(asked.mode, asked.begin, start_of(ones))
    found = _gradients_at(for_gradients, asked, here, positions).mean
    finite = np.isfinite(found).all(1)
    if not finite.any():
        return here, positions
    frame = Frame.by_chains(asked.mode, asked.begin, start_of(found[finite]))
    return frame, np.resize(positions[finite], ones.shape)


def _num_kept(size: int) -> int:
    """Return the draws of a chain that a window keeps: two for each number of the position, of all
    chains; for a metric of low rank, some times its rank.
    """
    kept = max(FEWEST_DRAWS, -(-2 * size // NUM_CHAINS)) if size <= DENSE else OF_LOW_RANK
    return int(np.clip(MOST_NUMBERS // (NUM_CHAINS * size), 8, kept))


def _gradients_at(key: Key, asked: Asked, frame: Frame, flat: np.ndarray) -> FreshGradients:
    """Return the gradients at places, shape (draws, d)."""
    values = flat.reshape(NUM_CHAINS, -1, flat.shape[1])
    draws = Draws.at(values, frame.layout)
    return fresh_gradients(key, asked.posterior, draws, asked.data, ROWS, "random", 1.0)


def _estimator(asked: Asked, made: Warmed) -> tuple[GradientEstimator, int]:
    """Return what windows step by, and its rows: as many as the noise of batches asks for where the
    last draws are, or all where these are not many more.
    """
    full, n, frame = gradients.full(asked.posterior), num_rows(asked.data), made.frame
    if n <= FULL:
        return full, n
    least = asked.wanted.batch_size or ROWS // asked.parts * asked.parts

    def of_size(size: int, rows: Rows) -> GradientEstimator:
        return gradients.control_variate(
            asked.posterior, batch_size=size, center=frame.center, rows=rows
        )

    for rows in _laws(asked, frame):
        noise = noise_of(of_size(least, rows), least, frame, made.places(NOISE_AT), asked.data)
        # Of a normal law of width 1, by Langevin dynamics' h / 2 in units of the friction.
        needed = noise.largest * LONGEST / (2 * FRICTION * HOT)
        if needed <= n / FEWER:
            size = least * 2 ** max(0, math.ceil(math.log2(max(needed, 1.0) / least)))
            return of_size(size, rows), size
    return full, n


def _laws(asked: Asked, frame: Frame) -> Iterator[Rows]:
    """Yield how rows may be drawn, the second one as it is asked for: it takes a pass.

    Where each row is about few of the parameters a batch says nothing of most; of linear
    predictors rows that say much can be drawn more often.
    """
    yield "random"
    if asked.posterior.predictor is not None and asked.parts == 1:
        yield frame.leverage(asked.posterior, asked.data)


def _inside(draws: Draws, fresh: FreshGradients, frame: Frame) -> np.ndarray:
    """Return which chains are neither far out nor where gradients are large, beside the others,
    shape (chains,).
    """
    moved = frame.unit(draws.flat - np.median(draws.flat, axis=0))
    steep = frame.whitened(fresh.mean)
    inside = np.ones(len(draws.values), bool)
    for each in (moved, steep):
        with np.errstate(all="ignore"):
            size = np.sqrt(np.mean(draws.in_chains(each**2), axis=(1, 2)))
            inside &= np.isfinite(size) & (size <= OUTLYING * np.nanmedian(size))
    return inside
