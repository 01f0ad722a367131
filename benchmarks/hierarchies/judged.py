"""Draws whose errors are known, and what `ewsg.check` says of them in either form."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.hierarchies.model import Draws, HierarchyModel, with_scales

MEAN_OFF, SD_OFF = 0.12, 0.07
"""Draws off by more in any mean, in sds, or any sd, may not be called right."""
GIVEN = 8_000
"""Draws that a check is given, of all chains together; fewer if a way keeps fewer."""
LEAST = 2_000
"""With fewer, nothing is asked."""


def flat(leaves: Mapping[str, Any]) -> tuple[np.ndarray, list[str]]:
    """Return all numbers of some leaves in one array, and their names."""
    names, values = [], []
    for name in sorted(leaves):
        leaf = np.asarray(leaves[name], np.float64)
        values.append(leaf.ravel())
        names += [name] if leaf.ndim == 0 else [f"{name}[{i}]" for i in range(leaf.size)]
    return np.concatenate(values), names


def of_reference(model: HierarchyModel, what: str) -> np.ndarray:
    """Return one kind of moments of the reference, all coordinates and scales in order of names."""
    return flat({name: each[what] for name, each in model.reference.items()})[0]


def errors_of(model: HierarchyModel, draws: Draws) -> dict[str, Any]:
    """Return how far draws of a form, shape (count, …), are from the reference.

    Returns:
        `off`: whether a mean or an sd is beyond what may be called right, errors of the reference
        apart; the worst of both, with names; and both of each scale and its logarithm.
    """
    known = with_scales(draws, model.scales)
    mean, names = flat({name: x.mean(0) for name, x in known.items()})
    sd, _ = flat({name: x.std(0) for name, x in known.items()})
    right = {what: of_reference(model, what) for what in ("mean", "sd", "mean_error", "sd_error")}
    shift, ratio = (mean - right["mean"]) / right["sd"], sd / right["sd"]
    # The scales themselves may have heavier tails than their logarithms: an error of the
    # reference is no error of the draws.
    beyond = np.maximum(
        (np.abs(shift) - 2 * right["mean_error"] / right["sd"]) / MEAN_OFF,
        (np.abs(ratio - 1) - 2 * right["sd_error"] / right["sd"]) / SD_OFF,
    )
    by_mean, by_sd = int(np.argmax(np.abs(shift))), int(np.argmax(np.abs(ratio - 1)))
    of_scales = {
        name: [round(float(shift[i]), 3), round(float(ratio[i]), 3)]
        for i, name in enumerate(names)
        if name in model.scales or name.startswith("exp(")
    }
    return {
        "off": bool(beyond.max() > 1),
        "worst": names[int(np.argmax(beyond))],
        "mean": [round(float(shift[by_mean]), 3), names[by_mean]],
        "sd": [round(float(ratio[by_sd]), 3), names[by_sd]],
        "scales": of_scales,
    }


def _moments_of_scales(report: ewsg.Report, model: HierarchyModel) -> dict[str, tuple[Any, Any]]:
    """Return what the check gives for the mean of each scale, and its error."""
    if report.corrected is None:
        return {}
    value, error = report.expectation(lambda p: {name: jnp.exp(p[name]) for name in model.scales})
    return {f"exp({name})": (value[name], error[name]) for name in model.scales}


def coverage(model: HierarchyModel, report: ewsg.Report) -> dict[str, Any] | None:
    """Return corrected moments less true ones in units of their stated errors; None if nothing is
    corrected. Errors of the reference are added to those that are stated.

    Returns:
        `z`: of `[mean, sd]`, how many numbers, how many are beyond 3, and the worst with its name;
        `scales`: of each logarithm of a scale both, of each scale that of its mean; `error`: the
        median errors that are stated, in sds.
    """
    corrected = report.corrected
    if corrected is None:
        return None
    z, names = {}, []
    errors = []
    right = {
        what: flat(
            {name: each[what] for name, each in model.reference.items() if name in model.start}
        )[0]
        for what in ("mean", "sd", "mean_error", "sd_error")
    }
    for what, value, error in (
        ("mean", corrected.mean, corrected.mean_error),
        ("sd", corrected.sd, corrected.sd_error),
    ):
        found, names = flat(value)
        stated, _ = flat(error)
        z[what] = (found - right[what]) / np.hypot(stated, right[f"{what}_error"])
        errors.append(float(np.median(stated / right["sd"])))
    of_scales = {
        name: [round(float(z[what][names.index(name)]), 2) for what in z] for name in model.scales
    }
    for name, (value, error) in _moments_of_scales(report, model).items():
        known = model.reference[name]
        of_mean = (value - known["mean"]) / np.hypot(error, known["mean_error"])
        of_scales[name] = [round(float(of_mean), 2)]
    return {
        "z": {
            what: [
                len(each),
                int(np.sum(np.abs(each) > 3)),
                round(float(each[np.argmax(np.abs(each))]), 2),
                names[int(np.argmax(np.abs(each)))],
            ]
            for what, each in z.items()
        },
        "scales": of_scales,
        "error": [float(f"{x:.3g}") for x in errors],
    }


def said(model: HierarchyModel, report: ewsg.Report) -> dict[str, Any]:
    """Return what a report says, and how right its corrected moments are."""
    return {
        "outcome": report.outcome,
        "verdict": report.verdict,
        "largest_z": round(max(score.z for score in report.scores.worst.values()), 2),
        "bound": round(report.scores.bound, 2),
        "corrected": coverage(model, report),
        "not_corrected": report.not_corrected,
        "note": report.note,
    }


def judge(model: HierarchyModel, draws: Draws, key: int) -> dict[str, Any]:
    """Return what the check says of draws in the centred form, given in that of the model."""
    count = min(GIVEN, len(draws[model.scales[0]]) // 8 * 8)
    given = model.in_form({name: leaf[:count] for name, leaf in draws.items()})
    as_chains = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), model.in_chains(given))
    began = time.perf_counter()
    report = ewsg.check(jax.random.key(key), as_chains, model.posterior, model.data)
    seconds = time.perf_counter() - began
    return {
        "draws": count,
        "true": errors_of(model, given),
        **said(model, report),
        "seconds": round(seconds, 2),
    }


Keep = Callable[[dict[str, Any]], None]
