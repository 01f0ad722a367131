"""Which settings of `ewsg_jax.answers` matter: each is doubled and halved on stored cases.

    python -m benchmarks.answers.settings_sweep check [--names NAME,…] [--minutes 30]

Each room of `answers` has a `settings.py`. A setting *matters* if, doubled or halved, it changes
what is said of a case (outcome, kernel, trust, doubts) or the processor time of all cases by more
than a tenth; a setting that does neither can go, or be joined with another. What a change does is
kept in `benchmarks/results/settings_sweep.json` as it is measured; settings that are there are not
measured again. A number between ½ and 1 is a share of what is kept: the rest, one minus it, is
doubled and halved. A setting that no case reads is "not read": no case of these can judge it.
"""

import argparse
import functools
import importlib
import json
import re
import sys
import time
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax

from benchmarks.answers.settings_cases import CASES, Case

RESULT = Path(__file__).parents[1] / "results" / "settings_sweep.json"
FACTORS = {"doubled": 2.0, "halved": 0.5}
SLOWER = 1.1
"""Ratio of processor times, either way, from which on a change of time counts."""
REPEATS = 2
"""Runs of a case whose least time counts: the cores are shared."""
Said = dict[str, Any]


class Watched(types.ModuleType):
    """A module of settings that remembers which of them are read."""

    names_read: set[str]

    def __getattribute__(self, name: str) -> Any:
        """Return the attribute, and remember its name if it is a setting's."""
        if name.isupper():
            object.__getattribute__(self, "names_read").add(name)
        return object.__getattribute__(self, name)


def watched(room: str) -> Watched:
    """Return the settings of a room, watched."""
    module = importlib.import_module(f"ewsg_jax.answers.{room}.settings")
    module.__class__ = Watched
    vars(module)["names_read"] = set()
    return module  # type: ignore[return-value] # its class was changed


def numeric(value: Any) -> bool:
    """Return whether a setting is a number, or numbers."""
    if isinstance(value, tuple):
        return bool(value) and all(map(numeric, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


def scaled(value: Any, factor: float) -> Any:
    """Return a setting times a factor; of a share above ½, with the rest times the factor."""
    if isinstance(value, tuple):
        return tuple(scaled(part, factor) for part in value)
    if isinstance(value, int):
        return max(1, round(value * factor))
    return 1 - (1 - value) * factor if 0.5 < value < 1 else value * factor


def forget() -> None:
    """Clear what functions of the answers remember, so that a changed setting is read again."""
    for name, module in list(sys.modules.items()):
        if name.startswith("ewsg_jax.answers") and not name.endswith("settings"):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()


def run(case: Callable[[], Said]) -> tuple[Said, float]:
    """Return what is said of a case, or the error, and the least processor time."""
    times = []
    said: Said = {}
    for _ in range(REPEATS):
        begin = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                said = case()
        except Exception as error:  # a setting out of its range: that is a result
            said = {"error": f"{type(error).__name__}: {re.sub(r'[0-9.e+-]+', '#', str(error))}"}
        times.append(time.process_time() - begin)
    return said, min(times)


def run_with(
    settings: types.ModuleType, name: str, value: Any, cases: dict[str, Case], traced: bool
) -> tuple[dict[str, Said], float]:
    """Return what is said of all cases with this value of a setting, which stays, and the time.

    Args:
        settings: the module of settings.
        name: the setting.
        value: its value.
        cases: the cases by their names.
        traced: whether it is read while a program is traced, which is then compiled anew.
    """
    setattr(settings, name, value)
    forget()
    if traced:
        jax.clear_caches()
        for case in cases.values():
            run(case)
    runs = {label: run(case) for label, case in cases.items()}
    return {label: said for label, (said, _) in runs.items()}, sum(t for _, t in runs.values())


def differences(base: dict[str, Said], said: dict[str, Said]) -> Iterator[str]:
    """Yield what differs between two runs of all cases."""
    for case, before in base.items():
        for key in before.keys() | said[case].keys():
            if before.get(key) != said[case].get(key):
                yield f"{case}: {key} {before.get(key)!r} -> {said[case].get(key)!r}"


def sweep(room: str, names: set[str] | None, minutes: float, compiled: bool = False) -> None:
    """Measure the settings of a room that have not been measured yet.

    Args:
        room: the room of `answers`.
        names: only these settings; None for all.
        minutes: when to stop.
        compiled: also those that are read only while a program is compiled, which takes minutes.
    """
    begin, settings, cases = time.monotonic(), watched(room), CASES[room]
    results = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    stored = results.setdefault(room, {})
    for case in cases.values():  # compiles
        run(case)
    cold = set(settings.names_read)
    settings.names_read.clear()
    base = {name: run(case) for name, case in cases.items()}
    warm, seconds = set(settings.names_read), sum(t for _, t in base.values())
    said = {name: what for name, (what, _) in base.items()}
    print(f"{room}: {len(cases)} cases, {seconds:.1f} s; {len(cold)} settings are read", flush=True)
    for name in sorted(n for n in vars(settings) if n.isupper() and numeric(vars(settings)[n])):
        if (names and name not in names) or name in stored:
            continue
        if time.monotonic() - begin > 60 * minutes:
            break
        value, entry = getattr(settings, name), {"value": getattr(settings, name)}
        if name not in (cold if compiled else warm):
            stored[name] = entry | {"read": False, "compiled": name in cold}
            continue
        for label, factor in FACTORS.items():
            changed = scaled(value, factor)
            if changed == value:
                continue
            # The time of the unchanged setting is measured beside: other jobs come and go.
            (after, seconds), (_, before) = (
                run_with(settings, name, one, cases, traced=name not in warm)
                for one in (changed, value)
            )
            entry[label] = {
                "to": changed,
                "changes": list(differences(said, after)),
                "time": round(seconds / before, 3),
            }
        stored[name] = entry | {"read": True}
        RESULT.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
        print(f"{name} = {value}: {summary(stored[name])}", flush=True)
    RESULT.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")


def matters(entry: dict[str, Any]) -> bool:
    """Return whether doubling or halving a setting changed a verdict, or the time by a tenth."""
    return any(
        part["changes"] or not 1 / SLOWER < part.get("time", 1.0) < SLOWER
        for label, part in entry.items()
        if label in FACTORS
    )


def summary(entry: dict[str, Any]) -> str:
    """Return in a line what a setting moves."""
    if not entry["read"]:
        return "read in programs" if entry.get("compiled") else "not read by these cases"
    moved = [
        f"{label}: time × {part['time']:.2f}, {len(part['changes'])} verdicts"
        for label, part in entry.items()
        if label in FACTORS
    ]
    return ("" if matters(entry) else "nothing; ") + "; ".join(moved)


def main() -> None:
    """Sweep the rooms that are asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("rooms", nargs="+", choices=sorted(CASES))
    parser.add_argument("--names", help="only these settings, with commas between")
    parser.add_argument("--minutes", type=float, default=60.0, help="stop after them, per room")
    parser.add_argument("--compiled", action="store_true", help="those in compiled programs too")
    options = parser.parse_args()
    names = set(options.names.split(",")) if options.names else None
    for room in options.rooms:
        sweep(room, names, options.minutes, options.compiled)


if __name__ == "__main__":
    main()
