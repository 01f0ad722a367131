"""The figures of an experiment."""

from typing import Any

import numpy as np

from ewsg_jax import optional, pictures
from ewsg_jax.experiments.config import Experiment
from ewsg_jax.experiments.logistic import REFERENCE, Result

INK = "#333333"
MOST_TRACES = 4
MOST_MARGINALS = 12
MOST_CHAINS = 4


def require_matplotlib(needed_by: str) -> None:
    """Refuse to begin where matplotlib is not installed.

    Args:
        needed_by: the command, for the message.

    Raises:
        ImportError: matplotlib is not installed.
    """
    optional.module("matplotlib.figure", needed_by, extra="run")


def traces(experiment: Experiment, results: list[Result]) -> bytes:
    """Chains against passes over the data: a row for each coordinate, a column for each method."""
    shown = _clearest(results, MOST_TRACES)
    figure = pictures.blank(1 + 3.4 * len(results), 0.9 + 1.5 * len(shown))
    axes = figure.subplots(len(shown), len(results), squeeze=False, sharey="row")
    for column, result in enumerate(results):
        draws = result.samples.position
        passes = result.samples.evaluations / result.samples.num_data
        colour = _colour(results, column)
        for row, place in enumerate(shown):
            axis = axes[row, column]
            for chain in range(min(MOST_CHAINS, len(draws))):
                alpha = 0.9 - 0.6 * chain / MOST_CHAINS
                axis.plot(passes, draws[chain, :, place], color=colour, linewidth=0.5, alpha=alpha)
            if row == 0:
                axis.set_title(result.plan.label, color=colour, fontweight="bold")
            if row == len(shown) - 1:
                axis.set_xlabel("passes over the data")
            if column == 0:
                axis.set_ylabel(_wrapped(_names(results)[place]))
    count = min(MOST_CHAINS, results[0].samples.num_chains)
    figure.suptitle(f"{experiment.title}: weights along {count} chains")
    return _png(figure)


def marginals(experiment: Experiment, results: list[Result]) -> bytes:
    """Densities of the weights, all methods in one panel for each coordinate."""
    shown = _clearest(results, MOST_MARGINALS)
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    figure = pictures.blank(3 * columns, 1.1 + 2 * rows)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, place in zip(axes, shown, strict=False):
        all_draws = [result.samples.position[:, :, place].ravel() for result in results]
        finite = [draws[np.isfinite(draws)] for draws in all_draws]
        edges = np.linspace(*_range(np.concatenate(finite)), 41)
        for number, (result, draws) in enumerate(zip(results, finite, strict=True)):
            heights, _ = np.histogram(draws, edges)
            density = heights / max(len(draws), 1) / np.diff(edges)
            style: dict[str, Any] = {"color": _colour(results, number), "label": result.plan.label}
            if result.plan.label == REFERENCE:
                axis.stairs(density, edges, fill=True, alpha=0.25, **style)
            else:
                axis.stairs(density, edges, linewidth=1.4, **style)
        axis.set_title(_wrapped(_names(results)[place]), fontsize=9)
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
    for axis in axes[len(shown) :]:
        axis.set_visible(False)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(results), frameon=False)
    total = len(_names(results))
    which = f" ({len(shown)} of {total}, the largest mean/sd)" if total > len(shown) else ""
    figure.suptitle(f"{experiment.title}: densities of the weights{which}")
    return _png(figure)


def held_out(experiment: Experiment, results: list[Result]) -> bytes:
    """Held-out log likelihood and accuracy against passes over the data."""
    figure = pictures.blank(10, 4.2)
    left, right = figure.subplots(1, 2)
    for number, result in enumerate(results):
        path = result.trajectory
        if path is None or result.plan.label == REFERENCE:
            continue
        colour = _colour(results, number)
        for axis, running, ensemble, factor in (
            (left, path.running_log_likelihood, path.ensemble_log_likelihood, 1),
            (right, path.running_accuracy, path.ensemble_accuracy, 100),
        ):
            axis.plot(path.data_passes, factor * ensemble, color=colour, linewidth=0.8, alpha=0.35)
            axis.plot(path.data_passes, factor * running, color=colour, linewidth=2, label=result.plan.label)
        told = None if result.plan.method is None else result.plan.method.published
        if told is not None:
            for axis, value in ((left, told.log_likelihood), (right, told.accuracy)):
                axis.axhline(value, color=colour, linestyle=":", linewidth=1.2)
    reference = next((r for r in results if r.plan.label == REFERENCE and r.trajectory is not None), None)
    if reference is not None and reference.trajectory is not None:
        path = reference.trajectory
        style: dict[str, Any] = {"color": INK, "linestyle": "--", "linewidth": 1.2}
        left.axhline(path.running_log_likelihood[-1], label=REFERENCE, **style)
        right.axhline(100 * path.running_accuracy[-1], **style)
    left.set_ylabel("held-out log likelihood, mean over rows")
    right.set_ylabel("held-out accuracy (%)")
    for axis in (left, right):
        axis.set_xlabel("passes over the data")
    dotted = any(r.plan.method is not None and r.plan.method.published is not None for r in results)
    left.legend(loc="best", frameon=False)
    meaning = "thick: mean prediction of all draws so far; thin: of this draw of all chains"
    figure.suptitle(f"{experiment.title}\n{meaning}{'; dotted: published' if dotted else ''}", fontsize=10)
    return _png(figure)


def _png(figure: Any) -> bytes:
    for axis in figure.axes:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
        axis.margins(x=0.01)
    return pictures.png(figure)


def _colour(results: list[Result], number: int) -> str:
    if results[number].plan.label == REFERENCE:
        return INK
    before = sum(result.plan.label != REFERENCE for result in results[:number])
    return pictures.COLOURS[before % len(pictures.COLOURS)]


def _names(results: list[Result]) -> tuple[str, ...]:
    summary = results[0].summary
    assert summary is not None
    return summary.names


def _clearest(results: list[Result], count: int) -> list[int]:
    """The coordinates of largest |mean| / sd in the first run, in their own order."""
    summary = results[0].summary
    assert summary is not None
    with np.errstate(all="ignore"):
        clear = np.nan_to_num(np.abs(summary.mean) / summary.sd, nan=0.0, posinf=0.0)
    return sorted(np.argsort(-clear, kind="stable")[:count].tolist())


def _range(values: np.ndarray) -> tuple[float, float]:
    if not values.size:
        return 0.0, 1.0
    low, high = np.quantile(values, [0.002, 0.998])
    return (float(low), float(high)) if high > low else (float(low) - 0.5, float(low) + 0.5)


def _wrapped(name: str) -> str:
    """A long name in two lines."""
    if len(name) <= 18 or "_" not in name:
        return name
    middle = len(name) // 2
    breaks = [i for i, letter in enumerate(name) if letter == "_"]
    at = min(breaks, key=lambda i: abs(i - middle))
    return f"{name[: at + 1]}\n{name[at + 1 :]}"
