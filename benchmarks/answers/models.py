"""Models as people bring them, for `answers.py`: rows from a generator, a posterior, and its
density for NUTS.

Both forms of a hierarchy have one summary, so that one reference judges both: `summary` maps draws
of a form to the numbers that are compared, effects themselves and logarithms of scales.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.answers.case import Case, Grouped, Rows, flat


def _half_normal(log_scale: Any) -> Any:
    """Return log p(log τ), τ ~ |N(0, 1)|."""
    return -0.5 * jnp.exp(2 * log_scale) + log_scale


def _bernoulli(logit: Any, y: Any) -> Any:
    return jax.nn.log_sigmoid(jnp.where(y == 1, logit, -logit))


def _widths(draws: Any) -> np.ndarray:
    """Return τ of draws, with an axis for the effects."""
    return np.exp(np.asarray(draws["log_tau"]))[..., None]


def _of_rows(
    likelihood: Callable[..., Any], prior: Callable[..., Any]
) -> Callable[[Any, Any], Any]:
    """Return the log density of likelihoods that serve one row and all rows alike."""
    return lambda p, rows: prior(p) + jnp.sum(likelihood(p, rows))


def _robust() -> Case:
    """A regression with Student noise, its scale and degrees of freedom unknown."""

    def load() -> Rows:
        rng = np.random.default_rng(11)
        x = np.column_stack([np.ones(1_200), rng.standard_normal((1_200, 7))]).astype(np.float32)
        y = x @ rng.normal(0, 1, 8) + 0.7 * rng.standard_t(3, 1_200)
        return {"x": x, "y": y.astype(np.float32)}

    def likelihood(p: Any, row: Any) -> Any:
        nu, scale = jnp.exp(p["log_nu"]), jnp.exp(p["log_scale"])
        off = (row["y"] - row["x"] @ p["w"]) / scale
        constant = (
            jax.lax.lgamma((nu + 1) / 2) - jax.lax.lgamma(nu / 2) - 0.5 * jnp.log(nu * jnp.pi)
        )
        return constant - p["log_scale"] - 0.5 * (nu + 1) * jnp.log1p(off**2 / nu)

    def prior(p: Any) -> Any:
        return -0.5 * (jnp.sum(p["w"] ** 2) / 4 + p["log_scale"] ** 2 + (p["log_nu"] - 1.5) ** 2)

    start = {"w": jnp.zeros(8), "log_scale": jnp.zeros(()), "log_nu": jnp.ones(())}
    made = ewsg.Posterior(likelihood, prior)
    return Case("robust", "robust regression", load, made, _of_rows(likelihood, prior), start)


def _counts() -> Case:
    """A negative binomial regression with an unknown dispersion."""

    def load() -> Rows:
        rng = np.random.default_rng(12)
        x = np.column_stack([np.ones(6_000), rng.standard_normal((6_000, 9))]).astype(np.float32)
        mean = np.exp(x @ np.r_[1.0, rng.normal(0, 0.3, 9)])
        return {"x": x, "y": rng.poisson(mean * rng.gamma(2.0, 0.5, 6_000)).astype(np.float32)}

    def likelihood(p: Any, row: Any) -> Any:
        eta, size = row["x"] @ p["w"], jnp.exp(p["log_size"])
        y, total = row["y"], jnp.logaddexp(p["log_size"], eta)
        gammas = jax.lax.lgamma(y + size) - jax.lax.lgamma(size)
        return gammas + size * (p["log_size"] - total) + y * (eta - total)

    def prior(p: Any) -> Any:
        return -0.5 * (jnp.sum(p["w"] ** 2) + p["log_size"] ** 2)

    made = ewsg.Posterior(likelihood, prior)
    start = {"w": jnp.zeros(10), "log_size": jnp.zeros(())}
    return Case("counts", "overdispersed counts", load, made, _of_rows(likelihood, prior), start)


def _softmax(name: str, title: str, centred: bool, twin: str) -> Case:
    """A softmax of five classes beside a sixth whose 85 weights share an unknown scale."""

    def load() -> Rows:
        rng = np.random.default_rng(13)
        x = np.column_stack([np.ones(3_864), rng.standard_normal((3_864, 16))]).astype(np.float32)
        logits = np.column_stack([x @ (0.6 * rng.standard_normal((17, 5))), np.zeros(3_864)])
        return {"x": x, "y": np.argmax(logits + rng.gumbel(size=logits.shape), axis=1)}

    def likelihood(p: Any, row: Any) -> Any:
        logits = row["x"] @ (p["w"] if centred else jnp.exp(p["log_tau"]) * p["w"])
        logits = jnp.concatenate([logits, jnp.zeros_like(logits[..., :1])], axis=-1)
        return jnp.take_along_axis(jax.nn.log_softmax(logits), row["y"][..., None], axis=-1)[..., 0]

    def prior(p: Any) -> Any:
        if not centred:
            return -0.5 * jnp.sum(p["w"] ** 2) + _half_normal(p["log_tau"])
        off = jnp.sum((p["w"] * jnp.exp(-p["log_tau"])) ** 2)
        return -0.5 * off - 85 * p["log_tau"] + _half_normal(p["log_tau"])

    def summary(draws: Any) -> np.ndarray:
        return flat({**draws, "w": _widths(draws)[..., None] * np.asarray(draws["w"])})

    made = ewsg.Posterior(likelihood, prior)
    start = {"w": jnp.zeros((17, 5)), "log_tau": jnp.zeros(())}
    return Case(
        name,
        title,
        load,
        made,
        _of_rows(likelihood, prior),
        start,
        flat if centred else summary,
        twin,
    )


def _item_response() -> Case:
    """The two-parameter logistic model of 150 persons and 20 items."""
    persons, items = 150, 20

    def load() -> Rows:
        rng = np.random.default_rng(14)
        p, i = np.repeat(np.arange(persons), items), np.tile(np.arange(items), persons)
        slopes = np.exp(0.4 * rng.normal(size=items))
        hard = rng.normal(size=items)
        able = rng.normal(size=persons)
        chance = 1 / (1 + np.exp(-slopes[i] * (able[p] - hard[i])))
        return {"p": p, "i": i, "y": (rng.random(len(p)) < chance).astype(int)}

    def likelihood(p: Any, row: Any) -> Any:
        logit = jnp.exp(p["log_a"][row["i"]]) * (p["theta"][row["p"]] - p["b"][row["i"]])
        return _bernoulli(logit, row["y"])

    def prior(p: Any) -> Any:
        return -0.5 * (
            jnp.sum(p["theta"] ** 2) + jnp.sum((p["log_a"] / 0.5) ** 2) + jnp.sum((p["b"] / 2) ** 2)
        )

    made = ewsg.Posterior(likelihood, prior)
    start = {"theta": jnp.zeros(persons), "log_a": jnp.zeros(items), "b": jnp.zeros(items)}
    return Case("irt", "item response", load, made, _of_rows(likelihood, prior), start)


def _group_rows(num_groups: int, n: int, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    group = np.sort(rng.integers(num_groups, size=n).astype(np.int32))
    x = rng.standard_normal((n, 5), np.float32)
    effects = (-0.5 + 0.8 * rng.standard_normal(num_groups)).astype(np.float32)
    logit = effects[group] + x @ np.array([0.7, -0.4, 0.2, 0.0, 0.1], np.float32)
    return {"g": group, "x": x, "y": (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.int32)}


def _groups(
    name: str,
    title: str,
    num_groups: int,
    n: int,
    centred: bool,
    twin: str | None = None,
    **more: Any,
) -> Grouped:
    """A logistic regression with an intercept for each group, of unknown mean and scale, and five
    slopes.
    """

    def likelihood(p: Any, row: Any) -> Any:
        effect = p["e"][row["g"]] if centred else p["mu"] + jnp.exp(p["log_tau"]) * p["e"][row["g"]]
        return _bernoulli(effect + row["x"] @ p["w"], row["y"])

    def prior(p: Any) -> Any:
        off, scales = p["e"], 0.0
        if centred:
            off, scales = (off - p["mu"]) * jnp.exp(-p["log_tau"]), -num_groups * p["log_tau"]
        squares = jnp.sum(off**2) + jnp.sum(p["w"] ** 2) + p["mu"] ** 2
        return -0.5 * squares + scales + _half_normal(p["log_tau"])

    def effects(p: Any) -> Any:
        return p["e"] if centred else p["mu"] + jnp.exp(p["log_tau"]) * p["e"]

    def summary(draws: Any) -> np.ndarray:
        moved = np.asarray(draws["mu"])[..., None] + _widths(draws) * np.asarray(draws["e"])
        return flat({**draws, "e": moved})

    start = {
        "e": jnp.zeros(num_groups),
        "w": jnp.zeros(5),
        "mu": jnp.zeros(()),
        "log_tau": jnp.zeros(()),
    }
    load = functools.partial(_group_rows, num_groups, n, 15)
    made = ewsg.Posterior(likelihood, prior)
    density = _of_rows(likelihood, prior)
    return Grouped(
        name,
        title,
        load,
        made,
        density,
        start,
        flat if centred else summary,
        twin,
        num_groups=num_groups,
        effects=effects,
        **more,
    )


_ALL = (
    _robust(),
    _counts(),
    _softmax("softmax", "hierarchical softmax, centred", True, "softmax_n"),
    _softmax("softmax_n", "hierarchical softmax, not centred", False, "softmax"),
    _item_response(),
    _groups("groups_c", "300 groups, centred", 300, 50_000, True, "groups_n"),
    _groups("groups_n", "300 groups, not centred", 300, 50_000, False, "groups_c", is_reduced=True),
    _groups("few_c", "60 groups of 25 rows, centred", 60, 1_500, True, "few_n"),
    _groups("few_n", "60 groups of 25 rows, not centred", 60, 1_500, False, "few_c"),
    _groups(
        "many_rows",
        "300 groups, 5 million rows, centred",
        300,
        5_000_000,
        True,
        is_reduced=True,
        pilot="groups_c",
    ),
    _groups(
        "many_groups",
        "5,000 groups, a million rows, centred",
        5_000,
        1_000_000,
        True,
        is_reduced=True,
    ),
)
MODELS: dict[str, Case] = {model.name: model for model in _ALL}
