"""Exact stationary laws of chains whose batches come in epochs, on a Gaussian's mean.

All rows have one curvature, so a step is z ↦ A z + e + noise with one matrix A, e that of the
batch. In an epoch of R batches every one comes once, in a uniform order: their covariances are S
for one with itself, −S/(R − 1) for two. A sweep repeats an epoch backwards. The law over one period
of R or 2R steps follows from that of its first state by adding batches up, and is that of itself
one period later.
"""

import dataclasses
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from ewsg_jax.answers.forecast import stationary

Kind = Literal["random", "block_epochs", "block_sweeps"]


class Affine(NamedTuple):
    """z' = matrix z + shifts[batch] + noise of this covariance."""

    matrix: np.ndarray
    shifts: np.ndarray
    noise: np.ndarray


def affine(kernel: ewsg.Kernel, data: Any, batch_size: int) -> Affine:
    """Return what a kernel's own step is, of each block that begins at a multiple of b; run in
    float64.

    Args:
        kernel: on a Gaussian's mean of one coordinate, with `rows="blocks"`.
        data: shape (n, 1).
        batch_size: b.
    """
    state = kernel.init(jax.random.key(0), jnp.zeros(1), data)
    drawn = kernel.draw(jax.random.key(0), state, data)
    noise, keep = ravel_pytree(drawn.noise)
    own: Any = state.dynamics
    names = [name for name in ("position", "momentum") if hasattr(own, name)]

    def step(z: Any, noise: Any, start: Any) -> Any:
        before = own._replace(**{name: z[i : i + 1] for i, name in enumerate(names)})
        randomness = drawn._replace(
            noise=keep(noise), batch=dataclasses.replace(drawn.batch, start=start)
        )
        after: Any = kernel.transition(randomness, state._replace(dynamics=before), data)[
            0
        ].dynamics
        return jnp.concatenate([getattr(after, name) for name in names])

    starts = jnp.arange(0, len(data) - batch_size + 1, batch_size, dtype=jnp.int32)
    origin = jnp.zeros(len(names))
    matrix, spread = jax.jit(jax.jacfwd(step, argnums=(0, 1)))(origin, 0 * noise, starts[0])
    shifts = jax.jit(jax.vmap(lambda start: step(origin, 0 * noise, start)))(starts)
    return Affine(np.asarray(matrix), np.asarray(shifts), np.asarray(spread @ spread.T))


def covariance(step: Affine, kind: Kind) -> np.ndarray:
    """Return the stationary covariance of the state, averaged over the places in a period."""
    a, deviations = step.matrix, step.shifts - step.shifts.mean(axis=0)
    spread = deviations.T @ deviations / len(deviations)
    if kind == "random":
        return stationary.stationary_each(a, step.noise + spread)[0]
    places = np.arange(len(deviations))
    if kind == "block_sweeps":
        places = np.concatenate([places, places[::-1]])
    powers = [np.eye(len(a))]
    for _ in places:
        powers.append(a @ powers[-1])
    # Of the batches alone: the covariance of the state after k steps of a period that began at 0.
    added = [np.zeros_like(spread)]
    for k in range(len(places)):
        alike = np.where(places[:k] == places[k], 1.0, -1 / (len(deviations) - 1))
        before = (
            np.einsum("k,kij->ij", alike, np.array(powers[:k][::-1]).reshape(k, *a.shape)) @ spread
        )
        added.append(a @ (added[-1] @ a.T + before) + before.T @ a.T + spread)
    first = stationary.stationary_each(powers[-1], added[-1])[0]
    over_places = [p @ first @ p.T + more for p, more in zip(powers[:-1], added[:-1], strict=True)]
    return stationary.stationary_each(a, step.noise)[0] + np.mean(over_places, axis=0)


def share_of_heat(step: Affine, kind: Kind) -> float:
    """Return what is left of the variance that the batches of random rows add to the position."""
    alone = stationary.stationary_each(step.matrix, step.noise)[0][0, 0]
    return float(
        (covariance(step, kind)[0, 0] - alone) / (covariance(step, "random")[0, 0] - alone)
    )
