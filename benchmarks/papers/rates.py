"""What an accuracy costs: Table 1 of Chatterji et al., on a strongly convex quadratic and on
logistic regression.

The entries of the table are lost. RATES has them as the text, the abstract and the theorems let
them be told: the powers of 1/ε, n and d with which gradients of rows grow, beside a first O(n), for
n above d and curvatures that grow as n. ε is a distance in W₂. They are bounds: where ε² < d/n,
√(nd)/ε is within d/ε², and yet it grows with n. Each power is judged by itself.

Nothing is sampled. On the quadratic laws are exact (`quadratic_laws`); a method costs its
evaluations in the time in which distances of means shrink by e, at the cheapest step and batch
whose stationary law is within ε, W₂ being that of normal laws of these moments. Anchors of SVRG are
renewed every n/b steps. On logistic regression costs are what `ewsg_jax.forecast` says of kernels
at several steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers.annotations import Array
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel
from benchmarks.papers.gaussian_mse import NEAR, slope
from benchmarks.papers.quadratic_laws import Law, langevin, saga, svrg, underdamped
from ewsg_jax import (
    Forecast,
    Kernel,
    Mode,
    cv_ld,
    cv_uld,
    dynamics,
    find_mode,
    forecast,
    gradients,
    kernel,
    ld,
    models,
    saga_ld,
    sgld,
    svrg_ld,
    uld,
)
from ewsg_jax.cli.config import Allowed, ConfigError, Count, Positive, at_least

FRICTION = 2.0
NOISY = ("SGLD", "SGULD")
"""Whose steps are shorter by b/n."""
MODEL = models.logistic_regression()


def data_of(n: int, d: int) -> dict[str, Array]:
    """Return n rows of standard normal features, and labels drawn at weights of norm 1."""
    rng = np.random.default_rng([n, d])
    x = rng.standard_normal((n, d))
    y = rng.random(n) < 1 / (1 + np.exp(-x.sum(1) / np.sqrt(d)))
    return {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(y, jnp.int32)}


def kernels(
    mode: Mode[Array], unit: float, step: float, n: int, b: int
) -> dict[str, Kernel[Array]]:
    """Return the methods of which forecasts are known, at a step in units of 1/L, or of time at u =
    1/L.
    """
    h, noisy = step * unit, step * b / n
    clock: dict[str, Any] = {"friction": FRICTION, "inverse_mass": unit}
    return {
        "LD": ld(MODEL, h),
        "ULD": uld(MODEL, step, integrator="exact", **clock),
        "SGLD": sgld(MODEL, noisy * unit, batch_size=b),
        "SGULD": kernel(dynamics.exact(noisy, **clock), gradients.uniform(MODEL, batch_size=b)),
        "SAGA-LD": saga_ld(MODEL, h, batch_size=b),
        "SVRG-LD (II)": svrg_ld(MODEL, h, batch_size=b),
        "CV-LD": cv_ld(MODEL, h, batch_size=b, center=mode.position),
        "CV-ULD": cv_uld(MODEL, step, batch_size=b, center=mode.position, **clock),
    }


def distance(told: Forecast) -> float:
    """Return W₂ between the normal laws of the chain and of the target."""
    chain, target = (np.asarray(x, float) for x in (told.covariance, told.target))
    shift = np.asarray(told.mean_shift, float) * np.sqrt(np.diag(target))
    values, vectors = np.linalg.eigh(target)
    root = (vectors * np.sqrt(values)) @ vectors.T
    cross = np.linalg.eigvalsh(root @ chain @ root)
    square = (
        shift @ shift
        + np.trace(chain)
        + np.trace(target)
        - 2 * np.sum(np.sqrt(np.maximum(cross, 0)))
    )
    return float(np.sqrt(max(square, 0.0)))


def forecasts(n: int, d: int, b: int, steps: Sequence[float]) -> Numbers:
    """Return of each method W₂ at each step, and evaluations in the longest
    autocorrelation time.
    """
    data = data_of(n, d)
    mode = find_mode(jax.random.key(0), MODEL, jnp.zeros(d), data)
    unit = float(np.linalg.eigvalsh(np.asarray(mode.covariance, float))[0])
    found: Numbers = {"rows": n, "dimension": d}
    for step in steps:
        for label, each in kernels(mode, unit, step, n, b).items():
            told = forecast(each, mode, data)
            cost = told.passes_per_step * n * float(np.max(told.autocorrelation_time))
            kept = found.setdefault(label, {"distance": [], "cost": []})
            kept["distance"].append(float(f"{distance(told):.4g}"))
            kept["cost"].append(float(f"{cost:.4g}"))
    return found


STEPS = np.geomspace(1e-9, 0.5, 350)
"""Of Langevin methods in units of 1/n; of underdamped ones in time."""


class Rate(NamedTuple):
    """Powers of 1/ε, of n and of d."""

    accuracy: float
    rows: float
    dimension: float


RATES = {
    "LD": Rate(1, 0.5, 0.5),
    "ULD": Rate(1, 0.5, 0.5),
    "SGLD": Rate(2, 0, 1),
    "SGULD": Rate(2, 0, 1),
    "SAGA-LD": Rate(1, 0, 0.5),
    "SVRG-LD (I)": Rate(2, 0, 1),
    "SVRG-LD (II)": Rate(1, 0, 0.5),
    "CV-LD": Rate(4, 0, 2),
    "CV-ULD": Rate(3, 0, 1.5),
}
"""Of Table 1."""


SLOPE = Allowed(
    "two values or more, since a slope is read off them", lambda values: len(values) > 1
)


@dataclass(frozen=True)
class Settings:
    """Accuracies, in units of the width √d/n of the posterior, rows, dimensions and batches of the
    quadratic.

    Rows and dimensions vary at one accuracy, `fine` of the narrowest posterior; accuracies vary at
    the first of `rows` and `dimensions`. The others are of logistic regression.
    """

    accuracies: Annotated[tuple[Positive, ...], SLOPE]
    fine: Positive
    rows: Annotated[tuple[Count, ...], SLOPE]
    dimensions: Annotated[tuple[Count, ...], SLOPE]
    condition: Annotated[float, at_least(1)]
    batch_sizes: tuple[int, ...]
    logistic_rows: Annotated[tuple[Count, ...], SLOPE]
    logistic_dimensions: Annotated[tuple[Count, ...], SLOPE]
    logistic_batch: Count
    logistic_steps: Annotated[tuple[Positive, ...], SLOPE]

    def __post_init__(self) -> None:
        if (
            not self.batch_sizes
            or min(self.batch_sizes) < 1
            or max(self.batch_sizes) > min(self.rows)
        ):
            raise ConfigError(
                f"full.batch_sizes must be from 1 to {min(self.rows)}; got {list(self.batch_sizes)}"
            )


class Way(NamedTuple):
    """A method: its law at steps, given n, λ and b, its evaluations in a step, and passes before
    the first one.
    """

    law: Callable[[np.ndarray, int, float, int], Law]
    per_step: Callable[[int, int], float]
    passes_first: int
    in_time: bool = False


def _plain(of: Callable[..., Law], noise: float, has_center: bool, in_time: bool) -> Way:
    def law(h: np.ndarray, n: int, lam: float, b: int) -> Law:
        return of(h, n, lam, b if noise else None, noise, has_center)

    per_step = (lambda n, b: (2 if has_center else 1) * b) if noise else (lambda n, b: n)
    return Way(law, per_step, 2 * int(has_center), in_time)


def _anchored(option: str) -> Way:
    def law(h: np.ndarray, n: int, lam: float, b: int) -> Law:
        return svrg(h, n, lam, b, max(1, n // b), option)

    return Way(law, lambda n, b: 2 * b + n / max(1, n // b), 1)


WAYS = {
    "LD": _plain(langevin, 0.0, False, False),
    "ULD": _plain(underdamped, 0.0, False, True),
    "SGLD": _plain(langevin, 1.0, False, False),
    "SGULD": _plain(underdamped, 1.0, False, True),
    "SAGA-LD": Way(saga, lambda n, b: b, 1),
    "SVRG-LD (I)": _anchored("I"),
    "SVRG-LD (II)": _anchored("II"),
    "CV-LD": _plain(langevin, 1.0, True, False),
    "CV-ULD": _plain(underdamped, 1.0, True, True),
}
"""The methods of Table 1. To find a centre takes a pass at the least, and its gradients another
one.
"""


def distances(way: Way, n: int, curvatures: np.ndarray, b: int) -> tuple[np.ndarray, np.ndarray]:
    """Return W₂ from the target and the cost of an e-fold at each of STEPS; ∞ where there is no
    law.
    """
    h = STEPS if way.in_time else STEPS / n
    square = np.zeros(len(STEPS))
    slowest = np.full(len(STEPS), np.inf)
    for lam in curvatures:
        law = way.law(h, n, float(lam), b)
        square = square + (np.sqrt(np.maximum(law.variance, 0)) - np.sqrt(1 / (n * lam))) ** 2
        slowest = np.minimum(slowest, law.rate)
    return np.where(np.isnan(square), np.inf, np.sqrt(square)), way.per_step(n, b) / slowest


def cheapest(way: Way, n: int, d: int, accuracies: np.ndarray, settings: Settings) -> list[float]:
    """Return what each accuracy costs at the best step and batch, ∞ where none reaches it."""
    lowest = np.full(len(accuracies), np.inf)
    for b in settings.batch_sizes:
        far, cost = distances(way, n, spectrum(d, settings.condition), b)
        lowest = np.minimum(
            lowest, [np.min(cost[far <= each], initial=np.inf) for each in accuracies]
        )
    return [float(f"{x:.4g}") for x in lowest]


def spectrum(d: int, condition: float) -> np.ndarray:
    """Return the curvatures of d coordinates, from 1/condition to 1."""
    return np.geomspace(1.0, 1 / condition, d)


def on_quadratic(settings: Settings) -> Numbers:
    """Return the costs by accuracy, by rows and by dimensions."""
    n, d = settings.rows[0], settings.dimensions[0]
    by_accuracy = np.array(settings.accuracies) * np.sqrt(d / n)
    of_rows = np.array([settings.fine * np.sqrt(d / max(settings.rows))])
    of_dimensions = np.array([settings.fine * np.sqrt(min(settings.dimensions) / n)])
    found: dict[str, Any] = {}
    for label, way in WAYS.items():
        found[label] = {
            "first": way.passes_first * n,
            "accuracy": cheapest(way, n, d, by_accuracy, settings),
            "rows": [cheapest(way, each, d, of_rows, settings)[0] for each in settings.rows],
            "dimension": [
                cheapest(way, n, each, of_dimensions, settings)[0] for each in settings.dimensions
            ],
        }
    axes = {
        "accuracy": [1 / x for x in settings.accuracies],
        "rows": settings.rows,
        "dimension": settings.dimensions,
    }
    return {"axes": axes, "costs": found, "num_rows": n}


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: exact laws, then forecasts for each number of rows and of
    dimensions.
    """
    found: dict[str, Callable[[Parts], Numbers]] = {"quadratic": lambda _: on_quadratic(settings)}
    d = settings.logistic_dimensions[0]
    sizes = [(n, d) for n in settings.logistic_rows]
    sizes += [(settings.logistic_rows[0], each) for each in settings.logistic_dimensions[1:]]
    of = [(n, each, settings.logistic_batch, settings.logistic_steps) for n, each in sizes]
    return found | {f"logistic {x[0]} x {x[1]}": lambda _, x=x: forecasts(*x) for x in of}


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
    lines = [
        np.polyfit(-np.log(each[label]["distance"]), np.log(each[label]["cost"]), 1)
        for each in sets
    ]
    middle = float(np.mean([np.log(each[label]["distance"]) for each in sets]))
    at_middle = [float(np.exp(np.polyval(line, -middle))) for line in lines]
    first = sets[0]
    of_rows = [i for i, each in enumerate(sets) if each["dimension"] == first["dimension"]]
    of_dimension = [i for i, each in enumerate(sets) if each["rows"] == first["rows"]]
    return {
        "accuracy": float(np.median([line[0] for line in lines])),
        "rows": slope([sets[i]["rows"] for i in of_rows], [at_middle[i] for i in of_rows]),
        "dimension": slope(
            [sets[i]["dimension"] for i in of_dimension], [at_middle[i] for i in of_dimension]
        ),
    }


def totals(parts: Parts) -> dict[str, list[float]]:
    """Return what each accuracy costs each method on the quadratic, with what comes before the
    first step.
    """
    costs = parts["quadratic"]["costs"]
    return {
        label: [each["first"] + x for x in _finite(each["accuracy"])]
        for label, each in costs.items()
    }


def claims(parts: Parts) -> list[Claim]:
    """Judge each rate as a bound, and beside it as a rate; and which method is cheapest at which
    accuracy.
    """
    found = []
    for label, claimed in RATES.items():
        slopes = {
            "quadratic": quadratic_slopes(parts, label),
            "logistic": logistic_slopes(parts, label),
        }
        pairs = [
            (of[name], getattr(claimed, name))
            for of in slopes.values()
            for name in AXES
            if name in of
        ]
        told = "; ".join(
            f"{model} {', '.join(f'{of[name]:.2f}' for name in AXES)}"
            for model, of in slopes.items()
            if of
        )
        power = f"(1/ε)^{claimed.accuracy:g} n^{claimed.rows:g} d^{claimed.dimension:g}"
        below = float(np.mean([x <= bound + NEAR for x, bound in pairs]))
        near = float(np.mean([abs(x - bound) <= NEAR for x, bound in pairs]))
        found.append(
            Claim(
                f"{label}'s cost grows no faster than {power}, each by itself",
                below,
                f"powers {told}",
            )
        )
        found.append(
            Claim(f"{label}'s cost grows so fast", near, f"powers {told}", by_the_paper=False)
        )
    return [*found, *_regimes(parts)]


def _regimes(parts: Parts) -> list[Claim]:
    whole, axis = totals(parts), parts["quadratic"]["axes"]["accuracy"]
    best = [
        min(whole, key=lambda label, i=i: np.nan_to_num(whole[label][i], nan=np.inf))
        for i in range(len(axis))
    ]
    told = ", ".join(f"{label} at {1 / x:g}" for label, x in zip(best, axis, strict=True))
    between = best[1:-1]
    finest = {label: each[-1] for label, each in whole.items()}
    costs = ", ".join(f"{label} {x:.3g}" for label, x in finest.items())
    return [
        Claim(
            "SGLD or SGULD is the cheapest at the crudest accuracy",
            float(best[0] in ("SGLD", "SGULD")),
            told,
        ),
        Claim(
            "control variates are the cheapest at some accuracy",
            float("CV-LD" in between or "CV-ULD" in between),
            told,
        ),
        Claim("SAGA-LD is the cheapest at the finest", float(best[-1] == "SAGA-LD"), costs),
        Claim(
            "all methods that reduce variance are cheaper than SGLD at the finest",
            float(
                np.mean(
                    [
                        x < finest["SGLD"]
                        for label, x in finest.items()
                        if label[:2] in ("SA", "SV", "CV")
                    ]
                )
            ),
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
    lines = [
        Line(label, [axes["rows"][i] for i in order], [y[i] for i in order])
        for label, y in by_rows.items()
    ]
    shown.append(Panel("quadratic, one ε", "n", "evaluations of a row", lines, (True, True)))
    return shown


EXPERIMENT = Experiment(
    "vr-rates",
    "Chatterji et al., Table 1",
    "how the cost of an accuracy grows",
    Settings,
    parts,
    claims,
    draw,
)
