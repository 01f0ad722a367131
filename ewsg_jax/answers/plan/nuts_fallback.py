"""Where no step of minibatches or of full gradients gets round a posterior, the no-U-turn sampler
may.

It adapts the length of its paths to where a chain is, as no fixed step does: along ridges that
bend, into funnels. It takes all rows, so it is tried where these are few.
"""

import importlib.util

import numpy as np

from ewsg_jax.answers.mode.start import Among
from ewsg_jax.answers.plan.request import Asked
from ewsg_jax.answers.plan.trial import NUM_CHAINS, Trial, trial
from ewsg_jax.answers.plan.warm_up import FULL
from ewsg_jax.answers.plan.whitening import Frame
from ewsg_jax.base import rng
from ewsg_jax.base.typing import Key, Position
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.metropolis.nuts import next_step_size, nuts
from ewsg_jax.rows._view import num_rows
from ewsg_jax.run.internal_run import inner_run

FIRST, TARGET, NEAR = 0.3, 0.8, 0.07
"""The first step in the units of the metric, the acceptance that is aimed at, and how near to it is
near enough.
"""
STEPS, ROUNDS = 32, 6
"""Steps of a chain by which its acceptance is measured, and how often at most."""
MAX_DEPTH = 8
MEMORY = 2.0
"""Steps that an effective draw takes before a trial says it."""


def why_not(asked: Asked) -> str:
    """Return why it cannot be tried, in words; empty where it can."""
    if asked.names_methods:
        return "methods were named"
    if asked.parts > 1 or num_rows(asked.data) > FULL:
        return f"it takes all rows in one place, up to {FULL:,} of them"
    if importlib.util.find_spec("blackjax") is None:
        return "it needs BlackJAX: pip install 'ewsg_jax[nuts]'"
    return ""


def by_nuts(
    key: Key, asked: Asked, frame: Frame, among: Among[Position]
) -> tuple[Trial, float] | None:
    """Return a trial of NUTS with its step adapted, its passes with those of the search for the
    step; and how many passes a step takes. None where its chains diverged.

    Args:
        key: a typed PRNG key.
        asked: of which posterior.
        frame: its units, by the chains of the warm-up.
        among: where chains may start.
    """
    for_start, for_trial, *keys = rng.keys_of(key, 2 + ROUNDS)
    step_size, state, spent, passes = FIRST, None, 0.0, 1.0
    start = among.subset(for_start, NUM_CHAINS)

    def kernel_of(passes: float | None) -> Kernel:
        return nuts(
            asked.posterior,
            step_size,
            inverse_mass=frame.inverse_mass,
            max_depth=MAX_DEPTH,
            passes_per_step=passes,
        )

    for own in keys:
        with asked.timed("trials"):
            samples = inner_run(
                own,
                kernel_of(None),
                start if state is None else None,
                asked.given,
                STEPS,
                stacked=state is None,
                state=state,
                keep=None,
            )
        state = samples.state
        spent += NUM_CHAINS * samples.data_passes
        passes = max(1.0, samples.data_passes / STEPS)
        if not samples.is_finite.all():
            return None
        acceptance = float(np.mean(samples.acceptance))
        if abs(acceptance - TARGET) <= NEAR or spent > asked.max_passes * NUM_CHAINS:
            break
        step_size = float(next_step_size(step_size, acceptance, TARGET))
    assert state is not None
    # From where its chains have come to: far more steps than a trial's burn-in.
    kernel, reached = kernel_of(passes), state.position
    tried = trial(for_trial, asked, kernel, MEMORY, lambda _: reached)
    return tried._replace(data_passes=spent + tried.data_passes), passes
