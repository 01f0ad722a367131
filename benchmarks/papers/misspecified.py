"""A normal law fitted to log-normal draws: Figure 6 of Li, Wang, Zha & Tao (appendix G.1).

xᵢ = exp(N(0, 1)), n = 100,000; (μ, log σ) with a flat prior, by random-walk Metropolis, FlyMC that
draws whether a tenth of the rows is bright anew in each step, and EWSG. The posterior is known: n
s²/σ² ~ χ² with n − 1 degrees of freedom, and μ ~ N(x̄, σ²/n) given σ. What the paper leaves open is
told in the configuration.

A row is bright with a probability of third order in the distance from the mode: of 3e-8 within the
posterior, for a bound that is tight there. What FlyMC uses of the rows in a step is then the tenth
that is drawn anew, whatever that finds; the paper's 10.9 % are as much, and rows that were bright
on the way there.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

import ewsg_jax
from benchmarks.papers.annotations import Array, Key
from benchmarks.papers.experiment import Claim, Experiment, Numbers, Parts
from benchmarks.papers.figures import Line, Panel
from benchmarks.papers.predicting import Problem, checked, short
from ewsg_jax import Kernel, Samples, models, sample, stack
from ewsg_jax.cli.config import ConfigError, Count, Positive, at_least

POSTERIOR = models.normal()
LAGS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
REDRAWN, ACCEPTANCE, TUNING_SEED = 10, 0.4, 2**20
"""One in so many rows that FlyMC draws anew; what its step is brought to; of the data on which EWSG
is tuned.
"""
METROPOLIS = 1.7
"""Proposals of random-walk Metropolis, in the posterior's standard deviation of log σ,
the least.
"""
EVERY = 40
"""Steps between points of the path and of the rows that are used, as they are stored."""


@dataclass(frozen=True)
class Settings:
    """Rows, chains on the data of each seed, FlyMC's runs from (0, 0), steps of each method, and
    EWSG's options.
    """

    num_rows: Annotated[int, at_least(2 * REDRAWN)]
    data_seeds: tuple[int, ...]
    num_chains: Count
    flymc_runs: Count
    flymc_steps: int
    ewsg_steps: int
    metropolis_steps: int
    burn_in: Count
    flymc_start_step: Positive
    batch_share: Positive
    step_size: Positive
    friction: Positive
    step_sizes: tuple[float, ...]

    def __post_init__(self) -> None:
        if min(self.flymc_steps, self.ewsg_steps, self.metropolis_steps) <= self.burn_in + LAGS[-1]:
            raise ConfigError(
                f"full must have more steps of each method than burn_in + {LAGS[-1]}; got {self}"
            )


def rows_of(seed: int, num_rows: int) -> Array:
    """Return log-normal draws, shape (n,)."""
    return jnp.asarray(np.exp(np.random.default_rng(seed).standard_normal(num_rows)), jnp.float32)


def exact(rows: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior's mean and standard deviations of (μ, log σ)."""
    x = np.asarray(rows, float)
    n, half = len(x), (len(x) - 1) / 2
    mean = x.mean(), (np.log(n * x.var() / 2) - special.psi(half)) / 2
    return np.array(mean), np.array(
        [(x.var() / (n - 3)) ** 0.5, special.polygamma(1, half) ** 0.5 / 2]
    )


def mode(rows: Array) -> np.ndarray:
    """Return the most probable (μ, log σ)."""
    x = np.asarray(rows, float)
    return np.array([x.mean(), np.log(x.std())])


def autocorrelation(draws: np.ndarray, lags: Sequence[int]) -> np.ndarray:
    """Return that of draws (chain, step, coordinate) at some lags, around all chains' mean: (lag,
    coordinate).
    """
    off = draws - draws.mean((0, 1))
    variance = (off**2).mean((0, 1))
    return np.array(
        [(off[:, lag:] * off[:, : off.shape[1] - lag]).mean((0, 1)) / variance for lag in lags]
    )


def told(key: Key, samples: Samples[Array], data: Array, burn_in: int) -> Numbers:
    """Return what draws after the burn-in are worth, and what steps cost."""
    draws = np.asarray(samples.position, float)[samples.is_finite]
    numbers: Numbers = {
        "lost": int((~samples.is_finite).sum()),
        "evaluations": int(samples.gradient_evaluations),
    }
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
    return ewsg_jax.ewsg(POSTERIOR, step_size, integrator="euler", **options)


def sampled(
    key: Key, kernel: Kernel[Array], start: Array, data: Array, steps: int, chains: int
) -> Any:
    """Return samples of a kernel or a stack; lost chains are no news."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return sample(key, kernel, start, data, steps, num_chains=chains)


def tuned(settings: Settings) -> float:
    """Return EWSG's step, of those that are tried, at which means and sds are nearest the
    posterior's.
    """
    data = rows_of(TUNING_SEED, settings.num_rows)
    (mean, sd), far = exact(data), []
    kernels = stack([ewsg(h, settings) for h in settings.step_sizes])
    start = jnp.asarray(mode(data), jnp.float32)
    runs = sampled(
        jax.random.key(0), kernels, start, data, settings.ewsg_steps, settings.num_chains
    )
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
            options: dict[str, Any] = {
                "num_resampled": n // REDRAWN,
                "target_acceptance": ACCEPTANCE,
            }
            options |= {"adapt_steps": settings.burn_in, "center": best}
            walk = ewsg_jax.random_walk_metropolis(POSTERIOR, METROPOLIS * float(sd.min()))
            step = settings.flymc_start_step
            runs: dict[str, tuple[Kernel[Array], Array, int]] = {
                "Metropolis": (walk, best, settings.metropolis_steps),
                "FlyMC from the mode": (
                    ewsg_jax.flymc(POSTERIOR, step, capacity=max(50, n // 100), **options),
                    best,
                    settings.flymc_steps,
                ),
                "EWSG": (ewsg(settings.step_size, settings), jnp.zeros(2), settings.ewsg_steps),
                "EWSG, tuned": (
                    ewsg(done["tuning"]["step_size"], settings),
                    best,
                    settings.ewsg_steps,
                ),
            }
            # One by one, so that each tells what it used.
            from_afar = (
                ewsg_jax.flymc(POSTERIOR, step, capacity=n, **options),
                jnp.zeros(2),
                settings.flymc_steps,
            )
            runs |= {f"FlyMC {i}": from_afar for i in range(settings.flymc_runs)}
            found: Numbers = {}
            for number, (label, (kernel, start, steps)) in enumerate(runs.items()):
                key = jax.random.fold_in(jax.random.key(seed), number)
                chains = (
                    1 if label.startswith("FlyMC ") and label[-1].isdigit() else settings.num_chains
                )
                samples = sampled(key, kernel, start, data, steps, chains)
                found[label] = told(key, samples, data, settings.burn_in)
            return found | {"evaluations": sum(each.pop("evaluations") for each in found.values())}

        return compute

    return {"tuning": tuning} | {f"data {seed}": on(seed) for seed in settings.data_seeds}


PAPER_STEPS, PAPER_USED, NEAR = 10_000, 0.109, 0.003
"""FlyMC's steps and the share of rows that one uses, in the paper; how far ours may be
from that.
"""
STRONG, FASTER = 0.2, 0.5
"""The autocorrelation at 500 steps from which on it is strong; the part of FlyMC's time that is
much less.
"""
FLYMC, EWSG, MODE = "FlyMC", "EWSG", "FlyMC from the mode"


def runs(parts: Parts, label: str) -> list[Any]:
    """Return a method's numbers on each data set where it kept a chain; FlyMC's of each of its
    runs.
    """
    sets = [part for name, part in parts.items() if name != "tuning"]
    return [run for part in sets for run in on_set(part, label)]


def on_set(part: Any, label: str) -> list[Any]:
    """Return those on one data set."""
    labels = [
        x for x in part if x == label or (label == FLYMC and x.removeprefix(f"{FLYMC} ").isdigit())
    ]
    return [part[x] for x in labels if "mean_off" in part[x]]


def used(run: Any) -> float:
    """Return the share of rows that a step of FlyMC uses over the paper's 10,000, where none stays
    bright.
    """
    return 1 / REDRAWN + run["extra_steps"] / PAPER_STEPS


def time_of(run: Any) -> float:
    """Return the integrated autocorrelation time of the slower coordinate, in steps, by trapezoids
    between lags.
    """
    rows = np.vstack([np.ones(2), np.maximum(run["autocorrelation"], 0)])
    lags = np.array([0, *LAGS], float)
    areas = (rows[1:] + rows[:-1]) / 2 * np.diff(lags)[:, None]
    return float(max(1.0, 2 * areas.sum(0).max()))


def share(of: list[bool]) -> float:
    """Return in what part of the runs something is so, 0 where there is none."""
    return float(np.mean(of)) if of else 0.0


def at_500(run: Any) -> float:
    """Return the larger autocorrelation at 500 steps."""
    return float(np.max(run["autocorrelation"][-1]))


def furthest(run: Any) -> float:
    """Return the largest distance of a chain's mean from the posterior's, in its sds."""
    return float(np.max(np.abs(run["mean_off"])))


def listed(values: list[float]) -> str:
    """Return numbers, spelled."""
    return ", ".join(f"{x:.3g}" for x in values)


def claims(parts: Parts) -> list[Claim]:
    """Judge Figure 6."""
    fly, weighted, near = runs(parts, FLYMC), runs(parts, EWSG), runs(parts, MODE)
    spent = [used(x) for x in fly]
    sets = [part for name, part in parts.items() if name != "tuning"]
    both = [(a, b) for part in sets for a in on_set(part, EWSG) for b in on_set(part, FLYMC)]
    return [
        Claim(
            "FlyMC from (0, 0) uses 10.9 % of the rows a step, over 10,000 steps",
            share([abs(x - PAPER_USED) <= NEAR for x in spent]),
            f"{listed([100 * x for x in spent])} %: 10 % drawn anew, the others bright on the way "
            "to the mode",
        ),
        Claim(
            "FlyMC's autocorrelation at 500 steps is strong",
            share([at_500(x) >= STRONG for x in fly]),
            listed([at_500(x) for x in fly]),
        ),
        Claim(
            "EWSG's autocorrelation decays much faster than FlyMC's",
            share([time_of(a) <= FASTER * time_of(b) for a, b in both]),
            f"steps: EWSG {listed([time_of(a) for a in weighted])}; FlyMC "
            f"{listed([time_of(b) for _, b in both])}",
        ),
        Claim(
            "EWSG's draws are around the mode",
            share([furthest(x) <= 1 for x in weighted]),
            f"worst mean of a chain off by {listed([furthest(x) for x in weighted])} sds",
        ),
        Claim(
            "FlyMC's draws are far from the posterior after 1,000 steps",
            share([furthest(x) > 3 for x in fly]),
            f"worst mean of a chain off by {listed([furthest(x) for x in fly])} sds",
        ),
        Claim(
            "FlyMC from the mode uses more than the rows that it draws anew",
            share([x["mean_used"] > 1.01 / REDRAWN for x in near]),
            f"{listed([100 * x['mean_used'] for x in near])} % a step; autocorrelation time "
            f"{listed([time_of(x) for x in near])} steps",
            by_the_paper=False,
        ),
        *(_is_right(parts, label) for label in ("Metropolis", FLYMC, MODE, EWSG, "EWSG, tuned")),
    ]


def _is_right(parts: Parts, label: str) -> Claim:
    found = runs(parts, label)
    told = "; ".join(
        f"{x['check']['outcome']}, sds {listed(x['sd_ratio'])} times the posterior's" for x in found
    )
    at = f" (h = {parts['tuning']['step_size']:g})" if label.endswith("tuned") else ""
    is_so = share([x["check"]["outcome"] == "right" for x in found])
    return Claim(f"draws of {label}{at} are of the posterior", is_so, told, by_the_paper=False)


def _steps(values: list[Any]) -> list[int]:
    return [EVERY * (i + 1) for i in range(len(values))]


def draw(parts: Parts) -> list[Panel]:
    """Draw the rows that FlyMC uses, autocorrelations, and log σ along EWSG's and FlyMC's chains,
    as Figure 6.
    """
    labels = [FLYMC, MODE, EWSG, "EWSG, tuned", "Metropolis"]
    first = {label: found[0] for label in labels if (found := runs(parts, label))}
    rows = [
        Line(x, _steps(first[x]["used"]), first[x]["used"]) for x in (FLYMC, MODE) if x in first
    ]
    memory = [
        Line(x, list(LAGS), [each[1] for each in run["autocorrelation"]])
        for x, run in first.items()
    ]
    paths = [
        Line(x, _steps(run["path"]), [each[1] for each in run["path"]])
        for x, run in first.items()
        if x != "EWSG, tuned"
    ]
    near = [Line(x.label, x.x, [None if abs(y or 0) > 15 else y for y in x.y]) for x in paths]
    return [
        Panel("share of rows used", "step", "", rows, (False, True)),
        Panel("autocorrelation of log σ", "lag (steps)", "", memory, (True, False)),
        Panel(
            "log σ, within 15 sds", "step", "sds from the posterior's mean", near, (False, False)
        ),
    ]


EXPERIMENT = Experiment(
    "misspecified",
    "Li, Wang, Zha & Tao, Fig. 6",
    "how EWSG and FlyMC sample a normal law fitted to log-normal draws",
    Settings,
    parts,
    claims,
    draw,
)
