"""Passes over the data, turned into steps; a run ahead counts steps of random cost.

The randomness of a chain's step is a function of the key and the step's number, so the run ahead
and the run proper are the same chains, and their steps cost the same.
"""

import math
from collections.abc import Callable

import numpy as np

import ewsg_jax as ewsg
from ewsg_jax._types import Data, Key, Position
from ewsg_jax.experiments.config import MOST_STEPS
from ewsg_jax.rows.view import num_rows
from ewsg_jax.sampling.budget import steps_reaching, steps_within

CLOSE = 0.01
"""What part of the passes need not be run ahead."""


def least_steps(
    kernel: ewsg.Kernel, data: Data, data_passes: float, burn_in_passes: float
) -> tuple[int, int]:
    """Return the steps of a budget and those of its burn-in, known before a run.

    Of a kernel whose steps have a random cost: the fewest steps that the budget may allow, without
    a burn-in.

    Raises:
        ValueError: the budget is not a positive number, or taken by the start alone.
    """
    n, cost = num_rows(data), kernel.evaluations(data)
    num_steps = steps_within(cost, n, data_passes)
    if not cost.counted:
        return num_steps, steps_reaching(cost, n, burn_in_passes)
    taken = max(burn_in_passes, cost.at_init / n)
    if data_passes <= taken:
        raise ValueError(
            f"{data_passes:g} passes keep no draw, since burn-in and start take {taken:g} of them"
        )
    return max(1, num_steps), 0


def steps_of_passes(
    key: Key,
    kernel: ewsg.Kernel,
    start: Position | Callable[[Key], Position],
    data: Data,
    num_chains: int,
    data_passes: float,
    burn_in_passes: float = 0.0,
) -> tuple[int, int]:
    """Return how many steps a number of passes over the data allows, and how many of them are
    burn-in.

    The cost of a step of some methods drifts with the chain (the bright data of FlyMC grow as it
    leaves its centre), so that its beginning does not say what the rest costs: the whole run is
    made ahead, without draws.

    Args:
        key: that of the run, a typed PRNG key.
        kernel: the kernel, or a stack of kernels.
        start: where chains start, as `ewsg_jax.sample` takes it.
        data: all n rows.
        num_chains: chains of the run.
        data_passes: passes of each chain, the start and refreshes included.
        burn_in_passes: passes that no draw is kept of.

    Raises:
        KeyboardInterrupt: an interrupt ended the run ahead.
    """
    n, at_most = num_rows(data), kernel.evaluations(data)
    if not at_most.counted:
        return least_steps(kernel, data, data_passes, burn_in_passes)
    burn_in, budget = burn_in_passes * n, data_passes * n
    options = {"num_chains": num_chains, "keep": None, "progress": False}
    # Steps made and evaluations spent after each part.
    made, spent, per_step, state = [0], [float(at_most.at_init)], float(at_most.per_step), None
    for wanted in (burn_in, budget):
        while (left := wanted - spent[-1]) > CLOSE * wanted:
            # Not all that is left, nor more than were made: the next steps may cost more than the
            # last.
            count = max(1, math.ceil(0.7 * left / per_step))
            if state is None:
                part = ewsg.sample(key, kernel, start, data, count, **options)
                before = 0.0  # The first part counts the evaluations of the start too.
            else:
                count, before = min(count, made[-1]), spent[-1]
                part = ewsg.sample(key, kernel, None, data, count, state=state, **options)
            if part.interrupted:
                raise KeyboardInterrupt
            spent.append(before + part.gradient_evaluations / num_chains)
            made.append(made[-1] + part.num_steps)
            per_step = max((spent[-1] - spent[-2]) / part.num_steps, budget / MOST_STEPS)
            state = part.state
    reached = np.interp((burn_in, budget), spent, made)
    reached += np.maximum(0.0, np.array((burn_in, budget)) - spent[-1]) / per_step
    first_kept = math.ceil(reached[0]) + 1
    return max(first_kept, math.floor(reached[1])), first_kept - 1
