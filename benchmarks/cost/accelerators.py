"""What runs take on this machine's accelerator and on its CPU, and whether both are right.

    python -m benchmarks.cost.accelerators  # some 8 minutes; benchmarks/results/accelerators.json

Two processes run side by side, each with cores of its own: one on JAX's default device, one with
JAX_PLATFORMS=cpu. Both time steps of `ewsg_jax.sample` and whole calls of `plan`, `sample` and
`check`, and make draws with the same keys. The first also compares gradients with NumPy in float64
and stationary variances with their exact values. docs/accelerators.md says what the numbers mean.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from benchmarks import record
from benchmarks.cost.accelerator_calls import calls
from benchmarks.cost.accelerator_numbers import compared, draws, gradients, laws
from benchmarks.cost.accelerator_steps import LONGEST, RUNS, steps
from benchmarks.cost.settings import LOGISTIC_BATCH, LOGISTIC_COLUMNS, LOGISTIC_ROWS
from benchmarks.timing import machine

PARTS = ("gradients", "laws", "draws", "steps", "calls")
ON_CPU = ("draws", "steps", "calls")
HOST_CORES = 6
"""Cores for the process whose device is the accelerator; the CPU's has the others."""
PROTOCOL = (
    f"Logistic regression, n = {LOGISTIC_ROWS}, d = {LOGISTIC_COLUMNS}, b = {LOGISTIC_BATCH}, "
    "float32. Microseconds per step and chain of ewsg_jax.sample without what precedes the first "
    "step, the last draw kept: medians and quartiles of runs after two thrown away; compiling is "
    f"apart. A cell is left out where a run would take over {LONGEST:.0f} s. Whole calls: seconds "
    "in a process that has compiled none of their programs; of_these_compiling is XLA's part, "
    "summed over threads that compile side by side. The accelerator's process and the CPU's run at "
    "the same time, each on its own cores."
)


WORK: dict[str, Callable[..., Iterator[dict[str, Any]]]] = {
    "gradients": gradients,
    "laws": laws,
    "draws": draws,
    "steps": steps,
    "calls": calls,
}


def work(
    parts: Sequence[str], quick: bool, limits: dict[str, float], only: Sequence[str], out: Path
) -> None:
    """Measure in this process; each row is a line of `out`, so that an end loses no other row.

    Limits are looked at between rows: `sample` returns what it has when a signal stops it.
    """
    device = f"{jax.devices()[0].platform}: {jax.devices()[0].device_kind}"
    with out.open("w") as lines:

        def add(row: dict[str, Any]) -> None:
            lines.write(json.dumps(row) + "\n")
            lines.flush()
            print({k: v for k, v in row.items() if k != "positions"}, flush=True)

        add({"part": "device", "device": device, "cores": len(os.sched_getaffinity(0))})
        for part in parts:
            started = time.perf_counter()
            try:
                for row in WORK[part](quick, *([only] if part == "steps" else [])):
                    add(row)
                    if time.perf_counter() - started > limits.get(part, np.inf):
                        add({"part": part, "over": f"stopped after {limits[part]:.0f} s"})
                        break
            except Exception as error:
                add({"part": part, "over": f"{type(error).__name__}: {error}"[:500]})
            add({"part": "seconds", "of": part, "seconds": time.perf_counter() - started})


def begin(
    arguments: Sequence[str], cores: Sequence[int], out: Path, on_cpu: bool
) -> subprocess.Popen[bytes]:
    """Start a process on these cores."""
    environment = os.environ | ({"JAX_PLATFORMS": "cpu"} if on_cpu else {})
    command = [sys.executable, "-m", "benchmarks.cost.accelerators", *arguments, "--rows", str(out)]
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)  # the child inherits it
    try:
        return subprocess.Popen(command, env=environment)
    finally:
        os.sched_setaffinity(0, before)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    parser = record.parser(__doc__, "accelerators.json", RUNS)
    parser.add_argument("--parts", type=record.names(PARTS), default=list(PARTS))
    parser.add_argument("--steps-limit", type=float, default=240.0, help="seconds for steps")
    parser.add_argument("--calls-limit", type=float, default=150.0, help="seconds for whole calls")
    parser.add_argument("--kernels", nargs="*", default=[], help="names, of steps; default all")
    parser.add_argument("--rows", type=Path, help="of one process, on JAX's default device")
    options = parser.parse_args(arguments)
    limits = {"steps": options.steps_limit, "calls": options.calls_limit}
    if options.rows is not None:
        work(options.parts, options.quick, limits, options.kernels, options.rows)
        return 0
    cores, before = sorted(os.sched_getaffinity(0)), machine()
    host = HOST_CORES if len(cores) > 2 * HOST_CORES else 1
    told = ["--quick"] if options.quick else []
    told += ["--kernels", *options.kernels] if options.kernels else []
    told += ["--steps-limit", str(limits["steps"]), "--calls-limit", str(limits["calls"])]
    with tempfile.TemporaryDirectory() as folder:
        sides = {"accelerator": cores[:host], "cpu": cores[host:] or cores}
        started, files = [], {}
        for side, given in sides.items():
            parts = [x for x in options.parts if side == "accelerator" or x in ON_CPU]
            files[side] = Path(folder) / f"{side}.jsonl"
            chosen = [*told, "--parts", ",".join(parts)]
            started.append(begin(chosen, given, files[side], side == "cpu"))
        for process in started:
            process.wait()
        rows = {
            side: [json.loads(x) for x in file.read_text().splitlines()]
            for side, file in files.items()
        }
    positions = {side: [x for x in found if "positions" in x] for side, found in rows.items()}
    results = [
        {"on": side} | row
        for side, found in rows.items()
        for row in found
        if "positions" not in row
    ]
    results += [
        {"on": "both"} | row for row in compared(positions["cpu"], positions["accelerator"])
    ]
    record.write(options, PROTOCOL, RUNS, before, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
