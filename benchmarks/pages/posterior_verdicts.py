"""What is known of the real posteriors beforehand, and the criterion of the page."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.pages.posterior_problems import Problem
from benchmarks.pages.posterior_settings import FRICTION

REFERENCES = Path(__file__).parents[2] / "tests" / "references"
MOST_ERRORS, MOST_SPREAD = 5.0, 0.05
"""The criterion: Monte Carlo standard errors of a mean, relative error of a standard deviation."""


class Reference(NamedTuple):
    """What is known of a posterior, and its Monte Carlo errors, in the order of the parameters."""

    mean: np.ndarray
    sd: np.ndarray
    mcse_mean: np.ndarray
    mcse_sd: np.ndarray

    def worst(self, mean: np.ndarray, sd: np.ndarray) -> dict[str, float]:
        """Return how far the worst mean is off, in standard deviations, and the worst sd,
        relatively.
        """
        return {
            "mean": float(np.max(np.abs(mean - self.mean) / self.sd)),
            "sd": float(np.max(np.abs(sd / self.sd - 1))),
        }


def reference(name: str) -> Reference:
    """Return the stored summary of a posterior."""
    stored = json.loads((REFERENCES / f"{name}.json").read_text())
    rows = stored["parameters"].values()
    return Reference(*(np.array([row[field] for row in rows]) for field in Reference._fields))


def stated_bias(method: str, made: Problem, h: float) -> np.ndarray:
    """Return the bias of the means that is stated beforehand: zero but for exponential weights,
    there of order h.

    The weights move the mean of the estimate by s (S∇V + ½ E‖δ‖²δ): S its covariance, δ its centred
    value, s = h/2 on Langevin dynamics and h/(2γ) on underdamped dynamics. Under the target E S∇V =
    E ∇·S, and the mean of the estimate is zero where a chain is stationary: so parameters of unit
    scale move by −s (∇·S + ½ E‖δ‖²δ), which is evaluated at the mode.
    """
    if not method.startswith("ewsg"):
        return np.zeros_like(made.origin)
    n, b = made.num_rows, made.batch_size

    def centred(u: jax.Array) -> jax.Array:
        gradients = made.posterior.flat_row_gradients(u, made.data)
        return gradients - gradients.mean(0)

    def covariance(u: jax.Array) -> jax.Array:
        return n / b * centred(u).T @ centred(u)

    off = centred(made.center)
    third = n**2 / b**2 * jnp.sum(jnp.sum(off**2, 1, keepdims=True) * off, 0)
    divergence = jnp.einsum("jkk->j", jax.jacfwd(covariance)(made.center))
    s = h / 2 if method == "ewsg_ld" else h / (2 * FRICTION)
    slope = jax.jacfwd(made.shifted)(made.center)
    return -s * np.asarray(slope @ (divergence + third / 2), np.float64)


class Verdict(NamedTuple):
    """How far a run is from the reference.

    Attributes:
        errors: |mean − reference| − |stated bias| over the standard error of both, at least 0.
        spread: sd / reference − 1.
        passes: whether the criterion holds.
    """

    errors: np.ndarray
    spread: np.ndarray
    passes: bool


def judge(found: dict[str, Any], known: Reference) -> Verdict:
    """Compare what a run found with the reference: the criterion of the page."""
    off = np.abs(np.array(found["mean"]) - known.mean) - np.abs(found["stated_bias"])
    errors = np.maximum(off, 0) / np.hypot(found["mcse_mean"], known.mcse_mean)
    spread = np.array(found["sd"]) / known.sd - 1
    # Not a number fails.
    close = np.max(errors) <= MOST_ERRORS and np.max(np.abs(spread)) <= MOST_SPREAD
    return Verdict(
        errors, spread, bool(close) and not found["lost_chains"] and not found["overflows"]
    )
