"""Draw `docs/picture.png`: an exact posterior, and three sets of draws: those of a biased run, the
same corrected by `check`, and those of the run that `plan` chose.

`python -m benchmarks.pages.picture` draws it. It needs scikit-learn and matplotlib and takes half a
minute.
"""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import ewsg_jax as ewsg
from benchmarks.pages import figures

PICTURE = Path(__file__).parents[2] / "docs" / "picture.png"
FEATURES = ("mean_texture", "mean_concavity")
STEP_SIZE, BATCH_SIZE = 3e-3, 32
"""The biased run has the step and the batch size of common examples."""
POINTS = 1_500
"""Draws shown in each panel; the numbers are made from all of them."""
COLOURS = ("#D55E00", "#0072B2", "#009E73")
INK, PAPER = "#333333", "#FFFFFF"
MASSES = (0.5, 0.9, 0.99)


class Exact(NamedTuple):
    """The posterior on a grid: axes (2, k), probabilities (k, k), mean (2,) and
    covariance (2, 2).
    """

    axes: np.ndarray
    probability: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray


def load() -> dict[str, jax.Array]:
    """Return two standardised features of the breast-cancer data, and which tumours are benign."""
    patients = ewsg.datasets.breast_cancer()
    x = patients.x[:, [patients.feature_names.index(name) for name in FEATURES]]
    x = (x - x.mean(0)) / x.std(0)
    return {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(patients.y, jnp.float32)}


def solve(posterior: ewsg.Posterior, data: dict[str, jax.Array], size: int = 201) -> Exact:
    """Sum the posterior up on a grid of six standard deviations around its mode."""
    mode = jnp.zeros(2)
    hessian = jnp.eye(2)
    for _ in range(30):  # Newton's method
        hessian = jax.hessian(posterior.potential)(mode, data)
        mode = mode - jnp.linalg.solve(hessian, posterior.gradient(mode, data))
    half = 6 * np.sqrt(np.diag(np.linalg.inv(np.asarray(hessian, float))))
    axes = np.linspace(np.asarray(mode) - half, np.asarray(mode) + half, size).T
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    x, y = (np.asarray(data[name], float) for name in ("x", "y"))
    logits = points @ x.T
    log_density = (y * logits - np.logaddexp(0, logits)).sum(1) - 0.5 * (points**2).sum(1)
    p = np.exp(log_density - log_density.max())
    p /= p.sum()
    mean = p @ points
    covariance = (points - mean).T @ ((points - mean) * p[:, None])
    return Exact(axes, p.reshape(size, size), mean, covariance)


class Run(NamedTuple):
    """Draws, shape (draw, 2), and what stands above them."""

    title: str
    draws: np.ndarray


def sample(posterior: ewsg.Posterior, data: dict[str, jax.Array]) -> list[Run]:
    """Return the biased draws, the corrected ones and the planned ones."""
    keys = jax.random.split(jax.random.key(1), 5)
    kernel = ewsg.sgld(posterior, STEP_SIZE, batch_size=BATCH_SIZE)
    run = {"num_chains": 8, "burn_in": 1_000, "progress": False}
    biased = ewsg.sample(keys[0], kernel, jnp.zeros(2), data, 20_000, **run)
    rhat = ewsg.diagnostics.summary(biased).worst_rhat
    report = ewsg.check(keys[1], biased, data)
    plan = ewsg.plan(keys[2], posterior, jnp.zeros(2), data, progress=False)
    planned = ewsg.sample(keys[3], plan, data, progress=False)
    verdict = ewsg.check(keys[4], planned, data).outcome
    return [
        Run(f"biased: R-hat {rhat:.2f} (check: {report.outcome})", biased.position),
        Run("the same draws, corrected", report.correct(biased.position)),
        Run(f"planned (check: {verdict})", planned.position),
    ]


def judge(draws: np.ndarray, exact: Exact) -> tuple[float, float]:
    """Return the sd over the exact one, averaged over directions, and the error of the mean in sds.

    Args:
        draws: axes (chain, draw, coordinate).
        exact: the posterior.
    """
    flat = np.asarray(draws, float).reshape(-1, 2)
    inverse = np.linalg.inv(exact.covariance)
    off = flat.mean(0) - exact.mean
    sd = np.sqrt(np.trace(inverse @ np.cov(flat.T)) / 2)
    return float(sd), float(np.sqrt(off @ inverse @ off))


def draw(exact: Exact, runs: list[Run]) -> Figure:
    """Draw a panel for each run over the contours of the exact posterior."""
    height = np.sort(exact.probability.ravel())[::-1]
    levels = [float(height[np.searchsorted(np.cumsum(height), mass)]) for mass in MASSES]
    centre, half = exact.mean, 5.2 * np.sqrt(np.diag(exact.covariance))
    figure = figures.figure(9.6, 4.0, facecolor=PAPER)
    panels = figure.subplots(1, len(runs), sharex=True, sharey=True)
    for axis, run, colour in zip(panels, runs, COLOURS, strict=True):
        ratio, off = judge(run.draws, exact)
        # Shades of the exact posterior, the draws, and its contours on top.
        axis.contourf(
            *exact.axes,
            exact.probability.T,
            levels=[*levels[::-1], float(height[0])],
            colors=["#F1F1F1", "#E2E2E2", "#D2D2D2"],
        )
        cloud = run.draws.reshape(-1, 2)
        shown = cloud[:: len(cloud) // POINTS][:POINTS]
        axis.scatter(*shown.T, s=4, color=colour, alpha=0.5, linewidths=0)
        axis.contour(
            *exact.axes, exact.probability.T, levels=levels[::-1], colors=INK, linewidths=0.8
        )
        axis.set_title(run.title, color=colour, fontweight="bold", fontsize=10)
        axis.set_xlabel(f"sd × {ratio:.2f},  mean off {off:.2f} sd", color=INK, fontsize=10)
        axis.set(
            xlim=(centre[0] - half[0], centre[0] + half[0]),
            ylim=(centre[1] - half[1], centre[1] + half[1]),
        )
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    figure.supxlabel(
        "Lines hold 50, 90 and 99 % of the exact posterior of a logistic regression with two "
        "weights; points are draws.\nExact draws have sd × 1 and mean off 0.",
        fontsize=9,
        color=INK,
    )
    return figure


def caption(runs: list[Run], exact: Exact) -> str:
    """Return in one sentence what the picture shows, with its numbers."""
    told = []
    for run in runs:
        ratio, off = judge(run.draws, exact)
        told.append(f"{run.title} (sd × {ratio:.2f}, mean off by {off:.2f} sd)")
    return f"Draws on the exact posterior of a logistic regression. {'; '.join(told)}."


def main() -> None:
    """Write the picture and print its caption."""
    posterior, data = ewsg.models.logistic_regression(prior_scale=1.0), load()
    exact = solve(posterior, data)
    runs = sample(posterior, data)
    description = caption(runs, exact)
    figures.write(draw(exact, runs), PICTURE, description, dpi=150, colours=96)
    print(description)


if __name__ == "__main__":
    main()
