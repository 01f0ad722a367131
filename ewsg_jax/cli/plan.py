"""One run of an experiment: its kernel and its steps, and what it gave."""

import dataclasses
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax

import ewsg_jax as ewsg
from ewsg_jax.base import limits
from ewsg_jax.base.typing import Data, Key
from ewsg_jax.cli import processes
from ewsg_jax.cli.answer import Judgement, judge
from ewsg_jax.cli.config import REFERENCE, Config, ConfigError, MethodConfig
from ewsg_jax.cli.console import Console, Exit
from ewsg_jax.cli.problem import Regression
from ewsg_jax.diagnostics import GradientNoise
from ewsg_jax.gradients._protocol import uses_batches
from ewsg_jax.rows._view import num_rows
from ewsg_jax.run.checkpoint import RUN_FILE
from ewsg_jax.run.request import steps_reaching, steps_within

DEFAULT_TOLERANCE = 0.05
"""Relative error of a standard deviation that a check tolerates by default, as `ewsg_jax.check`."""


NO_DRAW = Judgement(Exit.DOUBTFUL, "UNSURE: no draw was kept")


@dataclass(frozen=True)
class PlannedRun:
    """One run: its kernel, its steps and which of them are kept.

    `number` counts the methods from 1, and the reference is 0: a method's draws do not depend on
    the reference. `tolerance` is that of the check. A check decides by a run of `deciding_steps`,
    if these are known: it takes all draws if some do not show that they are right, and the run is
    made again with twice the steps and draws, as often as `doublings`. A shorter run is also made
    again if its draws are wrong, since its chains may not agree yet.
    """

    number: int
    method: MethodConfig
    kernel: ewsg.Kernel
    num_chains: int
    num_draws: int
    num_steps: int
    burn_in: int
    shared_minibatch: bool = False
    tolerance: float = DEFAULT_TOLERANCE
    deciding_steps: int = 0
    doublings: int = 0

    def __post_init__(self) -> None:
        if self.num_steps > limits.INT32_MAX:
            raise ConfigError(
                f"{self.label}: a run takes at most {limits.INT32_MAX} steps; got {self.num_steps}"
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

    def doubled(self) -> "PlannedRun":
        """Return the run of twice the steps and draws, or of those that decide."""
        steps = max(2 * self.num_steps, self.deciding_steps)
        more = {"num_steps": steps, "num_draws": 2 * self.num_draws}
        return dataclasses.replace(self, doublings=self.doublings - 1, **more)

    @property
    def thin(self) -> int:
        """Steps from one draw to the next: at least `num_draws` draws, or every one if there are
        fewer.
        """
        return max(1, (self.num_steps - self.burn_in) // self.num_draws)


class Job(NamedTuple):
    """What is run.

    Attributes:
        title: the title of the report.
        note: what to read it with.
        seed: the seed of all runs.
        config: the text of config.toml, by which a later start knows that it is the same.
        problem: the posterior and its rows.
        plans: the runs.
    """

    title: str
    note: str
    seed: int
    config: str
    problem: Regression
    plans: list[PlannedRun]


@dataclass(frozen=True, eq=False)
class Result:
    """What one run gave.

    If the run was interrupted before it kept a draw, only its plan and samples are there; without
    held-out rows `trajectory` is None.
    """

    plan: PlannedRun
    samples: ewsg.Samples
    summary: ewsg.diagnostics.Summary | None = None
    trajectory: ewsg.diagnostics.Trajectory | None = None
    noise: GradientNoise | None = None
    distance: ewsg.diagnostics.Distance | None = None
    judgement: Judgement = NO_DRAW


def plans_of(config: Config, problem: Regression) -> list[PlannedRun]:
    """Build every kernel and count every run's steps, so that what is wrong raises ConfigError
    before anything runs.
    """
    plans, run, long = [], config.run, config.reference
    if long is not None:
        options = {"step_size": long.step_size, "friction": long.friction}
        method = MethodConfig("uld", REFERENCE, options | {"integrator": "splitting"})
        of_run = (long.num_chains, long.num_draws, long.num_steps, long.burn_in)
        plans.append(PlannedRun(0, method, _kernel(method, problem), *of_run))
    for number, method in enumerate(config.named.values(), 1):
        kernel = _kernel(method, problem)
        try:
            steps = steps_of_passes(kernel, problem.train, run.data_passes, run.burn_in_passes)
        except ValueError as error:
            raise ConfigError(f"{method.label}: {error}") from error
        shared = run.shared_minibatch and uses_batches(kernel)
        plans.append(
            PlannedRun(number, method, kernel, run.num_chains, run.num_draws, *steps, shared)
        )
    return plans


def _kernel(method: MethodConfig, problem: Regression) -> ewsg.Kernel:
    """Build a kernel and have it check its options against the data."""
    build, options = ewsg.METHODS[method.name].build, dict(method.options)
    if problem.inverse_mass is not None:
        if "inverse_mass" not in inspect.signature(build).parameters:
            raise ConfigError(
                f"{method.label}: {method.name} has no mass, which model.coordinates = 'curvature' "
                "sets"
            )
        options.setdefault("inverse_mass", problem.inverse_mass)
    try:
        kernel = build(problem.posterior, **options)
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
    plan: PlannedRun,
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
    samples = _sampled(run_key, plan, problem, checkpoint, not console.is_quiet)
    if not samples.num_draws:
        return Result(plan, samples)
    with console.under_way("checking the draws"):
        judgement = _judged(check_key, samples, problem, plan)
    too_short = [Exit.DOUBTFUL] + [Exit.WRONG] * (plan.num_steps < plan.deciding_steps)
    if plan.doublings and judgement.status in too_short and not samples.interrupted:
        longer = plan.doubled()
        further = checkpoint.with_name(f"{checkpoint.name}, {longer.num_steps} steps")
        return execute(longer, seed, problem, reference, further, console)
    with console.under_way("judging the draws"):
        summary = ewsg.diagnostics.summary(samples, problem.names)
        compared = None if reference is None else reference.summary
        noise = GradientNoise(None, None, "no chain stayed finite")
        if samples.is_finite.any():
            noise = ewsg.diagnostics.gradient_noise(noise_key, kernel, samples, data)
        return Result(
            plan,
            samples,
            summary,
            None if problem.test is None else ewsg.diagnostics.trajectory(samples, problem.test),
            noise,
            None if compared is None else ewsg.diagnostics.distance(summary, compared),
            judgement,
        )


def _judged(key: Key, samples: ewsg.Samples, problem: Regression, plan: PlannedRun) -> Judgement:
    try:
        decides = plan.deciding_steps > 0
        return judge(key, samples, problem, plan.tolerance, every_draw=decides)
    except ValueError as error:
        return Judgement(Exit.DOUBTFUL, f"UNSURE: {error}")


def _sampled(
    key: Key, plan: PlannedRun, problem: Regression, checkpoint: Path, progress: bool
) -> ewsg.Samples:
    options: dict[str, Any] = {"mesh": processes.mesh(), "progress": progress}
    # A folder without it is of a run that was ended before its first checkpoint. The first process
    # decides for all: it may just have removed what another job left.
    if processes.as_the_first((checkpoint / RUN_FILE).exists()):
        try:
            return ewsg.resume(checkpoint, problem.train, kernel=plan.kernel, **options)
        except ValueError as error:
            raise ConfigError(
                f"{plan.label}: {error}: remove {checkpoint} to start this run again"
            ) from error
    checkpoint.parent.mkdir(parents=True, exist_ok=True)
    # What a kill loses at most, in seconds.
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
        checkpoint_every=30.0,
        **options,
    )


def steps_of_passes(
    kernel: ewsg.Kernel, data: Data, data_passes: float, burn_in_passes: float = 0.0
) -> tuple[int, int]:
    """Return the most steps within a number of passes over the data, and the fewest that reach
    those of a burn-in.

    Starts and refreshes count. Steps of a random cost, such as those of `flymc`, count with the
    most that they may cost.
    """
    n, cost = num_rows(data), kernel.evaluations(data)
    return steps_within(cost, n, data_passes), steps_reaching(cost, n, burn_in_passes)
