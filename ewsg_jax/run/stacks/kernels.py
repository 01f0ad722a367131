"""Kernels that differ by numbers or by their data, as one kernel: a grid of step sizes is one
program and one run.

Its position has a leading axis of members. Members that see the same data get the same randomness,
so that each does what its own kernel would do with the chain's key, and rows are gathered once for
all. Members with data sets of their own, on the second axis of the data, get keys of their own.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.modules import is_same, made_by, module, static
from ewsg_jax.base.needs import Need, who_needs
from ewsg_jax.base.typing import Array, Data, Key, P, Position, PyTree, Scalar
from ewsg_jax.dynamics._protocol import Constant
from ewsg_jax.gradients import Evaluations
from ewsg_jax.gradients._protocol import sharing_of
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness, temperature_of
from ewsg_jax.model_checks.ignored_arrays import reads_data
from ewsg_jax.rows._padded import Padded

STACK_TAKES = "kernels must be some that differ by their numbers alone, or one made under vmap"


class StackState(NamedTuple):
    """The states of all members.

    Attributes:
        position: leading axis member.
        step: the step of all, int32.
        rest: what else each dynamics carries, with the same axes.
        diverged_at: the step at which each member ceased to be finite, −1 for none, shape
            (member,), int32. It is frozen at its last finite state.
    """

    position: PyTree
    step: Array
    rest: Any
    diverged_at: Array


@module
class Stack(Kernel[P]):
    """What `stack` returns; `stack[i]` is the kernel of one member.

    Attributes:
        kernel: the members as one kernel, with a leading axis of members on what differs.
        size: the number of members.
        differs: how the members differ in each leaf: "number", "array", or "" if not at all.
        of_data: whether each member has a data set of its own, as `stack_data` stacks them.
    """

    needs = frozenset()

    kernel: Kernel[P]
    size: int = static()
    differs: tuple[str, ...] = static()
    of_data: bool = static(default=False)

    def __repr__(self) -> str:
        return f"stack of {self.size}{' data sets' if self.of_data else ''}: {self.kernel!r}"

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, member: int) -> Kernel[P]:
        return apart(self.kernel, self.differs, checks.place("member", member, self.size))

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The numbers by which the members differ, by their names, shape (member,) each."""
        numbers = {name: np.asarray(leaf) for name, leaf in self._differing if np.ndim(leaf) == 1}
        short = [name.split(".")[-1] for name in numbers]
        names = short if len(set(short)) == len(short) else list(numbers)
        return dict(zip(names, numbers.values(), strict=True))

    def spread(self, position: Position) -> Position:
        """Return one position for all members."""
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.size, *jnp.shape(x))), position)

    def viewed(self, data: Data) -> Data:
        return self.kernel.viewed(data)

    def step(self, key: Key, state: KernelState[P], data: Data) -> tuple[KernelState[P], Info]:
        return super().step(key, state, self.viewed(data))

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        """Return a chain's members' first states; `position` has a leading members axis."""
        position, data = checks.position(position), self.viewed(data)
        self._check_members(position)
        # Padding is copies of rows, which a metric of the data would count.
        if isinstance(data, Padded):
            self._check_lengths()
            self._check_metric(first_of(position), jax.tree.map(lambda x: x[:, 0], data.rows))
        state = self._over(
            lambda kernel, position, key, data: kernel.init(key, position, data),
            (position, self._keys(key), data),
            (0, self._key_axis, self._data_axis),
            KernelState(0, self.memory_axis, None, self._key_axis),
            position,
        )
        inner: Any = state.dynamics
        # No member is lost at the start.
        never = jnp.full(self.size, -1, jnp.int32)
        rest = inner._replace(position=(), step=())
        return state._replace(dynamics=StackState(inner.position, inner.step[0], rest, never))

    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        members, axes = self._members(state)
        return self._over(
            lambda kernel, state, key, data: kernel.draw(key, state, data),
            (members, self._keys(key), data),
            (axes, self._key_axis, self._data_axis),
            self._batch_axis,
            state.position,
        )

    def fetch(self, randomness: Randomness, data: Data) -> Randomness:
        # Members whose estimators differ, or with data of their own, fetch theirs in the step.
        return super().fetch(randomness, data) if self._one_batch else randomness

    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        """Return the members' next states; one that is not finite keeps its last state."""
        members, axes = self._members(state)
        # What a step reports without being run is the same for all members, and has no axis.
        known: dict[str, Any] = {}

        def one(
            kernel: Kernel, randomness: Randomness, state: KernelState, data: Data
        ) -> tuple[KernelState, dict[str, Array]]:
            moved, info = kernel.transition(randomness, state, data)
            infos = info._asdict() | {"is_finite": pytrees.is_finite(moved.dynamics)}
            known.update({name: x for name, x in infos.items() if not isinstance(x, jax.Array)})
            return moved, {name: x for name, x in infos.items() if isinstance(x, jax.Array)}

        in_axes = (self._batch_axis, axes, self._data_axis)
        moved, infos = self._over(
            one, (randomness, members, data), in_axes, (axes, 0), state.position
        )
        # A member that is lost stays where it was, and others go on.
        before: StackState = state.dynamics
        fine = (before.diverged_at < 0) & infos["is_finite"]
        inner: Any = moved.dynamics
        fallen = (before.diverged_at < 0) & ~fine
        position, rest = jax.vmap(pytrees.where)(
            fine,
            (inner.position, inner._replace(position=(), step=())),
            (before.position, before.rest),
        )
        # All members are at one step, which has no axis.
        after_step = StackState(
            position,
            inner.step,
            rest,
            jnp.where(fallen, inner.step, before.diverged_at),
        )
        return moved._replace(dynamics=after_step), Info(**known, **(infos | {"is_finite": fine}))

    @property
    def step_size(self) -> Callable[[Array], Scalar]:
        """The step size of each member at step number `step`, shape (member,)."""
        return lambda step: self._over(
            lambda kernel: jnp.asarray(kernel.step_size(step)), (), (), 0, jnp.zeros(())
        )

    @property
    def temperature(self) -> Callable[[Array], Scalar]:
        """T of each member at step number `step`, shape (member,); shape () if all have one."""
        of_one = temperature_of(self.kernel)
        if isinstance(of_one, Constant) and not np.ndim(of_one.value):
            return of_one
        return lambda step: self._over(
            lambda kernel: jnp.asarray(temperature_of(kernel)(step)), (), (), 0, jnp.zeros(())
        )

    def evaluations(self, data: Data) -> Evaluations:
        """Return how many ∇Vᵢ a member evaluates."""
        return self[0].evaluations(data)

    def check(self, position: P, data: Data) -> None:
        """Raise what is wrong with the members' positions and the data."""
        self._check_members(position)
        first = first_of(position)
        if not self.of_data:
            self[0].check(first, data)
            return
        if isinstance(data, Padded):
            self._check_lengths()
        # All rows of all data sets, one after the other: what is wrong with one is wrong there.
        self[0].check(first, merged(data))

    def _check_lengths(self) -> None:
        """Raise that a part of the kernel takes one number of rows for all members."""
        if (part := who_needs(self.kernel, Need.ONE_N)) is not None:
            raise ValueError(
                "kernel must separate the rows that count from others, for data sets of several "
                "lengths, as the estimators uniform, control_variate, svrg, saga, full and their "
                f"exponential weights do with rows='random'; got {self.kernel!r}, of which "
                f"{made_by(part)} needs {Need.ONE_N.value}"
            )

    def _check_metric(self, position: Position, rows: Data) -> None:
        """Raise that a metric would see copies of rows that do not count."""
        metric = getattr(getattr(self.kernel, "dynamics", None), "inverse_metric", None)
        if metric is not None and reads_data(metric, position, rows):
            raise ValueError(
                "inverse_metric must not read the data, for data sets of several lengths: the "
                f"shorter ones are made as long as the longest by copies of rows; got {metric!r}, "
                "which reads them. Sample each data set by itself, or stack those of one length"
            )

    @property
    def _one_batch(self) -> bool:
        """Whether what differs is the dynamics', so that randomness is the same for all members."""
        return not self.of_data and all(name.startswith("dynamics.") for name, _ in self._differing)

    @property
    def _data_axis(self) -> int | None:
        """The axis of members of the data, None if all have the same."""
        return 1 if self.of_data else None

    @property
    def _key_axis(self) -> int | None:
        """The axis of members of keys, and of orders of the rows made from them."""
        return 0 if self.of_data else None

    @property
    def _batch_axis(self) -> int | None:
        """The axis of members of randomness, None if it is the same for all."""
        return None if self._one_batch else 0

    def _keys(self, key: Key) -> Array:
        """Return the members' keys, or the one of all."""
        if not self.of_data:
            return key
        return jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(self.size))

    @property
    def _differing(self) -> list[tuple[str, Any]]:
        """The leaves in which members differ, with their names."""
        paths = jax.tree_util.tree_leaves_with_path(self.kernel)
        return [
            (name_of(path), leaf)
            for (path, leaf), kind in zip(paths, self.differs, strict=True)
            if kind
        ]

    @property
    def memory_axis(self) -> int | None:
        """The axis of members of the memory: None for a function of the data, which all share."""
        return None if self._one_batch and sharing_of(self.kernel).of == "data" else 0

    def _members(self, state: KernelState) -> tuple[KernelState, KernelState]:
        """Return the members' states as those of their kernel, and their axes of members."""
        stack: StackState = state.dynamics
        inner = stack.rest._replace(position=stack.position, step=stack.step)
        axes: Any = type(inner)._make(None if name == "step" else 0 for name in inner._fields)
        state_axes = KernelState(axes, self.memory_axis, None, self._key_axis)
        return KernelState(inner, state.memory, state.rows, state.order), state_axes

    def _over(
        self,
        function: Callable[..., Any],
        arguments: Any,
        in_axes: Any,
        out_axes: Any,
        like: Position,
    ) -> Any:
        """Apply a function to each member's kernel and arguments."""
        leaves, structure = jax.tree.flatten(self.kernel)
        # As exact as the position, and not more: it would widen what it is multiplied with.
        dtype = jnp.result_type(jnp.float32, *pytrees.dtypes(like))
        kernel = structure.unflatten(
            jnp.asarray(leaf, dtype) if kind == "number" else leaf
            for leaf, kind in zip(leaves, self.differs, strict=True)
        )
        axes = structure.unflatten(0 if kind else None for kind in self.differs)
        return jax.vmap(function, (axes, *in_axes), out_axes, axis_size=self.size)(
            kernel, *arguments
        )

    def _check_members(self, position: Position) -> None:
        shapes = [jnp.shape(x) for x in jax.tree.leaves(position)]
        if any(shape[:1] != (self.size,) for shape in shapes):
            raise ValueError(
                f"position must have a leading axis of the {self.size} members of the stack, as "
                f"stack.spread(position) has; got shapes {shapes}"
            )


def joined(kernels: Sequence[Kernel]) -> tuple[Kernel, tuple[str, ...]]:
    """Return kernels as one, with an axis of members on what differs, and how each leaf differs.

    Raises:
        ValueError: arrays differ in shape.
    """
    structure = jax.tree.structure(kernels[0])
    leaves, differs = [], []
    for (path, first), *others in zip(
        jax.tree_util.tree_leaves_with_path(kernels[0]),
        *map(jax.tree.leaves, kernels[1:]),
        strict=True,
    ):
        if all(is_same(first, other) for other in others):
            leaves.append(first)
            differs.append("")
            continue
        values = [first, *others]
        shapes = {jnp.shape(value) for value in values}
        if len(shapes) > 1:
            raise ValueError(f"{STACK_TAKES}; got {name_of(path)} of shapes {sorted(shapes)}")
        are_numbers = all(isinstance(value, int | float) for value in values)
        leaves.append(np.array(values, np.float64) if are_numbers else jnp.stack(values))
        differs.append("number" if are_numbers else "array")
    return structure.unflatten(leaves), tuple(differs)


def apart(kernel: Kernel, differs: tuple[str, ...], member: int) -> Kernel:
    """Return one of those that were joined."""
    leaves, structure = jax.tree.flatten(kernel)
    pairs = zip(leaves, differs, strict=True)
    return structure.unflatten([_one(leaf[member], kind) if kind else leaf for leaf, kind in pairs])


def first_of(tree: PyTree) -> PyTree:
    """Return the first member's part of arrays, or of shapes, with a leading axis of members."""
    return _map(lambda x: x[0], tree)


def of_member(tree: PyTree, member: int, axis: int) -> PyTree:
    """Return a member's part of arrays with the axis `axis` of members."""
    return jax.tree.map(lambda x: x[(slice(None),) * axis + (member,)], tree)


def merged(data: PyTree) -> PyTree:
    """Return the rows of all data sets in turn, of arrays or shapes (row, data set, …)."""
    return _map(lambda x: x.reshape(-1, *x.shape[2:]), data)


def name_of(path: Any) -> str:
    """Return the name of a leaf of a kernel."""
    return jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value")


def _one(value: object, kind: str) -> Any:
    return float(value) if kind == "number" and isinstance(value, np.generic) else value


def _map(function: Callable[[Any], Any], tree: PyTree) -> PyTree:
    """Apply a function to arrays, or to the shapes of arrays."""
    return jax.tree.map(
        lambda x: (
            jax.eval_shape(function, x) if isinstance(x, jax.ShapeDtypeStruct) else function(x)
        ),
        tree,
    )
