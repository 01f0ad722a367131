"""Whether rows vary as much as the likelihood is curved: a mean over rows is not, nor n times it.

With gᵢ the gradient of row i at the mode, H the curvature of Σᵢ Vᵢ there and the model right

    Σᵢ gᵢ gᵢᵀ ≈ H        (Bartlett's second identity)

A likelihood that is divided by n makes tr(Σ gᵢgᵢᵀ H⁻¹) the number of parameters over n, one that is
multiplied by n makes it n times as large, and one that sums over all rows itself makes it 0, for
its gradient vanishes there.
"""

import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check.brascamp_lieb import prior_curvatures
from ewsg_jax.base.typing import Data
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.rows._view import num_rows
from ewsg_jax.vectors.layout import Layout
from ewsg_jax.vectors.some_rows import BLOCK, SomeRows

ROWS_EACH = 10
"""Rows for each parameter from which on residuals are not made small by the fit."""
INFORMED = 0.1
"""Share of the posterior's curvature that must be the likelihood's, for it to be known."""
ODD = 50.0
"""Times too small or too large from which on it is said: noise that is not the model's makes 10."""


def odd_size(
    posterior: Posterior, layout: Layout, center: np.ndarray, covariance: np.ndarray, data: Data
) -> str:
    """Return that the likelihood's size is odd, in words; nothing where it is not, or not known.

    Args:
        posterior: of which.
        layout: of its positions.
        center: the posterior's mean, shape (d,).
        covariance: of the posterior at temperature 1, shape (d, d).
        data: all n rows.
    """
    d, n = len(center), num_rows(data)
    if isinstance(data, Spread) or n < ROWS_EACH * d:
        return ""
    flat = center.astype(jnp.result_type(jnp.float32, *layout.dtypes))
    # Two places, as where a normal prior is looked for: one program serves both.
    of_prior = np.asarray(prior_curvatures(posterior, layout, np.stack([flat, flat])), np.float64)
    informed = d - float(np.sum(of_prior[0] * covariance))
    if not informed > INFORMED * d:
        return ""
    some = SomeRows.of(posterior, layout, data)
    # Of a sum over rows with random signs gᵀ C g is on average tr(Σ gᵢgᵢᵀ C).
    signed = some.gradients(np.resize(center, (BLOCK, d)), some.signs(BLOCK))[:, 1]
    outer = np.mean(np.sum(signed @ covariance * signed, axis=1))
    ratio = some.stands_for * float(outer) / informed
    if not np.isfinite(ratio) or 1 / ODD <= ratio <= ODD:
        return ""
    why = (
        f"is log_likelihood a mean over rows (1/n is {1 / n:.1g}) or a sum over all of them, or "
        "its noise far larger than the data's?"
        if ratio < 1
        else f"is log_likelihood multiplied (n is {n:,}), or its noise far smaller than the data's?"
    )
    return (
        f"gradients of rows vary by {ratio:.1g} times what the likelihood is curved, in a right "
        f"model about once: {why}"
    )
