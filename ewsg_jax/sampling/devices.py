"""Over which devices a run goes: some of the chains on each, or some of the rows, or both; and its
programs.

The programs are those of one device, mapped. No chain waits for another. Parts of the rows meet in
one sum of d numbers per chain and gradient, in `Posterior.total`; what a chain does with it is done
on all of its devices.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ewsg_jax import _check
from ewsg_jax._kernel import Kernel, KernelState, RowsSeen
from ewsg_jax._types import Array, Data, Key, PyTree
from ewsg_jax.compiling import LOOP
from ewsg_jax.needs import Need, parts_of, who_needs
from ewsg_jax.rows import spread
from ewsg_jax.rows.padded import Padded
from ewsg_jax.rows.probability import ByProbability
from ewsg_jax.rows.shards import PARTS, Shard
from ewsg_jax.rows.spread import CHAINS, DATA
from ewsg_jax.rows.view import all_rows, num_rows
from ewsg_jax.sampling import chunks
from ewsg_jax.sampling.chunks import Call, Health
from ewsg_jax.sampling.keeping import Plan, Record
from ewsg_jax.sampling.layout import Layout

NONE = PartitionSpec()


@dataclass(frozen=True)
class Devices:
    """A mesh, and into how many parts the rows are cut; `jax.jit` takes it as a static argument.

    Attributes:
        mesh: axes of type Auto: what runs on it is mapped by `jax.shard_map`, device by device.
        parts: S, at least one for each device along `data`; more where a run resumes with fewer
            devices.
    """

    mesh: Mesh
    parts: int

    @property
    def along_chains(self) -> int:
        """How many devices share the chains."""
        return self.mesh.shape.get(CHAINS, 1)

    @property
    def along_data(self) -> int:
        """How many devices share the rows."""
        return self.mesh.shape.get(DATA, 1)

    @property
    def parts_here(self) -> int:
        """How many parts of the rows lie on each device."""
        return self.parts // self.along_data

    @property
    def cuts_data(self) -> bool:
        """Whether rows are cut into parts."""
        return self.parts > 1

    @property
    def chains_axis(self) -> str | None:
        """The mesh's axis of chains."""
        return CHAINS if CHAINS in self.mesh.axis_names else None

    @property
    def data_axis(self) -> str | None:
        """The mesh's axis of rows, where they are cut."""
        return DATA if DATA in self.mesh.axis_names and self.cuts_data else None

    @property
    def axes(self) -> tuple[str, ...]:
        """The mapped axes over which parts of the rows lie."""
        found = () if self.data_axis is None else (DATA,)
        return found if self.parts_here == 1 and found else (*found, PARTS)

    @property
    def platform(self) -> str:
        """What kind of devices these are."""
        return self.mesh.devices.flat[0].platform

    @property
    def has_many_processes(self) -> bool:
        """Whether other processes hold some of the devices."""
        return len({device.process_index for device in self.mesh.devices.flat}) > 1

    # All devices run one program, so all have as many chains.
    def each(self, num_chains: int) -> int:
        """Return how many chains a device has: as many as the others; the last may be copies."""
        return -(-num_chains // self.along_chains)

    def width(self, num_chains: int) -> int:
        """Return how many chains all devices have together."""
        return self.each(num_chains) * self.along_chains

    def specs(self, num_chains: int | None, shared_memory: bool) -> KernelState:
        """Return how states lie: `num_chains` whole on each device where they do not divide."""
        # Copies of the last chain stand for those that are missing; what they give is cut off.
        even = num_chains is None or self.width(num_chains) == num_chains
        chains = self.chains_axis if even else None
        memory = (self.data_axis,) if shared_memory else (chains, self.data_axis)
        own: Any = PartitionSpec(chains)
        of_memory = PartitionSpec(*memory) if self.cuts_data else PartitionSpec(*memory[:-1])
        return KernelState(own, of_memory, own, own)

    def cut_laws(self, kernel: Kernel) -> Kernel:
        """Return the kernel with row laws for rows in parts: by probability, a table for each."""

        # A table of all rows would name rows that another device has.
        def in_parts(part: Any) -> Any:
            return part.over_parts(self.parts) if isinstance(part, ByProbability) else part

        return jax.tree.map(in_parts, kernel, is_leaf=lambda part: isinstance(part, ByProbability))

    def put(self, data: Data) -> Data:
        """Return data on the devices: cut into parts, leading axis part, or whole on each."""
        if not self.cuts_data:
            return jax.tree.map(lambda x: self._whole(PartitionSpec(), x), data)
        rows, size = spread.cut(data, self.parts, self.mesh, self.data_axis)
        return Shard(rows=rows, size=size, total=num_rows(data), parts=self.parts, axes=self.axes)

    def put_states(self, state: KernelState, shared_memory: bool) -> KernelState:
        """Return the states of all chains on the devices."""
        specs = self.specs(np.shape(state.step)[0], shared_memory)

        def put(spec: PartitionSpec, tree: PyTree) -> PyTree:
            return jax.tree.map(lambda x: self._whole(spec, x), tree)

        own: Any = specs.dynamics
        return KernelState(
            put(own, state.dynamics),
            put(specs.memory, state.memory),
            state.rows,
            put(own, state.order),
        )

    def of_one(self, state: KernelState, shared_memory: bool) -> KernelState:
        """Return the shapes of the states that one device has, without its axis of parts."""
        each = self.each(state.step.shape[0])

        def some(x: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((each, *x.shape[1:]), x.dtype)

        def of_part(x: Any) -> jax.ShapeDtypeStruct:
            shape = x.shape if shared_memory else (each, *x.shape[1:])
            axis = 0 if shared_memory else 1
            return jax.ShapeDtypeStruct(
                shape[:axis] + shape[axis + 1 :] if self.cuts_data else shape, x.dtype
            )

        memory = jax.tree.map(of_part, state.memory)
        dynamics, order = jax.tree.map(some, (state.dynamics, state.order))
        return state._replace(dynamics=dynamics, memory=memory, order=order)

    # Each process makes what its own devices hold: no array crosses from one to another.
    def _whole(self, spec: PartitionSpec, x: Any) -> jax.Array:
        known = np.asarray(x)
        return spread.placed(self.mesh, spec, known.shape, lambda index: known[index], known.dtype)


class Placed(NamedTuple):
    """Data on several devices.

    Attributes:
        devices: which.
        data: as `Devices.put` places them.
    """

    devices: Devices
    data: Data

    def of_one(self, state: KernelState, shared_memory: bool) -> tuple[KernelState, Data]:
        """Return the shapes of the states and of the rows that one device has, as of data that know
        of no others.
        """
        if isinstance(self.data, Shard):
            part = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), self.data)
            rows: Data = Padded(rows=part.rows, size=part.size)
        else:
            rows = _check.shapes(self.data)
        return self.devices.of_one(state, shared_memory), rows


def checked(mesh: Any, kernel: Kernel, data: Data, parts: int | None = None) -> Devices | None:
    """Check a mesh, and return the devices of it.

    Args:
        mesh: the argument.
        kernel: what is to run on them.
        data: all rows.
        parts: into how many parts rows are cut; default as many as devices along `data`.

    Raises:
        TypeError, ValueError: it is no mesh with such axes, or the kernel cannot have its rows on
            several devices.
    """
    if mesh is None:
        # A run in parts resumes in as many parts, for batches depend on them, on any devices.
        if parts in (None, 1):
            return None
        mesh = Mesh(np.array(jax.devices()[:1]), (DATA,))
    auto = spread.checked_mesh(mesh)
    along = auto.shape.get(DATA, 1)
    devices = Devices(auto, along if parts is None else parts)
    if devices.parts % along:
        raise ValueError(
            f"mesh must have an axis 'data' whose length divides {devices.parts}, the parts into "
            f"which the rows of this run are cut; got {along}"
        )
    if not devices.cuts_data:
        return devices
    # The part is named that needs its rows in one place, not the kernel.
    if (part := who_needs(kernel, Need.ONE_PLACE)) is not None:
        raise ValueError(
            f"mesh must have no axis 'data', or one of length 1, for a kernel of which {part!r} "
            f"needs {Need.ONE_PLACE.value}; those of the estimators full, uniform, svrg, saga, "
            "control_variate, covariance_tracking, kept_covariance and their exponential weights "
            f"with rows='random' or by probability do not; got the axis {along} long and {kernel!r}"
        )
    for size in (part.batch_size for part in parts_of(kernel) if hasattr(part, "batch_size")):
        if size % devices.parts:
            raise ValueError(
                f"batch_size must be a multiple of {devices.parts}, the parts into which mesh cuts "
                f"the rows, for each has its share of every batch; got {size}"
            )
    spread.check_rows(data, devices.parts)
    return devices


@functools.partial(jax.jit, static_argnames=("devices", "shared_memory"))
def start(
    devices: Devices,
    kernel: Kernel,
    data: Data,
    keys: Array,
    positions: PyTree,
    shared_memory: bool,
) -> KernelState:
    """Return the first states, as `chunks.start`; memory has a parts axis after the chains'."""
    count, own = keys.shape[0], PartitionSpec(devices.chains_axis)

    # Seen from one device: its chains, its rows, and `psum` where parts meet.
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
    devices: Devices,
    kernel: Kernel,
    layout: Layout,
    chain_keys: Array,
    *arguments: Any,
    **options: Any,
) -> Call:
    """Make steps of all chains, as `chunks.call` does on one device."""
    count = chain_keys.shape[0]
    program = functools.partial(compiled(layout.small, devices.width(count) == count), devices)
    return chunks.call(kernel, layout, chain_keys, *arguments, program=program, **options)


@functools.cache
def compiled(small: bool, donated: bool) -> Any:
    # Where chains do not divide, states are made wider first, and their memory cannot be given
    # away.
    """Return the program: quickly compiled or not, taking the memory of its state or not."""
    options: dict[str, Any] = {"compiler_options": LOOP} if small else {}
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

    def here(
        kernel: Kernel, keys: Array, alive: Array, state: KernelState, data: Data, *rest: Any
    ) -> Call:
        shared_key, plan, done, num_steps = rest

        def of_part(memory: PyTree, data: Data) -> Call:
            whole = state._replace(memory=memory)
            arguments = keys, shared_key, data, plan, done, num_steps, whole, alive
            return chunks._advance(kernel, layout, *arguments, guarded=guarded, counted=counted)

        return _with_parts(devices, shared_memory, of_part, data, state.memory)

    # A shared memory has no axis of chains, so it is not made wider.
    memory = () if shared_memory else state.memory
    chains = chain_keys, alive, state.dynamics, state.order, memory
    keys, alive, dynamics, order, memory = _wider(devices, chains)
    wide = state._replace(
        dynamics=dynamics, memory=state.memory if shared_memory else memory, order=order
    )
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
    # One part a device is no axis of `vmap`: the program is that of one device, and as fast.
    if devices.parts_here == 1 and devices.data_axis is not None:
        made = function(
            *(jax.tree.map(lambda x: jnp.squeeze(x, axis), tree) for tree in memory),
            jax.tree.map(lambda x: jnp.squeeze(x, 0), data),
        )
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


def _data_spec(devices: Devices) -> PartitionSpec:
    return PartitionSpec(devices.data_axis) if devices.cuts_data else NONE


def _mapped(
    devices: Devices,
    function: Callable[..., Any],
    in_specs: Any,
    out_specs: Any,
) -> Callable[..., Any]:
    # Whether all devices agree is not checked: what they share is summed by `psum` alone.
    return jax.shard_map(
        function, mesh=devices.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )


def _wider(devices: Devices, tree: PyTree) -> PyTree:
    """Return chains of which all devices have as many: copies of the last one are added."""

    def wide(x: Array) -> Array:
        missing = devices.width(x.shape[0]) - x.shape[0]
        return x if not missing else jnp.concatenate([x, jnp.repeat(x[-1:], missing, axis=0)])

    return jax.tree.map(wide, tree)


def _cut_state(
    devices: Devices, state: KernelState, count: int, shared_memory: bool
) -> KernelState:
    if devices.width(count) == count:
        return state
    memory = state.memory
    if not shared_memory:
        memory = jax.tree.map(
            lambda x: _cut(devices, count, x, spec=devices.specs(count, False).memory), memory
        )
    dynamics, order = _cut(devices, count, (state.dynamics, state.order))
    return state._replace(dynamics=dynamics, memory=memory, order=order)


def _cut(
    devices: Devices, count: int, tree: PyTree, axis: int = 0, spec: PartitionSpec = NONE
) -> PyTree:
    """Return the first chains, on all devices."""
    sharding = NamedSharding(devices.mesh, spec)

    def first(x: Array) -> Array:
        return jax.lax.with_sharding_constraint(
            jax.lax.slice_in_dim(x, 0, count, axis=axis), sharding
        )

    return jax.tree.map(first, tree)
