"""Whether a dtype is fine enough for the posterior of a parameter.

Float32 has 24 bits: days of the modified Julian calendar, 59,000 and some, are 0.004 apart, which
may be the sd of a transit's time. Chains then walk on a grid, or do not move.
"""

from collections.abc import Sequence

import jax
import numpy as np

from ewsg_jax.base.typing import PyTree
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.precision import ENABLE_X64
from ewsg_jax.vectors.layout import Layout, coordinate_names, names_of_leaves
from ewsg_jax.vectors.row_subsets import evenly

SPACINGS_PER_SD = 10.0
"""Numbers of the dtype that an sd must hold: rounding of each adds 1/1200 of the variance then."""


def coarse_numbers(
    layout: Layout, center: np.ndarray, sd: np.ndarray, names: Sequence[str]
) -> list[Finding]:
    """Return one finding if the position's dtypes are too coarse for the posterior.

    Args:
        layout: the shapes and dtypes of the position.
        center: means of the posterior, shape (d,).
        sd: its standard deviations, shape (d,).
        names: names of the coordinates.
    """
    sizes = [int(np.prod(shape)) for shape in layout.shapes]
    parts = np.split(np.abs(center), np.cumsum(sizes)[:-1])
    spacing = np.concatenate(
        [_spacing(x, dtype) for x, dtype in zip(parts, layout.dtypes, strict=True)]
    )
    coarse = np.flatnonzero(spacing * SPACINGS_PER_SD > sd)
    if not len(coarse):
        return []
    k = int(coarse[int(np.argmax(spacing[coarse] / np.maximum(sd[coarse], 1e-300)))])
    # With half an sd rounding adds 2 % of the variance, and more if a step is a part of an sd.
    is_doubtful = 2 * spacing[k] > sd[k]
    text = (
        f"numbers near {center[k]:.8g} are {spacing[k]:.2g} apart in {_dtypes(layout)}, and the sd "
        f"of {_listed([names[int(i)] for i in coarse], names[k])} is {sd[k]:.2g}"
    )
    return [Finding("spacing", "doubt" if is_doubtful else "note", text, _cure(center[k]))]


def of_draws(draws: PyTree, is_finite: np.ndarray, name: str = "position") -> list[Finding]:
    """Return findings on coordinates of a run that never moved, or moved on a coarse grid.

    Args:
        draws: draws of positions with leading axes (chain, draw).
        is_finite: which chains stayed finite, shape (chain,): others stand still.
        name: what a position is called in messages.
    """
    findings: list[Finding] = []
    for place, leaf in enumerate(jax.tree.leaves(draws)):
        if leaf.size == 0 or np.dtype(leaf.dtype) not in (np.float32, np.float64):
            continue
        chains, count = int(np.sum(is_finite)), leaf.shape[1]
        # Few draws say nothing of an sd, and of many some do.
        if chains * count < 64:
            return []
        values = np.asarray(leaf)[:, evenly(count, max(2, 512 // chains))][is_finite]
        low, high = values.min((0, 1)), values.max((0, 1))
        # The range of draws is some six sds, and six times as many in a chain that still moves.
        spacing = _spacing(np.maximum(np.abs(low), np.abs(high)), leaf.dtype)
        if not np.any(high - low < 6 * SPACINGS_PER_SD * spacing):
            continue
        flat = values.reshape(chains * values.shape[1], -1).astype(np.float64)
        names = coordinate_names(names_of_leaves(draws, name)[place], leaf.shape[2:])
        still = np.flatnonzero(np.ptp(flat, axis=0) == 0)
        if len(still):
            k = int(still[0])
            text = (
                f"{_listed([names[i] for i in still], names[k])} stayed at {flat[0, k]:.8g} in all "
                f"draws of all chains; numbers of {leaf.dtype} are {spacing.ravel()[k]:.2g} apart "
                "there, and moves that are shorter are lost"
            )
            findings.append(Finding("spacing", "error", text, _cure(flat[0, k])))
            continue
        layout = Layout.of(np.zeros(leaf.shape[2:], leaf.dtype))
        findings += coarse_numbers(layout, flat.mean(0), flat.std(0), names)
    return findings


def _spacing(size: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Return the distance from numbers of a dtype to the next larger one, 0 in half precision."""
    if np.dtype(dtype) not in (np.float32, np.float64):
        return np.zeros(np.shape(size))
    with np.errstate(invalid="ignore"):
        return np.spacing(np.asarray(size, dtype)).astype(np.float64)


def _dtypes(layout: Layout) -> str:
    return " and ".join(sorted({str(np.dtype(dtype)) for dtype in layout.dtypes}))


def _listed(names: list[str], worst: str) -> str:
    """Return a name, and how many others there are."""
    others = len(names) - 1
    return worst if not others else f"{worst} and {others} more"


def _cure(center: float) -> str:
    return (
        f"let the parameter be the difference from {center:.8g}, in the model and in the data, or "
        f"{ENABLE_X64}"
    )
