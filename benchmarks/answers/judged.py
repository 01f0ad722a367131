"""References of `answers.py`, and how far off an answer is from one."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.answers.by_importance import log_likelihoods, weighted_moments
from benchmarks.answers.case import Data, Regression
from benchmarks.answers.cases import CASES, OUTLYING
from benchmarks.answers.long import reference as long_reference
from benchmarks.answers.ours import NUM_CHAINS, mode_of, moments, normal_draws
from ewsg_jax import dynamics, gradients

WEIGHTED = 100_000
"""Draws of the normal law, weighted."""
REFERENCES = record.RESULTS / "answers_references.json"


def reference(case: Regression, data: Data) -> dict[str, Any]:
    """Return the moments of a regression: of a linear one exactly, else of a long run or by
    importance.

    How far those of a run at twice the step, or of two halves of the draws, are apart is told
    beside.
    """
    if case.is_linear:
        x, y = (np.asarray(data[name], np.float64) for name in ("x", "y"))
        covariance = np.linalg.inv(x.T @ x + np.eye(x.shape[1]))
        mean, sd = covariance @ (x.T @ y), np.sqrt(np.diag(covariance))
        return {"mean": mean.tolist(), "sd": sd.tolist(), "means_apart": 0.0, "sds_apart": 0.0}
    if case.has_outliers:
        return _beyond_walls(case, data)
    mode = mode_of(case, data)
    corrected = ewsg.check(jax.random.key(5), normal_draws(mode), case.posterior, data).corrected
    center = mode.position if corrected is None else corrected.mean
    law = ewsg.rows.leverage(data["x"], np.asarray(mode.covariance))
    found = []
    for h, seed in ((0.1, 6), (0.05, 7)):
        kernel = ewsg.kernel(
            dynamics.splitting(h, friction=1.0, inverse_mass=mode.inverse_mass),
            gradients.control_variate(
                case.posterior, batch_size=2_048, center=jnp.asarray(center, jnp.float32), rows=law
            ),
        )
        run: dict[str, Any] = {
            "num_chains": NUM_CHAINS,
            "shared_minibatch": True,
            "progress": False,
        }
        steps = round(8_000 / h)
        samples = ewsg.sample(
            jax.random.key(seed),
            kernel,
            mode.start,
            data,
            steps,
            burn_in=steps // 20,
            thin=5,
            **run,
        )
        found.append(moments(samples.position))
    (mean, sd), (finer_mean, finer_sd) = found
    return {
        "mean": finer_mean.tolist(),
        "sd": finer_sd.tolist(),
        "means_apart": float(np.max(np.abs(mean - finer_mean) / finer_sd)),
        "sds_apart": float(np.max(np.abs(sd / finer_sd - 1))),
    }


def _beyond_walls(case: Regression, data: Data) -> dict[str, Any]:
    """Weigh draws of the normal law that the rows without outliers have; the outliers only take
    weight away.
    """
    x, y = np.asarray(data["x"]), np.asarray(data["y"])
    rest = np.abs(x).max(1) < OUTLYING
    mode = mode_of(case, {"x": jnp.asarray(x[rest]), "y": jnp.asarray(y[rest])})
    normal = np.random.default_rng(0).standard_normal((WEIGHTED, x.shape[1]))
    draws = (
        np.asarray(mode.position, np.float64)
        + normal @ np.linalg.cholesky(np.asarray(mode.covariance)).T
    )
    log_weight = log_likelihoods(draws, x, y) - 0.5 * (draws**2).sum(1) + 0.5 * (normal**2).sum(1)
    weight = np.exp(log_weight - log_weight.max())

    (mean, sd), first, second = (
        weighted_moments(draws[part], weight[part])
        for part in (slice(None), slice(0, None, 2), slice(1, None, 2))
    )
    return {
        "mean": mean.tolist(),
        "sd": sd.tolist(),
        "means_apart": float(np.max(np.abs(first[0] - second[0]) / sd)),
        "sds_apart": float(np.max(np.abs(first[1] / second[1] - 1))),
        "ess": float(weight.sum() ** 2 / (weight**2).sum()),
    }


def make(cases: list[str]) -> None:
    """Make the references of these cases, and store them; that of all Covertype's columns is
    another's.

    A twin of a case that is stored already is left out: both have one reference.
    """
    stored = json.loads(REFERENCES.read_text()) if REFERENCES.exists() else {}
    for name in cases:
        case = CASES[name]
        if name == "covertype" or case.twin in stored:
            continue
        stored[name] = (
            reference(case, case.load()) if isinstance(case, Regression) else long_reference(case)
        )
        print(
            name, {of: x for of, x in stored[name].items() if of not in ("mean", "sd")}, flush=True
        )
        lines = [f" {json.dumps(of)}: {json.dumps(found)}" for of, found in stored.items()]
        REFERENCES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def known(case: str) -> dict[str, Any]:
    """Return the reference of a case."""
    if case == "covertype":
        return json.loads((record.RESULTS / "rare_rows.json").read_text())["reference"]
    stored = json.loads(REFERENCES.read_text())
    return stored[case] if case in stored else stored[CASES[case].twin]


def judged(answer: dict[str, Any], against: dict[str, Any]) -> dict[str, Any]:
    """Return how far off an answer is, and what it cost."""
    found: dict[str, Any] = {}
    if answer["mean"] is not None:
        mean, sd = np.array(against["mean"]), np.array(against["sd"])
        off, ratio = np.abs(np.array(answer["mean"]) - mean) / sd, np.array(answer["sd"]) / sd
        found = {
            "worst_mean": float(off.max()),
            "worst_sd": float(np.abs(ratio - 1).max()),
            "rms_mean": float(np.sqrt(np.mean(off**2))),
            "rms_sd": float(np.sqrt(np.mean((ratio - 1) ** 2))),
        }
    found |= {
        "seconds": round(sum(answer["parts"].values()), 2),
        "parts": {name: round(value, 2) for name, value in answer["parts"].items()},
        "passes": round(answer["passes"], 1),
        "says": answer["says"],
    }
    if "cores" in answer:  # that it had, on a machine with other work
        found["cores"] = round(answer["cores"], 2)
    found |= answer.get("more") or {}
    if answer["extrapolated"] is not None:
        found["extrapolated"] = {
            name: round(value, 1) for name, value in answer["extrapolated"].items()
        }
    return found
