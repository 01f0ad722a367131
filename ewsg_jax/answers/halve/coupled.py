"""Two chains with one noise as one kernel: a step of h, and two of h/2 that bring the same noise.

The step of h takes (ξ₁ + ξ₂)/√2 of the normals of both half steps, and the first of their two
batches. Those are standard normals and a batch, independent of each other and, from step to step,
of all others, as its own would be. So the law of either chain is that of its kernel alone.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import pytrees
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array, Data, Key, PyTree, Scalar
from ewsg_jax.dynamics._mass import with_step_size
from ewsg_jax.dynamics._protocol import Constant
from ewsg_jax.gradients import Evaluations
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness

ROOT = 0.5**0.5


class CoupledState(NamedTuple):
    """The states of both dynamics; one memory, which no step changes, serves both.

    Attributes:
        step: of steps of h, int32.
        whole, half: the states at h and at h/2, whose own step numbers no part of them reads.
    """

    step: Array
    whole: Any
    half: Any

    @property
    def position(self) -> tuple[PyTree, PyTree]:
        """That at h, and that at h/2."""
        return self.whole.position, self.half.position


@module
class Coupled(Kernel):
    """What `coupled` returns; its positions are pairs.

    Attributes:
        whole: the kernel of step h.
        half: that of h/2.
    """

    whole: Pair[Any]
    half: Pair[Any]

    def init(self, key: Key, position: tuple[PyTree, PyTree], data: Data) -> KernelState:
        own, other = jax.random.split(key)
        state = self.whole.init(own, position[0], data)
        # A copy, for states may be donated.
        half = self.half.dynamics.init(other, pytrees.copy(position[1]))
        return state._replace(dynamics=CoupledState(state.step, state.dynamics, half))

    def draw(self, key: Key, state: KernelState, data: Data) -> Randomness:
        half = state._replace(dynamics=state.dynamics.half)
        first, second = (self.half.draw(own, half, data) for own in jax.random.split(key))
        return Randomness((first.batch, second.batch), (first.noise, second.noise))

    def transition(
        self, randomness: Randomness, state: KernelState, data: Data
    ) -> tuple[KernelState, Info]:
        (batch, other_batch), (noise, other_noise) = randomness
        # The whole step has the noise of both halves, so that the difference of the chains is
        # small, and the batch of the first half.
        both = pytrees.combine((ROOT, noise), (ROOT, other_noise))
        _, *states = state.dynamics
        whole, half = (state._replace(dynamics=own) for own in states)
        whole, info = self.whole.transition(Randomness(batch, both), whole, data)
        half, _ = self.half.transition(Randomness(batch, noise), half, data)
        half, _ = self.half.transition(Randomness(other_batch, other_noise), half, data)
        moved = CoupledState(state.step + 1, whole.dynamics, half.dynamics)
        return state._replace(dynamics=moved), info._replace(
            gradient_evaluations=np.int32(self.evaluations(data).per_step),
            is_finite=pytrees.is_finite(moved),
        )

    @property
    def step_size(self) -> Callable[[Array], Scalar]:
        """`step_size(step)` is h."""
        return self.whole.step_size

    def evaluations(self, data: Data) -> Evaluations:
        cost = self.whole.evaluations(data)
        return cost._replace(per_step=3 * cost.per_step)

    def check(self, position: tuple[PyTree, PyTree], data: Data) -> None:
        self.whole.check(position[0], data)


def coupled(kernel: Pair[Any]) -> Coupled:
    """Return the kernel of two chains, with the step of `kernel` and with half of it."""
    step_size = Constant(value=kernel.step_size(jnp.int32(0)) / 2)
    fine = with_step_size(kernel.dynamics, step_size)
    return Coupled(whole=kernel, half=dataclasses.replace(kernel, dynamics=fine))
