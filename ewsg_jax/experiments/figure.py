"""A figure of the draws of all runs."""

import io
import math
from collections.abc import Sequence

import numpy as np

from ewsg_jax import pictures
from ewsg_jax.experiments.plan import Result

MOST_WEIGHTS, MOST_CHAINS = 8, 2
"""Weights that are drawn, and chains of a run."""


def png(results: Sequence[Result]) -> bytes:
    """Return densities, and chains against passes over the data, of the weights of largest
    |mean| / sd in the first run: a row of panels each, a colour for each run.

    Raises:
        ImportError: matplotlib is not installed.
    """
    summary = results[0].summary
    assert summary is not None
    with np.errstate(all="ignore"):
        clear = np.nan_to_num(np.abs(summary.mean) / summary.sd, nan=0.0, posinf=0.0)
    places = sorted(np.argsort(-clear, kind="stable")[:MOST_WEIGHTS].tolist())
    figure = pictures.blank(12, 1.8 * len(places))
    panels = figure.subplots(len(places), 2, squeeze=False)
    for (density, trace), place in zip(panels, places, strict=True):
        density.set_title(summary.names[place], fontsize=8)
        for i, result in enumerate(results):
            position = np.asarray(result.samples.finite_draws)
            shape = (*position.shape[:2], math.prod(position.shape[2:]))
            draws = position.reshape(shape)[..., place]
            values = draws[np.isfinite(draws)]
            if values.size:
                style = {"color": f"C{i % 10}", "label": result.plan.label}
                density.hist(values, 40, density=True, histtype="step", **style)
                passes = result.samples.evaluations / result.samples.num_data
                trace.plot(passes, draws[:MOST_CHAINS].T, color=f"C{i % 10}", linewidth=0.5)
    panels[0, 0].legend(fontsize=7)
    panels[-1, 1].set_xlabel("passes over the data")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()
