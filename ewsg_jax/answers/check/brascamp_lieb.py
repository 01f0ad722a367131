"""Draws beside a normal prior: no wider if log-concave, as wide where data say nothing.

Of exp(−V) with V = V₀ + Σᵢ Vᵢ, all convex and V₀ a quadratic, no direction has a larger variance
than under exp(−V₀) (Brascamp & Lieb 1976). It takes no gradient of the likelihood, and holds
however far off the draws are.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check.correction import MOST_DENSE
from ewsg_jax.answers.check.crossfit import TINY, groups, jackknife
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.base.optional import student_quantile
from ewsg_jax.base.typing import Array, PyTree
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.vectors import differences
from ewsg_jax.vectors.layout import log_prior

SAME = 1e-3
"""Relative difference of curvatures that is rounding."""
AS_WIDE, FAR, MOST_NAMED = 0.95, 10.0, 3
"""Part of the prior's width from which on a coordinate is as wide; how many of its widths from its
mean are far; and how many coordinates are named.
"""


class Normal(NamedTuple):
    """A normal prior.

    Attributes:
        mean, widths: mean and standard deviation of each coordinate, shape (d,).
    """

    mean: np.ndarray
    widths: np.ndarray


def prior_moments(posterior: Posterior, draws: Draws, temperature: float) -> Normal | None:
    """Return a normal prior's moments; None of another one, or above 1,000 numbers.

    The prior is a normal one where its curvature is the same at two places.
    """
    if draws.size > MOST_DENSE:
        return None
    # On both sides of the middle, and not as far on one: a prior may be even.
    middle = draws.flat.mean(0)
    farthest = draws.flat[np.argmax(np.linalg.norm(draws.flat - middle, axis=1))] - middle
    places = middle + np.array([[-0.5], [1.0]]) * farthest
    points = places.astype(jnp.result_type(jnp.float32, *draws.layout.dtypes))
    slopes, (here, there) = (
        np.asarray(each, np.float64) for each in _derivatives(posterior, draws.layout, points)
    )
    if not np.isfinite([here, there]).all():
        return None
    values, vectors = np.linalg.eigh(here)
    if not values[0] > SAME * values[-1] or np.abs(here - there).max() > SAME * values[-1]:
        return None
    mean = points[0] - vectors @ (vectors.T @ slopes[0] / values)
    return Normal(mean, np.sqrt(temperature * np.sum(vectors**2 / values, axis=1)))


def too_wide(draws: Draws, widths: np.ndarray | None, tolerance: float, error_rate: float) -> str:
    """Return what is impossible about draws, in words; nothing where none is beyond its bound.

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
        f"({draws.names[k]}), which no posterior of a log-concave likelihood is (Brascamp–Lieb)"
    )


def far_out(mean: np.ndarray, prior: Normal | None, own_names: tuple[str, ...]) -> str:
    """Return which coordinates are far from the prior, in words; nothing where none is.

    Args:
        mean: of draws, shape (d,).
        prior: a normal one; None where it is none.
        own_names: of the coordinates.
    """
    if prior is None:
        return ""
    off = np.abs(mean - prior.mean) / prior.widths
    far = np.flatnonzero(off > FAR)
    if not len(far):
        return ""
    far = far[np.argsort(-off[far], kind="stable")]
    # One digit: so the same of two sets of draws of one posterior.
    sizes = [float(f"{off[k]:.1g}") for k in far[:MOST_NAMED]]
    named = ", ".join(
        f"{own_names[k]} (some {size:,.0f} of its sds)"
        for k, size in zip(far[:MOST_NAMED], sizes, strict=True)
    )
    more = f" and {len(far) - MOST_NAMED} more" if len(far) > MOST_NAMED else ""
    return (
        f"far from the prior: {named}{more}; the prior is too narrow, or labels, units, sign or "
        "scale of the likelihood are not what they should be"
    )


def as_wide(sd: np.ndarray, prior: Normal | None, own_names: tuple[str, ...]) -> str:
    """Return which coordinates are as wide as the prior, in words; nothing where none is.

    Args:
        sd: standard deviations of draws, shape (d,).
        prior: a normal one; None where it is none.
        own_names: of the coordinates.
    """
    if prior is None:
        return ""
    names = [own_names[k] for k in np.flatnonzero(sd >= AS_WIDE * prior.widths)]
    if not names:
        return ""
    told = ", ".join(names[:MOST_NAMED]) + (
        f" and {len(names) - MOST_NAMED} more" if names[MOST_NAMED:] else ""
    )
    return (
        f"as wide as the prior alone: {told}; the data say nothing of them, or the likelihood is "
        "not what it should be (its sign, a mean over rows)"
    )


def prior_curvatures(posterior: Posterior, layout: PyTree, points: Array | np.ndarray) -> Array:
    """Return the Hessians of −log prior at points (count, d), shape (count, d, d)."""
    return _derivatives(posterior, layout, points)[1]


@functools.partial(jax.jit, static_argnums=(0, 1))
def _derivatives(
    posterior: Posterior, layout: PyTree, points: Array | np.ndarray
) -> tuple[Array, Array]:
    """Return the gradients and the Hessians of −log prior at points (count, d)."""

    def potential(flat: Array) -> Array:
        return -log_prior(posterior, layout, flat)

    def both(flat: Array) -> tuple[Array, Array]:
        gradient, unit = jax.grad(potential), jnp.eye(flat.size, dtype=flat.dtype)
        hessian = jax.vmap(lambda v: differences.derivative(gradient, flat, v))(unit)
        return gradient(flat), hessian

    return jax.lax.map(both, points)
