"""Measure what a step of each named method with minibatches costs against one of SGLD, and write it
as JSON.

    python -m benchmarks.cost.method

Both ours, on the logistic regression of `workload.py` (464,809 rows, 54 features, b = 50); the
thermostat against SGHMC as well. See README.md in this folder for how pairs are timed.
"""

import inspect
import sys
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.cost.bench import chain_words, line
from benchmarks.cost.ours import Ours, posterior
from benchmarks.cost.peers import device_data
from benchmarks.cost.settings import FRICTION, STEP_SIZE, Case
from benchmarks.cost.workload import WORKLOADS
from benchmarks.timing import Target, interleave, machine

PAIRS = 7
TARGETS = {("sgnht", "sghmc"): Target(1.1, 1.3, False), ("psgld", "sgld"): Target(1.1, 1.3, False)}
"""The goal and the floor of some pairs; the others are measured without one."""
CHAINS = {1: 20_000, 100: 400}
"""How many chains, and how many steps each makes in a run."""
OPTIONS: dict[str, Any] = {
    "friction": FRICTION,
    "labels": lambda data: (data["y"] > 0).astype(jnp.int32),
    "num_strata": 2,
    "structure": "diagonal",
    "inverse_metric": lambda position, data: 1 / (1 + position**2),
}
PROTOCOL = (
    "Interleaved pairs (method, other, method, …) after one pair thrown away; the ratio of each "
    "pair, then its median and quartiles. Through ewsg_jax.sample without what precedes the first "
    "step, the last draw kept, default options but for diagonal covariances. Microseconds per step "
    "and chain. Methods that refresh, every n/b = 9,297 steps, do so in the first step of a run "
    "and, with one chain, twice more."
)


class Run(Ours):
    """A named method through `ewsg_jax.sample`, compiled."""

    def __init__(self, name: str, num_chains: int, num_steps: int, data: Any) -> None:
        workload = WORKLOADS["logistic"]()
        case = Case("logistic", name, num_chains, num_steps, False)
        build = ewsg.METHODS[name].build
        takes = inspect.signature(build).parameters
        options = {key: value for key, value in OPTIONS.items() if key in takes}
        # Matrix friction wants hΓ < 2, and the minibatch's covariance is large here.
        has_small_step = "friction" not in takes or "noise_corrected" in ewsg.METHODS[name].dynamics
        h = STEP_SIZE["sgld" if has_small_step else "sghmc"]
        self._kernel = build(
            posterior(case, workload), h, batch_size=workload.batch_size, **options
        )
        self._data, self._position = data, jnp.asarray(workload.position)
        self._steps, self._chains, self._keep_all = num_steps, num_chains, False
        self._runs = 0
        self.compile_seconds = self._sample().compile_seconds


def against(name: str) -> list[str]:
    """Return what a method is timed against."""
    return [
        other
        for other in ("sgld", "sghmc")
        if other != name and (other == "sgld" or (name, other) in TARGETS)
    ]


def measure(name: str, pairs: int, shorten: int, data: Any) -> list[dict[str, Any]]:
    """Measure the rows of one method."""
    rows = []
    for num_chains, num_steps in CHAINS.items():
        steps = max(2, num_steps // shorten)
        ours = Run(name, num_chains, steps, data)
        for other in against(name):
            measured = interleave(
                ours.run_loop, Run(other, num_chains, steps, data).run_loop, pairs
            )
            target = TARGETS.get((name, other))
            row = record.row(
                f"{name} against {other}, {chain_words(num_chains)}",
                measured,
                target,
                (name, other),
                cell=name,
                method=name,
                other=other,
                num_chains=num_chains,
                num_steps=steps,
            )
            print(record.told(row) if target is None else line(row), flush=True)
            rows.append(row)
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    names = [
        name
        for name, m in ewsg.METHODS.items()
        if "batch_size" in inspect.signature(m.build).parameters
    ]
    parser = record.parser(__doc__, "method_cost.json", PAIRS)
    parser.add_argument(
        "--only", type=record.names(names), default=names, help=f"of {', '.join(names)}"
    )
    options = parser.parse_args(arguments)
    pairs, shorten = record.extent(options, PAIRS)
    before, data = machine(), device_data("logistic")
    rows = [
        row for name in options.only if against(name) for row in measure(name, pairs, shorten, data)
    ]
    record.write(options, PROTOCOL, pairs, before, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
