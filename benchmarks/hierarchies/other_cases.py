"""Hierarchies with other rows or other effects: counts, funnels, mixtures, horseshoes, items."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.hierarchies.gibbs import horseshoe_regression_draws
from benchmarks.hierarchies.item_response import Rasch
from benchmarks.hierarchies.linear import Linear, squares
from benchmarks.hierarchies.local import Local
from benchmarks.hierarchies.model import Draws, Pair, replaced, sum_of_squares
from benchmarks.hierarchies.normal_rows import GRID
from benchmarks.hierarchies.scales import Hyper, draw_hypers, log_prior, on_grid, prior_of

LOCAL = "hyperparameters on a grid with rejection, each group's own number on a grid given them"
Likelihood = Callable[[Any, Any], Any]


def _column(x: Any) -> np.ndarray:
    return np.asarray(x, float)[:, None]


def _around_mean(
    num_groups: int,
    hypers: Mapping[str, Hyper],
    of_effect: Likelihood,
    log_unit: Callable[[Any], Any] = lambda z: -0.5 * z**2,
) -> tuple[tuple[ewsg.Posterior, Any], tuple[ewsg.Posterior, Any]]:
    """Return both forms of effects a = mu + tau z, z of a given density, with starts.

    Args:
        num_groups: effects.
        hypers: `mu` and `log_tau`.
        of_effect: the log likelihood of a row, given the effect of its group.
        log_unit: the log density of z.
    """
    of_scales = prior_of(hypers)

    def prior(p: Any) -> Any:
        z = (p["a"] - p["mu"]) * jnp.exp(-p["log_tau"])
        return of_scales(p) + jnp.sum(log_unit(z)) - num_groups * p["log_tau"]

    start = {name: jnp.zeros(()) for name in hypers}
    return (
        (
            ewsg.Posterior(lambda p, row: of_effect(p["a"][row["g"]], row), prior),
            start | {"a": jnp.zeros(num_groups)},
        ),
        (
            ewsg.Posterior(
                lambda p, row: of_effect(p["mu"] + jnp.exp(p["log_tau"]) * p["z"][row["g"]], row),
                lambda p: of_scales(p) + jnp.sum(log_unit(p["z"])),
            ),
            start | {"z": jnp.zeros(num_groups)},
        ),
    )


def _standardised(draws: Draws) -> Draws:
    z = (draws["a"] - draws["mu"][:, None]) * np.exp(-draws["log_tau"])[:, None]
    return replaced(draws, "a", z=z)


def _draw_around_mean(local: Local) -> Callable[[np.random.Generator, int], Draws]:
    def draw(rng: np.random.Generator, count: int) -> Draws:
        h, z = local.draw(rng, count)
        return h | {"a": h["mu"][:, None] + np.exp(h["log_tau"])[:, None] * z}

    return draw


HYPERS = {
    "mu": Hyper("normal", 3.0, -8.0, 8.0, 36),
    "log_tau": Hyper("half_normal", 1.0, -13, 1.6, 44),
}
Z, EVERY = np.linspace(-8, 8, 161), 3


def _effects(h: Mapping[str, np.ndarray], z: np.ndarray) -> np.ndarray:
    """Return mu + tau z, shape (count, 1, m)."""
    return (_column(h["mu"]) + np.exp(_column(h["log_tau"])) * z)[:, None]


def binomial() -> Pair:
    """Return a logit for each of 40 groups of 3 to 12 rows, yes or no."""
    rng, num_groups = np.random.default_rng(21), 40
    sizes = rng.integers(3, 13, size=num_groups)
    g = np.repeat(np.arange(num_groups), sizes)
    a = -0.4 + 0.6 * rng.normal(size=num_groups)
    y = rng.random(len(g)) < 1 / (1 + np.exp(-a[g]))
    data = {"g": g.astype(np.int32), "y": y.astype(np.float32)}
    yes = np.bincount(g, y)[:, None]

    def log_density(h: Mapping[str, np.ndarray], z: np.ndarray) -> np.ndarray:
        eta = _effects(h, z)
        return yes * eta - sizes[:, None] * np.logaddexp(0, eta) - 0.5 * z**2

    def precision(draws: Draws) -> Draws:
        p = 1 / (1 + np.exp(-draws["a"]))
        return {"a": np.exp(-2 * _column(draws["log_tau"])) + sizes * p * (1 - p)}

    centred, non_centred = _around_mean(
        num_groups,
        HYPERS,
        lambda a, row: jax.nn.log_sigmoid(jnp.where(row["y"] > 0.5, a, -a)),
    )
    draw = _draw_around_mean(Local(HYPERS, Z, EVERY, log_density))
    title = "40 groups of a few rows, yes or no"
    return Pair(
        name="binomial",
        title=title,
        data=data,
        centred=centred,
        non_centred=non_centred,
        draw=draw,
        to_non_centred=_standardised,
        effects=("a",),
        scales=("log_tau",),
        precision=precision,
        how=LOCAL,
    )


def poisson() -> Pair:
    """Return a log rate for each of 60 groups with one count and an exposure."""
    rng, num_groups = np.random.default_rng(22), 60
    exposure = np.round(rng.uniform(0.5, 6.0, num_groups), 1).astype(np.float32)
    y = rng.poisson(exposure * np.exp(0.5 + 0.25 * rng.normal(size=num_groups)))
    data = {
        "g": np.arange(num_groups, dtype=np.int32),
        "y": y.astype(np.float32),
        "exposure": exposure,
    }
    time = exposure.astype(float)

    def log_density(h: Mapping[str, np.ndarray], z: np.ndarray) -> np.ndarray:
        eta = _effects(h, z)
        return y[:, None] * eta - time[:, None] * np.exp(eta) - 0.5 * z**2

    centred, non_centred = _around_mean(
        num_groups, HYPERS, lambda a, row: row["y"] * a - row["exposure"] * jnp.exp(a)
    )
    return Pair(
        name="poisson",
        title="60 counts with exposures, log rates that differ little",
        data=data,
        centred=centred,
        non_centred=non_centred,
        draw=_draw_around_mean(Local(HYPERS, Z, EVERY, log_density)),
        to_non_centred=_standardised,
        effects=("a",),
        scales=("log_tau",),
        precision=lambda draws: {
            "a": np.exp(-2 * _column(draws["log_tau"])) + time * np.exp(draws["a"])
        },
        how=LOCAL,
    )


def mixture() -> Pair:
    """Return effects of which one in six is from a distribution five times as wide."""
    rng, num_groups, share, wider = np.random.default_rng(23), 40, 1 / 6, 5.0
    is_wide = np.arange(num_groups) < share * num_groups
    z = rng.normal(size=num_groups) * np.where(is_wide, wider, 1.0)
    g, se = np.repeat(np.arange(num_groups), 2), rng.uniform(0.5, 1.0, 2 * num_groups)
    se = se.astype(np.float32)
    y = (0.5 + 0.4 * z[g] + se * rng.normal(size=2 * num_groups)).astype(np.float32)
    data = {"g": g.astype(np.int32), "y": y, "se": se}
    weight = 1 / se.astype(float) ** 2
    constants = np.log(1 - share), np.log(share / wider)

    precision = np.bincount(g, weight)
    mean = np.bincount(g, weight * y) / precision

    def of_unit(z: Any) -> Any:
        return jnp.logaddexp(constants[0] - 0.5 * z**2, constants[1] - 0.5 * (z / wider) ** 2)

    def of_components(h: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the log density of each group's mean in each component, (count, groups, 2)."""
        tau = np.exp(_column(h["log_tau"]))[..., None]
        variance = 1 / precision[:, None] + (tau * np.array([1.0, wider])) ** 2
        off = (mean - _column(h["mu"]))[..., None]
        of_size = np.log([1 - share, share]) - 0.5 * np.log(variance)
        return of_size - 0.5 * off**2 / variance

    def log_marginal(h: Mapping[str, np.ndarray]) -> np.ndarray:
        return np.logaddexp(*np.moveaxis(of_components(h), 2, 0)).sum(1) + log_prior(HYPERS, h)

    grid = functools.cache(lambda: on_grid(HYPERS, log_marginal))

    def draw(rng: np.random.Generator, count: int) -> Draws:
        h = draw_hypers(rng, count, grid(), log_marginal)
        one, other = np.moveaxis(of_components(h), 2, 0)
        is_wide = rng.random(one.shape) < 1 / (1 + np.exp(one - other))
        sd = np.exp(_column(h["log_tau"])) * np.where(is_wide, wider, 1.0)
        total = precision + sd**-2
        centre = (precision * mean + _column(h["mu"]) * sd**-2) / total
        return h | {"a": centre + rng.standard_normal(total.shape) / np.sqrt(total)}

    centred, non_centred = _around_mean(
        num_groups, HYPERS, lambda a, row: -0.5 * ((row["y"] - a) / row["se"]) ** 2, of_unit
    )
    title = "40 groups, effects from a mixture of two widths"
    return Pair(
        name="mixture",
        title=title,
        data=data,
        centred=centred,
        non_centred=non_centred,
        draw=draw,
        to_non_centred=_standardised,
        effects=("a",),
        scales=("log_tau",),
        precision=lambda draws: {},
        how="mean and scale on a grid with rejection, components and effects in closed form",
    )


def funnel() -> Pair:
    """Return nine effects of an unknown scale with rows that say nearly nothing."""
    rng, num_groups = np.random.default_rng(24), 9
    se = np.full(num_groups, 5.0)
    y = (se * rng.normal(size=num_groups)).astype(np.float32)
    data = {"g": np.arange(num_groups, dtype=np.int32), "y": y, "se": se.astype(np.float32)}
    hypers = {"log_tau": Hyper("normal", 0.7, -5.0, 5.0, 60)}
    eye = np.eye(num_groups)
    linear = Linear(
        hypers,
        [
            squares(lambda h: 1.0, eye / 5.0, y.astype(float) / 5.0),
            squares(lambda h: np.exp(-2 * h["log_tau"]), eye),
        ],
        {"a": (num_groups,)},
    )
    of_scales = prior_of(hypers)

    def of_effect(a: Any, row: Any) -> Any:
        return -0.5 * ((row["y"] - a) / row["se"]) ** 2

    def prior(p: Any) -> Any:
        off = sum_of_squares(p["a"] * jnp.exp(-p["log_tau"]))
        return of_scales(p) - 0.5 * off - num_groups * p["log_tau"]

    def to_other(draws: Draws) -> Draws:
        scale = np.exp(-draws["log_tau"])
        return {"log_tau": draws["log_tau"], "z": draws["a"] * scale[:, None]}

    start = {"log_tau": jnp.zeros(())}
    return Pair(
        name="funnel",
        title="nine effects, rows that say nearly nothing",
        data=data,
        centred=(
            ewsg.Posterior(lambda p, row: of_effect(p["a"][row["g"]], row), prior),
            start | {"a": jnp.zeros(num_groups)},
        ),
        non_centred=(
            ewsg.Posterior(
                lambda p, row: of_effect(jnp.exp(p["log_tau"]) * p["z"][row["g"]], row),
                lambda p: of_scales(p) - 0.5 * sum_of_squares(p["z"]),
            ),
            start | {"z": jnp.zeros(num_groups)},
        ),
        draw=linear.draw,
        to_non_centred=to_other,
        effects=("a",),
        scales=("log_tau",),
        precision=linear.precision,
        how=GRID,
    )


def _horseshoe(
    num_coefficients: int, width: float, of_coefficients: Likelihood
) -> tuple[tuple[ewsg.Posterior, Any], tuple[ewsg.Posterior, Any]]:
    """Return both forms of coefficients b = tau lambda z, all scales half Cauchy."""
    of_scales = prior_of({"log_tau": Hyper("half_cauchy", width, 0, 0)})

    def of_local(p: Any) -> Any:
        return jnp.sum(p["log_lambda"] - jnp.log1p(jnp.exp(2 * p["log_lambda"])))

    def prior(p: Any) -> Any:
        log_sd = p["log_tau"] + p["log_lambda"]
        off = sum_of_squares(p["b"] * jnp.exp(-log_sd))
        return of_scales(p) + of_local(p) - 0.5 * off - jnp.sum(log_sd)

    def not_centred(p: Any, row: Any) -> Any:
        return of_coefficients(jnp.exp(p["log_tau"] + p["log_lambda"]) * p["z"], row)

    zeros = jnp.zeros(num_coefficients)
    start = {"log_tau": jnp.zeros(()), "log_lambda": zeros}
    return (
        (
            ewsg.Posterior(lambda p, row: of_coefficients(p["b"], row), prior),
            start | {"b": zeros},
        ),
        (
            ewsg.Posterior(
                not_centred, lambda p: of_scales(p) + of_local(p) - 0.5 * sum_of_squares(p["z"])
            ),
            start | {"z": zeros},
        ),
    )


def _horseshoe_to_other(draws: Draws) -> Draws:
    log_sd = draws["log_tau"][:, None] + draws["log_lambda"]
    z = draws["b"] * np.exp(-log_sd)
    return replaced(draws, "b", z=z)


def horseshoe_means() -> Pair:
    """Return 30 means with a row each, five of them not near 0."""
    rng, count, width = np.random.default_rng(25), 30, 0.5
    truth = np.where(np.arange(count) < 5, 4.0, 0.0)
    y = (truth + rng.normal(size=count)).astype(np.float32)
    data = {"g": np.arange(count, dtype=np.int32), "y": y}
    points = np.linspace(-16, 16, 801)
    squared = y.astype(float)[:, None] ** 2

    def log_density(h: Mapping[str, np.ndarray], points: np.ndarray) -> np.ndarray:
        variance = 1 + np.exp(2 * (_column(h["log_tau"]) + points))[:, None]
        of_local = points - np.log1p(np.exp(2 * points))
        return of_local - 0.5 * (np.log(variance) + squared / variance)

    hypers = {"log_tau": Hyper("half_cauchy", width, -14, 8, 80)}
    local = Local(hypers, points, 8, log_density)

    def precision(draws: Draws) -> Draws:
        log_sd = draws["log_tau"][:, None] + draws["log_lambda"]
        return {"b": 1 + np.exp(-2 * log_sd)}

    def draw(rng: np.random.Generator, size: int) -> Draws:
        h, t = local.draw(rng, size)
        found = h | {"log_lambda": t}
        of_b = precision(found)["b"]
        return found | {"b": y / of_b + rng.standard_normal(of_b.shape) / np.sqrt(of_b)}

    centred, non_centred = _horseshoe(
        count, width, lambda b, row: -0.5 * (row["y"] - b[row["g"]]) ** 2
    )
    title = "30 means under a horseshoe, five of them large"
    return Pair(
        name="horseshoe_means",
        title=title,
        data=data,
        centred=centred,
        non_centred=non_centred,
        draw=draw,
        to_non_centred=_horseshoe_to_other,
        effects=("b",),
        scales=("log_tau",),
        precision=precision,
        how=LOCAL + ", means normal",
    )


def horseshoe_regression() -> Pair:
    """Return 15 coefficients of a regression on 80 rows, three of them not near 0."""
    rng, count, n, width = np.random.default_rng(26), 15, 80, 0.2
    truth = np.where(np.arange(count) < 3, 0.8, 0.0)
    x = rng.normal(size=(n, count)).astype(np.float32)
    y = (x @ truth + rng.normal(size=n)).astype(np.float32)
    data = {"x": x, "y": y}
    of_x = np.sum(x.astype(float) ** 2, axis=0)

    def precision(draws: Draws) -> Draws:
        log_sd = draws["log_tau"][:, None] + draws["log_lambda"]
        return {"b": of_x + np.exp(-2 * log_sd)}

    centred, non_centred = _horseshoe(
        count, width, lambda b, row: -0.5 * (row["y"] - row["x"] @ b) ** 2
    )
    return Pair(
        name="horseshoe_regression",
        title="15 coefficients under a horseshoe, three of them large",
        data=data,
        centred=centred,
        non_centred=non_centred,
        draw=lambda rng, size: horseshoe_regression_draws(rng, size, x, y, width),
        to_non_centred=_horseshoe_to_other,
        effects=("b",),
        scales=("log_tau",),
        precision=precision,
        how="400 Gibbs chains by closed conditionals, every 25th draw",
    )


def item_response() -> Pair:
    """Return 60 persons who answer 10 items: abilities of an unknown scale."""
    rng, persons, items = np.random.default_rng(27), 60, 10
    theta, b = 0.7 * rng.normal(size=persons), np.linspace(-1.5, 1.5, items)
    i, k = np.divmod(np.arange(persons * items), items)
    y = rng.random(len(i)) < 1 / (1 + np.exp(-(theta[i] - b[k])))
    data = {"i": i.astype(np.int32), "k": k.astype(np.int32), "y": y.astype(np.float32)}
    rasch = Rasch(y.reshape(persons, items), width=1.0, of_items=2.0)
    of_scales = prior_of({"log_tau": Hyper("half_normal", 1.0, 0, 0)})

    def shared(p: Any) -> Any:
        return of_scales(p) - 0.5 * sum_of_squares(p["b"]) / 4

    def answer(theta: Any, p: Any, row: Any) -> Any:
        logit = theta - p["b"][row["k"]]
        return jax.nn.log_sigmoid(jnp.where(row["y"] > 0.5, logit, -logit))

    def prior(p: Any) -> Any:
        off = sum_of_squares(p["theta"] * jnp.exp(-p["log_tau"]))
        return shared(p) - 0.5 * off - persons * p["log_tau"]

    def not_centred(p: Any, row: Any) -> Any:
        return answer(jnp.exp(p["log_tau"]) * p["z"][row["i"]], p, row)

    def to_other(draws: Draws) -> Draws:
        z = draws["theta"] * np.exp(-draws["log_tau"])[:, None]
        return replaced(draws, "theta", z=z)

    def precision(draws: Draws) -> Draws:
        p = 1 / (1 + np.exp(-(draws["theta"][:, :, None] - draws["b"][:, None, :])))
        return {"theta": np.exp(-2 * _column(draws["log_tau"])) + np.sum(p * (1 - p), axis=2)}

    start = {"log_tau": jnp.zeros(()), "b": jnp.zeros(items)}
    return Pair(
        name="item_response",
        title="60 persons and 10 items, abilities of an unknown scale",
        data=data,
        centred=(
            ewsg.Posterior(lambda p, row: answer(p["theta"][row["i"]], p, row), prior),
            start | {"theta": jnp.zeros(persons)},
        ),
        non_centred=(
            ewsg.Posterior(not_centred, lambda p: shared(p) - 0.5 * sum_of_squares(p["z"])),
            start | {"z": jnp.zeros(persons)},
        ),
        draw=rasch.draw,
        to_non_centred=to_other,
        effects=("theta",),
        scales=("log_tau",),
        precision=precision,
        how="items and scale by rejection from a Student t at their mode, abilities on a grid",
    )


def pairs() -> tuple[Pair, ...]:
    """Return the hierarchies of this file."""
    return (
        binomial(),
        poisson(),
        mixture(),
        funnel(),
        horseshoe_means(),
        horseshoe_regression(),
        item_response(),
    )
