"""Mean squared errors of time averages on the Gaussian of `gaussian`: Figures 1d to 1f of Li, Wang,
Zha & Tao.

The average of φ = ‖θ − mean‖², whose expectation is 2/n, over a time T = Kh of EWSG with M = 1.
Theorem 4.3 bounds its mean squared error by the order of 1/T + h/T + h²: each term is looked for
where others are small. The second stands beside the first, which does not vanish with h: it is what
the error at a step exceeds that of full gradients at the same step by.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers.annotations import Array, Key
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel
from benchmarks.papers.gaussian import MODEL, NUM_ROWS, rows_of
from ewsg_jax import Kernel, ewsg, moments, sample, uld
from ewsg_jax.cli.config import at_least

NEAR = 0.25
"""How far a slope may be from the one that is claimed."""


@dataclass(frozen=True)
class Settings:
    """Chains on the data of each seed, and of each panel the steps and times.

    The panels: `times` at `small_step`; `short_steps` for `short_time`; `long_steps` for
    `long_time` after a tenth.
    """

    num_chains: Annotated[int, at_least(2)]
    data_seeds: tuple[int, ...]
    friction: float
    small_step: float
    times: tuple[float, ...]
    short_steps: tuple[float, ...]
    short_time: float
    long_steps: tuple[float, ...]
    long_time: float


def averages(
    kernel: Kernel[Array], data: Array, num_chains: int, lengths: Sequence[int], key: Key
) -> np.ndarray:
    """Return each chain's averages of φ over so many first steps, shape (lengths, chain)."""
    center = data.mean(0)
    running = moments(of=lambda position: jnp.sum((position - center) ** 2), covariance="none")
    options = {"num_chains": num_chains, "keep": None, "moments": running}
    position, state, total, before, found = jnp.zeros(2), None, 0.0, 0, []
    for length in lengths:
        samples = sample(key, kernel, position, data, length - before, state=state, **options)
        assert samples.moments is not None
        total = total + (length - before) * np.asarray(samples.moments.mean, float)
        position, state, before = None, samples.state, length
        found.append(total / length)
    return np.array(found)


def on(seed: int, settings: Settings) -> Numbers:
    """Return the errors of all panels on one data set."""
    data, key = rows_of(seed), jax.random.key(seed)
    truth, gamma, chains = 2 / NUM_ROWS, settings.friction, settings.num_chains
    evaluations = 0

    def weighted(step: float) -> Kernel[Array]:
        return ewsg(MODEL, step, friction=gamma, batch_size=1, chain_length=1, integrator="euler")

    def of(kernel: Kernel[Array], lengths: Sequence[int], number: int) -> np.ndarray:
        nonlocal evaluations
        evaluations += chains * int(kernel.evaluations(data).of_steps(0, lengths[-1]))
        return averages(kernel, data, chains, lengths, jax.random.fold_in(key, number))

    lengths = [round(time / settings.small_step) for time in settings.times]
    by_time = np.mean((of(weighted(settings.small_step), lengths, 1) - truth) ** 2, axis=1)
    short = []
    for number, step in enumerate(settings.short_steps):
        length = [round(settings.short_time / step)]
        both = weighted(step), uld(MODEL, step, friction=gamma, integrator="euler")
        own, full = (of(kernel, length, 100 + 2 * number + i)[0] for i, kernel in enumerate(both))
        short.append(
            {"mse": float(np.mean((own - truth) ** 2)), "full": float(np.mean((full - truth) ** 2))}
        )
    long = []
    for number, step in enumerate(settings.long_steps):
        last = round(settings.long_time / step)
        first = last // 10
        found = of(weighted(step), [first, last], 1_000 + number)
        means = (last * found[1] - first * found[0]) / (last - first)
        long.append(
            {"bias": float(means.mean() - truth), "error": float(means.std() / chains**0.5)}
        )
    return {
        "by_time": [float(x) for x in by_time],
        "short": short,
        "long": long,
        "evaluations": evaluations,
    }


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: the axes, then all panels on each data set."""

    def axes(_: Parts) -> Numbers:
        return {
            "times": settings.times,
            "short_steps": settings.short_steps,
            "long_steps": settings.long_steps,
        }

    return {"axes": axes} | {
        f"data {seed}": lambda _, seed=seed: on(seed, settings) for seed in settings.data_seeds
    }


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent of y as a power of x, by least squares; NaN where y is not positive
    throughout.
    """
    if not np.all(np.asarray(y) > 0):
        return float("nan")
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def panels_of(parts: Parts) -> dict[str, tuple[Sequence[float], list[list[float]], float, str]]:
    """Return of each panel the axis, the errors of each data set, the slope that is claimed, and
    words for it.
    """
    axes, sets = parts["axes"], [part for name, part in parts.items() if name != "axes"]
    return {
        "1d": (axes["times"], [each["by_time"] for each in sets], -1.0, "the error falls as 1/T"),
        "1e": (
            axes["short_steps"],
            [[x["mse"] - x["full"] for x in each["short"]] for each in sets],
            1.0,
            "at a short T what batches add to the error grows as h",
        ),
        "1f": (
            axes["long_steps"],
            [[x["bias"] ** 2 for x in each["long"]] for each in sets],
            2.0,
            "at a long T the error grows as h²",
        ),
    }


def claims(parts: Parts) -> list[Claim]:
    """Judge each slope on each data set."""
    found = []
    for figure, (axis, errors, claimed, words) in panels_of(parts).items():
        slopes = [slope(axis, each) for each in errors]
        share = float(np.mean([abs(each - claimed) <= NEAR for each in slopes]))
        told = ", ".join("none" if np.isnan(each) else f"{each:.2f}" for each in slopes)
        # Weights stiffen the target, which at small steps makes the error less than that of full
        # gradients.
        below = ", ".join(
            f"{x:g}" for x, *each in zip(axis, *errors, strict=True) if min(each) <= 0
        )
        none = f"; none where it is not above 0, which it is not at {below}" if below else ""
        found.append(Claim(f"{words} (Fig. {figure})", share, f"slopes {told}{none}"))
    return found


def draw(parts: Parts) -> list[Panel]:
    """Draw the three panels, data set by data set, with the slopes that are claimed."""
    shown = []
    names = {
        "1d": ("T", "mean squared error"),
        "1e": ("h", "error − that of full gradients"),
        "1f": ("h", "bias²"),
    }
    for figure, (axis, errors, claimed, words) in panels_of(parts).items():
        lines = [
            Line(f"data {i}", axis, [x if x > 0 else None for x in each])
            for i, each in enumerate(errors)
        ]
        middle = float(np.median([abs(each[0]) for each in errors]))
        guide = [middle * (x / axis[0]) ** claimed for x in axis]
        lines.append(Line(f"slope {claimed:g}", axis, guide, is_guide=True))
        shown.append(Panel(f"{figure}: {words}", *names[figure], lines, (True, True)))
    return shown


EXPERIMENT = Experiment(
    "gaussian-mse",
    "Li, Wang, Zha & Tao, Fig. 1d–f",
    "how the error of time averages goes with the time and the step",
    Settings,
    parts,
    claims,
    draw,
)
