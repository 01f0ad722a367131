"""A step of a dynamics near a mode, as the affine map that its own `apply` is there.

    z' = A z + G g + B ξ,   g wanted at W z

z is the position less the mode, then the momentum; g is the estimate of the gradient and ξ the
noise.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.answers.forecast import stationary
from ewsg_jax.base.compiling import UNOPTIMISED
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
"""Fields that are held."""
NUM_POINTS = 64
"""Points around the mode over which a map is averaged that depends on the position."""


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


@module
class Scheme(Part):
    """A dynamics beside a state at rest, with what its step takes.

    Attributes:
        dynamics: whose step it is.
        posterior: whose prior gradient it may ask for; None: that is 0.
        state: at rest.
        covariance: what estimates report, `()` for nothing.
        data: the rows.
    """

    dynamics: Dynamics
    posterior: Posterior | None = static()
    state: PyTree
    covariance: PyTree = ()
    data: Data = ()

    def _given(self, z: Array, g: Array) -> tuple[PyTree, Estimate]:
        """Return the prepared state at z, and the estimate of a gradient."""
        prior_gradient = jnp.zeros_like if self.posterior is None else self.posterior.prior_gradient
        prepared = self.dynamics.prepare(at(self.state, z), prior_gradient, self.data)
        _, unravel = ravel_pytree(jax.tree.map(jnp.zeros_like, self.state.position))
        return prepared, Estimate(unravel(g), (), covariance=self.covariance)

    def step(self, z: Array, g: Array, xi: Array) -> Array:
        """Return where a step with a gradient and a noise leads, all flat and less the state."""
        prepared, estimate = self._given(z, g)
        _, unravel = ravel_pytree(self.dynamics.draw(jax.random.key(0), self.state))
        end = self.dynamics.apply(
            unravel(xi), prepared, estimate, lambda position: estimate.gradient
        )
        return z_of(end) - z_of(self.state)

    def log_weight(self, g: Array, z: Array, frozen_noise: str) -> Array:
        """Return the log weight of a gradient, both flat."""
        return self.dynamics.log_weight(*self._given(z, g), frozen_noise)

    def noise(self, key: Key) -> Array:
        """Return a noise of a step, flat."""
        return ravel_pytree(self.dynamics.draw(key, self.state))[0]


@functools.partial(jax.jit, compiler_options=UNOPTIMISED)
def maps(scheme: Scheme, points: Array | np.ndarray) -> tuple[Array, ...]:
    """Return A, G, B and W at points z with gradients there, (count, m + d), stacked."""
    dynamics, state = scheme.dynamics, scheme.state
    size = z_of(state).shape[0]
    still = jnp.zeros_like(scheme.noise(jax.random.key(0)))

    def of_point(point: Array) -> tuple[Array, ...]:
        z, g = point[:size], point[size:]
        wanted = jax.jacfwd(lambda z: ravel_pytree(dynamics.evaluation_point(at(state, z)))[0])(z)
        return (*jax.jacfwd(scheme.step, argnums=(0, 1, 2))(z, g, still), wanted)

    return jax.lax.map(of_point, jnp.asarray(points))


@functools.partial(jax.jit, static_argnums=1, compiler_options=UNOPTIMISED)
def _maps_of_each(every: dict[str, Dynamics], step: int) -> dict[str, tuple[Array, ...]]:
    """Return A, G, B and W of stacks of dynamics of one coordinate, each with a leading axis.

    The map of one coordinate is affine, and 0 of 0: its columns are what it makes of unit vectors.
    """

    def of_one(one: Dynamics) -> tuple[Array, ...]:
        state = at_rest(one, step)
        scheme, size = Scheme(dynamics=one, posterior=None, state=state), len(names_of(state))

        def column(unit: Array) -> tuple[Array, Array]:
            z, g, xi = jnp.split(unit, [size, size + 1])
            return scheme.step(z, g, xi), one.evaluation_point(at(state, z))

        units = jnp.eye(size + 1 + scheme.noise(jax.random.key(0)).size)
        columns, wanted = jax.vmap(column)(units)
        a, g, b = jnp.split(columns.T, [size, size + 1], axis=1)
        return a, g, b, wanted[:size].T

    return {name: jax.vmap(of_one)(each) for name, each in every.items()}


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


@functools.partial(jax.jit, static_argnames="frozen_noise", compiler_options=UNOPTIMISED)
def weight_terms(scheme: Scheme, frozen_noise: str) -> tuple[Array, Array, Array]:
    """Return M, J and j of the weight that a dynamics gives at the mode."""
    slope = jax.grad(functools.partial(scheme.log_weight, frozen_noise=frozen_noise))
    state = scheme.state
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


def step_of(dynamics: Dynamics, step: int) -> AffineStep:
    """Return the step of one coordinate, in the coordinates of the mass."""
    return steps_of({"": [without_metric(dynamics)[0]]}, step)[""][0]


def steps_of(kinds: dict[str, list[Dynamics]], step: int = 0) -> dict[str, list[AffineStep]]:
    """Return the steps of one coordinate by kind of dynamics; a kind differs in numbers alone.

    Schedules are read at `step`.
    """
    with jax.enable_x64(True):
        every = {
            name: jax.tree.map(lambda *numbers: np.stack(numbers), *kind)
            for name, kind in kinds.items()
        }
        made = jax.device_get(_maps_of_each(every, step))
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
    covariance, is_law = stationary.stationary_each(matrix, noise)
    tame = np.where(is_law[:, None, None], matrix, 0.0)
    with np.errstate(all="ignore"):
        time = stationary.autocorrelation_times(tame, covariance, 1)[:, 0]
        square_time = stationary.autocorrelation_times(
            stationary.of_squares(tame), stationary.of_squares(covariance), 1
        )[:, 0]

    def known(found: np.ndarray) -> np.ndarray:
        return np.where(is_law, found, np.inf)

    return Each(known(covariance[:, 0, 0]), known(time), known(square_time), matrix, covariance)
