"""BlackJAX's SGLD and SGHMC with its control variates at the mode, for `answers.py`: the best of
three step sizes.

The best is known only by the reference, which a user has not: what it costs to have tried all is
told beside. Chains start at draws of the normal approximation, share their batches, and keep every
draw after ten gradients.
"""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.answers.case import Data, Regression
from benchmarks.answers.judged import judged, known
from benchmarks.answers.ours import (
    ESS,
    NUM_CHAINS,
    Answer,
    Clock,
    least_ess,
    mode_of,
    moments,
    normal_draws,
)
from benchmarks.answers.peers import library

LONG = 100_000
"""Rows from which a batch is of 1,000 rows and a step size has a ninth of the time; below of 100,
and a 27th.
"""
GRADIENTS, PIECE = 10, 200
"""Gradients of a draw that is kept, and draws in one call."""
FRACTIONS = 1.0, 0.25, 0.0625


def _controlled(case: Regression, center: jax.Array, data: Data) -> Any:
    """Return BlackJAX's estimator of the gradient with control variates."""
    gradients = library("blackjax.sgmcmc.gradients")

    def of_row(position: jax.Array, row: Any) -> jax.Array:
        fitted = row[0] @ position
        return (
            -0.5 * jnp.square(row[1] - fitted)
            if case.is_linear
            else row[1] * fitted - jax.nn.softplus(fitted)
        )

    plain = gradients.grad_estimator(
        lambda position: -0.5 * position @ position, of_row, len(data["y"])
    )
    return gradients.control_variates(jax.jit(plain), center, (data["x"], data["y"]))


def _best(
    case: Regression,
    data: Data,
    limit: float,
    name: str,
    largest: Callable[[float], float],
    kernel: Callable[..., jax.Array],
    calls: int,
) -> dict[str, Answer]:
    """Run at each step size until the ESS or the time is there; return the run that is least off.

    Args:
        case: what is sampled.
        data: its rows.
        limit: seconds for all answers of this kind.
        name: of the answer.
        largest: the first step size, of the largest curvature.
        kernel: (key, position, estimator, batch, step size) -> position.
        calls: of the kernel for a draw that is kept.
    """
    n = len(data["y"])
    size, share = (1_000, 1 / 9) if n >= LONG else (100, 1 / 27)
    clock = Clock()
    mode = mode_of(case, data)
    estimate = _controlled(case, mode.position, data)
    at_mode, before = clock.tick("mode"), mode.data_passes + 1
    stiffest = 1 / float(np.linalg.eigvalsh(np.asarray(mode.covariance, np.float64))[0])

    @jax.jit
    def advance(
        key: jax.Array, state: jax.Array, step_size: Any, data: Data
    ) -> tuple[jax.Array, jax.Array]:
        def step(state: jax.Array, key: jax.Array) -> Any:
            for_rows, for_noise = jax.random.split(key)
            rows = jax.random.randint(for_rows, (size,), 0, n)
            batch = (data["x"][rows], data["y"][rows])
            keys = jax.random.split(for_noise, NUM_CHAINS)
            return jax.vmap(lambda key, x: kernel(key, x, estimate, batch, step_size))(
                keys, state
            ), None

        def draw(state: jax.Array, key: jax.Array) -> Any:
            state, _ = jax.lax.scan(step, state, jax.random.split(key, calls))
            return state, state

        return jax.lax.scan(draw, state, jax.random.split(key, PIECE))

    found: list[tuple[float, Answer]] = []
    for fraction in FRACTIONS:
        h = fraction * largest(stiffest)
        state, draws, look = normal_draws(mode)[:, 0], [], 0.0
        began = time.perf_counter()
        while True:
            state, some = advance(jax.random.key(len(draws)), state, h, data)
            draws.extend(np.asarray(some))
            is_over = time.perf_counter() - began > limit * share
            if is_over or len(draws) >= look:
                look = 1.3 * len(draws)
                kept = np.swapaxes(draws[len(draws) // 10 :], 0, 1)
                ess = least_ess(kept) if np.isfinite(kept).all() else 0.0
                if is_over or ess >= ESS:
                    break
        seconds, passes = time.perf_counter() - began, len(draws) * GRADIENTS * size / n
        says = (
            f"h = {h:.2g}, batches of {size}: ESS {ess:.0f} of 8 x {len(draws)} draws, ten "
            "gradients each"
        )
        answer = Answer(*moments(kept), before + passes, {"mode": at_mode, "sample": seconds}, says)
        cell = judged(answer._asdict(), known(case.name))
        found.append(
            (float(np.nan_to_num(max(cell["worst_mean"], cell["worst_sd"]), nan=np.inf)), answer)
        )
    best = min(found, key=lambda one: one[0])[1]
    seconds = at_mode + sum(answer.parts["sample"] for _, answer in found)
    passes = before + sum(answer.passes - before for _, answer in found)
    says = (
        f"{best.says}; the best of {len(found)} by the reference, all took {seconds:.0f} s, "
        f"{passes:.0f} passes"
    )
    return {name: best._replace(says=says)}


def sgld(case: Regression, data: Data, limit: float) -> dict[str, Answer]:
    """SGLD at 1, 1/4 and 1/16 over the largest curvature."""
    kernel = library("blackjax.sgmcmc.sgld").build_kernel()
    name = "BlackJAX SGLD, control variates"
    return _best(case, data, limit, name, lambda curvature: 1 / curvature, kernel, GRADIENTS)


def sghmc(case: Regression, data: Data, limit: float) -> dict[str, Answer]:
    """SGHMC at 1/2, 1/8 and 1/32 over the root of it; its ten steps take one batch, its friction is
    its own.
    """
    build = library("blackjax.sgmcmc.sghmc").build_kernel()

    def kernel(*arguments: Any) -> jax.Array:
        return build(*arguments, GRADIENTS)

    name = "BlackJAX SGHMC, control variates"
    return _best(case, data, limit, name, lambda curvature: 0.5 / curvature**0.5, kernel, 1)
