"""Run an experiment: the reference, then each method at the same number of passes over the data."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax

from ewsg_jax import diagnostics
from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Key
from ewsg_jax.checking import Report, check
from ewsg_jax.experiments import counted, processes
from ewsg_jax.experiments.config import MOST_STEPS, Experiment, Method
from ewsg_jax.experiments.heat import Heat, measure
from ewsg_jax.experiments.problem import Problem
from ewsg_jax.experiments.tables import ConfigError
from ewsg_jax.methods import METHODS, uld
from ewsg_jax.sampling import Samples, resume, sample
from ewsg_jax.sampling.budget import steps_reaching, steps_within

REFERENCE = "reference"
CHECKPOINT_EVERY = 30.0
"""Seconds between checkpoints."""


@dataclass(frozen=True)
class Plan:
    """One run: its kernel, its steps and which of them are kept."""

    label: str
    title: str
    options: dict
    kernel: Kernel
    num_steps: int
    burn_in: int
    thin: int
    num_chains: int
    shared_minibatch: bool
    method: Method | None


@dataclass(frozen=True, eq=False)
class Result:
    """What one run gave; `samples` holds the draws as weights of the features.

    `trajectory`, `summary` and `check` are None where the run was interrupted before it kept a draw; `check` says
    why in words where draws could not be checked.
    """

    plan: Plan
    samples: Samples
    summary: diagnostics.Summary | None
    trajectory: diagnostics.Trajectory | None
    heat: Heat | None
    distance: diagnostics.Distance | None
    check: Report | str | None


def plan(experiment: Experiment, problem: Problem) -> list[Plan]:
    """Build every kernel and count every run's steps, so that what is wrong shows before anything runs.

    Raises:
        ConfigError: a method does not take its options, or a run is too short to keep a draw.
    """
    plans = []
    if experiment.reference is not None:
        wanted = experiment.reference
        options = {"step_size": wanted.step_size, "friction": wanted.friction, "integrator": "splitting"}
        kernel = _kernel(REFERENCE, uld, problem, options)
        burn_in, thin = _kept(REFERENCE, wanted.num_steps, wanted.burn_in, wanted.num_draws)
        plans.append(
            Plan(
                REFERENCE,
                "Underdamped Langevin dynamics with the full gradient: the reference",
                options,
                kernel,
                wanted.num_steps,
                burn_in,
                thin,
                wanted.num_chains,
                False,
                None,
            )
        )
    for method in experiment.methods:
        row = METHODS[method.name]
        options = dict(method.options)
        kernel = _kernel(method.label, row.build, problem, options)
        run, n = experiment.run, problem.train["y"].shape[0]
        cost = kernel.evaluations(problem.train)
        if cost.counted:
            num_steps, burn_in = counted.least_steps(method.label, cost, n, run), 0
        else:
            num_steps = steps_within(cost, n, run.data_passes)
            burn_in = steps_reaching(cost, n, run.burn_in_passes)
        burn_in, thin = _kept(method.label, num_steps, burn_in, run.num_draws)
        shared = run.shared_minibatch and kernel.uses_batches
        plans.append(
            Plan(method.label, row.title, options, kernel, num_steps, burn_in, thin, run.num_chains, shared, method)
        )
    return plans


def execute(
    plan: Plan, experiment: Experiment, problem: Problem, reference: Result | None, checkpoint: Path
) -> Result:
    """Sample by one plan and judge the draws.

    Args:
        plan: which.
        experiment: of which experiment.
        problem: its posterior and data.
        reference: what to compare with, None where there is none.
        checkpoint: where the run is written down; one that is there is gone on with.

    Raises:
        ConfigError: what is there is damaged.
    """
    key = jax.random.fold_in(jax.random.key(experiment.run.seed), _number(plan, experiment))
    run_key, heat_key = jax.random.split(key)
    if plan.kernel.evaluations(problem.train).counted:
        run = experiment.run
        passes = run.data_passes, run.burn_in_passes
        num_steps, burn_in = counted.steps_of_passes(
            run_key, plan.kernel, problem.start, problem.train, plan.num_chains, *passes
        )
        burn_in, thin = _kept(plan.label, num_steps, burn_in, experiment.run.num_draws)
        plan = dataclasses.replace(plan, num_steps=num_steps, burn_in=burn_in, thin=thin)
    moved = _sampled(run_key, plan, problem, checkpoint)
    samples = dataclasses.replace(moved, draws=problem.to_weights(moved.position))
    if not samples.num_draws:
        return Result(plan, samples, None, None, None, None, None)
    summary = diagnostics.summary(samples, problem.names)
    compared = None if reference is None or reference.summary is None else reference.summary
    return Result(
        plan,
        samples,
        summary,
        diagnostics.trajectory(samples, problem.test),
        measure(heat_key, plan.kernel, moved.state, problem.train),
        None if compared is None else diagnostics.distance(summary, compared),
        _checked(jax.random.fold_in(heat_key, 1), moved, problem),
    )


def _sampled(key: Key, plan: Plan, problem: Problem, checkpoint: Path) -> Samples:
    if checkpoint.exists():
        try:
            return resume(checkpoint, problem.train, kernel=plan.kernel, mesh=processes.mesh())
        except ValueError as error:
            raise ConfigError(f"{plan.label}: {error}: remove {checkpoint.parent} to start anew") from error
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    return sample(
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


def _checked(key: Key, moved: Samples, problem: Problem) -> Report | str:
    """Say how wrong the draws are, in the coordinates that the chains move in, or why this cannot be told."""
    names = problem.names
    if problem.matrix is not None:
        names = tuple(f"direction {i}" for i in range(len(problem.matrix.T)))
    try:
        return check(key, moved, problem.posterior, problem.train, names=names)
    except ValueError as error:
        return str(error)


def _number(plan: Plan, experiment: Experiment) -> int:
    """The reference is run 0, methods are counted from 1: a method's draws do not depend on the reference."""
    return 0 if plan.method is None else 1 + experiment.methods.index(plan.method)


def _kernel(label: str, function: Callable[..., Kernel], problem: Problem, options: dict) -> Kernel:
    """Build a kernel and have it check its options against the data."""
    try:
        kernel = function(problem.posterior, **options)
        start = problem.start(jax.random.key(0)) if callable(problem.start) else problem.start
        kernel.check(start, problem.train)
        return kernel
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{label}: {error}") from error


def _kept(label: str, num_steps: int, burn_in: int, num_draws: int) -> tuple[int, int]:
    """Burn-in and thinning that keep at least `num_draws` draws, or every one where there are fewer."""
    if num_steps > MOST_STEPS:
        raise ConfigError(f"{label}: a run takes at most {MOST_STEPS} steps; got {num_steps}")
    if num_steps - burn_in < 1:
        raise ConfigError(f"{label}: {num_steps} steps keep no draw after a burn-in of {burn_in}")
    return burn_in, max(1, (num_steps - burn_in) // num_draws)
