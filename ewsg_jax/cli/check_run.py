"""`python -m ewsg_jax check RUN`: whether draws that were written can be believed."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from ewsg_jax.base import checks
from ewsg_jax.base.typing import Array, PyTree
from ewsg_jax.cli import data_file
from ewsg_jax.cli.answer import judge
from ewsg_jax.cli.arguments import PlanArguments
from ewsg_jax.cli.config import Config, ConfigError, build, from_toml
from ewsg_jax.cli.console import Console
from ewsg_jax.cli.data_file import is_file
from ewsg_jax.cli.places import find
from ewsg_jax.cli.plan import DEFAULT_TOLERANCE, keys_of, plans_of
from ewsg_jax.cli.plan_data import NAME, arguments_of
from ewsg_jax.cli.problem import Regression, of_config, prepare
from ewsg_jax.cli.run import CONFIG, RUN_DRAWS_FILE
from ewsg_jax.kernels.protocol import temperature_of


class Written(NamedTuple):
    """Runs that were written, by their labels; their posterior; seed and tolerance of checks.

    A run is four things: its draws (positions, or what `ewsg_jax.load` returned); its number, from
    which the key of the check is made; whether its chains share their batches, and its temperature
    (both None if the loaded run says so itself).
    """

    problem: Regression
    runs: Mapping[str, tuple[PyTree, int, bool | None, float | None]]
    seed: int
    tolerance: float


def check(
    run: Path,
    arguments: PlanArguments | None,
    console: Console,
    label: str | None = None,
    data: str | None = None,
    max_draws: int | None = None,
) -> int:
    """Check draws that were written, print what is found, and return the exit status of the worst.

    `run` is a folder that `run` or `plan` wrote, of which one run may be chosen by its label; or a
    file that `Samples.save` wrote, which `arguments` give the rows and the model. `data` is the
    place of a folder's rows, if it is another one now.
    """
    if not run.exists():
        raise ConfigError(f"RUN must be a folder or a file; there is no {run}")
    if run.is_dir() and arguments is not None:
        raise ConfigError(f"--model is for a file of a run; the folder {run} has its own {CONFIG}")
    written = _of_folder(run, data) if run.is_dir() else _of_file(run, arguments)
    if label is not None:
        checks.one_of("--run", label, list(written.runs))
    statuses = []
    for name in written.runs if label is None else [label]:
        draws, number, shared, temperature = written.runs[name]
        options = {"max_draws": max_draws, "shared_minibatch": shared, "temperature": temperature}
        # As plan judges its run.
        options["every_draw"] = name == NAME and max_draws is None
        key = keys_of(written.seed, number)[2]
        with console.under_way(f"checking {name}"):
            try:
                judgement = judge(key, draws, written.problem, written.tolerance, **options)
            except ValueError as error:
                raise ConfigError(f"{run}: {name}: {error}") from error
        console.answer(f"{name}: {judgement.words}")
        if judgement.report is not None:
            console.say(f"{judgement.report}\n")
        statuses.append(judgement.status)
    return max(statuses)


def _of_folder(folder: Path, data: str | None) -> Written:
    for name in (CONFIG, RUN_DRAWS_FILE):
        if not (folder / name).is_file():
            raise ConfigError(
                f"{folder} must be a folder that run or plan --output wrote; it has no {name}"
            )
    table = from_toml((folder / CONFIG).read_text(encoding="utf-8"))
    with data_file.reading(folder / RUN_DRAWS_FILE) as arrays:
        draws = dict(arrays)
    if NAME in table:
        asked = arguments_of(table[NAME])
        # Versions before took every column of a table for a feature.
        asked = dataclasses.replace(asked, every_column="keep" not in table[NAME])
        if data is not None or is_file(asked.data):
            place = data or find(asked.data, asked.checksum, folder)
            asked = dataclasses.replace(asked, data=str(place))
        arguments, problem = prepare(asked)
        runs, seed, tolerance = {NAME: (1, False, 1.0)}, arguments.seed, arguments.tolerance
    else:
        config = build(Config, table)
        problem, seed, tolerance = of_config(config), config.run.seed, DEFAULT_TOLERANCE
        plans = plans_of(config, problem)
        runs = {
            plan.label: (
                plan.number,
                plan.shared_minibatch,
                float(temperature_of(plan.kernel)(jnp.int32(plan.num_steps))),
            )
            for plan in plans
        }
    kept = {
        label: (jnp.asarray(draws[label]), *how)
        for label, how in runs.items()
        if label in draws and draws[label].shape[1]
    }
    if not kept:
        raise ConfigError(
            f"{folder / RUN_DRAWS_FILE} must hold draws; the run was interrupted before any"
        )
    return Written(problem, kept, seed, tolerance)


def _of_file(path: Path, arguments: PlanArguments | None) -> Written:
    if arguments is None:
        raise ConfigError(
            f"{path} must be a folder that run or plan --output wrote; for a file that "
            "samples.save wrote, give its rows and model by --data and --model"
        )
    arguments, problem = prepare(arguments)
    samples = ewsg.load(path)
    if not samples.keeps_positions:
        raise ConfigError(f"{path} must hold draws of positions; its run kept something else")
    shape = jax.tree.map(lambda leaf: leaf.shape[2:], samples.position)
    # Such rows start at zero, an array.
    wanted = jnp.shape(cast(Array, problem.start))
    if shape != wanted:
        raise ConfigError(
            f"{path} must hold draws of shape {wanted}, as weights of {arguments.data} "
            f"have ({data_file.shown(problem.names)}); it has {shape}: --response, --drop, "
            "--intercept and --model must be those of the run"
        )
    run = samples, 1, None, None
    return Written(problem, {path.stem: run}, arguments.seed, arguments.tolerance)
