"""Run chains until the error is within tolerance, with a step and batches that they allow.

A run begins with the step of the curvature at w*, and is started again if draws show more
curvature, more noise, or a bias beyond tolerance. Runs grow by half, so that what is left out costs
little.
"""

import time
from dataclasses import dataclass, replace

from ewsg_jax.answers.learning_coefficient.chains import (
    CoefficientEstimate,
    CoefficientRequest,
    PairedChains,
    Setting,
)
from ewsg_jax.base.progress import Clock
from ewsg_jax.rows._view import CHUNK_SIZE


@dataclass
class SearchOutcome:
    """How a run ended.

    Attributes:
        chains: the chains of the last setting; once ended, of the last one that has an estimate.
        estimate: what they say; None if no chain has draws.
        num_steps: steps of h of each chain, all settings together.
        data_passes: passes over the data of each pair, all settings together.
        reason: why the run ended, in words; empty if the error is within tolerance.
        interrupted: whether an interrupt ended it.
        before: the chains of an earlier setting that have an estimate, and that one.
    """

    chains: PairedChains
    estimate: CoefficientEstimate | None = None
    num_steps: int = 0
    data_passes: float = 0.0
    reason: str = ""
    interrupted: bool = False
    before: tuple[PairedChains, CoefficientEstimate] | None = None

    def with_chains(self, chains: PairedChains) -> "SearchOutcome":
        """Return the outcome with new chains, which remembers what the others say."""
        before = self.before if self.estimate is None else (self.chains, self.estimate)
        return replace(self, chains=chains, estimate=None, before=before)

    def ended(self) -> "SearchOutcome":
        """Return the outcome with the last estimate that there is."""
        if self.estimate is not None or self.before is None:
            return self
        return replace(self, chains=self.before[0], estimate=self.before[1])


def run(request: CoefficientRequest, curvature: float) -> SearchOutcome:
    """Return the outcome of a run that begins with the step of this curvature."""
    began = time.perf_counter()
    setting = Setting(_step(request, curvature), _first_batch_size(request))
    outcome = SearchOutcome(PairedChains(request, setting, 0))
    with Clock(request.progress) as clock:
        try:
            for number in range(1, 1_000):
                clock.says(f"learning coefficient: {_in_words(outcome)}")
                # More draws of the present setting, if there are steps and seconds left.
                if not (reason := _why_over(request, outcome, began)):
                    _extend(request, outcome, began)
                    if outcome.chains.interrupted:
                        raise KeyboardInterrupt
                # The end, or new chains at a setting that the draws ask for.
                setting = _next_setting(request, outcome)
                if not reason and outcome.chains.diverged and setting == outcome.chains.setting:
                    reason = "a chain diverged"
                if reason or _is_done(request, outcome):
                    outcome.reason = reason
                    break
                if setting != outcome.chains.setting:
                    outcome = outcome.with_chains(PairedChains(request, setting, number))
        except KeyboardInterrupt:
            if outcome.ended().estimate is None:
                raise
            outcome.interrupted, outcome.reason = True, "an interrupt ended the run"
    return outcome.ended()


def _why_over(request: CoefficientRequest, outcome: SearchOutcome, began: float) -> str:
    """Return why the run is over, empty if it is not."""
    if request.seconds is not None and time.perf_counter() - began >= request.seconds:
        return f"{request.seconds:g} seconds are over"
    if outcome.num_steps + request.thin * outcome.chains.draws_at_once > request.num_steps:
        return f"all {request.num_steps:,} steps are made"
    return ""


def _extend(request: CoefficientRequest, outcome: SearchOutcome, began: float) -> None:
    """Make half as many draws again."""
    chains = outcome.chains
    steps, passes = chains.num_steps, chains.data_passes
    more = min(steps // 2, request.num_steps - outcome.num_steps) // request.thin
    left = None
    if request.seconds is not None:
        left = max(0.1, request.seconds - (time.perf_counter() - began))
    try:
        chains.advance(more, left)
    finally:
        outcome.num_steps += chains.num_steps - steps
        outcome.data_passes += chains.data_passes - passes
    if not chains.diverged and chains.changes and chains.changes[""].shape[1] >= 4:
        outcome.estimate = chains.estimate()


def _is_done(request: CoefficientRequest, outcome: SearchOutcome) -> bool:
    """Return whether the error is within tolerance, and the bias too or not known any better."""
    estimate, setting = outcome.estimate, outcome.chains.setting
    if estimate is None or outcome.chains.diverged or _next_setting(request, outcome) != setting:
        return False
    # R-hat of fewer draws says little.
    enough = outcome.chains.changes[""].shape[1] >= 3 * request.draws_per_call
    return enough and estimate.rhat < 1.05 and estimate.error <= _allowed_error(request, estimate)


def _allowed_error(request: CoefficientRequest, estimate: CoefficientEstimate) -> float:
    """Return the tolerance in units of λ̂; for a value within its error of 0, of that error."""
    return request.tolerance * max(abs(estimate.value), estimate.error)


def _step(request: CoefficientRequest, curvature: float) -> float:
    """Return the step for a curvature of nL: BAOAB is stable below 2/√curvature."""
    if request.step_size is not None:
        return request.step_size
    return 0.8 / (max(curvature, 0.0) + request.target.strength) ** 0.5


def _first_batch_size(request: CoefficientRequest) -> int:
    """Return b of the first chains: the caller's, all rows if they are one chunk, or some."""
    n = request.num_data
    if request.batch_size is not None:
        return min(request.batch_size, n)
    return n if n <= CHUNK_SIZE else CHUNK_SIZE // 4


def _next_setting(request: CoefficientRequest, outcome: SearchOutcome) -> Setting:
    """Return the setting for the next draws: that of the chains, unless the draws so far show that
    it will not do.
    """
    chains, estimate = outcome.chains, outcome.estimate
    step, batch = chains.setting
    # A smaller step, if draws have more curvature than the step allows.
    if request.step_size is None:
        needed = _step(request, chains.curvature)
        # Where steps are unstable, draws are not where the target is.
        if chains.diverged or needed < 0.4 * step:
            return Setting(step / 2, batch)
        if needed < 0.6 * step:
            return Setting(needed, batch)
    # A larger batch, if the noise at draws adds more than the tolerance.
    if request.batch_size is None and chains.noise and estimate is not None:
        needed_batch = _needed_batch_size(request, chains, estimate)
        if needed_batch > 1.5 * batch:
            return Setting(step, needed_batch)
    # Half of the step, if its bias is known to be beyond the tolerance.
    if estimate is not None and request.step_size is None:
        allowed = max(_allowed_error(request, estimate), 2 * estimate.bias_error)
        if abs(estimate.bias) > allowed:
            return Setting(step / 2, batch)
    return chains.setting


def _needed_batch_size(
    request: CoefficientRequest, chains: PairedChains, estimate: CoefficientEstimate
) -> int:
    """Return the rows of a batch whose noise adds the tolerance to λ̂, n if all are cheaper.

    A noise of covariance C in the gradient of V adds h C/(2γT) to the temperature of each
    direction, and half of the sum over directions at most to λ̂. Here the step is h/2, and
    C = n²/b times that of one row.
    """
    n, h = request.num_data, chains.setting.step_size
    added_temperature = h / 2 * n**2 * chains.noise / (4 * request.friction * request.temperature)
    batch = added_temperature / _allowed_error(request, estimate)
    # A batch around w* takes two gradients of each row.
    return n if 2 * batch >= n else max(1, 2 ** round(batch).bit_length())


def _in_words(outcome: SearchOutcome) -> str:
    """Return how far a run is, for the line that shows progress."""
    if outcome.estimate is None:
        return f"a step of {outcome.chains.setting.step_size:.2g}"
    return f"{outcome.estimate.value:.3g} ± {outcome.estimate.error:.1g}"
