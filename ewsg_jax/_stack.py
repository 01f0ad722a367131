"""Kernels that differ by numbers, as one kernel: a grid of step sizes is one program and one run.

Its position has a leading axis of members. All members of a chain get the same randomness, so that each does what
its own kernel would do with the chain's key, and rows are gathered once for all.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check, _tree
from ewsg_jax._kernel import Info, Kernel, KernelState, Randomness
from ewsg_jax._module import is_same, module, static
from ewsg_jax._types import Array, Data, Key, P, Position, PyTree
from ewsg_jax.gradients import Evaluations
from ewsg_jax.gradients.protocol import Sharing
from ewsg_jax.tags import saved_as

TAKES = "kernels must be some that differ by their numbers alone, or one made under vmap"


@saved_as("stack_state")
class StackState(NamedTuple):
    """The states of all members.

    Attributes:
        position: leading axis member.
        step: of all, int32.
        rest: what else each dynamics carries, likewise.
        diverged_at: the step at which each member ceased to be finite, −1 for none, shape (member,), int32. It
            rests where it last was.
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
    """

    kernel: Kernel[P]
    size: int = static()
    differs: tuple[str, ...] = static()

    def __repr__(self) -> str:
        return f"stack of {self.size}: {self.kernel!r}"

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, member: int) -> Kernel[P]:
        if not -self.size <= member < self.size:
            raise IndexError(f"member must be from 0 to {self.size - 1}; got {member}")
        leaves, structure = jax.tree.flatten(self.kernel)
        pairs = zip(leaves, self.differs, strict=True)
        return structure.unflatten([_one(leaf[member], kind) if kind else leaf for leaf, kind in pairs])

    @property
    def values(self) -> dict[str, np.ndarray]:
        """The numbers by which the members differ, by their names, shape (member,) each."""
        found = {name: np.asarray(leaf) for name, leaf in self._differing if np.ndim(leaf) == 1}
        short = [name.split(".")[-1] for name in found]
        return dict(zip(short if len(set(short)) == len(short) else found, found.values(), strict=True))

    def spread(self, position: Position) -> Position:
        """Return one position for all members."""
        return jax.tree.map(lambda x: jnp.broadcast_to(x, (self.size, *jnp.shape(x))), position)

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        """Return the first states of a chain's members; `position` has a leading axis of members."""
        position = _check.position(position)
        self._check_members(position)
        axes = KernelState(0, self.memory_axis, None)
        made = self._over(lambda kernel, own: kernel.init(key, own, data), (position,), (0,), axes, position)
        inner: Any = made.dynamics
        never = jnp.full(self.size, -1, jnp.int32)
        own = StackState(inner.position, inner.step[0], inner._replace(position=(), step=()), never)
        return made._replace(dynamics=own)

    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        members, axes = self._members(state)
        if self._one_batch:
            first = jax.tree.map(_first_along, axes, members, is_leaf=lambda axis: axis is None)
            return self[0].draw(key, first, data)
        return self._over(lambda kernel, own: kernel.draw(key, own, data), (members,), (axes,), 0, state.position)

    def gather(self, randomness: Randomness, data: Data) -> Randomness:
        # Members whose estimators differ gather theirs in the step.
        return self[0].gather(randomness, data) if self._one_batch else randomness

    def transition(self, randomness: Randomness, state: KernelState[P], data: Data) -> tuple[KernelState[P], Info]:
        members, axes = self._members(state)
        known: dict[str, Any] = {}

        def one(kernel: Kernel, randomness: Randomness, own: KernelState) -> tuple[KernelState, dict[str, Array]]:
            moved, info = kernel.transition(randomness, own, data)
            told = info._asdict() | {"is_finite": _tree.is_finite(moved.dynamics)}
            # What is known without running the step stays so.
            known.update({name: x for name, x in told.items() if not isinstance(x, jax.Array)})
            return moved, {name: x for name, x in told.items() if isinstance(x, jax.Array)}

        in_axes = (None if self._one_batch else 0, axes)
        moved, found = self._over(one, (randomness, members), in_axes, (axes, 0), state.position)
        before: StackState = state.dynamics
        fine = (before.diverged_at < 0) & found["is_finite"]
        inner: Any = moved.dynamics
        fallen = (before.diverged_at < 0) & ~fine
        position, rest = jax.vmap(_tree.where)(
            fine, (inner.position, inner._replace(position=(), step=())), (before.position, before.rest)
        )
        own = StackState(position, inner.step, rest, jnp.where(fallen, inner.step, before.diverged_at))
        return moved._replace(dynamics=own), Info(**known, **(found | {"is_finite": fine}))

    @property
    def step_size(self) -> Callable[[Array], Any]:
        """`step_size(step)` is the h of each member, shape (member,)."""
        return lambda step: self._over(lambda kernel: jnp.asarray(kernel.step_size(step)), (), (), 0, jnp.zeros(()))

    def evaluations(self, data: Data) -> Evaluations:
        """Return how many ∇Vᵢ a member evaluates."""
        return self[0].evaluations(data)

    def check(self, position: P, data: Data) -> None:
        """Raise what is wrong with the members' positions and the data."""
        self._check_members(position)
        self[0].check(jax.tree.map(_first, position), data)

    def check_numbers(self) -> None:
        """Raise nothing: its numbers are those of several kernels."""

    @property
    def uses_batches(self) -> bool:
        return self.kernel.uses_batches

    @property
    def exchangeable(self) -> bool:
        return self.kernel.exchangeable

    @property
    def sharing(self) -> Sharing:
        return self.kernel.sharing

    def hoisted(self) -> Self:
        return _stacked(type(self), [self[member].hoisted() for member in range(self.size)])

    @property
    def _one_batch(self) -> bool:
        """Whether what differs is the dynamics', so that randomness is the same for all members."""
        return all(name.startswith("dynamics.") for name, _ in self._differing)

    @property
    def _differing(self) -> list[tuple[str, Any]]:
        """The leaves in which members differ, with their names."""
        paths = jax.tree_util.tree_leaves_with_path(self.kernel)
        return [(_name(path), leaf) for (path, leaf), kind in zip(paths, self.differs, strict=True) if kind]

    @property
    def memory_axis(self) -> int | None:
        """Where a memory has its axis of members: it has none if it is a function of the data, and that of all."""
        return None if self._one_batch and self.kernel.sharing.of == "data" else 0

    def _members(self, state: KernelState) -> tuple[KernelState, KernelState]:
        """Return the members' states as those of their kernel, and where these have their axis."""
        own: StackState = state.dynamics
        inner = own.rest._replace(position=own.position, step=own.step)
        axes: Any = type(inner)._make(None if name == "step" else 0 for name in inner._fields)
        return KernelState(inner, state.memory, state.rows), KernelState(axes, self.memory_axis, None)

    def _over(
        self, function: Callable[..., Any], arguments: Any, in_axes: Any, out_axes: Any, like: Position
    ) -> Any:
        """Return what a function returns of each member's kernel and arguments."""
        leaves, structure = jax.tree.flatten(self.kernel)
        # As exact as the position, and not more: it would widen what it is multiplied with.
        dtype = jnp.result_type(jnp.float32, *_tree.dtypes(like))
        own = [
            jnp.asarray(leaf, dtype) if kind == "number" else leaf
            for leaf, kind in zip(leaves, self.differs, strict=True)
        ]

        def one(leaves: list[Any], *arguments: Any) -> Any:
            return function(structure.unflatten(leaves), *arguments)

        kernel_axes = [0 if kind else None for kind in self.differs]
        return jax.vmap(one, (kernel_axes, *in_axes), out_axes, axis_size=self.size)(own, *arguments)

    def _check_members(self, position: Position) -> None:
        shapes = [jnp.shape(x) for x in jax.tree.leaves(position)]
        if any(shape[:1] != (self.size,) for shape in shapes):
            raise ValueError(
                f"position must have a leading axis of the {self.size} members of the stack, as "
                f"stack.spread(position) has; got shapes {shapes}"
            )


def stack(kernels: Sequence[Kernel[P]] | Kernel[P]) -> Stack[P]:
    """Make one kernel of several that differ by numbers: step sizes, frictions, temperatures, masses, centers.

    `ewsg_jax.sample` runs them in one program. A member that diverges rests and is marked; the others go on.

    Args:
        kernels: one after the other; or one kernel whose leaves have a leading axis of members, such as `jax.vmap`
            of a function that makes a kernel returns.

    Returns:
        A kernel of positions with a leading axis of members: `len(stack)`, `stack[i]`, and `stack.values`, the
        numbers by which they differ.

    Raises:
        TypeError, ValueError: they are none, or differ by more than numbers: other parts, functions or batch sizes.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> grid = ewsg.stack([ewsg.sgld(model, h, batch_size=2) for h in (0.1, 0.01, 0.001)])
        >>> runs = ewsg.sample(jax.random.key(0), grid, jnp.zeros(1), jnp.ones((6, 1)), 10, num_chains=4)
        >>> runs.values["step_size"].tolist(), runs[2].position.shape
        ([0.1, 0.01, 0.001], (4, 10, 1))
    """
    if isinstance(kernels, Kernel):
        _check.instance("kernels", kernels, Kernel, "some kernels, or one made under vmap")
        if isinstance(kernels, Stack):
            raise TypeError(f"{TAKES}; got a stack")
        leaves, structure = jax.tree.flatten(kernels)
        lengths = {jnp.shape(leaf)[0] if jnp.ndim(leaf) else 0 for leaf in leaves}
        if len(lengths) != 1 or 0 in lengths:
            raise ValueError(f"{TAKES}, each of whose leaves has an axis of members; got {kernels!r}")
        (size,) = lengths
        return _stacked(Stack, [structure.unflatten([leaf[i] for leaf in leaves]) for i in range(size)])
    if not isinstance(kernels, Sequence) or not kernels:
        raise TypeError(f"{TAKES}; got {_check.describe(kernels)}")
    for number, kernel in enumerate(kernels):
        if not isinstance(kernel, Kernel) or isinstance(kernel, Stack):
            raise TypeError(f"{TAKES}; got {_check.describe(kernel)} as number {number}")
        if jax.tree.structure(kernel) != jax.tree.structure(kernels[0]):
            raise ValueError(f"{TAKES}; got {kernels[0]!r} and, as number {number}, {kernel!r}")
    return _stacked(Stack, kernels)


def _stacked(kind: type, kernels: Sequence[Kernel]) -> Any:
    structure = jax.tree.structure(kernels[0])
    leaves, differs = [], []
    for (path, first), *others in zip(
        jax.tree_util.tree_leaves_with_path(kernels[0]), *map(jax.tree.leaves, kernels[1:]), strict=True
    ):
        if all(is_same(first, other) for other in others):
            leaves.append(first)
            differs.append("")
            continue
        values = [first, *others]
        shapes = {jnp.shape(value) for value in values}
        if len(shapes) > 1:
            raise ValueError(f"{TAKES}; got {_name(path)} of shapes {sorted(shapes)}")
        are_numbers = all(isinstance(value, int | float) for value in values)
        leaves.append(np.array(values, np.float64) if are_numbers else jnp.stack(values))
        differs.append("number" if are_numbers else "array")
    return kind(kernel=structure.unflatten(leaves), size=len(kernels), differs=tuple(differs))


def _one(value: Any, kind: str) -> Any:
    return float(value) if kind == "number" and isinstance(value, np.generic) else value


def _first(x: Any) -> Any:
    return jax.ShapeDtypeStruct(x.shape[1:], x.dtype) if isinstance(x, jax.ShapeDtypeStruct) else x[0]


def _first_along(axis: int | None, tree: PyTree) -> PyTree:
    return tree if axis is None else _tree.take(tree, 0)


def _name(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".").removesuffix(".value")
