"""The whole of an experiment of the command line: read, prepare, run each method, print, write."""

import dataclasses
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ewsg_jax.experiments import figures, processes, report
from ewsg_jax.experiments.config import Config, load
from ewsg_jax.experiments.plan import Plan, Result, execute, plans_of
from ewsg_jax.experiments.problem import Regression, prepare
from ewsg_jax.experiments.results import Folder


@dataclass(frozen=True, eq=False)
class Prepared:
    """A configuration that is ready to run; `resumes` where an earlier run of it left checkpoints."""

    config: Config
    problem: Regression
    plans: list[Plan]
    folder: Folder
    resumes: bool

    @property
    def checkpoints(self) -> Path:
        """Where runs are saved as they go."""
        return self.folder.path / "checkpoints"


def make_ready(path: Path, output: Path | None = None, seed: int | None = None) -> Prepared:
    """Read a configuration, load its data, build its kernels, and make its output folder.

    Args:
        path: the TOML file.
        output: the folder that results go to. Default: `results/` and the file's name.
        seed: replaces the file's `run.seed`.

    Raises:
        ConfigError: the configuration says something that cannot be run.
        OSError, ImportError, ValueError: a file, a folder or a package is missing or not as it must be.
    """
    config, text = load(path, seed)
    figures.require_matplotlib("python -m ewsg_jax run")
    problem = prepare(config)
    plans = plans_of(config, problem)
    folder = Folder(output if output is not None else Path("results") / path.stem)
    prepared = Prepared(config, problem, plans, folder, False)
    resumes = folder.read_text("config.toml") == text and prepared.checkpoints.exists()
    if processes.is_first():
        folder.write_text("config.toml", text)
        if not resumes:
            # Those of another configuration.
            shutil.rmtree(prepared.checkpoints, ignore_errors=True)
    return dataclasses.replace(prepared, resumes=processes.as_the_first(resumes))


def run(prepared: Prepared, say: Callable[[str], None]) -> bool:
    """Run, print each part as it is ready, and write the files; return whether an interrupt ended it early.

    Of several processes the first one prints and writes.
    """
    results: list[Result] = []
    said: list[str] = []
    interrupted = False

    def tell(text: str) -> None:
        said.append(text)
        if processes.is_first():
            say(text)

    tell(report.opening(prepared.config, prepared.problem))
    if prepared.resumes:
        tell(f"\nresumes from {prepared.checkpoints}/, left by an earlier start")
    try:
        for plan in prepared.plans:
            reference = results[0] if results and results[0].plan.number == 0 else None
            checkpoint = prepared.checkpoints / plan.label
            results.append(execute(plan, prepared.config, prepared.problem, reference, checkpoint))
            interrupted = results[-1].samples.interrupted
            tell("\n" + report.section(results[-1]))
            _write(prepared, results, interrupted)
            if interrupted:
                break
    except KeyboardInterrupt:
        interrupted = True
    if results:
        tell("\n" + report.table(results))
    if interrupted:
        tell(f"\ninterrupted: what follows is missing; the same command resumes from {prepared.checkpoints}/")
    tell(f"\nwritten to {prepared.folder.path}/")
    _write(prepared, results, interrupted)
    if processes.is_first():
        drawn = [result for result in results if result.trajectory is not None]
        for draw in (figures.traces, figures.marginals, figures.held_out) if drawn else ():
            prepared.folder.write_bytes(f"{draw.__name__}.png", draw(drawn))
        prepared.folder.write_text("report.txt", "\n".join(said) + "\n")
        if not interrupted:
            shutil.rmtree(prepared.checkpoints, ignore_errors=True)
    return interrupted


def _write(prepared: Prepared, results: list[Result], interrupted: bool) -> None:
    """Write numbers and draws, after each run."""
    if not processes.is_first():
        return
    arrays: dict[str, np.ndarray] = {"names": np.array(prepared.problem.names)}
    for result in results:
        arrays[result.plan.label] = result.samples.position
        arrays[f"{result.plan.label}.data_passes"] = result.samples.evaluations / result.samples.num_data
    prepared.folder.write_arrays("draws.npz", arrays)
    content = report.metrics(prepared.config, prepared.problem, results, interrupted)
    prepared.folder.write_json("metrics.json", content)
