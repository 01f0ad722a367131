"""A picture of the runs of a stack: means and widths against what the members differ by."""

import os
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ewsg_jax import pictures
from ewsg_jax.sampling.samples import Samples
from ewsg_jax.sampling.spaced import evenly

MOST_LINES = 8
"""Coordinates that are drawn, evenly spaced."""
WIDE = 10.0
"""The ratio of the largest value to the smallest from which the axis is logarithmic."""


def plot(
    title: str, name: str, values: np.ndarray, runs: Sequence[Samples], path: str | os.PathLike[str] | None
) -> Any:
    """Draw the means and standard deviations of some coordinates, and where members lost chains; return the figure.

    Raises:
        ImportError: matplotlib is not installed.
        TypeError: the path is none.
    """
    figure = pictures.blank(9, 3.6, path)
    figure.suptitle(title, fontsize=8, wrap=True)
    order = np.argsort(values)
    stable = [member for member in order if runs[member].is_finite.all()]
    moments = [_moments(runs[member]) for member in stable]
    panels = figure.subplots(1, 2)
    for panel, part, label in zip(panels, (0, 1), ("mean", "standard deviation"), strict=True):
        if moments:
            panel.plot(values[stable], np.array([each[part] for each in moments]), ".-", linewidth=0.8)
        for member in order:
            if member not in stable:
                panel.axvline(values[member], color="#D55E00", linewidth=0.8)
        panel.set(xlabel=f"{name} (lines: lost chains)" if len(stable) < len(order) else name, ylabel=label)
        if values.min() > 0 and values.max() > WIDE * values.min():
            panel.set_xscale("log")
    panels[1].set_yscale("log")
    return pictures.keep(figure, path)


def _moments(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Return means and standard deviations of some coordinates, shape (coordinate,) each."""
    draws = [
        np.asarray(x, np.float64).reshape(-1, int(np.prod(x.shape[2:]))) for x in jax.tree.leaves(samples.draws)
    ]
    whole = np.concatenate(draws, axis=1)
    some = whole[:, evenly(whole.shape[1], MOST_LINES)]
    return some.mean(0), some.std(0)
