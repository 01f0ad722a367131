"""Which settings of `ewsg_jax.answers` matter: `docs/settings.md`.

    python -m benchmarks.answers.settings_sweep check mode forecast halve plan
    python -m benchmarks.pages.settings

The table has the settings that change what is said of a case when they are doubled or halved.
"""

import json
from pathlib import Path
from typing import Any

from benchmarks.answers.settings_sweep import FACTORS, RESULT
from benchmarks.pages.generated import as_table, renewed

PAGE = Path(__file__).parents[2] / "docs" / "settings.md"
SHOWN = 3
"""Cases that a cell names."""


def cell(part: dict[str, Any] | None) -> str:
    """Return which cases a changed setting changes."""
    if part is None:
        return "the same value"
    cases = list(dict.fromkeys(change.partition(": ")[0] for change in part["changes"]))
    named = "; ".join(cases[:SHOWN]) + (f" and {len(cases) - SHOWN} more" if cases[SHOWN:] else "")
    return f"{part['to']}: {named or 'nothing'}".replace("|", "/")


def table(result: dict[str, dict[str, Any]]) -> str:
    """Return the settings that matter, room by room, and how many others there are."""
    parts = []
    for room, settings in result.items():
        read = {name: entry for name, entry in settings.items() if entry["read"]}
        matter = {
            name: entry
            for name, entry in read.items()
            if any(entry[label]["changes"] for label in FACTORS if label in entry)
        }
        rows = [
            [f"`{name}`", str(entry["value"]), *(cell(entry.get(label)) for label in FACTORS)]
            for name, entry in sorted(matter.items())
        ]
        parts.append(
            f"**{room}**: {len(settings)} settings, {len(read)} that the cases read, {len(matter)} "
            f"that change what is said of one."
        )
        if rows:
            parts.append(as_table(["setting", "value", *FACTORS], rows))
    return "\n\n".join(parts)


def page(text: str, result: dict[str, dict[str, Any]]) -> str:
    """Return the page with its tables."""
    return renewed(text, "settings", "benchmarks/pages/settings.py", table(result))


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(), json.loads(RESULT.read_text())))


if __name__ == "__main__":
    main()
