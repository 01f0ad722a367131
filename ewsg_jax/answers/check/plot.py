"""A picture of a check."""

import os
from typing import Any, NamedTuple

import numpy as np

from ewsg_jax.base import pictures


class Panel(NamedTuple):
    """A number of each coordinate, which is drawn with its error.

    Attributes:
        name: the label of the axis.
        values: the numbers, shape (d,).
        errors: their standard errors, shape (d,).
        right: the value that they should have.
        within: the largest difference from it that is within tolerance.
    """

    name: str
    values: np.ndarray
    errors: np.ndarray
    right: float
    within: float


def plot(title: str, panels: list[Panel], path: str | os.PathLike[str] | None) -> Any:
    """Draw coordinates in order, with two standard errors; return the figure.

    Raises:
        ImportError: matplotlib is not installed.
        TypeError: the path is not a file path.
    """
    figure = pictures.blank(4.5 * len(panels), 3.6, path)
    # Names of coordinates are the user's, and a dollar sign in them begins no formula.
    # `parse_math=False` has no effect on a title that is wrapped.
    figure.suptitle(title.replace("$", r"\$"), fontsize=9, wrap=True)
    for axes, panel in zip(figure.subplots(1, len(panels)), panels, strict=True):
        order = np.argsort(panel.values)
        axes.axhspan(panel.right - panel.within, panel.right + panel.within, color="0.9")
        axes.axhline(panel.right, color="0.4", linewidth=0.8)
        axes.errorbar(
            np.arange(len(order)),
            panel.values[order],
            2 * panel.errors[order],
            fmt=".",
            linewidth=0.7,
        )
        axes.set_xlabel("coordinate, in order")
        axes.set_ylabel(panel.name)
    return pictures.keep(figure, path)
