"""What an accuracy costs: Table 1 of Chatterji et al., on a strongly convex quadratic and on logistic regression.

The entries of the table are lost. RATES has them as the text, the abstract and the theorems let them be told: the
powers of 1/ε, n and d with which gradients of rows grow, beside a first O(n), for n above d and curvatures that
grow as n. ε is a distance in W₂. They are bounds: where ε² < d/n, √(nd)/ε is within d/ε², and yet it grows with n.
Each power is judged by itself.

Nothing is sampled. On the quadratic laws are exact (`quadratic_laws`); a method costs its evaluations in the time
in which distances of means shrink by e, at the cheapest step and batch whose stationary law is within ε, W₂ being
that of normal laws of these moments. Anchors of SVRG are renewed every n/b steps. On logistic regression costs
are what `ewsg_jax.forecast` says of kernels at several steps (`logistic_rates`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ewsg_jax.experiments.tables import ConfigError, above_zero, at_least
from ewsg_jax.reproduction import logistic_rates
from ewsg_jax.reproduction.experiment import Numbers, Parts
from ewsg_jax.reproduction.quadratic_laws import Law, langevin, saga, svrg, underdamped

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


@dataclass(frozen=True)
class Settings:
    """Accuracies, in units of the width √d/n of the posterior, rows, dimensions and batches of the quadratic.

    Rows and dimensions vary at one accuracy, `fine` of the narrowest posterior; accuracies vary at the first of
    `rows` and `dimensions`. The others are of logistic regression.
    """

    accuracies: tuple[float, ...]
    fine: float
    rows: tuple[int, ...]
    dimensions: tuple[int, ...]
    condition: float
    batch_sizes: tuple[int, ...]
    logistic_rows: tuple[int, ...]
    logistic_dimensions: tuple[int, ...]
    logistic_batch: int
    logistic_steps: tuple[float, ...]

    def __post_init__(self) -> None:
        at_least("full", self, condition=1, logistic_batch=1)
        above_zero("full.fine", self.fine)
        for name in ("accuracies", "rows", "dimensions", "logistic_rows", "logistic_dimensions", "logistic_steps"):
            values = getattr(self, name)
            if len(values) < 2:
                raise ConfigError(f"full.{name} must have two values at least: a slope is read off them")
            for value in values:
                above_zero(f"full.{name}", value)
        if not self.batch_sizes or min(self.batch_sizes) < 1 or max(self.batch_sizes) > min(self.rows):
            raise ConfigError(f"full.batch_sizes must be from 1 to {min(self.rows)}; got {list(self.batch_sizes)}")


class Way(NamedTuple):
    """A method: its law at steps, given n, λ and b, its evaluations in a step, and passes before the first one."""

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
"""The methods of Table 1. To find a centre takes a pass at the least, and its gradients another one."""


def distances(way: Way, n: int, curvatures: np.ndarray, b: int) -> tuple[np.ndarray, np.ndarray]:
    """Return W₂ from the target and the cost of an e-fold at each of STEPS; ∞ where there is no law."""
    h, square, slowest = STEPS if way.in_time else STEPS / n, np.zeros(len(STEPS)), np.full(len(STEPS), np.inf)
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
        lowest = np.minimum(lowest, [np.min(cost[far <= each], initial=np.inf) for each in accuracies])
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
            "dimension": [cheapest(way, n, each, of_dimensions, settings)[0] for each in settings.dimensions],
        }
    axes = {
        "accuracy": [1 / x for x in settings.accuracies],
        "rows": settings.rows,
        "dimension": settings.dimensions,
    }
    return {"axes": axes, "costs": found, "num_rows": n}


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: exact laws, then forecasts for each number of rows and of dimensions."""
    found: dict[str, Callable[[Parts], Numbers]] = {"quadratic": lambda _: on_quadratic(settings)}
    d = settings.logistic_dimensions[0]
    sizes = [(n, d) for n in settings.logistic_rows]
    sizes += [(settings.logistic_rows[0], each) for each in settings.logistic_dimensions[1:]]
    of = [(n, each, settings.logistic_batch, settings.logistic_steps) for n, each in sizes]
    return found | {f"logistic {x[0]} x {x[1]}": lambda _, x=x: logistic_rates.forecasts(*x) for x in of}
