"""The step size of microcanonical dynamics by the energy errors of its steps.

A step's energy error is (V(θ') − V(θ))/T + ΔK, with V of the batch of the step: 0 in continuous
time, and of order h³. Its mean square per dimension grows as h⁶, and says what the integrator does
to the distribution: rounds of steps multiply h by (wanted/measured)^(1/6) until it is the wanted
one (Robnik et al. 2023; Sommer et al. 2026 for minibatches).

V(θ') − V(θ) is the integral of the gradient of the batch along the line between the two, by Gauss's
rule of two points: exact for polynomials of fourth degree. No estimator needs a potential for it,
and large potentials do not round it away.
"""

import dataclasses
import functools
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.compiling import run
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array, Data, Key, P, Position, PyTree, Scalar
from ewsg_jax.dynamics._mass import InMetric, with_step_size, without_metric
from ewsg_jax.dynamics._microcanonical import Microcanonical, MicrocanonicalState
from ewsg_jax.dynamics._protocol import Constant, Dynamics, GradientAt
from ewsg_jax.gradients._protocol import Estimate
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel, check_numbers


class EnergyStepSize(NamedTuple):
    """A step size, and what it was chosen by.

    Attributes:
        step_size: h.
        energy_variance: the mean square of a step's energy error per dimension, in the last half of
            the steps.
        position: the last position of the chain.
    """

    step_size: float
    energy_variance: float
    position: Any


@module
class WithEnergyError(Microcanonical):
    """Microcanonical dynamics whose state has the whole energy error for `kinetic_change`."""

    extra_gradients: ClassVar = 2

    def apply(
        self,
        noise: PyTree,
        prepared: MicrocanonicalState,
        estimate: Estimate,
        gradient_at: GradientAt,
    ) -> MicrocanonicalState:
        end = super().apply(noise, prepared, estimate, gradient_at)
        start = prepared.position
        moved = pytrees.combine((1, end.position), (-1, start))

        def along(part: float) -> Array:
            return pytrees.inner(gradient_at(pytrees.combine((1, start), (part, moved))), moved)

        half = 0.5 / 3**0.5
        change = (along(0.5 - half) + along(0.5 + half)) / 2
        error = change / self.temperature(prepared.step) + end.kinetic_change
        return end._replace(kinetic_change=jnp.asarray(error, end.kinetic_change.dtype))


@reads_now("kernel")
def energy_step_size(
    key: Key,
    kernel: Kernel[P],
    position: P,
    data: Data,
    *,
    energy_variance: float = 5e-4,
    num_steps: int = 1_000,
) -> EnergyStepSize:
    """Return the step size of a microcanonical kernel at which its steps have an energy variance.

    A chain runs from the position in ten rounds, at first with the kernel's own step size; its last
    position may start a run. A step takes three gradients. With minibatches the energy is that of
    the batch of each step: it measures the integrator, not the noise of the batches.

    Args:
        key: a typed PRNG key.
        kernel: `ewsg_jax.kernel(ewsg_jax.dynamics.microcanonical(…), …)`, of any estimator.
        position: the first position of the chain, a pytree.
        data: the data, all n rows.
        energy_variance: the wanted mean square of a step's energy error per dimension. Default
            5e-4, as in BlackJAX for full gradients; far larger values, up to 1, are used with
            minibatches (SMILE).
        num_steps: at least 10. Default 1,000.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; or no step size keeps the
            chain finite.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = jax.random.normal(jax.random.key(0), (100, 5))
        >>> model = ewsg.models.gaussian_location()
        >>> dynamics = ewsg.dynamics.microcanonical(0.01, decoherence_length=0.2)
        >>> kernel = ewsg.kernel(dynamics, ewsg.gradients.full(model))
        >>> tuned = ewsg.diagnostics.energy_step_size(jax.random.key(1), kernel, jnp.zeros(5), data)
        >>> 0.05 < tuned.step_size < 0.2  # the posterior's standard deviations are 0.1
        True
    """
    checks.key(key)
    dynamics = without_metric(kernel.dynamics)[0] if isinstance(kernel, Pair) else None
    if not isinstance(dynamics, Microcanonical):
        raise TypeError(
            "kernel must be one of ewsg_jax.dynamics.microcanonical, whose steps have an energy "
            f"error; got {checks.describe(kernel)}"
        )
    check_numbers(kernel)
    checks.positive("energy_variance", energy_variance)
    checks.integer("num_steps", num_steps, 10)
    state = jax.tree.map(lambda x: x[None], kernel.init(key, position, data))
    tuned = by_energy(key, kernel, state, data, energy_variance, 10, num_steps // 10)
    sizes, variances = tuned.step_sizes, tuned.variances
    end = jax.tree.map(lambda x: x[0], tuned.position)
    late = len(sizes) // 2
    if not np.isfinite(variances[late:]).all():
        raise ValueError(
            "position must be one from which some step size keeps the chain finite; after "
            f"{num_steps} steps, down to a step size of {sizes[-1]:.3g}, none did: start nearer to "
            "the mode, with a smaller step_size, or give more num_steps"
        )
    # The wanted size by each of the late rounds, each from the size that it was made with.
    return EnergyStepSize(
        float(np.exp(np.log(sizes[late + 1 :]).mean())), float(variances[late:].mean()), end
    )


def _measured(dynamics: Dynamics) -> Dynamics:
    """Return a microcanonical dynamics that measures the energy errors of its steps."""
    if isinstance(dynamics, InMetric):
        return InMetric(dynamics=_measured(dynamics.dynamics), mass=dynamics.mass)
    return WithEnergyError(**vars(dynamics))


class Rounds(NamedTuple):
    """Rounds of steps, after each of which the step size is corrected.

    Attributes:
        step_sizes: those before each round, and the one after the last.
        variances: the mean square of a step's energy error per dimension in each round, the (lower)
            median over chains.
        position: the last positions, leading axis chain.
    """

    step_sizes: np.ndarray
    variances: np.ndarray
    position: Position


def by_energy(
    key: Key,
    kernel: Kernel,
    states: Any,
    data: Data,
    energy_variance: float,
    num_rounds: int,
    num_steps: int,
) -> Rounds:
    """Correct the step size of a microcanonical kernel in rounds of steps of one chain or several.

    Args:
        key: a typed PRNG key.
        kernel: the kernel, with the first step size that is tried.
        states: states with a leading axis chain; they are not changed.
        data: the data.
        energy_variance: the wanted mean square of a step's energy error per dimension.
        num_rounds: rounds, each with a correction.
        num_steps: steps of a round; a step takes three gradients.
    """
    measured = dataclasses.replace(kernel, dynamics=_measured(kernel.dynamics))  # pyright: ignore
    shape = num_rounds, num_steps
    sizes, variances, end = run(_tuned, measured, key, states, data, energy_variance, shape)
    return Rounds(np.asarray(sizes, float), np.asarray(variances, float), end)


@functools.partial(jax.jit, static_argnums=5)
def _tuned(
    kernel: Pair, key: Key, states: Any, data: Data, wanted: Scalar, shape: tuple[int, int]
) -> tuple[Array, Array, Position]:
    """Return step sizes, variances and last positions, as `Rounds` has them."""
    num_rounds, num_steps = shape
    num_chains = states.step.shape[0]
    count = pytrees.size(states.position, leading_axes=1)
    first = jnp.asarray(kernel.step_size(jnp.int32(0)), jnp.result_type(float))

    def round_of(carry: tuple[Any, Array], key: Key) -> tuple[tuple[Any, Array], Any]:
        states, h = carry
        current = dataclasses.replace(
            kernel, dynamics=with_step_size(kernel.dynamics, Constant(value=h))
        )

        def step(state: Any, key: Key) -> tuple[Any, Array]:
            moved, _ = current.transition(current.draw(key, state, data), state, data)
            return moved, moved.dynamics.kinetic_change**2

        def chain(state: Any, key: Key) -> tuple[Any, Array]:
            end, squares = jax.lax.scan(step, state, jax.random.split(key, num_steps))
            variance = jnp.mean(squares) / count
            is_finite = jnp.isfinite(variance) & pytrees.is_finite(end.dynamics)
            # A chain that leaves for infinity starts again where the round began.
            state = pytrees.where(is_finite, end, state)
            return state, jnp.where(is_finite, variance, jnp.inf)

        states, variances = jax.vmap(chain)(states, jax.random.split(key, num_chains))
        # The mean would be that of the stiffest chain, whose steps are bounded all the same.
        variance = jnp.sort(variances)[(num_chains - 1) // 2]
        # At most by 4 a round: far from the wanted size the sixth power does not hold.
        factor = jnp.clip((wanted / variance) ** (1 / 6), 0.25, 4)
        return (states, (h * factor).astype(h.dtype)), (h, variance)

    (end, last), (sizes, variances) = jax.lax.scan(
        round_of, (states, first), jax.random.split(key, num_rounds)
    )
    return jnp.append(sizes, last), variances, end.position
