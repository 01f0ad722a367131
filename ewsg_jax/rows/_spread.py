"""Rows on several devices, seen as one: sums by part, which meet in one over the devices."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Array, Data, PyTree
from ewsg_jax.rows._shards import Shard
from ewsg_jax.rows._view import Batch, Rows, places_of_blocks

CHAINS, DATA = "chains", "data"
"""The names of a mesh's axes."""
MESH_TAKES = "mesh must be a jax.sharding.Mesh whose axes are 'chains', 'data' or both, or None"


@module
class Spread(Rows):
    """All rows, cut into a part for each device along `data`.

    Attributes:
        rows: axes part, row of the part, …; rows that do not count are copies of such as do.
        size: how many rows of its part count, for a row that counts; 0 for one that does not;
            int32, shape (part, row).
        total: n.
        mesh: the devices, with the axes `chains` and `data`.
    """

    size: Array
    total: int = static()
    mesh: Mesh = static()

    @property
    def tree(self) -> Data:
        return jax.tree.map(
            lambda x: jax.ShapeDtypeStruct((self.total, *x.shape[2:]), x.dtype), self.rows
        )

    @property
    def cut(self) -> Data:
        return self.tree

    @property
    def length(self) -> int:
        return self.total

    def sum(self, function: Callable[[Data], PyTree], chunk_size: int) -> PyTree:
        """Return the sum of what a function makes of the rows of each part, on all devices."""
        return self.on_all_devices(lambda part: jax.lax.psum(part.sum(function, chunk_size), DATA))

    def take(self, indices: Array) -> Data:
        """Return rows by their numbers, any shape, on all devices: each contributes its own."""
        first = jnp.asarray(ends(self.total, self.mesh.shape[DATA]), jnp.int32)

        def of_part(part: Shard) -> Data:
            # Each device gathers all indices, of which those that lie elsewhere count as 0 in the
            # sum.
            place = indices - first[jax.lax.axis_index(DATA)]
            is_here = (place >= 0) & (place < part.size[0])

            def here(x: Array) -> Array:
                rows = pytrees.take(x, jnp.where(is_here, place, 0))
                rows = jnp.where(is_here.reshape(*place.shape, *[1] * (x.ndim - 1)), rows, 0)
                # `psum` adds numbers: truth values go as bytes.
                return rows.astype(jnp.uint8) if x.dtype == bool else rows.astype(x.dtype)

            return jax.lax.psum(jax.tree.map(here, part.rows), DATA)

        rows = self.on_all_devices(of_part)
        return jax.tree.map(lambda x, like: x.astype(like.dtype), rows, self.rows)

    def blocks(self, starts: Array, size: int, *, around: bool) -> Batch:
        """Return blocks of consecutive rows, row by row: a block may lie on several devices."""
        # Row by row, for the two ends of a block may lie on two devices.
        numbers, *_ = places_of_blocks(starts, size, self.total)
        return Batch(numbers, self.take(numbers))

    def subset(self, numbers: np.ndarray) -> "Spread":
        """Return some of the rows, by their numbers in order; each stays on its device."""
        # Each part keeps its own of them; parts are filled up to the longest with rows that do not
        # count.
        bounds = np.searchsorted(numbers, ends(self.total, self.mesh.shape[DATA]))
        sizes = np.diff(bounds)
        places = np.arange(max(1, sizes.max()))
        counts = np.where(places < sizes[:, None], sizes[:, None], 0).astype(np.int32)
        # The last rows are asked for again where a part has fewer: they do not count.
        of_all = numbers[np.minimum(bounds[:-1, None] + places, len(numbers) - 1)]
        of_part = of_all - ends(self.total, len(sizes))[:-1, None]
        of_part = np.where(counts > 0, of_part, 0).astype(np.int32)
        return Spread(
            rows=_rows_of_parts(self, of_part),
            size=jnp.asarray(counts),
            total=len(numbers),
            mesh=self.mesh,
        )

    def on_all_devices(self, function: Callable[[Shard], PyTree]) -> PyTree:
        """Return what a function returns for each part, which must be the same for all parts."""
        parts = self.mesh.shape[DATA]

        def here(rows: Data, size: Array) -> PyTree:
            part = jax.tree.map(lambda x: jnp.squeeze(x, 0), rows)
            return function(
                Shard(rows=part, size=size[0], total=self.total, parts=parts, axes=(DATA,))
            )

        cut, replicated = PartitionSpec(DATA), PartitionSpec()
        mapped = jax.shard_map(
            here, mesh=self.mesh, in_specs=(cut, cut), out_specs=replicated, check_vma=False
        )
        return mapped(self.rows, self.size)


@jax.jit
def _rows_of_parts(data: Spread, numbers: Array) -> Data:
    """Return rows of each part, by their numbers in it, shape (part, count)."""

    def of_part(rows: Data, of_one: Array) -> Data:
        return jax.tree.map(lambda x: x[0][of_one[0]][None], rows)

    spec = PartitionSpec(DATA)
    return jax.shard_map(
        of_part, mesh=data.mesh, in_specs=(spec, spec), out_specs=spec, check_vma=False
    )(data.rows, numbers)


def checked_mesh(mesh: object) -> Mesh:
    """Return a mesh of these devices with both axes, of type Auto: programs run device by device.

    An axis that was not given has length 1.

    Raises:
        TypeError, ValueError: it is not a mesh with such axes.
    """
    if not isinstance(mesh, Mesh):
        raise TypeError(f"{MESH_TAKES}; got {checks.describe(mesh)}")
    names = tuple(mesh.axis_names)
    if not names or not set(names) <= {CHAINS, DATA}:
        raise ValueError(f"{MESH_TAKES}; got one with the axes {names}")
    # Axes of type Explicit, which `jax.make_mesh` gives, refuse gathers under `vmap`.
    devices = mesh.devices.T if names[0] == DATA else mesh.devices
    lengths = [mesh.shape.get(name, 1) for name in (CHAINS, DATA)]
    return Mesh(devices.reshape(lengths), (CHAINS, DATA), axis_types=(AxisType.Auto,) * 2)


def check_rows(data: Data, parts: int) -> None:
    """Check that there is a row for each part.

    Raises:
        ValueError: there is none.
    """
    n = checks.data(data)
    if n < parts:
        raise ValueError(
            f"mesh must have an axis 'data' of at most n = {n} devices, a row on each; got {parts}"
        )


def ends(n: int, parts: int) -> np.ndarray:
    """Return the number of the first row of each part, and n, shape (parts + 1,).

    Parts differ by one row at most.
    """
    return np.linspace(0, n, parts + 1).astype(int)


def cut(data: Data, parts: int, mesh: Mesh) -> tuple[Data, Array]:
    """Return rows in nearly even parts, in order, along a mesh's axis; and each part's count."""
    n = jax.tree.leaves(data)[0].shape[0]
    most, bounds = -(-n // parts), ends(n, parts)
    sizes, spec = np.diff(bounds), PartitionSpec(DATA)

    def of_leaf(x: object) -> jax.Array:
        # Rows are placed device by device: no device holds them all, not even for a moment.
        known = on_host(x)

        def of_device(index: Any) -> np.ndarray:
            on_device = range(*index[0].indices(parts))
            # Parts that are one row short are filled up with a copy, which has no weight.
            return np.stack(
                [known[bounds[part] + np.arange(most) % sizes[part]] for part in on_device]
            )

        shape = parts, most, *known.shape[1:]
        return jax.make_array_from_callback(shape, NamedSharding(mesh, spec), of_device)

    counts = np.where(np.arange(most) < sizes[:, None], sizes[:, None], 0).astype(np.int32)
    return jax.tree.map(of_leaf, data), placed(mesh, spec, counts)


def over(mesh: object, data: Data) -> Data:
    """Return rows on the devices along a mesh's axis `data`; as they are without such an axis.

    Raises:
        TypeError, ValueError: it is not a mesh with such axes, or has more devices than there are
            rows.
    """
    if mesh is None:
        return data
    auto = checked_mesh(mesh)
    if isinstance(data, Spread):
        return data
    parts = auto.shape[DATA]
    check_rows(data, parts)
    if parts == 1:
        return data
    rows, size = cut(data, parts, auto)
    return Spread(rows=rows, size=size, total=jax.tree.leaves(data)[0].shape[0], mesh=auto)


def placed(mesh: Mesh, spec: PartitionSpec, x: Any) -> jax.Array:
    """Return an array on a mesh's devices, of which each process makes its own devices' part."""
    known = on_host(x)
    return jax.make_array_from_callback(known.shape, NamedSharding(mesh, spec), known.__getitem__)


def on_host(x: Any) -> np.ndarray:
    """Return rows in the host's memory, in the dtype that JAX would give them.

    Raises:
        ValueError: another process holds a part of them.
    """
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
        raise ValueError(
            "data must be whole in each process with mesh, which cuts them; got a part of them"
        )
    return np.asarray(x, jax.dtypes.canonicalize_dtype(x.dtype))
