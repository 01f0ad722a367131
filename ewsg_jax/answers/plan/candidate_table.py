"""Every candidate at its best batch and step size, and the one that costs least among those within
tolerance.
"""

import dataclasses
import functools
import heapq
import sys
from collections.abc import Callable, Iterator

import jax
import numpy as np

from ewsg_jax.answers.forecast.stationary import (
    covariance_at_geometric_age,
    covariance_at_uniform_age,
    covariance_of_own_anchors,
)
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.candidates import Candidate, CandidateForecast, RowScheme, state_bytes
from ewsg_jax.answers.plan.minibatch_noise import measure_noise
from ewsg_jax.answers.plan.request import PlanRequest
from ewsg_jax.answers.plan.run_requirements import RunRequirements, burn_in_steps, steps_for_ess
from ewsg_jax.answers.plan.scheme_errors import SchemeForecast, scheme_forecasts
from ewsg_jax.answers.plan.shared_scale import SharedShift, measure_shared_shift
from ewsg_jax.answers.plan.step_time import seconds_per_step
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base.typing import Data, Key
from ewsg_jax.gradients._protocol import Evaluations, NoiseModel, noise_model_of
from ewsg_jax.gradients._saga import SAGA
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._named import Rows
from ewsg_jax.rows._probability import RowProbabilities
from ewsg_jax.rows._view import num_rows


class CandidateTable:
    """Forecasts of all candidates for a posterior, the best first.

    Attributes:
        forecasts: one for each candidate, the best first.
        is_cheap: whether full gradients cost so little that no others are compared.

    Args:
        posterior: the target.
        whitening: coordinates in which it is taken to be N(0, I).
        data: all n rows.
        places: positions less the center at which minibatch noise is measured, shape (places, d).
        candidates: the kernels that may be taken.
        largest_curvature: the largest curvature that chains meet, over the posterior's own.
        requirements: what the run must achieve.
    """

    def __init__(
        self,
        posterior: Posterior,
        whitening: Whitening,
        data: Data,
        places: np.ndarray,
        candidates: list[Candidate],
        largest_curvature: float,
        requirements: RunRequirements,
    ) -> None:
        self.posterior, self.whitening, self.data = posterior, whitening, data
        self.requirements = requirements
        self._places, self._largest_curvature = places, largest_curvature
        self._n = num_rows(data)
        # Caches of this table alone: a cached method would be kept for ever, and the data with it.
        self._row_scheme = functools.cache(self._make_row_scheme)
        self._schemes = functools.cache(self._make_schemes)
        self.noise = functools.cache(self._measure_noise)
        self._evaluations = functools.cache(self._count_evaluations)
        self._too_large = functools.cache(self._bytes_above_limit)
        self._noise_model = functools.cache(self._make_noise_model)
        full = [self._best_forecast(item) for item in candidates if item.estimator == "full"]
        # A row of a network is not as cheap.
        cheap = min(settings.CHEAP_ROWS, 200 * settings.CHEAP_ROWS / len(whitening.sd))
        least = min((forecast.cost for forecast in full), default=np.inf)
        self.is_cheap = not requirements.is_restricted and least <= cheap
        others = [item for item in candidates if item.estimator != "full" and not self.is_cheap]
        forecasts = full + [self._best_forecast(candidate) for candidate in others]
        self.forecasts = sorted(forecasts, key=lambda forecast: forecast.cost)

    def measure_seconds(self, seconds_of: Callable[[CandidateForecast], float]) -> None:
        """Measure the best candidate of each estimator and row scheme, and put the quickest first.

        Args:
            seconds_of: returns the seconds of a step of all chains.
        """
        most = settings.MEASURED_COST_RATIO * self.forecasts[0].cost
        best: dict[tuple[str, str], CandidateForecast] = {}
        for forecast in self.forecasts:
            if not forecast.why_not and forecast.cost <= most:
                candidate = forecast.candidate
                best.setdefault((candidate.estimator, candidate.rows), forecast)
        measured = [
            forecast._replace(seconds=seconds_of(forecast) * self._num_steps(forecast.time))
            for forecast in best.values()
        ]
        others = [forecast for forecast in self.forecasts if forecast not in best.values()]
        self.forecasts = sorted(measured, key=lambda forecast: forecast.seconds) + others

    @property
    def best(self) -> CandidateForecast | None:
        """The first forecast, None if no candidate is within tolerance."""
        return self.forecasts[0] if not self.forecasts[0].why_not else None

    def kernel(self, forecast: CandidateForecast) -> Kernel:
        """Return the kernel of a forecast, in the units of the position."""
        return forecast.candidate.make_kernel(
            self.posterior,
            step_size=forecast.step_size,
            friction=forecast.friction,
            batch_size=forecast.batch_size,
            whitening=self.whitening,
            rows=self._leverage if forecast.candidate.rows == "leverage" else "random",
        )

    @functools.cached_property
    def _shared_shift(self) -> SharedShift:
        """What an error of all variances moves: near a mode a mean alone, by its distance."""
        if not self.whitening.is_from_chains:
            return SharedShift(self.whitening.mean_shift, 0.0)
        shift = measure_shared_shift(self.posterior, self.whitening, self._places, self.data)
        return shift._replace(mean=max(shift.mean, self.whitening.mean_shift))

    @functools.cached_property
    def _leverage(self) -> RowProbabilities:
        return self.whitening.leverage(self.posterior, self.data)

    def _make_row_scheme(self, rows: str, size: int) -> Rows:
        """Return a scheme of rows for batches of a size."""
        return self._leverage.of_size(size) if rows == "leverage" else "random"

    def _make_schemes(self, dynamics: str) -> list[SchemeForecast]:
        return scheme_forecasts(dynamics, self._largest_curvature)

    def _measure_noise(self, estimator: str, rows: RowScheme) -> tuple[float, float]:
        """Return the noise of a batch of one row: in the direction with the most, and the mean over
        coordinates.
        """
        candidate = Candidate("langevin", estimator, rows)
        size = (
            min(settings.ROWS_PER_DRAW // 2, max(1, self._n // 4))
            if self.requirements.batch_size is None
            else self.requirements.batch_size
        )
        scheme = self._row_scheme(rows, size)
        gradient = candidate.make_estimator(self.posterior, size, self.whitening, scheme)
        noise = measure_noise(gradient, size, self.whitening, self._places, self.data)
        return noise.largest, float(noise.coordinates.mean())

    def _best_forecast(self, candidate: Candidate) -> CandidateForecast:
        """Return the forecast of a candidate at its least cost; with the reason if nothing fits."""
        if why_not := self._why_not_forecast(candidate):
            return CandidateForecast(candidate, why_not=why_not)
        if candidate.estimator == "full":
            noise, sizes = None, [self._n]
        else:
            noise, sizes = self._noise_around_center(candidate), self._batch_sizes()
        schemes = sorted(self._schemes(candidate.dynamics), key=lambda scheme: scheme.time)
        # A scheme whose own bias is too large is out of tolerance with any batch: those are tried
        # only if there is no other, for the reason that the table shows.
        limit = (
            self.requirements.bias_share
            * settings.PREDICTED_BIAS_SHARE
            * self.requirements.tolerance
        )
        unbiased = [scheme for scheme in schemes if scheme.sd_error <= limit]
        for allowed in (unbiased, schemes):
            forecasts = []
            for size, scheme in self._by_cost(candidate, sizes, allowed):
                forecasts.append(self._forecast(candidate, size, scheme, noise))
                if not forecasts[-1].why_not:
                    return forecasts[-1]
        # Nothing is within tolerance: the nearest to it.
        return min(forecasts, key=lambda forecast: forecast.sd_error)

    def _why_not_forecast(self, candidate: Candidate) -> str:
        """Return why a candidate cannot be forecast, or need not be, in words; empty if it is."""
        if not self._schemes(candidate.dynamics):
            return "no step is stable"
        if candidate.estimator == "full":
            return ""
        if self._is_needless(candidate):
            return "its noise is that of some n rows, around a centre there is much less"
        sizes = self._batch_sizes()
        if not sizes:
            return "too few rows for a batch"
        model = self._noise_model(candidate.estimator, sizes[0])
        if model.unknown or model.chain_length is not None:
            return f"its noise is unknown: {model.unknown or 'weights choose its batches'}"
        if needed := self._too_large(candidate.has_friction, candidate.estimator, sizes[0]):
            return f"a table of {needed / 2**20:.3g} MiB"
        return ""

    def _noise_around_center(self, candidate: Candidate) -> tuple[float, float]:
        """Return the noise of a batch of one row, as `_measure_noise`. Around reference points that
        move it is that around the center, which `_variances` scales by their distance.
        """
        model = self._noise_model(candidate.estimator, self._batch_sizes()[0])
        moves = model.anchor in ("refreshed", "table")
        return self.noise("control_variate" if moves else candidate.estimator, candidate.rows)

    def _is_needless(self, candidate: Candidate) -> bool:
        """Return whether plain minibatches need not be measured: near a mode their noise is that of
        about n rows, which is far more than that of control variates.
        """
        if candidate.estimator != "uniform" or self.requirements.is_restricted:
            return False
        return self.noise("control_variate", "random")[0] <= settings.UNIFORM_NOISE_RATIO * self._n

    def _by_cost(
        self, candidate: Candidate, sizes: list[int], schemes: list[SchemeForecast]
    ) -> Iterator[tuple[int, SchemeForecast]]:
        """Yield pairs of a batch size and a scheme, the cheapest first.

        Args:
            candidate: what is run.
            sizes: batch sizes.
            schemes: in the order of their time, with which the cost of a run grows.
        """

        def of_size(size: int) -> Iterator[tuple[int, int, SchemeForecast]]:
            return ((self._cost(candidate, size, scheme)[1], size, scheme) for scheme in schemes)

        for _, size, scheme in heapq.merge(*map(of_size, sizes), key=lambda item: item[0]):
            yield size, scheme

    def _cost(self, candidate: Candidate, size: int, scheme: SchemeForecast) -> tuple[int, int]:
        """Return how many gradients of a row a run of all chains evaluates, and its cost in rows,
        that of the steps themselves included.
        """
        num_chains = self.requirements.num_chains
        steps = self._num_steps(scheme.time)
        per_chain = self._evaluations(candidate.estimator, size)
        evaluations = num_chains * (per_chain.at_init + per_chain.of_steps(0, steps))
        if self.requirements.by == "passes":
            return evaluations, evaluations
        has_wide_table = candidate.estimator == "saga" and self.posterior.predictor is None
        # A table of whole gradients is read and written.
        row_cost = 4 if has_wide_table else 1
        return evaluations, row_cost * evaluations + num_chains * steps * settings.STEP_COST_ROWS

    def _num_steps(self, time: float) -> int:
        """Return the steps of a run, its burn-in included."""
        return burn_in_steps(time) + steps_for_ess(
            time, self.requirements.ess, self.requirements.num_chains
        )

    def _batch_sizes(self) -> list[int]:
        """Return the batch sizes that are compared: powers of two, or multiples of the devices."""
        if self.requirements.batch_size is not None:
            size = self.requirements.batch_size
            return [size] if size < self._n else []
        shards, most = self.requirements.num_row_shards, self._n // 2
        powers = [2**k for k in range(3, 31) if 2**k <= most]
        sizes = dict.fromkeys(-(-power // shards) * shards for power in powers)
        return [size for size in sizes if size <= most]

    def _bytes_above_limit(self, has_friction: bool, estimator: str, size: int) -> int:
        """Return the bytes that the states of all chains take; 0 if that is within the limit."""
        candidate = Candidate("splitting" if has_friction else "langevin", estimator, "random")
        gradient = candidate.make_estimator(self.posterior, size, self.whitening, "random")
        limit, num_chains = self.requirements.memory_limit, self.requirements.num_chains
        if isinstance(gradient, SAGA):  # above its own limit it raises; here another one is taken
            limit = min(limit, num_chains * gradient.memory_limit)
            gradient = dataclasses.replace(gradient, memory_limit=sys.maxsize)
        moves = candidate.make_dynamics(0.1, 1.0, self.whitening.inverse_mass)
        needed = num_chains * state_bytes(kernel(moves, gradient), self.whitening, self.data)
        return needed if needed > limit else 0

    def _forecast(
        self,
        candidate: Candidate,
        size: int,
        scheme: SchemeForecast,
        noise: tuple[float, float] | None,
    ) -> CandidateForecast:
        """Return the forecast of a candidate at a batch size and a step size.

        Args:
            candidate: what is run.
            size: rows of a batch.
            scheme: its integrator at a step size and friction, without minibatch noise.
            noise: noise of a batch of one row, the largest and the mean; None for full gradients.
        """
        largest, mean = self._variances(candidate, size, scheme, noise)
        # Errors are added: an under-dispersed scheme is not corrected by noise.
        sd_error = scheme.sd_error + largest**0.5 - scheme.variance**0.5
        variance_error = abs(scheme.evaluation_variance - 1) + mean - scheme.variance
        mean_error = 0.0
        if variance_error > settings.UNBIASED:
            mean_error = variance_error * self._shared_shift.mean
            sd_error += variance_error * self._shared_shift.sd
        evaluations, rows = self._cost(candidate, size, scheme)
        share = self.requirements.bias_share
        limit, why_not = settings.PREDICTED_BIAS_SHARE * self.requirements.tolerance, ""
        if sd_error > share * limit:
            why_not = f"error of sds {100 * sd_error:.2g} %"
        elif mean_error > 2 * share**0.5 * limit:
            why_not = f"error of means {mean_error:.2g} sd"
        return CandidateForecast(
            candidate=candidate,
            batch_size=size,
            step_size=scheme.step_size,
            friction=scheme.friction,
            sd_error=sd_error,
            mean_error=mean_error,
            time=scheme.time,
            passes=evaluations / self._n,
            cost=float("inf") if why_not else rows,
            why_not=why_not,
        )

    def _variances(
        self,
        candidate: Candidate,
        size: int,
        scheme: SchemeForecast,
        noise: tuple[float, float] | None,
    ) -> tuple[float, float]:
        """Return the variance of the position, in the direction with the most noise and on average
        over coordinates.
        """
        if noise is None:
            return scheme.variance, scheme.variance
        response = scheme.noise_response
        if self._noise_model(candidate.estimator, size).anchor == "none":
            largest, mean = (scheme.variance + response * variance / size for variance in noise)
            return largest, mean
        # The noise of anchored rows grows with the distance from their reference point, and so with
        # the variance.
        share, more = self._anchor_noise(candidate, size, scheme)
        added = (response * (share * variance + more) / size for variance in noise)
        largest, mean = (scheme.variance / max(1 - part, settings.NOISE_FLOOR) for part in added)
        return largest, mean

    def _anchor_noise(
        self, candidate: Candidate, size: int, scheme: SchemeForecast
    ) -> tuple[float, float]:
        """Return the share of the noise around the center that reference points as old as the
        candidate's have, and what differences between their ages add.
        """
        model = self._noise_model(candidate.estimator, size)
        if model.anchor == "fixed":
            return 1.0, 0.0
        if model.anchor == "refreshed":
            across = covariance_at_uniform_age(scheme.matrix, scheme.covariance, model.period)
            return scheme.squared_distance(across), 0.0
        # Each row of a table has a reference point of its own, and these differ.
        own_part = float(
            covariance_of_own_anchors(scheme.matrix, scheme.covariance, model.rate)[0, 0]
        )
        across = covariance_at_geometric_age(scheme.matrix, scheme.covariance, model.rate)
        return scheme.squared_distance(across), (1 - 1 / self._n) * own_part

    def _make_noise_model(self, estimator: str, size: int) -> NoiseModel:
        candidate = Candidate("langevin", estimator, "random")
        gradient = candidate.make_estimator(self.posterior, size, self.whitening, "random")
        return noise_model_of(gradient, self.data)

    def _count_evaluations(self, estimator: str, size: int) -> Evaluations:
        candidate = Candidate("langevin", estimator, "random")
        gradient = candidate.make_estimator(self.posterior, size, self.whitening, "random")
        return gradient.evaluations(self.data)


class NothingFitsError(ValueError):
    """No candidate that is allowed is predicted to be stable and within tolerance."""


def table_for(
    key: Key,
    request: PlanRequest,
    whitening: Whitening,
    places: np.ndarray,
    curvature: float,
    requirements: RunRequirements,
) -> CandidateTable:
    """Return the table of a request's candidates, measured if it is planned by seconds.

    Args:
        key: a typed PRNG key, for the steps that are measured.
        request: the posterior and the candidates.
        whitening: coordinates in which the posterior is taken to be N(0, I).
        places: positions less the center at which minibatch noise is measured, shape (places, d).
        curvature: the largest curvature that chains meet, over the posterior's own.
        requirements: what the run must achieve.
    """
    request.compiling.wait("noise")
    candidates = request.candidates
    if curvature > settings.FEW_ROWS_CURVATURE:
        # Few rows make most of the noise then, and uniform minibatches seldom have one of them.
        candidates = [item for item in candidates if item.rows != "random"] or candidates
    table = CandidateTable(
        request.posterior, whitening, request.data, places, candidates, curvature, requirements
    )
    if requirements.by == "seconds" and table.best is not None:
        table.measure_seconds(lambda forecast: _seconds_of(key, request, table, forecast))
    return table


def best_of(table: CandidateTable) -> CandidateForecast:
    """Return the best forecast of a table.

    Raises:
        NothingFitsError: there is none.
    """
    if table.best is None:
        reasons = "; ".join(f"{first.candidate}: {first.why_not}" for first in table.forecasts[:3])
        raise NothingFitsError(
            f"methods and batch_size must allow a run within the tolerance; got none ({reasons})"
        )
    return table.best


def _seconds_of(
    key: Key, request: PlanRequest, table: CandidateTable, forecast: CandidateForecast
) -> float:
    """Return the seconds of a step of a candidate: of one that is alike if that was measured."""
    candidate, measured = forecast.candidate, request.step_seconds
    kind = candidate.estimator, candidate.rows, candidate.has_friction, forecast.batch_size
    if kind not in measured:
        measured[kind] = seconds_per_step(
            jax.random.fold_in(key, len(measured)),
            table.kernel(forecast),
            table.whitening.start,
            request.data_for_runs,
            request.requirements.num_chains,
            request.mesh,
        )
    return measured[kind]
