"""How fast means converge under exponential weights: Theorem H.1 of Li, Wang, Zha & Tao.

Vᵢ = (θ − μᵢ)²/2n, Σ μᵢ = 0, 0 < γ < 2, Euler's scheme. With uniform rows the means x = (E θ, E r)
are exactly (I + hA)ᵏ x₀, A = [[0, 1], [−1, −γ]]; with weighted rows, P(i) = 1/n + O(hᵖ), they are
said to be O(hᵖ) from there. The exponents of the weights are of order h, so p = 1. Both have the
same keys, and so little noise between them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.papers.annotations import Array
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel
from benchmarks.papers.gaussian_mse import NEAR, slope
from ewsg_jax import Kernel, Posterior, sample
from ewsg_jax.cli.config import at_least

START, SURE, ROUNDING = 3.0, 5.0, 1e-4
"""θ₀, at rest; the standard errors within which a mean is what it is said to be, and the least that
one is.
"""


@dataclass(frozen=True)
class Settings:
    """Chains for the data of each seed, n rows, and the steps, each for so long a time."""

    num_chains: Annotated[int, at_least(100)]
    data_seeds: tuple[int, ...]
    num_rows: Annotated[int, at_least(2)]
    friction: float
    step_sizes: tuple[float, ...]
    time: float


@dataclass(frozen=True)
class _LogLikelihood:
    """−(θ − μᵢ)²/2n of a row."""

    num_rows: int

    def __call__(self, position: Array, row: Array) -> Array:
        return -((position - row) ** 2) / (2 * self.num_rows)


def exact(step: float, friction: float, num_steps: int) -> np.ndarray:
    """Return E θ after each step of uniform rows."""
    moved = np.eye(2) + step * np.array([[0, 1], [-1, -friction]])
    x = np.array([START, 0.0])
    found = []
    for _ in range(num_steps):
        x = moved @ x
        found.append(x[0])
    return np.array(found)


def on(seed: int, settings: Settings) -> Numbers:
    """Return what both methods do on one data set, step by step."""
    rows = np.random.default_rng(seed).standard_normal(settings.num_rows)
    data = jnp.asarray(rows - rows.mean(), jnp.float32)
    posterior = Posterior(_LogLikelihood(settings.num_rows), lambda position: 0.0 * position)
    shared: dict[str, Any] = {"friction": settings.friction, "batch_size": 1, "integrator": "euler"}
    evaluations, found = 0, []
    for number, step in enumerate(settings.step_sizes):
        count, key = round(settings.time / step), jax.random.fold_in(jax.random.key(seed), number)
        kernels: dict[str, Kernel[Array]] = {
            "SGHMC": ewsg.sghmc(posterior, step, **shared),
            "EWSG": ewsg.ewsg(posterior, step, chain_length=1, **shared),
        }
        told: dict[str, Any] = {"step": step, "exact": exact(step, settings.friction, count)}
        for label, kernel in kernels.items():
            chains = settings.num_chains
            samples = sample(key, kernel, jnp.float32(START), data, count, num_chains=chains)
            draws = np.asarray(samples.position, float)
            evaluations += int(samples.gradient_evaluations)
            told[label] = draws.mean(0)
            told[f"{label}, error"] = draws.std(0) / chains**0.5
        found.append(
            {name: np.round(x, 5) if isinstance(x, np.ndarray) else x for name, x in told.items()}
        )
    return {"steps": found, "evaluations": evaluations}


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: each data set."""
    return {f"data {seed}": lambda _, seed=seed: on(seed, settings) for seed in settings.data_seeds}


def claims(parts: Parts) -> list[Claim]:
    """Judge the means of uniform rows, and how far those of weighted rows are from them."""
    sets = [part["steps"] for part in parts.values()]
    off = [max(_off(x) for x in steps) for steps in sets]
    slopes = [slope([x["step"] for x in steps], [_apart(x) for x in steps]) for steps in sets]
    told = "; ".join(
        ", ".join(f"{_apart(x):.3f} at h = {x['step']:g}" for x in steps) for steps in sets
    )
    return [
        Claim(
            "with uniform rows means are (I + hA)ᵏ x₀",
            float(np.mean([each <= SURE for each in off])),
            f"largest distance {max(off):.1f} standard errors",
        ),
        Claim(
            "with weighted rows they are O(h) from there",
            float(np.mean([each >= 1 - NEAR for each in slopes])),
            f"largest distances {told}; slopes {', '.join(f'{each:.2f}' for each in slopes)}",
        ),
    ]


def _off(of_step: Numbers) -> float:
    """Return how many standard errors means of uniform rows are from the exact ones, at most."""
    error = np.maximum(of_step["SGHMC, error"], ROUNDING)
    return float(np.max(np.abs(np.subtract(of_step["SGHMC"], of_step["exact"])) / error))


def _apart(of_step: Numbers) -> float:
    """Return the largest distance of E θ between the two methods, at any step."""
    return float(np.max(np.abs(np.subtract(of_step["EWSG"], of_step["SGHMC"]))))


def draw(parts: Parts) -> list[Panel]:
    """Draw E θ against time at the largest and the least step, and the distances."""
    steps = next(iter(parts.values()))["steps"]
    shown = []
    for of_step in (steps[0], steps[-1]):
        time = list(of_step["step"] * (1 + np.arange(len(of_step["exact"]))))
        lines = [Line(label, time, of_step[label]) for label in ("SGHMC", "EWSG")]
        lines.append(Line("(I + hA)ᵏ x₀", time, of_step["exact"], is_guide=True))
        shown.append(Panel(f"h = {of_step['step']:g}", "time", "E θ", lines, (False, False)))
    axis, apart = [x["step"] for x in steps], [_apart(x) for x in steps]
    guide = [apart[0] * x / axis[0] for x in axis]
    lines = [Line("EWSG − SGHMC", axis, apart), Line("slope 1", axis, guide, is_guide=True)]
    return [*shown, Panel("largest distance of E θ", "h", "", lines, (True, True))]


EXPERIMENT = Experiment(
    "convergence-speed",
    "Li, Wang, Zha & Tao, Theorem H.1",
    "whether weights slow the convergence of means",
    Settings,
    parts,
    claims,
    draw,
)
