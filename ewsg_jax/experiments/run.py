"""The whole of an experiment of the command line: read, prepare, run each method, print, write."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ewsg_jax.experiments import figures, processes, report
from ewsg_jax.experiments.config import Config, ConfigError, load
from ewsg_jax.experiments.plan import Plan, Result, execute, plans_of
from ewsg_jax.experiments.problem import Regression, prepare
from ewsg_jax.experiments.results import Folder


def run(path: Path, output: Path, seed: int | None, say: Callable[[str], None]) -> bool:
    """Run a configuration and write its results; return whether an interrupt ended it early.

    What is wrong is found before anything runs. An earlier run of the same configuration, of which
    the folder holds checkpoints, is resumed. Of several processes the first one prints and writes.

    Args:
        path: the TOML file.
        output: the folder that results go to.
        seed: replaces the file's `run.seed`.
        say: prints a part of the report.

    Raises:
        ConfigError: the configuration has something that cannot be run.
        OSError, ImportError: a file, a folder or a package is missing or not as it must be.
    """
    config, text, problem, plans = _ready(path, seed)
    folder, checkpoints = Folder(output), output / "checkpoints"
    resumes = processes.as_the_first(
        folder.read_text("config.toml") == text and checkpoints.exists()
    )
    if processes.is_first():
        if not resumes:
            # Those of another configuration.
            shutil.rmtree(checkpoints, ignore_errors=True)
        folder.write("config.toml", text)
    results: list[Result] = []
    said: list[str] = []
    interrupted = False

    def tell(text: str) -> None:
        said.append(text)
        if processes.is_first():
            say(text)

    tell(report.opening(config, problem))
    if resumes:
        tell(f"\nresumes from {checkpoints}/, left by an earlier start")
    try:
        for plan in plans:
            reference = results[0] if results and results[0].plan.number == 0 else None
            results.append(execute(plan, config, problem, reference, checkpoints / plan.label))
            interrupted = results[-1].samples.interrupted
            tell("\n" + report.section(results[-1]))
            _write(folder, config, problem, results, interrupted)
            if interrupted:
                break
    except KeyboardInterrupt:
        interrupted = True
    if results:
        tell("\n" + report.table(results))
    if interrupted:
        tell(
            f"\ninterrupted: what follows is missing; the same command resumes from {checkpoints}/"
        )
    tell(f"\nwritten to {output}/")
    _write(folder, config, problem, results, interrupted)
    if processes.is_first():
        drawn = [result for result in results if result.trajectory is not None]
        for draw in (figures.traces, figures.marginals, figures.held_out) if drawn else ():
            folder.write(f"{draw.__name__}.png", draw(drawn))
        folder.write("report.txt", "\n".join(said) + "\n")
        if not interrupted:
            shutil.rmtree(checkpoints, ignore_errors=True)
    return interrupted


def _ready(path: Path, seed: int | None) -> tuple[Config, str, Regression, list[Plan]]:
    """Return the configuration, its text, its problem and its runs."""
    config, text = load(path, seed)
    figures.require_matplotlib("python -m ewsg_jax run")
    try:
        problem = prepare(config)
        return config, text, problem, plans_of(config, problem)
    except (TypeError, ValueError) as error:
        raise ConfigError(str(error)) from error


def _write(
    folder: Folder, config: Config, problem: Regression, results: list[Result], interrupted: bool
) -> None:
    """Write numbers and draws, after each run."""
    if not processes.is_first():
        return
    arrays: dict[str, np.ndarray] = {"names": np.array(problem.names)}
    for result in results:
        arrays[result.plan.label] = result.samples.position
        arrays[f"{result.plan.label}.data_passes"] = (
            result.samples.evaluations / result.samples.num_data
        )
    folder.write("draws.npz", arrays)
    folder.write("metrics.json", report.metrics(config, problem, results, interrupted))
