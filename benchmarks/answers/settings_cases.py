"""Small models with known answers, on which settings of `ewsg_jax.answers` are doubled and halved.

Each case makes one call with a fixed key and returns what was said, without numbers that move with
rounding.
"""

import functools
import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.answers.check_errors import KINDS, Target, bent, hierarchical, mixed

Case = Callable[[], dict[str, Any]]
KEY = jax.random.key(7)
CHAINS, DRAWS = 8, 500


def without_numbers(text: str) -> str:
    """Return the words of a sentence, to see whether another one is said."""
    return re.sub(r"[−+-]?[0-9][0-9.,]*(e[+-]?[0-9]+)?( %)?", "#", text)[:160]


@functools.cache
def breast_cancer() -> tuple[ewsg.Posterior, dict[str, jax.Array]]:
    """Return a logistic regression with five columns and 569 rows, and its data."""
    data = ewsg.datasets.breast_cancer()
    x = (data.x - data.x.mean(0)) / data.x.std(0)
    rows = {"x": jnp.asarray(x[:, :5], jnp.float32), "y": jnp.asarray(data.y, jnp.float32)}
    return ewsg.models.logistic_regression(prior_scale=1.0), rows


@functools.cache
def robust() -> tuple[ewsg.Posterior, dict[str, jax.Array]]:
    """Return a regression with Student's t noise of unknown scale, 60 rows, three outliers."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 2))
    y = x @ [1.0, -0.5] + 0.3 * rng.standard_t(3, size=60)
    y[:3] += 6.0

    def log_likelihood(p: Any, row: Any) -> jax.Array:
        z = (row["y"] - row["x"] @ p["w"]) * jnp.exp(-p["s"])
        return -2.0 * jnp.log1p(z**2 / 3.0) - p["s"]

    def log_prior(p: Any) -> jax.Array:
        return -0.5 * jnp.sum(p["w"] ** 2) - 0.5 * p["s"] ** 2

    data = {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(y, jnp.float32)}
    return ewsg.Posterior(log_likelihood, log_prior), data


@functools.cache
def groups() -> tuple[ewsg.Posterior, dict[str, jax.Array]]:
    """Return varying intercepts of ten groups, not centred, 80 rows."""
    rng = np.random.default_rng(2)
    group = np.arange(80) % 10
    y = 0.5 + 0.4 * rng.normal(size=10)[group] + 0.6 * rng.normal(size=80)

    def log_likelihood(p: Any, row: Any) -> jax.Array:
        mean = p["m"] + jnp.exp(p["t"]) * p["z"][row["g"]]
        return -0.5 * ((row["y"] - mean) * jnp.exp(-p["s"])) ** 2 - p["s"]

    def log_prior(p: Any) -> jax.Array:
        scales = p["t"] ** 2 + p["s"] ** 2
        return -0.5 * (jnp.sum(p["z"] ** 2) + (p["m"] / 3.0) ** 2 + scales)

    data = {"g": jnp.asarray(group, jnp.int32), "y": jnp.asarray(y, jnp.float32)}
    return ewsg.Posterior(log_likelihood, log_prior), data


def said_by_report(report: ewsg.Report) -> dict[str, Any]:
    """Return what a report says, in words and in one digit."""
    return {
        "outcome": report.outcome,
        "verdict": without_numbers(report.verdict),
        "corrected": report.corrected is not None,
    }


@functools.cache
def run_of_regression(biased: bool) -> ewsg.Samples:
    """Return draws of the logistic regression: right ones, or with the noise of batches."""
    model, rows = breast_cancer()
    mode = ewsg.find_mode(KEY, model, jnp.zeros(5), rows, progress=False)
    kernel = (
        ewsg.sghmc(model, 0.03, friction=2.0, batch_size=50)
        if biased
        else ewsg.uld(model, 0.2, friction=2.0, inverse_mass=mode.covariance)
    )
    options = {"num_chains": CHAINS, "burn_in": 200, "thin": 4, "progress": False}
    return ewsg.sample(KEY, kernel, mode.position, rows, 200 + 4 * DRAWS, **options)


def regression(biased: bool) -> dict[str, Any]:
    """Check a run of the logistic regression."""
    model, rows = breast_cancer()
    return said_by_report(ewsg.check(KEY, run_of_regression(biased), model, rows))


def independent(name: str, dimension: int, wider: float, draws: int) -> dict[str, Any]:
    """Check independent draws of a target of known moments, some of them widened."""
    target = target_of(name, dimension)
    exact = target.draw(np.random.default_rng(3), CHAINS * draws)
    moved = target.mean + wider * (exact - target.mean)
    positions = moved.reshape(CHAINS, draws, dimension).astype(np.float32)
    posterior, data = posterior_of(name, dimension)
    return said_by_report(ewsg.check(KEY, positions, posterior, data))


def target_of(name: str, dimension: int) -> Target:
    """Return a target of known moments."""
    return hierarchical(dimension) if name == "hierarchical" else mixed(name, dimension)


def of_prior(log_prior: Callable[[Any], jax.Array]) -> ewsg.Posterior:
    """Return a density as a posterior whose likelihood says nothing."""
    return ewsg.Posterior(lambda p, row: 0.0 * row + 0.0 * p[0], log_prior)


@functools.cache
def posterior_of(name: str, dimension: int) -> tuple[ewsg.Posterior, jax.Array]:
    """Return a target as a posterior, and one row."""
    target = target_of(name, dimension)
    return of_prior(lambda p: target.log_density(p, target.parameters)), jnp.ones(1)


@functools.cache
def modes() -> ewsg.Posterior:
    """Return two Gaussians, eight sds apart in each coordinate."""
    return of_prior(
        lambda p: jnp.logaddexp(-0.5 * jnp.sum((p - 4) ** 2), -0.5 * jnp.sum((p + 4) ** 2))
    )


@functools.cache
def half_normal() -> ewsg.Posterior:
    """Return a half-normal written with a density of 0 below 0."""
    return of_prior(lambda p: jnp.where(p[0] > 0, -0.5 * jnp.sum(p**2), -jnp.inf))


@functools.cache
def with_wrong_gradient() -> ewsg.Posterior:
    """Return a Gaussian whose gradient is 20 % too large in one coordinate."""

    @jax.custom_vjp
    def square(x: jax.Array) -> jax.Array:
        return 0.5 * x**2

    square.defvjp(lambda x: (0.5 * x**2, x), lambda x, g: (1.2 * x * g,))
    return of_prior(lambda p: -square(p[0]) - 0.5 * p[1] ** 2)


@functools.cache
def mean_of_rows() -> ewsg.Posterior:
    """Return the logistic regression with a mean over its rows for the sum."""
    model, rows = breast_cancer()
    n = rows["y"].shape[0]
    return ewsg.Posterior(lambda p, row: model.log_likelihood(p, row) / n, model.log_prior)


def of_errors(name: str, kind: str, seed: int, draws: int = 304) -> dict[str, Any]:
    """Check draws with a bias of a kind, as the benchmark of stated errors does, d = 10."""
    target, rng = target_of(name, 10), np.random.default_rng([seed, KINDS.index(kind)])
    positions = bent(kind, target.draw(rng, draws), target, rng).astype(np.float32)
    posterior, data = posterior_of(name, 10)
    report = ewsg.check(jax.random.key(seed), positions.reshape(CHAINS, -1, 10), posterior, data)
    return said_by_report(report)


def two_modes() -> dict[str, Any]:
    """Check chains that stay in one of two modes each."""
    draws = np.random.default_rng(4).normal(size=(CHAINS, DRAWS, 2))
    draws += np.where(np.arange(CHAINS) % 2, 4.0, -4.0)[:, None, None]
    return said_by_report(ewsg.check(KEY, draws.astype(np.float32), modes(), jnp.ones(1)))


def truncated() -> dict[str, Any]:
    """Check right draws of a half-normal."""
    draws = np.abs(np.random.default_rng(5).normal(size=(CHAINS, DRAWS, 1)))
    return said_by_report(ewsg.check(KEY, draws.astype(np.float32), half_normal(), jnp.ones(1)))


def wrong_gradient() -> dict[str, Any]:
    """Check right draws of a model whose gradient is wrong in one coordinate."""
    draws = np.random.default_rng(6).normal(size=(CHAINS, DRAWS, 2)).astype(np.float32)
    return said_by_report(ewsg.check(KEY, draws, with_wrong_gradient(), jnp.ones(1)))


def mean_for_sum() -> dict[str, Any]:
    """Check draws of the prior for a likelihood that is a mean over its rows."""
    draws = np.random.default_rng(7).normal(size=(CHAINS, DRAWS, 5)).astype(np.float32)
    return said_by_report(ewsg.check(KEY, draws, mean_of_rows(), breast_cancer()[1]))


def planned(of: Callable[[], tuple[ewsg.Posterior, Any]], position: Any) -> dict[str, Any]:
    """Plan a model, and return what was chosen and what is doubted."""
    model, rows = of()
    plan = ewsg.plan(KEY, model, position, rows, progress=False)
    return {
        "kernel": without_numbers(str(plan.kernel)),
        "trusted": plan.is_trusted,
        "doubts": [without_numbers(doubt) for doubt in plan.doubts],
        "notes": [without_numbers(note) for note in plan.notes],
        "gaussian": plan.gaussian is not None and bool(plan.gaussian.is_right),
    }


def mode_of(of: Callable[[], tuple[ewsg.Posterior, Any]], position: Any) -> dict[str, Any]:
    """Find a mode, and return it in three digits."""
    model, rows = of()
    mode = ewsg.find_mode(KEY, model, position, rows, progress=False)
    flat = np.concatenate([np.ravel(x) for x in jax.tree.leaves(mode.position)])
    return {"mode": [f"{x:.2f}" for x in flat], "converged": str(getattr(mode, "converged", ""))}


def forecast_of(make: Callable[..., Any], **options: Any) -> dict[str, Any]:
    """Forecast a kernel of the logistic regression, and return its errors in two digits."""
    model, rows = breast_cancer()
    mode = ewsg.find_mode(KEY, model, jnp.zeros(5), rows, progress=False)
    forecast = ewsg.forecast(make(model, 0.005, **options), mode, rows)
    return {"settled": forecast.is_settled, "ratios": _digits(forecast.variance_ratio)}


def _digits(tree: Any) -> list[str]:
    return [f"{x:.1e}" for leaf in jax.tree.leaves(tree) for x in np.ravel(leaf)]


def halved_of() -> dict[str, Any]:
    """Halve the step of a run of the logistic regression, and return the verdict."""
    model, rows = breast_cancer()
    kernel = ewsg.uld(model, 0.1, friction=2.0)
    halved = ewsg.halve(KEY, kernel, jnp.zeros(5), rows, 800, num_chains=32, progress=False)
    return {"verdict": without_numbers(halved.verdict)}


_ROBUST = {"w": jnp.zeros(2), "s": jnp.zeros(())}
_GROUPS = {"z": jnp.zeros(10), "m": jnp.zeros(()), "t": jnp.zeros(()), "s": jnp.zeros(())}
CASES: dict[str, dict[str, Case]] = {
    "check": {
        "right run": lambda: regression(False),
        "batch noise": lambda: regression(True),
        "t5, right": lambda: independent("t5", 10, 1.0, 250),
        "hierarchical, wider": lambda: independent("hierarchical", 10, 1.1, 250),
        "two modes": two_modes,
        "truncated": truncated,
        "wrong gradient": wrong_gradient,
        "a mean for a sum": mean_for_sum,
        **{
            f"{name}, {kind}, {seed}": functools.partial(of_errors, name, kind, seed)
            for name in ("normal", "t5", "gumbel", "hierarchical")
            for kind in KINDS
            for seed in range(2)
        },
    },
    "plan": {
        "logistic": lambda: planned(breast_cancer, jnp.zeros(5)),
        "robust": lambda: planned(robust, _ROBUST),
        "groups": lambda: planned(groups, _GROUPS),
    },
    "mode": {
        "logistic": lambda: mode_of(breast_cancer, jnp.zeros(5)),
        "robust": lambda: mode_of(robust, _ROBUST),
        "far start": lambda: mode_of(breast_cancer, 50.0 * jnp.ones(5)),
    },
    "forecast": {
        "sghmc": lambda: forecast_of(ewsg.sghmc, friction=10.0, batch_size=50),
        "svrg_hmc": lambda: forecast_of(ewsg.svrg_hmc, friction=10.0, batch_size=50),
        "ewsg": lambda: forecast_of(ewsg.ewsg, friction=10.0, batch_size=20),
    },
    "halve": {"uld": halved_of},
}
"""By the room of `answers` whose settings they judge."""
