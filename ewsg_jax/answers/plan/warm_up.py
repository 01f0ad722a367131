"""A warm-up by chains, if the normal approximation at the mode is no answer.

Chains run in windows by underdamped dynamics, at step sizes that are stable there. The draws of
a window and the gradients there give the metric of the next (`metric.py`). Windows get
longer until the metric no longer changes. One compiled program makes all of them.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax import gradients
from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.check.draws import Draws, draws_of
from ewsg_jax.answers.check.gradients import FreshGradients, fresh_gradients
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.candidates import Candidate
from ewsg_jax.answers.plan.metric import least_fisher_metric, metric_of_gradients
from ewsg_jax.answers.plan.minibatch_noise import measure_noise
from ewsg_jax.answers.plan.request import PlanRequest
from ewsg_jax.answers.plan.run_requirements import ALL_STEPS
from ewsg_jax.answers.plan.stiff_directions import stiffest_direction
from ewsg_jax.answers.plan.whitening import NoWidthsError, Whitening
from ewsg_jax.base import limits, numeric, rng
from ewsg_jax.base.factors import LowRank
from ewsg_jax.base.typing import Key
from ewsg_jax.gradients._protocol import GradientEstimator
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._view import num_rows
from ewsg_jax.run.layout import MOST_STEPS_PER_BLOCK, WORK_PER_BLOCK
from ewsg_jax.run.sample import inner_run
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.layout import vector

LONGER_WINDOWS = "longer windows of the warm-up"
"""What a plan leaves out if they take too many of its seconds."""


class WarmUp(NamedTuple):
    """The coordinates and draws that the windows of a warm-up have found.

    Attributes:
        whitening: coordinates by the metric of the last window.
        draws: draws of the last window as vectors, without chains that diverged, shape (draws, d).
        data_passes: passes over the data of all chains.
        why_not_settled: why the metric has not settled, in words; empty if it has.
        variance_ratio: the largest factor by which the last window changed a variance.
        gradients: ∇V at the draws, shape (draws, d); None before the first window.
    """

    whitening: Whitening
    draws: np.ndarray
    data_passes: float = 0.0
    why_not_settled: str = ""
    variance_ratio: float = np.inf
    gradients: np.ndarray | None = None

    @property
    def is_curved(self) -> bool:
        """Whether longer windows do not help, and no metric fits well: the posterior is curved."""
        return not self.why_not_settled and self.variance_ratio > check_settings.MAX_VARIANCE_RATIO

    @property
    def notes(self) -> list[str]:
        """What the notes of a plan by pilot runs begin with."""
        notes = [
            "the posterior is not near normal: chosen by pilot runs, in coordinates by the draws "
            "of a warm-up"
        ]
        if self.why_not_settled:
            notes.append(f"the warm-up has not settled: {self.why_not_settled}")
        if self.is_curved:
            notes.append(
                f"a variance still changed by a factor of {self.variance_ratio:.3g} from one "
                "window to the next: no metric fits if parameters scale each other. Effects of "
                "groups with many rows are better centred, those of groups with few rows "
                "non-centred"
            )
        return notes

    def places(self, count: int) -> np.ndarray:
        """Return some draws less the center, shape (count or fewer, d), float32."""
        few = self.draws[:: max(1, len(self.draws) // count)][:count]
        return np.asarray(few - vector(self.whitening.center), np.float32)

    def stiff_places(self, count: int) -> np.ndarray:
        """Return the draws less the center with the largest gradients, shape (count or fewer, d),
        float32.

        In whitened coordinates |∇V|² is on average the trace of the curvature nearby, so that
        these are the draws at which the curvature is largest.
        """
        if self.gradients is None:
            return self.places(count)
        squares = np.sum(self.whitening.whiten_gradients(self.gradients) ** 2, axis=1)
        stiff = self.draws[np.argsort(-squares, kind="stable")[:count]]
        return np.asarray(stiff - vector(self.whitening.center), np.float32)


def run_warm_up(key: Key, request: PlanRequest, whitening: Whitening | None) -> WarmUp:
    """Run chains in windows until their metric has settled.

    Args:
        key: a typed PRNG key.
        request: the posterior, and how many passes over the data a window may take.
        whitening: coordinates around which chains start; None: around the position where the
            search for a mode began.

    Raises:
        NoWidthsError: chains find no covariance, or curvatures beyond float32.
    """
    for_start, *keys = rng.keys_of(key, 1 + len(settings.WINDOW_LENGTHS))
    if whitening is None:
        whitening, positions = _start_without_mode(for_start, request)
    else:
        places = whitening.draw_places(for_start, settings.NUM_PILOT_CHAINS, 1.0)
        positions = vector(whitening.center) + places
    thin, steps = _window_steps(positions.shape[1], num_rows(request.data))
    warm = WarmUp(whitening, positions, why_not_settled="no window was made")
    # The part of the usual step size, which falls if chains diverge, and grows again.
    damping = 1.0
    # Seconds of each window, for as many steps as the first has.
    seconds: list[float] = []
    for length, for_window in zip(settings.WINDOW_LENGTHS, keys, strict=True):
        for_run, for_gradients = rng.keys_of(for_window, 2)
        # The first window shares the processor with programs that still compile: alone it predicts
        # nothing.
        expected = length * min(seconds) if len(seconds) > 1 else 0.0
        if seconds and not request.has_time_for(LONGER_WINDOWS, expected, settings.SECONDS_SHARE):
            break
        estimator, batch_size = _estimator(request, warm)
        window = WarmUpWindow(
            estimator=estimator, damping=damping, num_steps=steps * length, thin=thin * length
        )
        samples = run_window(for_run, request, warm, positions, window)
        if samples is None:
            most = f"max_passes={request.max_passes:,.0f}"
            return warm._replace(why_not_settled=f"{warm.why_not_settled} ({most})")
        seconds.append(samples.run_seconds / length)

        # Chains that diverged are left out; if none is left, the next window starts where this one
        # did, at a shorter step.
        passes = settings.NUM_PILOT_CHAINS * samples.data_passes
        warm = warm._replace(data_passes=warm.data_passes + passes)
        try:
            draws = draws_of(samples, None, samples.num_draws * settings.NUM_PILOT_CHAINS)
        except ValueError:  # no chain is left, or none moved
            damping *= settings.WINDOW_STEP_CUT**2
            warm = warm._replace(why_not_settled="all chains diverged")
            continue
        fresh = fresh_gradients(
            for_gradients, request.posterior, draws, request.data, batch_size, "random", 1.0
        )
        warm = warm._replace(data_passes=warm.data_passes + fresh.data_passes)
        is_inside = _is_inside(draws, fresh, warm.whitening)
        if not is_inside.any():
            damping *= settings.WINDOW_STEP_CUT**2
            warm = warm._replace(why_not_settled="no chain has a finite gradient")
            continue
        num_lost = settings.NUM_PILOT_CHAINS - int(is_inside.sum())
        if num_lost:
            damping *= settings.WINDOW_STEP_CUT
        else:
            damping = min(1.0, settings.WINDOW_STEP_GROWTH * damping)

        # Chains that diverged start again at the last draws of the others.
        positions = np.resize(draws.values[is_inside, -1], positions.shape)
        warm = _after_window(request, warm, draws, fresh, is_inside)
        # The first windows are too short to show that the metric has settled.
        if not warm.why_not_settled and length > 1:
            break
        if not warm.why_not_settled:
            warm = warm._replace(why_not_settled="its windows were short")
    return warm


def far_from_normal(key: Key, request: PlanRequest, whitening: Whitening) -> str:
    """Return how far the posterior is from the normal distribution of a whitening, in words; empty
    if it may be near.

    It is a first look at some draws that costs little: `gaussian.py` judges that distribution.
    """
    for_draws, for_gradients = rng.keys_of(key, 2)
    count = settings.NUM_PILOT_CHAINS * _num_kept(len(whitening.sd))
    flat = vector(whitening.center) + whitening.draw_places(for_draws, count, 1.0)
    fresh = _gradients_at(for_gradients, request, whitening, flat)
    if isinstance(whitening.covariance, LowRank) or not fresh.is_finite:
        return ""
    metric = least_fisher_metric(flat, fresh.first, fresh.second, whitening.covariance)
    shifts = np.abs(metric.covariance @ fresh.mean.mean(0)) / np.sqrt(np.diag(metric.covariance))
    is_settled = metric.variance_ratio <= check_settings.MAX_VARIANCE_RATIO
    # `check` corrects no mean that is farther off.
    if is_settled and shifts.max() <= check_settings.MAX_MEAN_SHIFT:
        return ""
    return (
        f"variances are off by a factor of up to {metric.variance_ratio:.3g}, means by up to "
        f"{shifts.max():.2g} sd"
    )


class WarmUpWindow(NamedTuple):
    """How one window is run.

    Attributes:
        estimator: the gradient estimator.
        damping: the part of the usual step size that is taken.
        num_steps: number of steps; the second half is kept.
        thin: steps from one draw that is kept to the next.
    """

    estimator: GradientEstimator
    damping: float
    num_steps: int
    thin: int


def run_window(
    key: Key, request: PlanRequest, warm: WarmUp, positions: np.ndarray, window: WarmUpWindow
) -> Samples | None:
    """Return the second half of a window; None if it would take more passes than are allowed.

    Args:
        key: a typed PRNG key.
        request: the posterior, and how many passes over the data a window may take.
        warm: the warm-up before the window.
        positions: the starts of chains as vectors, shape (chains, d).
        window: how it is run.

    Raises:
        NoWidthsError: the curvature is beyond float32.
    """
    whitening = warm.whitening
    # Chains that have left a stiff place may come back to it.
    places = [positions - vector(whitening.center), warm.stiff_places(settings.NUM_PILOT_CHAINS)]
    curvature = stiffest_direction(
        request.posterior,
        whitening,
        np.concatenate(places).astype(np.float32),
        request.data,
    ).curvature
    if not np.isfinite(curvature):
        raise NoWidthsError(
            "posterior must have curvatures that float32 holds; got one beyond: give positions and "
            f"data another unit, so that widths are near 1, or switch on 64 bits, {numeric.X64}"
        )
    stable = 2 * settings.WARM_UP_STABLE_SHARE / max(curvature, np.finfo(np.float32).tiny) ** 0.5
    step_size = window.damping * min(settings.WARM_UP_LARGEST_STEP, stable)
    # The dynamics of most candidates that take all rows: their pilot runs and runs share its
    # program.
    dynamics = Candidate("BAOAB", "full", "all").make_dynamics(
        step_size, settings.WARM_UP_FRICTION, whitening.inverse_mass
    )
    moving, n = kernel(dynamics, window.estimator), num_rows(request.data)
    evaluations = moving.evaluations(request.data).of_steps(0, window.num_steps)
    if evaluations > n * request.max_passes:
        return None
    return inner_run(
        key,
        moving,
        jax.device_put(whitening.layout.tree(positions)),
        request.data_for_runs,
        window.num_steps,
        stacked=True,
        burn_in=window.num_steps // 2,
        thin=window.thin,
        moments=ALL_STEPS,  # as pilot runs have, which share the program
        mesh=request.mesh,
    )


def _after_window(
    request: PlanRequest, warm: WarmUp, draws: Draws, fresh: FreshGradients, is_inside: np.ndarray
) -> WarmUp:
    """Return the warm-up with the metric of a window's draws and gradients.

    Args:
        request: the posterior.
        warm: the warm-up before the window.
        draws: the draws of the window.
        fresh: gradients at them, on two batches or on all rows.
        is_inside: which chains did not diverge, shape (chains,).
    """
    rows = np.repeat(is_inside, draws.values.shape[1])
    first, flat, previous = fresh.first[rows], draws.flat[rows], warm.whitening
    second = first if fresh.first is fresh.second else fresh.second[rows]
    metric = least_fisher_metric(flat, first, second, previous.covariance)
    shift = float(np.max(np.abs(metric.center - vector(previous.center)) / previous.sd))
    center = previous.layout.tree(metric.center)
    # Windows end if the change is small, or does not get smaller with longer ones.
    is_falling = metric.variance_ratio <= 0.6 * warm.variance_ratio
    limit = check_settings.MAX_VARIANCE_RATIO if is_falling else np.inf
    num_lost = int(np.sum(~is_inside))
    return WarmUp(
        whitening=Whitening.from_chains(request.mode, center, metric.covariance),
        draws=flat,
        data_passes=warm.data_passes,
        why_not_settled=_why_not_settled(metric.variance_ratio, limit, shift, num_lost),
        variance_ratio=metric.variance_ratio,
        gradients=fresh.mean[rows],
    )


def _why_not_settled(ratio: float, limit: float, shift: float, num_lost: int) -> str:
    """Return why a window is not the last, in words; empty if it may be."""
    if num_lost:
        return f"{num_lost} of {settings.NUM_PILOT_CHAINS} chains diverged, or have not arrived"
    if ratio > limit:
        return f"a variance still changed by a factor of {ratio:.3g}"
    if shift > 1:
        return f"a mean still moved by {shift:.2g} standard deviations"
    return ""


def _start_without_mode(key: Key, request: PlanRequest) -> tuple[Whitening, np.ndarray]:
    """Return coordinates by the size of the gradients at the position where the search for a mode
    began, and starts of chains around it, shape (chains, d).
    """
    for_normal, for_gradients = rng.keys_of(key, 2)
    center = vector(request.start_position)
    normals = rng.host_normals(for_normal, (settings.NUM_PILOT_CHAINS, len(center)))
    positions = center + settings.FIRST_WINDOW_WIDTH * normals
    ones = np.ones_like(positions)
    unit = Whitening.of_covariance(request.mode, request.start_position, metric_of_gradients(ones))
    at_start = _gradients_at(for_gradients, request, unit, positions).mean
    is_finite = np.isfinite(at_start).all(1)
    if not is_finite.any():
        return unit, positions
    metric = metric_of_gradients(at_start[is_finite])
    whitening = Whitening.from_chains(request.mode, request.start_position, metric)
    return whitening, np.resize(positions[is_finite], ones.shape)


def _window_steps(size: int, n: int) -> tuple[int, int]:
    """Return the steps between draws that the first window keeps, and its steps.

    It is no shorter than what a run does at once, so that one program makes windows of all lengths.

    Args:
        size: d, the number of parameters.
        n: number of rows.
    """
    kept, at_once = _num_kept(size), min(MOST_STEPS_PER_BLOCK, WORK_PER_BLOCK // (size * n))
    thin = max(1, -(-at_once // (2 * kept)))
    return thin, 2 * kept * thin


def _num_kept(size: int) -> int:
    """Return the draws of a chain that a window keeps: two for each of `size` parameters, of all
    chains together; for a metric of low rank, some times its rank.
    """
    num_chains = settings.NUM_PILOT_CHAINS
    kept = (
        max(settings.FEWEST_WINDOW_DRAWS, -(-2 * size // num_chains))
        if size <= limits.MAX_DENSE_DIMENSION
        else settings.LOW_RANK_WINDOW_DRAWS
    )
    return int(np.clip(2 * limits.NUMBERS_AT_ONCE // (num_chains * size), 8, kept))


def _gradients_at(
    key: Key, request: PlanRequest, whitening: Whitening, flat: np.ndarray
) -> FreshGradients:
    """Return the gradients at positions as vectors, shape (draws, d)."""
    values = flat.reshape(settings.NUM_PILOT_CHAINS, -1, flat.shape[1])
    draws = Draws.at(values, whitening.layout)
    size = settings.ROWS_PER_DRAW
    return fresh_gradients(key, request.posterior, draws, request.data, size, "random", 1.0)


def _estimator(request: PlanRequest, warm: WarmUp) -> tuple[GradientEstimator, int]:
    """Return the estimator of the next window, and its rows: as many as the minibatch noise at the
    last draws requires, or all if these are not many more.
    """
    n, whitening = num_rows(request.data), warm.whitening
    full, shards = gradients.full(request.posterior), request.num_row_shards
    if n <= settings.MAX_FULL_BATCH_ROWS:
        return full, n
    least = request.requirements.batch_size or settings.ROWS_PER_DRAW // shards * shards

    def of_size(size: int, rows: Rows) -> GradientEstimator:
        return gradients.control_variate(
            request.posterior, batch_size=size, center=whitening.center, rows=rows
        )

    places = warm.places(64)
    for rows in _row_schemes(request, whitening):
        noise = measure_noise(of_size(least, rows), least, whitening, places, request.data)
        # Noise s²/b adds h s²/(2 γ b) to a variance of 1.
        response = settings.WARM_UP_LARGEST_STEP / (2 * settings.WARM_UP_FRICTION)
        needed = noise.largest * response / settings.WINDOW_NOISE_SHARE
        if needed <= n / settings.MIN_BATCHES_IN_DATA:
            size = least * 2 ** max(0, math.ceil(math.log2(max(needed, 1.0) / least)))
            return of_size(size, rows), size
    return full, n


def _row_schemes(request: PlanRequest, whitening: Whitening) -> Iterator[Rows]:
    """Yield how rows may be drawn, by leverage second: it takes a pass over the data.

    If each row depends on few of the parameters, a minibatch has little information on most of
    them. For linear predictors, rows with much information can be drawn more often.
    """
    yield "random"
    if request.posterior.predictor is not None and request.num_row_shards == 1:
        yield whitening.leverage(request.posterior, request.data)


def _is_inside(draws: Draws, fresh: FreshGradients, whitening: Whitening) -> np.ndarray:
    """Return which chains are neither far out nor at large gradients, compared with the median
    chain, shape (chains,).
    """
    moved = whitening.whiten(draws.flat - np.median(draws.flat, axis=0))
    steep = whitening.whiten_gradients(fresh.mean)
    is_inside = np.ones(len(draws.values), bool)
    for vectors in (moved, steep):
        with np.errstate(all="ignore"):
            norms = np.sqrt(np.mean(draws.in_chains(vectors**2), axis=(1, 2)))
            # Chains so far out have diverged or not arrived; by hand.
            limit = 5 * np.nanmedian(norms)
            is_inside &= np.isfinite(norms) & (norms <= limit)
    return is_inside
