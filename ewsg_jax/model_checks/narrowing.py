"""A prior that narrows along a search: its density grows without bound as a shared scale falls."""

import numpy as np

from ewsg_jax.hierarchy.effects import MIN_EFFECTS
from ewsg_jax.model_checks.prior_derivatives import prior_derivatives
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.vectors.layout import Layout

NARROWING = 3.0
"""Ratio of widths from which a coordinate has narrowed: by hand. With the scale fixed none does."""


def narrowed(posterior: Posterior, layout: Layout, begin: np.ndarray, end: np.ndarray) -> str:
    """Return how many coordinates the prior holds closer at the end of a search, and the cure;
    nothing if it does not.

    Args:
        posterior: the model.
        layout: how d numbers are a position.
        begin: the start of the search, shape (d,).
        end: its end, shape (d,).
    """
    dtype = np.result_type(np.float32, *layout.dtypes)
    # A scale of e⁻¹⁸⁰ overflows: then a place before the end shows the same.
    part = np.array([0.0, *2.0 ** -np.arange(0, 10, 2)])
    points = begin + part[:, None] * (end - begin)
    _, hessians = prior_derivatives(posterior, layout, points.astype(dtype))
    precisions = np.einsum("kjj->kj", np.asarray(hessians, np.float64))
    is_finite = np.isfinite(precisions).all(1)
    if not is_finite[0] or not is_finite[1:].any():
        return ""
    at_begin, at_end = precisions[0], precisions[1:][is_finite[1:]][0]
    is_curved = (at_begin > 0) & (at_end > 0)
    ratios = np.sqrt(at_end[is_curved] / at_begin[is_curved])
    count = np.sum(ratios > NARROWING)
    if count < MIN_EFFECTS:
        return ""
    return (
        f"log_prior has no bound: on the way the prior widths of {count} coordinates fell by a "
        f"factor of {np.median(ratios[ratios > NARROWING]):.2g}, as they do if effects share a "
        "scale that goes to 0. Write them not centred: a position z with a prior of scale 1, and "
        "effect = mean + scale * z in log_likelihood"
    )
