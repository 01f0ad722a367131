"""What is measured of estimators that keep something between steps, against which goal and floor.

As a script it prints the largest resident set that one run comes to, as JSON, in a process that has
the data and has compiled nothing: `python -m benchmarks.cost.memory_cells RUN`, one of `RUNS`.
Linux only.
"""

import functools
import itertools
import json
import re
import statistics
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from benchmarks.cost.anchored_by_hand import REFRESH_EVERY, naive, nested
from benchmarks.cost.bench import Bench, chain_words, in_a_process, microseconds
from benchmarks.cost.by_hand import by_hand
from benchmarks.cost.ours import Ours, general, posterior
from benchmarks.cost.peers import device_data
from benchmarks.cost.program import Program
from benchmarks.cost.resident import MEGABYTE, peak_megabytes
from benchmarks.cost.settings import STEP_SIZE, Case
from benchmarks.cost.workload import WORKLOADS
from benchmarks.timing import Pair, Summary, Target, interleave, times_the_cost
from ewsg_jax.run import compiled_loop

HAND = Target(0.95, 1.1, higher_is_better=False)
NAIVE = Target(900, 300)
NAIVE_PAIRS = 3
RESIDENT = Target(50, 150, higher_is_better=False)
TEMPORARIES = Target(8, 16, higher_is_better=False)
GROWTH = Target(1.3, 1.5, higher_is_better=False)
TABLE_COPIES = Target(0.1, 0.5, higher_is_better=False)
AGAINST_SGLD = Target(1.2, 1.4, higher_is_better=False)

ROW_LAWS = {
    "rows with replacement": {},
    "without": {"replace": False},
    "blocks": {"rows": "blocks"},
}
FEW_ROWS = 10_000
CHAINS = 100
RESIDENT_PROCESSES = 3
_ADVANCE = compiled_loop.advance


def kernel(method: str, **rows: Any) -> ewsg.Kernel:
    """Return the kernel of a name, on logistic regression.

    Args:
        method: `"sgld"`; `"svrg_ld"`; `"saga_ld"`, with a number per row, or `"saga_ld_full"`, with
            a gradient per row.
        rows: how SGLD and SAGA choose them, as arguments of the method.
    """
    workload, h = WORKLOADS["logistic"](), STEP_SIZE["sgld"]
    linear = posterior(Case("logistic", method, 1, 1, False), workload)
    if method == "saga_ld_full":
        return ewsg.saga_ld(
            general(workload), h, batch_size=workload.batch_size, memory_limit=2 * 2**30, **rows
        )
    if method == "svrg_ld":
        return ewsg.svrg_ld(linear, h, batch_size=workload.batch_size, refresh_every=REFRESH_EVERY)
    return {"sgld": ewsg.sgld, "saga_ld": ewsg.saga_ld}[method](
        linear, h, batch_size=workload.batch_size, **rows
    )


class Run(Ours):
    """A case through `ewsg_jax.sample`, compiled, of the methods of this file and of any number of
    rows.
    """

    def __init__(self, case: Case, data: Any, **rows: Any) -> None:
        self.case, self.num_data, self.item_bytes = case, data["x"].shape[0], data["x"].itemsize
        self._kernel, self._data = kernel(case.method, **rows), data
        self._position = jnp.asarray(WORKLOADS[case.workload]().position)
        self._steps, self._chains, self._keep_all = case.num_steps, case.num_chains, case.keep_all
        self._runs = 0
        with mock.patch.object(compiled_loop, "advance", self._watched):
            self.compile_seconds = self._sample().compile_seconds

    def _watched(self, *args: Any, **kwargs: Any) -> Any:
        # Shapes only: the arrays would keep the tables of all calls alive.
        self._call = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype) if isinstance(x, jax.Array) else x,
            (args, kwargs),
        )
        return _ADVANCE(*args, **kwargs)

    def temporaries(self) -> int:
        """Return the bytes that the compiled loop needs beside its arguments and results, by XLA's
        account.
        """
        args, kwargs = self._call
        return temporary_bytes(_ADVANCE.lower(*args, **kwargs).compile())


class MemoryBench(Bench):
    """Measures cells and keeps their results.

    Args:
        pairs: how many pairs of runs.
        shorten: divides the steps of a run.
    """

    def __init__(self, pairs: int, shorten: int) -> None:
        super().__init__({}, {}, {}, jax.__version__, pairs, shorten)

    def svrg(self) -> None:
        """SVRG with 100 chains, through `sample`, against two nested scans written by hand."""
        case = self._anchored_case()
        ours = Run(case, self.data(case))
        compile_seconds = {"ours": ours.compile_seconds}
        measured: dict[str, list[Pair]] = {}
        for ahead, name in ((False, "drawn in each step"), (True, "drawn ahead")):
            other = Program(functools.partial(nested, ahead=ahead), case)
            compile_seconds[name] = other.compile_seconds
            measured[name] = interleave(ours.run, other.run, self.pairs)
        # The form that does best beside ours: not the lowest time, since the machine may have
        # changed in between.
        best = max(measured, key=lambda name: times_the_cost(measured[name]).median)
        self.add(
            "svrg",
            f"SVRG, K = {REFRESH_EVERY}, {CHAINS} chains, against nested scans by hand, {best}",
            times_the_cost(measured[best]),
            HAND,
            "time ratio",
            case=case._asdict(),
            compile_seconds=compile_seconds,
            microseconds={
                name: microseconds(pairs, "ours", name) for name, pairs in measured.items()
            },
            ratios={name: times_the_cost(pairs)._asdict() for name, pairs in measured.items()},
        )

    def naive(self) -> None:
        """The same against a step with a plain `lax.cond` on each chain's own counter."""
        case = self._anchored_case()
        ours = Run(case, self.data(case))
        slow = case._replace(num_steps=2 if self.shorten == 1 else 1)
        other = Program(naive, slow)
        pairs = interleave(ours.run, other.run, min(self.pairs, NAIVE_PAIRS))
        what = (
            f"the same against a plain lax.cond under vmap ({slow.num_steps} steps a run, "
            f"{len(pairs)} pairs)"
        )
        self.add_pairs("naive", what, case, pairs, ("ours", "naive"), NAIVE, "times faster")

    def resident(self) -> None:
        """The largest resident set of a run of SVRG above that of bare SGLD, a process each."""
        processes = RESIDENT_PROCESSES if self.shorten == 1 else 1
        megabytes = {
            name: [in_a_process("memory_cells", name)["megabytes"] for _ in range(processes)]
            for name in RUNS
        }
        svrg, bare = megabytes["svrg_ld"], megabytes["by_hand"]
        self.add(
            "resident",
            f"largest resident set, SVRG through sample, above SGLD by hand, {CHAINS} chains",
            Summary(
                statistics.median(svrg) - statistics.median(bare),
                min(svrg) - max(bare),
                max(svrg) - min(bare),
                processes,
            ),
            RESIDENT,
            "MB",
            megabytes=megabytes,
        )

    def temporaries(self) -> None:
        """What the compiled step of SVRG needs beside its arguments and results, 100 chains under
        `vmap`.
        """
        case = self._anchored_case()
        compiled = vmapped_step(kernel(case.method), self.data(case), CHAINS)
        megabytes = temporary_bytes(compiled) / MEGABYTE
        self.add(
            "temporaries",
            f"XLA temporaries of a step of SVRG under vmap, {CHAINS} chains",
            Summary(megabytes, megabytes, megabytes, 1),
            TEMPORARIES,
            "MB",
            conditionals=len(re.findall(r" conditional\(", compiled.as_text())),
        )

    def growth(self) -> None:
        """SAGA at two sizes of the data: its time per step, and what its compiled loop needs beside
        its arguments.

        Gathering rows of more data costs more whatever the method: SGLD's own ratio goes with each.
        A copy of the table would show as a temporary that grows with the data by the size of a
        table.
        """
        lengths, sides = ((1, 60_000), (10, 10_000)), ("many rows", "few rows")
        for (chains, sgld_steps), rows in itertools.product(
            lengths, ("rows with replacement", "blocks")
        ):
            plain, *_ = self._two_sizes("sgld", chains, sgld_steps, rows)
            for method, table, width, steps in (
                ("saga_ld", "numbers", 1, sgld_steps),
                (
                    "saga_ld_full",
                    "gradients",
                    WORKLOADS["logistic"]().position.size,
                    25_000 // chains,
                ),
            ):
                pairs, many, few = self._two_sizes(method, chains, steps, rows)
                what = f"SAGA, a table of {table}, {rows}, {chain_words(chains)}"
                of_sgld = {
                    "ratio": times_the_cost(plain)._asdict(),
                    "microseconds": microseconds(plain, *sides),
                }
                told = f"{what}: n = {many.num_data:,} against {few.num_data:,}"
                self.add_pairs("growth", told, many.case, pairs, sides, GROWTH, sgld=of_sgld)
                used = {run.num_data: run.temporaries() for run in (many, few)}
                table_bytes = {n: chains * n * width * many.item_bytes for n in used}
                (used_many, used_few), (bytes_many, bytes_few) = used.values(), table_bytes.values()
                copies = (used_many - used_few) / (bytes_many - bytes_few)
                self.add(
                    "growth",
                    f"{what}: temporaries of the loop that grow with n",
                    Summary(copies, copies, copies, 1),
                    TABLE_COPIES,
                    "tables",
                    temporary_bytes={str(n): found for n, found in used.items()},
                    table_bytes={str(n): found for n, found in table_bytes.items()},
                )

    def saga(self) -> None:
        """SAGA with a number per row against SGLD, both ours, with rows that may come twice and
        that may not.
        """
        lengths = ((1, 60_000), (CHAINS, 1_500))
        for (chains, steps), (rows, law) in itertools.product(lengths, ROW_LAWS.items()):
            case = self.short(Case("logistic", "saga_ld", chains, steps, False))
            data = self.data(case)
            ours, other = Run(case, data, **law), Run(case._replace(method="sgld"), data, **law)
            # What precedes the first step is nearly the same on both sides and would pull the ratio
            # towards 1.
            pairs = interleave(ours.run_loop, other.run_loop, self.pairs)
            what = f"SAGA, a table of numbers, against SGLD, {rows}, {chain_words(chains)}"
            self.add_pairs("saga", what, case, pairs, ("SAGA", "SGLD"), AGAINST_SGLD)

    def _two_sizes(
        self, method: str, chains: int, steps: int, rows: str
    ) -> tuple[list[Pair], Run, Run]:
        """Return pairs of runs on all rows and on few, and the runs."""
        case = self.short(Case("logistic", method, chains, steps, False))
        data = self.data(case)
        few_rows = min(FEW_ROWS, data["x"].shape[0] // 2)
        law, some = ROW_LAWS[rows], jax.tree.map(lambda x: x[:few_rows], data)
        many, few = Run(case, data, **law), Run(case, some, **law)
        return interleave(many.run_loop, few.run_loop, self.pairs), many, few

    def _anchored_case(self) -> Case:
        # Whole numbers of anchors on both sides.
        anchors = max(1, 6 // self.shorten)
        return Case("logistic", "svrg_ld", CHAINS, anchors * REFRESH_EVERY, False)


CELLS: dict[str, Callable[[MemoryBench], None]] = {
    "svrg": MemoryBench.svrg,
    "naive": MemoryBench.naive,
    "resident": MemoryBench.resident,
    "temporaries": MemoryBench.temporaries,
    "growth": MemoryBench.growth,
    "saga": MemoryBench.saga,
}


def vmapped_step(kernel: ewsg.Kernel, data: Any, num_chains: int) -> Any:
    """Return the compiled transition of chains side by side, each of which gathers its
    rows itself.
    """

    def state_and_randomness(keys: jax.Array, positions: jax.Array, data: Any) -> tuple[Any, Any]:
        state = jax.vmap(kernel.init, (0, 0, None))(keys, positions, data)
        return state, jax.vmap(kernel.draw, (0, 0, None))(keys, state, data)

    keys = jax.random.split(jax.random.key(0), num_chains)
    positions = jnp.zeros((num_chains, data["x"].shape[1]))
    state, randomness = jax.eval_shape(state_and_randomness, keys, positions, data)
    return (
        jax.jit(jax.vmap(kernel.transition, (0, 0, None))).lower(randomness, state, data).compile()
    )


def temporary_bytes(compiled: Any) -> int:
    """Return what a compiled program needs beside its arguments and results, by XLA's account."""
    return compiled.memory_analysis().temp_size_in_bytes


def _run_ours(method: str, data: Any) -> None:
    Run(Case("logistic", method, CHAINS, 2 * REFRESH_EVERY, False), data).run()


def _run_by_hand(data: Any) -> None:
    workload = WORKLOADS["logistic"]()._replace(data=lambda: data)
    with mock.patch.dict(WORKLOADS, logistic=lambda: workload):
        case = Case("logistic", "sgld", CHAINS, 2 * REFRESH_EVERY, False)
        Program(functools.partial(by_hand, wide=True), case).run()


RUNS: dict[str, Callable[[Any], None]] = {
    "svrg_ld": functools.partial(_run_ours, "svrg_ld"),
    "sgld": functools.partial(_run_ours, "sgld"),
    "by_hand": _run_by_hand,
}


def peak_of(run: str) -> float:
    """Return the largest resident set, in MB, of this process from having the data to the end of a
    run.

    From the data on, since making them takes more than some runs do.
    """
    data = device_data("logistic")
    return peak_megabytes(lambda: RUNS[run](data))


if __name__ == "__main__":
    print(json.dumps({"megabytes": peak_of(sys.argv[1])}))
