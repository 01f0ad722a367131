"""From raw data to an answer, and how far off it is: seconds and passes, everything included.

    EWSG_JAX_DATA=… python -m benchmarks.answers [--cases covertype_46] [--answers plan] [--references]

Each answer is worked out in a process of its own; importing and loading apart, its seconds hold everything: finding
the mode, planning, compiling. References are importance sampling for all columns of Covertype, and for the others
two long runs at two step sizes, which must agree (`--references` makes them, some minutes each).
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.rare_rows import load
from benchmarks.timing import load_average, machine
from ewsg_jax import dynamics, gradients

NUM_CHAINS, ESS, FEWEST = 8, 1_000, 20
SYNTHETIC = 5_000_000, 30
MODEL = ewsg.models.logistic_regression()
REFERENCES = record.RESULTS / "answers_references.json"
PROTOCOL = (
    "Logistic regression with the prior N(0, I) on standardised columns and an intercept, 8 chains. Seconds from "
    "the loaded data to the answer, in a new process, programs compiled in it. Errors: the worst mean in sds of "
    "the reference, and the worst sd relatively; passes over the data, all chains together."
)


class Answer(NamedTuple):
    """Means, standard deviations and what they cost.

    Attributes:
        mean: shape (d,).
        sd: shape (d,).
        passes: over the data.
        parts: seconds of each part, in order.
        says: what is said of it.
    """

    mean: np.ndarray
    sd: np.ndarray
    passes: float
    parts: dict[str, float]
    says: str = ""


def covertype(all_columns: bool) -> dict[str, jax.Array]:
    """Return Covertype's training rows, with all columns or those of which both classes have twenty rows."""
    rows = load()
    x: np.ndarray = np.asarray(rows.x)
    y: np.ndarray = np.asarray(rows.y)
    if not all_columns:
        counts = [min(np.count_nonzero(column[y == label] == column.max()) for label in (0, 1)) for column in x.T]
        are_two = [len(np.unique(column)) == 2 for column in x.T]
        x = x[:, np.array([not two or count >= FEWEST for two, count in zip(are_two, counts, strict=True)])]
    return {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(y)}


def synthetic() -> dict[str, jax.Array]:
    """Return five million rows."""
    n, d = SYNTHETIC
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d), np.float32)
    x[:, 0] = 1
    chance = 1 / (1 + np.exp(-x @ (rng.standard_normal(d) / 4).astype(np.float32)))
    return {"x": jnp.asarray(x), "y": jnp.asarray(rng.random(n) < chance, jnp.float32)}


CASES: dict[str, Callable[[], dict[str, jax.Array]]] = {
    "covertype_46": lambda: covertype(False),
    "covertype": lambda: covertype(True),
    "synthetic": synthetic,
}


def _mode(data: dict[str, jax.Array]) -> ewsg.Mode:
    return ewsg.find_mode(jax.random.key(0), MODEL, jnp.zeros(data["x"].shape[1]), data, progress=False)


def _moments(draws: Any) -> tuple[np.ndarray, np.ndarray]:
    flat = np.asarray(draws, np.float64).reshape(-1, draws.shape[-1])
    return flat.mean(0), flat.std(0)


def _corrected(report: ewsg.Report) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(report.corrected.mean, np.float64), np.asarray(report.corrected.sd, np.float64)


class Clock:
    """Seconds of parts."""

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self._last = time.perf_counter()

    def tick(self, name: str) -> None:
        """Say what has just been done."""
        now = time.perf_counter()
        self.parts[name], self._last = now - self._last, now


def laplace(data: dict[str, jax.Array]) -> dict[str, Answer]:
    """The normal approximation at the mode, and corrected."""
    clock = Clock()
    mode = _mode(data)
    clock.tick("mode")
    found = {"laplace": Answer(np.asarray(mode.position), np.asarray(mode.sd), mode.data_passes, dict(clock.parts))}
    keys = jax.random.split(jax.random.key(1), (NUM_CHAINS, 500))
    draws = jax.vmap(jax.vmap(lambda key: mode.start(key, 1.0)))(keys)
    report = ewsg.check(jax.random.key(2), draws, MODEL, data)
    clock.tick("check")
    passes = mode.data_passes + report.data_passes
    found["laplace, corrected"] = Answer(*_corrected(report), passes, clock.parts, report.outcome)
    return found


def planned(data: dict[str, jax.Array]) -> dict[str, Answer]:
    """Three calls: plan, sample, check."""
    clock = Clock()
    plan = ewsg.plan(jax.random.key(1), MODEL, jnp.zeros(data["x"].shape[1]), data)
    clock.tick("plan")
    found, spent = {}, plan.data_passes_spent
    if plan.gaussian is not None and plan.gaussian.is_right:
        answer = _corrected(plan.gaussian.report)
        found["plan, no chain"] = Answer(*answer, spent, dict(clock.parts), plan.gaussian.verdict)
    passes = plan.data_passes(ess=ESS)
    # One batch for all chains: their noise is a small part of what moves them.
    shared = plan.kernel.uses_batches
    run: dict[str, Any] = {"num_chains": NUM_CHAINS, "burn_in": plan.burn_in, "data_passes": passes}
    samples = ewsg.sample(
        jax.random.key(2), plan.kernel, plan.start, data, shared_minibatch=shared, progress=False, **run
    )
    clock.tick("sample")
    spent += passes if shared else NUM_CHAINS * passes
    found["plan and sample"] = Answer(*_moments(samples.position), spent, dict(clock.parts), repr(plan.kernel))
    report = ewsg.check(jax.random.key(3), samples, MODEL, data)
    clock.tick("check")
    spent += report.data_passes
    found["plan, sample, check"] = Answer(*_corrected(report), spent, clock.parts, report.verdict)
    return found


def full(data: dict[str, jax.Array]) -> dict[str, Answer]:
    """Full gradients, preconditioned at the mode: as many steps as a normal posterior needs for the ESS."""
    clock = Clock()
    mode = _mode(data)
    clock.tick("mode")
    kernel = ewsg.uld(MODEL, 0.7, friction=1.0, integrator="splitting", inverse_mass=mode.inverse_mass)
    memory = 3.0
    steps = round(memory * (8 + ESS / NUM_CHAINS))
    run: dict[str, Any] = {"num_chains": NUM_CHAINS, "burn_in": round(8 * memory), "progress": False}
    samples = ewsg.sample(jax.random.key(1), kernel, mode.start, data, steps, **run)
    clock.tick("sample")
    passes = mode.data_passes + NUM_CHAINS * samples.data_passes
    return {"full gradients": Answer(*_moments(samples.position), passes, clock.parts)}


PAGE = Path(__file__).parents[1] / "docs" / "plan.md"
BEGIN, END = "<!-- answers: made by benchmarks/answers.py -->", "<!-- /answers -->"
TITLES = {
    "covertype_46": "Covertype, 46 columns",
    "covertype": "Covertype, all columns",
    "synthetic": "five million rows, 30 columns",
}
ANSWERS = {"laplace": laplace, "plan": planned, "full": full}


def reference(data: dict[str, jax.Array]) -> dict[str, Any]:
    """Return the moments of a long run, and how far those of one at twice the step are from them."""
    mode = _mode(data)
    center = ewsg.check(
        jax.random.key(5),
        jax.vmap(jax.vmap(lambda key: mode.start(key, 1.0)))(jax.random.split(jax.random.key(4), (8, 500))),
        MODEL,
        data,
    ).corrected.mean
    law = ewsg.rows.leverage(data["x"], np.asarray(mode.covariance))
    found = []
    for h, seed in ((0.1, 6), (0.05, 7)):
        kernel = ewsg.kernel(
            dynamics.splitting(h, friction=1.0, inverse_mass=mode.inverse_mass),
            gradients.control_variate(MODEL, batch_size=2_048, center=jnp.asarray(center, jnp.float32), rows=law),
        )
        run: dict[str, Any] = {"num_chains": NUM_CHAINS, "shared_minibatch": True, "progress": False}
        steps = round(8_000 / h)
        samples = ewsg.sample(
            jax.random.key(seed), kernel, mode.start, data, steps, burn_in=steps // 20, thin=5, **run
        )
        found.append(_moments(samples.position))
    (mean, sd), (finer_mean, finer_sd) = found
    return {
        "mean": finer_mean.tolist(),
        "sd": finer_sd.tolist(),
        "means_apart": float(np.max(np.abs(mean - finer_mean) / finer_sd)),
        "sds_apart": float(np.max(np.abs(sd / finer_sd - 1))),
    }


def known(case: str) -> dict[str, Any]:
    """Return the reference of a case."""
    if case == "covertype":
        return json.loads((record.RESULTS / "rare_rows.json").read_text())["reference"]
    return json.loads(REFERENCES.read_text())[case]


def judged(answer: dict[str, Any], against: dict[str, Any]) -> dict[str, Any]:
    """Return how far off an answer is, and what it cost."""
    mean, sd = np.array(against["mean"]), np.array(against["sd"])
    off, ratio = np.abs(np.array(answer["mean"]) - mean) / sd, np.array(answer["sd"]) / sd
    return {
        "worst_mean": float(off.max()),
        "worst_sd": float(np.abs(ratio - 1).max()),
        "rms_mean": float(np.sqrt(np.mean(off**2))),
        "rms_sd": float(np.sqrt(np.mean((ratio - 1) ** 2))),
        "seconds": round(sum(answer["parts"].values()), 2),
        "parts": {name: round(value, 2) for name, value in answer["parts"].items()},
        "passes": round(answer["passes"], 1),
        "says": answer["says"],
    }


def table(result: dict[str, Any]) -> str:
    """Return the table of the page."""
    lines = [
        "| data | answer | worst mean | worst sd | seconds | passes |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for case, cells in result["cases"].items():
        for name, cell in cells.items():
            off = f"{cell['worst_mean']:.3f} sd | {100 * cell['worst_sd']:.1f} %"
            lines.append(f"| {TITLES[case]} | {name} | {off} | {cell['seconds']:.0f} | {cell['passes']:,.0f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Answer what is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--cases", type=record.names(CASES), default=list(CASES))
    parser.add_argument("--answers", type=record.names(ANSWERS), default=list(ANSWERS))
    parser.add_argument("--references", action="store_true", help="make the references of these cases")
    parser.add_argument("--out", type=Path, default=record.RESULTS / "answers.json")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.worker is not None:
        data = jax.block_until_ready(CASES[asked.cases[0]]())
        found = ANSWERS[asked.answers[0]](data)
        told = {
            name: each._asdict() | {"mean": each.mean.tolist(), "sd": each.sd.tolist()}
            for name, each in found.items()
        }
        asked.worker.write_text(json.dumps(told))
        return 0
    if asked.references:
        stored = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
        for case in asked.cases:
            if case != "covertype":
                stored[case] = reference(CASES[case]())
                print(case, {name: stored[case][name] for name in ("means_apart", "sds_apart")}, flush=True)
        REFERENCES.write_text(json.dumps(stored, indent=1) + "\n")
        return 0
    result: dict[str, Any] = {"protocol": PROTOCOL, "machine": machine(), "cases": {}}
    if asked.out.exists():
        result["cases"] = json.loads(asked.out.read_text())["cases"]
    for case in asked.cases:
        cells = result["cases"].setdefault(case, {})
        for answer in asked.answers:
            with tempfile.TemporaryDirectory() as folder:
                worker = Path(folder) / "answer.json"
                command = [sys.executable, "-m", "benchmarks.answers", "--cases", case, "--answers", answer]
                subprocess.run([*command, "--worker", str(worker)], check=True)
                told = json.loads(worker.read_text())
            for name, each in told.items():
                cells[name] = judged(each, known(case)) | {"load": load_average()}
                asked.out.write_text(json.dumps(result, indent=1) + "\n")
                print(case, name, {k: v for k, v in cells[name].items() if k != "says"}, flush=True)
    before, rest = PAGE.read_text().split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table(result)}\n{END}{rest.split(END)[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
