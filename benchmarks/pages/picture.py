"""Draw `docs/picture.png`: an exact posterior and the draws of three samplers after the same data
passes.

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
FEATURES = ("mean_radius", "mean_smoothness")
PASSES, STEP_SIZE, FRICTION, BATCH_SIZE = 200, 0.0145, 4.0, 50
NUM_CHAINS, BURN_IN, THIN = 100, 300, 20
POINTS = 1_500
"""Draws shown in each panel; the numbers are made from all of them."""
COLOURS = ("#0072B2", "#009E73", "#D55E00")
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


def sample(
    exact: Exact, posterior: ewsg.Posterior, data: dict[str, jax.Array]
) -> dict[str, np.ndarray]:
    """Return the draws of each sampler, shape (draw, 2), all from the same data passes."""
    kernels = {
        f"SGHMC, batches of {BATCH_SIZE}": ewsg.sghmc(
            posterior, STEP_SIZE, friction=FRICTION, batch_size=BATCH_SIZE
        ),
        f"SGHMC, batches of {2 * BATCH_SIZE}": ewsg.sghmc(
            posterior, STEP_SIZE, friction=FRICTION, batch_size=2 * BATCH_SIZE
        ),
        f"EWSG, two batches of {BATCH_SIZE}": ewsg.ewsg(
            posterior, STEP_SIZE, friction=FRICTION, batch_size=BATCH_SIZE
        ),
    }
    centre = jnp.asarray(exact.mean, jnp.float32)
    factor = jnp.asarray(np.linalg.cholesky(exact.covariance), jnp.float32)
    options = {"num_chains": NUM_CHAINS, "burn_in": BURN_IN, "thin": THIN, "progress": False}

    def start(key: jax.Array) -> jax.Array:
        return centre + 2 * factor @ jax.random.normal(key, (2,))

    draws = {}
    for name, kernel in kernels.items():
        run = ewsg.sample(jax.random.key(1), kernel, start, data, data_passes=PASSES, **options)
        draws[name] = run.position.reshape(-1, 2).astype(float)
    return draws


def judge(draws: np.ndarray, exact: Exact) -> tuple[float, float]:
    """Return the variance over the exact one, averaged over directions, and the error of the mean
    in sds.
    """
    inverse = np.linalg.inv(exact.covariance)
    off = draws.mean(0) - exact.mean
    return float(np.trace(inverse @ np.cov(draws.T)) / 2), float(np.sqrt(off @ inverse @ off))


def draw(exact: Exact, draws: dict[str, np.ndarray]) -> Figure:
    """Draw a panel for each sampler over the contours of the exact posterior."""
    height = np.sort(exact.probability.ravel())[::-1]
    levels = [float(height[np.searchsorted(np.cumsum(height), mass)]) for mass in MASSES]
    centre, half = exact.mean, 4.3 * np.sqrt(np.diag(exact.covariance))
    figure = figures.figure(9.6, 4.1, facecolor=PAPER)
    panels = figure.subplots(1, len(draws), sharex=True, sharey=True)
    for axis, (name, cloud), colour in zip(panels, draws.items(), COLOURS, strict=True):
        ratio, off = judge(cloud, exact)
        # Shades of the exact posterior, the draws, and its contours on top.
        axis.contourf(
            *exact.axes,
            exact.probability.T,
            levels=[*levels[::-1], float(height[0])],
            colors=["#F1F1F1", "#E2E2E2", "#D2D2D2"],
        )
        shown = cloud[:: len(cloud) // POINTS][:POINTS]
        axis.scatter(*shown.T, s=4, color=colour, alpha=0.5, linewidths=0)
        axis.contour(
            *exact.axes, exact.probability.T, levels=levels[::-1], colors=INK, linewidths=0.8
        )
        axis.set_title(name, color=colour, fontweight="bold", fontsize=11)
        axis.set_xlabel(f"variance × {ratio:.2f},  mean off {off:.2f} sd", color=INK, fontsize=10)
        axis.set(
            xlim=(centre[0] - half[0], centre[0] + half[0]),
            ylim=(centre[1] - half[1], centre[1] + half[1]),
        )
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    figure.supxlabel(
        "Lines hold 50, 90 and 99 % of the exact posterior of a logistic regression with two "
        "weights; points are\n"
        f"draws after {PASSES} data passes at one step size. An exact sampler has variance × 1. "
        f"Two batches of {BATCH_SIZE} cost as much as one of {2 * BATCH_SIZE}.",
        fontsize=9,
        color=INK,
    )
    return figure


def caption(draws: dict[str, np.ndarray], exact: Exact) -> str:
    """Return in one sentence what the picture shows, with its numbers."""
    told = []
    for name, cloud in draws.items():
        ratio, off = judge(cloud, exact)
        told.append(f"{name}: variance × {ratio:.2f}, mean off by {off:.2f} sd")
    return (
        f"After {PASSES} data passes at step size {STEP_SIZE} and friction {FRICTION}: "
        f"{'; '.join(told)}."
    )


def main() -> None:
    """Write the picture and print its caption."""
    posterior, data = ewsg.models.logistic_regression(prior_scale=1.0), load()
    exact = solve(posterior, data)
    draws = sample(exact, posterior, data)
    description = caption(draws, exact)
    figures.write(draw(exact, draws), PICTURE, description, dpi=150, colours=96)
    print(description)


if __name__ == "__main__":
    main()
