"""A figure of a plan: the cost and the predicted error of each candidate."""

import os
from typing import Any

import numpy as np

from ewsg_jax.answers.plan.candidates import CandidateForecast
from ewsg_jax.base import pictures


def plot(
    title: str,
    forecasts: tuple[CandidateForecast, ...],
    ess: float,
    tolerance: float,
    path: str | os.PathLike[str] | None,
) -> Any:
    """Draw passes and errors of all candidates that have any; return the matplotlib figure.

    Args:
        title: the figure's title.
        forecasts: the table of a plan.
        ess: the effective draws for which passes are shown.
        tolerance: the largest relative error of a standard deviation; half of it is drawn.
        path: the image file to write; None for none.

    Raises:
        ImportError: matplotlib is not installed.
        TypeError: the path is not a file path.
    """
    shown = [forecast for forecast in forecasts if forecast.batch_size][::-1]
    figure = pictures.blank(9, 1.2 + 0.22 * max(1, len(shown)), path)
    left, right = figure.subplots(1, 2, sharey=True)
    places = np.arange(len(shown))
    colours = ["#BBBBBB" if forecast.why_not else "#0072B2" for forecast in shown]
    left.barh(places, [forecast.passes for forecast in shown], color=colours)
    left.set(xscale="log", xlabel=f"passes for {ess:,.0f} effective draws", yticks=places)
    left.set_yticklabels([str(forecast.candidate) for forecast in shown], fontsize=7)
    errors = [100 * min(forecast.sd_error, 1.0) for forecast in shown]
    right.barh(places, errors, color=colours)
    right.axvline(50 * tolerance, color="black", linewidth=0.8)
    right.set(xlabel="largest error of an sd (%)")
    figure.suptitle(title, fontsize=8, wrap=True)
    return pictures.keep(figure, path)
