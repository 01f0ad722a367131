"""Runs of every method on the real posteriors, and what they found."""

import json
import platform
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

import ewsg_jax as ewsg
from benchmarks.pages.posterior_data import rounded
from benchmarks.pages.posterior_problems import Problem, problem
from benchmarks.pages.posterior_settings import METHODS, NUM_STRATA, Setting, settings
from benchmarks.pages.posterior_verdicts import judge, reference, stated_bias

NUMBERS = Path(__file__).parents[2] / "docs" / "posteriors.json"
NUM_CHAINS = 100
BURN_IN, KEPT = 8.0, 120.0
"""Length of a chain's two parts, in the steps over which it forgets."""
OVERDISPERSION = 1.5
"""Chains start at draws of the normal approximation with this many times its standard deviation."""


def run(method: str, made: Problem, setting: Setting, num_chains: int = NUM_CHAINS) -> ewsg.Samples:
    """Run a method on a problem; its moments are of the model's own parameters, less
    their origin.
    """
    kernel = METHODS[method](made.posterior, setting.step_size, **setting.options)
    data = made.data
    if setting.options.get("labels") == "stratum":
        data = data | {"stratum": ewsg.cluster(data, NUM_STRATA)}
    burn_in = round(BURN_IN * setting.memory)
    return ewsg.sample(
        jax.random.key(1),
        kernel,
        lambda key: made.center + OVERDISPERSION * jax.random.normal(key, made.center.shape),
        data,
        burn_in + round(KEPT * setting.memory),
        num_chains=num_chains,
        burn_in=burn_in,
        keep=None,
        moments=ewsg.moments(made.shifted),
        progress=False,
    )


def measured(samples: ewsg.Samples, made: Problem) -> dict[str, Any]:
    """Return what a run found; the Monte Carlo error of a mean is that over the
    independent chains.
    """
    moments = samples.moments
    assert moments is not None
    means = np.asarray(moments.mean, np.float64)
    variances = np.asarray(moments.variance, np.float64)
    pooled = moments.pooled()
    return {
        "steps": samples.num_steps,
        "evaluations_per_chain": samples.gradient_evaluations // samples.num_chains,
        "lost_chains": int((samples.diverged_at >= 0).sum()),
        "overflows": int(samples.overflow.sum()),
        "max_rhat": rounded(np.sqrt(1 + np.max(means.var(0, ddof=1) / variances.mean(0))), 5),
        "mean": [rounded(x, 9) for x in np.asarray(pooled.mean) + made.origin],
        "mcse_mean": [rounded(x, 4) for x in means.std(0, ddof=1) / np.sqrt(len(means))],
        "sd": [rounded(x, 6) for x in np.sqrt(np.asarray(pooled.variance))],
    }


def load() -> dict[str, Any]:
    """Return what was measured."""
    return json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {"cells": {}}


def measure(methods: list[str], names: list[str]) -> None:
    """Run methods on posteriors; each is written as soon as it is there."""
    for name in names:
        made, known = problem(name), reference(name)
        rows = settings(made)
        for method in methods:
            setting = rows[method]
            if setting is None:
                continue
            began = time.perf_counter()
            found = measured(run(method, made, setting), made)
            found = {
                "step_size": rounded(setting.step_size),
                "batch_size": setting.options.get("batch_size"),
                "seconds": rounded(time.perf_counter() - began),
                **found,
                "stated_bias": [rounded(x) for x in stated_bias(method, made, setting.step_size)],
            }
            result = load()
            result["machine"] = {"jax": jax.__version__, "python": platform.python_version()}
            result["cells"].setdefault(method, {})[name] = found
            NUMBERS.write_text(json.dumps(result) + "\n")
            verdict = judge(found, known)
            print(
                f"{method:22} {name:9} {'passes' if verdict.passes else 'FAILS ':6} errors "
                f"{np.max(verdict.errors):5.2f} sd {np.min(verdict.spread):+.3f} … "
                f"{np.max(verdict.spread):+.3f} (mean {np.mean(verdict.spread):+.3f}), R-hat "
                f"{found['max_rhat']:.4f}, {found['seconds']:.0f} s",
                flush=True,
            )
