"""Theorems 4.1 and 4.2 of Li, Wang, Zha & Tao, and the mechanism of exponential weights, by enumeration.

Theorem 4.1: the unbiased law of rows of the least variance has at most d + 1 rows. Theorem 4.2: over random rows
weights lessen the variance, E Δ < 0; to first order Δ = (h/2σ²) Cov(‖γr + g‖², ‖δ‖²), of either sign. What they do
to a step is averaged over the target of §5.1's Gaussian, θ ~ N(c̄, I/n) and r ~ N(0, I), by quadrature: how much
energy a step adds, how much stiffer the force becomes, and how far it is pushed.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import datasets, models
from ewsg_jax.experiments.mode import find_mode
from ewsg_jax.experiments.tables import above_zero, at_least
from ewsg_jax.gradients.least_variance_law import least_variance_law
from ewsg_jax.reproduction import weights
from ewsg_jax.reproduction.experiment import Numbers, Parts
from ewsg_jax.reproduction.gaussian import NUM_ROWS, rows_of
from ewsg_jax.reproduction.judging import short
from ewsg_jax.reproduction.weights import EXACT, ONE, UNIFORM

VR, MATRIX = "EWSG-VR", "matrix friction, uniform rows"
POINTS = ("at rest in the mode", "at rest at 0", "drawn from the target")
PRIOR_SCALE, PIMA = 10.0**0.5, "pima"


@dataclass(frozen=True)
class Settings:
    """Data sets for each theorem, the friction, steps, nodes of quadrature in a coordinate, positions on Pima."""

    num_data_sets: int
    mechanism_data_sets: int
    friction: float
    step_sizes: tuple[float, ...]
    nodes: int
    positions: int

    def __post_init__(self) -> None:
        at_least("full", self, num_data_sets=2, mechanism_data_sets=1, nodes=2, positions=1)
        above_zero("full.friction", self.friction)


def gaussian_gradients(rows: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Return n ∇Vᵢ = n(θ − cᵢ), shape (…, n, d)."""
    return len(rows) * (position[..., None, :] - rows)


def pima_gradients(count: int) -> np.ndarray:
    """Return n ∇Vᵢ with the prior's share at draws of the normal approximation, shape (position, n, d)."""
    whole = datasets.pima()
    rows = datasets.standardise(whole, whole)[0].with_intercept().rows()
    mode = find_mode(rows, PRIOR_SCALE)
    root = np.linalg.inv(np.linalg.cholesky(mode.hessian)).T
    positions = mode.weights + np.random.default_rng(0).standard_normal((count, len(root))) @ root.T
    model = models.logistic_regression(prior_scale=PRIOR_SCALE)
    data = jax.tree.map(jnp.asarray, rows)

    def of(position: Any) -> np.ndarray:
        own = model.flat_row_gradients(jnp.asarray(position, jnp.float32), data)
        return len(rows["y"]) * np.asarray(own, float) + position / PRIOR_SCALE**2

    return np.stack([of(position) for position in positions])


def sparsity(settings: Settings) -> Numbers:
    """Return of Theorem 4.1 the rows that the optimal law has, and its variance over that of uniform rows."""
    found: Numbers = {}
    gaussian = np.stack([np.asarray(rows_of(seed), float) for seed in range(settings.mechanism_data_sets)])
    sets = {f"gaussian, n = {NUM_ROWS}": -NUM_ROWS * gaussian, PIMA: pima_gradients(settings.positions)}
    for name, each in sets.items():
        off = each - each.mean(1, keepdims=True)
        laws = least_variance_law(off)
        squares = np.sum(off**2, -1)
        found[name] = {
            "d": each.shape[-1],
            "rows": [int(x) for x in (laws > 0).sum(1)],
            "variance_ratio": short((laws * squares).sum(1) / squares.mean(1)),
            "off": short(np.abs(np.einsum("kn,knd->kd", laws, off)).max() / np.abs(off).max()),
        }
    return found


def signs(settings: Settings) -> Numbers:
    """Return of Theorem 4.2 Δ over the uniform trace: its mean over data sets, point by point and step by step."""
    rng, gamma = np.random.default_rng(1), settings.friction
    rows = rng.standard_normal((settings.num_data_sets, NUM_ROWS, 2))
    mean = rows.mean(1)
    position = {
        POINTS[0]: (mean, np.zeros_like(mean)),
        POINTS[1]: (np.zeros_like(mean), np.zeros_like(mean)),
        POINTS[2]: (mean + rng.standard_normal(mean.shape) / NUM_ROWS**0.5, rng.standard_normal(mean.shape)),
    }
    found: Numbers = {"steps": settings.step_sizes, "points": {}}
    for name, (theta, momentum) in position.items():
        gradients = NUM_ROWS * (theta[:, None] - rows)
        trace = weights.change(gradients, np.full(rows.shape[:2], 1 / NUM_ROWS)).trace.mean()
        told = []
        for h in settings.step_sizes:
            delta = weights.variance_change(gradients, momentum, h, gamma)
            first = weights.first_variance_change(gradients, momentum, h, gamma)
            error = delta.std() / len(delta) ** 0.5
            of = {"mean": delta.mean(), "error": error, "first_order": first.mean()}
            told.append({key: short(x / trace) for key, x in of.items()} | {"negative": short((delta < 0).mean())})
        found["points"][name] = told
    each = pima_gradients(settings.positions)
    momentum = rng.standard_normal(each[:, 0].shape)
    trace = weights.change(each, np.full(each.shape[:2], 1 / each.shape[1])).trace
    found[PIMA] = [
        short((weights.variance_change(each, momentum, h, gamma) / trace).mean()) for h in settings.step_sizes
    ]
    return found


def mechanism(seed: int, settings: Settings) -> Numbers:
    """Return what a step of Euler's scheme does on one data set, on average over the target, law by law.

    `heat`: what a step adds to E ‖r‖² beyond one with the full gradient, over h² tr S, which uniform rows add.
    `stiffening`: E[drift · (θ − c̄)] over h tr S/2γ. `push`: the mean force in the direction of the
    skewness, over what first order says of it.
    """
    rows, gamma = np.asarray(rows_of(seed), float), settings.friction
    nodes, shares = np.polynomial.hermite_e.hermegauss(settings.nodes)
    grid = np.array(list(itertools.product(nodes, repeat=4)))
    weight = np.array([np.prod(x) for x in itertools.product(shares / shares.sum(), repeat=4)])
    theta, momentum = rows.mean(0) + grid[:, :2] / NUM_ROWS**0.5, grid[:, 2:]
    gradients = gaussian_gradients(rows, theta)
    force = gradients.mean(1)
    off = rows - rows.mean(0)
    spread = NUM_ROWS**2 * off.T @ off / NUM_ROWS
    found: dict[str, list[dict[str, float]]] = {name: [] for name in (UNIFORM, ONE, EXACT, VR, MATRIX)}
    for h in settings.step_sizes:
        logs = weights.log_weights(gradients, momentum, h, gamma)
        skew = weights.first_order(gradients, momentum, h, gamma)[2][0]
        for name, told in found.items():
            law = {VR: ONE, MATRIX: UNIFORM}.get(name, name)
            drift, trace = weights.change(gradients, weights.law_of(law, logs))
            own = gamma * momentum
            if name in (VR, MATRIX):
                own = own + h / 2 * momentum @ spread
            after = np.sum((momentum - h * (force + drift + own)) ** 2, -1) + h**2 * trace
            plain = np.sum((momentum - h * (force + gamma * momentum)) ** 2, -1)
            stiff = weight @ np.sum(drift * (theta - rows.mean(0)), -1)
            told.append(
                {
                    "heat": short(weight @ (after - plain) / (h**2 * np.trace(spread))),
                    "stiffening": short(stiff / (h * np.trace(spread) / (2 * gamma))),
                    "push": short(weight @ drift @ skew / (skew @ skew)),
                }
            )
    return {"steps": settings.step_sizes, "laws": found, "trace": short(np.trace(spread))}


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: both theorems, and the mechanism on each data set."""
    of_data = {
        f"mechanism {seed}": lambda _, seed=seed: mechanism(seed, settings)
        for seed in range(settings.mechanism_data_sets)
    }
    return {"sparsity": lambda _: sparsity(settings), "signs": lambda _: signs(settings)} | of_data
