"""Measure what estimators with memory cost, in time and in memory, and write it as JSON.

    python benchmarks/memory_cost.py

See README.md in this folder.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from memory_cells import CELLS, MemoryBench
from step_cost import PAIRS, QUICK_PAIRS, QUICK_SHORTEN, _names
from timing import load_average, machine

import ewsg_jax as ewsg

DEFAULT_OUT = Path(__file__).parent / "results" / "memory_cost.json"
PROTOCOL = (
    "Interleaved pairs (ours, other, ours, other, …) after one pair thrown away; the ratio of each pair, then its "
    "median and quartiles. Compiling is apart; every run waits for its results. Times are microseconds per step "
    "and chain. Against steps written by hand ours is the wall clock around a second, equal call of "
    "ewsg_jax.sample, with its check of the data off; where both sides are ours, that without what precedes the "
    "first step. Temporaries are XLA's own account of a compiled program (temp_size_in_bytes). Resident sets are "
    "the largest from having the data to the end of the run, compiling included, each in a process of its own."
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", type=_names(CELLS), default=list(CELLS), help=f"of {', '.join(CELLS)}")
    parser.add_argument("--pairs", type=int, help=f"pairs of runs, default {PAIRS}")
    parser.add_argument("--quick", action="store_true", help="3 pairs of short runs: shows that all runs, no more")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="default %(default)s")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    options = parse(arguments)
    pairs = options.pairs or (QUICK_PAIRS if options.quick else PAIRS)
    before = machine()
    bench = MemoryBench(pairs, QUICK_SHORTEN if options.quick else 1)
    for cell in options.only:
        CELLS[cell](bench)
    result: dict[str, Any] = {
        "protocol": PROTOCOL,
        "quick": options.quick,
        "pairs": pairs,
        "machine": before | {"load_average_after": load_average()},
        "device": f"{jax.devices()[0].platform}: {jax.devices()[0].device_kind}",
        "versions": {"ewsg_jax": ewsg.__version__, "jax": jax.__version__, "numpy": np.__version__},
        "results": bench.rows,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
