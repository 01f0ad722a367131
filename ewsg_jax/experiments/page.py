"""The report of a run as one page of HTML with its figures inside, for any browser."""

import base64
import html
import io
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ewsg_jax import pictures
from ewsg_jax.experiments.config import REFERENCE
from ewsg_jax.experiments.plan import Job, Result

MOST_COORDINATES, MOST_CHAINS = 8, 2
"""Weights that are drawn, and chains of a run over time."""
STYLE = """\
body { margin: 0 auto; padding: 1rem; max-width: 76rem; font: 1rem/1.5 system-ui, sans-serif;
  color-scheme: light dark; }
.answer p:first-of-type { font-weight: 600; }
img { max-width: 100%; background: #fff; }
pre { overflow-x: auto; font-size: 0.8rem; }"""


def page(job: Job, results: Sequence[Result], said: Sequence[str], report: str) -> str:
    """Return the page, which begins with what is said in answer; `report` is `report.txt`.

    Without matplotlib it says so in the place of figures.
    """
    title = html.escape(job.title)
    return f"""\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{STYLE}</style></head><body>
<h1>{title}</h1><div class="answer">{_lines(said)}</div>
{_lines(job.answer)}
<pre>{html.escape(report)}</pre>
{_figures([result for result in results if result.summary is not None])}
<pre>{html.escape(job.config)}</pre></body></html>
"""


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"<p>{html.escape(line)}</p>" for line in lines)


def _figures(results: Sequence[Result]) -> str:
    if not results:
        return ""
    try:
        drawn = {words: draw(results) for words, draw in FIGURES.items()}
    except ImportError as error:
        return _lines([f"No figures: {error}"])
    return "".join(
        f'<figure><figcaption>{words}</figcaption><img alt="{words}" src="{_address(figure)}">'
        "</figure>"
        for words, figure in drawn.items()
        if figure is not None
    )


def _address(figure: Any) -> str:
    """Return a figure as an address that holds it, so that the page is one file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


def weights(results: Sequence[Result]) -> Any:
    """Draw densities and chains of the weights of largest |mean| / sd, all runs in a panel."""
    places = _clearest(results)
    figure = pictures.blank(12, 1.8 * len(places))
    for (density, trace), (place, name) in zip(
        figure.subplots(len(places), 2, squeeze=False), places.items(), strict=True
    ):
        density.set_title(name, fontsize=8)
        for i, result in enumerate(results):
            draws, colour = _flat(result)[..., place], f"C{i % 10}"
            style = {"color": colour, "label": result.plan.label}
            values = draws[np.isfinite(draws)]
            if not values.size:
                continue
            density.hist(values, 40, density=True, histtype="step", **style)
            trace.plot(_passes(result), draws[:MOST_CHAINS].T, color=colour, linewidth=0.5)
    figure.axes[0].legend(fontsize=7)
    return figure


def held_out(results: Sequence[Result]) -> Any:
    """Draw held-out log likelihood and accuracy of all draws so far, and faintly of each draw;
    nothing where no rows are held out.
    """
    results = [result for result in results if result.trajectory is not None]
    if not results:
        return None
    figure = pictures.blank(12, 3.5)
    for axes, name in zip(figure.subplots(1, 2), ("log_likelihood", "accuracy"), strict=True):
        axes.set_title(name.replace("_", " "), fontsize=8)
        for i, result in enumerate(results):
            colour = f"C{i % 10}"
            running, one = (
                getattr(result.trajectory, f"{which}_{name}") for which in ("running", "ensemble")
            )
            # The reference makes more passes: what it comes to is what counts.
            if result.plan.label == REFERENCE:
                axes.axhline(running[-1], color=colour, linestyle="--", label=REFERENCE)
                continue
            axes.plot(_passes(result), running, color=colour, label=result.plan.label)
            axes.plot(_passes(result), one, color=colour, linewidth=0.5, alpha=0.6)
        axes.legend(fontsize=7)
    return figure


FIGURES: dict[str, Callable[[Sequence[Result]], Any]] = {
    "The weights with the largest mean beside their sd: posterior densities, and chains against "
    "passes over the data": weights,
    "Held-out rows against passes. Bold: the mean prediction of all draws so far; faint: of this "
    "draw of all chains": held_out,
}
"""What is drawn, by its caption."""


def _flat(result: Result) -> np.ndarray:
    """Return the draws of chains that did not diverge, shape (chain, draw, coordinate)."""
    position = np.asarray(result.samples.finite_draws)
    return position.reshape(*position.shape[:2], math.prod(position.shape[2:]))


def _passes(result: Result) -> np.ndarray:
    return result.samples.evaluations / result.samples.num_data


def _clearest(results: Sequence[Result]) -> dict[int, str]:
    """Return the coordinates of largest |mean| / sd in the first run, in their own order, with
    their names.
    """
    summary = results[0].summary
    assert summary is not None
    with np.errstate(all="ignore"):
        clear = np.nan_to_num(np.abs(summary.mean) / summary.sd, nan=0.0, posinf=0.0)
    places = sorted(np.argsort(-clear, kind="stable")[:MOST_COORDINATES].tolist())
    return {place: summary.names[place] for place in places}
