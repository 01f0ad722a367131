"""Grouped logistic regressions of millions of rows, reduced to sums for each group, for
`answers.py`.

The log likelihood of a row is f(η⁰ + δ + x·ω), f(η) = y η − log(1 + exp η): η⁰ at a centre, δ the
effect of its group and ω the slopes, both from the centre. Its Taylor series is for each group a
polynomial in δ and ω, whose coefficients are sums over rows of f⁽ᵏ⁾(η⁰), of f⁽ᵏ⁾(η⁰) x, and of
f⁽ᵏ⁾(η⁰) x xᵀ; slopes are known to a few thousandths, so that no higher power of ω counts. What is
left out is measured at draws (`left_out`).
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.special import expit

from benchmarks.answers.case import Grouped, flat

POWERS = 8, 4, 2
"""The highest power of δ beside none of ω, one and two."""
REACH = 2.0
"""Of δ: beyond it the polynomial goes on as a straight line, so that it cannot rise; draws are not
there.
"""
ITERATIONS = 12
"""Of Newton's method, for the centre."""


def derivatives(eta: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """Return f, f′, f″ and so on up to the highest power, each of the shape of `eta`."""
    chance = expit(eta)
    found = [y * eta - np.logaddexp(0, eta), y - chance]
    power, slope = (
        np.polynomial.Polynomial([0, 1]),
        np.polynomial.Polynomial([0, 1, -1]),
    )  # p, and p′ = p − p²
    for _ in range(POWERS[0] - 1):
        power = power.deriv() * slope
        found.append(-power(chance))
    return found


def _centre(rows: Any, num_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return effects and slopes of the largest density at a mean and a scale that are the effects'
    own.
    """
    group, x, y = rows["g"], rows["x"].astype(float), rows["y"]
    effects, slopes, mean, scale = np.zeros(num_groups), np.zeros(x.shape[1]), 0.0, 1.0
    for _ in range(ITERATIONS):
        chance = expit(effects[group] + x @ slopes)
        weight = chance * (1 - chance)

        def sums(values: np.ndarray) -> np.ndarray:
            return np.bincount(group, values, num_groups)

        of_effects = sums(y - chance) - (effects - mean) / scale**2
        inner = sums(weight) + scale**-2
        cross = np.stack([sums(weight * column) for column in x.T], 1)
        # The effects' block of the curvature is a diagonal: Schur's complement is of the slopes
        # alone.
        outer = (x.T * weight) @ x + np.eye(len(slopes)) - cross.T @ (cross / inner[:, None])
        right = x.T @ (y - chance) - slopes - cross.T @ (of_effects / inner)
        step = np.linalg.solve(outer, right)
        slopes = slopes + step
        effects = effects + (of_effects - cross @ step) / inner
        mean, scale = effects.mean(), effects.std()
    return effects, slopes


def reduced(case: Grouped, rows: Any) -> Grouped:
    """Return the case with a log density that reads no rows, and starts at the centre.

    Args:
        case: in either form.
        rows: all of them.
    """
    effects, slopes = _centre(rows, case.num_groups)
    mean, scale = effects.mean(), effects.std()
    group, x = rows["g"], rows["x"].astype(float)
    f = derivatives(effects[group] + x @ slopes, rows["y"].astype(float))
    d = x.shape[1]
    features = [
        [np.ones(len(group))],
        list(x.T),
        [x[:, i] * x[:, j] for i in range(d) for j in range(d)],
    ]
    coefficients = []
    for j, (most, columns) in enumerate(zip(POWERS, features, strict=True)):
        of_power = [
            np.stack(
                [np.bincount(group, f[m + j] * column, case.num_groups) for column in columns], 1
            )
            / (math.factorial(m) * math.factorial(j))
            for m in range(most + 1)
        ]
        coefficients.append(jnp.asarray(np.stack(of_power)))

    def log_likelihood(p: Any) -> jax.Array:
        delta, omega = case.effects(p) - effects, p["w"] - slopes
        powers = jnp.ones(1), omega, jnp.outer(omega, omega).ravel()
        of_delta = [0.0] * (POWERS[0] + 1)
        for values, numbers in zip(coefficients, powers, strict=True):
            for m, each in enumerate(values @ numbers):
                of_delta[m] += each
        inside = jnp.clip(delta, -REACH, REACH)
        value = slope = jnp.zeros_like(delta)
        for each in reversed(of_delta):
            value, slope = value * inside + each, slope * inside + value
        return jnp.sum(value + slope * (delta - inside))

    log_prior = case.posterior.log_prior
    start = {"e": effects, "w": slopes, "mu": mean, "log_tau": np.log(scale)}
    if case.summary is not flat:
        start["e"] = (effects - mean) / scale
    return dataclasses.replace(
        case,
        log_density=lambda p, _: log_prior(p) + log_likelihood(p),
        start=jax.tree.map(jnp.asarray, start),
    )


def left_out(case: Grouped, short: Grouped, rows: Any, draws: np.ndarray) -> float:
    """Return the standard deviation over draws of what the log density is off.

    Args:
        case: centred.
        short: the same, reduced.
        rows: all of them.
        draws: positions, shape (draw, numbers).
    """
    unravel = ravel_pytree(short.start)[1]
    full = jax.jit(case.log_density)
    off = [float(full(unravel(x), rows) - short.log_density(unravel(x), None)) for x in draws]
    return float(np.std(off))
