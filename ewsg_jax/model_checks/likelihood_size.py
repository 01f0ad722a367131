"""Whether rows vary as much as the likelihood is curved: a mean over rows is not, nor n times it.

With gᵢ the gradient of row i at the mode, H the curvature of Σᵢ Vᵢ there and the model right

    Σᵢ gᵢ gᵢᵀ ≈ H        (Bartlett's second identity)

A likelihood that is divided by n makes tr(Σ gᵢgᵢᵀ H⁻¹) the number of parameters over n, one that is
multiplied by n makes it n times as large, and one that sums over all rows itself makes it 0, for
its gradient vanishes there.

A subset of the rows shows it, but for rare rows, which may be all that is informative: if the size
is odd by the subset, the rows of the lowest log likelihoods are summed up by themselves.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import limits
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.prior_derivatives import prior_derivatives
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.rows._view import num_rows
from ewsg_jax.vectors.layout import Layout
from ewsg_jax.vectors.row_subsets import evenly, take_rows
from ewsg_jax.vectors.some_rows import PADDED_POSITIONS, SomeRows

ODD_FACTOR = 50.0
"""Times too small or too large from which on the size is odd. Noise that is another one than the
model's makes 10, a mean over rows n."""


def odd_size(
    posterior: Posterior, layout: Layout, center: np.ndarray, covariance: np.ndarray, data: Data
) -> list[Finding]:
    """Return one finding if the likelihood's size is odd, and none if it is not, or not known.

    Args:
        posterior: the model.
        layout: how d numbers are a position.
        center: the posterior's mean, shape (d,).
        covariance: that of the posterior at temperature 1, shape (d, d).
        data: all n rows; rows on several devices are not asked.
    """
    d, n = len(center), num_rows(data)
    # A fit takes d/n of the variance of residuals: 10 % with ten rows for each parameter.
    if isinstance(data, Spread) or n < 10 * d:
        return []
    flat = center.astype(jnp.result_type(jnp.float32, *layout.dtypes))
    _, hessians = prior_derivatives(posterior, layout, np.stack([flat, flat]))
    informed = d - float(np.sum(np.asarray(hessians, np.float64)[0] * covariance))
    # A tenth of the posterior's curvature must be the likelihood's, for its size to be known.
    if not informed > 0.1 * d:
        return []
    subset = SomeRows.of(posterior, layout, data)
    ratio = subset.stands_for * _outer(subset, center, covariance) / informed
    if _is_odd(ratio) and subset.stands_for > 1:
        # Rare rows, such as 39 positives of 60,000, may hold all of the sum, and the subset none.
        places = _surprising(subset, flat, data)
        others = np.setdiff1d(evenly(n, subset.size), places)
        rare = subset._replace(rows=take_rows(data, places))
        rest = subset._replace(rows=take_rows(data, np.resize(others, subset.size)))
        share = (n - len(places)) / subset.size
        ratio = _outer(rare, center, covariance) + share * _outer(rest, center, covariance)
        ratio /= informed
    if not np.isfinite(ratio) or not _is_odd(ratio):
        return []
    cure = (
        f"is log_likelihood a mean over rows (1/n is {1 / n:.1g}) or a sum over all of them, or "
        "its noise far larger than the data's?"
        if ratio < 1
        else f"is log_likelihood multiplied (n is {n:,}), or its noise far smaller than the data's?"
    )
    text = (
        f"gradients of rows vary by {ratio:.1g} times what the likelihood is curved, in a right "
        "model about once"
    )
    return [Finding("size", "note", text, cure)]


def _is_odd(ratio: float) -> bool:
    return not 1 / ODD_FACTOR <= ratio <= ODD_FACTOR


def _outer(subset: SomeRows, center: np.ndarray, covariance: np.ndarray) -> float:
    """Return tr(Σ gᵢgᵢᵀ C) over the rows of a subset at a center, shape (d,)."""
    # With g the sum over rows with random signs, gᵀ C g is on average that trace.
    places = np.resize(center, (PADDED_POSITIONS, len(center)))
    signed = subset.gradients(places, subset.signs(PADDED_POSITIONS))[:, 1]
    return float(np.mean(np.sum(signed @ covariance * signed, axis=1)))


def _surprising(subset: SomeRows, center: np.ndarray, data: Data) -> np.ndarray:
    """Return the numbers of as many rows as the subset has, with the lowest log likelihoods."""
    position = subset.layout.tree(jnp.asarray(center))
    size, n = limits.ROWS_AT_ONCE, num_rows(data)
    parts = [take_rows(data, np.arange(k, min(k + size, n))) for k in range(0, n, size)]
    values = [np.asarray(_log_likelihoods(subset.posterior, position, part)) for part in parts]
    return np.sort(np.argsort(np.concatenate(values), kind="stable")[: subset.size])


@functools.partial(jax.jit, static_argnums=0)
def _log_likelihoods(posterior: Posterior, position: Position, rows: Data) -> Array:
    return posterior.log_likelihoods(position, rows)
