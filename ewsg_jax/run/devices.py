"""The devices of a run, each with a part of the chains, of the rows, or both; and its programs.

The programs are those of one device, mapped. No chain waits for another. Parts of the rows meet in
one sum of d numbers per chain and gradient, in `Posterior.total`; what a chain does with it is done
on all of its devices.

Chains are mapped by `jax.shard_map` too. If they were only placed along the axis, XLA would share
the same program and the draws would be the same, but a condition that depends on a chain (of a
loop, or of a branch that any chain may need) would be summed over all devices each time: by SVRG in
every step, by epochs in every block. A likelihood with a `while_loop` of its own then took several
times as long, measured on two and four devices of a CPU whose cores had other work too.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.compiling import LOOP
from ewsg_jax.base.needs import Need, parts_of, who_needs
from ewsg_jax.base.typing import Array, Data, PyTree
from ewsg_jax.kernels.protocol import Kernel, KernelState, chain_axes
from ewsg_jax.rows import _spread as spread
from ewsg_jax.rows._padded import Padded
from ewsg_jax.rows._probability import ByProbability
from ewsg_jax.rows._shards import PARTS, Shard
from ewsg_jax.rows._spread import CHAINS, DATA
from ewsg_jax.rows._view import num_rows
from ewsg_jax.run import compiled_loop
from ewsg_jax.run.compiled_loop import Call, Health, LoopKind, RunInputs, Span
from ewsg_jax.run.keeping import Record
from ewsg_jax.run.layout import ProgramLayout
from ewsg_jax.run.stacks.kernels import Stack


@dataclass(frozen=True)
class Devices:
    """A mesh, and the number of parts of the rows; `jax.jit` takes it as a static argument.

    Attributes:
        mesh: as `spread.checked_mesh` returns it.
        parts: S, at least one for each device along `data`; more if a run resumes with fewer
            devices.
    """

    mesh: Mesh
    parts: int

    @property
    def parts_here(self) -> int:
        """How many parts of the rows lie on each device."""
        return self.parts // self.mesh.shape[DATA]

    @property
    def cuts_data(self) -> bool:
        """Whether rows are cut into parts."""
        return self.parts > 1

    @property
    def axes(self) -> tuple[str, ...]:
        """The mapped axes over which parts of the rows lie."""
        return (DATA,) if self.parts_here == 1 else (DATA, PARTS)

    @property
    def rows_spec(self) -> PartitionSpec:
        """How rows lie: a part's on its device, or all on each."""
        return PartitionSpec(DATA) if self.cuts_data else PartitionSpec()

    # All devices run one program, so all have as many chains.
    def chains_per_device(self, num_chains: int) -> int:
        """Return how many chains each device has; on the last ones some may be copies."""
        return -(-num_chains // self.mesh.shape[CHAINS])

    def divides(self, num_chains: int) -> bool:
        """Return whether as many chains lie on each device; else all lie on each."""
        return num_chains % self.mesh.shape[CHAINS] == 0

    def spec(self, num_chains: int, axis: int | None = 0) -> PartitionSpec:
        """Return how arrays of all chains lie that have these along an axis, None for none."""
        chains = CHAINS if self.divides(num_chains) else None
        return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, chains)

    def specs(self, num_chains: int, shared_memory: bool) -> KernelState:
        """Return how states lie; a memory of rows in parts has their axis after the chains'."""
        chains: Any = self.spec(num_chains)
        memory = self.spec(num_chains, None) if shared_memory else chains
        if self.cuts_data:
            memory = PartitionSpec(*memory, DATA)
        return KernelState(chains, memory, chains, chains)

    def cut_row_tables(self, kernel: Kernel) -> Kernel:
        """Return the kernel with a table of row probabilities for each part of the rows."""

        # A table of all rows would name rows that another device has.
        def in_parts(part: Any) -> Any:
            return part.over_parts(self.parts) if isinstance(part, ByProbability) else part

        return jax.tree.map(in_parts, kernel, is_leaf=lambda part: isinstance(part, ByProbability))

    def place(self, data: Data) -> Data:
        """Return data on the devices: cut into parts, leading axis part, or whole on each."""
        if not self.cuts_data:
            return self._placed(PartitionSpec(), data)
        rows, size = spread.cut(data, self.parts, self.mesh)
        return Shard(rows=rows, size=size, total=num_rows(data), parts=self.parts, axes=self.axes)

    def place_states(self, state: KernelState, shared_memory: bool) -> KernelState:
        """Return the states of all chains on the devices."""
        specs = self.specs(np.shape(state.step)[0], shared_memory)
        return jax.tree.map(self._placed, specs, state)

    def _placed(self, spec: PartitionSpec, tree: PyTree) -> PyTree:
        return jax.tree.map(functools.partial(spread.placed, self.mesh, spec), tree)

    def local_chains(self, num_chains: int, axes: PyTree, tree: PyTree) -> PyTree:
        """Return the chains of a device, seen from it; copies of the last chain fill up."""
        if self.divides(num_chains):
            return tree
        count = self.chains_per_device(num_chains)
        numbers = jax.lax.axis_index(CHAINS) * count + jnp.arange(count)
        numbers = jnp.minimum(numbers, num_chains - 1)
        return _along(axes, lambda x, axis: pytrees.take(x, numbers), tree)

    def gather_chains(self, num_chains: int, axes: PyTree, tree: PyTree) -> PyTree:
        """Return what `specs` puts on a device, from what each has of its own chains."""
        if self.divides(num_chains):
            return tree

        def gather(x: Array, axis: int) -> Array:
            wide = jax.lax.all_gather(x, CHAINS, axis=axis, tiled=True)
            return jax.lax.slice_in_dim(wide, 0, num_chains, axis=axis)

        return _along(axes, gather, tree)

    def shard_map(
        self, function: Callable[..., Any], in_specs: Any, out_specs: Any
    ) -> Callable[..., Any]:
        """Return a program of all devices, from what one does with its part of the arguments."""
        # Whether all devices agree is not checked: what they share is summed by `psum` alone.
        return jax.shard_map(
            function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False
        )

    def of_parts(
        self,
        function: Callable[..., tuple[PyTree, Any]],
        shared_memory: bool,
        data: Data,
        *memory: PyTree,
    ) -> tuple[PyTree, Any]:
        """Apply a function to the rows and the memory of each part on a device.

        Returns:
            The next memory of the parts; and the rest, which must be the same for all parts.
        """
        if not self.cuts_data:
            return function(data, *memory)
        axis = 0 if shared_memory else 1
        # Nothing but the memory may differ from part to part: `vmap` refuses it.
        if self.parts_here > 1:
            in_axes = 0, *[axis] * len(memory)
            return jax.vmap(function, in_axes, (axis, None), axis_name=PARTS)(data, *memory)
        # One part a device is no axis of `vmap`: the program is that of one device, and as fast.
        next_memory, rest = function(
            jax.tree.map(lambda x: jnp.squeeze(x, 0), data),
            *jax.tree.map(lambda x: jnp.squeeze(x, axis), memory),
        )
        return jax.tree.map(lambda x: jnp.expand_dims(x, axis), next_memory), rest


class Placed(NamedTuple):
    """Data on several devices.

    Attributes:
        devices: the devices.
        data: the data as `Devices.place` returns them.
    """

    devices: Devices
    data: Data

    def shapes_of_one(self, state: KernelState, shared_memory: bool) -> tuple[KernelState, Data]:
        """Return the shapes of the states and of the rows on one device, as if it were alone."""

        def shape(x: Any, axis: int, *length: int) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((*x.shape[:axis], *length, *x.shape[axis + 1 :]), x.dtype)

        count = self.devices.chains_per_device(state.step.shape[0])
        state = _along(chain_axes(shared_memory), lambda x, axis: shape(x, axis, count), state)
        if not isinstance(self.data, Shard):
            return state, checks.shapes(self.data)
        axis = 0 if shared_memory else 1
        memory = jax.tree.map(lambda x: shape(x, axis), state.memory)
        rows, size = jax.tree.map(lambda x: shape(x, 0), (self.data.rows, self.data.size))
        return state._replace(memory=memory), Padded(rows=rows, size=size)


def checked(mesh: Any, kernel: Kernel, data: Data, parts: int | None = None) -> Devices | None:
    """Check a mesh, and return its devices.

    Args:
        mesh: the argument `mesh` of `sample`.
        kernel: the kernel that is to run on them.
        data: all rows.
        parts: the number of parts into which rows are cut; default: of devices along `data`.

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
    along = auto.shape[DATA]
    devices = Devices(auto, along if parts is None else parts)
    if devices.parts % along:
        raise ValueError(
            f"mesh must have an axis 'data' whose length divides {devices.parts}, the parts into "
            f"which the rows of this run are cut; got {along}"
        )
    if not devices.cuts_data:
        return devices
    if isinstance(kernel, Stack) and kernel.of_data:
        raise ValueError(
            "mesh must have no axis 'data', or one of length 1, with several data sets, each of "
            f"which has its rows in one place; got the axis {along} long"
        )
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
    """Return the first states, as `compiled_loop.start` does; memory has a parts axis after the
    chains'.
    """
    count, axes = keys.shape[0], chain_axes(shared_memory)

    # Seen from one device: its chains, its rows, and `psum` where parts meet.
    def here(kernel: Kernel, data: Data, keys: Array, positions: PyTree) -> KernelState:
        keys, positions = devices.local_chains(count, 0, (keys, positions))

        def of_part(data: Data) -> tuple[PyTree, KernelState]:
            state = compiled_loop.start(kernel, data, keys, positions, shared_memory)
            return state.memory, state._replace(memory=())

        memory, state = devices.of_parts(of_part, shared_memory, data)
        return devices.gather_chains(count, axes, state._replace(memory=memory))

    chains = devices.spec(count)
    in_specs = PartitionSpec(), devices.rows_spec, chains, chains
    program = devices.shard_map(here, in_specs, devices.specs(count, shared_memory))
    return program(kernel, data, keys, positions)


def loop_of(devices: Devices, layout: ProgramLayout) -> Callable[..., Call]:
    """Return the loop over several devices, as `compiled_loop.loop_of` does for one."""
    return functools.partial(advance_small if layout.small else advance, devices)


def _advance(
    devices: Devices,
    kernel: Kernel,
    layout: ProgramLayout,
    inputs: RunInputs,
    data: Data,
    span: Span,
    state: KernelState,
    *,
    kind: LoopKind,
) -> Call:
    """Make steps of all chains, as `compiled_loop.advance` does on one device."""
    count, shared_memory = span.alive.shape[0], layout.shared_memory
    axes = _of_call(chain_axes(shared_memory), 1, 0)

    def here(kernel: Kernel, chains: Any, data: Data, rest: tuple[RunInputs, Span]) -> Call:
        keys, state, alive = devices.local_chains(count, (0, axes.state, 0), chains)
        inputs, span = rest[0]._replace(chain_keys=keys), rest[1]._replace(alive=alive)

        def of_part(data: Data, memory: PyTree) -> tuple[PyTree, Call]:
            states = state._replace(memory=memory)
            call = compiled_loop.make_span(kernel, layout, inputs, data, span, states, kind=kind)
            return call.state.memory, call._replace(state=call.state._replace(memory=()))

        memory, call = devices.of_parts(of_part, shared_memory, data, state.memory)
        call = call._replace(state=call.state._replace(memory=memory))
        return devices.gather_chains(count, axes, call)

    none, chains, states = PartitionSpec(), devices.spec(count), devices.specs(count, shared_memory)
    program = devices.shard_map(
        here,
        (none, (chains, states, chains), devices.rows_spec, none),
        _of_call(states, devices.spec(count, 1), chains),
    )
    # What differs from chain to chain is cut along them, the rest is on every device.
    rest = inputs._replace(chain_keys=()), span._replace(alive=())
    return program(kernel, (inputs.chain_keys, state, span.alive), data, rest)


_jit = functools.partial(
    jax.jit,
    _advance,
    static_argnames=("devices", "layout", "kind"),
    donate_argnames=("state",),
)
advance, advance_small = _jit(), _jit(compiler_options=LOOP)


def _of_call(state: KernelState, slots: Any, chains: Any) -> Call:
    """Return a call with these in place of its parts: state, kept draws, and all others."""
    return Call(state, Record(slots, chains), chains, Health(chains, chains))


def _along(axes: PyTree, change: Callable[[Any, int], Any], tree: PyTree) -> PyTree:
    """Return a pytree with each array changed along its axis of chains, None for those without."""

    def of_part(axis: int | None, part: PyTree) -> PyTree:
        return part if axis is None else jax.tree.map(lambda x: change(x, axis), part)

    return jax.tree.map(of_part, axes, tree, is_leaf=lambda axis: axis is None)
