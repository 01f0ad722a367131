"""Sampling a Gaussian in the plane: V(θ) = Σᵢ ½‖θ − cᵢ‖², cᵢ ~ N(0, I), n = 50, batches of one row.

Section 5.1 of Li, Wang, Zha & Tao, Figures 1a to 1c, and Figure 4: KL(target ‖ normal law fitted to independent
chains), pass by pass. The paper draws the cᵢ once and does not say where chains start; here several data sets are
drawn, and chains start at 0.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import models
from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Array, Key
from ewsg_jax.checking import check
from ewsg_jax.experiments.config import Method, method_of
from ewsg_jax.experiments.tables import at_least
from ewsg_jax.methods import METHODS
from ewsg_jax.reproduction.experiment import Numbers, Parts
from ewsg_jax.reproduction.judging import JUDGED, short, worst
from ewsg_jax.sampling import Samples, sample
from ewsg_jax.stacking import stack

NUM_ROWS = 50
"""The cᵢ."""
TUNING_SEED = 2**20
"""Of the data on which steps are tuned."""
MODEL = models.gaussian_location()


@dataclass(frozen=True)
class Settings:
    """`num_chains` of each method on the data of each seed, for so many passes; steps that are tried in tuning.

    All methods are run at each of `map_step_sizes` on the data of each seed too, with the chains of tuning.
    """

    num_chains: int
    data_passes: int
    data_seeds: tuple[int, ...]
    step_sizes: tuple[float, ...]
    tuning_chains: int
    map_step_sizes: tuple[float, ...] = ()
    methods: list = field(default_factory=list)

    def __post_init__(self) -> None:
        at_least("full", self, num_chains=8 * JUDGED, data_passes=1, tuning_chains=8)

    @property
    def named(self) -> dict[str, Method]:
        """The methods by their labels."""
        return {each.label: each for each in (method_of(table, i) for i, table in enumerate(self.methods, 1))}


def rows_of(seed: int) -> Array:
    """Return the cᵢ of a seed, shape (50, 2)."""
    return jax.random.normal(jax.random.key(seed), (NUM_ROWS, 2))


def divergence(draws: np.ndarray, rows: np.ndarray) -> float:
    """Return KL(target ‖ normal law fitted to draws (chains, 2)), ∞ where these are at one point, or not finite."""
    if not np.isfinite(draws).all():
        return float("inf")
    covariance, off = np.cov(draws.T), draws.mean(0) - rows.mean(0)
    sign, log_det = np.linalg.slogdet(covariance)
    if sign <= 0:
        return float("inf")
    precision = np.linalg.inv(covariance)
    squares = np.trace(precision) / len(rows) + off @ precision @ off
    return float(squares - 2 + log_det + 2 * np.log(len(rows))) / 2


def kernel_of(method: Method, step_size: float | None = None) -> Kernel[Array]:
    """Return a method's kernel, at its own step or another one."""
    changed = {} if step_size is None else {"step_size": step_size}
    return METHODS[method.name].build(MODEL, **{**method.options, **changed})


def run_of(kernel: Kernel[Array], data: Array, num_chains: int, passes: int, key: Key) -> Any:
    """Return samples of a kernel or a stack, from 0 with a draw for about every pass; lost chains are no news."""
    cost = kernel.evaluations(data)
    every = cost.per_step + cost.per_refresh / cost.refresh_every
    thin = max(1, round(NUM_ROWS / every))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return sample(key, kernel, jnp.zeros(2), data, data_passes=passes, num_chains=num_chains, thin=thin)


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
        last = np.asarray(samples.position)[: settings.num_chains // JUDGED * JUDGED, -1].reshape(JUDGED, -1, 2)
        numbers["check"] = worst(check(jax.random.fold_in(key, 0), last, MODEL, data))
    return numbers


def ends(method: Method, step_sizes: tuple[float, ...], data: Array, settings: Settings, key: Key) -> list[float]:
    """Return the divergence after all passes at each step: one program, on the same rows and noise."""
    kernels = stack([kernel_of(method, step_size) for step_size in step_sizes])
    runs = run_of(kernels, data, settings.tuning_chains, settings.data_passes, key)
    return [divergences(samples, data)[-1] for samples in runs]


def tuned(method: Method, settings: Settings) -> float:
    """Return the step, of those that are tried, at which the divergence after all passes is least."""
    key = jax.random.key(TUNING_SEED)
    found = ends(method, settings.step_sizes, rows_of(TUNING_SEED), settings, key)
    return settings.step_sizes[int(np.argmin(found))]


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: tuned steps; then all methods on each data set, at both steps."""
    named = settings.named

    def tuning(_: Parts) -> Numbers:
        return {"step_sizes": {label: tuned(method, settings) for label, method in named.items()}}

    def mapped(seed: int) -> Numbers:
        tried, data, key = settings.map_step_sizes, rows_of(seed), jax.random.fold_in(jax.random.key(seed), 0)
        kl = {label: ends(method, tried, data, settings, key) for label, method in named.items()}
        return {"step_sizes": list(tried), "kl": {label: short(values) for label, values in kl.items()}}

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
