"""What peers of `answers.py` share: a posterior's log density, when a run ends, and what must be installed.

A run ends when the worst mean has an effective sample size of `ESS` (bulk, ArviZ's), or when its time is over; then
what is left to the ESS is extrapolated by the draws that it takes and their gradients.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.answers_cases import Case
from benchmarks.answers_ours import ESS, NUM_CHAINS, Answer, Clock, Data, moments
from ewsg_jax.sampling.coordinates import array_statistics

AT_ONCE = 5
"""Transitions between two looks at the clock."""
FIRST_LOOK = 25
"""Draws of a chain between two looks at the effective sample size."""


def library(name: str) -> Any:
    """Return a module of a peer; `import` would make every reader of this folder need it."""
    return importlib.import_module(name)


def log_density(case: Case) -> Callable[[jax.Array, Data], jax.Array]:
    """Return the log density of a posterior, up to a constant: one matrix product forth, one back."""

    def of(position: jax.Array, data: Data) -> jax.Array:
        fitted = data["x"] @ position
        if case.is_linear:
            rows = -0.5 * jnp.square(data["y"] - fitted)
        else:  # as NumPyro has it: its derivative takes 0.7 times that of jax.nn.softplus
            rows = data["y"] * fitted - jnp.maximum(fitted, 0) - jnp.log1p(jnp.exp(-jnp.abs(fitted)))
        return jnp.sum(rows) - 0.5 * position @ position

    return of


def least_ess(draws: np.ndarray) -> float:
    """Return the bulk effective sample size of the worst mean of draws of shape (chain, draw, d)."""
    statistics = array_statistics()
    return float(np.min(statistics.ess(draws.astype(np.float64), chain_axis=0, draw_axis=1, method="bulk")))


class Sampler(NamedTuple):
    """A peer's chains.

    Attributes:
        state: where they are.
        warm: one piece of the warm-up, (state, piece) -> (state, gradients of each chain).
        warmed: ends the warm-up, state -> state.
        draw: state -> (state, positions of shape (draw, chain, d), gradients of each draw and chain).
        passes: spent before the first transition.
        passes_of_gradient: of one chain.
        passes_of_draw: beside its gradients, of one chain.
    """

    state: Any
    warm: Callable[[Any, int], tuple[Any, Any]]
    warmed: Callable[[Any], Any]
    draw: Callable[[Any], tuple[Any, Any, Any]]
    passes: float = 0.0
    passes_of_gradient: float = 1.0
    passes_of_draw: float = 0.0


def _summed(counts: Any) -> float:
    return float(np.sum(np.asarray(counts, np.float64)))


def run(sampler: Sampler, clock: Clock, limit: float, warm_up: int) -> Answer:
    """Warm up and draw until the worst mean has its effective sample size, or the time is over.

    Args:
        sampler: chains.
        clock: has told of what came before.
        limit: seconds.
        warm_up: steps, a multiple of `AT_ONCE`.
    """
    end = time.perf_counter() + limit - sum(clock.parts.values())
    state, gradients, warmed, draws, ess, told = sampler.state, 0.0, 0, [], 0.0, None
    in_step = 0.0  # as many gradients as the chains wait for: each is of all chains at once

    def passes(gradients: float, draws: int) -> float:
        each = sampler.passes_of_gradient * gradients + sampler.passes_of_draw * NUM_CHAINS * (warmed + draws)
        return sampler.passes + each

    for piece in range(warm_up // AT_ONCE):
        state, counts = sampler.warm(state, piece)
        gradients, in_step = gradients + _summed(counts), in_step + _summed(np.max(counts, -1))
        warmed += AT_ONCE
        if time.perf_counter() > end:
            clock.tick("warm-up")
            says = f"time over after {warmed} of {warm_up} steps of warm-up: {gradients / warmed / NUM_CHAINS:.0f} "
            return Answer(None, None, passes(gradients, 0), clock.parts, f"{says}gradients a step")
    state = sampler.warmed(state)
    clock.tick("warm-up")
    in_warm_up, look = gradients, FIRST_LOOK
    while True:
        state, positions, counts = sampler.draw(state)
        draws.extend(np.asarray(positions))
        gradients, in_step = gradients + _summed(counts), in_step + _summed(np.max(counts, -1))
        is_over = time.perf_counter() > end
        if len(draws) >= look or is_over:
            look = len(draws) + FIRST_LOOK
            ess = least_ess(np.swapaxes(draws, 0, 1))
            if ess >= ESS or is_over:
                break
    seconds, spent = clock.tick("sample"), passes(gradients, len(draws))
    a_draw = (gradients - in_warm_up) / len(draws) / NUM_CHAINS
    says = f"ESS {ess:.0f} of {NUM_CHAINS} x {len(draws)} draws after {warmed} steps of warm-up; "
    says += f"{in_warm_up / max(warmed, 1) / NUM_CHAINS:.0f} gradients a step there, {a_draw:.1f} a draw; "
    says += f"{in_step:.0f} gradients of all chains at once"
    if ess < ESS:
        more = ESS / ess - 1
        sampled = spent - passes(in_warm_up, 0)
        told = {"seconds": sum(clock.parts.values()) + more * seconds, "passes": spent + more * sampled}
        says += f"; time over, seconds and passes to ESS {ESS} extrapolated, errors are at this ESS"
    return Answer(*moments(np.array(draws)), spent, clock.parts, says, told)
