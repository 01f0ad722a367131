"""A kernel that moves in other coordinates than those of its position."""

from collections.abc import Callable
from typing import Any, NamedTuple

from ewsg_jax.base import pytrees
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Array, Data, Key, P, PyTree, Scalar
from ewsg_jax.bijectors._protocol import Bijector
from ewsg_jax.gradients import Evaluations
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import (
    Info,
    Kernel,
    KernelState,
    Randomness,
    first_state,
    temperature_of,
)
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.posterior.random import known


class MappedState(NamedTuple):
    """The state of a dynamics in other coordinates.

    Attributes:
        step: the number of steps made, int32.
        position: the position θ.
        inner: the state of the dynamics, whose position is u.
    """

    step: Array
    position: PyTree
    inner: Any

    @property
    def momentum(self) -> PyTree:
        """The momentum of u."""
        return self.inner.momentum


@module
class InCoordinates(Kernel[P]):
    """A kernel over u, as one over θ = bijector.forward(u): it starts at a θ and returns θ.

    Attributes:
        kernel: the kernel over u.
        posterior: the target over θ, of which a run warns its user.
        bijector: the map from u to θ.
    """

    # None in addition to those of its kernel.
    needs = frozenset()

    kernel: Kernel[Any]
    posterior: Posterior[P] = static()
    bijector: Bijector

    def viewed(self, data: Data) -> Data:
        return self.kernel.viewed(data)

    def step(self, key: Key, state: KernelState[P], data: Data) -> tuple[KernelState[P], Info]:
        return super().step(key, state, self.viewed(data))

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        data = self.viewed(data)
        inner = self.kernel.init(key, self.bijector.inverse(position), data)
        mapped = MappedState(inner.step, pytrees.copy(position), inner.dynamics)
        return first_state(self, key, mapped, inner.memory, data, inner.order)

    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        return self.kernel.draw(key, _inner(state), data)

    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        inner, info = self.kernel.transition(randomness, _inner(state), data)
        position = self.bijector.forward(inner.position)
        mapped = MappedState(inner.step, position, inner.dynamics)
        return inner._replace(dynamics=mapped, rows=state.rows), info._replace(
            is_finite=info.is_finite & pytrees.is_finite(position)
        )

    def fetch(self, randomness: Randomness, data: Data) -> Randomness:
        return self.kernel.fetch(randomness, data)

    @property
    def dynamics(self) -> Any:
        """The dynamics of u, if its kernel has one."""
        inner: Any = self.kernel
        return inner.dynamics

    @property
    def estimator(self) -> Any:
        """The gradient estimator over u, if its kernel has one."""
        inner: Any = self.kernel
        return inner.estimator

    @property
    def step_size(self) -> Callable[[Array], Scalar]:
        """The step size used at step number `step`, in the units of u."""
        return self.kernel.step_size

    @property
    def temperature(self) -> Callable[[Array], Scalar]:
        """T at step number `step`."""
        return temperature_of(self.kernel)

    def evaluations(self, data: Data) -> Evaluations:
        return self.kernel.evaluations(data)

    def check(self, position: P, data: Data) -> None:
        # u is a pytree of the same shapes.
        self.kernel.check(position, data)


def target_of(kernel: Kernel) -> Posterior | None:
    """Return the posterior over the positions of a kernel; None if it compares densities itself, as
    exact methods do, or has a random potential.
    """
    if isinstance(kernel, InCoordinates):
        return None if target_of(kernel.kernel) is None else kernel.posterior
    return known(kernel.estimator.posterior) if isinstance(kernel, Pair) else None


def _inner(state: KernelState) -> KernelState:
    """Return the state of the kernel over u, at the same step number."""
    mapped: MappedState = state.dynamics
    return state._replace(dynamics=mapped.inner._replace(step=mapped.step))
