"""Plan, run and check of a hierarchy as a user would, and NumPyro's NUTS of the same density."""

import time
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.answers.case import Case
from benchmarks.answers.nuts import as_it_comes, numpyro_as_it_comes
from benchmarks.answers.ours import ESS
from benchmarks.hierarchies.judged import errors_of, flat, said
from benchmarks.hierarchies.model import HierarchyModel

LIMIT, NUM_CHAINS = 180.0, 4
"""Seconds of NUTS at most; its chains."""


def as_data(model: HierarchyModel) -> Any:
    """Return the rows on the device."""
    return jax.tree.map(jnp.asarray, model.data)


def one_axis(draws: Any) -> dict[str, np.ndarray]:
    """Return draws (chain, draw, …) with one axis for both, float64."""
    return {
        name: np.asarray(leaf, np.float64).reshape(-1, *np.shape(leaf)[2:])
        for name, leaf in draws.items()
    }


def solve(model: HierarchyModel, key: int) -> dict[str, Any]:
    """Return what three calls say with their defaults, and how right their draws are.

    Before, a run for an effective sample size of 1,000 is timed, as NUTS is; it compiles for both.
    """
    keys, data = jax.random.split(jax.random.key(key), 3), as_data(model)
    seconds, began = {}, time.perf_counter()

    def tick(name: str) -> None:
        seconds[name] = round(time.perf_counter() - began - sum(seconds.values()), 2)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            plan = ewsg.plan(keys[0], model.posterior, model.start, data, progress=False)
            tick("plan")
            for name, ess in (("sample", ESS), ("sample by default", None)):
                samples = ewsg.sample(
                    keys[1],
                    plan.kernel,
                    plan.start,
                    data,
                    progress=False,
                    **plan.sample_options(ess=ess),
                )
                draws = one_axis(samples.position)
                tick(name)
            report = ewsg.check(keys[2], samples, model.posterior, data)
            tick("check")
        except Exception as error:  # a refusal is an answer, whatever its type
            text = f"{type(error).__name__}: {error}"
            return {"outcome": "refused", "verdict": text[:600], "seconds": seconds}
    return {
        "is_trusted": plan.is_trusted,
        "doubts": list(plan.doubts),
        "kernel": repr(plan.kernel)[:200],
        "draws": len(draws[model.scales[0]]),
        "passes_of_chain": float(plan.data_passes()),
        "true": errors_of(model, draws),
        **said(model, report),
        "seconds": seconds,
        "warnings": [str(each.message)[:300] for each in caught],
    }


def by_nuts(model: HierarchyModel) -> dict[str, Any]:
    """Return how long NUTS takes to a least effective sample size of 1,000: four chains,
    vectorised, its own warm-up of 1,000 steps, compiling included.
    """
    names = sorted(model.start)

    def summary(positions: Any) -> np.ndarray:
        leaves = [np.asarray(positions[name], np.float64) for name in names]
        return np.concatenate([x.reshape(*x.shape[:2], -1) for x in leaves], axis=-1)

    def load() -> Any:
        return model.data

    name, density = model.name, model.log_density
    case = Case(name, name, load, model.posterior, density, model.start, summary)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = numpyro_as_it_comes(case, as_data(model), LIMIT, NUM_CHAINS)
    answer = found[as_it_comes(NUM_CHAINS)]
    told: dict[str, Any] = {
        "says": answer.says,
        "seconds": {part: round(x, 2) for part, x in answer.parts.items()},
        "extrapolated": answer.extrapolated,
    }
    if answer.mean is not None and answer.sd is not None:
        right = {
            what: flat({name: model.reference[name][what] for name in names})[0]
            for what in ("mean", "sd")
        }
        shift, ratio = (answer.mean - right["mean"]) / right["sd"], answer.sd / right["sd"]
        told["true"] = {
            "mean": round(float(shift[np.argmax(np.abs(shift))]), 3),
            "sd": round(float(ratio[np.argmax(np.abs(np.log(ratio)))]), 3),
        }
    return told
