"""Programs of the library lowered for a GPU or a TPU, on any machine; nothing is run."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.mlir import ir
from jax.sharding import Mesh

import ewsg_jax as ewsg
from benchmarks.cost.reading import Program
from ewsg_jax.answers.forecast import batch_noise
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.rows import _spread as spread
from ewsg_jax.run import compiled_loop
from ewsg_jax.run.compiled_loop import LoopKind, RunInputs, Span
from ewsg_jax.run.devices import Placed, advance, checked
from ewsg_jax.run.keeping import Kept
from ewsg_jax.run.layout import ProgramLayout, choose_layout
from ewsg_jax.run.moments import positions
from ewsg_jax.run.request import Request
from ewsg_jax.run.starts import first_states
from ewsg_jax.vectors import potential

NUM_ROWS, DIMENSION = 10_007, 8
"""A prime that no other axis is long, and more rows than one chunk of a sum has."""
CHUNK_ROWS = 4_096
COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "all_to_all",
    "collective_permute",
    "reduce_scatter",
    "collective_broadcast",
)
"""What devices exchange numbers by."""
STEPS, SLOTS, MEMORY = 10_000, 100, 2**28


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
    return method.build(
        ewsg.models.logistic_regression(prior_scale=2.0), 1e-4, **{**method.example, **options}
    )


def known_layout(platform: str, shared_minibatch: bool, shared_memory: bool) -> ProgramLayout:
    """Return how a run that keeps positions is compiled, its blocks apart."""
    return ProgramLayout(
        shared_minibatch=shared_minibatch,
        shared_memory=shared_memory,
        num_slots=SLOTS,
        keep=positions,
        moments=None,
        accelerator=platform != "cpu",
    )


def arguments(key: jax.Array, num_chains: int) -> tuple[RunInputs, Span]:
    """Return the keys of a run that keeps every tenth step, and the shapes of a call's steps."""
    keys: Any = jax.eval_shape(lambda: jax.random.split(key, num_chains))
    number = jax.ShapeDtypeStruct((), np.int32)
    alive = jax.ShapeDtypeStruct((num_chains,), np.bool_)
    return RunInputs(keys, key, Kept(0, 10)), Span(number, number, alive)


def of_sample(
    kernel: Kernel, rows: Any, num_chains: int, platform: str, shared: bool = False, **kept: Any
) -> Sampling:
    """Lower the compiled call of a run of many steps, of which every tenth is kept."""
    key, start = jax.random.key(0), jnp.zeros(DIMENSION)
    request = Request(key, kernel, start, rows, num_chains=num_chains)
    state, shared_memory, _ = first_states(request)
    known = known_layout(platform, shared, shared_memory)._replace(**kept)
    layout, _ = choose_layout(kernel, state, rows, STEPS, MEMORY, known)
    inputs, span = arguments(key, num_chains)
    kind = LoopKind(guarded=False, counted=layout.accelerator)
    traced = compiled_loop.advance.trace(kernel, layout, inputs, rows, span, state, kind=kind)
    program = Program(traced.lower(lowering_platforms=(platform,)), NUM_ROWS)
    block = program.loops(program.main)[0].regions[1].blocks[0]
    return Sampling(
        program, layout.block_size, program.loops(block)[0], block, len(jax.tree.leaves(state))
    )


def of_step(kernel: Kernel, rows: Any, num_chains: int, platform: str) -> tuple[Program, int]:
    """Lower a step of many chains, or of one, that gives its state away; and say how many arrays
    that has.
    """

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
    return Program(traced.lower(lowering_platforms=(platform,)), NUM_ROWS), len(
        jax.tree.leaves(state)
    )


def of_find_mode(rows: Any, platform: str) -> Iterator[tuple[str, Program]]:
    """Lower the programs of `find_mode`, each of one turn of its loop on the host."""
    posterior, start = ewsg.models.logistic_regression(prior_scale=2.0), jnp.zeros(DIMENSION)
    of = potential.PotentialSpec(posterior, potential.Layout.of(start), CHUNK_ROWS, wide=False)
    flat = jnp.zeros(DIMENSION)
    traced = {
        "value, gradient and Hessian": potential.derivatives.thorough.trace(of, flat, rows),
        "value and gradient": potential.value_and_gradient.thorough.trace(of, flat, rows),
        "product of the Hessian": potential.hessian_product.thorough.trace(of, flat, flat, rows),
    }
    for name, program in traced.items():
        yield name, Program(program.lower(lowering_platforms=(platform,)), NUM_ROWS)


def over_devices_of(
    kernel: Kernel, rows: Any, num_chains: int, platform: str, mesh: Mesh, parts: int | None = None
) -> Program:
    """Lower the compiled call of a run over several devices."""
    key = jax.random.key(0)
    devices = checked(mesh, kernel, rows, parts)
    assert devices is not None
    placed = Placed(devices, devices.place(rows))
    start = jnp.zeros(DIMENSION)
    request = Request(key, kernel, start, rows, num_chains=num_chains)
    state, shared_memory, _ = first_states(request._replace(placed=placed))
    one_device = placed.shapes_of_one(state, shared_memory)
    known = known_layout(platform, False, shared_memory)
    layout, _ = choose_layout(kernel, *one_device, STEPS, MEMORY, known)
    inputs, span = arguments(key, num_chains)
    kind = LoopKind(guarded=False, counted=layout.accelerator)
    traced = advance.trace(devices, kernel, layout, inputs, placed.data, span, state, kind=kind)
    return Program(traced.lower(lowering_platforms=(platform,)), NUM_ROWS)


def of_noise(kernel: Any, rows: Any, platform: str, mesh: Mesh) -> Program:
    """Lower the program of `forecast` that compares batches at some points, of rows on several
    devices.
    """
    start, points = jnp.zeros(DIMENSION), jnp.zeros((64, DIMENSION))
    traced = batch_noise.estimates.trace(
        kernel.estimator, start, points, None, 2, spread.over(mesh, rows)
    )
    return Program(traced.lower(lowering_platforms=(platform,)), NUM_ROWS)


def exchanged(program: Program) -> list[tuple[str, tuple[int, ...]]]:
    """Return what devices exchange in a whole program, loops counted once: the operation, and its
    array's shape.
    """
    found = []
    for op in program.operations():
        name = op.operation.name.split(".")[-1]
        if name in COLLECTIVES:
            found += [
                (name, tuple(ir.RankedTensorType(result.type).shape)) for result in op.results
            ]
    return found
