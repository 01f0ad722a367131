"""Read off the programs made for GPUs and TPUs what may be slow there, method by method, and write
it as JSON.

    python -m benchmarks.cost.lowered

Nothing is run and nothing timed: programs are lowered for `cuda` and `tpu` on any machine, and
their StableHLO is read (`reading.py`). See docs/accelerators.md for what the numbers mean.
"""

import sys
from collections.abc import Sequence
from typing import Any

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.cost.lowering import (
    DIMENSION,
    NUM_ROWS,
    built,
    data,
    of_find_mode,
    of_sample,
    of_step,
)
from benchmarks.timing import machine
from ewsg_jax.gradients._protocol import uses_batches
from ewsg_jax.rows._scheme import is_ordered

PLATFORMS = ("cuda", "tpu")
CHAINS = (1, 100)
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "sgld": [{"replace": False}, {"rows": "blocks"}, {"rows": "epochs"}],
    "nc_sghmc": [{"structure": "diagonal"}, {"structure": "low_rank"}],
}
"""Read besides, with the larger number of chains."""
PROTOCOL = (
    f"Read off StableHLO, nothing run: logistic regression of {NUM_ROWS} rows and {DIMENSION} "
    "features in float32, b = 2, the options of each method's example. `step`: one call of "
    "kernel.step, the state given away. `sample`: the compiled call of ewsg_jax.sample; in_step is "
    "the body of its loop over steps, in_block what is done once for a block of block_size steps. "
    "Loops are counted (of constant length) or open."
)


def plain(reading: Any) -> dict[str, Any]:
    """Return what a reading found, gathers that are alike counted together, nothing left out that
    is there.
    """
    found = reading._asdict()
    gathers = [
        f"{g.source} -> {g.result}{' sorted' if g.is_sorted else ''}" for g in reading.gathers
    ]
    found["gathers"] = {g: gathers.count(g) for g in dict.fromkeys(gathers)}
    found["whole"] = {w: reading.whole.count(w) for w in dict.fromkeys(reading.whole)}
    return {name: value for name, value in found.items() if value}


def read(
    name: str, num_chains: int, platform: str, seen: Any, shared: bool, **options: Any
) -> list[dict[str, Any]]:
    """Return the rows of one method."""
    kernel = built(name, **options)
    row = {
        "method": name,
        "options": options,
        "num_chains": num_chains,
        "platform": platform,
        "shared": shared,
    }
    program, block_size, step, block, arrays = of_sample(kernel, seen, num_chains, platform, shared)
    of_run = row | {
        "what": "sample",
        "block_size": block_size,
        "steps_are_counted": program.is_counted(step),
        "in_step": plain(program.read(step.regions[1].blocks[0])),
        "in_block": plain(program.read(block, without=step)),
        "state_arrays": arrays,
        "donated": program.donated(),
    }
    if shared:
        return [of_run]
    program, arrays = of_step(kernel, seen, num_chains, platform)
    of_one = {
        "what": "step",
        "in_step": plain(program.read(program.main)),
        "donated": program.donated(),
    }
    return [of_run, row | of_one | {"state_arrays": arrays}]


def merged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, those that differ in nothing but the platform as one."""
    found: list[dict[str, Any]] = []
    for row in rows:
        like = next(
            (old for old in found if {**old, "platform": ""} == {**row, "platform": ""}), None
        )
        if like is None:
            found.append(dict(row))
        else:
            like["platform"] += f", {row['platform']}"
    return found


def line(row: dict[str, Any]) -> str:
    """Return a row in short."""
    found = row["in_step"]
    short = {
        key: found[key] if isinstance(found[key], int) else sum(found[key].values())
        for key in (
            "open_loops",
            "conditions",
            "loops_in_conditions",
            "gathers",
            "scatters",
            "calls",
            "whole",
        )
        if key in found
    }
    open_steps = "" if row.get("steps_are_counted", True) else " steps open"
    of = (
        f"{row['method']} {row['options'] or ''} {row['what']} {row['num_chains']} "
        f"{row['platform']}"
    )
    return f"{of}:{open_steps} {short}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Read and write; 0."""
    parser = record.parser(__doc__, "lowered.json")
    parser.add_argument(
        "--only",
        type=record.names(ewsg.METHODS),
        default=list(ewsg.METHODS),
        help="names of methods",
    )
    options = parser.parse_args(arguments)
    seen, before = data(), machine()
    results: list[dict[str, Any]] = []
    for name in options.only:
        kernel = built(name)
        cases: list[tuple[int, bool, dict[str, Any]]] = [
            (num_chains, False, {}) for num_chains in CHAINS
        ]
        cases += [(CHAINS[-1], True, {})] if uses_batches(kernel) and not is_ordered(kernel) else []
        cases += [(CHAINS[-1], False, more) for more in OPTIONS.get(name, [])]
        for num_chains, shared, more in cases:
            found = merged(
                [
                    r
                    for platform in PLATFORMS
                    for r in read(name, num_chains, platform, seen, shared, **more)
                ]
            )
            results += found
            print(*map(line, found), sep="\n", flush=True)
    found = [
        {
            "what": f"find_mode: {what}",
            "platform": platform,
            "in_step": plain(program.read(program.main)),
        }
        for platform in PLATFORMS
        for what, program in of_find_mode(seen, platform)
    ]
    results += merged(found)
    record.write(options, PROTOCOL, 0, before, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
