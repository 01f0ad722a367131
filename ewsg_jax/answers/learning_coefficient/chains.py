"""Chains of step h and h/2 with one noise, and the step size and batch size that they need."""

import functools
import time
import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from ewsg_jax import dynamics, gradients
from ewsg_jax.answers.halve.coupled import coupled
from ewsg_jax.answers.learning_coefficient.at_draws import LossChanges, Stiffness, noise_rows
from ewsg_jax.answers.learning_coefficient.target import Localized, LocalTarget
from ewsg_jax.base import limits
from ewsg_jax.base.optional import normal_quantile, student_quantile
from ewsg_jax.base.typing import Data, Key, PyTree
from ewsg_jax.draws.convergence import mcse, rhat
from ewsg_jax.kernels.pair import Pair, kernel
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks import spacing
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows
from ewsg_jax.run.sample import sample
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.layout import Layout
from ewsg_jax.vectors.row_subsets import evenly, take_rows


@dataclass(frozen=True)
class CoefficientRequest:
    """The arguments of `learning_coefficient`, checked, and what chains are run by.

    Attributes:
        key: the key of all chains; those of each setting fold its number into it.
        target: what is sampled.
        data: all n rows.
        observables: other data, by name.
        localization: γ.
        temperature: T.
        num_chains: pairs of chains.
        tolerance: the relative error at which the run ends.
        num_steps: the most steps of h of each chain, all settings together.
        seconds: the most seconds; None for no bound.
        step_size: h of the caller; None to find it.
        batch_size: b of the caller; None to find it.
        progress: whether progress is shown.
        thin: steps of h from one draw to the next; losses then cost less than a tenth of the
            steps.
        draws_per_call: draws of each chain in a call of `sample`, which takes some milliseconds.
        used_share: the part of the draws that counts, the last ones: chains begin at w*, which is
            no typical draw.
    """

    key: Key
    target: LocalTarget
    data: Data
    observables: dict[str, Data]
    localization: float
    temperature: float
    num_chains: int
    tolerance: float
    num_steps: int
    seconds: float | None
    step_size: float | None
    batch_size: int | None
    progress: bool
    thin: int = 10
    draws_per_call: int = 40
    used_share: float = 2 / 3

    @property
    def num_data(self) -> int:
        """The number of rows n."""
        return num_rows(self.data)

    @property
    def friction(self) -> float:
        """Twice the frequency of the localizing prior, the slowest if the loss is convex."""
        return 2 * (self.localization * self.temperature) ** 0.5


class Setting(NamedTuple):
    """With what chains are run: the step h, and the batch size b, n for full gradients."""

    step_size: float
    batch_size: int


class CoefficientEstimate(NamedTuple):
    """What chains at one setting say.

    Attributes:
        value: λ̂ of the chains of step h/2.
        error: its Monte Carlo standard error.
        bias: by how much it is too large.
        bias_error: the Monte Carlo standard error of that.
        corrected_error: that of the value less the bias, whose errors are not independent, and
            what higher orders of h may leave.
        rhat: split R-hat of the loss.
    """

    value: float
    error: float
    bias: float
    bias_error: float
    corrected_error: float
    rhat: float


class PairedChains:
    """Pairs of chains at one setting, from w* on.

    Attributes:
        setting: h and b.
        order: the order in h of the bias: 2 with full gradients, 1 with batches.
        changes: L(w) − L(w*), arrays (chain, draw, 2), at h and at h/2: of the data by the name "",
            which no observable has, and of each observable by its name.
        num_steps: steps of h so far.
        data_passes: passes over the data of each pair so far.
        curvature: the largest curvature of nL that was met.
        noise: the mean over draws of the trace of the covariance of one row's gradient.
        diverged: whether a chain diverged.
        interrupted: whether the last call was interrupted.
        spacing: what the last draws say of weights that move on a coarse grid of their dtype.
    """

    def __init__(self, request: CoefficientRequest, setting: Setting, number: int) -> None:
        self.setting, self._request = setting, request
        self._key = jax.random.fold_in(request.key, number)
        self._kernel = kernel_of(request, setting)
        self.order = 2 if setting.batch_size == request.num_data else 1
        self._state: Any = None
        self._parts: list[dict[str, np.ndarray]] = []
        self._noises: list[np.ndarray] = []
        self.num_steps, self.data_passes, self.curvature = 0, 0.0, -np.inf
        self.diverged = self.interrupted = False
        self.spacing: list[Finding] = []

    @property
    def noise(self) -> float:
        return float(np.mean(self._noises[-1])) if self._noises else 0.0

    @property
    def changes(self) -> dict[str, np.ndarray]:
        names = self._parts[0] if self._parts else {}
        return {name: np.concatenate([part[name] for part in self._parts], 1) for name in names}

    def advance(self, num_draws: int, seconds: float | None) -> None:
        """Make about `num_draws` more draws, and measure curvature and noise at the last ones.

        Args:
            num_draws: draws of each chain.
            seconds: the most seconds; None for no bound.
        """
        began, samples = time.perf_counter(), None
        # All calls are of one length: one program serves them.
        for _ in range(max(1, num_draws // self.draws_at_once)):
            left = None if seconds is None else seconds - (time.perf_counter() - began)
            if samples is not None and left is not None and left <= 0:
                break
            samples = self._run(self.draws_at_once, left)
            if samples is None or self.diverged or self.interrupted:
                return
        if samples is not None:
            self._measure(samples, self._request)

    def _run(self, num_draws: int, seconds: float | None) -> Samples | None:
        """Make draws by one call of `sample`, and keep their losses; None if there are none."""
        request, start = self._request, self._request.target.center
        options = {"thin": request.thin, "progress": False, "check_data": False, "seconds": seconds}
        if self._state is None:
            options |= {"num_chains": request.num_chains}
        else:
            options |= {"state": self._state}
        with warnings.catch_warnings():
            # A step that is too large shows in `is_finite`, and is made smaller.
            warnings.filterwarnings("ignore", ".*diverge.*", RuntimeWarning)
            # The result says once that weights move on a coarse grid.
            warnings.filterwarnings("ignore", ".* apart (in|there)", RuntimeWarning)
            samples = sample(
                self._key,
                self._kernel,
                (start, start) if self._state is None else None,
                request.data,
                num_draws * request.thin,
                **options,
            )
        # A run that goes on from here, unless a chain diverged.
        self._state, self.interrupted = samples.state, samples.interrupted
        self.num_steps += samples.num_steps
        self.data_passes += samples.data_passes
        self.diverged = not samples.is_finite.all()
        if self.diverged or not samples.num_draws:
            return None
        losses = LossChanges(request.target.posterior, self._loss_rows())
        inputs = request.target.center, {"": request.data} | request.observables
        self._parts.append(self._at_draws(samples, losses, inputs))
        self.diverged = not all(np.isfinite(x).all() for x in self._parts[-1].values())
        return samples

    def _measure(self, samples: Samples, request: CoefficientRequest) -> None:
        """Measure the largest curvature, and the noise of one row, at some of the draws."""
        size, n = Layout.of(request.target.center).size, request.num_data
        # The noise chooses the batch size, unless the caller did or all rows are one batch.
        with_noise = request.batch_size is None and n > CHUNK_SIZE
        count = min(n, CHUNK_SIZE)
        rows = take_rows(request.data, evenly(n, count)) if count < n else request.data
        num_noise_rows = noise_rows(size) if with_noise else 0
        stiffness = Stiffness(request.target.posterior, n / count, num_noise_rows)
        sparse = replace(
            samples,
            draws=jax.tree.map(lambda x: np.asarray(x)[:, evenly(x.shape[1], 4)], samples.draws),
        )
        values = self._at_draws(sparse, stiffness, (request.target.center, rows))
        self.spacing = spacing.of_draws(samples.draws[1], samples.is_finite, "weights")
        self.curvature = max(self.curvature, float(values["curvature"].max()))
        self.diverged |= not np.isfinite(values["curvature"]).all()
        if with_noise:
            self._noises.append(values["noise"])

    def _at_draws(self, samples: Samples, function: Any, inputs: PyTree) -> dict[str, np.ndarray]:
        """Return the values of a function at each draw, by name, leading axes (chain, draw)."""
        key = jax.random.fold_in(self._key, self.num_steps)
        values = samples.predict(function, inputs, key=key, keep_draws=True)
        return {name: np.asarray(value, np.float64) for name, value in values.items()}

    @functools.cached_property
    def draws_at_once(self) -> int:
        """Draws of each chain in one call of `sample`: as many as are asked for and fit memory."""
        numbers = 2 * self._request.num_chains * Layout.of(self._request.target.center).size
        return max(1, min(self._request.draws_per_call, 4 * limits.NUMBERS_AT_ONCE // numbers))

    def _loss_rows(self) -> int | None:
        """Rows that a loss is computed on: as many as the steps between two draws take, None for
        all.
        """
        rows = self.setting.batch_size * self._request.thin
        return None if rows >= self._request.num_data else rows

    def coefficients(self, changes: np.ndarray) -> np.ndarray:
        """Return nβ times changes of a mean loss, whose mean is λ̂."""
        return changes * self._request.num_data / self._request.temperature

    def estimate(self) -> CoefficientEstimate:
        """Return λ̂, its bias and errors from the draws that count."""
        draws = self.coefficients(self.changes[""])
        used = draws[:, -max(1, int(self._request.used_share * draws.shape[1])) :]
        # A bias c hᵖ is (2ᵖ − 1) c (h/2)ᵖ larger at h than at h/2, whose bias is c (h/2)ᵖ.
        at_half, difference = used[..., 1], used[..., 0] - used[..., 1]
        weight = 1 / (2**self.order - 1)
        # What the bias may be beyond its leading order, as in `halve`.
        remainder = (weight - 1 / (2 ** (self.order + 1) - 1)) * difference.mean()
        corrected = at_half - weight * difference
        return CoefficientEstimate(
            value=float(at_half.mean()),
            error=error_of_mean(at_half),
            bias=float(weight * difference.mean()),
            bias_error=weight * error_of_mean(difference),
            corrected_error=float(np.hypot(error_of_mean(corrected), remainder)),
            rhat=float(rhat(at_half[..., None])[0]),
        )


def error_of_mean(draws: np.ndarray) -> float:
    """Return a standard error of the mean of draws (chain, draw), two of which cover 95 %.

    It is the larger of two: by the number of effective draws, and by how the chains' means differ.
    The latter is widened, for few chains, by how much wider Student's distribution is than a normal
    one.
    """
    within = float(mcse(draws[..., None])[0])
    if len(draws) < 2:
        return within
    between = draws.mean(1).std(ddof=1) / len(draws) ** 0.5
    widening = student_quantile(len(draws) - 1, 0.975) / normal_quantile(0.975)
    return float(np.fmax(within, between * widening))


def kernel_of(request: CoefficientRequest, setting: Setting) -> Kernel:
    """Return the kernel of pairs: BAOAB with full gradients, or with batches around w*."""
    posterior, center, strength = request.target
    scheme = dynamics.splitting_scheme(
        "BAOAB",
        setting.step_size,
        friction=request.friction,
        temperature=request.temperature,
    )
    estimator = (
        gradients.full(posterior)
        if setting.batch_size == request.num_data
        else gradients.control_variate(posterior, batch_size=setting.batch_size, center=center)
    )
    local = Localized(posterior=posterior, inner=estimator, center=center, strength=strength)
    pair = kernel(scheme, local)
    assert isinstance(pair, Pair)
    return coupled(pair)
