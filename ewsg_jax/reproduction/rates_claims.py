"""What is claimed of the cost of an accuracy, and the figure that shows it."""

from typing import Any

import numpy as np

from ewsg_jax.reproduction import rates
from ewsg_jax.reproduction.claim import Claim
from ewsg_jax.reproduction.experiment import Experiment, Numbers, Parts
from ewsg_jax.reproduction.figures import Line, Panel
from ewsg_jax.reproduction.gaussian_mse import NEAR, slope

SMALL = 100.0
"""Widths over ε from which on an accuracy is high."""
AXES = ("accuracy", "rows", "dimension")


def quadratic_slopes(parts: Parts, label: str) -> dict[str, float]:
    """Return the powers of 1/ε, where it is high, n and d in the cost on the quadratic."""
    axes, costs = parts["quadratic"]["axes"], parts["quadratic"]["costs"][label]
    high = [x >= SMALL for x in axes["accuracy"]]
    found = {name: slope(axes[name], _finite(costs[name])) for name in AXES[1:]}
    x, y = (np.array(each)[high] for each in (axes["accuracy"], _finite(costs["accuracy"])))
    return {"accuracy": slope(list(x), list(y))} | found


def _finite(costs: Any) -> list[float]:
    """Return costs, NaN where there is none."""
    return [np.nan if x is None or not np.isfinite(x) else x for x in costs]


def logistic_slopes(parts: Parts, label: str) -> dict[str, float]:
    """Return the same on logistic regression; at other n and d at the method's middle distance."""
    sets = [part for name, part in parts.items() if name != "quadratic"]
    if label not in sets[0]:
        return {}
    lines = [np.polyfit(-np.log(each[label]["distance"]), np.log(each[label]["cost"]), 1) for each in sets]
    middle = float(np.mean([np.log(each[label]["distance"]) for each in sets]))
    at_middle = [float(np.exp(np.polyval(line, -middle))) for line in lines]
    first = sets[0]
    of_rows = [i for i, each in enumerate(sets) if each["dimension"] == first["dimension"]]
    of_dimension = [i for i, each in enumerate(sets) if each["rows"] == first["rows"]]
    return {
        "accuracy": float(np.median([line[0] for line in lines])),
        "rows": slope([sets[i]["rows"] for i in of_rows], [at_middle[i] for i in of_rows]),
        "dimension": slope([sets[i]["dimension"] for i in of_dimension], [at_middle[i] for i in of_dimension]),
    }


def totals(parts: Parts) -> dict[str, list[float]]:
    """Return what each accuracy costs each method on the quadratic, with what comes before the first step."""
    costs = parts["quadratic"]["costs"]
    return {label: [each["first"] + x for x in _finite(each["accuracy"])] for label, each in costs.items()}


def claims(parts: Parts) -> list[Claim]:
    """Judge each rate as a bound, and beside it as a rate; and which method is cheapest at which accuracy."""
    found = []
    for label, claimed in rates.RATES.items():
        slopes = {"quadratic": quadratic_slopes(parts, label), "logistic": logistic_slopes(parts, label)}
        pairs = [(of[name], getattr(claimed, name)) for of in slopes.values() for name in AXES if name in of]
        told = "; ".join(
            f"{model} {', '.join(f'{of[name]:.2f}' for name in AXES)}" for model, of in slopes.items() if of
        )
        power = f"(1/ε)^{claimed.accuracy:g} n^{claimed.rows:g} d^{claimed.dimension:g}"
        below = float(np.mean([x <= bound + NEAR for x, bound in pairs]))
        near = float(np.mean([abs(x - bound) <= NEAR for x, bound in pairs]))
        found.append(Claim(f"{label}'s cost grows no faster than {power}, each by itself", below, f"powers {told}"))
        found.append(Claim(f"{label}'s cost grows so fast", near, f"powers {told}", by_the_paper=False))
    return [*found, *_regimes(parts)]


def _regimes(parts: Parts) -> list[Claim]:
    whole, axis = totals(parts), parts["quadratic"]["axes"]["accuracy"]
    best = [min(whole, key=lambda label, i=i: np.nan_to_num(whole[label][i], nan=np.inf)) for i in range(len(axis))]
    told = ", ".join(f"{label} at {1 / x:g}" for label, x in zip(best, axis, strict=True))
    between = best[1:-1]
    finest = {label: each[-1] for label, each in whole.items()}
    costs = ", ".join(f"{label} {x:.3g}" for label, x in finest.items())
    return [
        Claim("SGLD or SGULD is the cheapest at the crudest accuracy", float(best[0] in ("SGLD", "SGULD")), told),
        Claim(
            "control variates are the cheapest at some accuracy",
            float("CV-LD" in between or "CV-ULD" in between),
            told,
        ),
        Claim("SAGA-LD is the cheapest at the finest", float(best[-1] == "SAGA-LD"), costs),
        Claim(
            "all methods that reduce variance are cheaper than SGLD at the finest",
            float(np.mean([x < finest["SGLD"] for label, x in finest.items() if label[:2] in ("SA", "SV", "CV")])),
            costs,
        ),
        Claim(
            "SVRG-LD (II) costs more than SAGA-LD at the finest",
            float(finest["SVRG-LD (II)"] > finest["SAGA-LD"]),
            costs,
        ),
        Claim(
            "SVRG-LD (I) costs more than (II) at the finest",
            float(finest["SVRG-LD (I)"] > finest["SVRG-LD (II)"]),
            costs,
        ),
    ]


def draw(parts: Parts) -> list[Panel]:
    """Draw the costs on the quadratic of accuracies, with what comes first, and of rows."""
    quadratic: Numbers = parts["quadratic"]
    axes, n = quadratic["axes"], quadratic["num_rows"]
    order = np.argsort(axes["rows"])
    whole = totals(parts)
    shown: list[Panel] = []
    lines = [Line(label, axes["accuracy"], [y / n for y in each]) for label, each in whole.items()]
    shown.append(Panel("quadratic, all told", "width / ε", "passes", lines, (True, True)))
    by_rows = {label: _finite(each["rows"]) for label, each in quadratic["costs"].items()}
    lines = [Line(label, [axes["rows"][i] for i in order], [y[i] for i in order]) for label, y in by_rows.items()]
    shown.append(Panel("quadratic, one ε", "n", "evaluations of a row", lines, (True, True)))
    return shown


EXPERIMENT = Experiment(
    "vr-rates",
    "Chatterji et al., Table 1",
    "how the cost of an accuracy grows",
    rates.Settings,
    rates.parts,
    claims,
    draw,
)
