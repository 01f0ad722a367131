"""An experiment, run: part after part, each kept as soon as it is there, then judged."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ewsg_jax.experiments.files import Folder, plain
from ewsg_jax.experiments.metrics import device, versions
from ewsg_jax.reproduction import draws, figures
from ewsg_jax.reproduction.claim import verdict_of
from ewsg_jax.reproduction.experiment import Experiment, Numbers, Parts
from ewsg_jax.reproduction.settings import RESULT, Scale, settings_of

PICTURE, UNFINISHED = "figure.png", "parts.json"


def run(experiment: Experiment, text: str, scale: Scale, folder: Folder, say: Callable[[str], None]) -> Numbers:
    """Run an experiment, or what is left of it, and write what came of it.

    Args:
        experiment: which.
        text: of its configuration.
        scale: of it.
        folder: where results go. What it holds of an earlier start with the same configuration is not run again.
        say: tells how far it is.

    Returns:
        What `result.json` holds.

    Raises:
        ConfigError: the configuration says something that cannot be run.
        OSError: data are missing, or a file cannot be written.
    """
    parts = experiment.parts(settings_of(experiment.settings, text, scale))
    begun = {"config": text, "scale": scale, "versions": versions()}
    done = _earlier(folder.path, begun)
    if done:
        say(f"{experiment.name}: goes on after {len(done)} of {len(parts)} parts")
    began, before = time.perf_counter(), len(done)
    for name, compute in parts.items():
        if name in done:
            continue
        started, made = time.perf_counter(), len(done) - before
        left = f", {(started - began) / made * (len(parts) - len(done)):.0f} s left" if made else ""
        say(f"{experiment.name}: {len(done) + 1} of {len(parts)} ({name}){left}")
        numbers = plain(compute(done))
        done[name] = numbers | {"seconds": round(time.perf_counter() - started, 1)}
        folder.write_json(UNFINISHED, begun | {"parts": done})
    result = told(experiment, done) | begun | {"device": device()}
    folder.write_json(RESULT, result)
    folder.write_bytes(PICTURE, pictured(experiment, done))
    (folder.path / UNFINISHED).unlink(missing_ok=True)
    return result


def pictured(experiment: Experiment, parts: Parts) -> bytes:
    """Return the figure of an experiment's numbers, PNG, with what `check` says of its draws."""
    return figures.png(experiment.draw(parts), draws.note(parts))


def told(experiment: Experiment, parts: Parts) -> dict[str, Any]:
    """Return what is said of an experiment's numbers."""
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
