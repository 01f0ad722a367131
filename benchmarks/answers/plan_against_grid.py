"""The kernel that a plan takes beside the best of a grid tuned by hand: passes for one effective
draw.

    EWSG_JAX_DATA=… python -m benchmarks.answers.plan_against_grid [--posteriors pima] [--draw]

On posteriors whose moments are known, in coordinates of unit scale: every dynamics and estimator of
the grid, at three batches and eight steps a factor √2 apart, each run with 8 chains for as many
effective draws as tell its law. Of those whose worst standard deviation is off by no more than half
of the tolerance, and means by twice as much, beyond what chance explains, the one that takes the
fewest passes is the best by hand, if it is so again in a run of eight times as long. The kernels of
plans are judged by such a run. Some five minutes a posterior on two cores.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

import ewsg_jax as ewsg
from benchmarks.pages.generated import as_table, renewed
from benchmarks.pages.plans import PAGE, own
from benchmarks.pages.posterior_data import PREPARE, rounded
from benchmarks.pages.posterior_problems import Problem, problem
from benchmarks.pages.posterior_verdicts import reference
from benchmarks.record import RESULTS
from benchmarks.timing import machine
from ewsg_jax.answers.check.mixing import least_ess

NUMBERS = RESULTS / "plan_against_grid.json"
TOLERANCE, CHANCE = 0.05, 2.5
"""Of a plan; and the standard errors by which the worst of some ten numbers is off by chance."""
NUM_CHAINS, NUM_STEPS, BURN_IN, MOST_KEPT = 8, 12_000, 400, 12_000
AGAIN = 8
"""Times as long is the run that a kernel is judged by in the end."""
SHARES = (32, 8, 2)
"""Of n, the batches that are tried."""
STEPS = tuple(float(2 ** (-k / 2)) for k in range(8))
"""In units of the posterior's width; of `langevin` the square of 1.2 times as much."""
FRICTIONS = (0.5, 1.0, 2.0)
BY = ("passes", "rows")
"""What plans are made by: gradients alone, as the best by hand is chosen; or with something for
each step.
"""


class Kind(NamedTuple):
    """A dynamics with its friction, an estimator and a batch; 0 rows are all."""

    dynamics: str
    friction: float
    estimator: str
    batch_size: int

    def __str__(self) -> str:
        size = f", b = {self.batch_size}" if self.batch_size else ""
        friction = f"(γ = {self.friction:g})" if self.friction else ""
        return f"{self.dynamics}{friction} + {self.estimator}{size}"

    def kernel(self, made: Problem, step: float) -> ewsg.Kernel:
        """Return it at a step size."""
        if self.dynamics == "langevin":
            moves: Any = ewsg.dynamics.langevin((1.2 * step) ** 2)
        elif self.dynamics == "splitting":
            moves = ewsg.dynamics.splitting(step, friction=self.friction)
        else:
            moves = ewsg.dynamics.palindrome(self.dynamics, step, friction=self.friction)
        if self.estimator == "full":
            return ewsg.kernel(moves, ewsg.gradients.full(made.posterior))
        options: dict[str, Any] = (
            {"center": made.center} if self.estimator == "control_variate" else {}
        )
        estimator = getattr(ewsg.gradients, self.estimator)(
            made.posterior, batch_size=self.batch_size, **options
        )
        return ewsg.kernel(moves, estimator)


def grid(num_rows: int) -> Iterator[Kind]:
    """Return all kinds."""
    for dynamics in ("langevin", "splitting", "BAOAB"):
        for friction in (0.0,) if dynamics == "langevin" else FRICTIONS:
            yield Kind(dynamics, friction, "full", 0)
            for estimator in ("uniform", "control_variate", "svrg", "saga"):
                for share in SHARES:
                    yield Kind(dynamics, friction, estimator, max(2, num_rows // share))


class Judged(NamedTuple):
    """What a run says of a kernel's law.

    Attributes:
        passes: over the data, for an effective draw.
        sd, mean: how far the worst is off the reference, relatively and in standard deviations.
        ess: effective draws of the run.
    """

    passes: float
    sd: float
    mean: float
    ess: float

    @property
    def is_right(self) -> bool:
        """Whether the law is within half of the tolerance, or may be."""
        if not self.ess > 0:
            return False
        by_chance = CHANCE / self.ess**0.5
        return self.sd < TOLERANCE / 2 + by_chance / 2**0.5 and self.mean < TOLERANCE + by_chance


def judged(name: str, made: Problem, samples: ewsg.Samples, per_step: float) -> Judged:
    """Return what a run says; `per_step` passes are those of a step."""
    if not samples.is_finite.all():
        return Judged(float("inf"), float("inf"), float("inf"), 0.0)
    known = reference(name)
    values = own(made, samples.position)
    ess = least_ess(values.reshape(*samples.position.shape[:2], -1))[0]
    steps = samples.num_chains * (samples.num_steps - BURN_IN)
    off = known.worst(values.mean(0), values.std(0))
    return Judged(steps * per_step / max(ess, 1e-9), off["sd"], off["mean"], ess)


def passes_of_step(kernel: ewsg.Kernel, made: Problem) -> float:
    """Return the passes over the data of a step, its part of a refresh among them."""
    cost = kernel.evaluations(made.data)
    return (cost.per_step + cost.per_refresh / max(1, cost.refresh_every)) / made.num_rows


def run(kernel: Any, made: Problem, seed: int, times: int = 1) -> Any:
    """Return samples of a kernel, or of a stack, from runs of so many times the usual steps."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", RuntimeWarning
        )  # steps that are too large are what is looked for
        return ewsg.sample(
            jax.random.key(seed),
            kernel,
            made.center,
            made.data,
            times * NUM_STEPS,
            num_chains=NUM_CHAINS,
            burn_in=BURN_IN,
            thin=max(1, times * NUM_STEPS // MOST_KEPT),
            progress=False,
        )


def best_by_hand(name: str, made: Problem) -> dict[str, Any]:
    """Return the best of the grid."""
    found: list[tuple[Judged, Kind, float]] = []
    for number, kind in enumerate(grid(made.num_rows)):
        kernels = [kind.kernel(made, step) for step in STEPS]
        per_step = passes_of_step(kernels[0], made)
        runs = run(ewsg.stack(kernels), made, number)
        found += [
            (judged(name, made, one, per_step), kind, step)
            for one, step in zip(runs, STEPS, strict=True)
        ]
    right = sorted((one for one in found if one[0].is_right), key=lambda one: one[0].passes)
    for number, (first, kind, step) in enumerate(right):
        # The best of many is so by chance, or its error was small by chance: it is run again, for
        # longer.
        kernel = kind.kernel(made, step)
        again = judged(
            name, made, run(kernel, made, 1_000 + number, AGAIN), passes_of_step(kernel, made)
        )
        # Its draws are thinned.
        again = again._replace(passes=first.passes)
        if again.is_right:
            told = {
                "kind": str(kind),
                "step": rounded(step),
                "tried": len(found),
                "too_hot": number,
            }
            return told | {key: rounded(value) for key, value in again._asdict().items()}
    raise ValueError(f"the grid must hold a kernel that is right; got none for {name}")


def planned(name: str, made: Problem, by: Any) -> dict[str, Any]:
    """Return what a plan takes, judged by a run of its kernel."""
    plan = ewsg.plan(
        jax.random.key(0), made.posterior, made.center, made.data, tolerance=TOLERANCE, by=by
    )
    first, found = (
        judged(
            name,
            made,
            run(plan.kernel, made, 2_000 + times, times),
            passes_of_step(plan.kernel, made),
        )
        for times in (1, AGAIN)
    )
    found = found._replace(passes=first.passes)
    first = plan.table[0]
    return {
        "way": str(first.candidate),
        "batch_size": first.batch_size,
        "step": rounded(first.step_size),
        "by_trials": plan.report is not None,
    } | {key: rounded(value) for key, value in found._asdict().items()}


def table(result: dict[str, Any]) -> str:
    """Return the table of the page."""
    rows = []
    for name, one in result["posteriors"].items():
        best = one["best"]
        row = [
            name,
            f"{best['kind']}, h = {best['step']:.2g}",
            f"{best['passes']:.3g} ({100 * best['sd']:.2g} %)",
        ]
        for by in BY:
            plan = one[by]
            ratio = plan["passes"] / best["passes"]
            row += [
                f"{plan['way']}, b = {plan['batch_size']}, h = {plan['step']:.2g}",
                f"{plan['passes']:.3g} ({100 * plan['sd']:.2g} %): {ratio:.2g} ×",
            ]
        rows.append(row)
    passes = "passes a draw (worst sd)"
    heads = ["posterior", "best by hand", passes, '`by="passes"`', passes, '`by="rows"`', passes]
    return as_table(heads, rows)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description="A plan's kernel beside the best of a grid.")
    parser.add_argument("--posteriors", default=",".join(PREPARE))
    parser.add_argument(
        "--plans", action="store_true", help="the plans alone, beside the grid that was run before"
    )
    parser.add_argument("--draw", action="store_true", help="the table alone")
    asked = parser.parse_args()
    result: dict[str, Any] = (
        json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {"posteriors": {}}
    )
    for name in () if asked.draw else asked.posteriors.split(","):
        started = time.perf_counter()
        made, one = problem(name), result["posteriors"].setdefault(name, {})
        if not asked.plans:
            one["best"] = best_by_hand(name, made)
        one.update({by: planned(name, made, by) for by in BY})
        one["seconds"] = rounded(time.perf_counter() - started)
        result["machine"] = machine()
        print(f"{name:9} {result['posteriors'][name]}", flush=True)
        NUMBERS.write_text(json.dumps(result, indent=1) + "\n")
    PAGE.write_text(
        renewed(PAGE.read_text(), "grid", "benchmarks/answers/plan_against_grid.py", table(result))
    )


if __name__ == "__main__":
    main()
