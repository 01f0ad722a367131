"""Sampling a Gaussian in the plane: V(θ) = Σᵢ ½‖θ − cᵢ‖², cᵢ ~ N(0, I), n = 50, batches of one row.

Section 5.1 of Li, Wang, Zha & Tao, Figures 1a to 1c, and Figure 4: KL(target ‖ normal law fitted to
independent chains), pass by pass. The paper draws the cᵢ once and does not say where chains start;
here several data sets are drawn, and chains start at 0.
"""

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers.annotations import Array, Key
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel, numbers
from benchmarks.papers.predicting import JUDGED, short, worst
from ewsg_jax import METHODS, Kernel, Samples, check, models, sample, stack
from ewsg_jax.cli.config import Count, MethodConfig, at_least, methods_of

NUM_ROWS = 50
"""The cᵢ."""
TUNING_SEED = 2**20
"""Of the data on which steps are tuned."""
MODEL = models.gaussian_location()


@dataclass(frozen=True)
class Settings:
    """`num_chains` of each method on the data of each seed, for so many passes; steps that are
    tried in tuning.

    All methods are run at each of `map_step_sizes` on the data of each seed too, with the chains of
    tuning.
    """

    num_chains: Annotated[int, at_least(8 * JUDGED)]
    data_passes: Count
    data_seeds: tuple[int, ...]
    step_sizes: tuple[float, ...]
    tuning_chains: Annotated[int, at_least(8)]
    map_step_sizes: tuple[float, ...] = ()
    methods: list = field(default_factory=list)

    @property
    def named(self) -> dict[str, MethodConfig]:
        """The methods by their labels."""
        return methods_of(self.methods)


def rows_of(seed: int) -> Array:
    """Return the cᵢ of a seed, shape (50, 2)."""
    return jax.random.normal(jax.random.key(seed), (NUM_ROWS, 2))


def divergence(draws: np.ndarray, rows: np.ndarray) -> float:
    """Return KL(target ‖ normal law fitted to draws (chains, 2)), ∞ where these are at one point,
    or not finite.
    """
    if not np.isfinite(draws).all():
        return float("inf")
    covariance, off = np.cov(draws.T), draws.mean(0) - rows.mean(0)
    sign, log_det = np.linalg.slogdet(covariance)
    if sign <= 0:
        return float("inf")
    precision = np.linalg.inv(covariance)
    squares = np.trace(precision) / len(rows) + off @ precision @ off
    return float(squares - 2 + log_det + 2 * np.log(len(rows))) / 2


def kernel_of(method: MethodConfig, step_size: float | None = None) -> Kernel[Array]:
    """Return a method's kernel, at its own step or another one."""
    changed = {} if step_size is None else {"step_size": step_size}
    return METHODS[method.name].build(MODEL, **{**method.options, **changed})


def run_of(kernel: Kernel[Array], data: Array, num_chains: int, passes: int, key: Key) -> Any:
    """Return samples of a kernel or a stack, from 0 with a draw for about every pass; lost chains
    are no news.
    """
    cost = kernel.evaluations(data)
    every = cost.per_step + cost.per_refresh / cost.refresh_every
    thin = max(1, round(NUM_ROWS / every))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return sample(
            key, kernel, jnp.zeros(2), data, data_passes=passes, num_chains=num_chains, thin=thin
        )


def divergences(samples: Samples[Array], data: Array) -> list[float]:
    """Return the divergence at each draw, ∞ from the first on at which a chain is lost."""
    rows, draws = np.asarray(data, float), np.asarray(samples.position, float)
    lost = ~samples.is_finite.all()
    return [float("inf") if lost else divergence(draws[:, i], rows) for i in range(draws.shape[1])]


def measured(kernel: Kernel[Array], seed: int, settings: Settings, number: int) -> Numbers:
    """Return the divergence along passes, and what `check` says of the last positions."""
    data = rows_of(seed)
    key = jax.random.fold_in(jax.random.key(seed), 1 + number)
    samples = run_of(kernel, data, settings.num_chains, settings.data_passes, key)
    numbers: Numbers = {
        "passes": [round(float(x), 3) for x in samples.evaluations / NUM_ROWS],
        "kl": [float(f"{x:.5g}") for x in divergences(samples, data)],
        "evaluations": int(samples.gradient_evaluations),
    }
    if samples.is_finite.all():
        last = np.asarray(samples.position)[: settings.num_chains // JUDGED * JUDGED, -1].reshape(
            JUDGED, -1, 2
        )
        numbers["check"] = worst(check(jax.random.fold_in(key, 0), last, MODEL, data))
    return numbers


def ends(
    method: MethodConfig, step_sizes: tuple[float, ...], data: Array, settings: Settings, key: Key
) -> list[float]:
    """Return the divergence after all passes at each step: one program, on the same
    rows and noise.
    """
    kernels = stack([kernel_of(method, step_size) for step_size in step_sizes])
    runs = run_of(kernels, data, settings.tuning_chains, settings.data_passes, key)
    return [divergences(samples, data)[-1] for samples in runs]


def tuned(method: MethodConfig, settings: Settings) -> float:
    """Return the step, of those that are tried, at which the divergence after all
    passes is least.
    """
    key = jax.random.key(TUNING_SEED)
    found = ends(method, settings.step_sizes, rows_of(TUNING_SEED), settings, key)
    return settings.step_sizes[int(np.argmin(found))]


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: tuned steps; then all methods on each data set, at both steps."""
    named = settings.named

    def tuning(_: Parts) -> Numbers:
        return {"step_sizes": {label: tuned(method, settings) for label, method in named.items()}}

    def mapped(seed: int) -> Numbers:
        tried = settings.map_step_sizes
        data = rows_of(seed)
        key = jax.random.fold_in(jax.random.key(seed), 0)
        kl = {label: ends(method, tried, data, settings, key) for label, method in named.items()}
        return {
            "step_sizes": list(tried),
            "kl": {label: short(values) for label, values in kl.items()},
        }

    def on(seed: int) -> Callable[[Parts], Numbers]:
        def both(done: Parts) -> Numbers:
            steps = {"paper": dict.fromkeys(named), "tuned": done["tuning"]["step_sizes"]}
            found: dict[str, Any] = {
                which: {
                    label: measured(kernel_of(method, of[label]), seed, settings, number)
                    for number, (label, method) in enumerate(named.items())
                }
                for which, of in steps.items()
            }
            if settings.map_step_sizes:
                found["map"] = mapped(seed)
            spent = sum(each["evaluations"] for which in steps for each in found[which].values())
            return found | {"evaluations": spent}

        return both

    return {"tuning": tuning} | {f"data {seed}": on(seed) for seed in settings.data_seeds}


PAPER, TUNED = "paper", "tuned"
STEPS = {PAPER: "the paper's steps", TUNED: "tuned steps"}
Curves = dict[str, Any]


def data_sets(parts: Parts) -> list[Any]:
    """Return the numbers of each data set."""
    return [part for name, part in parts.items() if name != "tuning"]


def last(curves: Curves, label: str) -> float:
    """Return a method's divergence after all passes, ∞ where it lost a chain."""
    end = curves[label]["kl"][-1]
    return float("inf") if end is None else end


def arrival(curves: Curves, label: str) -> float:
    """Return the passes after which the divergence stays below twice its last value."""
    ends = np.array([np.inf if x is None else x for x in curves[label]["kl"]])
    late = np.flatnonzero(ends > 2 * ends[-1])
    return 0.0 if not len(late) else curves[label]["passes"][min(late[-1] + 1, len(ends) - 1)]


def claims_of(
    parts: Parts,
    words: str,
    shown: list[str],
    is_so: Callable[[Curves], bool],
    value: Callable[..., float] = last,
) -> list[Claim]:
    """Return a claim at the paper's steps, and beside it the same at tuned ones."""
    found = []
    for which, name in STEPS.items():
        curves = [each[which] for each in data_sets(parts)]
        share = float(np.mean([is_so(each) for each in curves]))
        medians = ", ".join(
            f"{x} {np.median([value(each, x) for each in curves]):.3g}" for x in shown
        )
        number = f"{sum(map(is_so, curves))} of {len(curves)} data sets; medians: {medians}"
        found.append(Claim(f"{words}, at {name}", share, number, by_the_paper=which == PAPER))
    return found


def closer(parts: Parts, first: str, second: str) -> list[Claim]:
    """Return the claim that one method is closer than another after all passes."""
    words = f"{first} is closer to the target than {second} after equal passes"
    return claims_of(
        parts, words, [first, second], lambda each: last(each, first) < last(each, second)
    )


def least(parts: Parts, first: str, others: list[str]) -> list[Claim]:
    """Return the claim that one method is the closest of all."""

    def is_least(curves: Curves) -> bool:
        return last(curves, first) < min(last(curves, x) for x in others)

    return claims_of(
        parts, f"{first} is the closest of all after equal passes", [first, *others], is_least
    )


def ordered(parts: Parts, labels: list[str], words: str) -> list[Claim]:
    """Return the claim that each method is closer than the one before it."""

    def falls(curves: Curves) -> bool:
        ends = [last(curves, x) for x in labels]
        return all(after < before for before, after in itertools.pairwise(ends))

    return claims_of(parts, words, labels, falls)


def slowest(parts: Parts, first: str, others: list[str]) -> list[Claim]:
    """Return the claim that one method is the last to come near where it ends."""

    def is_last(curves: Curves) -> bool:
        return arrival(curves, first) > max(arrival(curves, x) for x in others)

    words = f"{first} takes the most passes to come within twice its last divergence"
    return claims_of(parts, words, [first, *others], is_last, arrival)


def mapped(parts: Parts) -> tuple[list[float], dict[str, np.ndarray]]:
    """Return the steps of the map, and each method's divergences, shape (data set, step), ∞ for
    lost chains.
    """
    maps = [each["map"] for each in data_sets(parts)]
    kl = {label: np.array([numbers(each["kl"][label]) for each in maps]) for label in maps[0]["kl"]}
    return maps[0]["step_sizes"], {
        label: np.where(np.isnan(x), np.inf, x) for label, x in kl.items()
    }


def everywhere(parts: Parts, labels: list[str], words: str) -> Claim:
    """Return the claim that each method is closer than the one before it, at all steps and data
    sets of the map.
    """
    steps, kl = mapped(parts)
    falls = np.all([kl[after] < kl[before] for before, after in itertools.pairwise(labels)], axis=0)
    counts = ", ".join(f"{h:g} {so}" for h, so in zip(steps, falls.sum(0), strict=True))
    shown = f"of {len(falls)} data sets at each h: {counts}"
    return Claim(
        f"{words}, at every step and on all data", float(falls.mean()), shown, by_the_paper=False
    )


def best(parts: Parts, labels: list[str]) -> list[Claim]:
    """Return for each method the claim that at its own best step it is the closest of all."""
    _, kl = mapped(parts)
    least = np.array([kl[label].min(1) for label in labels])
    return [
        Claim(
            f"{label} is the closest of all, each at its own best step",
            float(np.mean(least.argmin(0) == i)),
            f"{(least.argmin(0) == i).sum()} of {least.shape[1]} data sets; median "
            f"{np.median(least[i]):.3g}",
            by_the_paper=False,
        )
        for i, label in enumerate(labels)
    ]


def _map(parts: Parts) -> Panel:
    steps, kl = mapped(parts)
    order = np.argsort(steps)
    lines = []
    for label, values in kl.items():
        # Nearest, as there is nothing between a number and ∞.
        quartiles = np.quantile(values[:, order], [0.25, 0.5, 0.75], axis=0, method="nearest")
        low, middle, high = (
            [float(x) if np.isfinite(x) else None for x in each] for each in quartiles
        )
        lines.append(Line(label, np.array(steps)[order].tolist(), middle, low, high))
    return Panel(
        "after all passes", "step size h", "KL(target ‖ fitted normal law)", lines, (True, True)
    )


def draw(parts: Parts) -> list[Panel]:
    """Draw the median divergence over data sets along passes, with its quartiles, at both steps,
    and the map.
    """
    shown = []
    for which, name in STEPS.items():
        curves = [each[which] for each in data_sets(parts)]
        lines = []
        for label in curves[0]:
            kl = np.array([numbers(each[label]["kl"]) for each in curves])
            quartiles = [list(row) for row in np.quantile(kl, [0.25, 0.5, 0.75], axis=0)]
            step = parts["tuning"]["step_sizes"][label]
            mark = f"{label}, h = {step:g}" if which == TUNED else label
            passes = curves[0][label]["passes"]
            lines.append(Line(mark, passes, quartiles[1], quartiles[0], quartiles[2], of=label))
        shown.append(Panel(name, "passes over the data", "KL(target ‖ fitted normal law)", lines))
    if "map" in data_sets(parts)[0]:
        shown.append(_map(parts))
    return shown


def _experiment(
    name: str, figure: str, question: str, claims: Callable[[Parts], list[Claim]]
) -> Experiment:
    source = f"Li, Wang, Zha & Tao, {figure}"
    return Experiment(name, source, question, Settings, parts, claims, draw)


def _of_methods(parts: Parts) -> list[Claim]:
    weaker = ["SGHMC", "SGLD", "pSGLD"]
    return [
        *(claim for other in weaker for claim in closer(parts, "EWSG", other)),
        *least(parts, "SVRG-LD", ["EWSG", *weaker]),
        *slowest(parts, "SVRG-LD", ["EWSG", *weaker]),
    ]


X = ["x = √hγr/σ", "x = 0", "x = 1", "x = rest"]
M = ["M = 0", "M = 1", "M = 9", "M = 19"]
LONGER = "the longer the index chain, the closer to the target"
EXPERIMENTS = (
    _experiment(
        "gaussian-kl", "Fig. 1a", "how near the target five methods come, pass by pass", _of_methods
    ),
    _experiment(
        "gaussian-x",
        "Fig. 1b",
        "which x of the weights is best",
        lambda parts: least(parts, X[0], X[1:]),
    ),
    _experiment(
        "gaussian-m",
        "Fig. 1c",
        "what longer index chains give at equal passes",
        lambda parts: [
            *closer(parts, "M = 1", "M = 0"),
            *ordered(parts, M, LONGER),
            everywhere(parts, M[:2], "M = 1 is closer to the target than M = 0 after equal passes"),
            everywhere(parts, M, LONGER),
            *best(parts, M),
        ],
    ),
    _experiment(
        "gaussian-vr",
        "Fig. 4",
        "what EWSG-VR adds to EWSG, with matrix friction over plain batches beside it",
        lambda parts: [
            *closer(parts, "EWSG-VR", "EWSG"),
            *slowest(parts, "full gradient", ["EWSG-VR", "EWSG"]),
            *(replace(each, by_the_paper=False) for each in closer(parts, "NC-SGHMC", "EWSG-VR")),
        ],
    ),
)
