"""How many more draws would decide: the sentence of a verdict that asks for them."""

from typing import NamedTuple

import numpy as np


class AvailableDraws(NamedTuple):
    """The draws that there are, from which a longer run is computed.

    Attributes:
        used: the number of draws that were used, over all chains.
        total: the number of draws of all chains that count.
        default: the number that a check uses by itself if there are more.
        num_steps: the number of steps of each chain from the first draw to the last; 0 if unknown.
    """

    used: int
    total: int
    default: int
    num_steps: int


def advice(
    times: float,
    ess: float,
    has_more: bool,
    available: AvailableDraws | None,
    at_least: bool = False,
) -> str:
    """Return the sentence that asks for more of the draws, or for a longer run.

    Args:
        times: the effective draws that are needed over those that there are.
        ess: the effective draws that there are.
        has_more: whether unused draws would add information.
        available: the draws that there are; None if unknown, and then no number is given.
        at_least: whether `times` is only a lower bound.
    """
    if available is None:
        return "Use more of the draws (max_draws=)" if has_more else "Run longer"
    # Of more, a standard error is no measure of how many are needed.
    if not times <= 1_000:
        if has_more:
            return "Use more of the draws (max_draws=): how many it takes is not known"
        return "Run longer: ten times as long will say how much more it takes"
    if has_more and times * available.used <= available.total:
        return f"Use more of the draws (max_draws={_rounded_up(times * available.used)})"
    # If all draws are used first, the run is longer by what these do not give.
    longer = times * available.used / available.total if has_more else times
    about = "at least " if at_least else "some "
    steps = ""
    if available.num_steps:
        steps = f", {_rounded_up(longer * available.num_steps):,} steps of each chain"
    needed = times * ess
    # A check uses twice as many draws as are needed, so that half of them may be correlated.
    more = f", and check with max_draws={_rounded_up(2 * needed)}"
    return (
        f"Run {about}{_rounded_up(longer):g} times as long (to an ESS of "
        f"{about}{_rounded_up(needed):,}{steps}){more if 2 * needed > available.default else ''}"
    )


def _rounded_up(value: float) -> int | float:
    """Return a number with two digits, rounded up."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    rounded = float(np.ceil(value / unit - 1e-9)) * unit
    return round(rounded) if rounded >= 10 else round(rounded, 1)
