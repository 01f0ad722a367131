"""A step of a dynamics near a mode, as the affine map that its own `apply` is there.

    z' = A z + G g + B ξ,   g wanted at W z

z is the position less the mode, then the momentum; g is the estimate of the gradient and ξ the
noise.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax._types import Array, Data, Position, PyTree
from ewsg_jax.compiling import UNOPTIMISED
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.dynamics.mass import without_metric
from ewsg_jax.forecasting import law
from ewsg_jax.gradients.covariance import Covariance, Structure
from ewsg_jax.gradients.protocol import Estimate
from ewsg_jax.posterior import Posterior

MOVING = ("position", "momentum")
"""Fields of a state that make up z."""
HELD = ("step", "thermostat")
"""Fields that are held."""
NUM_POINTS = 64
"""Points around the mode over which a map is averaged that depends on the position."""
PriorGradient = Callable[[Position], Position]


class AffineStep(NamedTuple):
    """The map, of m numbers of z, d of the position and r of the noise.

    Attributes:
        matrix: A, shape (m, m).
        gradient: G, shape (m, d).
        noise: B, shape (m, r).
        wanted: W, shape (d, m).
    """

    matrix: np.ndarray
    gradient: np.ndarray
    noise: np.ndarray
    wanted: np.ndarray

    def scaled(self, scale: np.ndarray) -> "AffineStep":
        """Return the map of s z and g/s, with s the scale of each number of z."""
        d = self.gradient.shape[1]
        return AffineStep(
            scale[:, None] * self.matrix / scale,
            scale[:, None] * self.gradient * scale[:d],
            scale[:, None] * self.noise,
            scale[:d, None] * self.wanted / scale,
        )


def names_of(state: PyTree) -> list[str]:
    """Return which fields of a state make up z, in order."""
    return [name for name in MOVING if name in state._fields]


def at(state: PyTree, flat: Array) -> PyTree:
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


def step_at(
    dynamics: Dynamics, prior_gradient: PriorGradient, state: PyTree, covariance: PyTree, data: Data
) -> Callable[[Array, Array, Array], Array]:
    """Return a step from a state as a function of z, g and ξ, all flat, less where it is at rest.

    What an estimate reports is `covariance`, `()` for nothing.
    """
    origin = z_of(state)
    _, unravel = ravel_pytree(jax.tree.map(jnp.zeros_like, state.position))
    _, unravel_noise = ravel_pytree(dynamics.draw(jax.random.key(0), state))

    def moved(z: Array, g: Array, xi: Array) -> Array:
        prepared = dynamics.prepare(at(state, z), prior_gradient, data)
        estimate = Estimate(unravel(g), (), covariance=covariance)
        end = dynamics.apply(unravel_noise(xi), prepared, estimate, lambda position: unravel(g))
        return z_of(end) - origin

    return moved


@functools.partial(jax.jit, static_argnames="posterior", compiler_options=UNOPTIMISED)
def maps(
    dynamics: Dynamics,
    posterior: Posterior,
    state: PyTree,
    covariance: PyTree,
    points: Array | np.ndarray,
    data: Data,
) -> tuple[Array, ...]:
    """Return A, G, B and W at points z with gradients there, (count, m + d), stacked."""
    moved = step_at(dynamics, posterior.prior_gradient, state, covariance, data)
    size = z_of(state).shape[0]
    still = jnp.zeros_like(ravel_pytree(dynamics.draw(jax.random.key(0), state))[0])

    def of_point(point: Array) -> tuple[Array, ...]:
        z, g = point[:size], point[size:]
        wanted = jax.jacfwd(lambda z: ravel_pytree(dynamics.evaluation_point(at(state, z)))[0])(z)
        return (*jax.jacfwd(moved, argnums=(0, 1, 2))(z, g, still), wanted)

    return jax.lax.map(of_point, jnp.asarray(points))


@functools.partial(jax.jit, compiler_options=UNOPTIMISED)
def _maps_of_each(
    every: dict[str, Dynamics], states: dict[str, PyTree]
) -> dict[str, tuple[Array, ...]]:
    """Return A, G, B and W of stacks of dynamics of one coordinate, each with a leading axis.

    The map of one coordinate is affine, and 0 of 0: its columns are what it makes of unit vectors.
    """

    def of_one(one: Dynamics, state: PyTree) -> tuple[Array, ...]:
        moved = step_at(one, jnp.zeros_like, state, (), ())
        size = len(names_of(state))
        noises = ravel_pytree(one.draw(jax.random.key(0), state))[0].size

        def column(unit: Array) -> tuple[Array, Array]:
            z, g, xi = jnp.split(unit, [size, size + 1])
            return moved(z, g, xi), one.evaluation_point(at(state, z))

        columns, wanted = jax.vmap(column)(jnp.eye(size + 1 + noises))
        a, g, b = jnp.split(columns.T, [size, size + 1], axis=1)
        return a, g, b, wanted[:size].T

    return {
        name: jax.vmap(lambda one, s=states[name]: of_one(one, s))(each)
        for name, each in every.items()
    }


class Weight(NamedTuple):
    """The log weight of an estimate g at z, ½ gᵀ M g + gᵀ (J z + j) and what does not depend on g.

    Attributes:
        square: M, shape (d, d).
        mixed: J, shape (d, m).
        linear: j, shape (d,).
    """

    square: np.ndarray
    mixed: np.ndarray
    linear: np.ndarray

    def scaled(self, scale: np.ndarray) -> "Weight":
        """Return that of s z and g/s."""
        unit = scale[: len(self.linear)]
        return Weight(
            unit[:, None] * self.square * unit,
            unit[:, None] * self.mixed / scale,
            unit * self.linear,
        )

    def of(self, gradients: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Return log weights of gradients (points, count, d) at z (points, m): (points, count)."""
        slope = points @ self.mixed.T + self.linear
        return np.einsum("pcd,pcd->pc", gradients, 0.5 * gradients @ self.square + slope[:, None])


def weight_at(
    dynamics: Dynamics,
    prior_gradient: PriorGradient,
    state: PyTree,
    covariance: PyTree,
    frozen_noise: str,
    data: Data,
) -> Callable[[Array, Array], Array]:
    """Return the log weight that a dynamics gives, as a function of g and z, both flat."""
    _, unravel = ravel_pytree(jax.tree.map(jnp.zeros_like, state.position))

    def weight(g: Array, z: Array) -> Array:
        prepared = dynamics.prepare(at(state, z), prior_gradient, data)
        estimate = Estimate(unravel(g), (), covariance=covariance)
        return dynamics.log_weight(prepared, estimate, frozen_noise)

    return weight


@functools.partial(
    jax.jit, static_argnames=("posterior", "frozen_noise"), compiler_options=UNOPTIMISED
)
def weight_terms(
    dynamics: Dynamics,
    posterior: Posterior,
    state: PyTree,
    covariance: PyTree,
    frozen_noise: str,
    data: Data,
) -> tuple[Array, Array, Array]:
    """Return M, J and j of the weight that a dynamics gives at the mode."""
    prior_gradient = posterior.prior_gradient
    slope = jax.grad(weight_at(dynamics, prior_gradient, state, covariance, frozen_noise, data))
    g, z = (jnp.zeros_like(x) for x in (ravel_pytree(state.position)[0], z_of(state)))
    return jax.jacfwd(slope)(g, z), jax.jacfwd(slope, argnums=1)(g, z), slope(g, z)


def state_at(dynamics: Dynamics, position: Position, step: int, thermostat: float | None) -> PyTree:
    """Return the state at rest at a position."""
    state = dynamics.init(jax.random.key(0), position)
    changes: dict[str, Any] = {"step": jnp.int32(step)}
    if "momentum" in state._fields:
        changes["momentum"] = jax.tree.map(jnp.zeros_like, state.momentum)
    if thermostat is not None:
        changes["thermostat"] = jnp.asarray(thermostat, state.thermostat.dtype)
    return state._replace(**changes)


def as_reported(matrix: np.ndarray, structure: Structure) -> Covariance:
    """Return a covariance as an estimator would report it; a low rank as the whole."""
    if structure == "diagonal":
        return Covariance(jnp.asarray(np.diag(matrix)))
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return Covariance(jnp.asarray(np.maximum(values, 0)), jnp.asarray(vectors))


# A coordinate that moves by itself, in coordinates in which the mass is 1.


class Each(NamedTuple):
    """The law of coordinates that move by themselves.

    Attributes:
        variance: of the position's coordinates, shape (d,); infinite where there is no law.
        time: over which they forget, in steps, shape (d,).
        square_time: over which their squares do.
        matrix: A of each, shape (d, m, m).
        covariance: of each z, shape (d, m, m).
    """

    variance: np.ndarray
    time: np.ndarray
    square_time: np.ndarray
    matrix: np.ndarray
    covariance: np.ndarray


def at_rest(dynamics: Dynamics, step: int) -> PyTree:
    """Return the state of one coordinate, without a mass."""
    return state_at(without_metric(dynamics)[0], jnp.zeros(1), step, None)


def step_of(dynamics: Dynamics, posterior: Posterior, step: int, data: Data) -> AffineStep:
    """Return the step of one coordinate, in the coordinates of the mass."""
    plain, _ = without_metric(dynamics)
    with jax.enable_x64(True):
        state = at_rest(plain, step)
        size = sum(name in state._fields for name in ("position", "momentum"))
        made = maps(plain, posterior, state, (), np.zeros((1, size + 1)), data)
        return AffineStep(*(np.asarray(part, float)[0] for part in made))


def steps_of(kinds: dict[str, list[Dynamics]]) -> dict[str, list[AffineStep]]:
    """Return the steps of one coordinate by kind of dynamics; a kind differs in numbers alone."""
    with jax.enable_x64(True):
        states = {name: at_rest(kind[0], 0) for name, kind in kinds.items()}
        every = {
            name: jax.tree.map(lambda *numbers: np.stack(numbers), *kind)
            for name, kind in kinds.items()
        }
        made = jax.device_get(_maps_of_each(every, states))
    return {
        name: [AffineStep(*each) for each in zip(*parts, strict=True)]
        for name, parts in made.items()
    }


def stationary_each(step: AffineStep, curvature: np.ndarray, heat: np.ndarray) -> Each:
    """Return the law of coordinates of these curvatures, (d,), with gradients of these variances,
    (d,), which the step of one coordinate makes.
    """
    matrix = step.matrix + curvature[:, None, None] * (step.gradient @ step.wanted)
    noise = step.noise @ step.noise.T + heat[:, None, None] * (step.gradient @ step.gradient.T)
    covariance, is_law = law.stationary_each(matrix, noise)
    tame = np.where(is_law[:, None, None], matrix, 0.0)
    with np.errstate(all="ignore"):
        time = law.autocorrelation_times(tame, covariance, 1)[:, 0]
        square_time = law.autocorrelation_times(
            law.of_squares(tame), law.of_squares(covariance), 1
        )[:, 0]

    def known(found: np.ndarray) -> np.ndarray:
        return np.where(is_law, found, np.inf)

    return Each(known(covariance[:, 0, 0]), known(time), known(square_time), matrix, covariance)
