"""A step of a dynamics near a mode, as the affine map that its own `apply` is to first order.

    z' = A z + G g + B ξ,   g evaluated at W z

z is the position less the mode, then the momentum; g is the estimate of the gradient, at the point
W z, and ξ the noise of the dynamics.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.answers.forecast import stationary
from ewsg_jax.base.compiling import UNOPTIMISED, in_float64
from ewsg_jax.base.modules import Part, module, static
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.dynamics._mass import without_metric
from ewsg_jax.gradients._covariance import Covariance, Structure
from ewsg_jax.gradients._protocol import Estimate
from ewsg_jax.posterior.posterior import Posterior

MOVING = ("position", "momentum")
"""Fields of a state that make up z."""
HELD = ("step", "thermostat")
"""Fields of a state that stay as they are."""


class AffineStep(NamedTuple):
    """The affine map of a step, for m numbers in z, d in the position and r in the noise.

    Attributes:
        matrix: A, shape (m, m).
        gradient: G, shape (m, d).
        noise: B, shape (m, r).
        wanted: W, shape (d, m): the gradient is evaluated at W z.
    """

    matrix: np.ndarray
    gradient: np.ndarray
    noise: np.ndarray
    wanted: np.ndarray

    def scaled(self, scale: np.ndarray) -> "AffineStep":
        """Return the map in the coordinates s z and g/s, with s the scale of each number of z."""
        d = self.gradient.shape[1]
        return AffineStep(
            scale[:, None] * self.matrix / scale,
            scale[:, None] * self.gradient * scale[:d],
            scale[:, None] * self.noise,
            scale[:d, None] * self.wanted / scale,
        )


def names_of(state: PyTree) -> list[str]:
    """Return the names of the fields of a state that make up z, in order."""
    return [name for name in MOVING if name in state._fields]


def moved_by(state: PyTree, flat: Array) -> PyTree:
    """Return a state moved by z, shape (m,)."""
    names = names_of(state)
    parts = {}
    for name, part in zip(names, jnp.split(flat, len(names)), strict=True):
        here, unravel = ravel_pytree(getattr(state, name))
        parts[name] = unravel((here + part).astype(here.dtype))
    return state._replace(**parts)


def z_of(state: PyTree) -> Array:
    """Return the position and the momentum of a state, shape (m,)."""
    return jnp.concatenate([ravel_pytree(getattr(state, name))[0] for name in names_of(state)])


@module
class Scheme(Part):
    """A dynamics with a state at rest, and what its step is given.

    Attributes:
        dynamics: the dynamics.
        posterior: the target, whose prior gradient the dynamics may ask for; None for a prior
            gradient of 0.
        state: a state at rest at the mode.
        covariance: the covariance that estimates report, `()` if they report none.
        data: the rows.
    """

    dynamics: Dynamics
    posterior: Posterior | None = static()
    state: PyTree
    covariance: PyTree = ()
    data: Data = ()

    def _prepared_with(self, z: Array, g: Array) -> tuple[PyTree, Estimate]:
        """Return the prepared state at z, and the estimate of a gradient."""
        prior_gradient = jnp.zeros_like if self.posterior is None else self.posterior.prior_gradient
        prepared = self.dynamics.prepare(moved_by(self.state, z), prior_gradient, self.data)
        _, unravel = ravel_pytree(jax.tree.map(jnp.zeros_like, self.state.position))
        return prepared, Estimate(unravel(g), (), covariance=self.covariance)

    def step(self, z: Array, g: Array, xi: Array) -> Array:
        """Return the end of a step with a gradient and a noise, all flat and less the state."""
        prepared, estimate = self._prepared_with(z, g)
        _, unravel = ravel_pytree(self.dynamics.draw(jax.random.key(0), self.state))
        end = self.dynamics.apply(
            unravel(xi), prepared, estimate, lambda position: estimate.gradient
        )
        return z_of(end) - z_of(self.state)

    def log_weight(self, g: Array, z: Array, frozen_noise: str) -> Array:
        """Return the log weight of a gradient at z, both flat."""
        return self.dynamics.log_weight(*self._prepared_with(z, g), frozen_noise)

    def noise(self, key: Key) -> Array:
        """Return the noise of a step, flat."""
        return ravel_pytree(self.dynamics.draw(key, self.state))[0]


@functools.partial(jax.jit, compiler_options=UNOPTIMISED)
def affine_maps(scheme: Scheme, points: Array | np.ndarray) -> tuple[Array, ...]:
    """Return A, G, B and W at points z with gradients there, (count, m + d), stacked."""
    dynamics, state = scheme.dynamics, scheme.state
    size = z_of(state).shape[0]
    still = jnp.zeros_like(scheme.noise(jax.random.key(0)))

    def of_point(point: Array) -> tuple[Array, ...]:
        z, g = point[:size], point[size:]
        wanted = jax.jacfwd(
            lambda z: ravel_pytree(dynamics.evaluation_point(moved_by(state, z)))[0]
        )(z)
        return (*jax.jacfwd(scheme.step, argnums=(0, 1, 2))(z, g, still), wanted)

    return jax.lax.map(of_point, jnp.asarray(points))


@functools.partial(jax.jit, static_argnums=1, compiler_options=UNOPTIMISED)
def _maps_of_each(every: dict[str, Dynamics], step: int) -> dict[str, tuple[Array, ...]]:
    """Return A, G, B and W of stacks of dynamics of one coordinate, with a leading axis.

    The map of one coordinate is linear: its columns are the images of unit vectors.
    """

    def of_one(one: Dynamics) -> tuple[Array, ...]:
        state = at_rest(one, step)
        scheme, size = Scheme(dynamics=one, posterior=None, state=state), len(names_of(state))

        def column(unit: Array) -> tuple[Array, Array]:
            z, g, xi = jnp.split(unit, [size, size + 1])
            return scheme.step(z, g, xi), one.evaluation_point(moved_by(state, z))

        units = jnp.eye(size + 1 + scheme.noise(jax.random.key(0)).size)
        columns, wanted = jax.vmap(column)(units)
        a, g, b = jnp.split(columns.T, [size, size + 1], axis=1)
        return a, g, b, wanted[:size].T

    return {name: jax.vmap(of_one)(stack) for name, stack in every.items()}


class QuadraticWeight(NamedTuple):
    """The log weight of an estimate g at z, ½ gᵀ M g + gᵀ (J z + j), up to what g does not change.

    Attributes:
        square: M, shape (d, d).
        mixed: J, shape (d, m).
        linear: j, shape (d,).
    """

    square: np.ndarray
    mixed: np.ndarray
    linear: np.ndarray

    def scaled(self, scale: np.ndarray) -> "QuadraticWeight":
        """Return the weight in the coordinates s z and g/s."""
        unit = scale[: len(self.linear)]
        return QuadraticWeight(
            unit[:, None] * self.square * unit,
            unit[:, None] * self.mixed / scale,
            unit * self.linear,
        )

    def of(self, gradients: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Return log weights of gradients (points, count, d) at z (points, m): (points, count)."""
        linear = points @ self.mixed.T + self.linear
        return np.einsum("pcd,pcd->pc", gradients, 0.5 * gradients @ self.square + linear[:, None])


@functools.partial(jax.jit, static_argnames="frozen_noise", compiler_options=UNOPTIMISED)
def weight_terms(scheme: Scheme, frozen_noise: str) -> tuple[Array, Array, Array]:
    """Return M, J and j of the weight that a dynamics gives at the mode."""
    derivative = jax.grad(functools.partial(scheme.log_weight, frozen_noise=frozen_noise))
    state = scheme.state
    g, z = (jnp.zeros_like(x) for x in (ravel_pytree(state.position)[0], z_of(state)))
    square, mixed = (jax.jacfwd(derivative, argnums=i)(g, z) for i in (0, 1))
    return square, mixed, derivative(g, z)


def state_at(dynamics: Dynamics, position: Position, step: int, thermostat: float | None) -> PyTree:
    """Return the state at rest at a position, with this thermostat if one is given."""
    state = dynamics.init(jax.random.key(0), position)
    changes: dict[str, Any] = {"step": jnp.int32(step)}
    if "momentum" in state._fields:
        changes["momentum"] = jax.tree.map(jnp.zeros_like, state.momentum)
    if thermostat is not None:
        changes["thermostat"] = jnp.asarray(thermostat, state.thermostat.dtype)
    return state._replace(**changes)


def as_reported(matrix: np.ndarray, structure: Structure) -> Covariance:
    """Return a covariance as an estimator would report it, a low rank with all its directions."""
    if structure == "diagonal":
        return Covariance(jnp.asarray(np.diag(matrix)))
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return Covariance(jnp.asarray(np.maximum(values, 0)), jnp.asarray(vectors))


# Coordinates that move independently, in coordinates in which the mass is 1.


class StationaryCoordinates(NamedTuple):
    """The stationary distributions of d coordinates that move independently.

    Attributes:
        variance: the variance of each position, shape (d,); infinite without a stationary
            distribution.
        time: the autocorrelation time of each position, in steps, shape (d,).
        square_time: the autocorrelation time of its square, in steps, shape (d,).
        matrix: A, shape (d, m, m).
        covariance: the covariance of z, shape (d, m, m).
    """

    variance: np.ndarray
    time: np.ndarray
    square_time: np.ndarray
    matrix: np.ndarray
    covariance: np.ndarray


def at_rest(dynamics: Dynamics, step: int) -> PyTree:
    """Return the state of one coordinate, without a mass."""
    return state_at(without_metric(dynamics)[0], jnp.zeros(1), step, None)


def steps_of(kinds: dict[str, list[Dynamics]], step: int = 0) -> dict[str, list[AffineStep]]:
    """Return the steps of one coordinate, by kind of dynamics.

    Args:
        kinds: dynamics by the name of their kind; those of a kind differ in numbers alone.
        step: the number of the step at which schedules are read.
    """
    with in_float64():
        every = {
            name: jax.tree.map(lambda *numbers: np.stack(numbers), *kind)
            for name, kind in kinds.items()
        }
        stacked = jax.device_get(_maps_of_each(every, step))
    return {
        name: [AffineStep(*matrices) for matrices in zip(*stacks, strict=True)]
        for name, stacks in stacked.items()
    }


def stationary_each(
    step: AffineStep, curvature: np.ndarray, gradient_variance: np.ndarray
) -> StationaryCoordinates:
    """Return the stationary distributions of independent coordinates.

    Args:
        step: the step of one coordinate.
        curvature: the curvature of each coordinate, shape (d,).
        gradient_variance: the variance of gradient estimates in each, shape (d,).
    """
    matrix = step.matrix + curvature[:, None, None] * (step.gradient @ step.wanted)
    by_gradient = step.gradient @ step.gradient.T
    noise = step.noise @ step.noise.T + gradient_variance[:, None, None] * by_gradient
    covariance, is_stationary = stationary.stationary_each(matrix, noise)
    tame = np.where(is_stationary[:, None, None], matrix, 0.0)
    with np.errstate(all="ignore"):
        time = stationary.autocorrelation_times(tame, covariance, 1)[:, 0]
        square_time = stationary.autocorrelation_times(
            stationary.kronecker_square(tame), stationary.kronecker_square(covariance), 1
        )[:, 0]

    def or_infinite(values: np.ndarray) -> np.ndarray:
        return np.where(is_stationary, values, np.inf)

    variance = or_infinite(covariance[:, 0, 0])
    return StationaryCoordinates(
        variance, or_infinite(time), or_infinite(square_time), matrix, covariance
    )
