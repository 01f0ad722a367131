"""A budget, turned into steps."""

import bisect
import math
import numbers

from ewsg_jax.base import checks
from ewsg_jax.gradients import Evaluations

UNCOUNTABLE = 2**62
"""Steps that every larger budget comes to: runs refuse this many, and a range has no more."""


def steps_within(cost: Evaluations, n: int, data_passes: float, first_step: int = 0) -> int:
    """Return the most steps whose evaluations, `init` included, stay within these passes.

    Args:
        cost: evaluations per step and at init.
        n: rows of the data.
        data_passes: n evaluations of some ∇Vᵢ each; one chain's.
        first_step: the number of the first step, on which refreshes depend.

    Raises:
        TypeError, ValueError: `data_passes` is not a finite number.
    """
    if isinstance(data_passes, bool) or not isinstance(data_passes, numbers.Real):
        raise TypeError(
            f"data_passes must be a positive number; got {checks.describe(data_passes)}"
        )
    if not math.isfinite(data_passes):
        raise ValueError(f"data_passes must be a positive number; got {data_passes}")
    # A budget that is a whole number of steps must not lose one to rounding.
    budget = math.floor(float(data_passes) * n * (1 + 1e-12)) - cost.at_init
    at_most = range(min(max(0, budget // cost.per_step), UNCOUNTABLE) + 1)
    return (
        bisect.bisect_right(at_most, budget, key=lambda count: cost.of_steps(first_step, count)) - 1
    )


def steps_reaching(cost: Evaluations, n: int, data_passes: float) -> int:
    """Return the fewest steps whose evaluations, `init` included, reach these passes.

    Args:
        cost: evaluations per step and at init.
        n: rows of the data.
        data_passes: n evaluations of some ∇Vᵢ each; one chain's, finite.
    """
    wanted = math.ceil(float(data_passes) * n * (1 - 1e-12)) - cost.at_init
    enough = range(min(-(-max(0, wanted) // cost.per_step), UNCOUNTABLE) + 1)
    return bisect.bisect_left(enough, wanted, key=lambda count: cost.of_steps(0, count))


def num_steps_of(
    cost: Evaluations,
    n: int,
    num_steps: int | None,
    data_passes: float | None,
    seconds: float | None,
    first_step: int = 0,
) -> int:
    """Return the number of steps, given in either of its two forms.

    Raises:
        TypeError, ValueError: none or both are given, or what is given allows no step.
    """
    if (num_steps is None) == (data_passes is None):
        beside = (
            ""
            if seconds is None
            else f" beside seconds={seconds!r}, which may end a run before its last step"
        )
        raise ValueError(
            f"give either num_steps or data_passes; got num_steps={num_steps!r} and "
            f"data_passes={data_passes!r}{beside}"
        )
    if data_passes is None:
        return checks.integer("num_steps", num_steps)
    if cost.counted:
        if not cost.expected:
            raise ValueError(
                "data_passes must be None for a method whose steps cost what they turn out to: "
                f"give num_steps; got {data_passes!r}"
            )
        checks.positive("data_passes", data_passes)
        return max(1, round((float(data_passes) * n - cost.at_init) / float(cost.expected)))
    steps = steps_within(cost, n, data_passes, first_step)
    if steps < 1:
        raise ValueError(
            f"data_passes must allow at least one step, of {cost.per_step} evaluations after "
            f"{cost.at_init} at the start, with n = {n}; got {data_passes}"
        )
    return steps
