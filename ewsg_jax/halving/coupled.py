"""Two chains with one noise as one kernel: a step of h, and two of h/2 that bring the same noise.

Its position has a leading axis of two: that of h, and that of h/2. The step of h takes the normals
of `normals.shared`, and of the two batches the first: independent of each other and, from step to
step, of all others, as its own would be. So the law of either chain is that of its kernel alone.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check, _tree
from ewsg_jax._kernel import Info, Kernel, KernelState, Randomness, RowsSeen
from ewsg_jax._module import module
from ewsg_jax._types import Array, Data, Key, P, Position, PyTree, Scalar
from ewsg_jax.dynamics.mass import with_step_size
from ewsg_jax.dynamics.protocol import Constant
from ewsg_jax.gradients import Evaluations
from ewsg_jax.gradients.protocol import Sharing, sharing_of
from ewsg_jax.halving.normals import Weights, joined, shared
from ewsg_jax.pair import Pair
from ewsg_jax.rows.view import num_rows


class CoupledState(NamedTuple):
    """The states of both dynamics.

    Attributes:
        position: leading axis of two.
        step: of steps of h, int32.
        whole, half: what else each dynamics carries.
    """

    position: Position
    step: Array
    whole: PyTree
    half: PyTree


@module
class Coupled(Kernel[P]):
    """What `coupled` returns.

    Attributes:
        whole: the kernel of step h.
        half: that of h/2.
        weights: of the normals.
    """

    whole: Pair[P]
    half: Pair[P]
    weights: Weights = dataclasses.field(repr=False)

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        """Return the first states; `position` has a leading axis of two."""
        _check.key(key)
        self.check(position, data)
        keys = jax.random.split(key, 3)
        # Copies, for states may be donated, and two chains must not share an array.
        one, two = (_tree.copy(_tree.take(position, i)) for i in (0, 1))
        return KernelState(
            _stacked(self.whole.dynamics.init(keys[0], one), self.half.dynamics.init(keys[1], two)),
            self.half.estimator.init(keys[2], one, data),
            RowsSeen(num_rows(data)),
        )

    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        _, half = _apart(state)
        first, second = (self.half.draw(own, half, data) for own in jax.random.split(key))
        return Randomness((first.batch, second.batch), (first.noise, second.noise))

    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        (batch, other_batch), (noise, other_noise) = randomness
        # The whole step has the noise of both halves, so that the difference of the chains is
        # small.
        whole, half = _apart(state)
        both = joined(self.weights, noise, other_noise, whole.position)
        whole, told = self.whole.transition(Randomness(batch, both), whole, data)
        # The batch of the whole step is that of the first half.
        half, _ = self.half.transition(Randomness(batch, noise), half, data)
        half, _ = self.half.transition(Randomness(other_batch, other_noise), half, data)
        moved = _stacked(whole.dynamics, half.dynamics)
        evaluations: Any = np.int32(self.evaluations(data).per_step)
        return state._replace(dynamics=moved), told._replace(
            gradient_evaluations=evaluations, is_finite=_tree.is_finite(moved)
        )

    @property
    def step_size(self) -> Callable[[Array], Scalar]:
        """`step_size(step)` is h."""
        return self.whole.step_size

    def evaluations(self, data: Data) -> Evaluations:
        cost = self.whole.evaluations(data)
        return cost._replace(per_step=3 * cost.per_step)

    def check(self, position: P, data: Data) -> None:
        self.whole.check(jax.tree.map(_first, position), data)

    @property
    def sharing(self) -> Sharing:
        """Whose the memory is."""
        # Whether chains share that of a start is told by its axes, which are as many as those of
        # one position.
        own = sharing_of(self.whole)
        return own if own.of == "data" else own._replace(of="chain")


def coupled(kernel: Pair[P]) -> Coupled[P]:
    """Return the kernel of two chains, with the step of `kernel` and with half of it."""
    step_size = Constant(value=kernel.step_size(jnp.int32(0)) / 2)
    fine = with_step_size(kernel.dynamics, step_size)
    half = dataclasses.replace(kernel, dynamics=fine)
    return Coupled(whole=kernel, half=half, weights=shared(kernel.dynamics, fine))


def doubled(position: Position, axis: int = 0) -> Position:
    """Return one position for both chains."""
    return jax.tree.map(lambda x: jnp.stack([x, x], axis), position)


def _first(x: PyTree) -> PyTree:
    return (
        jax.ShapeDtypeStruct(x.shape[1:], x.dtype) if isinstance(x, jax.ShapeDtypeStruct) else x[0]
    )


def _stacked(whole: PyTree, half: PyTree) -> CoupledState:
    position = jax.tree.map(lambda *both: jnp.stack(both), whole.position, half.position)
    # The position of both has an axis of two, as a run keeps it; what else they carry may differ.
    rest = (state._replace(position=(), step=()) for state in (whole, half))
    return CoupledState(position, whole.step, *rest)


def _apart(state: KernelState) -> tuple[KernelState, KernelState]:
    """Return the states of either kernel; both have one memory, which no step changes."""
    own: CoupledState = state.dynamics
    one, two = (_tree.take(own.position, i) for i in (0, 1))
    whole = own.whole._replace(position=one, step=own.step)
    half = own.half._replace(position=two, step=2 * own.step)
    return state._replace(dynamics=whole), state._replace(dynamics=half)
