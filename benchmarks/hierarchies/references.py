"""References: means and sds of all coordinates and scales, from exact draws, with their errors."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.hierarchies.model import Draws, HierarchyModel, with_scales

RESULT = Path(__file__).parents[1] / "results" / "hierarchies_references.json"
NUM_DRAWS, SEED = 40_000, 7
"""Exact draws of each reference; their seed. Their errors are 0.5 % of an sd."""


def moments(draws: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    """Return means and sds of independent draws, shape (count, …), with their standard errors."""
    found = {}
    for name, leaf in draws.items():
        mean, sd = leaf.mean(0), leaf.std(0, ddof=1)
        kurtosis = np.mean(((leaf - mean) / sd) ** 4, axis=0)
        root = np.sqrt(len(leaf))
        found[name] = {
            "mean": mean,
            "sd": sd,
            "mean_error": sd / root,
            "sd_error": sd * np.sqrt((kurtosis - 1) / 4) / root,
        }
    return found


def stored() -> dict[str, Any]:
    """Return the references that are there, by model."""
    return json.loads(RESULT.read_text())["models"] if RESULT.exists() else {}


def store(model: HierarchyModel, pool: Draws) -> None:
    """Keep the moments of a pool of exact draws, given in the centred form."""
    found = moments(with_scales(model.in_form(pool), model.scales))
    rounded = {
        name: {
            what: np.vectorize(lambda x: float(f"{x:.6g}"))(x).tolist() for what, x in each.items()
        }
        for name, each in found.items()
    }
    known = stored() | {
        model.name: {
            "how": model.of_pair.how,
            "draws": len(next(iter(pool.values()))),
            "moments": rounded,
        }
    }
    part = RESULT.with_suffix(".part")
    part.write_text(json.dumps({"models": dict(sorted(known.items()))}) + "\n")
    part.replace(RESULT)


def of_model(name: str) -> dict[str, dict[str, np.ndarray]]:
    """Return the reference of a model.

    Raises:
        KeyError: there is none yet; `python -m benchmarks.hierarchies --part references` makes it.
    """
    found = stored()[name]["moments"]
    return {
        leaf: {what: np.asarray(x, np.float64) for what, x in each.items()}
        for leaf, each in found.items()
    }
