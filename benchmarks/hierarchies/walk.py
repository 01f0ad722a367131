"""A random walk, seen through normal rows."""

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
)
from benchmarks.hierarchies.scales import Hyper, prior_of


def walk(name: str, title: str, num_times: int, tau: float, seed: int) -> Pair:
    """Return y_t ~ N(a_t, s), a_t ~ N(a_{t-1}, tau), a_0 ~ N(0, 3)."""
    rng = np.random.default_rng(seed)
    a = 1.0 + tau * np.cumsum(rng.normal(size=num_times))
    rows = narrow_rows(t=np.arange(num_times), y=a + 0.6 * rng.normal(size=num_times))
    # The scales, with their priors and grids.
    hypers = {
        "log_tau": Hyper("half_normal", 1.0, -13, 1.6, 50),
        "log_s": Hyper("half_normal", 1.0, -6, 1.6, 40),
    }
    # The coefficients given the scales, for exact draws.
    steps = np.eye(num_times) - np.eye(num_times, k=-1)
    linear = Linear(
        hypers,
        [
            likelihood_term(np.eye(num_times), rows, False),
            squares(inverse_square("log_tau"), steps[1:]),
            squares(lambda h: 1 / 9, steps[:1]),
        ],
        {"a": (num_times,)},
    )
    # The same density for JAX, centred and not.
    of_scales = prior_of(hypers)

    def prior(p: Any) -> Any:
        moves = jnp.diff(p["a"]) * jnp.exp(-p["log_tau"])
        shared = of_scales(p) - 0.5 * p["a"][0] ** 2 / 9
        return shared - 0.5 * sum_of_squares(moves) - (num_times - 1) * p["log_tau"]

    def other_likelihood(p: Any, row: Any) -> Any:
        a = p["first"] + jnp.exp(p["log_tau"]) * jnp.concatenate([jnp.zeros(1), jnp.cumsum(p["z"])])
        return log_normal_density(p, row, a[row["t"]])

    def to_other(draws: Draws) -> Draws:
        z = np.diff(draws["a"], axis=1) * np.exp(-draws["log_tau"])[:, None]
        return replaced(draws, "a", first=draws["a"][:, 0], z=z)

    scales = {key: jnp.zeros(()) for key in hypers}
    return Pair(
        name=name,
        title=title,
        data=rows,
        centred=(
            ewsg.Posterior(lambda p, row: log_normal_density(p, row, p["a"][row["t"]]), prior),
            scales | {"a": jnp.zeros(num_times)},
        ),
        non_centred=(
            ewsg.Posterior(
                other_likelihood,
                lambda p: of_scales(p) - 0.5 * p["first"] ** 2 / 9 - 0.5 * sum_of_squares(p["z"]),
            ),
            scales | {"first": jnp.zeros(()), "z": jnp.zeros(num_times - 1)},
        ),
        draw=linear.draw,
        to_non_centred=to_other,
        effects=("a",),
        scales=tuple(hypers),
        precision=lambda draws: {"a": linear.precision(draws)["a"]},
        how=GRID,
    )
