"""Kernels that differ by numbers or by their data, as one kernel: a grid of step sizes is one
program and one run.

Its position has a leading axis of members. Members that see the same data get the same randomness,
so that each does what its own kernel would do with the chain's key, and rows are gathered once for
all. Members with data sets of their own, on the second axis of the data, get keys of their own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.modules import made_by, module, static
from ewsg_jax.base.needs import Need, who_needs
from ewsg_jax.base.typing import Array, Data, Key, P, Position, PyTree, Scalar
from ewsg_jax.gradients import Evaluations
from ewsg_jax.gradients._protocol import sharing_of
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness
from ewsg_jax.model_checks.ignored_arrays import reads_data
from ewsg_jax.rows._padded import Padded
from ewsg_jax.run.stacks.members import apart, first_of, merged, name_of


class StackState(NamedTuple):
    """The states of all members.

    Attributes:
        position: leading axis member.
        step: of all, int32.
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
        kernel: with a leading axis of members on what differs.
        size: how many there are.
        differs: of each leaf "number", "array", or "" where it is that of all.
        of_data: whether each has a data set of its own, as `stack_data` stacks them.
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
        found = {name: np.asarray(leaf) for name, leaf in self._differing if np.ndim(leaf) == 1}
        short = [name.split(".")[-1] for name in found]
        return dict(
            zip(short if len(set(short)) == len(short) else found, found.values(), strict=True)
        )

    def spread(self, position: Position) -> Position:
        """Return one position for all members."""
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.size, *jnp.shape(x))), position)

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        """Return a chain's members' first states; `position` has a leading members axis."""
        position = checks.position(position)
        self._check_members(position)
        # Padding is copies of rows, which a metric of the data would count.
        if isinstance(data, Padded):
            self._check_lengths()
            self._check_metric(first_of(position), jax.tree.map(lambda x: x[:, 0], data.rows))
        made = self._over(
            lambda kernel, own, key, data: kernel.init(key, own, data),
            (position, self._keys(key), data),
            (0, self._key_axis, self._data_axis),
            KernelState(0, self.memory_axis, None, self._key_axis),
            position,
        )
        inner: Any = made.dynamics
        # No member is lost at the start.
        never = jnp.full(self.size, -1, jnp.int32)
        own = StackState(inner.position, inner.step[0], inner._replace(position=(), step=()), never)
        return made._replace(dynamics=own)

    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        members, axes = self._members(state)
        return self._over(
            lambda kernel, own, key, data: kernel.draw(key, own, data),
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
        members, axes = self._members(state)
        known: dict[str, Any] = {}

        def one(
            kernel: Kernel, randomness: Randomness, own: KernelState, data: Data
        ) -> tuple[KernelState, dict[str, Array]]:
            moved, info = kernel.transition(randomness, own, data)
            told = info._asdict() | {"is_finite": pytrees.is_finite(moved.dynamics)}
            # What is known without running the step stays so.
            known.update({name: x for name, x in told.items() if not isinstance(x, jax.Array)})
            return moved, {name: x for name, x in told.items() if isinstance(x, jax.Array)}

        in_axes = (self._batch_axis, axes, self._data_axis)
        moved, found = self._over(
            one, (randomness, members, data), in_axes, (axes, 0), state.position
        )
        # A member that is lost stays where it was, and others go on.
        before: StackState = state.dynamics
        fine = (before.diverged_at < 0) & found["is_finite"]
        inner: Any = moved.dynamics
        fallen = (before.diverged_at < 0) & ~fine
        position, rest = jax.vmap(pytrees.where)(
            fine,
            (inner.position, inner._replace(position=(), step=())),
            (before.position, before.rest),
        )
        own = StackState(
            # All members are at one step, which has no axis.
            position,
            inner.step,
            rest,
            jnp.where(fallen, inner.step, before.diverged_at),
        )
        return moved._replace(dynamics=own), Info(**known, **(found | {"is_finite": fine}))

    @property
    def step_size(self) -> Callable[[Array], Scalar]:
        """The step size of each member at step number `step`, shape (member,)."""
        return lambda step: self._over(
            lambda kernel: jnp.asarray(kernel.step_size(step)), (), (), 0, jnp.zeros(())
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
        """Where the data have their axis of members."""
        return 1 if self.of_data else None

    @property
    def _key_axis(self) -> int | None:
        """Where keys, and orders of the rows made from them, have their axis of members."""
        return 0 if self.of_data else None

    @property
    def _batch_axis(self) -> int | None:
        """Where randomness has its axis of members."""
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
        """Where memory has its axis of members: none if a function of the data, which all share."""
        return None if self._one_batch and sharing_of(self.kernel).of == "data" else 0

    def _members(self, state: KernelState) -> tuple[KernelState, KernelState]:
        """Return the members' states as those of their kernel, and where these have their axis."""
        own: StackState = state.dynamics
        inner = own.rest._replace(position=own.position, step=own.step)
        axes: Any = type(inner)._make(None if name == "step" else 0 for name in inner._fields)
        own_axes = KernelState(axes, self.memory_axis, None, self._key_axis)
        return KernelState(inner, state.memory, state.rows, state.order), own_axes

    def _over(
        self,
        function: Callable[..., Any],
        arguments: Any,
        in_axes: Any,
        out_axes: Any,
        like: Position,
    ) -> Any:
        """Return what a function returns of each member's kernel and arguments."""
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
