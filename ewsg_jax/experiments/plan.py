"""One run of an experiment: its kernel and its steps, and what it gave.

Passes over the data are turned into steps; of steps of random cost a run ahead counts them. The
randomness of a chain's step is a function of the key and the step's number, so the run ahead and
the run proper are the same chains, and their steps cost the same.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax._types import Data, Key, Position
from ewsg_jax.diagnostics import GradientNoise
from ewsg_jax.experiments import processes
from ewsg_jax.experiments.config import MOST_STEPS, REFERENCE, Config, ConfigError, MethodConfig
from ewsg_jax.experiments.console import Console
from ewsg_jax.experiments.problem import Regression
from ewsg_jax.gradients.protocol import uses_batches
from ewsg_jax.rows.view import num_rows
from ewsg_jax.sampling.budget import steps_reaching, steps_within

T = TypeVar("T")
CHECKPOINT_EVERY = 30.0
"""Seconds between checkpoints."""
CLOSE = 0.01
"""What part of the passes need not be run ahead."""
TOLERANCE = 0.05
"""How far off a standard deviation may be for a check, unless it is said."""


@dataclass(frozen=True)
class Plan:
    """One run: its kernel, its steps and which of them are kept.

    `number` counts the methods from 1, and the reference is 0: a method's draws do not depend on
    the reference. `passes` are those of the run and of its burn-in, where the cost of a step is
    random; `tolerance` is that of the check.
    """

    number: int
    method: MethodConfig
    kernel: ewsg.Kernel
    num_chains: int
    num_draws: int
    num_steps: int
    burn_in: int
    shared_minibatch: bool = False
    passes: tuple[float, float] | None = None
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        if self.num_steps > MOST_STEPS:
            raise ConfigError(
                f"{self.label}: a run takes at most {MOST_STEPS} steps; got {self.num_steps}"
            )
        if self.num_steps - self.burn_in < 1:
            raise ConfigError(
                f"{self.label}: {self.num_steps} steps keep no draw after a burn-in of "
                f"{self.burn_in}"
            )

    @property
    def label(self) -> str:
        """What the run is called."""
        return self.method.label

    @property
    def thin(self) -> int:
        """Steps from one draw to the next: at least `num_draws` draws, or every one where there are
        fewer.
        """
        return max(1, (self.num_steps - self.burn_in) // self.num_draws)


class Job(NamedTuple):
    """What is run.

    Attributes:
        title: of the report.
        note: what to read it with.
        seed: of all runs.
        config: the text of config.toml, by which a later start knows that it is the same.
        problem: the posterior and its rows.
        plans: the runs.
        answer: lines of the plan, where there is one.
    """

    title: str
    note: str
    seed: int
    config: str
    problem: Regression
    plans: list[Plan]
    answer: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Result:
    """What one run gave; `samples` holds the draws as weights of the features.

    Everything else is None where the run was interrupted before it kept a draw, and `trajectory`
    where no rows are held out. `check` and
    `forecast` are the reason, a string, where they are not known; a forecast needs the mode, and is
    of methods alone.
    """

    plan: Plan
    samples: ewsg.Samples
    summary: ewsg.diagnostics.Summary | None = None
    trajectory: ewsg.diagnostics.Trajectory | None = None
    noise: GradientNoise | None = None
    distance: ewsg.diagnostics.Distance | None = None
    check: ewsg.Report | str | None = None
    forecast: ewsg.Forecast | str | None = None


def plans_of(config: Config, problem: Regression) -> list[Plan]:
    """Build every kernel and count every run's steps, so that what is wrong raises ConfigError
    before anything runs.
    """
    plans, run, long = [], config.run, config.reference
    if long is not None:
        options = {"step_size": long.step_size, "friction": long.friction}
        method = MethodConfig("uld", REFERENCE, options | {"integrator": "splitting"})
        of_run = (long.num_chains, long.num_draws, long.num_steps, long.burn_in)
        plans.append(Plan(0, method, _kernel(method, problem), *of_run))
    for number, method in enumerate(config.named.values(), 1):
        kernel = _kernel(method, problem)
        try:
            steps = least_steps(kernel, problem.train, run.data_passes, run.burn_in_passes)
        except ValueError as error:
            raise ConfigError(f"{method.label}: {error}") from error
        shared = run.shared_minibatch and uses_batches(kernel)
        counted = kernel.evaluations(problem.train).counted
        passes = (run.data_passes, run.burn_in_passes) if counted else None
        plans.append(
            Plan(number, method, kernel, run.num_chains, run.num_draws, *steps, shared, passes)
        )
    return plans


def _kernel(method: MethodConfig, problem: Regression) -> ewsg.Kernel:
    """Build a kernel and have it check its options against the data."""
    try:
        kernel = ewsg.METHODS[method.name].build(problem.posterior, **method.options)
        start = problem.start(jax.random.key(0)) if callable(problem.start) else problem.start
        kernel.check(start, problem.train)
        return kernel
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{method.label}: {error}") from error


def keys_of(seed: int, number: int) -> tuple[Key, Key, Key]:
    """Return the keys of a run, of its look for gradient noise, and of its check."""
    run_key, key = jax.random.split(jax.random.fold_in(jax.random.key(seed), number))
    return run_key, jax.random.fold_in(key, 0), jax.random.fold_in(key, 1)


def execute(
    plan: Plan,
    seed: int,
    problem: Regression,
    reference: Result | None,
    checkpoint: Path,
    console: Console | None = None,
) -> Result:
    """Sample by one plan, or resume what is saved at `checkpoint`, and judge the draws, against a
    reference if any.
    """
    console = console or Console(quiet=True)
    run_key, noise_key, check_key = keys_of(seed, plan.number)
    data, kernel = problem.train, plan.kernel
    if plan.passes is not None:
        num_steps, burn_in = steps_of_passes(
            run_key, kernel, problem.start, data, plan.num_chains, *plan.passes
        )
        plan = dataclasses.replace(plan, num_steps=num_steps, burn_in=burn_in)
    moved = _sampled(run_key, plan, problem, checkpoint, not console.is_quiet)
    samples = dataclasses.replace(moved, draws=problem.to_weights(moved.position))
    if not samples.num_draws:
        return Result(plan, samples)
    with console.under_way("judging the draws"):
        summary = ewsg.diagnostics.summary(samples, problem.names)
        compared = None if reference is None else reference.summary
        noise = GradientNoise(None, None, "no chain stayed finite")
        if samples.is_finite.any():
            noise = ewsg.diagnostics.gradient_noise(noise_key, kernel, moved, data)
        mode = problem.mode if plan.number else None
        # Draws are checked in the coordinates that the chains move in.
        options = {"tolerance": plan.tolerance, "names": problem.coordinates}
        return Result(
            plan,
            samples,
            summary,
            None if problem.test is None else ewsg.diagnostics.trajectory(samples, problem.test),
            noise,
            None if compared is None else ewsg.diagnostics.distance(summary, compared),
            _or_reason(lambda: ewsg.check(check_key, moved, problem.posterior, data, **options)),
            None if mode is None else _or_reason(lambda: ewsg.forecast(kernel, mode, data)),
        )


def _or_reason(call: Callable[[], T]) -> T | str:
    """Return what a call returns, or the message of its ValueError."""
    try:
        return call()
    except ValueError as error:
        return str(error)


def _sampled(
    key: Key, plan: Plan, problem: Regression, checkpoint: Path, progress: bool
) -> ewsg.Samples:
    options: dict[str, Any] = {"mesh": processes.mesh(), "progress": progress}
    if checkpoint.exists():
        try:
            return ewsg.resume(checkpoint, problem.train, kernel=plan.kernel, **options)
        except ValueError as error:
            raise ConfigError(
                f"{plan.label}: {error}: remove {checkpoint.parent} to start again"
            ) from error
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    return ewsg.sample(
        key,
        plan.kernel,
        problem.start,
        problem.train,
        plan.num_steps,
        num_chains=plan.num_chains,
        burn_in=plan.burn_in,
        thin=plan.thin,
        shared_minibatch=plan.shared_minibatch,
        checkpoint=checkpoint,
        checkpoint_every=CHECKPOINT_EVERY,
        **options,
    )


def least_steps(
    kernel: ewsg.Kernel, data: Data, data_passes: float, burn_in_passes: float
) -> tuple[int, int]:
    """Return the steps of a budget and those of its burn-in, known before a run.

    Of a kernel whose steps have a random cost: the fewest steps that the budget may allow, without
    a burn-in. Raise ValueError where the start alone takes the budget.
    """
    n, cost = num_rows(data), kernel.evaluations(data)
    num_steps = steps_within(cost, n, data_passes)
    if not cost.counted:
        return num_steps, steps_reaching(cost, n, burn_in_passes)
    taken = max(burn_in_passes, cost.at_init / n)
    if data_passes <= taken:
        raise ValueError(
            f"{data_passes:g} passes keep no draw, since burn-in and start take {taken:g} of them"
        )
    return max(1, num_steps), 0


def steps_of_passes(
    key: Key,
    kernel: ewsg.Kernel,
    start: Position | Callable[[Key], Position],
    data: Data,
    num_chains: int,
    data_passes: float,
    burn_in_passes: float = 0.0,
) -> tuple[int, int]:
    """Return how many steps a number of passes over the data allows, and how many of them are
    burn-in.

    The cost of a step of some methods drifts with the chain (the bright data of FlyMC grow as it
    leaves its centre), so that its beginning does not say what the rest costs: the whole run is
    made ahead, without draws.

    Args:
        key: that of the run, a typed PRNG key.
        kernel: the kernel, or a stack of kernels.
        start: where chains start, as `ewsg_jax.sample` takes it.
        data: all n rows.
        num_chains: chains of the run.
        data_passes: passes of each chain, the start and refreshes included.
        burn_in_passes: passes that no draw is kept of.

    Raises:
        KeyboardInterrupt: an interrupt ended the run ahead.
    """
    n, at_most = num_rows(data), kernel.evaluations(data)
    if not at_most.counted:
        return least_steps(kernel, data, data_passes, burn_in_passes)
    burn_in, budget = burn_in_passes * n, data_passes * n
    options = {"num_chains": num_chains, "keep": None, "progress": False}
    # Steps made and evaluations spent after each part.
    made, spent, per_step, state = [0], [float(at_most.at_init)], float(at_most.per_step), None
    for wanted in (burn_in, budget):
        while (left := wanted - spent[-1]) > CLOSE * wanted:
            # Not all that is left, nor more than were made: the next steps may cost more than the
            # last.
            count = max(1, math.ceil(0.7 * left / per_step))
            if state is None:
                part = ewsg.sample(key, kernel, start, data, count, **options)
                before = 0.0  # The first part counts the evaluations of the start too.
            else:
                count, before = min(count, made[-1]), spent[-1]
                part = ewsg.sample(key, kernel, None, data, count, state=state, **options)
            if part.interrupted:
                raise KeyboardInterrupt
            spent.append(before + part.gradient_evaluations / num_chains)
            made.append(made[-1] + part.num_steps)
            per_step = max((spent[-1] - spent[-2]) / part.num_steps, budget / MOST_STEPS)
            state = part.state
    reached = np.interp((burn_in, budget), spent, made)
    reached += np.maximum(0.0, np.array((burn_in, budget)) - spent[-1]) / per_step
    first_kept = math.ceil(reached[0]) + 1
    return max(first_kept, math.floor(reached[1])), first_kept - 1
