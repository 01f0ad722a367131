"""The whole of an experiment: read, prepare, run, print, write."""

import dataclasses
import re
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ewsg_jax.experiments import figures, processes, report
from ewsg_jax.experiments.config import ConfigError, Experiment, load, parse
from ewsg_jax.experiments.files import Folder
from ewsg_jax.experiments.logistic import REFERENCE, Plan, Result, execute, plan
from ewsg_jax.experiments.metrics import metrics
from ewsg_jax.experiments.problem import Problem, prepare


@dataclasses.dataclass(frozen=True, eq=False)
class Prepared:
    """An experiment that is ready to run.

    Attributes:
        experiment: as its file says.
        problem: the posterior and its data.
        plans: its runs.
        folder: where results go, and checkpoints until all is done.
        goes_on: whether a run of this very configuration was ended there before its time.
    """

    experiment: Experiment
    problem: Problem
    plans: list[Plan]
    folder: Folder
    goes_on: bool

    @property
    def checkpoints(self) -> Path:
        """Where runs are written down as they go."""
        return self.folder.path / "checkpoints"


def make_ready(path: Path, output: Path | None = None, seed: int | None = None) -> Prepared:
    """Read a configuration, make its output folder, load its data and build its kernels.

    Where something is wrong, nothing is written and a folder made for the output is removed again.

    Args:
        path: the TOML file.
        output: the folder that results go to. Default: `results/` and the file's name.
        seed: instead of the file's `run.seed`.

    Raises:
        ConfigError: the configuration says something that cannot be run.
        OSError, ImportError, ValueError: a file, a folder or a package is not there or not as it must be.
    """
    experiment, text = load(path)
    if seed is not None:
        text = with_seed(text, seed)
        experiment = parse(text)
    folder = Folder(output if output is not None else Path("results") / path.stem)
    try:
        figures.require_matplotlib("python -m ewsg_jax run")
        problem = prepare(experiment)
        plans = plan(experiment, problem)
        before = folder.read_text("config.toml")
        goes_on = before == text and (folder.path / "checkpoints").exists()
        if processes.is_first():
            folder.write_text("config.toml", text)
    except BaseException:
        folder.discard()
        raise
    prepared = Prepared(experiment, problem, plans, folder, goes_on)
    if not goes_on and processes.is_first():
        # Of another configuration.
        shutil.rmtree(prepared.checkpoints, ignore_errors=True)
    return dataclasses.replace(prepared, goes_on=processes.as_the_first(goes_on))


def run(prepared: Prepared, say: Callable[[str], None]) -> bool:
    """Run, print each part as it is ready, and write the files; return whether an interrupt ended it early.

    Of several processes the first one prints and writes.
    """
    experiment, problem = prepared.experiment, prepared.problem
    told: list[str] = []

    def tell(text: str) -> None:
        told.append(text)
        if processes.is_first():
            say(text)

    tell(report.opening(experiment, problem))
    if prepared.goes_on:
        tell(f"\ngoes on with what {prepared.checkpoints}/ holds of an earlier start")
    results: list[Result] = []
    interrupted = False
    try:
        for each in prepared.plans:
            reference = next((result for result in results if result.plan.label == REFERENCE), None)
            checkpoint = prepared.checkpoints / each.label
            result = execute(each, experiment, problem, reference, checkpoint)
            results.append(result)
            tell("\n" + report.section(result, problem.test["y"].shape[0]))
            _write_numbers(prepared, results, result.samples.interrupted)
            if result.samples.interrupted:
                interrupted = True
                break
    except KeyboardInterrupt:
        interrupted = True
    if results:
        tell("\n" + report.table(results))
    if interrupted:
        tell("\ninterrupted: what follows is missing")
    _write_numbers(prepared, results, interrupted)
    _write_figures(prepared, results)
    if interrupted:
        tell(f"the same command goes on with what {prepared.checkpoints}/ holds")
    elif processes.is_first():
        shutil.rmtree(prepared.checkpoints, ignore_errors=True)
    tell(f"\nwritten to {prepared.folder.path}/")
    if processes.is_first():
        prepared.folder.write_text("report.txt", "\n".join(told) + "\n")
    return interrupted


def with_seed(text: str, seed: int) -> str:
    """Return the text of a configuration with another `run.seed`, comments kept.

    Raises:
        ConfigError: the text is no TOML, or its table `[run]` is not written as one.
    """
    parse(text)
    wanted = tomllib.loads(text)
    wanted["run"]["seed"] = seed
    header = re.search(r"(?m)^[ \t]*\[run\].*$", text)
    if header is not None:
        body, *others = re.split(r"(?m)^(?=[ \t]*\[)", text[header.end() :], maxsplit=1)
        body = re.sub(r"(?m)^[ \t]*seed[ \t]*=.*\n?", "", body)
        changed = f"{text[: header.end()]}\nseed = {seed}{body}{''.join(others)}"
        try:
            if tomllib.loads(changed) == wanted:
                return changed
        except tomllib.TOMLDecodeError:
            pass
    raise ConfigError("--seed needs a table [run] of plain lines to set its seed in")


def _write_numbers(prepared: Prepared, results: list[Result], interrupted: bool) -> None:
    if not processes.is_first():
        return
    content = metrics(prepared.experiment, prepared.problem, results, interrupted)
    prepared.folder.write_json("metrics.json", content)
    arrays: dict[str, np.ndarray] = {"names": np.array(prepared.problem.names)}
    for result in results:
        arrays[result.plan.label] = result.samples.position
        arrays[f"{result.plan.label}.data_passes"] = result.samples.evaluations / result.samples.num_data
    prepared.folder.write_arrays("draws.npz", arrays)


def _write_figures(prepared: Prepared, results: list[Result]) -> None:
    drawn = [result for result in results if result.trajectory is not None]
    if not drawn or not processes.is_first():
        return
    for name, draw in (
        ("traces.png", figures.traces),
        ("marginals.png", figures.marginals),
        ("held_out.png", figures.held_out),
    ):
        prepared.folder.write_bytes(name, draw(prepared.experiment, drawn))
