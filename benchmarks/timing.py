"""Interleaved pairs of timings, their medians, and what a ratio says against its goal and floor."""

import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple


class Summary(NamedTuple):
    """Median and quartiles (linear between order statistics) of `size` measurements."""

    median: float
    lower: float
    upper: float
    size: int


class Pair(NamedTuple):
    """One run of ours and the run of the other that followed it, in any unit of time."""

    ours: float
    other: float


class Target(NamedTuple):
    """What a ratio should reach (`goal`) and must not miss (`floor`)."""

    goal: float
    floor: float
    higher_is_better: bool = True


def summarise(values: Sequence[float]) -> Summary:
    """Return the median and the quartiles.

    Raises:
        ValueError: there are no values, or one is not a positive number.

    Example:
        >>> summarise([4.0, 1.0, 3.0, 2.0, 5.0])
        Summary(median=3.0, lower=2.0, upper=4.0, size=5)
    """
    if not values or not all(value > 0 for value in values):
        raise ValueError(f"values must be positive numbers, at least one; got {list(values)}")
    if len(values) == 1:
        return Summary(values[0], values[0], values[0], 1)
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return Summary(median, lower, upper, len(values))


def interleave(ours: Callable[[], float], other: Callable[[], float], count: int) -> list[Pair]:
    """Run ours, other, ours, other, … and return `count` pairs; one pair before them is thrown
    away.

    Raises:
        ValueError: `count` is not positive.

    Example:
        >>> times = iter([9.0, 9.0, 1.0, 2.0])
        >>> interleave(lambda: next(times), lambda: next(times), 1)
        [Pair(ours=1.0, other=2.0)]
    """
    if count < 1:
        raise ValueError(f"count must be at least 1; got {count}")
    return [Pair(ours(), other()) for _ in range(count + 1)][1:]


def times_faster(pairs: Sequence[Pair]) -> Summary:
    """Summarise other / ours, the ratio of each pair: larger is better for ours.

    Example:
        >>> times_faster([Pair(1.0, 3.0), Pair(2.0, 4.0), Pair(1.0, 2.5)]).median
        2.5
    """
    return summarise([pair.other / pair.ours for pair in pairs])


def times_the_cost(pairs: Sequence[Pair]) -> Summary:
    """Summarise ours / other, the ratio of each pair: smaller is better for ours.

    Example:
        >>> times_the_cost([Pair(1.0, 4.0), Pair(2.0, 4.0), Pair(3.0, 4.0)]).median
        0.5
    """
    return summarise([pair.ours / pair.other for pair in pairs])


def fastest(measured: Mapping[str, Sequence[Pair]]) -> str:
    """Return the name with the lowest median time of the other side.

    Raises:
        ValueError: nothing was measured.

    Example:
        >>> fastest({"slow": [Pair(1.0, 9.0)], "quick": [Pair(2.0, 3.0)]})
        'quick'
    """
    if not measured:
        raise ValueError("no peer was measured")
    return min(measured, key=lambda name: statistics.median(pair.other for pair in measured[name]))


def verdict(value: float, target: Target) -> dict[str, Any]:
    """Return the goal, the floor and whether each holds; equality holds.

    Example:
        >>> verdict(2.0, Target(3.5, 1.5))
        {'goal': 3.5, 'floor': 1.5, 'goal_holds': False, 'floor_holds': True}
    """

    def holds(bound: float) -> bool:
        return value >= bound if target.higher_is_better else value <= bound

    return {
        "goal": target.goal,
        "floor": target.floor,
        "goal_holds": holds(target.goal),
        "floor_holds": holds(target.floor),
    }


def machine() -> dict[str, Any]:
    """Return what the numbers depend on besides the code: processor, cores, system,
    load average.
    """
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            model = next(
                (x.split(":")[1].strip() for x in lines if x.startswith("model name")), model
            )
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load_average": load_average(),
    }


def load_average() -> list[float]:
    """Return the load average over 1, 5 and 15 minutes; empty where the system has none."""
    return [round(x, 2) for x in os.getloadavg()] if hasattr(os, "getloadavg") else []
