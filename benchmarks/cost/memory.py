"""Measure what estimators with memory cost, in time and in memory, and write it as JSON.

    python -m benchmarks.cost.memory

See README.md in this folder.
"""

import argparse
import sys
from collections.abc import Sequence

from benchmarks import record
from benchmarks.cost.memory_cells import CELLS, MemoryBench
from benchmarks.timing import machine

PROTOCOL = (
    "Interleaved pairs (ours, other, ours, other, …) after one pair thrown away; the ratio of each "
    "pair, then its median and quartiles. Compiling is apart; every run waits for its results. "
    "Times are microseconds per step and chain. Against steps written by hand ours is the wall "
    "clock around a second, equal call of ewsg_jax.sample, with its check of the data off; where "
    "both sides are ours, that without what precedes the first step. Temporaries are XLA's own "
    "account of a compiled program (temp_size_in_bytes). Resident sets are the largest from having "
    "the data to the end of the run, compiling included, each in a process of its own."
)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = record.parser(__doc__, "memory_cost.json")
    parser.add_argument(
        "--only", type=record.names(CELLS), default=list(CELLS), help=f"of {', '.join(CELLS)}"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    options = parse(arguments)
    pairs, shorten = record.extent(options)
    before = machine()
    bench = MemoryBench(pairs, shorten)
    for cell in options.only:
        CELLS[cell](bench)
    record.write(options, PROTOCOL, pairs, before, bench.rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
