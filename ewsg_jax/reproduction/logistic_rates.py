"""What accuracies cost on logistic regression, by forecasts of kernels around the mode."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import dynamics, gradients, models
from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Array
from ewsg_jax.forecasting import Forecast, forecast
from ewsg_jax.methods import cv_ld, cv_uld, ld, saga_ld, sgld, svrg_ld, uld
from ewsg_jax.pair import kernel
from ewsg_jax.preparation import Mode, find_mode
from ewsg_jax.reproduction.experiment import Numbers

FRICTION = 2.0
NOISY = ("SGLD", "SGULD")
"""Whose steps are shorter by b/n."""
MODEL = models.logistic_regression()


def data_of(n: int, d: int) -> dict[str, Array]:
    """Return n rows of standard normal features, and labels drawn at weights of norm 1."""
    rng = np.random.default_rng([n, d])
    x = rng.standard_normal((n, d))
    y = rng.random(n) < 1 / (1 + np.exp(-x.sum(1) / np.sqrt(d)))
    return {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(y, jnp.int32)}


def kernels(mode: Mode[Array], unit: float, step: float, n: int, b: int) -> dict[str, Kernel[Array]]:
    """Return the methods of which forecasts are known, at a step in units of 1/L, or of time at u = 1/L."""
    h, noisy = step * unit, step * b / n
    clock: dict[str, Any] = {"friction": FRICTION, "inverse_mass": unit}
    return {
        "LD": ld(MODEL, h),
        "ULD": uld(MODEL, step, integrator="exact", **clock),
        "SGLD": sgld(MODEL, noisy * unit, batch_size=b),
        "SGULD": kernel(dynamics.exact(noisy, **clock), gradients.uniform(MODEL, batch_size=b)),
        "SAGA-LD": saga_ld(MODEL, h, batch_size=b),
        "SVRG-LD (II)": svrg_ld(MODEL, h, batch_size=b),
        "CV-LD": cv_ld(MODEL, h, batch_size=b, center=mode.position),
        "CV-ULD": cv_uld(MODEL, step, batch_size=b, center=mode.position, **clock),
    }


def distance(told: Forecast) -> float:
    """Return W₂ between the normal laws of the chain and of the target."""
    chain, target = (np.asarray(x, float) for x in (told.covariance, told.target))
    shift = np.asarray(told.mean_shift, float) * np.sqrt(np.diag(target))
    values, vectors = np.linalg.eigh(target)
    root = (vectors * np.sqrt(values)) @ vectors.T
    cross = np.linalg.eigvalsh(root @ chain @ root)
    square = shift @ shift + np.trace(chain) + np.trace(target) - 2 * np.sum(np.sqrt(np.maximum(cross, 0)))
    return float(np.sqrt(max(square, 0.0)))


def forecasts(n: int, d: int, b: int, steps: Sequence[float]) -> Numbers:
    """Return of each method W₂ at each step, and evaluations in the longest autocorrelation time."""
    data = data_of(n, d)
    mode = find_mode(jax.random.key(0), MODEL, jnp.zeros(d), data)
    unit = float(np.linalg.eigvalsh(np.asarray(mode.covariance, float))[0])
    found: Numbers = {"rows": n, "dimension": d}
    for step in steps:
        for label, each in kernels(mode, unit, step, n, b).items():
            told = forecast(each, mode, data)
            cost = told.passes_per_step * n * float(np.max(told.autocorrelation_time))
            kept = found.setdefault(label, {"distance": [], "cost": []})
            kept["distance"].append(float(f"{distance(told):.4g}"))
            kept["cost"].append(float(f"{cost:.4g}"))
    return found
