"""A picture of a check."""

import os
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ewsg_jax.checking.report import Report


def plot(report: "Report", path: str | os.PathLike[str] | None) -> Any:
    """Draw sd ratios and mean shifts with two standard errors; return the figure."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install 'ewsg_jax[plots]'") from error
    from ewsg_jax.checking.report import flat

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    figure.suptitle(report.verdict, fontsize=9, wrap=True)
    panels = (
        ("sd / target's", flat(report.sd_ratio), flat(report.sd_ratio_error), 1.0, report.tolerance),
        ("mean shift (sd)", flat(report.mean_shift), flat(report.mean_shift_error), 0.0, 2 * report.tolerance),
    )
    for axes, (name, values, errors, right, within) in zip(figure.subplots(1, 2), panels, strict=True):
        order = np.argsort(values)
        axes.axhspan(right - within, right + within, color="0.9")
        axes.axhline(right, color="0.4", linewidth=0.8)
        axes.errorbar(
            np.arange(len(values)), values[order], 2 * errors[order], fmt=".", markersize=3, linewidth=0.7
        )
        axes.set_xlabel("coordinate, in order")
        axes.set_ylabel(name)
    if path is not None:
        figure.savefig(path, dpi=150)
    return figure
