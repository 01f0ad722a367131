"""Sample all of Covertype's columns with uniform rows and with rows by leverage, and write JSON.

    EWSG_JAX_DATA=… python -m benchmarks.answers.rare_rows

Some columns are 1 in a few rows alone (Soil_Type15: in 3 of 464,809). The result says how it was
done (`protocol`); `docs/mass_and_rows.md` tells what it shows, `python -m
benchmarks.pages.mass_and_rows` draws it.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.answers.by_importance import Reference, reference
from benchmarks.record import RESULTS
from benchmarks.timing import load_average, machine

BATCH_SIZE, FRICTION, NUM_CHAINS, NUM_KEPT = 1_000, 1.0, 8, 4_000
NUM_DRAWS = 20_000
"""Of the reference."""
PROTOCOL = (
    "Covertype, class 2 against the rest, the 464,809 training rows of a split with seed 0, all 54 "
    "columns standardised, with an intercept, prior N(0, I). Semi-implicit underdamped Langevin "
    "dynamics, friction 1, inverse mass the inverse of the curvature at the mode, control variates "
    "centred there, 1,000 rows a step with replacement, one batch a step for all eight chains, "
    "which start at draws of the Gaussian at the mode; a tenth of the steps is burn-in. Reference: "
    "importance sampling (by_importance.py), judged by its effective number of draws and by its "
    "halves. sd_ratio: of a run over the reference. mean_off: in the reference's sd. check: what "
    "ewsg_jax.check says of the draws, which sees no reference."
)


class Run(NamedTuple):
    """What is run: how rows are chosen, the step size in the units of the mode, and steps."""

    rows: str
    step_size: float
    num_steps: int


RUNS = (
    Run("uniform", 0.012, 400_000),
    Run("leverage", 0.012, 400_000),
    Run("leverage", 0.006, 400_000),
    Run("leverage", 0.03, 200_000),
    Run("leverage", 0.08, 50_000),
)


def load() -> ewsg.datasets.Dataset:
    """Return the training rows, standardised, with an intercept."""
    train, _ = ewsg.datasets.standardise(*ewsg.datasets.split(ewsg.datasets.covertype(), 0.2, 0))
    return train.with_intercept()


def at_mode(data: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Return the mode and the inverse of the curvature there."""
    start = jnp.zeros(data["x"].shape[1])
    posterior = ewsg.models.logistic_regression()
    mode = ewsg.find_mode(jax.random.key(0), posterior, start, data, progress=False)
    return np.asarray(mode.position), np.asarray(mode.covariance)


def stiffest(x: np.ndarray, covariance: np.ndarray) -> float:
    """Return the largest curvature that the rows can have anywhere, in the metric of the mode: of
    ¼XᵀX + I.
    """
    root = np.linalg.cholesky(covariance)
    rows = x.astype(np.float64)
    return float(np.linalg.eigvalsh(root.T @ (rows.T @ rows / 4 + np.eye(len(root))) @ root)[-1])


def measure(
    run: Run,
    data: dict[str, np.ndarray],
    mode: np.ndarray,
    covariance: np.ndarray,
    judged: Reference,
) -> dict[str, Any]:
    """Run and compare with the reference."""
    centre, inverse_mass = jnp.asarray(mode), jnp.asarray(covariance, jnp.float32)
    weighted = ewsg.rows.leverage(jnp.asarray(data["x"]), inverse_mass)
    law: Any = weighted if run.rows == "leverage" else "random"
    root = jnp.asarray(np.linalg.cholesky(covariance), jnp.float32)
    kernel = ewsg.kernel(
        ewsg.dynamics.semi_implicit(run.step_size, friction=FRICTION, inverse_mass=inverse_mass),
        ewsg.gradients.control_variate(
            ewsg.models.logistic_regression(), batch_size=BATCH_SIZE, center=centre, rows=law
        ),
    )
    samples = ewsg.sample(
        jax.random.key(3),
        kernel,
        lambda key: centre + root @ jax.random.normal(key, centre.shape),
        data,
        run.num_steps,
        num_chains=NUM_CHAINS,
        burn_in=run.num_steps // 10,
        thin=max(1, run.num_steps // NUM_KEPT),
        shared_minibatch=True,
        progress=False,
    )
    found = ewsg.diagnostics.summary(samples)
    ratio, off = found.sd / judged.sd, (found.mean - judged.mean) / judged.sd
    report = ewsg.check(jax.random.key(4), samples, ewsg.models.logistic_regression(), data)
    print(
        f"{run.rows}, h = {run.step_size}: sd × {ratio.min():.3f} to {ratio.max():.3f}, means up "
        f"to {np.abs(off).max():.3f} sd off, R-hat {found.worst_rhat:.3f}, "
        f"{samples.run_seconds:.0f} s; check: {report.verdict}",
        flush=True,
    )
    return {
        **run._asdict(),
        "sd_ratio": _rounded(ratio),
        "mean_off": _rounded(off),
        "worst_rhat": round(found.worst_rhat, 4),
        "least_ess": round(found.least_ess),
        "diverged": int((samples.diverged_at >= 0).sum()),
        "certain_rows": len(weighted.of_size(BATCH_SIZE).certain) if run.rows == "leverage" else 0,
        "check": {
            "outcome": report.outcome,
            "verdict": report.verdict,
            "bound": round(report.scores.bound, 2),
            "worst": {name: round(score.z, 1) for name, score in report.scores.worst.items()},
        },
        "seconds": round(samples.run_seconds, 1),
        "load_average": load_average(),
    }


def _rounded(values: np.ndarray) -> list[float]:
    return [float(f"{x:.4g}") for x in values]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument(
        "--quick", action="store_true", help="a hundredth of the steps: shows that all runs"
    )
    parser.add_argument(
        "--out", type=Path, default=RESULTS / "rare_rows.json", help="default %(default)s"
    )
    options = parser.parse_args(arguments)
    shorten = 100 if options.quick else 1
    before, train = machine(), load()
    data = train.rows()
    mode, covariance = at_mode(data)
    judged = reference(data["x"], data["y"], NUM_DRAWS // shorten)
    print(f"reference: ESS {judged.ess:.0f}, halves differ by {judged.halves}", flush=True)
    runs = [run._replace(num_steps=run.num_steps // shorten) for run in RUNS]
    result = {
        "protocol": PROTOCOL,
        "quick": options.quick,
        "machine": before,
        "versions": {"ewsg_jax": ewsg.__version__, "jax": jax.__version__, "numpy": np.__version__},
        "columns": train.feature_names,
        "rows_of_column": [int((column == column.max()).sum()) for column in data["x"].T],
        "separated": judged.separated,
        "stiffest": round(stiffest(data["x"], covariance)),
        "sd_at_mode": _rounded(np.sqrt(np.diag(covariance))),
        "reference": {
            "draws": NUM_DRAWS // shorten,
            "ess": round(judged.ess),
            "halves": _rounded(np.array(judged.halves)),
            "mean": _rounded(judged.mean),
            "sd": _rounded(judged.sd),
        },
        "runs": [measure(run, data, mode, covariance, judged) for run in runs],
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
