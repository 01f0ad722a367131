"""Two chains with one noise as one kernel: a step of h, and two steps of h/2 with the same noise.

The coarse step takes (ξ₁ + ξ₂)/√2 of the normals of both half steps, and the first of their two
batches: standard normals and a batch, independent of those of other steps. So each chain has the
stationary distribution of its own kernel.
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

NORMAL_SCALE = 0.5**0.5
"""The factor that makes the sum of two standard normals a standard normal."""


class CoupledState(NamedTuple):
    """The number of steps of h, and the states of the dynamics at h and at h/2."""

    step: Array
    coarse: Any
    fine: Any

    @property
    def position(self) -> tuple[PyTree, PyTree]:
        """The positions at h and at h/2."""
        return self.coarse.position, self.fine.position


@module
class Coupled(Kernel):
    """The kernels of step sizes h and h/2 as one, whose positions are pairs of positions.

    One memory, which no step may change, serves both.
    """

    coarse: Pair[Any]
    fine: Pair[Any]

    def init(self, key: Key, position: tuple[PyTree, PyTree], data: Data) -> KernelState:
        coarse_key, fine_key = jax.random.split(key)
        state = self.coarse.init(coarse_key, position[0], data)
        # A copy, for states may be donated.
        fine = self.fine.dynamics.init(fine_key, pytrees.copy(position[1]))
        return state._replace(dynamics=CoupledState(state.step, state.dynamics, fine))

    def draw(self, key: Key, state: KernelState, data: Data) -> Randomness:
        fine = state._replace(dynamics=state.dynamics.fine)
        first, second = (self.fine.draw(half, fine, data) for half in jax.random.split(key))
        return Randomness((first.batch, second.batch), (first.noise, second.noise))

    def transition(
        self, randomness: Randomness, state: KernelState, data: Data
    ) -> tuple[KernelState, Info]:
        (batch, other_batch), (noise, other_noise) = randomness
        both = pytrees.combine((NORMAL_SCALE, noise), (NORMAL_SCALE, other_noise))
        coarse = state._replace(dynamics=state.dynamics.coarse)
        fine = state._replace(dynamics=state.dynamics.fine)
        coarse, info = self.coarse.transition(Randomness(batch, both), coarse, data)
        fine, _ = self.fine.transition(Randomness(batch, noise), fine, data)
        fine, _ = self.fine.transition(Randomness(other_batch, other_noise), fine, data)
        moved = CoupledState(state.dynamics.step + 1, coarse.dynamics, fine.dynamics)
        return state._replace(dynamics=moved), info._replace(
            gradient_evaluations=np.int32(self.evaluations(data).per_step),
            is_finite=pytrees.is_finite(moved),
        )

    @property
    def step_size(self) -> Callable[[Array], Scalar]:
        """`step_size(step)` is h."""
        return self.coarse.step_size

    def evaluations(self, data: Data) -> Evaluations:
        cost = self.coarse.evaluations(data)
        return cost._replace(per_step=3 * cost.per_step)

    def check(self, position: tuple[PyTree, PyTree], data: Data) -> None:
        self.coarse.check(position[0], data)


def coupled(kernel: Pair[Any]) -> Coupled:
    """Return the kernel of two chains, one with the step of `kernel` and one with half of it."""
    step_size = Constant(value=kernel.step_size(jnp.int32(0)) / 2)
    fine = with_step_size(kernel.dynamics, step_size)
    return Coupled(coarse=kernel, fine=dataclasses.replace(kernel, dynamics=fine))
