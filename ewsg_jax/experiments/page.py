"""The report of a run as one page of HTML, with its figures inside: for a browser, on a telephone
too, light or dark.
"""

import html
from collections.abc import Sequence

import ewsg_jax as ewsg
from ewsg_jax.experiments import answer, figures
from ewsg_jax.experiments.figures import NUM_COLOURS, Panel, svg
from ewsg_jax.experiments.plan import Job, Result
from ewsg_jax.experiments.problem import Regression
from ewsg_jax.experiments.report import LEGEND, cells
from ewsg_jax.experiments.results import versions

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1a1a1a; --soft: #595959; --line: #d0d0d0;
  --0: #0067a6; --1: #c25400; --2: #00805d; --3: #b0568c; --4: #946200; --5: #2b7fa8; --6: #333; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e6e6e6; --soft: #a8a8a8;
  --line: #40464c; --0: #56b4e9; --1: #ff9a4d; --2: #2fc79a; --3: #e39ac6; --4: #e8b93c;
  --5: #8fd0f5; --6: #ddd; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--back);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.4rem; line-height: 1.25; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.answer p { margin: 0.4rem 0; } .answer p:first-of-type { font-weight: 600; }
.scroll { overflow-x: auto; } p, pre { max-width: 100%; }
table { border-collapse: separate; border-spacing: 0;
  font-variant-numeric: tabular-nums; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.6rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0;
  background: var(--back); }
.soft, figcaption { color: var(--soft); font-size: 0.85rem; }
figure { margin: 1rem 0; }
.panels { display: grid; gap: 0.5rem;
  grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); }
svg { width: 100%; height: auto; max-width: 26rem; font: 11px system-ui, sans-serif; }
svg text { fill: var(--soft); } svg .title { fill: var(--text); font-size: 12px; }
svg .x { text-anchor: middle; } svg .y { text-anchor: end; }
svg .frame, svg .tick { fill: none; stroke: var(--line); }
svg polyline { fill: none; stroke-width: 1.5; stroke-linejoin: round; }
svg .faint { stroke-width: 0.7; opacity: 0.65; } svg .dashed { stroke-dasharray: 5 4; }
.key { display: inline-block; width: 1.2em; height: 0.25em; margin: 0 0.35em 0.25em 0.8em; }
.keys span { white-space: nowrap; }
pre { overflow-x: auto; font-size: 0.8rem; }
summary { cursor: pointer; margin-top: 1rem; font-weight: 600; }
""" + "".join(
    f".c{i} {{ stroke: var(--{i}); }} .k{i} {{ background: var(--{i}); }}\n"
    for i in range(NUM_COLOURS)
)
CAPTIONS = {
    figures.marginals: "Posterior densities of the weights with the largest mean beside their sd",
    figures.traces: "Chains against passes over the data, of the first of these weights",
    figures.held_out: "Held-out rows. Bold: the mean prediction of all draws so far; faint: of "
    "this draw of all chains",
}


def page(job: Job, results: Sequence[Result], said: Sequence[str], report: str) -> str:
    """Return the page, which begins with what is said in answer; `report` is `report.txt`."""
    drawn = [result for result in results if result.summary is not None]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(job.title)}</title><style>{STYLE}</style></head><body>",
        f'<h1>{html.escape(job.title)}</h1><div class="answer">{_lines(said)}</div>',
    ]
    if drawn:
        parts.append("<h2>Runs</h2>" + _table(_overview(drawn)))
        if job.problem.test is not None:
            parts.append(f'<p class="soft">{html.escape(LEGEND)}</p>')
        parts += [_weights(job.problem, result, len(drawn) == 1) for result in drawn]
        parts += [_figure(draw(drawn), words, drawn) for draw, words in CAPTIONS.items()]
    parts.append("<h2>What was sampled</h2>" + _lines([*job.problem.description, *job.answer]))
    with_versions = ", ".join(f"{name} {version}" for name, version in versions().items())
    parts += [
        _folded("The whole report", _pre(report)),
        _folded("The configuration", _pre(job.config)),
        f'<p class="soft">{with_versions}</p></body></html>',
    ]
    return "\n".join(filter(None, parts)) + "\n"


def _overview(results: Sequence[Result]) -> list[list[str]]:
    """Return a table of all runs: what the check says, and numbers."""
    header, *rows = cells(results)
    said = [
        each.check.outcome if isinstance(each.check, ewsg.Report) else "unknown" for each in results
    ]
    return [
        [header[0], "check", *header[1:]],
        *([row[0], of, *row[1:]] for row, of in zip(rows, said, strict=True)),
    ]


def _weights(problem: Regression, result: Result, is_alone: bool) -> str:
    """Return a table of the weights of a run, and what its check says."""
    summary = result.summary
    assert summary is not None
    rows = answer.rows_of(problem, result.samples.finite_draws)
    by_name = dict(zip(summary.names, range(len(summary.names)), strict=True))
    table = [[*rows[0], "R-hat", "ESS", "MCSE"]]
    for row in rows[1:]:
        i = by_name.get(row[0])
        numbers = ["", "", ""]
        if i is not None:
            numbers = [
                f"{summary.rhat[i]:.3f}",
                f"{summary.ess_bulk[i]:,.0f}",
                f"{summary.mcse[i]:.2g}",
            ]
        table.append([*row, *numbers])
    called = "" if is_alone else f": {html.escape(result.plan.label)}"
    shown = _folded(f"Weights{called}", _table(table), is_alone)
    check = answer.for_terminals(str(result.check)) if isinstance(result.check, ewsg.Report) else ""
    return shown + (_folded(f"The check{called}", _pre(check)) if check else "")


def _lines(lines: Sequence[str]) -> str:
    return "".join(f"<p>{html.escape(line)}</p>" for line in lines)


def _table(rows: Sequence[Sequence[str]]) -> str:
    def line(row: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in row) + "</tr>"

    body = "".join(line(row, "td") for row in rows[1:])
    return f'<div class="scroll"><table>{line(rows[0], "th")}{body}</table></div>'


def _figure(panels: Sequence[Panel], words: str, results: Sequence[Result]) -> str:
    if not panels:
        return ""
    labels = [result.plan.label for result in results]
    keys = "".join(
        f'<span><span class="key k{i % NUM_COLOURS}"></span>{html.escape(label)}</span> '
        for i, label in enumerate(labels)
    )
    drawn = "".join(svg(panel, labels) for panel in panels)
    shown = f'<span class="keys">{keys}</span>' if len(labels) > 1 else ""
    caption = f"<figcaption>{words}. {shown}</figcaption>"
    return f'<figure>{caption}<div class="panels">{drawn}</div></figure>'


def _folded(title: str, content: str, is_open: bool = False) -> str:
    return f"<details{' open' * is_open}><summary>{title}</summary>{content}</details>"


def _pre(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"
