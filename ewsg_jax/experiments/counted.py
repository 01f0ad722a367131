"""Passes over the data, turned into steps; where steps cost what they turn out to, a run ahead measures it.

The randomness of a chain's step is a function of the key and the step's number, so the run ahead and the run proper
are the same chains, and their steps cost the same.
"""

import math
from collections.abc import Callable

import numpy as np

from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Data, Key, Position
from ewsg_jax.experiments.config import MOST_STEPS, Run
from ewsg_jax.experiments.tables import ConfigError
from ewsg_jax.gradients import Evaluations
from ewsg_jax.rows.gathering import num_rows
from ewsg_jax.sampling import sample
from ewsg_jax.sampling.budget import steps_reaching, steps_within

CLOSE = 0.01
"""What part of the passes need not be run ahead."""


def least_steps(label: str, cost: Evaluations, n: int, run: Run) -> int:
    """Return the steps that a budget allows for certain, at least one; `cost.per_step` is the most a step costs.

    Raises:
        ConfigError: the start alone, or the burn-in, takes the whole budget.
    """
    taken = max(run.burn_in_passes, cost.at_init / n)
    if run.data_passes <= taken:
        raise ConfigError(
            f"{label}: {run.data_passes:g} passes keep no draw, since burn-in and start take {taken:g} of them"
        )
    return max(1, steps_within(cost, n, run.data_passes))


def steps_of_passes(
    key: Key,
    kernel: Kernel,
    start: Position | Callable[[Key], Position],
    data: Data,
    num_chains: int,
    data_passes: float,
    burn_in_passes: float = 0.0,
) -> tuple[int, int]:
    """Return how many steps a number of passes over the data allows, and how many of them are burn-in.

    What a step of some methods costs drifts with the chain (the bright data of FlyMC grow as it leaves its centre),
    so that its beginning does not say what the rest costs: the whole run is made ahead, without draws.

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
        return steps_within(at_most, n, data_passes), steps_reaching(at_most, n, burn_in_passes)
    burn_in, budget = burn_in_passes * n, data_passes * n
    made, spent, per_step, state = [0], [float(at_most.at_init)], float(at_most.per_step), None
    for wanted in (burn_in, budget):
        while (left := wanted - spent[-1]) > CLOSE * wanted:
            # Not all that is left, nor more than were made: the next steps may cost more than the last.
            count = max(1, math.ceil(0.7 * left / per_step))
            part = sample(
                key,
                kernel,
                start if state is None else None,
                data,
                count if state is None else min(count, made[-1]),
                num_chains=num_chains,
                keep=None,
                state=state,
                progress=False,
            )
            if part.interrupted:
                raise KeyboardInterrupt
            # Evaluations of the start are in the first part's.
            spent.append((0.0 if state is None else spent[-1]) + part.gradient_evaluations / num_chains)
            made.append(made[-1] + part.num_steps)
            per_step = max((spent[-1] - spent[-2]) / part.num_steps, budget / MOST_STEPS)
            state = part.state

    def reached(evaluations: float) -> float:
        return np.interp(evaluations, spent, made) + max(0.0, evaluations - spent[-1]) / per_step

    first_kept = math.ceil(reached(burn_in)) + 1
    return max(first_kept, math.floor(reached(budget))), first_kept - 1
