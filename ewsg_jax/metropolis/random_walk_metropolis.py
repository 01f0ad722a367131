"""Random-walk Metropolis (Metropolis et al. 1953): exact, at a pass over the data a step.

    θ* = θ + h ξ;   θ' = θ* with probability min(1, exp((V(θ) − V(θ*))/T)), else θ

Targets exp(−V/T) without bias for any h: ground truth for other methods.
Random-walk proposals are symmetric, so the ratio of the densities decides.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.needs import Need
from ewsg_jax.base.typing import Array, Data, Hyperparameter, Key, P, Position
from ewsg_jax.dynamics._protocol import Constant, Schedule, hyperparameters
from ewsg_jax.gradients import Evaluations
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness, first_state
from ewsg_jax.kernels.record import method
from ewsg_jax.metropolis.energy import CompensatedPotential
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._view import CHUNK_SIZE, all_rows


class RandomWalkState(NamedTuple):
    """Position θ, the number of steps, and V(θ) up to a constant: a step evaluates one density."""

    position: Position
    step: Array
    potential: Array


class RandomWalkNoise(NamedTuple):
    """ξ, shaped like the position, and the logarithm of the uniform number that decides."""

    direction: Position
    log_uniform: Array


@module
class RandomWalkMetropolis(Kernel[P]):
    """The kernel of `random_walk_metropolis`."""

    needs = frozenset({Need.ALL_ROWS})

    posterior: Posterior[P] = static()
    step_size: Constant | Schedule  # pyright: ignore[reportIncompatibleMethodOverride]
    temperature: Constant | Schedule
    chunk_size: int = static(default=CHUNK_SIZE)

    def potential(self, position: P, data: Data) -> Array:
        """Return V up to a constant, at least in float32: only differences count."""
        return pytrees.widened(self.posterior.varying.potential(position, data, self.chunk_size))

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        checks.key(key)
        position = pytrees.copy(checks.position(position))
        checks.finite("position", position)
        # One pass, whose value the state keeps: a step evaluates only the proposal.
        start = self.potential(position, data)
        if not checks.is_traced(start) and not np.isfinite(start):
            raise ValueError(
                f"position must have a finite potential; the posterior's is {start} there"
            )
        return first_state(self, key, RandomWalkState(position, jnp.int32(0), start), (), data)

    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        direction_key, uniform_key = jax.random.split(key)
        direction = rng.noise(direction_key, state.position)
        return Randomness((), RandomWalkNoise(direction, rng.log_uniform(uniform_key, ())))

    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        current, noise = state.dynamics, randomness.noise
        h, temperature = self.step_size(current.step), self.temperature(current.step)
        # A symmetric proposal: the ratio of the densities decides.
        proposed = pytrees.combine((1, current.position), (h, noise.direction))
        there = self.potential(proposed, data)
        # A density that is not a number is accepted by no comparison.
        accepted = noise.log_uniform <= (current.potential - there) / temperature
        moved = RandomWalkState(
            pytrees.where(accepted, proposed, current.position),
            current.step + 1,
            jnp.where(accepted, there, current.potential),
        )
        info = Info(
            gradient_evaluations=np.int32(all_rows(data)),
            is_finite=pytrees.is_finite(moved),
            step_size=jnp.asarray(h),
            acceptance=accepted.astype(jnp.float32),
        )
        return state._replace(dynamics=moved), info

    def compared(self, position: P, start: P, data: Data) -> CompensatedPotential:
        """Return V as a step compares it, up to a constant."""
        potential = self.potential(position, data)
        return CompensatedPotential(potential, jnp.zeros_like(potential))

    def evaluations(self, data: Data) -> Evaluations:
        return Evaluations(all_rows(data), 0, at_init=all_rows(data))

    def check(self, position: P, data: Data) -> None:
        self.posterior.check(position, data)


@method(
    title="Random-walk Metropolis",
    dynamics=(),
    estimator="none",
    bias="none",
    evaluations="n of Vᵢ",
    memory="none",
    source="Metropolis et al. 1953",
    hazard="a pass a step, and some d steps until a chain forgets its start",
    like=(),
)
def random_walk_metropolis(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    temperature: Hyperparameter = 1.0,
    chunk_size: int = CHUNK_SIZE,
) -> Kernel[P]:
    """Random-walk Metropolis: exact, with the potential of all data in every step.

    Update: θ* = θ + h ξ, accepted with probability min(1, exp((V(θ) − V(θ*))/T)).
    Target: exp(−V/T) exactly, whatever the step size, up to the rounding of V: in float32 the sum
        over 10⁵ rows is known to some 10⁻², so large data need float64.
    Cost: n evaluations at the start; memory of two positions.
    When: ground truth on small problems, and as the baseline for minibatch methods. Not in many
        dimensions: the best h is about 2.4 σ/√d (σ a posterior standard deviation, the same in all
        directions), with a quarter of the proposals accepted.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, a proposal's standard deviation per coordinate; a number, a traced scalar
            or a schedule.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior
            itself.
        chunk_size: rows that a sum over all data takes at once, which bounds its memory. Default
            4,096.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; at `init`, a start at which
            the density is 0.

    Example: for about 20 rows of unit scale; with more rows, take shorter steps.
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> kernel = ewsg.random_walk_metropolis(ewsg.models.gaussian_location(), 0.5)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(1), jnp.ones((3, 1)))
        >>> state, info = kernel.step(jax.random.key(1), state, jnp.ones((3, 1)))
        >>> int(info.gradient_evaluations), float(info.acceptance)
        (3, 1.0)
    """
    check_posterior(posterior)
    schedules = hyperparameters(step_size=step_size, temperature=temperature)
    return RandomWalkMetropolis(
        posterior=posterior, **schedules, chunk_size=checks.integer("chunk_size", chunk_size)
    )
