"""Every way at its best batch and step, and the one that costs least among those that are right."""

import dataclasses
import functools
import heapq
import sys
from collections.abc import Callable, Iterator

import numpy as np

from ewsg_jax.answers.forecast.stationary import geometrically, own_anchors, uniformly
from ewsg_jax.answers.plan.candidates import RowsBy, Way, bytes_kept
from ewsg_jax.answers.plan.gaussian import ROWS
from ewsg_jax.answers.plan.noise import noise_of
from ewsg_jax.answers.plan.run_size import Candidate, Wanted, burn_in_of, steps_of
from ewsg_jax.answers.plan.scheme_errors import Law, laws
from ewsg_jax.answers.plan.whitening import Frame
from ewsg_jax.base.typing import Data
from ewsg_jax.gradients._protocol import Evaluations, NoiseModel, noise_model_of
from ewsg_jax.gradients._saga import SAGA
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._probability import RowProbabilities
from ewsg_jax.rows._view import num_rows

OVERHEAD = 64
"""Rows that a step itself is worth."""
TABLE = 4
"""Rows that one of SAGA is worth whose table holds all d numbers of a gradient: both are read and
written.
"""
SHARE = 0.5
"""Of the tolerance, what a forecast may take: chance takes the rest."""
CHEAP, CHEAP_NUMBERS = 10**9, 2 * 10**11
"""Rows of a run by full gradients, and their numbers (a row has as many as the position), that take
less time than to compile what batches are compared by.
"""
LESS_NOISE = 1 / 8
"""The noise of rows around a centre, over the number of rows, up to which rows alone are no better;
of regressions, counts, softmaxes and hierarchies their own noise is 1.2 to 1.9 times that number.
"""
MEASURED, LEAST = ROWS // 2, 8
"""Rows of the batches whose noise is measured, as many as a check's; and the least that
are taken.
"""
MOST_COST = 20
"""Times the least cost at which steps are measured still: rows in a row are read quicker than
others.
"""


class Choice:
    """All candidates of a posterior in a frame.

    Attributes:
        candidates: one for each way, the best first.
        is_cheap: whether full gradients cost so little that no others are compared.

    Args:
        posterior, frame, data: of which.
        places: of the posterior, less the frame's center, at which noise is measured, shape
            (places, d).
        ways: that may be taken.
        steepest: the largest curvature that chains meet, over the frame's.
        wanted: of the run.
    """

    def __init__(
        self,
        posterior: Posterior,
        frame: Frame,
        data: Data,
        places: np.ndarray,
        ways: list[Way],
        steepest: float,
        wanted: Wanted,
    ) -> None:
        self.posterior, self.frame, self.data, self.wanted = posterior, frame, data, wanted
        self._places, self._steepest, self._n = places, steepest, num_rows(data)
        # Of this choice alone: what a method remembers by itself it keeps for ever, and the data
        # with it.
        self._law, self._laws = functools.cache(self._law_of), functools.cache(self._laws_of)
        self.noise, self._evaluations = (
            functools.cache(self._noise_of),
            functools.cache(self._evaluations_of),
        )
        self._too_large = functools.cache(self._too_large_of)
        self._noise_model = functools.cache(self._noise_model_of)
        full = [self._best(way) for way in ways if way.estimator == "full"]
        cheap = min(CHEAP, CHEAP_NUMBERS / len(frame.sd))
        least = min((each.cost for each in full), default=np.inf)
        self.is_cheap = not wanted.is_restricted and least <= cheap
        found = full + [
            self._best(way) for way in ways if way.estimator != "full" and not self.is_cheap
        ]
        self.candidates = sorted(found, key=lambda each: each.cost)

    def measure(self, seconds_of: Callable[[Candidate], float]) -> None:
        """Measure the best candidate of each estimator and law of rows, and put the quickest first.

        Args:
            seconds_of: a step of a candidate.
        """
        first: dict[tuple[str, str], Candidate] = {}
        for each in self.candidates:
            if not each.why_not and each.cost <= MOST_COST * self.candidates[0].cost:
                first.setdefault((each.way.estimator, each.way.rows), each)
        measured = [
            each._replace(seconds=seconds_of(each) * self._steps(each.time))
            for each in first.values()
        ]
        others = [each for each in self.candidates if each not in first.values()]
        self.candidates = sorted(measured, key=lambda each: each.seconds) + others

    def _steps(self, time: float) -> int:
        """Return the steps of a run, its burn-in included."""
        return burn_in_of(time) + steps_of(time, self.wanted.ess, self.wanted.num_chains)

    @property
    def best(self) -> Candidate | None:
        """The first of them, None where nothing fits."""
        return self.candidates[0] if not self.candidates[0].why_not else None

    def kernel(self, candidate: Candidate) -> Kernel:
        """Return a candidate's kernel."""
        return candidate.way.kernel_of(
            self.posterior,
            candidate.step_size,
            candidate.friction,
            candidate.batch_size,
            self.frame,
            self.rows(candidate.way),
        )

    def rows(self, way: Way) -> Rows:
        """Return how a way draws rows."""
        return self._leverage if way.rows == "leverage" else "random"

    @functools.cached_property
    def _leverage(self) -> RowProbabilities:
        return self.frame.leverage(self.posterior, self.data)

    def _law_of(self, rows: str, size: int) -> Rows:
        return self._leverage.of_size(size) if rows == "leverage" else "random"

    def _laws_of(self, dynamics: str) -> list[Law]:
        return laws(dynamics, self._steepest)

    def _noise_of(self, estimator: str, rows: RowsBy) -> tuple[float, float]:
        """Return the noise of a batch of one row: of the direction that has most, and
        on average.
        """
        way = Way("langevin", estimator, rows)
        size = (
            min(MEASURED, max(1, self._n // 4))
            if self.wanted.batch_size is None
            else self.wanted.batch_size
        )
        made = way.estimator_of(self.posterior, size, self.frame, self._law(rows, size))
        found = noise_of(made, size, self.frame, self._places, self.data)
        return found.largest, float(found.coordinates.mean())

    def _best(self, way: Way) -> Candidate:
        """Return a way at its least cost."""
        nan, far = float("nan"), float("inf")
        none = Candidate(way, 0, nan, nan, nan, nan, nan, nan, far)
        if not self._laws(way.dynamics):
            return none._replace(why_not="no step is stable")
        if way.estimator == "full":
            noise, sizes = None, [self._n]
        else:
            if self._is_needless(way):
                return none._replace(
                    why_not="its noise is that of some n rows, around a centre there is much less"
                )
            sizes = self._sizes()
            if not sizes:
                return none._replace(why_not="too few rows for a batch")
            model = self._noise_model(way.estimator, sizes[0])
            if model.unknown or model.chain_length is not None:
                unknown = model.unknown or "weights choose its batches"
                return none._replace(why_not=f"its noise is unknown: {unknown}")
            # Around anchors that move the noise is that around a centre, scaled by their distance.
            moves = model.anchor in ("refreshed", "table")
            noise = self.noise("control_variate" if moves else way.estimator, way.rows)
            if kept := self._too_large(way.has_friction, way.estimator, sizes[0]):
                return none._replace(why_not=f"a table of {kept / 2**20:.3g} MiB")
        every = sorted(self._laws(way.dynamics), key=lambda law: law.time)
        # A scheme that is off by too much itself is so with any batch.
        limit = self.wanted.careful * SHARE * self.wanted.tolerance
        for some in ([law for law in every if law.error <= limit], every):
            found = []
            for size, law in self._by_cost(way, sizes, some):
                found.append(self._at(way, size, law, noise))
                if not found[-1].why_not:
                    return found[-1]
        return min(found, key=lambda each: each.sd_error)

    def _is_needless(self, way: Way) -> bool:
        """Return whether plain batches need not be measured: near a mode one row's noise is that of
        n rows.
        """
        if way.estimator != "uniform" or self.wanted.is_restricted:
            return False
        return self.noise("control_variate", "random")[0] <= LESS_NOISE * self._n

    def _by_cost(self, way: Way, sizes: list[int], some: list[Law]) -> Iterator[tuple[int, Law]]:
        """Yield batches and laws, those that cost least first, as far as they are asked for.

        Args:
            way: of which.
            sizes: of batches.
            some: laws by their time, with which a run's cost grows.
        """

        def of_size(size: int) -> Iterator[tuple[int, int, Law]]:
            return ((self._spent(way, size, law)[1], size, law) for law in some)

        for _, size, law in heapq.merge(*map(of_size, sizes), key=lambda each: each[0]):
            yield size, law

    def _spent(self, way: Way, size: int, law: Law) -> tuple[int, int]:
        """Return how many ∇Vᵢ a run of all chains evaluates, and the same with what steps take by
        themselves, in rows.
        """
        steps, of = self._steps(law.time), self._evaluations(way.estimator, size)
        evaluations = self.wanted.num_chains * (of.at_init + of.of_steps(0, steps))
        if self.wanted.by == "passes":
            return evaluations, evaluations
        rows = TABLE if way.estimator == "saga" and self.posterior.predictor is None else 1
        return evaluations, rows * evaluations + self.wanted.num_chains * steps * OVERHEAD

    def _sizes(self) -> list[int]:
        if self.wanted.batch_size is not None:
            return [self.wanted.batch_size] if self.wanted.batch_size < self._n else []
        parts = self.wanted.parts
        sizes = [-(-(2**k) // parts) * parts for k in range(3, 31) if LEAST <= 2**k <= self._n // 2]
        return [size for size in dict.fromkeys(sizes) if size <= self._n // 2]

    def _too_large_of(self, has_friction: bool, estimator: str, size: int) -> int:
        """Return the bytes that the states of all chains take, 0 where there is room."""
        way = Way("splitting" if has_friction else "langevin", estimator, "random")
        of = way.estimator_of(self.posterior, size, self.frame, "random")
        limit = self.wanted.memory_limit
        if isinstance(of, SAGA):  # above its own limit it raises, where another way is to be taken
            limit = min(limit, self.wanted.num_chains * of.memory_limit)
            of = dataclasses.replace(of, memory_limit=sys.maxsize)
        made = kernel(way.dynamics_of(0.1, 1.0, self.frame.inverse_mass), of)
        kept = self.wanted.num_chains * bytes_kept(made, self.frame, self.data)
        return kept if kept > limit else 0

    def _at(self, way: Way, size: int, law: Law, noise: tuple[float, float] | None) -> Candidate:
        """Return what a way does at a batch and a step."""
        if noise is None:
            largest = mean = law.variance
        elif self._noise_model(way.estimator, size).anchor == "none":
            largest, mean = (law.variance + law.slope * each / size for each in noise)
        else:
            # Where rows are anchored their noise grows with the distance from there, and so with
            # the variance.
            share, more = self._anchored(way, size, law)
            heat = (law.slope * (share * each + more) / size for each in noise)
            largest, mean = (law.variance / max(1 - each, 1e-3) for each in heat)
        # A scheme that is too cold is not mended by noise: errors are added.
        sd_error = law.error + largest**0.5 - law.variance**0.5
        mean_error = (abs(law.seen - 1) + mean - law.variance) * self.frame.shift
        evaluations, rows = self._spent(way, size, law)
        limit, why_not = SHARE * self.wanted.tolerance, ""
        if sd_error > self.wanted.careful * limit:
            why_not = f"sds off by {100 * sd_error:.2g} %"
        elif mean_error > 2 * self.wanted.careful**0.5 * limit:
            why_not = f"means off by {mean_error:.2g} sd"
        cost, passes = float("inf") if why_not else rows, evaluations / self._n
        return Candidate(
            way,
            size,
            law.step_size,
            law.friction,
            sd_error,
            mean_error,
            law.time,
            passes,
            cost,
            why_not,
        )

    def _anchored(self, way: Way, size: int, law: Law) -> tuple[float, float]:
        """Return the part of the noise around the center that anchors as old as the way's have, and
        what adds.
        """
        model = self._noise_model(way.estimator, size)
        if model.anchor == "fixed":
            return 1.0, 0.0
        if model.anchor == "refreshed":
            return law.apart(uniformly(law.matrix, law.covariance, model.period)), 0.0
        own = float(own_anchors(law.matrix, law.covariance, model.rate)[0, 0])
        # Rows have anchors of their own, which differ.
        across = geometrically(law.matrix, law.covariance, model.rate)
        return law.apart(across), (1 - 1 / self._n) * own

    def _noise_model_of(self, estimator: str, size: int) -> NoiseModel:
        way = Way("langevin", estimator, "random")
        made = way.estimator_of(self.posterior, size, self.frame, "random")
        return noise_model_of(made, self.data)

    def _evaluations_of(self, estimator: str, size: int) -> Evaluations:
        way = Way("langevin", estimator, "random")
        return way.estimator_of(self.posterior, size, self.frame, "random").evaluations(self.data)
