"""Draws beside a normal prior: no wider under a log-concave likelihood, and as wide where the data
say nothing.

Of exp(−V) with V = V₀ + Σᵢ Vᵢ, all convex and V₀ a quadratic, no direction has a larger variance
than under exp(−V₀) (Brascamp & Lieb 1976). It takes no gradient of the likelihood, and holds
however far off the draws are.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax._types import Array, PyTree
from ewsg_jax.checking.correction import MOST_DENSE
from ewsg_jax.checking.crossfit import TINY, groups, jackknife
from ewsg_jax.checking.draws import Draws
from ewsg_jax.lazy_scipy import student_quantile
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation import differences

SAME = 1e-3
"""Relative difference of curvatures that is rounding."""
AS_WIDE, MOST_NAMED = 0.95, 3
"""Part of the prior's width from which on a coordinate is as wide; and how many of them
are named.
"""


def prior_widths(posterior: Posterior, draws: Draws, temperature: float) -> np.ndarray | None:
    """Return the standard deviations of a normal prior, shape (d,); None of another one, or above
    1,000 numbers.

    The prior is a normal one where its curvature is the same at two places.
    """
    if draws.size > MOST_DENSE:
        return None
    places = np.stack(
        [draws.flat.mean(0), draws.flat[np.argmax(np.linalg.norm(draws.flat, axis=1))]]
    )
    points = places.astype(jnp.result_type(jnp.float32, *draws.layout.dtypes))
    here, there = np.asarray(prior_curvatures(posterior, draws.layout, points), np.float64)
    if not np.isfinite([here, there]).all():
        return None
    values, vectors = np.linalg.eigh(here)
    if not values[0] > SAME * values[-1] or np.abs(here - there).max() > SAME * values[-1]:
        return None
    return np.sqrt(temperature * np.sum(vectors**2 / values, axis=1))


def too_wide(draws: Draws, widths: np.ndarray | None, tolerance: float, error_rate: float) -> str:
    """Return what is impossible about draws, in words; nothing where none is wider than its bound
    but by chance.

    Args:
        draws: which.
        widths: the bounds of their standard deviations, shape (d,); None where there are none.
        tolerance: how far off, relatively, a standard deviation may be.
        error_rate: how often draws as wide as the bounds may be called wider.
    """
    if widths is None:
        return ""
    off, parts = draws.flat - draws.flat.mean(0), groups(len(draws.flat), draws.num_groups)
    sums = np.array([[off[part].sum(0), (off[part] ** 2).sum(0)] for part in parts])
    left = np.array([[len(off) - (part.stop - part.start)] for part in parts])
    first, second = np.moveaxis(sums.sum(0) - sums, 1, 0) / left
    error = jackknife(np.log(np.maximum(second - first**2, TINY)) / 2)
    ratio = off.std(0) / widths
    sure = -float(student_quantile(len(parts) - 1, error_rate / draws.size))
    beyond = np.log(ratio) - sure * error
    k = int(np.argmax(beyond))
    if beyond[k] <= np.log1p(tolerance):
        return ""
    return (
        f"impossible: {ratio[k]:.3g} ± {ratio[k] * error[k]:.2g} times as wide as the prior "
        f"({draws.names[k]}), "
        "which no posterior of a log-concave likelihood is (Brascamp–Lieb)"
    )


def as_wide(sd: np.ndarray, widths: np.ndarray | None, own_names: tuple[str, ...]) -> str:
    """Return which coordinates are as wide as the prior, in words; nothing where none is.

    Args:
        sd: standard deviations of draws, shape (d,).
        widths: the prior's, shape (d,); None where they are not known.
        own_names: of the coordinates.
    """
    if widths is None:
        return ""
    names = [own_names[k] for k in np.flatnonzero(sd >= AS_WIDE * widths)]
    if not names:
        return ""
    told = ", ".join(names[:MOST_NAMED]) + (
        f" and {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else ""
    )
    return (
        f"as wide as the prior alone: {told}; the data say nothing of them, or the likelihood is "
        "not what it "
        "should be (its sign, a mean over rows)"
    )


@functools.partial(jax.jit, static_argnums=(0, 1))
def prior_curvatures(posterior: Posterior, layout: PyTree, points: Array | np.ndarray) -> Array:
    """Return the Hessians of −log prior at points (count, d), shape (count, d, d)."""

    def potential(flat: Array) -> Array:
        return -jnp.asarray(posterior.log_prior(layout.tree(flat)), flat.dtype)

    def hessian(flat: Array) -> Array:
        gradient, unit = jax.grad(potential), jnp.eye(flat.size, dtype=flat.dtype)
        return jax.vmap(lambda v: differences.derivative(gradient, flat, v))(unit)

    return jax.lax.map(hessian, points)
