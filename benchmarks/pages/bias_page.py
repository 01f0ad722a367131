"""The tables of `docs/bias.md`, from the numbers of `docs/bias.json`."""

import itertools
import math
from typing import Any

from benchmarks.pages.generated import as_table, renewed

SHOWN = (0.5, 0.125, 0.03125)
TOLERANCE = 0.01
WAYS = {"Lyapunov": "L", "Galerkin": "G", "simulated": "S"}


def label(model: str, name: str, integrator: str, b: int, is_reset: bool) -> str:
    """Return the key of an entry."""
    parts = [model, name, integrator, f"b={b}" if b else "", "K=1" if is_reset else ""]
    return ", ".join(part for part in parts if part)


def order(found: dict[str, Any], key: str) -> float | None:
    """Return the slope of log |bias| by log h between the two smallest h; None where there is no
    bias.
    """
    fine, coarse = (found[h][key] if h in found else 0.0 for h in sorted(found, key=float)[:2])
    if min(abs(fine), abs(coarse)) < 1e-9 or fine * coarse < 0:
        return None
    first, second = (float(h) for h in sorted(found, key=float)[:2])
    return math.log(coarse / fine) / math.log(second / first)


def constant(found: dict[str, Any], k: int) -> float:
    """Return the bias of the variance over hᵏ at h = 0: the parabola through its values at the
    three smallest h.
    """
    hs = sorted(float(h) for h in found)[:3]
    values = [found[repr(h)]["variance"] / h**k for h in hs]
    shares = [math.prod(other / (other - h) for other in hs if other != h) for h in hs]
    return sum(share * value for share, value in zip(shares, values, strict=True))


def passes_at_tolerance(found: dict[str, Any]) -> str:
    """Return passes for one independent draw at the h where the bias first reaches the tolerance,
    from small h up.

    The bias is the larger of that of the mean, in standard deviations, and of the variance,
    relative; between the h measured (and below them) it and the passes are powers of h. "< x" where
    even the largest h stays below.
    """
    hs = sorted(float(h) for h in found)
    points = [
        (
            max(abs(found[repr(h)]["mean"]), abs(found[repr(h)]["variance"])),
            found[repr(h)]["passes"],
        )
        for h in hs
    ]
    pairs = [(low, high) for low, high in itertools.pairwise(points) if high[0] >= TOLERANCE]
    if not pairs:
        return f"< {points[-1][1]:.3g}"
    (bias, passes), (more, fewer) = pairs[0]
    share = math.log(TOLERANCE / bias) / math.log(more / bias)
    return f"{passes * (fewer / passes) ** share:.3g}"


def table(result: dict[str, Any], model: str) -> str:
    """Return the Markdown table of one model."""
    heads = ["method", "b", "", "mean, h = 1/8", *(f"Var, h = 1/{round(1 / h)}" for h in SHOWN)]
    heads += [
        "orders of Var θ, mean, Var p",
        "leading term of Var θ",
        "measured / typed",
        "passes at 1 %",
    ]
    shown = {repr(h) for h in SHOWN}
    entries = (
        entry for entry in result.values() if entry["model"] == model and set(entry["laws"]) & shown
    )
    return as_table(heads, map(_cells, entries))


def exact_table(result: dict[str, Any]) -> str:
    """Return the Markdown table of the methods with no bias."""
    rows = []
    for entry in result.values():
        if entry["way"] == "none":
            rows.append(
                [
                    f"`{entry['method']}`",
                    entry["model"],
                    f"not run: {entry['reason'].split(';')[0]}",
                ]
            )
        elif set(entry["laws"]) == {"2.4"}:
            law = entry["laws"]["2.4"]
            variance = f"{percent(law['variance'])} ± {100 * law['error']:.2f} %"
            bias = f"{law['mean']:+.4f}", variance
            rows.append([f"`{entry['method']}`", entry["model"], *bias, f"{law['passes']:.3g}"])
    return as_table(
        ["method", "model", "bias of the mean", "bias of the variance", "passes a draw"], rows
    )


def percent(x: float) -> str:
    """Return a bias in per cent, three digits of it."""
    return f"{100 * x:+.3g} %".replace("-", "−") if x else "0"


def _cells(entry: dict[str, Any]) -> list[str]:
    found, orders = entry["laws"], entry["orders"]
    is_simulated = entry["way"] == "simulated"

    def at(h: float, key: str) -> str:
        law = found.get(repr(h))
        if law is None:
            return "diverges"
        value = (
            percent(law[key])
            if key == "variance"
            else f"{law[key]:+.3g}".replace("-", "−")
            if law[key]
            else "0"
        )
        return value + (
            f" ± {100 * law['error'] * (1 + law['variance']):.1g} %"
            if is_simulated and key == "variance"
            else ""
        )

    name = f"`{entry['method']}`" + (f" {entry['integrator']}" if entry["integrator"] else "")
    name += ", K = 1" if entry["reset"] else ""
    slopes = [orders.get(key) for key in ("variance", "mean", "momentum")] if orders else []
    told = ", ".join("–" if x is None else f"{x:.2f}" for x in slopes) if slopes else ""
    cells = [
        name,
        str(entry["b"] or "n"),
        WAYS[entry["way"]],
        at(0.125, "mean"),
        *(at(h, "variance") for h in SHOWN),
    ]
    form = entry["form"]
    ratio = f"{constant(found, form['order']) / form['constant']:.4f}" if form else ""
    passes = "" if is_simulated else passes_at_tolerance(found)
    return [*cells, told, form["text"] if form else "", ratio, passes]


def numbers(result: dict[str, Any]) -> str:
    """Return all tables."""
    parts = [
        f"### {model.capitalize()}\n\n{table(result, model)}"
        for model in ("location", "regression")
    ]
    parts.append(f"### Regression in 2-D\n\n{table(result, 'regression in 2-D')}")
    parts.append(f"### Without bias\n\n{exact_table(result)}")
    return "\n\n".join(parts)


def page(text: str, result: dict[str, Any]) -> str:
    """Return the page with its numbers renewed."""
    return renewed(text, "numbers", "benchmarks/pages/bias.py", numbers(result))
