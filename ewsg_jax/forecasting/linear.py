"""Whether a step of a dynamics of one's own is linear, as a forecast takes it to be.

Derivatives at the mode say what a step does where it is affine in the position, the momentum, the
gradient and the noise. Elsewhere they say nothing of a step as long as those of a chain. So they
are compared with derivatives at points of the law, along random directions, for each of the four by
itself: beside a noise of order √h a force of order h would hardly be seen. The library's own linear
schemes have tests for this instead; that of `riemannian` is averaged over the law.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax._module import is_own, made_by
from ewsg_jax._types import Array, Data, PyTree
from ewsg_jax.compiling import UNOPTIMISED
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.dynamics.mass import without_metric
from ewsg_jax.forecasting import law
from ewsg_jax.forecasting.step import AffineStep, at, names_of
from ewsg_jax.gradients.protocol import Estimate
from ewsg_jax.posterior import Posterior

NUM_POINTS = 16
"""Points, each with a direction."""
LINEAR = 0.01
"""Part of a derivative by which it may change."""
NUM_DRAWS, SURE = 512, 6.0
"""Draws of the noise, and standard errors beyond which their moments are others."""
OF = ("position and momentum", "gradient", "noise")


def is_checked(dynamics: Dynamics) -> bool:
    """Return whether the step of a dynamics is one's own: to be checked, and then linear."""
    return is_own(type(without_metric(dynamics)[0]))


def check_linear(
    dynamics: Dynamics,
    posterior: Posterior,
    state: PyTree,
    covariance: PyTree,
    scale: np.ndarray,
    points: np.ndarray,
    gradients: np.ndarray,
    frozen_noise: str | None,
    data: Data,
) -> None:
    """Check that the step of a dynamics is linear, and its noise standard normal in two moments.

    Args:
        dynamics: of one's own.
        posterior: whose prior gradient it may ask for.
        state: at the mode, at rest, in float64.
        covariance: what estimates report.
        scale: of each number of z, shape (m,), for what is large.
        points: z, of the law, shape (points, m).
        gradients: there, shape (points, d).
        frozen_noise: of a weight that must be quadratic, None for none.
        data: the rows.

    Raises:
        ValueError: it is not.
    """
    plain = without_metric(dynamics)[0]
    rng = np.random.default_rng(23)
    turned = [x[rng.permutation(len(x))] for x in (points, gradients)]
    count, found = len(points), None
    with jax.enable_x64(True):
        _check_noise(dynamics, state)
        try:
            found = _changes(
                dynamics,
                posterior,
                state,
                covariance,
                jnp.asarray(scale),
                (jnp.asarray(points), jnp.asarray(gradients)),
                (jnp.asarray(turned[0]), jnp.asarray(turned[1])),
                jax.random.split(jax.random.key(29), (count, 2)),
                frozen_noise,
                data,
            )
        except (TypeError, ValueError) as error:
            raise _refused(plain, f"of which no derivative is known ({error})") from error
    changes, sizes, offset, step, of_weight = (np.asarray(x, float) for x in found)
    for name, change, size in zip(OF, changes.T, sizes.T, strict=True):
        with np.errstate(all="ignore"):
            # Of a derivative that is 0 at the mode any change is all of it.
            share = np.sqrt(np.mean(change**2) / np.mean(size**2))
        if not np.isfinite(change).all() or not np.isfinite(size).all():
            raise _refused(plain, "whose derivatives at the mode are not finite")
        if np.mean(change**2) > np.finfo(float).eps * np.mean(step**2) and share > LINEAR:
            by = f"{100 * share:.2g} %" if share < 10 else "more than ten times itself"
            raise _refused(
                plain,
                f"whose derivative by the {name} changes by {by} over the law",
            )
    if not np.mean(offset**2) <= LINEAR**2 * np.mean(step**2):
        raise _refused(plain, "which moves at the mode, at rest, without a force or a noise")
    if not np.all(of_weight[:, 0] <= LINEAR * of_weight[:, 1]):
        raise _refused(plain, "whose log_weight is not quadratic in the gradient")


def check_alike(
    dynamics: Dynamics,
    posterior: Posterior,
    state: PyTree,
    alone: AffineStep,
    data: Data,
) -> None:
    """Check that each coordinate moves by itself, as one alone does.

    Args:
        dynamics: of one's own, without a mass.
        posterior: whose prior gradient it may ask for.
        state: of all coordinates, at rest, in float64.
        alone: the step of one coordinate.
        data: the rows.

    Raises:
        ValueError: it does not.
    """
    d = ravel_pytree(state.position)[0].shape[0]
    parts = len(names_of(state))
    z, g = law.normal(31, 2, parts * d), law.normal(37, 2, d)
    with jax.enable_x64(True):
        moved, width = _moved_and_width(
            dynamics, posterior, state, jnp.asarray(z), jnp.asarray(g), data
        )
    split = z.reshape(2, parts, d)
    expected = np.einsum("ab,pbd->pad", alone.matrix, split)
    expected += alone.gradient[None] * g[:, None]
    widths = np.sqrt(np.sum(alone.noise**2, axis=1))[:, None] * np.ones(d)
    is_alike = np.allclose(np.asarray(moved).reshape(expected.shape), expected, rtol=1e-3) and (
        np.allclose(np.asarray(width).reshape(widths.shape).mean(1), widths.mean(1), rtol=0.2)
    )
    if not is_alike:
        raise _refused(
            dynamics, "whose coordinates do not each move as one alone, in over 1,000 dimensions"
        )


def _refused(dynamics: Dynamics, why: str) -> ValueError:
    return ValueError(
        "kernel must have a dynamics whose step is linear in position, momentum, gradient and "
        f"standard normal noise for a forecast; got {made_by(dynamics)}, {why}. Run it for some "
        "steps instead"
    )


def _check_noise(dynamics: Dynamics, state: PyTree) -> None:
    """Raise that the noise has other first or second moments than standard normals."""
    draws = jax.vmap(lambda key: ravel_pytree(dynamics.draw(key, state))[0])(
        jax.random.split(jax.random.key(41), NUM_DRAWS)
    )
    drawn = np.asarray(draws, float)
    size = drawn.shape[1]
    # Of each number, and of some sums: numbers that depend on each other have others.
    signs = np.random.default_rng(43).choice([-1.0, 1.0], (size, 8)) / np.sqrt(max(size, 1))
    for values in (drawn, drawn @ signs):
        for moment, wanted in ((values, 0.0), (values**2, 1.0)):
            off = np.abs(moment.mean(0) - wanted)
            error = moment.std(0) / np.sqrt(NUM_DRAWS)
            if np.any(off > SURE * error + LINEAR):
                raise _refused(
                    without_metric(dynamics)[0],
                    "whose noise is not of mean 0 and covariance I",
                )


def _step_of(
    dynamics: Dynamics, posterior: Posterior, state: PyTree, covariance: PyTree, data: Data
) -> Any:
    """Return a step as a function of z, g and ξ, all flat, less the mode."""
    names = names_of(state)
    origin = jnp.concatenate([ravel_pytree(getattr(state, name))[0] for name in names])
    _, unravel = ravel_pytree(jax.tree.map(jnp.zeros_like, state.position))
    _, unravel_noise = ravel_pytree(dynamics.draw(jax.random.key(0), state))

    def moved(z: Array, g: Array, xi: Array) -> Array:
        here = at(state, z)
        prepared = dynamics.prepare(here, posterior.prior_gradient, data)
        estimate = Estimate(unravel(g), (), covariance=covariance)
        end = dynamics.apply(unravel_noise(xi), prepared, estimate, lambda position: unravel(g))
        return jnp.concatenate([ravel_pytree(getattr(end, name))[0] for name in names]) - origin

    return moved


def _traced(
    dynamics: Dynamics,
    posterior: Posterior,
    state: PyTree,
    covariance: PyTree,
    scale: Array,
    points: tuple[Array, Array],
    directions: tuple[Array, Array],
    keys: Array,
    frozen_noise: str | None,
    data: Data,
) -> PyTree:
    """Return how derivatives change, how large they are, and what moves without any cause."""
    moved = _step_of(dynamics, posterior, state, covariance, data)
    _, unravel = ravel_pytree(jax.tree.map(jnp.zeros_like, state.position))

    def weight(g: Array, z: Array) -> Array:
        prepared = dynamics.prepare(at(state, z), posterior.prior_gradient, data)
        estimate = Estimate(unravel(g), (), covariance=covariance)
        return dynamics.log_weight(prepared, estimate, frozen_noise or "")

    def norm(flat: Array) -> Array:
        return jnp.linalg.norm(scale * flat)

    def of_point(each: PyTree) -> PyTree:
        (z, g), (along_z, along_g), (one, other) = each
        xi, along_xi = (ravel_pytree(dynamics.draw(key, state))[0] for key in (one, other))
        here, along = (z, g, xi), (along_z, along_g, along_xi)
        still = jax.tree.map(jnp.zeros_like, here)
        changes, sizes, change = [], [], -along_z
        for i, direction in enumerate(along):
            only = tuple(direction if i == j else jnp.zeros_like(x) for j, x in enumerate(here))
            now, then = (jax.jvp(moved, place, only)[1] for place in (here, still))
            change = change + then
            changes.append(norm(now - then))
            # What a free step does is what it adds to a position.
            sizes.append(norm(then - along_z if i == 0 else then))
        turned = jnp.zeros(2)
        if frozen_noise is not None:
            of = jax.grad(weight)
            now, then = (
                jax.jvp(of, place, (along_g, along_z))[1]
                for place in ((g, z), (still[1], still[0]))
            )
            turned = jnp.stack([jnp.linalg.norm(now - then), jnp.linalg.norm(then)])
        return (
            jnp.stack(changes),
            jnp.stack(sizes),
            norm(moved(*still)),
            norm(change),
            turned,
        )

    return jax.lax.map(of_point, (points, directions, keys))


_changes = jax.jit(
    _traced, static_argnames=("posterior", "frozen_noise"), compiler_options=UNOPTIMISED
)


def _widths(
    dynamics: Dynamics, posterior: Posterior, state: PyTree, z: Array, g: Array, data: Data
) -> tuple[Array, Array]:
    """Return where steps without a noise end, and the widths that the noise gives."""
    moved = _step_of(dynamics, posterior, state, (), data)
    none = jnp.zeros_like(ravel_pytree(dynamics.draw(jax.random.key(0), state))[0])
    size = z.shape[1]

    def drawn(key: Array) -> Array:
        xi = ravel_pytree(dynamics.draw(key, state))[0]
        return moved(jnp.zeros(size), jnp.zeros(g.shape[1]), xi)

    ends = jnp.stack([moved(z[i], g[i], none) for i in range(2)])
    return ends, jnp.std(jax.lax.map(drawn, jax.random.split(jax.random.key(47), 64)), axis=0)


_moved_and_width = jax.jit(_widths, static_argnames="posterior", compiler_options=UNOPTIMISED)
