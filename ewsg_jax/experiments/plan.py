"""One run of an experiment: its kernel and its steps, and what it gave."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import jax

import ewsg_jax as ewsg
from ewsg_jax._types import Key
from ewsg_jax.diagnostics import GradientNoise
from ewsg_jax.experiments import processes
from ewsg_jax.experiments.budget import least_steps, steps_of_passes
from ewsg_jax.experiments.config import MOST_STEPS, REFERENCE, Config, ConfigError, MethodConfig
from ewsg_jax.experiments.problem import Regression
from ewsg_jax.gradients.protocol import uses_batches

T = TypeVar("T")
CHECKPOINT_EVERY = 30.0
"""Seconds between checkpoints."""


@dataclass(frozen=True)
class Plan:
    """One run: its kernel, its steps and which of them are kept.

    `number` counts the methods from 1, and the reference is 0: a method's draws do not depend on
    the reference.
    """

    number: int
    method: MethodConfig
    kernel: ewsg.Kernel
    num_chains: int
    num_draws: int
    num_steps: int
    burn_in: int
    shared_minibatch: bool = False

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


@dataclass(frozen=True, eq=False)
class Result:
    """What one run gave; `samples` holds the draws as weights of the features.

    Everything else is None where the run was interrupted before it kept a draw. `check` and
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
    """Build every kernel and count every run's steps, so that what is wrong shows before anything
    runs.

    Raises:
        ConfigError: a method does not take its options, or a run is too short to keep a draw.
    """
    plans, run, long = [], config.run, config.reference
    if long is not None:
        options = {
            "step_size": long.step_size,
            "friction": long.friction,
            "integrator": "splitting",
        }
        method = MethodConfig("uld", REFERENCE, options)
        kernel = _kernel(method, problem)
        plans.append(
            Plan(0, method, kernel, long.num_chains, long.num_draws, long.num_steps, long.burn_in)
        )
    for number, method in enumerate(config.named.values(), 1):
        kernel = _kernel(method, problem)
        try:
            steps = least_steps(kernel, problem.train, run.data_passes, run.burn_in_passes)
        except ValueError as error:
            raise ConfigError(f"{method.label}: {error}") from error
        shared = run.shared_minibatch and uses_batches(kernel)
        plans.append(Plan(number, method, kernel, run.num_chains, run.num_draws, *steps, shared))
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


def execute(
    plan: Plan, config: Config, problem: Regression, reference: Result | None, checkpoint: Path
) -> Result:
    """Sample by one plan, or resume what is saved at `checkpoint`, and judge the draws, against a
    reference if any.

    Raises:
        ConfigError: what is saved there is damaged.
    """
    run_key, key = jax.random.split(
        jax.random.fold_in(jax.random.key(config.run.seed), plan.number)
    )
    noise_key, check_key = (jax.random.fold_in(key, i) for i in (0, 1))
    data, kernel, run = problem.train, plan.kernel, config.run
    if kernel.evaluations(data).counted:
        num_steps, burn_in = steps_of_passes(
            run_key,
            kernel,
            problem.start,
            data,
            plan.num_chains,
            run.data_passes,
            run.burn_in_passes,
        )
        plan = dataclasses.replace(plan, num_steps=num_steps, burn_in=burn_in)
    moved = _sampled(run_key, plan, problem, checkpoint)
    samples = dataclasses.replace(moved, draws=problem.to_weights(moved.position))
    if not samples.num_draws:
        return Result(plan, samples)
    summary = ewsg.diagnostics.summary(samples, problem.names)
    compared = None if reference is None else reference.summary
    noise = GradientNoise(None, None, "no chain stayed finite")
    if samples.is_finite.any():
        noise = ewsg.diagnostics.gradient_noise(noise_key, kernel, moved, data)
    # Draws are checked in the coordinates that the chains move in, whose names are others.
    directions = tuple(f"direction {i}" for i in range(len(problem.names)))
    names = problem.names if problem.matrix is None else directions
    mode = problem.mode if plan.number else None
    return Result(
        plan,
        samples,
        summary,
        ewsg.diagnostics.trajectory(samples, problem.test),
        noise,
        None if compared is None else ewsg.diagnostics.distance(summary, compared),
        _or_reason(lambda: ewsg.check(check_key, moved, problem.posterior, data, names=names)),
        None if mode is None else _or_reason(lambda: ewsg.forecast(kernel, mode, data)),
    )


def _or_reason(call: Callable[[], T]) -> T | str:
    """Return what a call returns, or the message of its ValueError."""
    try:
        return call()
    except ValueError as error:
        return str(error)


def _sampled(key: Key, plan: Plan, problem: Regression, checkpoint: Path) -> ewsg.Samples:
    if checkpoint.exists():
        try:
            return ewsg.resume(checkpoint, problem.train, kernel=plan.kernel, mesh=processes.mesh())
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
        mesh=processes.mesh(),
    )
