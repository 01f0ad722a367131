"""The chains of a fit: which kernel, with which step, and when they have run for long enough."""

import contextlib
import functools
import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import gradients
from ewsg_jax.base import compiling, limits, pytrees, rng
from ewsg_jax.base.checks import reason
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.diagnostics._energy import by_energy
from ewsg_jax.draws.convergence import rhat
from ewsg_jax.dynamics import microcanonical, semi_implicit
from ewsg_jax.kernels.pair import kernel
from ewsg_jax.kernels.protocol import Kernel, KernelState
from ewsg_jax.networks._cores import (
    compile_groups,
    num_groups,
    requests_of_groups,
    sample_groups,
)
from ewsg_jax.networks._curvature import largest_curvature
from ewsg_jax.networks._model import NetworkModel
from ewsg_jax.run.request import Request
from ewsg_jax.run.samples import Samples

TUNING_STEPS = 5
"""Steps of all chains between corrections of the step size: with ten chains the mean square of the
energy error is known to a third, and its sixth root to a twentieth."""
Stopped = Literal["R-hat", "seconds", "an interrupt", "an error"]


class Worth(NamedTuple):
    """What draws are worth.

    Attributes:
        temperature: θ·∇V/d, the mean over draws, and its standard error over chains.
        halved_change: the change of the mean of V/d at half the step, and its standard error.
    """

    temperature: tuple[float, float]
    halved_change: tuple[float, float]


NOT_MEASURED = Worth((math.nan, math.nan), (math.nan, math.nan))
"""The worth of draws that no gradient has measured."""


class Chains:
    """Chains that run in rounds, between which the step is corrected.

    Attributes:
        model: the network.
        data: all rows.
        deadline: when the time is up, by `time.perf_counter`.
        least_seconds: time that chains have if more than was planned went by before they start.
        temperature: T of the distribution exp(−V/T).
        batch_size: rows in a step's gradient, n for full gradients.
        step_size: h.
        rounds: the samples of each round.
        stopped: why the last round was the last.
        error: what is to be said of an error that ended them; "" without one.
    """

    def __init__(
        self,
        key: Key,
        model: NetworkModel,
        data: Data,
        num_chains: int,
        *,
        deadline: float,
        least_seconds: float,
        temperature: float,
    ) -> None:
        self.model, self.data, self.temperature = model, data, temperature
        self.deadline, self.least_seconds = deadline, least_seconds
        self.num_rows = jax.tree.leaves(data)[0].shape[0]
        # A first step by which a hundred move a number of N(0, 1) by its scale.
        self.batch_size, self.step_size = self.num_rows, 0.01
        self._num_chains, self._groups = num_chains, num_groups(num_chains)
        # Full optimisation takes seconds to compile, which a run of some ten seconds does not save
        # (`run.layout.SHORT_RUN_NUMBERS`).
        is_long = deadline - time.perf_counter() > 20
        self._all_steps = limits.INT32_MAX if is_long else 0
        # Those of the first round show how long a step takes.
        self._first_steps = 40
        self._ahead = compiling.Ahead()
        self._ahead_of_rounds: list[compiling.Ahead] = []
        self.rounds: list[Samples] = []
        self.stopped: Stopped = "seconds"
        self.error = ""
        self._predictions: list[np.ndarray] = []
        # For each number. At three times this chains move faster and are too hot: after as many
        # steps the NLL of new rows was 0.04 higher on two synthetic data sets, on airfoil 0.03
        # lower; at ten times 0.05 higher, and the same.
        self._energy_variance = 0.03
        # The time of a gradient of all chains on one core, over all rows; `start` measures it.
        self._gradient_seconds = math.inf
        self._key, self._keys = key, 0
        # Predictions at a few rows tell how chains agree.
        chosen = np.unique(np.linspace(0, self.num_rows - 1, 50).astype(int))
        self._probe = jax.tree.map(lambda x: x[chosen], data["x"])

    def kernel(self, step_size: float) -> Kernel:
        """Return the kernel with a step size."""
        mass = self.model.prior_variance
        if self._is_microcanonical:
            # A third of the length that suits d directions of the prior's sd: rows hold most of
            # them closer (`benchmarks/networks`).
            length = math.sqrt(self.temperature * self._count) / 3
            dynamics = microcanonical(
                step_size,
                decoherence_length=length,
                temperature=self.temperature,
                inverse_mass=mass,
            )
            return kernel(dynamics, gradients.full(self.model.posterior))
        # A friction by which momentum lasts for 100 steps, as an optimiser's of 0.99; ±1 noise has
        # the same weak order and takes no time beside the gradients.
        dynamics = semi_implicit(
            step_size,
            friction=0.01 / step_size,
            temperature=self.temperature,
            noise="rademacher",
            inverse_mass=mass,
        )
        if self._has_all_rows:
            return kernel(dynamics, gradients.full(self.model.posterior))
        return kernel(dynamics, self.model.estimator(batch_size=self.batch_size))

    @property
    def _has_all_rows(self) -> bool:
        return self.batch_size == self.num_rows and not self.model.takes_key

    @property
    def _is_microcanonical(self) -> bool:
        # One number has no direction that turns.
        return self._has_all_rows and self._count > 1

    @property
    def _count(self) -> int:
        return pytrees.size(self.model.prior_variance)

    @property
    def description(self) -> str:
        """The dynamics, as it is called."""
        h = self.step_size
        if self._is_microcanonical:
            return f"microcanonical(step_size={h:.3g})"
        return f"sghmc(step_size={h:.3g}, friction={0.01 / h:.3g})"

    def compile_ahead(self) -> None:
        """Have a thread compile what chains with full gradients need, from shapes alone."""
        if not self._is_microcanonical:
            return
        first, count, steps = self.kernel(self.step_size), self._num_chains, self._first_steps
        start = jax.tree.map(lambda x: np.zeros((count, *x.shape), x.dtype), self.model.position)
        keys = jax.random.split(self._key, count)
        shapes = jax.eval_shape(_first_states, first, keys, start, self.data)
        state = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), shapes)
        arguments = self._key, first, state, self.data

        def tune() -> None:
            compiling.run(self._virials, start, self._timed_rows)
            compiling.run(_first_states, first, keys, start, self.data)
            by_energy(*arguments, self._energy_variance, 1, TUNING_STEPS)

        def first_round() -> None:
            self._ahead_of_rounds = compile_groups(self._requests(*arguments, steps))

        self._ahead.add("tune", tune)
        self._ahead.add("first round", first_round)

    def start(self, ensemble: Position) -> None:
        """Choose the kernel and its step size at trained networks."""
        self._ahead.wait("tune")
        # What is compiled still would slow the gradient that is timed.
        self._ahead.wait("first round")
        for ahead in self._ahead_of_rounds:
            ahead.wait("steps")
        if not self.model.takes_key:
            self._gradient_seconds = self._seconds_of_gradient(ensemble)
        if self._is_microcanonical and not self._has_time_for_all_rows:
            self.batch_size = min(256, self.num_rows)
        self._state = self._started(ensemble)
        # As often as the first step may be far from the one that is found.
        self._tune(8 if self._is_microcanonical else 1)

    def _seconds_of_gradient(self, positions: Position) -> float:
        """Return the time of a gradient of all chains on one core, over all rows."""
        # By the program that measures draws at the end; the first call compiles it.
        rows, seconds = self._timed_rows, []
        for _ in range(3):
            began = time.perf_counter()
            jax.block_until_ready(self._virials(positions, rows))
            seconds.append(time.perf_counter() - began)
        return min(seconds) * self.num_rows / jax.tree.leaves(rows)[0].shape[0]

    @property
    def _timed_rows(self) -> Data:
        """The rows by which a gradient is timed: a gradient over very many takes long itself."""
        return jax.tree.map(lambda x: x[: limits.ROWS_AT_ONCE], self.data)

    @property
    def _has_time_for_all_rows(self) -> bool:
        """Whether full gradients allow a thousand steps.

        For 2,000 the NLL of new rows was 0.01 lower than with minibatches (bike, three splits).
        """
        left = max(self.deadline - time.perf_counter(), self.least_seconds)
        return left > 1_000 * self._gradient_seconds / self._groups

    def _started(self, ensemble: Position) -> PyTree:
        keys = jax.random.split(self._next_key(), self._num_chains)
        return compiling.run(_first_states, self.kernel(self.step_size), keys, ensemble, self.data)

    def _tune(self, rounds: int) -> None:
        """Correct the step size at the chains' states."""
        key = self._next_key()
        if self._is_microcanonical:
            # One program for any number of rounds, all from the same states.
            for key_of_round in jax.random.split(key, rounds):
                arguments = key_of_round, self.kernel(self.step_size), self._state, self.data
                tuned = by_energy(*arguments, self._energy_variance, 1, TUNING_STEPS)
                self.step_size = float(tuned.step_sizes[-1])
            return
        chosen = rng.host_generator(key).permutation(self.num_rows)[: 8 * self.batch_size]
        rows = jax.tree.map(lambda x: x[chosen], self.data)
        positions = self._state.position
        curvatures = largest_curvature(key, self.model, positions, rows, self.num_rows)
        # Well below the bound 2/√λ of stability, for chains that may meet more than λ.
        self.step_size = float(0.3 / np.sqrt(np.nanmax(curvatures)))

    @contextlib.contextmanager
    def ended_early(self) -> Iterator[None]:
        """End a `with` block by an interrupt, or by an error after the first round such as of a
        full memory, and keep what was sampled.
        """
        try:
            yield
        except KeyboardInterrupt:
            self.stopped = "an interrupt"
        except Exception as error:
            if not self.rounds:
                raise
            why = f"chains ended at round {len(self.rounds) + 1} by an error: {reason(error)}"
            self.stopped, self.error = "an error", why

    def run(self) -> None:
        """Run rounds until predictions agree or the time is up."""
        steps, half = self._first_steps, None
        while True:
            began = time.perf_counter()
            samples = self._round(self.step_size, steps)
            self._add(samples)
            took = time.perf_counter() - began
            if half is None:  # The first round compiles.
                now = time.perf_counter()
                self.deadline = max(self.deadline, now + self.least_seconds)
                half = (now + self.deadline) / 2
            ran = samples.run_seconds
            if self._agree() and not self._refined():
                self.stopped = "R-hat"
                return
            left = self.deadline - time.perf_counter()
            # Later ones are a twelfth of the time, or short enough that chains which agree end
            # soon, and longer if they do not.
            if len(self.rounds) > 1:
                most = 2_000 * 2 ** (len(self.rounds) // 20)
                fits = int(max(left, 0) / 12 * steps / ran) if len(self.rounds) == 2 else steps
                steps = 10 * (max(40, min(most, fits)) // 10)
            if len(self.rounds) > 2 and left < 1.6 * took:
                return
            if time.perf_counter() < half:
                self._tune(1)

    def _round(self, step_size: float, steps: int) -> Samples:
        """Return ten draws of each chain from the next steps."""
        arguments = self._next_key(), self.kernel(step_size), self._state, self.data
        with warnings.catch_warnings():
            # Chains that diverged are counted at the end.
            warnings.simplefilter("ignore", RuntimeWarning)
            return sample_groups(self._requests(*arguments, steps), in_threads=bool(self.rounds))

    def _requests(
        self, key: Key, kernel: Kernel, state: KernelState, data: Data, steps: int
    ) -> list[Request]:
        """Return the requests of a round of these steps, of which ten are kept."""
        options = {"groups": self._groups, "thin": steps // 10, "all_steps": self._all_steps}
        return requests_of_groups(key, kernel, state, data, steps, **options)

    def _add(self, samples: Samples) -> None:
        self._state = samples.state
        self.rounds.append(samples)
        self._predictions.append(self._predicted(samples))

    def _predicted(self, samples: Samples) -> np.ndarray:
        """Return predictions at some rows, shape (chain, draw, number)."""
        kept = self._predict(jax.tree.map(jnp.asarray, samples.draws), self._probe)
        return np.concatenate([np.asarray(x) for x in kept], axis=2)

    @functools.cached_property
    def _predict(self) -> Callable[[Position, PyTree], list[Array]]:
        key = jax.random.key(0) if self.model.takes_key else None

        def one(position: Position, x: PyTree) -> list[Array]:
            known = [part for part in self.model.predict(position, x, key) if part is not None]
            return [jnp.ravel(part) for part in known or [self.model.output(position, x, key)]]

        return jax.jit(jax.vmap(jax.vmap(one, (0, None)), (0, None)))

    def _agree(self) -> bool:
        """Return whether R-hat of predictions says that the run is long enough."""
        return len(self.rounds) >= 4 and self.burn_in()[1] < 1.01

    def _refined(self) -> bool:
        """Begin again with a short step, whose bias is small, when chains first agree."""
        if not self._is_microcanonical or self._energy_variance < 0.03:
            return False
        self._energy_variance = 1e-3
        self._tune(6)
        self.rounds, self._predictions = [], []
        return True

    def burn_in(self) -> tuple[int, float]:
        """Return how many rounds are left out, and the largest R-hat of predictions after them.

        Half of them, in which the step is changed and predictions improve still, unseen by R-hat.
        """
        first, finite = len(self.rounds) - len(self._counting), self._are_finite
        if not self.rounds or not finite.any():
            return first, np.nan
        values = rhat(np.concatenate(self._predictions[first:], axis=1)[finite])
        # A number that never changes has none, such as a known standard deviation.
        known = values[~np.isnan(values)]
        return first, float(known.max()) if known.size else np.nan

    @property
    def _counting(self) -> list[Samples]:
        """The rounds after the burn-in."""
        return self.rounds[len(self.rounds) // 2 :]

    @property
    def _are_finite(self) -> np.ndarray:
        """Whether each chain stayed finite in the rounds that count, shape (chain,); one that did
        not repeats a position.
        """
        return np.all([one.is_finite for one in self._counting], axis=0)

    def samples(self) -> Samples:
        """Return the draws after the burn-in."""
        return functools.reduce(Samples.concatenate, self._counting)

    def worth(self) -> Worth:
        """Return what the last draws are worth, and make a few steps more if there is time."""
        ran = sum(one.run_seconds for one in self.rounds)
        # A random potential has no one gradient; of very many rows it may take as long as the run.
        if self.model.takes_key or not self.rounds or self._gradient_seconds > ran / 10:
            return NOT_MEASURED
        last, now = self.rounds[-1], self._state
        temperature = _mean_and_error(self._averages(last)[0])
        if self.stopped in ("an interrupt", "an error"):
            return NOT_MEASURED._replace(temperature=temperature)
        # A quarter of a round with each step, from where the last round ended.
        potentials = []
        for step_size in (self.step_size, self.step_size / 2):
            self._state = now
            steps = 10 * max(1, last.num_steps // 40)
            potentials.append(self._averages(self._round(step_size, steps))[1])
        return Worth(temperature, _mean_and_error(potentials[1] - potentials[0]))

    def _averages(self, samples: Samples) -> tuple[np.ndarray, np.ndarray]:
        """Return the means of θ·∇V/d and V/d of each chain's last draws, shape (chain,): of all ten
        of a round, or of those that take a fiftieth of the run's time.
        """
        fits = sum(one.run_seconds for one in self.rounds) / (50 * self._gradient_seconds)
        count = max(1, min(samples.num_draws, int(fits)))
        # All chains at once, as in a step.
        known = [
            self._virials(jax.tree.map(lambda x, k=k: x[:, k], samples.draws), self.data)
            for k in range(-count, 0)
        ]
        virials, potentials = np.asarray(known, np.float64).swapaxes(0, 1)[..., self._are_finite]
        return virials.mean(0), potentials.mean(0)

    @functools.cached_property
    def _virials(self) -> Callable[[Position, Data], tuple[Array, Array]]:
        """θ·∇V/d and V/d of one position of each chain, shapes (chain,)."""

        def one(position: Position, data: Data) -> tuple[Array, Array]:
            d = pytrees.size(position)
            potential, gradient = jax.value_and_grad(self.model.posterior.potential)(position, data)
            return pytrees.inner(position, gradient) / d, potential / d

        return jax.jit(jax.vmap(one, (0, None)))

    def _next_key(self) -> Key:
        self._keys += 1
        return jax.random.fold_in(self._key, self._keys)


@jax.jit
def _first_states(kernel: Kernel, keys: Array, positions: Position, data: Data) -> KernelState:
    """Return the states of all chains, leading axis chain."""
    return jax.vmap(kernel.init, (0, 0, None))(keys, positions, data)


def _mean_and_error(per_chain: np.ndarray) -> tuple[float, float]:
    """Return the mean over chains and its standard error."""
    values = per_chain[np.isfinite(per_chain)].astype(np.float64)
    if len(values) < 2:
        return float("nan"), float("nan")
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))
