"""`report.html`: what a run estimated, for a reader who knows the columns and not this library.

One file, which needs nothing else: the answer first, in words, a figure and a table; then how the
file was read and what was assumed; the numerical details come last.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np

from ewsg_jax.base import limits
from ewsg_jax.cli.console import Exit
from ewsg_jax.cli.estimates import (
    TermEstimates,
    estimates,
    in_words,
    mean_of,
    of_ratio,
    outcome_of,
    title_of,
)
from ewsg_jax.cli.figures import IntervalLine, intervals
from ewsg_jax.cli.plan import Job, Result
from ewsg_jax.draws.coordinates import with_digits

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;color:#222;max-width:62rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;line-height:1.25}h2{font-size:1.2rem;margin-top:2.2rem}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem}
th,td{padding:.25rem .7rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}
th:first-child,td:first-child,th:nth-child(2),td:nth-child(2){text-align:left}
td:nth-child(2){white-space:normal}.wide{overflow-x:auto}
svg{width:100%;height:auto;font:13px system-ui,sans-serif}.grid{stroke:#e4e4e4}
.none{stroke:#888;stroke-dasharray:4 3}.outer{stroke:#2b6a99;stroke-width:1.5}
.inner{stroke:#2b6a99;stroke-width:5}.median{fill:#fff;stroke:#2b6a99;stroke-width:2}
.label{text-anchor:end}.tick,.axis{text-anchor:middle}.tick{fill:#555}
.yes{border-left:5px solid #3a8f4d}.no{border-left:5px solid #c0392b}
.open{border-left:5px solid #d9a21b}.verdict{padding:.4rem .9rem;background:#f7f7f7}
pre{overflow-x:auto;background:#f7f7f7;padding:.8rem;font-size:.8rem}small{color:#555}
"""


def page(job: Job, result: Result) -> str:
    """Return the page of a run."""
    problem, samples = job.problem, result.samples
    estimated = estimates(problem, np.asarray(samples.finite_draws))
    meaning = estimated.meaning
    heading = f"What goes with {outcome_of(meaning)}"
    rows = problem.train["y"].shape[0]
    body = [
        f"<h1>{escape(heading)}</h1>",
        f"<p>{escape(problem.description[1].removeprefix('source: '))}: {rows:,} rows, "
        f"{len({f.column for f in meaning.features})} columns, one model of all of them together: "
        "each number below is for rows that are alike in all other columns.</p>",
        _verdict(result),
        "<h2>In short</h2>",
        _list(_sentences(estimated)),
        *_figure(estimated),
        "<h2>All numbers, in the units of the file</h2>",
        _table(estimated),
        *_groups(estimated),
        "<h2>How the file was read</h2>",
        _list(escape(line) for line in [problem.description[0], *meaning.words]),
        "<h2>What was assumed</h2>",
        _list(escape(line) for line in problem.description[2 + len(meaning.words) :]),
        "<p><small>An interval of 95 % holds the number with that probability, if the model is "
        "right. These are associations: a model of columns does not know what causes what.</small>"
        "</p>",
        "<h2>Details of the computation</h2>",
        f"<p>{escape(result.judgement.words)}</p>",
        f"<pre>{escape(str(result.plan.method.options['kernel']))}\n"
        f"{samples.num_steps:,} steps of {samples.num_chains} chains\n\n"
        f"{escape(str(estimated.summary))}</pre>",
    ]
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(heading)}'
        '</title><meta name="viewport" content="width=device-width"><style>'
        f"{STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _verdict(result: Result) -> str:
    """Return whether the computation can be relied on, in a sentence."""
    status, percent = result.judgement.status, f"{100 * result.plan.tolerance:.3g} %"
    kind, says = (
        "open",
        (
            "The check of the computation could not rule out errors: take the numbers below as "
            "provisional. The last section says why."
        ),
    )
    if status == Exit.OK and result.plan.deciding_steps:
        kind = "yes"
        says = "The computation was checked: the numbers below are those of the model, with widths "
        says += f"right within {percent}."
    elif status == Exit.WRONG:
        kind = "no"
        says = "The computation FAILED its check: do not use the numbers below. The last section "
        says += "says what was estimated."
    return f'<p class="verdict {kind}">{says}</p>'


def _sentences(estimated: TermEstimates) -> list[str]:
    """Return what the clearest effects are, the clearest first; and how many are not clear."""
    summary = estimated.summary
    features = estimated.of_kind("feature")
    clear = [i for i in features if estimated.interval(i, 95)[0] * estimated.interval(i, 95)[1] > 0]
    clear.sort(key=lambda i: -abs(summary.mean[i]) / summary.sd[i])
    said = [_sentence(estimated, i) for i in clear[:5]]
    if len(clear) > 5:
        said.append(f"{len(clear) - 5} more are as clear in their direction, and in the table.")
    unclear = [escape(estimated.terms[i].name) for i in features if i not in clear]
    if unclear:
        more = f" and {len(unclear) - 12} more" if len(unclear) > 12 else ""
        said.append(
            f"Whether these raise or lower it is not clear (their 95 % intervals hold "
            f"{'1' if estimated.ratio else '0'}): {'; '.join(unclear[:12])}{more}."
        )
    return said


def _sentence(estimated: TermEstimates, i: int) -> str:
    times, meaning = _step(estimated, i), estimated.meaning
    outcome = escape(outcome_of(meaning))
    if class_of := _class(estimated, i):
        outcome += escape(f" = {class_of} (against {meaning.classes[0]})")
    sd, above = times * estimated.summary.sd[i], estimated.summary.mean[i] > 0
    if estimated.ratio:
        middle, low, high = _ratios(estimated, i, times)
        what = "odds" if estimated.ratio == "odds ratio" else mean_of(meaning)
        says = f"multiplies the {what} of {outcome} by {middle}"
        none = "1"
    else:
        middle, low, high = (
            with_digits(end, sd)
            for end in (times * estimated.median(i), *estimated.interval(i, 95, times))
        )
        says, none = f"changes the mean of {outcome} by {middle}", "0"
    probability = estimated.positive[i] if above else 1 - estimated.positive[i]
    sign = f"{'above' if above else 'below'} {none} with probability {in_words(float(probability))}"
    return f"<b>{escape(_label(estimated, i))}</b> {says} (95 % interval {low} to {high}; {sign})."


def _ratios(estimated: TermEstimates, i: int, times: float = 1.0, percent: int = 95) -> list[str]:
    ends = [times * estimated.median(i), *estimated.interval(i, percent, times)]
    with np.errstate(over="ignore"):
        return [of_ratio(float(np.exp(end)), times * estimated.summary.sd[i]) for end in ends]


def _step(estimated: TermEstimates, i: int) -> float:
    """Return how much of a column is compared: a standard deviation, in two digits; of levels 1."""
    spread = estimated.terms[i].spread
    if not spread or math.isnan(spread):
        return 1.0
    return float(f"{spread:.2g}")


def _label(estimated: TermEstimates, i: int) -> str:
    term, meaning = estimated.terms[i], estimated.meaning
    if term.kind != "feature":
        return term.name
    feature = meaning.features[i // max(1, len(meaning.classes) - 1)]
    if feature.level:
        return f"{feature.column} {feature.level}, not {feature.reference}"
    unit = f" {feature.unit}s" * bool(feature.unit)
    return f"{feature.column}, {_step(estimated, i):,.6g}{unit} more"


def _class(estimated: TermEstimates, i: int) -> str:
    """Return the class of a softmax that a term is of; empty for other models."""
    others = estimated.meaning.classes[1:]
    return others[i % len(others)] if estimated.terms[i].against else ""


def _figure(estimated: TermEstimates) -> list[str]:
    features = estimated.of_kind("feature")
    most = 5 * limits.LINES_SHOWN
    if len(features) > most:
        clearest = -np.abs(estimated.summary.mean / estimated.summary.sd)[features]
        features = sorted(np.array(features)[np.argsort(clearest)[:most]].tolist())
    lines = [
        _interval(
            estimated,
            i,
            ": ".join(filter(None, [_label(estimated, i), _class(estimated, i)])),
            _step(estimated, i),
        )
        for i in features
    ]
    axis = _axis(estimated)
    return [
        "<figure>",
        intervals(lines, axis, f"Intervals: {axis}", bool(estimated.ratio)),
        "<figcaption><small>Dot: median. Thick line: 90 % interval; thin line: 95 %. A number is "
        "compared with one that is larger by its standard deviation, so that lines can be compared "
        "with each other.</small></figcaption></figure>",
    ]


def _axis(estimated: TermEstimates) -> str:
    if estimated.ratio:
        of = title_of(estimated.meaning).removeprefix("log odds of ")
        of = of.removeprefix(f"log {mean_of(estimated.meaning)} of ")
        return f"{estimated.ratio} of {of}"
    return f"change of the {title_of(estimated.meaning)}"


def _interval(estimated: TermEstimates, i: int, label: str, times: float = 1.0) -> IntervalLine:
    ends = (estimated.interval(i, percent, times) for percent in (90, 95))
    return IntervalLine(label, times * estimated.median(i), *ends)


def _table(estimated: TermEstimates) -> str:
    """Return a table of ratios, if the model has such, and one of coefficients."""
    header, rows = ["90 % interval", "95 % interval"], []
    ratios: list[list[str]] = []
    for i in estimated.of_kind("feature", "intercept", "scale"):
        term, sd = estimated.terms[i], float(estimated.summary.sd[i])
        sign = "" if term.kind == "scale" else in_words(float(estimated.positive[i]))
        if estimated.ratio and term.kind == "feature":
            middle, *inner = _ratios(estimated, i, percent=90)
            outer = _ratios(estimated, i, percent=95)[1:]
            ends = " to ".join(inner), " to ".join(outer)
            ratios.append([term.name, term.what, middle, *ends, sign])
        ends = (
            " to ".join(with_digits(end, sd) for end in estimated.interval(i, percent))
            for percent in (90, 95)
        )
        mean = with_digits(estimated.summary.mean[i], sd)
        rows.append([term.name, term.what, mean, f"{sd:.4g}", *ends, sign])
    caption = (
        f"Coefficients are changes of the {title_of(estimated.meaning)} for one more of a column."
    )
    parts = [f"<p><small>{escape(caption)}</small></p>"]
    parts.append(
        _html_table(["column", "compares", "coefficient", "sd", *header, "P(above 0)"], rows)
    )
    if ratios:
        names = ["column", "compares", estimated.ratio, *header, "P(above 1)"]
        parts.insert(0, _html_table(names, ratios))
    return "".join(parts)


def _groups(estimated: TermEstimates) -> list[str]:
    groups = estimated.of_kind("group")
    if not groups or estimated.meaning.groups is None:
        return []
    groups.sort(key=estimated.median)
    ends = 2 * limits.LINES_SHOWN
    shown = groups if len(groups) <= 2 * ends else [*groups[:ends], *groups[-ends:]]
    lines = [_interval(estimated, i, estimated.terms[i].name) for i in shown]
    column = estimated.meaning.groups[0]
    few = f" The {ends} lowest and highest of {len(groups):,}." * (len(shown) < len(groups))
    axis = f"{_axis(estimated)}, a {column} against the average {column}"
    return [
        f"<h2>{escape(column)}</h2>",
        f"<p>What is particular to each {escape(column)}, for rows that are alike otherwise.{few}"
        "</p><figure>",
        intervals(lines, axis, f"Intervals: {axis}", bool(estimated.ratio)),
        "</figure>",
    ]


def _list(items: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{item}</li>' for item in items)}</ul>"


def _html_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'
