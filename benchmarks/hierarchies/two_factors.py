"""Hierarchies with normal rows and two factors, crossed or nested."""

from typing import Any

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.hierarchies.linear import Linear, squares
from benchmarks.hierarchies.model import Draws, Pair, replaced, sum_of_squares
from benchmarks.hierarchies.normal_rows import (
    GRID,
    inverse_square,
    likelihood_term,
    log_normal_density,
    narrow_rows,
    one_hot,
)
from benchmarks.hierarchies.scales import Hyper, prior_of


def two_factors(
    name: str,
    title: str,
    sizes: tuple[int, int],
    n: int,
    taus: tuple[float, float],
    seed: int,
    is_nested: bool = False,
) -> Pair:
    """Return y ~ N(fitted, se) of two factors with scales of their own: mu + a[i] + b[j], or b[j]
    around a[i], its region, around mu, if they are nested.
    """
    rng, (first, second) = np.random.default_rng(seed), sizes
    region = np.sort(rng.integers(first, size=second))
    j = rng.integers(second, size=n)
    i = region[j] if is_nested else rng.integers(first, size=n)
    a, b = taus[0] * rng.normal(size=first), taus[1] * rng.normal(size=second)
    rows = narrow_rows(i=i, j=j, y=0.4 + a[i] + b[j] + 0.9 * rng.normal(size=n), se=np.full(n, 0.9))
    # The scales, with their priors and grids.
    hypers = {
        "log_tau": Hyper("half_normal", 1.0, -13, 1.6, 50),
        "log_omega": Hyper("half_normal", 1.0, -13, 1.6, 50),
    }
    # The coefficients given the scales, for exact draws; `of_a` and `of_b` are rows of the prior.
    one = np.ones((n, 1))
    hot_i, hot_j = one_hot(i, first), one_hot(j, second)
    of_a = np.hstack([np.zeros((first, 1)), np.eye(first), np.zeros((first, second))])
    of_b = np.hstack([np.zeros((second, 1 + first)), np.eye(second)])
    if is_nested:
        design = np.hstack([0 * one, 0 * hot_i, hot_j])
        of_a[:, 0] = -1.0
        of_b[:, 1 : 1 + first] = -one_hot(region, first)
    else:
        design = np.hstack([one, hot_i, hot_j])
    linear = Linear(
        hypers,
        [
            likelihood_term(design, rows, True),
            squares(inverse_square("log_tau"), of_a),
            squares(inverse_square("log_omega"), of_b),
            squares(lambda h: 1 / 25, np.eye(1, 1 + first + second)),
        ],
        {"mu": (), "a": (first,), "b": (second,)},
    )
    # The same density for JAX, centred and not.
    of_scales = prior_of(hypers)
    regions = jnp.asarray(region)

    def shared(p: Any) -> Any:
        return of_scales(p) - 0.5 * p["mu"] ** 2 / 25

    def prior(p: Any) -> Any:
        a, b = (p["a"] - p["mu"], p["b"] - p["a"][regions]) if is_nested else (p["a"], p["b"])
        squared = sum_of_squares(a * jnp.exp(-p["log_tau"])) + sum_of_squares(
            b * jnp.exp(-p["log_omega"])
        )
        return shared(p) - 0.5 * squared - first * p["log_tau"] - second * p["log_omega"]

    def centred(p: Any, row: Any) -> Any:
        b = p["b"][row["j"]]
        return log_normal_density(p, row, b if is_nested else p["mu"] + p["a"][row["i"]] + b)

    def not_centred(p: Any, row: Any) -> Any:
        a = jnp.exp(p["log_tau"]) * p["u"][row["i"]]
        return log_normal_density(p, row, p["mu"] + a + jnp.exp(p["log_omega"]) * p["v"][row["j"]])

    def to_other(draws: Draws) -> Draws:
        a, b = draws["a"], draws["b"]
        if is_nested:
            a, b = a - draws["mu"][:, None], b - a[:, region]
        u = a * np.exp(-draws["log_tau"])[:, None]
        v = b * np.exp(-draws["log_omega"])[:, None]
        return replaced(draws, "a", "b", u=u, v=v)

    def precision(draws: Draws) -> Draws:
        found = linear.precision(draws)
        return {key: found[key] for key in ("a", "b")}

    start = {key: jnp.zeros(()) for key in ("mu", *hypers)}
    return Pair(
        name=name,
        title=title,
        data=rows,
        centred=(
            ewsg.Posterior(centred, prior),
            start | {"a": jnp.zeros(first), "b": jnp.zeros(second)},
        ),
        non_centred=(
            ewsg.Posterior(
                not_centred,
                lambda p: shared(p) - 0.5 * (sum_of_squares(p["u"]) + sum_of_squares(p["v"])),
            ),
            start | {"u": jnp.zeros(first), "v": jnp.zeros(second)},
        ),
        draw=linear.draw,
        to_non_centred=to_other,
        effects=("a", "b"),
        scales=tuple(hypers),
        precision=precision,
        how=GRID,
    )
