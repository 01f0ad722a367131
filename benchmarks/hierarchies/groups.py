"""Hierarchies with normal rows in groups: intercepts, slopes, and both."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.hierarchies.linear import Linear, Term, squares
from benchmarks.hierarchies.model import Draws, Pair, replaced, sum_of_squares
from benchmarks.hierarchies.normal_rows import (
    GRID,
    double,
    inverse_square,
    likelihood_term,
    log_normal_density,
    narrow_rows,
    one_hot,
)
from benchmarks.hierarchies.scales import Hyper, prior_of


def intercepts(
    name: str,
    title: str,
    sizes: Sequence[int],
    *,
    mu: float = 0.5,
    tau: float = 0.5,
    s: float = 1.0,
    se: np.ndarray | None = None,
    mu_width: float = 10.0,
    width: float = 1.0,
    s_width: float = 1.0,
    from_data: bool = False,
    seed: int = 0,
) -> Pair:
    """Return y ~ N(a[g], s), a ~ N(mu, tau): s unknown, or `se` of each row."""
    rng, num_groups, n = np.random.default_rng(seed), len(sizes), int(np.sum(sizes))
    g = np.repeat(np.arange(num_groups), sizes)
    sd = s if se is None else se
    y = mu + tau * rng.normal(size=num_groups)[g] + sd * rng.normal(size=n)
    rows = narrow_rows(g=g, y=y, **({} if se is None else {"se": se}))
    unit = np.log(width)
    # The scales, with their priors and grids.
    hypers = {"log_tau": Hyper("half_normal", width, unit - 13, unit + 1.6, 60)}
    if se is None:
        centre = np.log(s_width)
        hypers["log_s"] = Hyper("half_normal", s_width, centre - 6, centre + 1.6, 40)
    # The coefficients given the scales, for exact draws.
    design = np.column_stack([np.zeros(n), one_hot(g, num_groups)])
    between = np.column_stack([-np.ones(num_groups), np.eye(num_groups)])
    first = np.eye(1, num_groups + 1)
    linear = Linear(
        hypers,
        [
            likelihood_term(design, rows, se is not None),
            squares(inverse_square("log_tau"), between),
            squares(lambda h: mu_width**-2.0, first),
        ],
        {"mu": (), "a": (num_groups,)},
    )
    # The same density for JAX, centred and not.
    of_scales = prior_of(hypers)

    def shared(p: Any) -> Any:
        return of_scales(p) - 0.5 * (p["mu"] / mu_width) ** 2

    def prior(p: Any) -> Any:
        off = (p["a"] - p["mu"]) * jnp.exp(-p["log_tau"])
        return shared(p) - 0.5 * sum_of_squares(off) - num_groups * p["log_tau"]

    centred = ewsg.Posterior(lambda p, row: log_normal_density(p, row, p["a"][row["g"]]), prior)
    other = ewsg.Posterior(
        lambda p, row: log_normal_density(
            p, row, p["mu"] + jnp.exp(p["log_tau"]) * p["z"][row["g"]]
        ),
        lambda p: shared(p) - 0.5 * sum_of_squares(p["z"]),
    )
    middle, spread = (float(y.mean()), float(np.log(y.std()))) if from_data else (0.0, 0.0)
    scales = {key: jnp.asarray(spread) for key in hypers}
    start = {"mu": jnp.asarray(middle), "a": jnp.full(num_groups, middle), **scales}
    other_start = {"mu": jnp.asarray(middle), "z": jnp.zeros(num_groups), **scales}

    def to_other(draws: Draws) -> Draws:
        z = (draws["a"] - draws["mu"][:, None]) * np.exp(-draws["log_tau"])[:, None]
        return replaced(draws, "a", z=z)

    return Pair(
        name=name,
        title=title,
        data=rows,
        centred=(centred, start),
        non_centred=(other, other_start),
        draw=linear.draw,
        to_non_centred=to_other,
        effects=("a",),
        scales=tuple(hypers),
        precision=lambda draws: {"a": linear.precision(draws)["a"]},
        how=GRID,
    )


def slopes(name: str, title: str, num_groups: int, n: int, tau: float, seed: int) -> Pair:
    """Return y ~ N(alpha + b[g] x, s), b ~ N(beta, tau)."""
    rng = np.random.default_rng(seed)
    g, x = np.sort(rng.integers(num_groups, size=n)), rng.normal(size=n)
    b = 0.7 + tau * rng.normal(size=num_groups)
    rows = narrow_rows(g=g, x=x, y=-0.3 + b[g] * x + 0.8 * rng.normal(size=n))
    # The scales, with their priors and grids.
    hypers = {
        "log_tau": Hyper("half_normal", 1.0, -13, 1.6, 60),
        "log_s": Hyper("half_normal", 1.0, -4, 1.6, 40),
    }
    # The coefficients given the scales, for exact draws.
    design = np.column_stack(
        [np.ones(n), np.zeros(n), one_hot(g, num_groups) * double(rows["x"])[:, None]]
    )
    between = np.column_stack([np.zeros(num_groups), -np.ones(num_groups), np.eye(num_groups)])
    linear = Linear(
        hypers,
        [
            likelihood_term(design, rows, False),
            squares(inverse_square("log_tau"), between),
            squares(lambda h: 1 / 25, np.eye(2, num_groups + 2)),
        ],
        {"alpha": (), "beta": (), "b": (num_groups,)},
    )
    # The same density for JAX, centred and not.
    of_scales = prior_of(hypers)

    def shared(p: Any) -> Any:
        return of_scales(p) - 0.5 * (p["alpha"] ** 2 + p["beta"] ** 2) / 25

    def prior(p: Any) -> Any:
        off = (p["b"] - p["beta"]) * jnp.exp(-p["log_tau"])
        return shared(p) - 0.5 * sum_of_squares(off) - num_groups * p["log_tau"]

    def fitted(p: Any, row: Any, b: Any) -> Any:
        return log_normal_density(p, row, p["alpha"] + b * row["x"])

    def to_other(draws: Draws) -> Draws:
        z = (draws["b"] - draws["beta"][:, None]) * np.exp(-draws["log_tau"])[:, None]
        return replaced(draws, "b", z=z)

    start = {key: jnp.zeros(()) for key in ("alpha", "beta", *hypers)}
    return Pair(
        name=name,
        title=title,
        data=rows,
        centred=(
            ewsg.Posterior(lambda p, row: fitted(p, row, p["b"][row["g"]]), prior),
            start | {"b": jnp.zeros(num_groups)},
        ),
        non_centred=(
            ewsg.Posterior(
                lambda p, row: fitted(p, row, p["beta"] + jnp.exp(p["log_tau"]) * p["z"][row["g"]]),
                lambda p: shared(p) - 0.5 * sum_of_squares(p["z"]),
            ),
            start | {"z": jnp.zeros(num_groups)},
        ),
        draw=linear.draw,
        to_non_centred=to_other,
        effects=("b",),
        scales=tuple(hypers),
        precision=lambda draws: {"b": linear.precision(draws)["b"]},
        how=GRID,
    )


def _lines_rows(
    num_groups: int, n: int, taus: tuple[float, float], rho: float, s: float, seed: int
) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    g, x = np.sort(rng.integers(num_groups, size=n)), rng.normal(size=n)
    z = rng.normal(size=(2, num_groups))
    a, b = 1 + taus[0] * z[0], -0.5 + taus[1] * (rho * z[0] + np.sqrt(1 - rho**2) * z[1])
    return narrow_rows(g=g, x=x, y=a[g] + b[g] * x + s * rng.normal(size=n), se=np.full(n, s))


def lines(
    name: str,
    title: str,
    num_groups: int,
    n: int,
    taus: tuple[float, float],
    seed: int,
    rho: float | None = None,
) -> Pair:
    """Return y ~ N(a[g] + b[g] x, se): intercepts and slopes with scales of their own, and a
    correlation tanh(r) if `rho` is given.
    """
    is_correlated = rho is not None
    rows = _lines_rows(num_groups, n, taus, rho or 0.0, 0.7, seed)
    # The scales, with their priors and grids.
    hypers = {
        "log_tau": Hyper("half_normal", 1.0, -13, 1.6, 40),
        "log_omega": Hyper("half_normal", 1.0, -13, 1.6, 40),
    }
    if is_correlated:
        hypers["r"] = Hyper("normal", 0.7, -3.5, 3.5, 24)
    hot, eye = one_hot(rows["g"], num_groups), np.eye(num_groups)
    zeros = np.zeros_like(eye)
    # The coefficients given the scales, for exact draws.
    design = np.column_stack([np.zeros((n, 2)), hot, hot * double(rows["x"])[:, None]])
    ones, none = -np.ones((num_groups, 1)), np.zeros((num_groups, 1))
    of_a = np.hstack([ones, none, eye, zeros])
    of_b = np.hstack([none, ones, zeros, eye])

    def weight(power_a: int, power_b: int) -> Any:
        """Return an entry of the precision of both effects of a group."""

        def value(h: Mapping[str, Any]) -> Any:
            c = np.tanh(h["r"]) if is_correlated else 0.0 * np.asarray(h["log_tau"])
            scale = np.exp(-power_a * h["log_tau"] - power_b * h["log_omega"]) / (1 - c**2)
            return -c * scale if power_a == power_b else scale

        return value

    across = of_a.T @ of_b
    terms = [
        likelihood_term(design, rows, True),
        squares(weight(2, 0), of_a),
        squares(weight(0, 2), of_b),
        Term(weight(1, 1), across + across.T, np.zeros(len(across)), 0.0, 0),
        squares(lambda h: 1 / 25, np.eye(2, 2 * num_groups + 2)),
    ]

    def more(h: Mapping[str, Any]) -> Any:
        # Both diagonal entries count 1 / (1 − c²); the determinant has it once.
        return 0.5 * num_groups * np.log1p(-(np.tanh(h["r"]) ** 2)) if is_correlated else 0.0

    leaves = {"alpha": (), "beta": (), "a": (num_groups,), "b": (num_groups,)}
    linear = Linear(hypers, terms, leaves, more)
    # The same density for JAX, centred and not.
    of_scales = prior_of(hypers)

    def shared(p: Any) -> Any:
        return of_scales(p) - 0.5 * (p["alpha"] ** 2 + p["beta"] ** 2) / 25

    def correlation(p: Any) -> Any:
        return jnp.tanh(p["r"]) if is_correlated else 0.0

    def prior(p: Any) -> Any:
        c = correlation(p)
        u = (p["a"] - p["alpha"]) * jnp.exp(-p["log_tau"])
        v = (p["b"] - p["beta"]) * jnp.exp(-p["log_omega"])
        squared = sum_of_squares(u) + sum_of_squares(v - c * u) / (1 - c**2)
        scales = p["log_tau"] + p["log_omega"] + 0.5 * jnp.log(1 - c**2)
        return shared(p) - 0.5 * squared - num_groups * scales

    def fitted(p: Any, row: Any, a: Any, b: Any) -> Any:
        return log_normal_density(p, row, a + b * row["x"])

    def not_centred(p: Any, row: Any) -> Any:
        c, u, v = correlation(p), p["u"][row["g"]], p["v"][row["g"]]
        a = p["alpha"] + jnp.exp(p["log_tau"]) * u
        return fitted(
            p, row, a, p["beta"] + jnp.exp(p["log_omega"]) * (c * u + jnp.sqrt(1 - c**2) * v)
        )

    def to_other(draws: Draws) -> Draws:
        c = np.tanh(draws["r"])[:, None] if is_correlated else 0.0
        u = (draws["a"] - draws["alpha"][:, None]) * np.exp(-draws["log_tau"])[:, None]
        v = (draws["b"] - draws["beta"][:, None]) * np.exp(-draws["log_omega"])[:, None]
        return replaced(draws, "a", "b", u=u, v=(v - c * u) / np.sqrt(1 - c**2))

    def precision(draws: Draws) -> Draws:
        precisions = linear.precision(draws)
        return {key: precisions[key] for key in ("a", "b")}

    start = {key: jnp.zeros(()) for key in ("alpha", "beta", *hypers)}
    effects = jnp.zeros(num_groups)
    return Pair(
        name=name,
        title=title,
        data=rows,
        centred=(
            ewsg.Posterior(
                lambda p, row: fitted(p, row, p["a"][row["g"]], p["b"][row["g"]]), prior
            ),
            start | {"a": effects, "b": effects},
        ),
        non_centred=(
            ewsg.Posterior(
                not_centred,
                lambda p: shared(p) - 0.5 * (sum_of_squares(p["u"]) + sum_of_squares(p["v"])),
            ),
            start | {"u": effects, "v": effects},
        ),
        draw=linear.draw,
        to_non_centred=to_other,
        effects=("a", "b"),
        scales=("log_tau", "log_omega"),
        precision=precision,
        how=GRID,
    )
