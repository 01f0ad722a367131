"""What is measured, against which goal and floor."""

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks.ours import GAUSSIAN, Ours, Variant, device_data, program_size, user_loops
from benchmarks.remote import Worker
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
from benchmarks.workload import WORKLOADS, Case

ONE_CHAIN = Target(3.5, 2.5)
HUNDRED = Target(1.9, 1.4)
THOUSAND = Target(1.1, 0.95)
WEIGHTED = Target(1.05, 1.15, higher_is_better=False)
WEIGHTED_ONE_CHAIN = Target(1.05, 1.25, higher_is_better=False)
NETWORK = {"gaussian": Target(1.05, 0.95), "rademacher": Target(1.8, 1.4)}
BESIDES = Target(2.0, 4.0, higher_is_better=False)
SHORT = Target(2.5, 2.2)
SHORT_THOUSAND = Target(5.0, 4.0)
FIRST_DRAW = Target(3.0, 4.0, higher_is_better=False)
FIRST_DRAW_PROCESSES = 5
USER_LOOP = Target(1.1, 1.3, higher_is_better=False)
PROGRAM_SIZE = Target(1.0, 1.0, higher_is_better=False)
PROGRAM_ROWS = (464_809, 929_618)


class Bench:
    """Measures cells and keeps their results.

    Args:
        peers: processes of the libraries.
        by_hand: processes of the hand-written steps.
        versions: the JAX of each.
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

    def one_chain(self) -> None:
        """SGLD and underdamped, every draw kept, against the libraries."""
        for method in ("sgld", "sghmc"):
            self._against("one_chain", Case("logistic", method, 1, 25_600, True), self.peers, ONE_CHAIN)

    def hundred(self) -> None:
        """The same with 100 chains, each with its own minibatches, the last draw kept."""
        for method in ("sgld", "sghmc"):
            self._against("hundred", Case("logistic", method, 100, 600, False), self.peers, HUNDRED)

    def thousand(self) -> None:
        """The same with 1,000 chains, against steps written by hand."""
        for method in ("sgld", "sghmc"):
            self._against("thousand", Case("logistic", method, 1000, 148, False), self.by_hand, THOUSAND)

    def weighted(self) -> None:
        """EWSG against the uniform estimator on as many rows per step, both ours."""
        for chains, steps in ((1, 50_000), (100, 800), (1000, 80)):
            for length in (1, 4, 9):
                case = self._short(Case("logistic", "sghmc", chains, steps // (length + 1), False))
                b = WORKLOADS[case.workload]().batch_size
                weighted = Ours(case, self._rows(case), Variant(batch_size=b, chain_length=length))
                uniform = Ours(case, self._rows(case), Variant(batch_size=b * (length + 1)))
                # What precedes the first step is the same on both sides and would pull the ratio towards 1.
                pairs = interleave(weighted.run_loop, uniform.run_loop, self.pairs)
                self._add(
                    "weighted",
                    f"EWSG M = {length}, {chains} chains, against uniform with b = {b * (length + 1)}",
                    times_the_cost(pairs),
                    WEIGHTED_ONE_CHAIN if chains == 1 else WEIGHTED,
                    "time ratio",
                    microseconds=_microseconds(pairs, "EWSG", "uniform"),
                    case=case._asdict(),
                )

    def network(self) -> None:
        """A network of 79,510 weights, underdamped, with each law of noise; the peers' is Gaussian always."""
        for noise, target in NETWORK.items():
            case = Case("network", "sghmc", 1, 240, False)
            self._against("network", case, self.peers, target, Variant(noise=noise))

    def user_loop(self) -> None:
        """A jitted `kernel.step` in a user's loop in Python, against a jitted step written by hand."""
        for method, with_info in itertools.product(("sgld", "sghmc"), (False, True)):
            case = self._short(Case("logistic", method, 1, 5_000, False))
            pairs = interleave(*user_loops(case, self._rows(case), with_info), self.pairs)
            self._add(
                "user_loop",
                f"a jitted step in a loop, {method}, {'with its info' if with_info else 'the state alone'}",
                times_the_cost(pairs),
                USER_LOOP,
                "time ratio",
                microseconds=_microseconds(pairs, "ours", "by hand"),
                case=case._asdict(),
            )

    def first_draw(self) -> None:
        """A fresh process, from the call of `sample` with one step to its draw."""
        for method in ("sgld", "ewsg"):
            seconds = [_first_draw(method) for _ in range(FIRST_DRAW_PROCESSES if self.shorten == 1 else 1)]
            self._add("first_draw", f"call to first draw, {method}", summarise(seconds), FIRST_DRAW, "seconds")

    def calls(self) -> None:
        """Whole calls of few steps with everything on, and what a repeated call costs besides its loop."""
        everything = Variant(check_data=True)
        case = self._short(Case("logistic", "sgld", 1, 5_000, True))
        ours = Ours(case, self._rows(case), everything)
        beyond = summarise([ours.run_besides() for _ in range(3 * self.pairs)])
        self._add("calls", "a repeated call beyond its loop", beyond, BESIDES, "milliseconds", case=case._asdict())
        self._against("calls", case, self.peers, SHORT, everything)
        many = Case("logistic", "sgld", 1000, 20, False)
        self._against("calls", many, self.peers, SHORT_THOUSAND, everything._replace(shared=True))

    def program_size(self) -> None:
        """The size of the program does not depend on n."""
        sizes = {n: program_size(n) for n in PROGRAM_ROWS}
        ratios = [x["characters"] / sizes[PROGRAM_ROWS[0]]["characters"] for x in sizes.values()]
        self._add(
            "program_size",
            f"program for n = {max(PROGRAM_ROWS):,} / for {PROGRAM_ROWS[0]:,}",
            Summary(max(ratios), min(ratios), max(ratios), len(ratios)),
            PROGRAM_SIZE,
            "size ratio",
            sizes={str(n): size for n, size in sizes.items()},
        )

    def _against(
        self,
        cell: str,
        case: Case,
        others: dict[str, Worker],
        target: Target,
        variant: Variant = GAUSSIAN,
    ) -> None:
        """Measure ours in pairs with each of the others; the verdict is against the fastest."""
        case = self._short(case)
        ours = Ours(case, self._rows(case), variant)
        compile_seconds = {"ours": ours.compile_seconds}
        measured: dict[str, list[Pair]] = {}
        for name, worker in others.items():
            compile_seconds[name] = worker.ask(do="build", peer=name, case=list(case))["compile_seconds"]
            measured[name] = interleave(ours.run, worker.run, self.pairs)
        what = f"{case.workload}, {case.method}, {case.num_chains} chains"
        if variant.noise != "gaussian":
            what += f", {variant.noise} noise (the peer's is Gaussian: another law)"
        if variant.shared:
            what += ", one batch for all (the peers' have their own)"
        details = {
            "case": case._asdict(),
            "compile_seconds": compile_seconds,
            "microseconds": {name: _microseconds(pairs, "ours", name) for name, pairs in measured.items()},
            "ratios": {name: times_faster(pairs)._asdict() for name, pairs in measured.items()},
        }
        best = fastest(measured)
        self._add(cell, f"{what}: {best}", times_faster(measured[best]), target, "times faster", **details)
        same = {name: pairs for name, pairs in measured.items() if self.versions[name] == self.here}
        if same and best not in same:
            near = fastest(same)
            self.rows[-1]["what"] += f" on JAX {self.versions[best]}"
            ratio = times_faster(same[near])
            self._add(cell, f"{what}: {near}, the best on JAX {self.here}", ratio, target, "times faster")

    def _add(self, cell: str, what: str, value: Summary, target: Target, unit: str, **details: Any) -> None:
        row = {"cell": cell, "what": what, "unit": unit, "measured": value._asdict()}
        row |= verdict(value.median, target) | {"load_average": load_average()} | details
        self.rows.append(row)
        print(line(row), flush=True)

    def _short(self, case: Case) -> Case:
        return case._replace(num_steps=max(1, case.num_steps // self.shorten))

    def _rows(self, case: Case) -> Any:
        if self._data[0] != case.workload:
            self._data = (case.workload, device_data(case.workload))
        return self._data[1]


CELLS: dict[str, Callable[[Bench], None]] = {
    "one_chain": Bench.one_chain,
    "hundred": Bench.hundred,
    "thousand": Bench.thousand,
    "weighted": Bench.weighted,
    "network": Bench.network,
    "calls": Bench.calls,
    "user_loop": Bench.user_loop,
    "first_draw": Bench.first_draw,
    "program_size": Bench.program_size,
}
NEEDS_PEERS = {"one_chain", "hundred", "network", "calls"}


def line(row: dict[str, Any]) -> str:
    """Return one line of the printed table."""
    m = row["measured"]
    held = "goal" if row["goal_holds"] else "floor" if row["floor_holds"] else "FAILS"
    value = f"{m['median']:7.3f} [{m['lower']:.3f}, {m['upper']:.3f}] {row['unit']}"
    return f"{row['cell']:<13} {value:<42} goal {row['goal']:<5} floor {row['floor']:<5} {held:<6} {row['what']}"


def _microseconds(pairs: Iterable[Pair], ours: str, other: str) -> dict[str, Any]:
    pairs = list(pairs)
    return {
        ours: summarise([pair.ours for pair in pairs])._asdict(),
        other: summarise([pair.other for pair in pairs])._asdict(),
    }


def _first_draw(method: str) -> float:
    environment = os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.ours", method],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
        cwd=Path(__file__).parents[1],
    )
    return float(json.loads(done.stdout)["seconds"])
