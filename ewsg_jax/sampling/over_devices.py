"""The programs of a run over several devices: those of one device, mapped.

No chain waits for another. Parts of the rows meet in one sum of d numbers per chain and gradient, in
`Posterior.total`; what a chain does with it is done on each of its devices alike.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from ewsg_jax._kernel import Kernel, KernelState, RowsSeen
from ewsg_jax._types import Array, Data, Key, PyTree
from ewsg_jax.compiling import QUICK
from ewsg_jax.rows.gathering import all_rows
from ewsg_jax.rows.shards import PARTS
from ewsg_jax.sampling import chunks
from ewsg_jax.sampling.chunks import Call, Health
from ewsg_jax.sampling.devices import Devices
from ewsg_jax.sampling.keeping import Plan, Record
from ewsg_jax.sampling.layout import Layout

NONE = PartitionSpec()


@functools.partial(jax.jit, static_argnames=("devices", "shared_memory"))
def start(
    devices: Devices, kernel: Kernel, data: Data, keys: Array, positions: PyTree, shared_memory: bool
) -> KernelState:
    """Return the first states, as `chunks.start`; a memory has an axis of parts behind that of chains."""
    count, own = keys.shape[0], PartitionSpec(devices.chains_axis)

    def here(kernel: Kernel, data: Data, keys: Array, positions: PyTree) -> KernelState:
        return _with_parts(devices, shared_memory, lambda data: chunks.start(
            kernel, data, keys, positions, shared_memory
        ), data)  # fmt: skip

    in_specs = NONE, _data_spec(devices), own, own
    state = _mapped(devices, here, in_specs, devices.specs(None, shared_memory))(
        kernel, data, *_wider(devices, (keys, positions))
    )
    state = state._replace(rows=RowsSeen(all_rows(data)))
    return _cut_state(devices, state, count, shared_memory)


def call(
    devices: Devices, kernel: Kernel, layout: Layout, chain_keys: Array, *arguments: Any, **options: Any
) -> Call:
    """Make steps of all chains, as `chunks.call` does on one device."""
    count = chain_keys.shape[0]
    program = functools.partial(compiled(layout.small, devices.width(count) == count), devices)
    return chunks.call(kernel, layout, chain_keys, *arguments, program=program, **options)


@functools.cache
def compiled(small: bool, donated: bool) -> Any:
    """Return the program: quickly compiled or not, taking the memory of its state or not."""
    options: dict[str, Any] = {"compiler_options": QUICK} if small else {}
    return jax.jit(
        _advance,
        static_argnames=("devices", "layout", "guarded", "counted"),
        donate_argnames=("state",) if donated else (),
        **options,
    )


def _advance(
    devices: Devices,
    kernel: Kernel,
    layout: Layout,
    chain_keys: Array,
    shared_key: Key,
    data: Data,
    plan: Plan,
    done: Array,
    num_steps: Array,
    state: KernelState,
    alive: Array,
    *,
    guarded: bool,
    counted: bool,
) -> Call:
    count, shared_memory = alive.shape[0], layout.shared_memory
    own, states = PartitionSpec(devices.chains_axis), devices.specs(None, shared_memory)

    def here(kernel: Kernel, keys: Array, alive: Array, state: KernelState, data: Data, *rest: Any) -> Call:
        shared_key, plan, done, num_steps = rest

        def of_part(memory: PyTree, data: Data) -> Call:
            whole = state._replace(memory=memory)
            arguments = keys, shared_key, data, plan, done, num_steps, whole, alive
            return chunks._advance(kernel, layout, *arguments, guarded=guarded, counted=counted)

        return _with_parts(devices, shared_memory, of_part, data, state.memory)

    memory = () if shared_memory else state.memory
    keys, alive, dynamics, memory = _wider(devices, (chain_keys, alive, state.dynamics, memory))
    wide = state._replace(dynamics=dynamics, memory=state.memory if shared_memory else memory)
    slots = PartitionSpec(None, devices.chains_axis)
    made = _mapped(
        devices,
        here,
        (NONE, own, own, states, _data_spec(devices), NONE, NONE, NONE, NONE),
        Call(states, Record(slots, own), own, Health(own, own)),  # pyright: ignore[reportArgumentType]
    )(kernel, keys, alive, wide, data, shared_key, plan, done, num_steps)
    if devices.width(count) == count:
        return made
    first = functools.partial(_cut, devices, count)
    return Call(
        _cut_state(devices, made.state, count, shared_memory),
        Record(jax.tree.map(lambda x: first(x, 1), made.record.slots), first(made.record.sums)),
        first(made.totals),
        first(made.health),
    )


def _with_parts(
    devices: Devices, shared_memory: bool, function: Callable[..., Any], data: Data, *memory: PyTree
) -> Any:
    """Return a function of the memory and the rows of a part, of the parts that a device has.

    It returns states, or a call: but for the memory they must be the same for all parts.
    """
    if not devices.cuts_data:
        return function(*memory, data)
    axis = 0 if shared_memory else 1
    if devices.parts_here == 1 and devices.data_axis is not None:
        made = function(*(jax.tree.map(lambda x: jnp.squeeze(x, axis), tree) for tree in memory), _part(data))
        return _in_memory(made, lambda tree: jax.tree.map(lambda x: jnp.expand_dims(x, axis), tree))
    out: Any = KernelState(None, axis, None)
    if memory:
        out = Call(out, None, None, None)  # pyright: ignore[reportArgumentType]
    # What would differ from part to part beside the memory has no place to go: `vmap` refuses it.
    mapped = jax.vmap(function, (*(axis for _ in memory), 0), out, axis_name=PARTS)
    return mapped(*memory, data)


def _in_memory(made: Any, change: Callable[[PyTree], PyTree]) -> Any:
    state = made.state if isinstance(made, Call) else made
    state = state._replace(memory=change(state.memory))
    return made._replace(state=state) if isinstance(made, Call) else state


def _part(data: Data) -> Data:
    return jax.tree.map(lambda x: jnp.squeeze(x, 0), data)


def _data_spec(devices: Devices) -> PartitionSpec:
    return PartitionSpec(devices.data_axis) if devices.cuts_data else NONE


def _mapped(devices: Devices, function: Callable[..., Any], in_specs: Any, out_specs: Any) -> Callable[..., Any]:
    return jax.shard_map(function, mesh=devices.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)


def _wider(devices: Devices, tree: PyTree) -> PyTree:
    """Return chains of which all devices have as many: copies of the last one are added."""

    def wide(x: Array) -> Array:
        missing = devices.width(x.shape[0]) - x.shape[0]
        return x if not missing else jnp.concatenate([x, jnp.repeat(x[-1:], missing, axis=0)])

    return jax.tree.map(wide, tree)


def _cut_state(devices: Devices, state: KernelState, count: int, shared_memory: bool) -> KernelState:
    if devices.width(count) == count:
        return state
    memory = state.memory
    if not shared_memory:
        memory = jax.tree.map(lambda x: _cut(devices, count, x, spec=devices.specs(count, False).memory), memory)
    return state._replace(dynamics=_cut(devices, count, state.dynamics), memory=memory)


def _cut(devices: Devices, count: int, tree: PyTree, axis: int = 0, spec: PartitionSpec = NONE) -> PyTree:
    """Return the first chains, on all devices."""
    sharding = NamedSharding(devices.mesh, spec)

    def first(x: Array) -> Array:
        return jax.lax.with_sharding_constraint(jax.lax.slice_in_dim(x, 0, count, axis=axis), sharding)

    return jax.tree.map(first, tree)
