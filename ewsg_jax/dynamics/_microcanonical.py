"""Microcanonical (isokinetic) Langevin dynamics, MCLMC: a position that moves at unit speed.

    dθ = u dt,   du = −P ∇V(θ)/((d − 1) T) dt + noise on the sphere,   ‖u‖ = 1,  P = I − u uᵀ

with the invariant distribution exp(−V(θ)/T), and u uniform on the sphere (Robnik et al. 2023;
Robnik & Seljak 2024). A step of length h takes one gradient, in the middle of the drift:

    A   θ ← θ + (h/2) u
    B   u ← the flow of du = −P g/((d − 1) T) dt over h, with g at the position after the first A
    A   θ ← θ + (h/2) u
    O   u ← v/‖v‖,   v = e^(−h/L) u + √((1 − e^(−2h/L))/d) ξ

No step moves the position by more than h, however large the gradient. With e = −g/‖g‖,
δ = h‖g‖/((d − 1) T) and c = e·u, B is exact:

    u ← (u + (sinh δ + c (cosh δ − 1)) e)/(cosh δ + c sinh δ)
    ΔK = (d − 1) ln(cosh δ + c sinh δ)

ABA is reversible and the logarithm of its Jacobian determinant is −ΔK, so that ΔV/T + ΔK is the
step's energy error, 0 in continuous time. The bias of the position's distribution is of order h².

The errors of minibatch gradients turn u at random, as O does. If their covariance is sI, that
leaves u uniform on the sphere, and the bias is of order h² still. If it differs between directions,
u lies more often along the noisy ones: for many dimensions and small h direction i has, with the
noise's variances sᵢ, the temperature

    Tᵢ = T (1 + a sᵢ)/(1 + a s̄),   a = hL/(2dT²),   s̄ the mean of sᵢ

of order h, which neither h nor L removes from the mean: some directions are too wide and others too
narrow. A short L or an inverse mass in which the noise is alike in all directions makes it small.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import pytrees, rng
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.rng import NoiseKind
from ewsg_jax.base.typing import Array, Hyperparameter, Key, Position, PyTree, Scalar
from ewsg_jax.dynamics._mass import InverseMass, in_metric
from ewsg_jax.dynamics._protocol import (
    Constant,
    Dynamics,
    GradientAt,
    Schedule,
    check_noise,
    hyperparameters,
)
from ewsg_jax.gradients._protocol import Estimate


class MicrocanonicalState(NamedTuple):
    """The position θ and the direction u of its motion.

    Attributes:
        position: the position θ.
        direction: the unit vector u, shaped like the position.
        kinetic_change: ΔK of the last step, a scalar: (V(θ') − V(θ))/T + ΔK is its energy error.
        step: the number of steps made, int32.
    """

    position: Position
    direction: PyTree
    kinetic_change: Array
    step: Array


@module
class Microcanonical(Dynamics[MicrocanonicalState]):
    """The dynamics of `microcanonical`."""

    translates: ClassVar = True
    bias_order: ClassVar = 2

    step_size: Constant | Schedule
    decoherence_length: Constant | Schedule | None
    temperature: Constant | Schedule
    noise: NoiseKind = static(default="gaussian")

    def check(self, position: Position) -> None:
        count = pytrees.size(position)
        if count < 2:
            raise ValueError(
                "position must have at least 2 numbers for microcanonical, which turns a direction "
                f"of motion; got {count}: take another dynamics, such as splitting_scheme"
            )

    def init(self, key: Key, position: Position) -> MicrocanonicalState:
        direction = _unit(rng.noise(key, position))
        none = pytrees.squared_norm(direction) * 0
        return MicrocanonicalState(position, direction, none, jnp.int32(0))

    def evaluation_point(self, state: MicrocanonicalState) -> Position:
        return pytrees.combine(
            (1, state.position), (self.step_size(state.step) / 2, state.direction)
        )

    def apply(
        self,
        noise: PyTree,
        prepared: MicrocanonicalState,
        estimate: Estimate,
        gradient_at: GradientAt,
    ) -> MicrocanonicalState:
        theta, u, last, step = prepared
        h, t = self.step_size(step), self.temperature(step)
        d = pytrees.size(theta)
        turned, kinetic_change = _turned(u, estimate.gradient, h / ((d - 1) * t))
        theta = pytrees.combine((1, theta), (h / 2, u), (h / 2, turned))
        length = jnp.sqrt(d) if self.decoherence_length is None else self.decoherence_length(step)
        refreshed = pytrees.combine(
            (jnp.exp(-h / length), turned), (jnp.sqrt(-jnp.expm1(-2 * h / length) / d), noise)
        )
        change = jnp.asarray((d - 1) * kinetic_change, last.dtype)
        return MicrocanonicalState(theta, _unit(refreshed), change, step + 1)


def microcanonical(
    step_size: Hyperparameter,
    *,
    decoherence_length: Hyperparameter | None = None,
    temperature: Hyperparameter = 1.0,
    noise: NoiseKind = "gaussian",
    inverse_mass: InverseMass = 1.0,
) -> Dynamics:
    """Move at unit speed in a direction that the gradient turns (MCLMC).

    A start that is a distance r away takes r/h steps to come back, however steep the way.

    Args:
        step_size: h > 0, the length of a step, in units of the position; a number, a traced scalar
            or a schedule. With the posterior's covariance for `inverse_mass` it is in units of
            √d posterior sds: some 0.2 √d with full gradients.
        decoherence_length: L > 0, the length after which the direction is forgotten, of the same
            kinds and in the same units. Default: √d, right if every direction has sd 1.
        temperature: T > 0, of the same kinds; by default 1.
        noise: `"gaussian"`; or, cheaper, `"moment_matched"` (256 values, seven moments of a
            Gaussian) or `"rademacher"` (±1), both of the same weak order.
        inverse_mass: C > 0, by default 1: a number; a pytree of numbers like the position; a
            positive definite matrix (d, d) over the position in `ravel_pytree` order; or a
            `LowRank`. The direction of the state is that of L⁻¹θ, C = L Lᵀ.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value. At `kernel.init`: the
            position has a single number.

    Example:
        >>> import ewsg_jax as ewsg
        >>> dynamics = ewsg.dynamics.microcanonical(step_size=0.5, decoherence_length=3.0)
    """
    fields = hyperparameters(step_size=step_size, temperature=temperature)
    length = None
    if decoherence_length is not None:
        length = hyperparameters(decoherence_length=decoherence_length)["decoherence_length"]
    check_noise(noise)
    dynamics = Microcanonical(**fields, decoherence_length=length, noise=noise)
    return in_metric(dynamics, inverse_mass)


def _unit(vector: PyTree) -> PyTree:
    return pytrees.combine((jax.lax.rsqrt(pytrees.squared_norm(vector)), vector))


def _turned(u: PyTree, gradient: PyTree, time: Scalar) -> tuple[PyTree, Array]:
    """Return u after B over a time, and ln(cosh δ + c sinh δ)."""
    size = jnp.sqrt(pytrees.squared_norm(gradient))
    # Without a gradient δ = 0, and any direction does.
    e = pytrees.combine((-1 / jnp.where(size > 0, size, 1), gradient))
    delta = time * size
    cosine = jnp.maximum(pytrees.inner(e, u), -1)
    # Divided by e^δ, which may overflow: u and e are multiplied by e^(−δ) and (1 − e^(−δ))(…)/2.
    less = -jnp.expm1(-delta)
    along = less * (2 - less + cosine * less) / 2
    turned = pytrees.combine((1 - less, u), (along, e))
    # Straight uphill u stays, though both terms may round to 0, and the logarithm is −δ, its least.
    is_lost = (pytrees.squared_norm(turned) == 0) & jnp.isfinite(delta)
    change = delta + jnp.log1p((1 - cosine) * jnp.expm1(-2 * delta) / 2)
    return _unit(pytrees.where(is_lost, u, turned)), jnp.maximum(change, -delta)
