"""Plan, sample, check on posteriors whose moments are known: `docs/plan_measured.md`.

    EWSG_JAX_DATA=… python -m benchmarks.pages.plans [--posteriors pima] [--draw]

The three calls as a newcomer makes them, with no option; then how far the normal approximation,
corrected, and the run's draws are from the reference. Written to `docs/plan.json`; some three
minutes on two cores. `--draw` makes the table alone.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ewsg_jax as ewsg
from benchmarks.pages.generated import as_table, renewed
from benchmarks.pages.posterior_data import PREPARE, rounded
from benchmarks.pages.posterior_problems import Problem, problem
from benchmarks.pages.posterior_verdicts import reference

DOCS = Path(__file__).parents[2] / "docs"
NUMBERS, PAGE = DOCS / "plan.json", DOCS / "plan_measured.md"
SEEDS = 3


def answer(name: str, made: Problem, seed: int) -> dict[str, Any]:
    """Return what three calls give, and how far off it is."""
    for_plan, for_run, for_check = jax.random.split(jax.random.key(seed), 3)
    started = time.perf_counter()
    plan = ewsg.plan(for_plan, made.posterior, made.center, made.data)
    planned = time.perf_counter()
    passes = plan.data_passes()
    samples = ewsg.sample(
        for_run,
        plan.kernel,
        plan.start,
        made.data,
        **plan.sample_options(),
        progress=False,
    )
    sampled = time.perf_counter()
    report = ewsg.check(for_check, samples, made.posterior, made.data)
    known = reference(name)

    def off(mean: np.ndarray, sd: np.ndarray) -> dict[str, float]:
        return {part: rounded(value) for part, value in known.worst(mean, sd).items()}

    values = own(made, samples.position)
    found: dict[str, Any] = {"raw": off(values.mean(0), values.std(0))}
    gaussian = plan.gaussian
    if gaussian is not None:
        moved = own(made, gaussian.report.correct(gaussian.draws))
        found["gaussian"] = off(moved.mean(0), moved.std(0)) | {"is_right": gaussian.is_right}
    best = plan.table[0].candidate if plan.table else None
    return found | {
        "way": str(best),
        "by_trials": plan.report is not None,
        "passes": rounded(passes * plan.num_chains),
        "outcome": report.outcome,
        "seconds": [rounded(planned - started), rounded(sampled - planned)],
    }


def own(made: Problem, draws: Any) -> np.ndarray:
    """Return the model's own parameters at draws of any leading axes, shape (draws, d)."""
    flat = draws.reshape(-1, draws.shape[-1])
    return np.asarray(jax.jit(jax.vmap(made.shifted))(flat), np.float64) + made.origin


def table(result: dict[str, Any]) -> str:
    """Return the table of the page: the worst of all seeds."""
    rows = []
    for name, runs in result.items():
        ways = {run["way"] + (" (by pilot runs)" if run["by_trials"] else "") for run in runs}
        raw, gaussian = (
            [max(run[kind][part] for run in runs) for part in ("mean", "sd")]
            for kind in ("raw", "gaussian")
        )
        outcomes = ", ".join(run["outcome"] for run in runs)
        passes = rounded(np.median([run["passes"] for run in runs]))
        off = (f"{mean:.2g} sd, {100 * sd:.2g} %" for mean, sd in (raw, gaussian))
        rows.append([name, "; ".join(sorted(ways)), f"{passes:g}", *off, outcomes])
    heads = [
        "posterior",
        "kernel",
        "passes of all chains",
        "run: worst mean, sd",
        "without a chain",
        "check says",
    ]
    return as_table(heads, rows)


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page with its table."""
    return renewed(text, "numbers", "benchmarks/pages/plans.py", table(result))


def main() -> None:
    """Plan what is asked for."""
    parser = argparse.ArgumentParser(
        description="Plan, sample, check on posteriors whose moments are known."
    )
    parser.add_argument("--posteriors", default=",".join(PREPARE))
    parser.add_argument("--draw", action="store_true")
    asked = parser.parse_args()
    result: dict[str, Any] = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
    for name in () if asked.draw else asked.posteriors.split(","):
        made = problem(name)
        result[name] = []
        for seed in range(SEEDS):
            result[name].append(answer(name, made, seed))
            print(f"{name:9} {result[name][-1]}", flush=True)
    NUMBERS.write_text(json.dumps(result, indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text(), result))


if __name__ == "__main__":
    main()
