"""The whole of an experiment of the command line: read, prepare, run each method, print, write."""

import io
import json
import shutil
from pathlib import Path

import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.base import checks
from ewsg_jax.cli import processes, report
from ewsg_jax.cli.config import PASSES, UNSCALED, ConfigError, is_same, load
from ewsg_jax.cli.console import Console, Exit
from ewsg_jax.cli.page import page
from ewsg_jax.cli.plan import Job, Result, execute, plans_of
from ewsg_jax.cli.problem import of_config
from ewsg_jax.cli.results import Folder, file_name

CONFIG, RUN_DRAWS_FILE, METRICS = "config.toml", "draws.npz", "metrics.json"
REPORT, FIGURE, PAGE = "report.txt", "check-{}.png", "report.html"
"""Files of a folder of results."""


def run(path: Path, output: Path, seed: int | None, console: Console) -> int:
    """Run a configuration and write its results; return the exit status.

    What is wrong is found before anything runs. A seed replaces the file's `run.seed`.
    """
    config, text = load(path, seed)
    problem = of_config(config)
    plans = plans_of(config, problem)
    job = Job(config.title, config.note, config.run.seed, text, problem, plans)
    # Methods that are wrong may be what is compared.
    status = carry_out(job, Folder(output), console)
    return Exit.INTERRUPTED if status == Exit.INTERRUPTED else Exit.OK


def carry_out(job: Job, folder: Folder, console: Console) -> int:
    """Make all runs and write their results; return the exit status of the worst, or of an
    interrupt.

    If the folder holds checkpoints of an earlier start of the same job, that is resumed. The first
    of several processes prints and writes.
    """
    say = console.say if processes.is_first() else lambda text: None
    results: list[Result] = []
    checkpoints, interrupted = folder.path / "checkpoints", False
    say(report.opening(job.title, job.note, job.problem))
    if _resumes(job, folder, checkpoints):
        say(f"\nresumes from {checkpoints}/, left by an earlier start")
    try:
        for number, plan in enumerate(job.plans, 1):
            if len(job.plans) > 1:
                console.stage(f"{plan.label}, run {number} of {len(job.plans)}")
            reference = results[0] if results and results[0].plan.number == 0 else None
            kept = checkpoints / file_name(plan.label)
            try:
                results.append(execute(plan, job.seed, job.problem, reference, kept, console))
            except ConfigError:
                raise
            except ValueError as error:
                raise ConfigError(f"{plan.label}: {error}") from error
            interrupted = results[-1].samples.interrupted
            say("\n" + report.section(results[-1], job.problem))
            _write(folder, job, results, interrupted)
            if interrupted:
                break
    except KeyboardInterrupt:
        interrupted = True
    if processes.is_first():
        _end(folder, job, results, interrupted, console)
        if not interrupted:
            shutil.rmtree(checkpoints, ignore_errors=True)
    worst = max((result.judgement.status for result in results), default=Exit.DOUBTFUL)
    return Exit.INTERRUPTED if interrupted else worst


def _resumes(job: Job, folder: Folder, checkpoints: Path) -> bool:
    """Return whether an earlier start of this job left checkpoints; what another job wrote is
    removed.
    """
    before = folder.read_text(CONFIG)
    same = is_same(before, job.config)
    resumes = processes.as_the_first(same and checkpoints.exists())
    if processes.is_first():
        if not resumes:
            shutil.rmtree(checkpoints, ignore_errors=True)
        # Else its draws would stand beside this job's configuration until a run has ended.
        if before is not None and not same:
            labels = [*_labels_before(folder), *(plan.label for plan in job.plans)]
            for name in (*map(_figure, labels), RUN_DRAWS_FILE, METRICS, REPORT, PAGE):
                (folder.path / name).unlink(missing_ok=True)
        folder.write(CONFIG, job.config)
    return resumes


def _labels_before(folder: Folder) -> list[str]:
    """Return what the runs are called of which the folder has numbers."""
    try:
        return [*map(str, json.loads(folder.read_text(METRICS) or "{}").get("runs", {}))]
    except (AttributeError, TypeError, ValueError):
        return []  # Somebody else's file.


def _figure(label: str) -> str:
    return FIGURE.format(file_name(label))


def _end(
    folder: Folder, job: Job, results: list[Result], interrupted: bool, console: Console
) -> None:
    """Print what all runs come to, and write the report."""
    resumes = f"the same command resumes from {folder.path / 'checkpoints'}/"
    if not results:
        # What an earlier start may have written stays as it is.
        console.answer(f"interrupted before a run ended: {resumes}")
        return
    _write(folder, job, results, interrupted)
    console.say(f"\n{report.table(results)}\n" if len(results) > 1 else "")
    for result in results:
        console.answer(f"{result.plan.label}: {result.judgement.words}")
    if interrupted:
        console.say(f"\ninterrupted: {resumes}")
    console.say(f"\nwritten to {_shown(folder.path)}/")
    _write_report(folder, console)
    try:
        missing = [line for result in results if (line := _not_drawn(folder, result))]
    except ImportError as error:
        missing = [f"no figures: {error}"]
    if missing:
        console.say("\n".join(missing))
        _write_report(folder, console)


def _write_report(folder: Folder, console: Console) -> None:
    """Write what was printed, without the folder's own place, which names somebody's home."""
    text = "\n".join(console.said) + "\n"
    folder.write(REPORT, text.replace(f"{folder.path}/", f"{_shown(folder.path)}/"))


def _shown(path: Path) -> str:
    """Return a path as it was given, or its last part if it begins at the root."""
    return path.name if path.is_absolute() else str(path)


def _not_drawn(folder: Folder, result: Result) -> str:
    """Draw the check of a run; return why that cannot be, in a line, and else nothing."""
    if result.judgement.report is None:
        return ""
    image = io.BytesIO()
    try:
        result.judgement.report.plot().savefig(image, format="png")
        folder.write(_figure(result.plan.label), image.getvalue())
    except ImportError:
        raise
    except Exception as error:
        # The run is made and its report written: no picture is worth an error then.
        return f"no figure of {result.plan.label}: {checks.reason(error)}"
    return ""


def _write(folder: Folder, job: Job, results: list[Result], interrupted: bool) -> None:
    """Write numbers and draws, after each run."""
    if not processes.is_first():
        return
    arrays: dict[str, np.ndarray] = {"names": np.array(job.problem.names)}
    original = job.problem.original
    if original is not None:
        arrays["unscaled names"] = np.array(original.names)
    for result in results:
        label, draws = result.plan.label, draws_of(result.samples)
        arrays[label] = draws
        arrays[f"{label}{PASSES}"] = result.samples.evaluations / result.samples.num_data
        if original is not None:
            arrays[f"{label}{UNSCALED}"] = original.of(draws)
    folder.write(RUN_DRAWS_FILE, arrays)
    folder.write(METRICS, report.metrics(job, results, interrupted))
    for result in results:
        has_draws = result.summary is not None and result.samples.is_finite.any()
        if job.problem.meaning is not None and has_draws:
            folder.write(PAGE, page(job, result))


def draws_of(samples: ewsg.Samples) -> np.ndarray:
    """Return draws (chain, draw, …), NaN from the step on at which a chain diverged.

    If that step is after the last draw, as it may be for a chain that blew up, that draw is NaN.
    """
    draws, at = np.asarray(samples.position), samples.diverged_at[:, None]
    gone = (at >= 0) & (samples.step >= np.minimum(at, samples.step[-1:]))
    return np.where(gone.reshape(*gone.shape, *[1] * (draws.ndim - 2)), np.nan, draws)
