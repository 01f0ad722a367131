"""Measures a cell in interleaved pairs and keeps what it found."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cost.ours import GAUSSIAN, Ours, Variant
from benchmarks.cost.peers import BY_HAND, PEERS, device_data
from benchmarks.cost.remote import Worker
from benchmarks.cost.settings import Case
from benchmarks.timing import (
    Pair,
    Summary,
    Target,
    fastest,
    interleave,
    load_average,
    summarise,
    times_faster,
    times_the_cost,
    verdict,
)


class Bench:
    """Measures cells and keeps their results.

    Args:
        peers: processes of the libraries.
        by_hand: processes of the hand-written steps.
        versions: the JAX of each, or what it has instead.
        here: the JAX of this process.
        pairs: how many pairs of runs.
        shorten: divides the steps of a run.
    """

    def __init__(
        self,
        peers: dict[str, Worker],
        by_hand: dict[str, Worker],
        versions: dict[str, str],
        here: str,
        pairs: int,
        shorten: int,
    ) -> None:
        self.peers, self.by_hand, self.versions, self.here = peers, by_hand, versions, here
        self.pairs, self.shorten = pairs, shorten
        self.rows: list[dict[str, Any]] = []
        self._data: tuple[str, Any] = ("", None)

    def against(
        self,
        cell: str,
        case: Case,
        others: Mapping[str, Worker],
        target: Target | None,
        variant: Variant = GAUSSIAN,
        same_jax: bool = False,
    ) -> None:
        """Measure ours in pairs with each of the others; the verdict is against the fastest.

        Where that one runs on another JAX, a second row is of the best on the same JAX; with
        `same_jax` the target is that row's alone.
        """
        case = self.short(case)
        ours = Ours(case, self.data(case), variant)
        compile_seconds = {"ours": ours.compile_seconds}
        measured: dict[str, list[Pair]] = {}
        for name, worker in others.items():
            shorten = (PEERS | BY_HAND)[name].shorten
            theirs = case._replace(num_steps=max(1, case.num_steps // shorten))
            compile_seconds[name] = worker.ask(do="build", peer=name, case=list(theirs))[
                "compile_seconds"
            ]
            measured[name] = interleave(ours.run, worker.run, self.pairs)
        what = f"{case.workload}, {case.method}, {chain_words(case.num_chains)}{variant.besides()}"
        details = {
            "case": case._asdict(),
            "compile_seconds": compile_seconds,
            "microseconds": {
                name: microseconds(pairs, "ours", name) for name, pairs in measured.items()
            },
            "ratios": {name: times_faster(pairs)._asdict() for name, pairs in measured.items()},
        }
        best = fastest(measured)
        same = {name: pairs for name, pairs in measured.items() if self.versions[name] == self.here}
        elsewhere = bool(same) and best not in same
        suffix = f" on {self.versions[best]}" if elsewhere else ""
        first = None if elsewhere and same_jax else target
        self.add(
            cell,
            f"{what}: {best}{suffix}",
            times_faster(measured[best]),
            first,
            "times faster",
            **details,
        )
        if elsewhere:
            near = fastest(same)
            ratio = times_faster(same[near])
            self.add(
                cell, f"{what}: {near}, the best on {self.here}", ratio, target, "times faster"
            )

    def add(
        self, cell: str, what: str, value: Summary, target: Target | None, unit: str, **details: Any
    ) -> None:
        """Keep a row, with its verdict where it has a target, and print its line."""
        row = {"cell": cell, "what": what, "unit": unit, "measured": value._asdict()}
        row |= verdict(value.median, target) if target else {}
        row |= {"load_average": load_average()} | details
        self.rows.append(row)
        print(line(row), flush=True)

    def add_pairs(
        self,
        cell: str,
        what: str,
        case: Case,
        pairs: Sequence[Pair],
        sides: tuple[str, str],
        target: Target | None,
        unit: str = "time ratio",
        **details: Any,
    ) -> None:
        """Keep a row of the ratio of pairs, with the microseconds of both sides.

        The ratio is other / ours where the unit is `"times faster"`, and ours / other else.
        """
        ratio = times_faster(pairs) if unit == "times faster" else times_the_cost(pairs)
        both = microseconds(pairs, *sides)
        self.add(cell, what, ratio, target, unit, case=case._asdict(), microseconds=both, **details)

    def short(self, case: Case) -> Case:
        """Return a case with as many steps as this run has time for."""
        return case._replace(num_steps=max(1, case.num_steps // self.shorten))

    def data(self, case: Case) -> Any:
        """Return a case's data on the device, those of one workload at a time."""
        if self._data[0] != case.workload:
            self._data = (case.workload, device_data(case.workload))
        return self._data[1]


def line(row: dict[str, Any]) -> str:
    """Return one line of the printed table."""
    m = row["measured"]
    value = f"{m['median']:7.3f} [{m['lower']:.3f}, {m['upper']:.3f}] {row['unit']}"
    if "goal" not in row:
        judged = "told"
    else:
        held = "goal" if row["goal_holds"] else "floor" if row["floor_holds"] else "FAILS"
        judged = f"goal {row['goal']:<5} floor {row['floor']:<5} {held}"
    return f"{row['cell']:<13} {value:<42} {judged:<30} {row['what']}"


def microseconds(pairs: Sequence[Pair], ours: str, other: str) -> dict[str, Any]:
    """Return the summaries of both sides."""
    return {
        ours: summarise([pair.ours for pair in pairs])._asdict(),
        other: summarise([pair.other for pair in pairs])._asdict(),
    }


def chain_words(count: int) -> str:
    """Return a number of chains in words."""
    return "1 chain" if count == 1 else f"{count:,} chains"


def in_a_process(module: str, *arguments: str) -> dict[str, Any]:
    """Run a module of this folder in a process that has compiled nothing, and return the JSON that
    it prints.
    """
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.cost.{module}", *arguments],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "0"},
        cwd=Path(__file__).parents[2],
    )
    return json.loads(done.stdout)
