"""`python -m ewsg_jax check RUN`: whether draws that were written can be believed."""

from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax import _check
from ewsg_jax._types import PyTree
from ewsg_jax.experiments import planned as of_plan
from ewsg_jax.experiments import problem as of_run
from ewsg_jax.experiments.answer import judge
from ewsg_jax.experiments.config import Config, ConfigError, build, from_toml, one_of
from ewsg_jax.experiments.console import Console
from ewsg_jax.experiments.plan import TOLERANCE, keys_of, plans_of
from ewsg_jax.experiments.planned import NAME, Asked
from ewsg_jax.experiments.problem import Regression
from ewsg_jax.experiments.run import CONFIG, DRAWS


class Drawn(NamedTuple):
    """The draws of one run: positions of its chains, or what `ewsg_jax.load` returned.

    `number` is for the key of its check; whether chains share their batches, what was loaded says
    itself (None).
    """

    draws: PyTree
    number: int = 1
    shared_minibatch: bool | None = None


class Written(NamedTuple):
    """Runs that were written, by their labels; their posterior; seed and tolerance of checks."""

    problem: Regression
    runs: dict[str, Drawn]
    seed: int
    tolerance: float


def check(
    run: Path,
    asked: Asked | None,
    console: Console,
    label: str | None = None,
    max_draws: int | None = None,
) -> int:
    """Check draws that were written, print what is found, and return the exit status of the worst.

    `run` is a folder that `run` or `plan` wrote, of which one run may be chosen by its label; or a
    file that `Samples.save` wrote, which `asked` gives the rows and the model.
    """
    if run.name == DRAWS and (run.parent / CONFIG).is_file():
        run = run.parent
    if not run.exists():
        raise ConfigError(f"RUN must be a folder or a file; there is no {run}")
    if run.is_dir() and asked is not None:
        raise ConfigError(f"--data is for a file of a run; the folder {run} has its own {CONFIG}")
    written = _of_folder(run) if run.is_dir() else _of_file(run, asked)
    if label is not None:
        one_of("--run", label, list(written.runs))
    labels = list(written.runs) if label is None else [label]
    return max(_judge(written, each, console, max_draws) for each in labels)


def _judge(written: Written, label: str, console: Console, max_draws: int | None) -> int:
    """Judge one run, print what is found, and return the exit status."""
    run = written.runs[label]
    options = {"max_draws": max_draws, "shared_minibatch": run.shared_minibatch}
    key = keys_of(written.seed, run.number)[2]
    try:
        with console.under_way(f"checking {label}"):
            found = judge(key, run.draws, written.problem, written.tolerance, **options)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{label}: {error}") from error
    console.answer(f"{label}: {found.words}")
    if found.report is not None:
        console.say(f"{found.report}\n")
    return found.status


def _of_folder(folder: Path) -> Written:
    for name in (CONFIG, DRAWS):
        if not (folder / name).is_file():
            raise ConfigError(
                f"{folder} must be a folder that run or plan --output wrote; it has no {name}"
            )
    table = from_toml((folder / CONFIG).read_text(encoding="utf-8"))
    try:
        with np.load(folder / DRAWS) as arrays:
            draws = dict(arrays)
    except (EOFError, OSError, ValueError) as error:
        raise ConfigError(f"{folder / DRAWS} cannot be read: {_check.reason(error)}") from error
    if NAME in table:
        asked, problem = of_plan.prepare(of_plan.asked_of(table[NAME]))
        runs = {NAME: Drawn(None, 1, False)}
        seed, tolerance = asked.seed, asked.tolerance
    else:
        config = build(Config, table)
        problem, seed, tolerance = of_run.prepare(config), config.run.seed, TOLERANCE
        plans = plans_of(config, problem)
        runs = {plan.label: Drawn(None, plan.number, plan.shared_minibatch) for plan in plans}
    kept = {
        label: run._replace(draws=jnp.asarray(draws[label]))
        for label, run in runs.items()
        if label in draws and draws[label].shape[1]
    }
    if not kept:
        raise ConfigError(f"{folder / DRAWS} must hold draws; the run was interrupted before any")
    return Written(problem, kept, seed, tolerance)


def _of_file(path: Path, asked: Asked | None) -> Written:
    if asked is None:
        raise ConfigError(
            f"{path} must be a folder that run or plan --output wrote; for a file that "
            "samples.save wrote, give its rows and model by --data and --model"
        )
    asked, problem = of_plan.prepare(asked)
    try:
        samples = ewsg.load(path)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(samples, ewsg.Samples):
        raise ConfigError(f"{path} must hold one run; it holds a stack of runs")
    return Written(problem, {path.stem: Drawn(samples)}, asked.seed, asked.tolerance)
