"""HAMCMC off Gaussians: x ~ N(0, 1), y | x ~ N(2 tanh x, 1/4), full gradients, h → 0.

Theorem 5 of the supplement of Şimşekli et al. 2016 lets the bias vanish with the steps. E x², E xy
and E y² are known by quadrature; the chains start at exact draws, so that what they end with is the
bias of the dynamics alone. What is left at h = 0 is read off the largest and the least step, on a
line. Langevin's steps stand beside it: half as many, for the M = 2 chains of HAMCMC take turns.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers.annotations import Array
from benchmarks.papers.experiment import Numbers
from ewsg_jax import Posterior, dynamics, gradients, kernel, sample

SLOPE, PRECISION, TRUST = 2.0, 4.0, 20.0
"""Of y on tanh x; 1 / Var(y | x); λ, with M = 2 and γ_H = 1."""
AVERAGED = ("x²", "xy", "y²")


@dataclass(frozen=True)
class Settings:
    """Chains, and steps for so long a time."""

    num_chains: int
    step_sizes: tuple[float, ...]
    time: float


def _log_likelihood(position: Array, row: Array) -> Array:
    return 0.0 * row[0] * position[0]


def _log_prior(position: Array) -> Array:
    x, y = position
    return -0.5 * x**2 - 0.5 * PRECISION * (y - SLOPE * jnp.tanh(x)) ** 2


POSTERIOR = Posterior(_log_likelihood, _log_prior)


@functools.cache
def exact() -> tuple[float, ...]:
    """Return E x², E xy and E y², by quadrature of exp(−V) over the plane."""
    x, y = np.meshgrid(np.linspace(-9, 9, 1801), np.linspace(-6, 6, 1201), indexing="ij")
    weight = np.exp(-0.5 * x**2 - 0.5 * PRECISION * (y - SLOPE * np.tanh(x)) ** 2)
    return tuple(float(np.sum(weight * f) / np.sum(weight)) for f in (x * x, x * y, y * y))


def starts(seed: int, num_chains: int) -> Array:
    """Return exact draws, shape (chain, 2)."""
    x, noise = np.random.default_rng(seed).standard_normal((2, num_chains))
    return jnp.asarray(
        np.stack([x, SLOPE * np.tanh(x) + noise * PRECISION**-0.5], axis=-1), jnp.float32
    )


def on(seed: int, settings: Settings) -> Numbers:
    """Return the averages at each step and their errors, of both dynamics."""
    position, rows, found = starts(seed, settings.num_chains), jnp.zeros((1, 1)), []
    spent = 0
    for number, step in enumerate(settings.step_sizes):
        told: Numbers = {"step": step}
        both = {
            "HAMCMC": (dynamics.quasi_newton(step, memory_size=2, trust_region=TRUST), 2),
            "Langevin": (dynamics.langevin(step), 1),
        }
        for label, (made, turns) in both.items():
            samples = sample(
                jax.random.fold_in(jax.random.key(seed), number),
                kernel(made, gradients.full(POSTERIOR)),
                position,
                rows,
                turns * round(settings.time / step),
                stacked=True,
                burn_in=turns * round(settings.time / step / 2),
                thin=turns * max(1, round(0.25 / step)),
            )
            x, y = np.moveaxis(np.asarray(samples.position, float), -1, 0)
            means = np.stack([x * x, x * y, y * y], axis=-1).mean(1)
            told[label] = np.round(means.mean(0), 4)
            told[f"{label}, error"] = np.round(means.std(0) / len(means) ** 0.5, 5)
            spent += int(samples.gradient_evaluations)
        found.append(told)
    return {"steps": found, "exact": [round(x, 5) for x in exact()], "evaluations": spent}


def left(part: Numbers, label: str) -> tuple[np.ndarray, np.ndarray]:
    """Return what is left of the bias at h = 0, by a line through the ends of the steps, and its
    standard error.
    """
    of_steps = sorted(part["steps"], key=lambda each: each["step"])
    least, larger = of_steps[0], of_steps[-1]
    share = least["step"] / (larger["step"] - least["step"])
    value = (
        np.subtract(least[label], part["exact"]) * (1 + share)
        - np.subtract(larger[label], part["exact"]) * share
    )
    error = np.hypot(
        np.multiply(least[f"{label}, error"], 1 + share),
        np.multiply(larger[f"{label}, error"], share),
    )
    return value, error
