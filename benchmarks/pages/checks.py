"""The check of draws against what is known: `docs/check_measured.md`.

    EWSG_JAX_DATA=… python -m benchmarks.pages.checks [--posteriors pima] [--draw]

Runs on real posteriors whose moments are known: at steps at which they are too hot, one that is
right, and the Gaussian at the mode; what the check says of each, and how far raw and corrected
moments are off. Then its false alarms, and how often an sd that is 10 % off is found, on a
conjugate model. Written to `docs/check.json`; some three minutes on two cores. `--draw` makes the
table and the picture alone.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import ewsg_jax as ewsg
from benchmarks.pages import figures
from benchmarks.pages.generated import as_table, renewed
from benchmarks.pages.posterior_data import PREPARE, rounded
from benchmarks.pages.posterior_problems import Problem, problem
from benchmarks.pages.posterior_settings import METHODS, settings
from benchmarks.pages.posterior_verdicts import reference

DOCS = Path(__file__).parents[2] / "docs"
PICTURE, NUMBERS, PAGE = DOCS / "check.png", DOCS / "check.json", DOCS / "check_measured.md"
HOT = ("sgld", "sghmc", "ld")
KINDS = (*HOT, "uld", "normal approximation")
COLOURS = dict(zip(KINDS, ("#D55E00", "#E69F00", "#CC79A7", "#009E73", "#0072B2"), strict=True))
AIM = 0.5
"""Excess of the worst variance that a hot run is told to have: its sds are some 20 % too wide."""
NUM_CHAINS, BURN_IN, MEMORIES, DRAWS = 8, 8.0, 250.0, 500
"""Chains; burn-in and steps of each in the steps over which it forgets; draws kept of each, at
most.
"""
CALIBRATED, OFF = 100, 1.1


def hot(made: Problem, mode: ewsg.Mode, method: str) -> tuple[ewsg.Kernel, float]:
    """Return a kernel at the first of growing steps that is told to be so hot, and its memory."""
    setting = settings(made)[method]
    assert setting is not None
    step = setting.step_size
    kernel = METHODS[method](made.posterior, step, **setting.options)
    told = ewsg.forecast(kernel, mode, made.data)
    while told.direction_ratios[1] < 1 + AIM:
        step *= 1.3
        trial_kernel = METHODS[method](made.posterior, step, **setting.options)
        trial = ewsg.forecast(trial_kernel, mode, made.data)
        if not trial.is_stable:
            break
        kernel, told = trial_kernel, trial
    return kernel, float(np.max(np.asarray(told.autocorrelation_time)))


def draws_of(kind: str, made: Problem, mode: ewsg.Mode) -> Any:
    """Return draws to be checked."""
    if kind == "normal approximation":
        keys = jax.random.split(jax.random.key(3), (NUM_CHAINS, DRAWS))
        return jax.vmap(jax.vmap(lambda key: mode.start(key, 1.0)))(keys)
    if kind == "uld":
        kernel: Any = ewsg.uld(made.posterior, 0.1, friction=2.0, integrator="splitting")
        memory = 20.0
    else:
        kernel, memory = hot(made, mode, kind)
    burn_in, steps = round(BURN_IN * memory), round(MEMORIES * memory)
    return ewsg.sample(
        jax.random.key(2),
        kernel,
        mode.start,
        made.data,
        burn_in + steps,
        num_chains=NUM_CHAINS,
        burn_in=burn_in,
        thin=max(1, steps // DRAWS),
        progress=False,
    )


def compare(name: str, kind: str, made: Problem, mode: ewsg.Mode) -> dict[str, Any]:
    """Return what the check says of draws, and how far off moments are, in the model's own
    parameters.
    """
    samples = draws_of(kind, made, mode)
    began = time.perf_counter()
    report = ewsg.check(jax.random.key(4), samples, made.posterior, made.data)
    seconds = time.perf_counter() - began
    known, origin = reference(name), made.origin
    positions = samples.position if isinstance(samples, ewsg.Samples) else samples
    values = np.asarray(jax.vmap(jax.vmap(made.shifted))(jnp.asarray(positions)), float).reshape(
        -1, len(origin)
    )

    def off(center: np.ndarray, sd: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.abs(center + origin - known.mean) / known.sd, np.abs(sd / known.sd - 1)

    raw, corrected = off(values.mean(0), values.std(0)), None
    if report.corrected is not None:
        (mean, square), _ = report.expectation(lambda u: (made.shifted(u), made.shifted(u) ** 2))
        mean, square = np.asarray(mean, float), np.asarray(square, float)
        corrected = off(mean, np.sqrt(np.maximum(square - mean**2, 0.0)))
    return {
        "raw_mean": rounded(raw[0].max()),
        "raw_sd": rounded(raw[1].max()),
        "corrected_mean": None if corrected is None else rounded(corrected[0].max()),
        "corrected_sd": None if corrected is None else rounded(corrected[1].max()),
        "not_corrected": report.not_corrected,
        "outcome": report.outcome,
        "verdict": report.verdict,
        "ess": round(report.scores.ess),
        "seconds": rounded(seconds),
    }


def calibrate(d: int, off: float) -> dict[str, Any]:
    """Return how often draws of a conjugate posterior are called wrong, one sd of which is so much
    off.
    """
    rng = np.random.default_rng(d)
    x = rng.standard_normal((200, d)) @ rng.standard_normal((d, d))
    data = {
        "x": jnp.asarray(x),
        "y": jnp.asarray(x @ rng.standard_normal(d) + rng.standard_normal(200)),
    }
    model = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=1.0)
    covariance = np.linalg.inv(x.T @ x + np.eye(d))
    mean = covariance @ x.T @ np.asarray(data["y"], float)
    root, wider = np.linalg.cholesky(covariance), np.ones(d)
    wider[0] = off
    outcomes, seen, ess = [], [], []
    for number in range(CALIBRATED):
        # 1,000 effective draws of chains that forget exponentially.
        noise = rng.standard_normal((500, 8, d)) * 0.8
        here = rng.standard_normal((8, d))
        chains = []
        for step in noise:
            here = 0.6 * here + step
            chains.append(here * wider)
        draws = mean + np.stack(chains, axis=1) @ root.T
        report = ewsg.check(jax.random.key(number), draws.astype(np.float32), model, data)
        outcomes.append(report.outcome)
        seen.append(any(score.z > report.scores.bound for score in report.scores.worst.values()))
        ess.append(report.scores.ess)
    return {
        "d": d,
        "off": off,
        "runs": CALIBRATED,
        "wrong": outcomes.count("wrong"),
        "seen": int(np.sum(seen)),
        "ess": round(float(np.mean(ess))),
    }


def table(result: dict[str, Any]) -> str:
    """Return the tables of the page."""
    rows = []
    for kind in KINDS:
        cells = []
        for name in PREPARE:
            cell = result["cells"][kind][name]
            corrected = "not corrected"
            if cell["corrected_mean"] is not None:
                corrected = f"{cell['corrected_mean']:.2g}, {100 * cell['corrected_sd']:.2g} %"
            cells.append(
                f"{cell['outcome']}: {cell['raw_mean']:.2g}, {100 * cell['raw_sd']:.2g} % → "
                f"{corrected}"
            )
        rows.append([f"`{kind}`" if kind in ewsg.METHODS else kind, *cells])
    means, sds, count = gains(result)
    told = (
        f"In the {count} cells whose raw sds are 10 to 40 % off, corrected sds are {sds:.1f} times "
        f"nearer and means {means:.1f} times (medians)."
    )
    heads = ["d", "one sd off by", "runs", "seen beyond Monte Carlo error", "called wrong", "ESS"]
    calibrated = (
        [
            row["d"],
            f"{100 * (row['off'] - 1):.0f} %",
            *(row[name] for name in ("runs", "seen", "wrong", "ess")),
        ]
        for row in result["calibration"]
    )
    return "\n\n".join([as_table(["draws", *PREPARE], rows), told, as_table(heads, calibrated)])


def gains(result: dict[str, Any]) -> tuple[float, float, int]:
    """Return by what factor corrected means and sds are nearer, in the median, and of how many
    cells.
    """
    cells = [
        cell
        for row in result["cells"].values()
        for cell in row.values()
        if 0.1 <= cell["raw_sd"] <= 0.4 and cell["corrected_mean"] is not None
    ]
    means = np.median([cell["raw_mean"] / max(cell["corrected_mean"], 1e-9) for cell in cells])
    sds = np.median([cell["raw_sd"] / max(cell["corrected_sd"], 1e-9) for cell in cells])
    return float(means), float(sds), len(cells)


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page with its tables."""
    return renewed(text, "numbers", "benchmarks/pages/checks.py", table(result))


def draw(result: dict[str, Any]) -> Figure:
    """Draw corrected errors against raw ones."""
    figure = figures.figure(9.0, 4.2)
    panels = figure.subplots(1, 2)
    for panel, part, name in zip(
        panels, ("sd", "mean"), ("sd, relative", "mean, in sds"), strict=True
    ):
        line = np.array([2e-3, 1.0])
        panel.plot(line, line, color="#888888", lw=0.8)
        panel.plot(line, line / 10, color="#888888", lw=0.8, ls=":")
        for kind in KINDS:
            cells = [
                cell
                for cell in result["cells"][kind].values()
                if cell["corrected_mean"] is not None
            ]
            raw, corrected = (
                [max(cell[f"{which}_{part}"], 2e-3) for cell in cells]
                for which in ("raw", "corrected")
            )
            panel.plot(raw, corrected, "o", ms=5, color=COLOURS[kind], label=kind)
        panel.set(
            xscale="log", yscale="log", xlabel=f"raw: worst error of a {name}", ylabel="corrected"
        )
    panels[1].legend(frameon=False)
    return figure


def caption(result: dict[str, Any]) -> str:
    """Return in one sentence what the picture shows."""
    means, sds, count = gains(result)
    return (
        "Worst errors of means and sds, corrected against raw; where raw sds are 10 to 40 % off "
        f"({count} cells) corrected sds are {sds:.1f} times nearer and means {means:.1f} times "
        "(medians)."
    )


def main() -> None:
    """Check what is asked for."""
    parser = argparse.ArgumentParser(description="The check of draws against what is known.")
    parser.add_argument("--posteriors", default=",".join(PREPARE))
    parser.add_argument("--draw", action="store_true")
    asked = parser.parse_args()
    result: dict[str, Any] = {"cells": {kind: {} for kind in KINDS}}
    if NUMBERS.exists():
        result = json.loads(NUMBERS.read_text())
    for name in () if asked.draw else asked.posteriors.split(","):
        made = problem(name)
        mode = ewsg.find_mode(
            jax.random.key(0), made.posterior, made.center, made.data, progress=False
        )
        for kind in KINDS:
            result["cells"][kind][name] = compare(name, kind, made, mode)
            print(f"{kind:20} {name:9} {result['cells'][kind][name]}", flush=True)
    if not asked.draw:
        result["calibration"] = [calibrate(d, off) for d in (3, 12) for off in (1.0, OFF)]
        print(result["calibration"])
        NUMBERS.write_text(json.dumps(result) + "\n")
    PAGE.write_text(page(PAGE.read_text(), result))
    figures.write(draw(result), PICTURE, caption(result))


if __name__ == "__main__":
    main()
