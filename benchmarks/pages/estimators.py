"""Draw `docs/estimators.png` and write the table of `docs/estimators.md`: a posterior's error
against passes.

`EWSG_JAX_DATA=… python -m benchmarks.pages.estimators` does both. It needs Pima and matplotlib, and
takes some minutes on two cores.
"""

import json
import math
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import ewsg_jax as ewsg
from benchmarks.pages import figures
from benchmarks.pages.generated import as_table, renewed
from benchmarks.papers.figures import COLOURS

DOCS = Path(__file__).parents[2] / "docs"
PICTURE, NUMBERS, PAGE = DOCS / "estimators.png", DOCS / "estimators.json", DOCS / "estimators.md"
BATCH_SIZE, FRICTION, PASSES = 32, 10.0, 60
STEP_SIZES = (0.05, 0.025, 0.0125, 0.00625)
NUM_CHAINS, NUM_POINTS = 1_500, 30
REFERENCE_CHAINS, REFERENCE_STEPS = 4_000, 4_000
TICKS = (2, 5, 10, 20, 50)
gradients = ewsg.gradients


def load() -> dict[str, jax.Array]:
    """Return Pima, standardised, with an intercept."""
    data = ewsg.datasets.pima()
    x = (data.x - data.x.mean(0)) / data.x.std(0)
    x = np.column_stack([x, np.ones(data.num_rows)])
    return {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(data.y, jnp.float32)}


def estimators(posterior: ewsg.Posterior) -> dict[str, gradients.GradientEstimator]:
    """Return what is compared, by name."""
    plain: dict[str, Callable[..., gradients.GradientEstimator]] = {
        "uniform": gradients.uniform,
        "SVRG": gradients.svrg,
        "SAGA": gradients.saga,
        "CV": gradients.control_variate,
    }
    made = {}
    for name, build in plain.items():
        made[name] = build(posterior, batch_size=BATCH_SIZE)
        weighted = "EW" if name == "uniform" else f"EW∘{name}"
        made[weighted] = gradients.exponentially_weighted(made[name], chain_length=1)
        if name == "uniform":
            made["noise-corrected"] = gradients.covariance_tracking(
                posterior, batch_size=BATCH_SIZE
            )
    return made


def reference(
    posterior: ewsg.Posterior, data: Any, mode: jax.Array
) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior's means and standard deviations: a long run of the splitting at a small
    step.
    """
    kernel = ewsg.uld(posterior, 0.02, friction=FRICTION, integrator="splitting")
    samples = ewsg.sample(
        jax.random.key(1),
        kernel,
        mode,
        data,
        REFERENCE_STEPS,
        num_chains=REFERENCE_CHAINS,
        burn_in=500,
        keep=None,
        moments=ewsg.moments(covariance="diagonal"),
    )
    moments = samples.moments
    assert moments is not None
    pooled = moments.pooled()
    return np.asarray(pooled.mean), np.sqrt(np.asarray(pooled.variance))


def errors(draws: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    """Return √(average over coordinates of ((m − m*)/s*)² + (s/s* − 1)²) over the chains, for each
    draw.
    """
    shift = (draws.mean(0) - mean) / sd
    ratio = draws.std(0) / sd
    return np.sqrt(np.mean(shift**2 + (ratio - 1) ** 2, axis=-1))


def measure() -> dict[str, Any]:
    """Run every estimator at every step size."""
    posterior, data = ewsg.models.logistic_regression(prior_scale=1.0), load()
    began = time.perf_counter()
    mode = ewsg.find_mode(jax.random.key(0), posterior, jnp.zeros(9), data)
    mean, sd = reference(posterior, data, mode.position)
    curves: dict[str, dict[str, Any]] = {}
    for name, estimator in estimators(posterior).items():
        build = (
            ewsg.dynamics.noise_corrected
            if name == "noise-corrected"
            else ewsg.dynamics.semi_implicit
        )
        for step_size in STEP_SIZES:
            kernel = ewsg.kernel(build(step_size, friction=FRICTION), estimator)
            cost = kernel.evaluations(data)
            steps = int(PASSES * 768 / (cost.of_steps(0, 10_000) / 10_000))
            samples = ewsg.sample(
                jax.random.key(2),
                kernel,
                mode.position,
                data,
                steps,
                num_chains=NUM_CHAINS,
                thin=steps // NUM_POINTS,
            )
            found = errors(samples.draws, mean, sd)
            lost = int((samples.diverged_at >= 0).sum())
            curves.setdefault(name, {})[str(step_size)] = {
                "passes": [round(float(x) / 768, 2) for x in samples.evaluations],
                "error": [float(f"{x:.4g}") for x in found],
                "lost_chains": lost,
                "seconds": round(samples.run_seconds, 2),
            }
            print(
                f"{name:16} h = {step_size:<7} error {found[-5:].mean():.3f}, {lost} chains lost",
                flush=True,
            )
    return {
        "data": "pima, 768 rows, 8 standardised features and an intercept, prior N(0, I)",
        "settings": {
            "batch_size": BATCH_SIZE,
            "friction": FRICTION,
            "passes": PASSES,
            "chains": NUM_CHAINS,
            "start": "the mode, which is also CV's centre",
            "passes for the mode": mode.data_passes,
        },
        "floor": float(f"{np.sqrt(1.5 / NUM_CHAINS):.3g}"),
        "machine": {
            "jax": jax.__version__,
            "python": platform.python_version(),
            "device": jax.default_backend(),
        },
        "seconds": round(time.perf_counter() - began),
        "curves": curves,
    }


def draw(result: dict[str, Any]) -> Figure:
    """Draw one panel for each estimator, a line for each step size."""
    figure = figures.figure(11, 8.2)
    panels = figure.subplots(3, 3, sharex=True, sharey=True).ravel()
    for panel, (name, by_step) in zip(panels, result["curves"].items(), strict=True):
        for (step_size, curve), colour in zip(by_step.items(), COLOURS[:4], strict=True):
            passes, error = np.array(curve["passes"]), np.array(curve["error"])
            shown = np.isfinite(error) & (curve["lost_chains"] == 0)
            panel.plot(passes[shown], error[shown], color=colour, label=f"h = {step_size}", lw=1.6)
        panel.axhline(result["floor"], color="#888888", lw=0.8, ls=":")
        panel.set_title(name, loc="left", fontsize=11)
        panel.set_yscale("log")
        panel.set_xscale("log")
        panel.set_xticks(TICKS, [str(x) for x in TICKS])
        panel.minorticks_off()
        panel.spines[["top", "right"]].set_visible(False)
        panel.grid(alpha=0.25, lw=0.5)
    panels[0].legend(frameon=False, fontsize=8)
    for panel in panels[6:]:
        panel.set_xlabel("passes over the data")
    for panel in panels[::3]:
        panel.set_ylabel("error of the posterior")
    return figure


def caption(result: dict[str, Any]) -> str:
    """Return in one sentence what the picture shows."""
    ends = (
        f"{name} {min(_at_end(c) for c in by_step.values()):.3f}"
        for name, by_step in result["curves"].items()
    )
    return (
        "Error of the posterior against passes, a panel for each estimator, a line for each step "
        f"size; after {PASSES} passes at the best step: {', '.join(ends)}."
    )


def _at_end(curve: dict[str, Any]) -> float:
    """Return the error at the end of the budget; infinite where chains were lost."""
    return math.inf if curve["lost_chains"] else float(np.mean(curve["error"][-5:]))


def table(result: dict[str, Any]) -> str:
    """Return the errors at the end of the budget as Markdown."""
    heads = ["estimator", *(f"h = {h}" for h in STEP_SIZES)]
    rows = []
    for name, by_step in result["curves"].items():
        cells = [
            f"{c['lost_chains']} chains diverged" if c["lost_chains"] else f"{_at_end(c):.3f}"
            for c in by_step.values()
        ]
        rows.append([name, *cells])
    return as_table(heads, rows)


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page with its numbers renewed."""
    return renewed(text, "numbers", "benchmarks/pages/estimators.py", table(result))


if __name__ == "__main__":
    measured = measure()
    NUMBERS.write_text(json.dumps(measured, indent=1) + "\n")
    figures.write(draw(measured), PICTURE, caption(measured))
    if PAGE.exists():
        PAGE.write_text(page(PAGE.read_text(), measured))
