"""Measure how the time of a step grows with n, b, d, the number of chains and M, and write it as
JSON.

    python -m benchmarks.cost.scaling

Logistic regression on synthetic data, one of the five varied at a time; README.md in this folder
says more. `python -m benchmarks.pages.scaling` draws it.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.cost.ours import posterior
from benchmarks.cost.settings import FRICTION, STEP_SIZE, Case, logistic_data
from benchmarks.cost.timed import timed
from benchmarks.cost.workload import WORKLOADS
from benchmarks.timing import load_average, machine, summarise

RUNS = 7
MICROSECONDS = 150_000
"""How long a run takes, about."""
PROTOCOL = (
    "Through ewsg_jax.sample without what precedes the first step, the last draw kept: SGLD, and "
    "EWSG where M varies. Microseconds per step and chain, medians and quartiles of runs after one "
    "thrown away. All points of a quantity are run in turn, so that the machine's other work falls "
    "on each. The line has the form that the theory tells, its numbers those of least relative "
    "squares."
)


class Size(NamedTuple):
    """What is varied: rows n, rows of a batch b, columns d, chains C, and M of EWSG (0: SGLD)."""

    n: int = 100_000
    b: int = 50
    d: int = 54
    chains: int = 1
    M: int = 0


class Axis(NamedTuple):
    """One quantity that varies.

    Attributes:
        values: of it.
        others: the other quantities.
        theory: the terms of the line as functions of the value, each with a factor of its own.
        told: the same in words.
    """

    values: tuple[int, ...]
    others: Size
    theory: tuple[Callable[[float], float], ...]
    told: str


def _one(x: float) -> float:
    return 1.0


AXES = {
    "n": Axis((1_000, 10_000, 100_000, 1_000_000), Size(), (_one,), "flat"),
    "b": Axis((10, 30, 100, 300, 1_000), Size(), (_one, float), "a + c b"),
    "d": Axis((5, 20, 54, 150, 400), Size(), (_one, float), "a + c d"),
    "chains": Axis((1, 3, 10, 30, 100, 300, 1_000), Size(), (lambda x: 1 / x, _one), "a / C + c"),
    "M": Axis((1, 2, 4, 8, 16), Size(chains=100), (lambda x: x + 1,), "c b (M + 1)"),
}


def fit(
    values: Sequence[float], times: Sequence[float], theory: Sequence[Callable[[float], float]]
) -> list[float]:
    """Return the factors of the theory's terms by least relative squares, none below 0.

    Example:
        >>> [round(x, 6) for x in fit([1, 2, 3], [5.0, 7.0, 9.0], (lambda x: 1.0, lambda x: x))]
        [3.0, 2.0]
    """
    terms = (
        np.array([[term(x) for term in theory] for x in values], float)
        / np.array(times, float)[:, None]
    )
    kept = list(range(terms.shape[1]))
    factors = np.zeros(terms.shape[1])
    while kept:
        found = np.linalg.lstsq(terms[:, kept], np.ones(len(terms)))[0]
        if (found >= 0).all():
            factors[kept] = found
            break
        kept.pop(int(found.argmin()))
    return factors.tolist()


def line(axis: Axis, factors: Sequence[float], value: float) -> float:
    """Return the theory's time at a value."""
    return sum(factor * term(value) for factor, term in zip(factors, axis.theory, strict=True))


def measure_axis(name: str, runs: int, duration: float) -> dict[str, Any]:
    """Return the times of a quantity's values and the line beside them."""
    axis = AXES[name]
    timers = [_timer(axis.others._replace(**{name: value}), duration) for value in axis.values]
    times = np.array([[run() for run in timers] for _ in range(runs)]).T
    summaries = [summarise(row.tolist()) for row in times]
    medians = [summary.median for summary in summaries]
    factors = fit(axis.values, medians, axis.theory)
    off = [
        time / line(axis, factors, value) for value, time in zip(axis.values, medians, strict=True)
    ]
    print(
        f"{name}: {[f'{x:.3g}' for x in medians]}, over {axis.told}: {[f'{x:.2f}' for x in off]}",
        flush=True,
    )
    return {
        "values": list(axis.values),
        "others": axis.others._replace(**{name: 0})._asdict(),
        "theory": axis.told,
        "factors": factors,
        "microseconds": [summary._asdict() for summary in summaries],
        "over_theory": off,
        "load_average": load_average(),
    }


def _timer(size: Size, duration: float) -> Callable[[], float]:
    """Return what times a run of about this many microseconds, compiled."""
    case = Case("logistic", "sghmc" if size.M else "sgld", size.chains, 1, False)
    target, h = posterior(case, WORKLOADS["logistic"]()), STEP_SIZE[case.method]
    if size.M:
        kernel = ewsg.ewsg(target, h, friction=FRICTION, batch_size=size.b, chain_length=size.M)
    else:
        kernel = ewsg.sgld(target, h, batch_size=size.b)
    data = jax.tree.map(jnp.asarray, logistic_data(size.n, size.d))
    start = jnp.zeros(size.d)
    steps = 50
    while True:  # until a run is long enough to be timed
        run = timed(kernel, start, data, size.chains, steps)
        taken = run() * steps * size.chains
        if taken > duration / 3:
            return run
        steps = int(np.ceil(steps * min(duration / taken, 100)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    parser = record.parser(__doc__, "scaling.json", RUNS)
    parser.add_argument(
        "--only", type=record.names(AXES), default=list(AXES), help=f"of {', '.join(AXES)}"
    )
    options = parser.parse_args(arguments)
    runs, shorten = record.extent(options, RUNS)
    before = machine()
    rows = [
        {"quantity": name} | measure_axis(name, runs, MICROSECONDS / shorten)
        for name in options.only
    ]
    record.write(options, PROTOCOL, runs, before, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
