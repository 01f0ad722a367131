"""Write `docs/bias.json` and the tables of `docs/bias.md`: the stationary bias of every method on
conjugate models.

`python -m benchmarks.pages.bias` renews all; with names of methods it renews those alone, with
`missing` what is not stored. No data are needed; all of it takes about half an hour on two cores.
"""

import functools
import inspect
import json
import math
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.pages import bias_forms, bias_galerkin, bias_laws, bias_page
from ewsg_jax.gradients._protocol import sharing_of
from ewsg_jax.kernels.record import Method

DOCS = Path(__file__).parents[2] / "docs"
NUMBERS, PAGE = DOCS / "bias.json", DOCS / "bias.md"
FRICTION, PRIOR_SCALE = 2.0, 5**0.5
BATCH_SIZES = (1, 2)
STEP_SIZES = [2.0**-k for k in range(1, 10)]
"""Below, 1 − h²λ in float64 leaves too few digits of a bias of order h²."""
GALERKIN_STEP_SIZES = [2.0**-k for k in (1, 3, 5, 8, 9)]
SIMULATED_STEP_SIZES = [2.0**-k for k in (1, 3, 5)]
GALERKIN = {1: (24, 0.02), 2: (14, 0.34), 3: (8, 0.9)}
"""Degree and spacing by the numbers of a state."""
UNRESOLVED = 0.02
"""Above this error of the relative variance a law counts as not found."""


class Model(NamedTuple):
    """A conjugate posterior with its data, its mean and precision, and n(∇Vᵢ) = slope θ − offset of
    each row.
    """

    posterior: ewsg.Posterior
    data: Any
    mean: np.ndarray
    precision: np.ndarray
    slopes: np.ndarray
    offsets: np.ndarray


def location() -> Model:
    """xᵢ ~ N(θ, s²), θ ~ N(0, 5): s² such that the posterior's variance is 1. The rows
    are skewed.
    """
    x = np.array([-3.0, -2.1, -1.2, -0.4, 0.8, 5.6])
    variance = len(x) / (1 - PRIOR_SCALE**-2)
    posterior = ewsg.models.gaussian_location(noise_scale=variance**0.5, prior_scale=PRIOR_SCALE)
    ones = np.ones((len(x), 1, 1))
    return Model(posterior, jnp.asarray(x[:, None]), *_conjugate(ones, x[:, None], variance))


def regression(x: np.ndarray) -> Model:
    """yᵢ ~ N(xᵢᵀθ, s²), θ ~ N(0, 5 I): s² such that the largest curvature is 1."""
    y = np.array([2.0, -4.1, 3.9, 1.6, 0.4, -3.0])
    variance = np.linalg.eigvalsh(x.T @ x)[-1] / (1 - PRIOR_SCALE**-2)
    posterior = ewsg.models.linear_regression(noise_scale=variance**0.5, prior_scale=PRIOR_SCALE)
    data = {"x": jnp.asarray(x), "y": jnp.asarray(y)}
    return Model(
        posterior, data, *_conjugate(x[:, :, None] * x[:, None, :], x * y[:, None], variance)
    )


def _conjugate(
    hessians: np.ndarray, constants: np.ndarray, variance: float
) -> tuple[np.ndarray, ...]:
    precision = hessians.sum(0) / variance + np.eye(hessians.shape[-1]) / PRIOR_SCALE**2
    n = len(hessians) / variance
    return (
        np.linalg.solve(precision, constants.sum(0) / variance),
        precision,
        n * hessians,
        n * constants,
    )


INPUTS = np.array([[0.4, 1.0], [-0.7, 0.3], [1.0, -0.6], [-1.3, 0.8], [1.6, 0.2], [0.9, -1.1]])
MODELS = {
    "location": location,
    "regression": lambda: regression(INPUTS[:, :1]),
    "regression in 2-D": lambda: regression(INPUTS),
}


def options_of(method: Method, model: Model, b: int) -> dict[str, Any]:
    """Return what a method needs beside the step size. A new argument without a default must be
    named here.
    """
    known: dict[str, Any] = {
        "friction": FRICTION,
        "batch_size": b,
        "labels": lambda data: jnp.asarray([0, 0, 0, 1, 1, 1]),
        "num_strata": 2,
        "center": jnp.asarray(model.mean),
        "memory_size": 2,
        "inverse_metric": lambda position, data: 0.5 + 1 / (1 + position**2),
        "capacity": 6,
    }
    accepted = inspect.signature(method.build).parameters
    asked = [
        name
        for name, p in accepted.items()
        if p.default is p.empty and name not in ("posterior", "step_size")
    ]
    unknown = [name for name in asked if name not in known]
    if unknown:
        raise ValueError(
            f"benchmarks/pages/bias.py does not know what to give {method.title} for {unknown}"
        )
    return {name: value for name, value in known.items() if name in accepted}


def entries(only: list[str]) -> Iterator[tuple[str, str, str, int, bool]]:
    """Yield (model, method, integrator, b, whether the covariance is reset at every step)."""
    for model in MODELS:
        for name, method in ewsg.METHODS.items():
            if model == "regression in 2-D" and not method.dynamics:
                continue
            accepted = inspect.signature(method.build).parameters
            sizes = BATCH_SIZES if "batch_size" in accepted else (0,)
            for integrator in method.integrators or ("",):
                for b in sizes:
                    if ("num_strata" in accepted and b < 2) or (only and name not in only):
                        continue
                    if "covariance_tracking" in method.estimator:
                        if b > 1:
                            continue
                        yield model, name, integrator, b, True
                        if integrator != method.integrators[0]:
                            continue
                    yield model, name, integrator, b, False


def case_of(model: Model, name: str, integrator: str, b: int, is_reset: bool) -> bias_laws.Case:
    """Return the case of one entry."""
    method = ewsg.METHODS[name]
    options = options_of(method, model, b)
    options |= {"integrator": integrator} if integrator else {}
    options |= {"refresh_every": 1} if is_reset else {}
    case = bias_laws.Case(
        lambda h: method.build(model.posterior, h, **options), model.data, jnp.asarray(model.mean)
    )
    if method.dynamics == ("quasi_newton",):
        return bias_laws.with_pairs(case)
    if method.estimator.startswith("exponentially_weighted"):
        inner = method.estimator.removeprefix("exponentially_weighted(").removesuffix(")")
        reset = {"refresh_every": 1} if is_reset else {}
        estimator = getattr(ewsg.gradients, inner)(model.posterior, batch_size=b, **reset)
        kind = integrator if len(method.dynamics) > 1 else next(iter(method.dynamics))
        build = (
            functools.partial(ewsg.dynamics.palindrome, kind)
            if kind.isupper()
            else getattr(ewsg.dynamics, kind)
        )
        accepted = inspect.signature(build).parameters
        given = {
            k: options[k] for k in ("friction", "integrator") if k in options and k in accepted
        }
        return bias_laws.weighted(case, lambda h: build(h, **given), estimator, 1)
    return case


def laws_of(
    case: bias_laws.Case, method: Method, d: int
) -> tuple[str, dict[float, bias_laws.Law | None]]:
    """Return how the laws were found, and the law at each h."""
    kernel = case.build(0.1)
    cost = kernel.evaluations(case.data)
    resets = cost.per_refresh > 0 and cost.refresh_every == 1
    state = kernel.init(jax.random.key(0), case.start, case.data)
    if not method.dynamics:  # Metropolis: at its best step
        return "simulated", {2.4: bias_laws.simulated_law(case, 2.4, 1500, 2000, 200)}
    if d > 1 and case.step is not None:
        return "none", {}
    has_memory = sharing_of(kernel).of == "chain" and not resets
    if case.batch_law is None:
        stages = cost.refresh_every if cost.per_refresh else 1
        maps = bias_laws.affine_maps(case, STEP_SIZES, stages, whole=has_memory)
        if maps is not None:
            weights = bias_laws.listed_batches(case)[1]
            return "Lyapunov", {
                h: bias_laws.affine_law(maps, k, weights, d) for k, h in enumerate(STEP_SIZES)
            }
    numbers = bias_laws.split_state(state, False)[0].size
    has_memory = has_memory and bias_laws.split_state(state, True)[0].size > numbers
    if d > 1:
        return "none", {}
    if numbers in GALERKIN and not has_memory and method.dynamics != ("preconditioned",):
        spread = np.eye(numbers)
        first = bias_laws.split_state(state, False)[0]
        guess = bias_laws.Law(
            np.concatenate([case.start, 0 * first[1:2], first[2:]]), spread, np.ones(1)
        )
        found = bias_galerkin.laws(case, GALERKIN_STEP_SIZES, guess, *GALERKIN[numbers])
        return "Galerkin", dict(zip(GALERKIN_STEP_SIZES, found, strict=True))
    return "simulated", {
        h: bias_laws.simulated_law(case, h, 1500, math.ceil(250 / h), math.ceil(20 / h))
        for h in SIMULATED_STEP_SIZES
    }


def measured(model: Model, case: bias_laws.Case, name: str) -> dict[str, Any]:
    """Return the biases of one entry at every h, and their orders."""
    d = len(model.mean)
    way, laws = laws_of(case, ewsg.METHODS[name], d)
    if way == "none":
        return {"way": way, "laws": {}}
    cost = case.build(0.1).evaluations(case.data)
    per_step = cost.of_steps(0, cost.refresh_every) / cost.refresh_every
    has_momentum = (
        "momentum"
        in case.build(0.1).init(jax.random.key(0), case.start, case.data).dynamics._fields
    )
    root = np.linalg.cholesky(model.precision)
    found: dict[str, Any] = {}
    for h, law in laws.items():
        if law is None or (way == "Galerkin" and law.error > UNRESOLVED):
            continue
        excess = np.linalg.eigvalsh(root.T @ law.covariance[:d, :d] @ root) - 1
        values = {
            "mean": np.linalg.norm(root.T @ (law.mean[:d] - model.mean))
            * (np.sign(law.mean[0] - model.mean[0])),
            "variance": excess[np.argmax(np.abs(excess))],
            "momentum": law.covariance[d, d] - 1 if has_momentum and len(law.mean) > d else 0.0,
            "passes": law.autocorrelation.max() * per_step / len(model.slopes),
            "error": law.error,
        }
        rounding = 1e-11 if way == "Lyapunov" else 1e-6
        found[repr(h)] = {
            k: float(v) if k == "error" or abs(v) > rounding else 0.0 for k, v in values.items()
        }
    orders = (
        {k: bias_page.order(found, k) for k in ("mean", "variance", "momentum")}
        if way != "simulated"
        else {}
    )
    return {"way": way, "per_step": per_step, "laws": found, "orders": orders}


def renewed(only: list[str], stored: dict[str, Any]) -> dict[str, Any]:
    """Return the entries with those of the named methods measured again."""
    results = {}
    made = {name: build() for name, build in MODELS.items()}
    for key in entries([]):
        label = bias_page.label(*key)
        if only and key[1] not in only and not (only == ["missing"] and label not in stored):
            results |= {label: stored[label]} if label in stored else {}
            continue
        began = time.perf_counter()
        model, name, integrator, b, is_reset = key
        try:
            case = case_of(made[model], name, integrator, b, is_reset)
            found = measured(made[model], case, name)
        except ValueError as error:
            if ewsg.METHODS[name].dynamics:
                raise
            found = {"way": "none", "reason": str(error), "laws": {}}
        if found["way"] == "none" and "reason" not in found:
            continue
        form = None
        if found["way"] in ("Lyapunov", "Galerkin") and len(made[model].mean) == 1:
            form = bias_forms.leading(ewsg.METHODS[name], integrator, made[model], b, is_reset)
        results[label] = {
            "method": name,
            "model": model,
            "integrator": integrator,
            "b": b,
            "reset": is_reset,
        } | found
        results[label]["form"] = form and {"text": form[0], "constant": form[1], "order": form[2]}
        print(f"{label:60} {found['way']:10} {time.perf_counter() - began:6.1f} s", flush=True)
        NUMBERS.write_text(json.dumps({**stored, **results}, indent=1, ensure_ascii=False) + "\n")
    return results


if __name__ == "__main__":
    with jax.enable_x64(True):
        before = json.loads(NUMBERS.read_text()) if NUMBERS.exists() else {}
        result = renewed(sys.argv[1:], before)
    NUMBERS.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(bias_page.page(PAGE.read_text(), result))
