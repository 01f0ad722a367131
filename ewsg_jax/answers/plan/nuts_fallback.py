"""The no-U-turn sampler, if no kernel of a fixed step size is within tolerance.

It adapts the length of its trajectories to the position: along ridges that bend, into funnels.
It takes all rows, so it is tried only if these are few.
"""

import importlib.util

import numpy as np

from ewsg_jax.answers.mode.start import Among
from ewsg_jax.answers.plan import settings
from ewsg_jax.answers.plan.pilot_run import PilotRun, make_pilot_run
from ewsg_jax.answers.plan.request import PlanRequest
from ewsg_jax.answers.plan.run_requirements import ALL_STEPS
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base import rng
from ewsg_jax.base.typing import Key, Position
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.metropolis.nuts import next_step_size, nuts
from ewsg_jax.rows._view import num_rows
from ewsg_jax.run.sample import inner_run


def why_no_nuts(request: PlanRequest) -> str:
    """Return why NUTS cannot be tried, in words; empty if it can."""
    if request.names_methods:
        return "methods were named"
    if request.num_row_shards > 1 or num_rows(request.data) > settings.MAX_FULL_BATCH_ROWS:
        return f"it takes all rows in one place, up to {settings.MAX_FULL_BATCH_ROWS:,} of them"
    if importlib.util.find_spec("blackjax") is None:
        return "it needs BlackJAX: pip install 'ewsg_jax[nuts]'"
    return ""


def pilot_run_of_nuts(
    key: Key, request: PlanRequest, whitening: Whitening, starts: Among[Position]
) -> tuple[PilotRun, float] | None:
    """Return a pilot run of NUTS with an adapted step size, and the passes over the data that one
    of its steps takes; None if chains diverged. The run's passes include those of the adaptation.

    Args:
        key: a typed PRNG key.
        request: the posterior.
        whitening: its coordinates, by the chains of the warm-up.
        starts: the positions at which chains may start.
    """
    # The step size is adapted in at most six rounds of 32 steps.
    rounds, num_chains = 6, settings.NUM_PILOT_CHAINS
    for_start, for_pilot, *keys = rng.keys_of(key, 2 + rounds)
    # Each round is given the passes of a step, keeps its draws and has moments, as the pilot run:
    # so all share one program, which takes longer to compile than most rounds to run.
    step_size, state, spent, passes = 0.3, None, 0.0, 1.0
    start = starts.subset(for_start, num_chains)

    def kernel_of(passes: float) -> Kernel:
        return nuts(
            request.posterior,
            step_size,
            inverse_mass=whitening.inverse_mass,
            max_depth=settings.NUTS_MAX_DEPTH,
            passes_per_step=passes,
        )

    for for_round in keys:
        with request.timed("trials"):
            samples = inner_run(
                for_round,
                kernel_of(passes),
                start if state is None else None,
                request.data_for_runs,
                32,
                stacked=state is None,
                state=state,
                moments=ALL_STEPS,
                seconds=request.seconds_of_a_run,
            )
        state = samples.state
        spent += num_chains * samples.data_passes
        passes = max(1.0, samples.data_passes / samples.num_steps)
        if not samples.is_finite.all():
            return None
        acceptance = float(np.mean(samples.acceptance))
        is_near = abs(acceptance - settings.NUTS_ACCEPTANCE) <= 0.07
        is_over = spent > request.max_passes * num_chains
        if is_near or is_over or not request.has_time_for("steps that adapt that of NUTS"):
            break
        step_size = float(next_step_size(step_size, acceptance, settings.NUTS_ACCEPTANCE))
    assert state is not None
    # Chains start where the adaptation ended: it was far longer than the burn-in of a pilot run.
    kernel, reached = kernel_of(passes), state.position
    # Two steps of an effective draw are assumed before a pilot run shows it.
    pilot = make_pilot_run(for_pilot, request, kernel, 2.0, lambda _: reached)
    return pilot._replace(data_passes=spent + pilot.data_passes), passes
