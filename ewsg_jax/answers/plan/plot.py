"""A picture of a plan: what each candidate costs, and how far off it is."""

import os
from typing import Any

import numpy as np

from ewsg_jax.answers.plan.run_size import Candidate
from ewsg_jax.base import pictures


def plot(
    title: str,
    candidates: tuple[Candidate, ...],
    ess: float,
    tolerance: float,
    path: str | os.PathLike[str] | None,
) -> Any:
    """Draw passes and errors of all candidates that have any; return the figure.

    Raises:
        ImportError: matplotlib is not installed.
        TypeError: the path is not a file path.
    """
    shown = [each for each in candidates if each.batch_size][::-1]
    figure = pictures.blank(9, 1.2 + 0.22 * max(1, len(shown)), path)
    left, right = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(shown))
    fits = [not each.why_not for each in shown]
    colours = ["#0072B2" if fit else "#BBBBBB" for fit in fits]
    left.barh(places, [each.passes for each in shown], color=colours)
    left.set(xscale="log", xlabel=f"passes for {ess:,.0f} effective draws", yticks=places)
    left.set_yticklabels([str(each.way) for each in shown], fontsize=7)
    right.barh(places, [100 * min(each.sd_error, 1.0) for each in shown], color=colours)
    right.axvline(50 * tolerance, color="black", linewidth=0.8)
    right.set(xlabel="sds off by at most (%)")
    figure.suptitle(title, fontsize=8, wrap=True)
    return pictures.keep(figure, path)
