"""Read off the programs made for GPUs and TPUs what may be slow there, method by method, and write it as JSON.

    python -m benchmarks.lowered

Nothing is run and nothing timed: programs are lowered for `cuda` and `tpu` on any machine, and their StableHLO is
read (`reading.py`). See docs/accelerators.md for what the numbers mean.
"""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.reading import Program
from benchmarks.timing import machine
from ewsg_jax._kernel import Kernel
from ewsg_jax.preparation import probes, programs, quasi_newton
from ewsg_jax.sampling import chunks
from ewsg_jax.sampling._moments import positions
from ewsg_jax.sampling.keeping import Plan
from ewsg_jax.sampling.layout import choose_layout
from ewsg_jax.sampling.starts import first_state

PLATFORMS = ("cuda", "tpu")
NUM_ROWS, DIMENSION = 10_007, 8
"""A prime that no other axis is long, and more rows than one chunk of a sum has."""
CHUNK_ROWS = 4_096
STEPS, SLOTS, MEMORY = 10_000, 100, 2**28
CHAINS = (1, 100)
PROTOCOL = (
    f"Read off StableHLO, nothing run: logistic regression of {NUM_ROWS} rows and {DIMENSION} features in float32, "
    "b = 2, the options of each method's example. `step`: one call of kernel.step, the state given away. `sample`: "
    "the compiled call of ewsg_jax.sample; in_step is the body of its loop over steps, in_block what is "
    "done once for a block of block_size steps. Loops are counted (of constant length) or open."
)


class Sampling(NamedTuple):
    """The program of a call of `sample`, with the pieces that are read apart.

    Attributes:
        program: the whole.
        block_size: steps of a block.
        in_step: the loop over the steps of a block, an operation.
        in_block: the body of the loop over blocks.
        arrays: how many arrays the state has.
    """

    program: Program
    block_size: int
    in_step: Any
    in_block: Any
    arrays: int


def data() -> dict[str, jax.Array]:
    """Return the rows of the logistic regression."""
    x = np.random.default_rng(0).standard_normal((NUM_ROWS, DIMENSION), np.float32)
    return {"x": jnp.asarray(x), "y": jnp.asarray((x[:, 0] > 0).astype(np.float32))}


def built(name: str, **options: Any) -> Kernel:
    """Return a named method with the options of its example, and others."""
    method = ewsg.METHODS[name]
    return method.build(ewsg.models.logistic_regression(prior_scale=2.0), 1e-4, **{**method.example, **options})


def of_sample(
    kernel: Kernel, rows: Any, num_chains: int, platform: str, shared: bool = False, **kept: Any
) -> Sampling:
    """Lower the compiled call of a run of many steps, of which every tenth is kept."""
    key, start = jax.random.key(0), jnp.zeros(DIMENSION)
    state, shared_memory, _ = first_state(key, kernel, start, rows, None, num_chains, False)
    wanted: dict[str, Any] = {"keep": positions, "moments": None, "accelerator": platform != "cpu"} | kept
    layout, _ = choose_layout(kernel, state, rows, STEPS, MEMORY, shared, shared_memory, num_slots=SLOTS, **wanted)
    keys = jax.eval_shape(lambda: jax.random.split(key, num_chains))
    number, alive = jax.ShapeDtypeStruct((), np.int32), jax.ShapeDtypeStruct((num_chains,), np.bool_)
    traced = chunks.advance.trace(
        kernel.hoisted(),
        layout,
        keys,
        key,
        rows,
        Plan(0, 10),
        number,
        number,
        state,
        alive,
        counted=layout.accelerator,
    )
    program = Program(traced.lower(lowering_platforms=(platform,)), NUM_ROWS)
    block = program.loops(program.main)[0].regions[1].blocks[0]
    return Sampling(program, layout.block_size, program.loops(block)[0], block, len(jax.tree.leaves(state)))


def of_step(kernel: Kernel, rows: Any, num_chains: int, platform: str) -> tuple[Program, int]:
    """Lower a step of many chains, or of one, that gives its state away; and say how many arrays that has."""

    def init(key: Any, rows: Any) -> Any:
        return kernel.init(key, jnp.zeros(DIMENSION), rows)

    def step(kernel: Kernel, key: Any, state: Any, rows: Any) -> Any:
        return kernel.step(key, state, rows)

    keys = jax.random.key(0)
    if num_chains > 1:
        keys = jax.random.split(keys, num_chains)
        init, step = jax.vmap(init, in_axes=(0, None)), jax.vmap(step, in_axes=(None, 0, 0, None))
    state = jax.eval_shape(init, keys, rows)
    traced = jax.jit(step, donate_argnums=2).trace(kernel, keys, state, rows)
    return Program(traced.lower(lowering_platforms=(platform,)), NUM_ROWS), len(jax.tree.leaves(state))


def of_find_mode(rows: Any, platform: str) -> Iterator[tuple[str, Program]]:
    """Lower the programs of `find_mode`, each of one turn of its loop on the host."""
    posterior, start = ewsg.models.logistic_regression(prior_scale=2.0), jnp.zeros(DIMENSION)
    of = programs.Of(posterior, programs.Layout.of(start), CHUNK_ROWS, wide=False)
    here, flat = (start, jnp.ones(DIMENSION)), jnp.zeros(DIMENSION)
    search = quasi_newton._begin.eval_shape(posterior, here, rows, CHUNK_ROWS)
    traced = {
        "value, gradient and Hessian": programs.derivatives.trace(of, flat, rows),
        "conjugate gradients": probes._conjugate_gradients.trace(of, flat, flat, flat, rows),
        "a step of L-BFGS": quasi_newton._improve.trace(posterior, search, here, rows, CHUNK_ROWS),
    }
    for name, program in traced.items():
        yield name, Program(program.lower(lowering_platforms=(platform,)), NUM_ROWS)


def plain(reading: Any) -> dict[str, Any]:
    """Return what a reading found, gathers that are alike counted together, nothing left out that is there."""
    found = reading._asdict()
    gathers = [f"{g.source} -> {g.result}{' sorted' if g.is_sorted else ''}" for g in reading.gathers]
    found["gathers"] = {g: gathers.count(g) for g in dict.fromkeys(gathers)}
    found["whole"] = {w: reading.whole.count(w) for w in dict.fromkeys(reading.whole)}
    return {name: value for name, value in found.items() if value}


def read(
    name: str, num_chains: int, platform: str, rows: Any, shared: bool, **options: Any
) -> list[dict[str, Any]]:
    """Return the rows of one method."""
    kernel = built(name, **options)
    row = {"method": name, "options": options, "num_chains": num_chains, "platform": platform, "shared": shared}
    program, block_size, step, block, arrays = of_sample(kernel, rows, num_chains, platform, shared)
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
    program, arrays = of_step(kernel, rows, num_chains, platform)
    of_one = {"what": "step", "in_step": plain(program.read(program.main)), "donated": program.donated()}
    return [of_run, row | of_one | {"state_arrays": arrays}]


def merged(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, those that differ in nothing but the platform as one."""
    found: list[dict[str, Any]] = []
    for row in rows:
        like = next((old for old in found if {**old, "platform": ""} == {**row, "platform": ""}), None)
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
        for key in ("open_loops", "conditions", "loops_in_conditions", "gathers", "scatters", "calls", "whole")
        if key in found
    }
    open_steps = "" if row.get("steps_are_counted", True) else " steps open"
    return f"{row['method']} {row['what']} {row['num_chains']} {row['platform']}:{open_steps} {short}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Read and write; 0."""
    parser = record.parser(__doc__, "lowered.json")
    parser.add_argument(
        "--only", type=record.names(ewsg.METHODS), default=list(ewsg.METHODS), help="names of methods"
    )
    options = parser.parse_args(arguments)
    rows, before = data(), machine()
    results: list[dict[str, Any]] = []
    for name in options.only:
        kernel = built(name)
        cases = [(num_chains, False) for num_chains in CHAINS]
        cases += [(CHAINS[-1], True)] if kernel.uses_batches and kernel.exchangeable else []
        for num_chains, shared in cases:
            found = [row for platform in PLATFORMS for row in read(name, num_chains, platform, rows, shared)]
            results += merged(found)
            print(*map(line, merged(found)), sep="\n", flush=True)
    found = [
        {"what": f"find_mode: {what}", "platform": platform, "in_step": plain(program.read(program.main))}
        for platform in PLATFORMS
        for what, program in of_find_mode(rows, platform)
    ]
    results += merged(found)
    record.write(options, PROTOCOL, 0, before, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
