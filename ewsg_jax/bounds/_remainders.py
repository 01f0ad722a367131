"""Remainders of exponentials, by series if their closed forms would cancel."""

import math

import jax
import jax.numpy as jnp

from ewsg_jax.base.typing import Array


def exponential(x: Array, order: int) -> Array:
    """Return e^x − Σ_{j<order} x^j / j!, to full relative precision."""
    tail = jnp.ones_like(x)
    # 14 terms: 0.5¹⁴/14! is below the rounding of float64.
    for j in range(order + 14, order, -1):
        tail = 1 + x / j * tail
    series = x**order / math.factorial(order) * tail
    closed = jnp.expm1(x) - sum(x**j / math.factorial(j) for j in range(1, order))
    # Above, the closed form loses few digits.
    return jnp.where(jnp.abs(x) < 0.5, series, closed)


def log_partition(predictors: Array, change: Array) -> Array:
    """Return lse(ψ + Δ) − lse(ψ) − pᵀΔ ≥ 0 with p = softmax(ψ), over the last axis.

    It is log Σ pₖ exp(dₖ) for d = Δ − pᵀΔ; since Σ pₖ dₖ = 0, only second orders are left to add
    up.
    """
    p = jax.nn.softmax(predictors)
    d = change - jnp.sum(p * change, axis=-1, keepdims=True)
    near = jnp.log1p(jnp.sum(p * exponential(jnp.clip(d, -1, 1), 2), axis=-1))
    far = jax.nn.logsumexp(predictors + d, axis=-1) - jax.nn.logsumexp(predictors, axis=-1)
    return jnp.where(jnp.max(jnp.abs(d), axis=-1) < 1, near, far)
