"""What Theorems 4.1 and 4.2 claim, and beside them the mechanism of exponential weights; with their figure."""

from typing import Any

import numpy as np

from ewsg_jax.reproduction import theorems
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.experiment import Experiment, Parts
from ewsg_jax.reproduction.figures import Line, Panel
from ewsg_jax.reproduction.theorems import MATRIX, PIMA, VR
from ewsg_jax.reproduction.weights import EXACT, ONE, UNIFORM

NEAR = 0.1
"""How far from its limit a number may be at the least step."""
SURE = 3.0
"""Standard errors by which a mean is below 0."""
ROWS = 1e-12
"""How far the optimal law may be from being unbiased, relative to the largest deviation."""


def runs(parts: Parts) -> list[Any]:
    """Return the mechanism's numbers on each data set."""
    return [part for name, part in parts.items() if name.startswith("mechanism")]


def is_sparse(parts: Parts) -> Claim:
    """Return Theorem 4.1."""
    each = {name: of for name, of in parts["sparsity"].items() if isinstance(of, dict)}
    is_so = [rows <= of["d"] + 1 and of["off"] < ROWS for of in each.values() for rows in of["rows"]]
    shown = "; ".join(
        f"{name}: {max(of['rows'])} rows for d + 1 = {of['d'] + 1}, variance {np.median(of['variance_ratio']):.2g} "
        "of that of uniform rows"
        for name, of in each.items()
    )
    return Claim("the unbiased law of least variance has at most d + 1 rows", float(np.mean(is_so)), shown)


def lessens(parts: Parts) -> Claim:
    """Return Theorem 4.2: E Δ < 0 at every point and step."""
    signs = parts["signs"]
    is_so, shown = [], []
    for name, told in signs["points"].items():
        is_so += [each["mean"] + SURE * each["error"] < 0 for each in told]
        listed = ", ".join(f"{each['mean']:+.2g}" for each in told)
        shown.append(f"{name} {listed}")
    steps = ", ".join(f"{h:g}" for h in signs["steps"])
    return Claim(
        "weights lessen the variance on average over data, E Δ < 0, at every point and step",
        float(np.mean(is_so)),
        f"E Δ over the uniform trace at h = {steps}: {'; '.join(shown)}",
    )


def first_order(parts: Parts) -> Claim:
    """Return beside it what first order says of Δ."""
    ratios = [told[0]["first_order"] / told[0]["mean"] for told in parts["signs"]["points"].values()]
    return Claim(
        "Δ is (h/2σ²) Cov(‖γr + g‖², ‖δ‖²) to first order, which is positive here",
        float(np.mean([abs(x - 1) <= NEAR and told[0]["mean"] > 0 for x, told in _with(parts, ratios)])),
        "typed over enumerated at the least step: " + ", ".join(f"{x:.4f}" for x in ratios),
        by_the_paper=False,
    )


def _with(parts: Parts, ratios: list[float]) -> list[tuple[float, Any]]:
    return list(zip(ratios, parts["signs"]["points"].values(), strict=True))


def limit(parts: Parts, words: str, name: str, of: str, value: float) -> Claim:
    """Return the claim that a number is near a limit at the least step."""
    ends = [run["laws"][name][0][of] for run in runs(parts)]
    is_so = [abs(x - value) <= NEAR for x in ends]
    shown = f"{min(ends):.4f} to {max(ends):.4f}, limit {value:g}"
    return Claim(words, float(np.mean(is_so)), shown, by_the_paper=False)


def claims(parts: Parts) -> list[Claim]:
    """Judge both theorems, and what the mechanism says."""
    return [
        is_sparse(parts),
        lessens(parts),
        first_order(parts),
        limit(parts, "uniform rows add h² tr S to the energy of a step", UNIFORM, "heat", 1.0),
        limit(parts, "M = 1 damps all of it to first order", ONE, "heat", 0.0),
        limit(parts, "longer index chains add nothing to that: M = ∞", EXACT, "heat", 0.0),
        limit(parts, "EWSG-VR takes it away twice", VR, "heat", -1.0),
        limit(parts, "matrix friction over uniform rows takes it away once", MATRIX, "heat", 0.0),
        limit(parts, "M = 1 stiffens the force by 1 + hS/2γT", ONE, "stiffening", 1.0),
        limit(parts, "M = 1 pushes along the skewness by (h/2σ²) E‖δ‖²δ", ONE, "push", 1.0),
        limit(parts, "matrix friction over uniform rows does not stiffen", MATRIX, "stiffening", 0.0),
    ]


def draw(parts: Parts) -> list[Panel]:
    """Draw the energy of a step, stiffening and push of M = 1, and E Δ, against the step."""
    every = runs(parts)
    steps = every[0]["steps"]

    def middle(name: str, of: str) -> list[float]:
        return [float(np.median([run["laws"][name][i][of] for run in every])) for i in range(len(steps))]

    heat = [Line(name, steps, middle(name, "heat")) for name in every[0]["laws"]]
    kinds = [(of, name) for of in ("stiffening", "push") for name in (ONE, EXACT)]
    rest = [Line(f"{of}, {name}", steps, middle(name, of)) for of, name in kinds]
    signs = parts["signs"]
    change = [Line(name, steps, [each["mean"] for each in told]) for name, told in signs["points"].items()]
    change.append(Line("Pima, at draws", steps, signs[PIMA]))
    zero = Line("0", [steps[0], steps[-1]], [0.0, 0.0], is_guide=True)
    one = Line("first order", [steps[0], steps[-1]], [1.0, 1.0], is_guide=True)
    return [
        Panel("energy added by a step / h² tr S", "h", "", [*heat, zero], (True, False)),
        Panel("stiffening and push / first order", "h", "", [*rest, one], (True, False)),
        Panel("E Δ / tr S (Theorem 4.2)", "h", "", [*change, zero], (True, False)),
    ]


EXPERIMENT = Experiment(
    "ewsg-theorems",
    "Li, Wang, Zha & Tao, Theorems 4.1 and 4.2",
    "what the best law of rows is, and what exponential weights do",
    theorems.Settings,
    theorems.parts,
    claims,
    draw,
)
