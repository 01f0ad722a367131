"""Draws compared with a normal prior: no wider if log-concave, as wide if data do not inform them.

For exp(−V) with V = V₀ + Σᵢ Vᵢ, all convex and V₀ a quadratic, no direction has a larger variance
than under exp(−V₀) (Brascamp & Lieb 1976). The bound takes no gradient of the likelihood, and holds
however far draws are from the target.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.crossfit import TINY, groups, jackknife
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.base import limits
from ewsg_jax.base.compiling import run
from ewsg_jax.base.optional import student_quantile
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.prior_derivatives import prior_derivatives
from ewsg_jax.posterior.posterior import Posterior


class PriorMoments(NamedTuple):
    """Moments of a normal prior.

    Attributes:
        mean: the mean of each coordinate, shape (d,).
        sd: the standard deviation of each coordinate, shape (d,).
    """

    mean: np.ndarray
    sd: np.ndarray


def prior_moments(posterior: Posterior, draws: Draws, temperature: float) -> PriorMoments | None:
    """Return moments of a normal prior; None for another prior, or above 1,000 parameters.

    The prior is taken to be normal if its curvature is the same at two positions.

    Args:
        posterior: the posterior whose `log_prior` is read.
        draws: the draws between which the two positions lie.
        temperature: T of the target exp(−V/T).
    """
    if draws.size > limits.MAX_DENSE_DIMENSION:
        return None
    # On both sides of the middle, and not as far on one: a prior may be even.
    middle = draws.flat.mean(0)
    farthest = draws.flat[np.argmax(np.linalg.norm(draws.flat - middle, axis=1))] - middle
    places = middle + np.array([[-0.5], [1.0]]) * farthest
    points = places.astype(jnp.result_type(jnp.float32, *draws.layout.dtypes))
    gradients, (here, there) = (
        np.asarray(x, np.float64) for x in run(prior_derivatives, posterior, draws.layout, points)
    )
    if not np.isfinite([here, there]).all():
        return None
    values, vectors = np.linalg.eigh(here)
    rounding = settings.SAME_CURVATURE * values[-1]
    if not values[0] > rounding or np.abs(here - there).max() > rounding:
        return None
    mean = points[0] - vectors @ (vectors.T @ gradients[0] / values)
    return PriorMoments(mean, np.sqrt(temperature * np.sum(vectors**2 / values, axis=1)))


def too_wide(
    draws: Draws, prior: PriorMoments | None, tolerance: float, error_rate: float
) -> list[Finding]:
    """Return a finding if draws of a log-concave likelihood are wider than the prior.

    Args:
        draws: the draws.
        prior: moments of a normal prior, the bound of the draws' sds; None if there is no bound.
        tolerance: the relative excess of a standard deviation that is allowed.
        error_rate: the probability that draws from the prior are called wider.
    """
    if prior is None:
        return []
    off, parts = draws.flat - draws.flat.mean(0), groups(len(draws.flat), draws.num_groups)
    sums = np.array([[off[part].sum(0), (off[part] ** 2).sum(0)] for part in parts])
    left = np.array([[len(off) - (part.stop - part.start)] for part in parts])
    first, second = np.moveaxis(sums.sum(0) - sums, 1, 0) / left
    error = jackknife(np.log(np.maximum(second - first**2, TINY)) / 2)
    ratio = off.std(0) / prior.sd
    errors_allowed = -float(student_quantile(len(parts) - 1, error_rate / draws.size))
    beyond = np.log(ratio) - errors_allowed * error
    k = int(np.argmax(beyond))
    if beyond[k] <= np.log1p(tolerance):
        return []
    text = (
        f"impossible: {ratio[k]:.3g} ± {ratio[k] * error[k]:.2g} times as wide as the prior "
        f"({draws.names[k]}), which no posterior of a log-concave likelihood is (Brascamp–Lieb)"
    )
    return [Finding("prior", "error", text)]


def far_out(mean: np.ndarray, prior: PriorMoments | None, names: tuple[str, ...]) -> list[Finding]:
    """Return a note on coordinates whose mean is far from that of the prior.

    Args:
        mean: the mean of the draws, shape (d,).
        prior: moments of a normal prior; None for another prior.
        names: names of the coordinates.
    """
    if prior is None:
        return []
    off = np.abs(mean - prior.mean) / prior.sd
    # In sds of the prior; by hand.
    far = np.flatnonzero(off > 10.0)
    if not len(far):
        return []
    far = far[np.argsort(-off[far], kind="stable")]
    # One digit: so the note is the same for two sets of draws from one posterior.
    described = [f"{names[k]} (some {float(f'{off[k]:.1g}'):,.0f} of its sds)" for k in far]
    return [
        Finding(
            "prior",
            "note",
            f"far from the prior: {_listed(described)}",
            "the prior is too narrow, or labels, units, sign or scale of the likelihood are not "
            "what they should be",
        )
    ]


def as_wide(sd: np.ndarray, prior: PriorMoments | None, names: tuple[str, ...]) -> list[Finding]:
    """Return a note on coordinates that are as wide as the prior.

    Args:
        sd: standard deviations of the draws, shape (d,).
        prior: moments of a normal prior; None for another prior.
        names: names of the coordinates.
    """
    if prior is None:
        return []
    # Data that take less than 5 % of a width do not inform a coordinate; by hand.
    wide = [names[k] for k in np.flatnonzero(sd >= 0.95 * prior.sd)]
    if not wide:
        return []
    return [
        Finding(
            "prior",
            "note",
            f"as wide as the prior alone: {_listed(wide)}",
            "the data say nothing of them, or the likelihood is not what it should be (its sign, a "
            "mean over rows)",
        )
    ]


def _listed(items: list[str]) -> str:
    """Return the first items in words, and how many more there are."""
    most = limits.NAMES_SHOWN
    more = f" and {len(items) - most} more" if len(items) > most else ""
    return f"{', '.join(items[:most])}{more}"
