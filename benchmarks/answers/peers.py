"""What peers of `answers.py` share: when a run ends, and how a package is imported.

A run ends when the worst mean has an effective sample size of `ESS` (bulk, ArviZ's), or when its
time is over; then what is left to the ESS is extrapolated by the draws that it takes and their
gradients.
"""

import importlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.answers.ours import ESS, NUM_CHAINS, Answer, Clock, least_ess, moments

AT_ONCE = 5
"""Transitions of one call of a program, between two looks at the clock."""
FIRST_LOOK = 25
"""Draws of a chain before the first look at the effective sample size; an eighth more before each
other.
"""


def library(name: str) -> Any:
    """Return a module of a peer; `import` would make every reader of this folder need it."""
    return importlib.import_module(name)


class Sampler(NamedTuple):
    """A peer's chains.

    Attributes:
        state: where they are.
        warm: one piece of the warm-up, (state, piece) -> (state, gradients of each chain).
        warmed: ends the warm-up, state -> state.
        draw: state -> (state, positions of shape (draw, chain, d), gradients of each draw and
            chain).
        passes: spent before the first transition.
        passes_of_gradient: of one chain.
        passes_of_draw: beside its gradients, of one chain.
        num_chains: there are.
        at_once: transitions of a piece, and draws of one call.
    """

    state: Any
    warm: Callable[[Any, int], tuple[Any, Any]]
    warmed: Callable[[Any], Any]
    draw: Callable[[Any], tuple[Any, Any, Any]]
    passes: float = 0.0
    passes_of_gradient: float = 1.0
    passes_of_draw: float = 0.0
    num_chains: int = NUM_CHAINS
    at_once: int = AT_ONCE


def _summed(counts: Any) -> float:
    return float(np.sum(np.asarray(counts, np.float64)))


def run(sampler: Sampler, clock: Clock, limit: float, warm_up: int) -> Answer:
    """Warm up and draw until the worst mean has its effective sample size, or the time is over.

    Args:
        sampler: chains.
        clock: has told of what came before; looks at the sample size are not timed.
        limit: seconds.
        warm_up: steps, a multiple of those of a piece.
    """
    end = time.perf_counter() + limit - sum(clock.parts.values())
    state, gradients, warmed, draws, ess, told = sampler.state, 0.0, 0, [], 0.0, None
    chains = sampler.num_chains
    in_step = 0.0  # as many gradients as the chains wait for: each is of all chains at once

    def passes(gradients: float, draws: int) -> float:
        each = sampler.passes_of_gradient * gradients + sampler.passes_of_draw * chains * (
            warmed + draws
        )
        return sampler.passes + each

    for piece in range(warm_up // sampler.at_once):
        state, counts = sampler.warm(state, piece)
        gradients, in_step = gradients + _summed(counts), in_step + _summed(np.max(counts, -1))
        warmed += sampler.at_once
        if time.perf_counter() > end:
            clock.tick("warm-up")
            says = (
                f"time over after {warmed} of {warm_up} steps of warm-up: "
                f"{gradients / warmed / chains:.0f} "
            )
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
            look = len(draws) + max(FIRST_LOOK, len(draws) // 8)
            clock.tick("sample")
            ess = least_ess(np.swapaxes(draws, 0, 1))
            clock.skip()
            if ess >= ESS or is_over:
                break
    seconds, spent = clock.tick("sample"), passes(gradients, len(draws))
    a_draw = (gradients - in_warm_up) / len(draws) / chains
    says = f"ESS {ess:.0f} of {chains} x {len(draws)} draws after {warmed} steps of warm-up; "
    says += (
        f"{in_warm_up / max(warmed, 1) / chains:.0f} gradients a step there, {a_draw:.1f} a draw; "
    )
    says += f"{in_step:.0f} gradients of all chains at once"
    if ess < ESS:
        more = ESS / ess - 1
        sampled = spent - passes(in_warm_up, 0)
        told = {
            "seconds": sum(clock.parts.values()) + more * seconds,
            "passes": spent + more * sampled,
        }
        says += f"; time over, seconds and passes to ESS {ESS} extrapolated, errors are at this ESS"
    known = {"least_ess": ess, "gradients_in_step": in_step} | clock.told()
    return Answer(*moments(np.array(draws)), spent, clock.parts, says, told, known)
