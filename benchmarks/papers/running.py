"""An experiment, run: part after part, each kept as soon as it is there, then judged.

Its configuration is `configs/papers/NAME.toml`, quick or full: the paper's size, or what of it was
run (`sizes.py`).
"""

import inspect
import json
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np

from benchmarks.papers.experiment import Experiment, Numbers, Parts, verdict_of
from benchmarks.papers.figures import png
from ewsg_jax.cli.config import build, from_toml, refuse_unknown
from ewsg_jax.cli.results import Folder, device, plain, versions

Scale = Literal["quick", "full"]
CONFIGS = Path(__file__).resolve().parents[2] / "configs"
"""Configurations of the papers, and stored results."""
SCALES: tuple[Scale, ...] = ("quick", "full")
RESULT = "result.json"
"""What an experiment's result is called in its folder."""
T = TypeVar("T")


def text_of(name: str) -> str:
    """Return the text of an experiment's configuration."""
    return (CONFIGS / "papers" / f"{name}.toml").read_text(encoding="utf-8")


def stored(name: str) -> dict[str, Any] | None:
    """Return the result of an experiment that is stored beside the configurations, None where there
    is none.
    """
    path = CONFIGS / "results" / name / RESULT
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def settings_of(kind: type[T], text: str, scale: Scale) -> T:
    """Return what a configuration says for a scale: its table `[full]`, in which `[quick]` replaces
    some values.

    Args:
        kind: a frozen dataclass of the values; a field `methods` takes the tables `[[methods]]` as
            they are.
        text: of the file.
        scale: which.

    Raises:
        ConfigError: the text is no TOML, or does not say what it should.
    """
    table = from_toml(text)
    refuse_unknown(table, ["full", "quick", "methods"], "")
    values: dict[str, Any] = {}
    for name in ("full", "quick") if scale == "quick" else ("full",):
        part = table.get(name, {})
        refuse_unknown(part, inspect.signature(kind).parameters, name)
        values |= part
    if "methods" in table:
        values["methods"] = table["methods"]
    return build(kind, values, "full")


PICTURE, UNFINISHED = "figure.png", "parts.json"


class TimeIsUpError(Exception):
    """The time that an experiment had is up before all its parts are made; those made are kept."""


def run(
    experiment: Experiment,
    text: str,
    scale: Scale,
    folder: Folder,
    say: Callable[[str], None],
    until: float = math.inf,
) -> Numbers:
    """Run an experiment, or what is left of it, and write what came of it.

    Args:
        experiment: which.
        text: of its configuration.
        scale: of it.
        folder: where results go. What it holds of an earlier start with the same configuration is
            not run again.
        say: reports the progress.
        until: the `time.monotonic()` after which no further part begins.

    Returns:
        What `result.json` holds.

    Raises:
        ConfigError: the configuration says something that cannot be run.
        OSError: data are missing, or a file cannot be written.
        TimeIsUpError: parts are left, and it is later than `until`.
    """
    parts = experiment.parts(settings_of(experiment.settings, text, scale))
    begun = {"config": text, "scale": scale, "versions": versions()}
    done = _earlier(folder.path, begun)
    if done:
        say(f"{experiment.name}: resumes after {len(done)} of {len(parts)} parts")
    began, before = time.perf_counter(), len(done)
    for name, compute in parts.items():
        if name in done:
            continue
        if time.monotonic() > until:
            left = [part for part in parts if part not in done]
            raise TimeIsUpError(f"{experiment.name}: left are {', '.join(left)}")
        started, made = time.perf_counter(), len(done) - before
        left = f", {(started - began) / made * (len(parts) - len(done)):.0f} s left" if made else ""
        say(f"{experiment.name}: {len(done) + 1} of {len(parts)} ({name}){left}")
        numbers = plain(compute(done))
        done[name] = numbers | {"seconds": round(time.perf_counter() - started, 1)}
        folder.write(UNFINISHED, begun | {"parts": done})
    result = judged(experiment, done) | begun | {"device": device()}
    folder.write(RESULT, result)
    folder.write(PICTURE, pictured(experiment, done))
    (folder.path / UNFINISHED).unlink(missing_ok=True)
    return result


def pictured(experiment: Experiment, parts: Parts) -> bytes:
    """Return the figure of an experiment's numbers, PNG, with what `check` says of its draws."""
    return png(experiment.draw(parts), note(parts))


def judged(experiment: Experiment, parts: Parts) -> dict[str, Any]:
    """Return the verdicts on an experiment's numbers, with these."""
    claims = experiment.claims(parts)
    return {
        "experiment": experiment.name,
        "source": experiment.source,
        "verdict": verdict_of(claims),
        "claims": [
            {"claim": each.words, "verdict": each.verdict, "share": each.share, "shown": each.shown}
            | ({} if each.by_the_paper else {"beside": True})
            for each in claims
        ],
        "seconds": round(sum(part["seconds"] for part in parts.values()), 1),
        "evaluations": sum(part.get("evaluations", 0) for part in parts.values()),
        "parts": parts,
    }


def _earlier(folder: Path, begun: dict[str, Any]) -> dict[str, Numbers]:
    """Return the parts of an earlier start with the same configuration, on the same versions."""
    path = folder / UNFINISHED
    if not path.is_file():
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))
    return found["parts"] if all(found.get(name) == value for name, value in begun.items()) else {}


# What `check` says of the draws stands under the figure: the papers compare predictions, which hide
# it.

KINDS = {
    "paper": "at the paper's steps",
    "tuned": "at tuned steps",
    "log-normal": "log-normal likelihood",
    "normal": "normal likelihood",
}
"""What the runs of a method may be of; `""` where there is one kind."""

START = (
    "Draws against the posterior, by check: runs that are right, and their worst sd over the "
    "posterior's (median)"
)


def found(parts: Parts) -> dict[str, dict[str, list[Numbers]]]:
    """Return what was said of the runs of each method, by kind: of data sets, of repeats."""
    checks: dict[str, dict[str, list[Numbers]]] = {}
    for path, each in _checks(parts, ()):
        kind = next((name for name in path if name in KINDS), "")
        label = [name for name in path if name not in KINDS][-1]
        checks.setdefault(kind, {}).setdefault(label, []).append(each)
    return checks


def note(parts: Parts) -> str:
    """Return it in words, a line for each kind; none where no draws were checked."""
    lines = []
    for kind, methods in found(parts).items():
        each = "; ".join(f"{label}: {_in_words(checks)}" for label, checks in methods.items())
        lines.append(f"{KINDS[kind]}: {each}" if kind else each)
    return "\n".join([START, *lines]) if lines else ""


def _in_words(checks: list[Numbers]) -> str:
    right = sum(each["outcome"] == "right" for each in checks)
    ratios = [each["sd_ratio"] for each in checks if each.get("sd_ratio") is not None]
    return f"{right} of {len(checks)}" + (f", × {np.median(ratios):.3g}" if ratios else "")


def _checks(part: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Numbers]]:
    """Yield what was said under each place of a tree of numbers."""
    if isinstance(part, dict):
        if isinstance(part.get("check"), dict) and "outcome" in part["check"]:
            yield path, part["check"]
        for name, below in part.items():
            yield from _checks(below, (*path, name))
    elif isinstance(part, list):
        for below in part:
            yield from _checks(below, path)
