"""Forecasts against long runs, on real posteriors whose moments are known: `docs/forecast.md`.

    EWSG_JAX_DATA=… python -m benchmarks.pages.forecasts [--only sgld,ewsg] [--posteriors pima]
    [--draw]

Each method runs at a step at which its forecast says that the worst variance is some 10 to 25 %
off. The ratio of the variances of the run and of the reference is compared with the forecast's, at
the parameter where that is furthest from 1. Each run is written to `docs/forecasts.json` as soon as
it is over; it takes some twenty minutes on two cores. `--draw` makes the table and the picture
alone.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from matplotlib.figure import Figure

import ewsg_jax as ewsg
from benchmarks.pages import figures
from benchmarks.pages.generated import as_table, renewed
from benchmarks.pages.posterior_data import PREPARE, rounded
from benchmarks.pages.posterior_problems import Problem, problem
from benchmarks.pages.posterior_settings import METHODS, NUM_STRATA, Setting, settings
from benchmarks.pages.posterior_verdicts import reference

DOCS = Path(__file__).parents[2] / "docs"
PICTURE, NUMBERS, PAGE = DOCS / "forecast.png", DOCS / "forecasts.json", DOCS / "forecast.md"
WITHOUT = ("psgld", "psgld_corrected", "hamcmc", "random_walk_metropolis", "flymc", "ewsg_vr")
"""Methods that have no forecast, or (ewsg_vr) one of a covariance that is exact at every step
alone.
"""
AIM = 0.12
MULTIPLES = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
"""Of the step at which a method is near the posterior: the first at which the forecast says so much
is taken.
"""
NUM_CHAINS, BURN_IN, KEPT = 100, 8.0, 300.0
"""Chains, and the parts of one in the steps over which it forgets."""
JUDGED = (0.01, 0.30)
"""Excesses of the variance found that are judged: below, the reference's own error is too large
beside it.
"""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def parameters(made: Problem, covariance: np.ndarray | None) -> np.ndarray:
    """Return the variances of the model's own parameters, to first order around the mode."""
    assert covariance is not None
    jacobian = np.asarray(jax.jacfwd(made.shifted)(made.center), float)
    return np.diag(jacobian @ covariance @ jacobian.T)


def compare(
    name: str, method: str, made: Problem, mode: ewsg.Mode, setting: Setting
) -> dict[str, Any] | None:
    """Return what a forecast says and what a run finds."""
    data, options = made.data, setting.options
    if options.get("labels") == "stratum":
        data = data | {"stratum": ewsg.cluster(data, NUM_STRATA)}
    told, kernel, seconds = None, None, 0.0
    for multiple in MULTIPLES:
        kernel = METHODS[method](made.posterior, multiple * setting.step_size, **options)
        began = time.perf_counter()
        trial = ewsg.forecast(kernel, mode, data)
        seconds = time.perf_counter() - began
        if not trial.is_stable and told is not None:
            break
        told = trial
        ratio = parameters(made, told.covariance) / parameters(made, told.target)
        worst = int(np.argmax(np.abs(ratio - 1)))
        if not abs(ratio[worst] - 1) < AIM:
            break
    assert told is not None
    if not told.is_stable:
        return None
    kernel = METHODS[method](made.posterior, told.step_size, **options)
    ratio = parameters(made, told.covariance) / parameters(made, told.target)
    worst = int(np.argmax(np.abs(ratio - 1)))
    memory = float(np.max(np.asarray(told.autocorrelation_time)))
    burn_in = round(BURN_IN * memory)
    samples = ewsg.sample(
        jax.random.key(2),
        kernel,
        mode.start,
        data,
        burn_in + round(KEPT * memory),
        num_chains=NUM_CHAINS,
        burn_in=burn_in,
        keep=None,
        moments=ewsg.moments(made.shifted),
        progress=False,
    )
    moments = samples.moments
    assert moments is not None
    means, variances = np.asarray(moments.mean, float), np.asarray(moments.variance, float)
    known = reference(name)
    variance = np.asarray(moments.pooled().variance, float) / known.sd**2
    mean = (means.mean(0) + made.origin - known.mean) / known.sd
    between = variances[:, worst].std(ddof=1) / variances[:, worst].mean() / NUM_CHAINS**0.5
    return {
        "step_size": rounded(told.step_size),
        "told": rounded(ratio[worst] - 1),
        "found": rounded(variance[worst] - 1),
        "error": rounded(np.hypot(between, 2 * known.mcse_sd[worst] / known.sd[worst])),
        "told_median": rounded(np.median(ratio) - 1),
        "found_median": rounded(np.median(variance) - 1),
        "told_mean": rounded(np.max(np.abs(np.asarray(told.mean_shift)))),
        "found_mean": rounded(np.max(np.abs(mean))),
        "memory": rounded(memory),
        "steps": samples.num_steps,
        "lost_chains": int((samples.diverged_at >= 0).sum()),
        "seconds_of_forecast": rounded(seconds),
    }


def load() -> dict[str, dict[str, dict[str, Any]]]:
    """Return what was found, by method and posterior."""
    return json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}


def judged(result: dict[str, dict[str, dict[str, Any]]]) -> list[tuple[float, float, float]]:
    """Return what was told and found, and its error, of all cells whose excess is judged."""
    cells = [cell for row in result.values() for cell in row.values() if cell]
    low, high = JUDGED
    return [(c["told"], c["found"], c["error"]) for c in cells if low <= abs(c["found"]) <= high]


def share_within(
    result: dict[str, dict[str, dict[str, Any]]], part: float, errors: float
) -> tuple[int, int]:
    """Return how many of the judged cells are told to within a part of what was found, and some of
    its errors.
    """
    told = judged(result)
    return sum(abs(t - f) <= part * abs(f) + errors * e for t, f, e in told), len(told)


def table(result: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return the table of the page."""
    rows = []
    for method, row in result.items():
        cells = [
            f"{100 * row[name]['told']:+.1f}, {100 * row[name]['found']:+.1f} ± "
            f"{100 * row[name]['error']:.1f}"
            if row.get(name)
            else "–"
            for name in PREPARE
        ]
        rows.append([f"`{method}`", *cells])
    (strict, count), (quarter, _) = share_within(result, 0.25, 0), share_within(result, 0.25, 2)
    (loose, _), (half, _) = share_within(result, 0.5, 0), share_within(result, 0.5, 2)
    told = (
        f"In {count} cells a bias between {100 * JUDGED[0]:.0f} and {100 * JUDGED[1]:.0f} % "
        f"was measured: {strict} are predicted to within a quarter of it and {loose} to within a "
        f"half; within that and two standard errors of run and reference, {quarter} and {half}."
    )
    return f"{as_table(['method', *PREPARE], rows)}\n\n{told}"


def page(text: str, result: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return the page with its table."""
    return renewed(text, "numbers", "benchmarks/pages/forecasts.py", table(result))


def draw(result: dict[str, dict[str, dict[str, Any]]]) -> Figure:
    """Draw what was found against what was predicted."""
    figure = figures.figure(6.4, 5.6)
    panel = figure.subplots()
    line = np.array([-20.0, 45.0])
    panel.fill_between(line, 0.75 * line, 1.25 * line, color="#dddddd", lw=0)
    panel.plot(line, line, color="#888888", lw=0.8)
    for name, colour in zip(PREPARE, COLOURS, strict=True):
        cells = [row[name] for row in result.values() if row.get(name)]
        told, found, error = (
            100 * np.array([c[key] for c in cells]) for key in ("told", "found", "error")
        )
        panel.errorbar(told, found, error, fmt="o", ms=4, lw=0.8, color=colour, label=name)
    panel.set_xlabel("predicted excess of the variance, %")
    panel.set_ylabel("found, ± a standard error of run and reference, %")
    panel.set_xlim(-20, 45)
    panel.set_ylim(-20, 45)
    panel.legend(frameon=False)
    return figure


def caption(result: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return in one sentence what the picture shows."""
    (quarter, count), (half, _) = share_within(result, 0.25, 2), share_within(result, 0.5, 2)
    return (
        f"Excess of the worst variance, found against predicted: of {count} cells {quarter} are "
        f"predicted to within a quarter of it (the grey wedge) and two standard errors, {half} to "
        "within a half and as much."
    )


def main() -> None:
    """Compare what is asked for."""
    parser = argparse.ArgumentParser(description="Forecasts against long runs.")
    parser.add_argument("--only", default=",".join(name for name in METHODS if name not in WITHOUT))
    parser.add_argument("--posteriors", default=",".join(PREPARE))
    parser.add_argument("--draw", action="store_true")
    asked = parser.parse_args()
    for name in () if asked.draw else asked.posteriors.split(","):
        made = problem(name)
        mode = ewsg.find_mode(
            jax.random.key(0), made.posterior, made.center, made.data, progress=False
        )
        for method in asked.only.split(","):
            setting = settings(made)[method]
            if setting is None:
                continue
            found = compare(name, method, made, mode, setting)
            result = load()
            result.setdefault(method, {})[name] = found or {}
            NUMBERS.write_text(json.dumps(result) + "\n")
            print(f"{method:14} {name:9} {found}", flush=True)
    PAGE.write_text(page(PAGE.read_text(), load()))
    figures.write(draw(load()), PICTURE, caption(load()))


if __name__ == "__main__":
    main()
