"""Which settings of `ewsg_jax.answers` matter: `docs/settings.md`.

    python -m benchmarks.answers.settings_sweep check plan mode forecast halve
    python -m benchmarks.pages.settings

The tables have the settings that change what is said of a case, or its time by a tenth, when they
are doubled or halved.
"""

import importlib
import json
from pathlib import Path
from typing import Any

from benchmarks.answers.settings_cases import CASES
from benchmarks.answers.settings_sweep import FACTORS, RESULT, SLOWER, numeric
from benchmarks.pages.generated import as_table, renewed

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
SHOWN = 3
"""Cases that a cell names."""


def load() -> dict[str, dict[str, Any]]:
    """Return what the sweep measured of the settings that there are, by room."""
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    return {
        room: {name: result[room][name] for name in sorted(names_of(room) & result[room].keys())}
        for room in CASES
        if room in result
    }


def names_of(room: str) -> set[str]:
    """Return the names of a room's settings that are numbers."""
    settings = vars(importlib.import_module(f"ewsg_jax.answers.{room}.settings"))
    return {name for name, value in settings.items() if name.isupper() and numeric(value)}


def effect(part: dict[str, Any]) -> str:
    """Return which cases a changed setting changes, and by how much it changes their time."""
    cases = list(dict.fromkeys(change.partition(": ")[0] for change in part["changes"]))
    named = "; ".join(cases[:SHOWN]) + (f" and {len(cases) - SHOWN} more" if cases[SHOWN:] else "")
    # There is no time if other jobs ran on the machine.
    time = part.get("time", 1.0)
    is_time = not 1 / SLOWER < time < SLOWER
    return ", ".join([named] * bool(named) + [f"time × {time:.2f}"] * is_time)


def cell(part: dict[str, Any] | None) -> str:
    """Return the text of a cell: the other value, and what it changes."""
    if part is None:
        return "the same value"
    return f"{part['to']}: {effect(part) or 'nothing'}".replace("|", "/")


def table(result: dict[str, dict[str, Any]]) -> str:
    """Return the settings that matter, room by room, and how many others there are."""
    parts = []
    for room, settings in result.items():
        read = {name: entry for name, entry in settings.items() if entry["read"]}
        rows = [
            [f"`{name}`", str(entry["value"]), *(cell(entry.get(label)) for label in FACTORS)]
            for name, entry in read.items()
            if any(effect(entry[label]) for label in FACTORS if label in entry)
        ]
        parts.append(
            f"**{room}** (cases: {len(CASES[room])}). Settings that were measured: "
            f"{len(settings)}; read by a case: {len(read)}; that matter: {len(rows)}."
        )
        if rows:
            parts.append(as_table(["setting", "value", *FACTORS], rows))
    return "\n\n".join(parts)


def page(text: str, result: dict[str, dict[str, Any]]) -> str:
    """Return the page with its tables."""
    return renewed(text, "settings", "benchmarks/pages/settings.py", table(result))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), load()), encoding="utf-8")


if __name__ == "__main__":
    main()
