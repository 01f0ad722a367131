"""Over which devices a run goes: some of the chains on each, or some of the rows, or both."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from ewsg_jax import _check
from ewsg_jax._kernel import Kernel, KernelState
from ewsg_jax._types import Data, PyTree
from ewsg_jax.needs import Need, who_needs
from ewsg_jax.rows import spread
from ewsg_jax.rows.gathering import num_rows
from ewsg_jax.rows.padded import Padded
from ewsg_jax.rows.probability import ByProbability
from ewsg_jax.rows.shards import PARTS, Shard
from ewsg_jax.rows.spread import CHAINS, DATA


@dataclass(frozen=True)
class Devices:
    """A mesh, and into how many parts the rows are cut; `jax.jit` takes it as a static argument.

    Attributes:
        mesh: axes of type Auto: what runs on it is mapped by `jax.shard_map`, device by device.
        parts: S, at least one for each device along `data`; more where a run goes on with fewer devices.
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

    def each(self, num_chains: int) -> int:
        """Return how many chains a device has: as many as the others, of which the last may be copies."""
        return -(-num_chains // self.along_chains)

    def width(self, num_chains: int) -> int:
        """Return how many chains all devices have together."""
        return self.each(num_chains) * self.along_chains

    def specs(self, num_chains: int | None, shared_memory: bool) -> KernelState:
        """Return how states lie: of so many chains, whole on every device where they cannot be shared evenly."""
        even = num_chains is None or self.width(num_chains) == num_chains
        chains = self.chains_axis if even else None
        memory = (self.data_axis,) if shared_memory else (chains, self.data_axis)
        own: Any = PartitionSpec(chains)
        return KernelState(own, PartitionSpec(*memory) if self.cuts_data else PartitionSpec(*memory[:-1]), own)

    def cut_laws(self, kernel: Kernel) -> Kernel:
        """Return the kernel with its laws of rows for rows in parts: those by probability have a table for each."""

        def in_parts(part: Any) -> Any:
            return part.over_parts(self.parts) if isinstance(part, ByProbability) else part

        return jax.tree.map(in_parts, kernel, is_leaf=lambda part: isinstance(part, ByProbability))

    def put(self, data: Data) -> Data:
        """Return data on the devices: cut into parts, leading axis part, or whole on each."""
        if not self.cuts_data:
            return jax.tree.map(lambda x: self._whole(PartitionSpec(), x), data)
        rows, size = spread.cut(data, self.parts, self.mesh, self.data_axis)
        return Shard(rows, size, num_rows(data), self.parts, self.axes)

    def put_states(self, state: KernelState, shared_memory: bool) -> KernelState:
        """Return the states of all chains on the devices."""
        specs = self.specs(np.shape(state.step)[0], shared_memory)

        def put(spec: PartitionSpec, tree: PyTree) -> PyTree:
            return jax.tree.map(lambda x: self._whole(spec, x), tree)

        own: Any = specs.dynamics
        return state._replace(dynamics=put(own, state.dynamics), memory=put(specs.memory, state.memory))

    def of_one(self, state: KernelState, shared_memory: bool) -> KernelState:
        """Return the shapes of the states that one device has, without its axis of parts."""
        each = self.each(state.step.shape[0])

        def some(x: Any) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((each, *x.shape[1:]), x.dtype)

        def of_part(x: Any) -> jax.ShapeDtypeStruct:
            shape = x.shape if shared_memory else (each, *x.shape[1:])
            axis = 0 if shared_memory else 1
            return jax.ShapeDtypeStruct(shape[:axis] + shape[axis + 1 :] if self.cuts_data else shape, x.dtype)

        memory = jax.tree.map(of_part, state.memory)
        return state._replace(dynamics=jax.tree.map(some, state.dynamics), memory=memory)

    def rows_of_one(self, placed: Data) -> Data:
        """Return the shapes of one part of the data, as of data that know of no others."""
        if not isinstance(placed, Shard):
            return _check.shapes(placed)
        part = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), placed)
        return Padded(part.rows, part.size)

    def _whole(self, spec: PartitionSpec, x: Any) -> jax.Array:
        known = np.asarray(x)
        return spread.placed(self.mesh, spec, known.shape, lambda index: known[index], known.dtype)


def checked(mesh: Any, kernel: Kernel, data: Data, parts: int | None = None) -> Devices | None:
    """Check a mesh, and return the devices of it.

    Args:
        mesh: the argument.
        kernel: what is to run on them.
        data: all rows.
        parts: into how many parts rows are cut; default as many as devices along `data`.

    Raises:
        TypeError, ValueError: it is no mesh with such axes, or the kernel cannot have its rows on several devices.
    """
    if mesh is None:
        if parts in (None, 1):
            return None
        mesh = Mesh(np.array(jax.devices()[:1]), (DATA,))
    auto = spread.checked_mesh(mesh)
    along = auto.shape.get(DATA, 1)
    devices = Devices(auto, along if parts is None else parts)
    if devices.parts % along:
        raise ValueError(
            f"mesh must have an axis 'data' whose length divides {devices.parts}, the parts into which the rows of "
            f"this run are cut; got {along}"
        )
    if not devices.cuts_data:
        return devices
    if (part := who_needs(kernel, Need.ONE_PLACE)) is not None:
        raise ValueError(
            f"mesh must have no axis 'data', or one of length 1, for a kernel of which {part!r} needs "
            f"{Need.ONE_PLACE.value}; those of the estimators full, uniform, svrg, saga, control_variate, "
            "covariance_tracking, kept_covariance and their exponential weights with rows='random' or by "
            f"probability do not; got the axis {along} long and {kernel!r}"
        )
    size = batch_size(kernel)
    if size is not None and size % devices.parts:
        raise ValueError(
            f"batch_size must be a multiple of {devices.parts}, the parts into which mesh cuts the rows, for each "
            f"has its share of every batch; got {size}"
        )
    spread.check_rows(data, devices.parts)
    return devices


def batch_size(kernel: Kernel) -> int | None:
    """Return b of a kernel's batches, None where it draws none."""
    estimator: Any = getattr(kernel, "estimator", None)
    while hasattr(estimator, "estimator"):
        estimator = estimator.estimator
    return None if estimator is None else getattr(estimator, "batch_size", None)
