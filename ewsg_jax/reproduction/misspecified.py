"""A normal law fitted to log-normal draws: Figure 6 of Li, Wang, Zha & Tao (appendix G.1).

xᵢ = exp(N(0, 1)), n = 100,000; (μ, log σ) with a flat prior, by random-walk Metropolis, FlyMC that draws whether a
tenth of the rows is bright anew in each step, and EWSG. The posterior is known: n s²/σ² ~ χ² with n − 1 degrees of
freedom, and μ ~ N(x̄, σ²/n) given σ. What the paper leaves open is told in the configuration.

A row is bright with a probability of third order in the distance from the mode: of 3e-8 within the posterior, for a
bound that is tight there. What FlyMC uses of the rows in a step is then the tenth that is drawn anew, whatever that
finds; the paper's 10.9 % are as much, and rows that were bright on the way there.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

from ewsg_jax import methods, models
from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Array, Key
from ewsg_jax.experiments.tables import above_zero, at_least
from ewsg_jax.reproduction.experiment import Numbers, Parts
from ewsg_jax.reproduction.judging import checked, short
from ewsg_jax.reproduction.problem import Problem
from ewsg_jax.sampling import Samples, sample
from ewsg_jax.stacking import stack

POSTERIOR = models.normal()
LAGS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
REDRAWN, ACCEPTANCE, TUNING_SEED = 10, 0.4, 2**20
"""One in so many rows that FlyMC draws anew; what its step is brought to; of the data on which EWSG is tuned."""
METROPOLIS = 1.7
"""Proposals of random-walk Metropolis, in the posterior's standard deviation of log σ, the least."""
EVERY = 40
"""Steps between points of the path and of the rows that are used, as they are stored."""


@dataclass(frozen=True)
class Settings:
    """Rows, chains on the data of each seed, FlyMC's runs from (0, 0), steps of each method, and EWSG's options."""

    num_rows: int
    data_seeds: tuple[int, ...]
    num_chains: int
    flymc_runs: int
    flymc_steps: int
    ewsg_steps: int
    metropolis_steps: int
    burn_in: int
    flymc_start_step: float
    batch_share: float
    step_size: float
    friction: float
    step_sizes: tuple[float, ...]

    def __post_init__(self) -> None:
        at_least("full", self, num_rows=2 * REDRAWN, num_chains=1, flymc_runs=1, burn_in=1)
        least = self.burn_in + LAGS[-1] + 1
        at_least("full", self, flymc_steps=least, ewsg_steps=least, metropolis_steps=least)
        for name in ("flymc_start_step", "batch_share", "step_size", "friction"):
            above_zero(f"full.{name}", getattr(self, name))


def rows_of(seed: int, num_rows: int) -> Array:
    """Return log-normal draws, shape (n,)."""
    return jnp.asarray(np.exp(np.random.default_rng(seed).standard_normal(num_rows)), jnp.float32)


def exact(rows: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior's mean and standard deviations of (μ, log σ)."""
    x = np.asarray(rows, float)
    n, half = len(x), (len(x) - 1) / 2
    mean = x.mean(), (np.log(n * x.var() / 2) - special.psi(half)) / 2
    return np.array(mean), np.array([(x.var() / (n - 3)) ** 0.5, special.polygamma(1, half) ** 0.5 / 2])


def mode(rows: Array) -> np.ndarray:
    """Return the most probable (μ, log σ)."""
    x = np.asarray(rows, float)
    return np.array([x.mean(), np.log(x.std())])


def autocorrelation(draws: np.ndarray, lags: Sequence[int]) -> np.ndarray:
    """Return that of draws (chain, step, coordinate) at some lags, around all chains' mean: (lag, coordinate)."""
    off = draws - draws.mean((0, 1))
    variance = (off**2).mean((0, 1))
    return np.array([(off[:, lag:] * off[:, : off.shape[1] - lag]).mean((0, 1)) / variance for lag in lags])


def told(key: Key, samples: Samples[Array], data: Array, burn_in: int) -> Numbers:
    """Return what draws after the burn-in are worth, and what steps cost."""
    draws = np.asarray(samples.position, float)[samples.is_finite]
    numbers: Numbers = {"lost": int((~samples.is_finite).sum()), "evaluations": int(samples.gradient_evaluations)}
    if not len(draws):
        return numbers
    (mean, sd), kept = exact(data), draws[:, burn_in:]
    used = np.diff(samples.evaluations) / len(data)
    numbers |= {
        "mean_off": short((kept.mean(1) - mean) / sd),
        "sd_ratio": short(kept.std((0, 1)) / sd),
        "autocorrelation": short(autocorrelation(kept, LAGS)),
        "path": short((draws[0, ::EVERY] - mean) / sd),
        "used": short(used[::EVERY]),
        "mean_used": short(used.mean()),
        "extra_steps": short((used - 1 / REDRAWN).sum()),
        "seconds": round(samples.run_seconds, 1),
    }
    late = samples.num_draws - burn_in
    problem = Problem(POSTERIOR, data, data, jnp.zeros(2), {})
    return numbers | {"check": checked(key, _last(samples, 2 * late), problem)}


def _last(samples: Samples[Array], count: int) -> Any:
    """Return samples of which `checked` looks at the second half: those after the burn-in."""
    pick = max(0, samples.num_draws - count)
    return replace(samples, draws=samples.position[:, pick:], step=samples.step[pick:])


def ewsg(step_size: float, settings: Settings) -> Kernel[Array]:
    """Return EWSG."""
    rows = round(settings.batch_share * settings.num_rows)
    options: dict[str, Any] = {"friction": settings.friction, "batch_size": rows, "chain_length": 1}
    return methods.ewsg(POSTERIOR, step_size, integrator="euler", **options)


def sampled(key: Key, kernel: Kernel[Array], start: Array, data: Array, steps: int, chains: int) -> Any:
    """Return samples of a kernel or a stack; lost chains are no news."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return sample(key, kernel, start, data, steps, num_chains=chains)


def tuned(settings: Settings) -> float:
    """Return EWSG's step, of those that are tried, at which means and sds are nearest the posterior's."""
    data = rows_of(TUNING_SEED, settings.num_rows)
    (mean, sd), far = exact(data), []
    kernels = stack([ewsg(h, settings) for h in settings.step_sizes])
    start = jnp.asarray(mode(data), jnp.float32)
    runs = sampled(jax.random.key(0), kernels, start, data, settings.ewsg_steps, settings.num_chains)
    for samples in runs:
        draws = np.asarray(samples.position, float)[:, settings.burn_in :]
        off = np.abs((draws.mean((0, 1)) - mean) / sd) + np.abs(np.log(draws.std((0, 1)) / sd))
        far.append(off.sum() if samples.is_finite.all() else np.inf)
    return settings.step_sizes[int(np.argmin(far))]


def parts(settings: Settings) -> dict[str, Callable[[Parts], Numbers]]:
    """Return what is computed: EWSG's tuned step, then all methods on each data set."""

    def tuning(_: Parts) -> Numbers:
        return {"step_size": tuned(settings)}

    def on(seed: int) -> Callable[[Parts], Numbers]:
        def compute(done: Parts) -> Numbers:
            data = rows_of(seed, settings.num_rows)
            n, (_, sd), best = len(data), exact(data), jnp.asarray(mode(data), jnp.float32)
            options: dict[str, Any] = {"num_resampled": n // REDRAWN, "target_acceptance": ACCEPTANCE}
            options |= {"adapt_steps": settings.burn_in, "center": best}
            walk = methods.random_walk_metropolis(POSTERIOR, METROPOLIS * float(sd.min()))
            step = settings.flymc_start_step
            runs: dict[str, tuple[Kernel[Array], Array, int]] = {
                "Metropolis": (walk, best, settings.metropolis_steps),
                "FlyMC from the mode": (
                    methods.flymc(POSTERIOR, step, capacity=max(50, n // 100), **options),
                    best,
                    settings.flymc_steps,
                ),
                "EWSG": (ewsg(settings.step_size, settings), jnp.zeros(2), settings.ewsg_steps),
                "EWSG, tuned": (ewsg(done["tuning"]["step_size"], settings), best, settings.ewsg_steps),
            }
            # One by one, so that each tells what it used.
            from_afar = methods.flymc(POSTERIOR, step, capacity=n, **options), jnp.zeros(2), settings.flymc_steps
            runs |= {f"FlyMC {i}": from_afar for i in range(settings.flymc_runs)}
            found: Numbers = {}
            for number, (label, (kernel, start, steps)) in enumerate(runs.items()):
                key = jax.random.fold_in(jax.random.key(seed), number)
                chains = 1 if label.startswith("FlyMC ") and label[-1].isdigit() else settings.num_chains
                samples = sampled(key, kernel, start, data, steps, chains)
                found[label] = told(key, samples, data, settings.burn_in)
            return found | {"evaluations": sum(each.pop("evaluations") for each in found.values())}

        return compute

    return {"tuning": tuning} | {f"data {seed}": on(seed) for seed in settings.data_seeds}
