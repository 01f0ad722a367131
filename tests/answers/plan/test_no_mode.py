"""A hierarchy in the centred form has no mode: the search for one is given up soon."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.plan import plan

pytestmark = pytest.mark.full


def correlated_effects(groups: int = 12) -> tuple[ewsg.Posterior, dict, dict]:
    """Intercepts and slopes of groups with a covariance by its Cholesky factor, centred."""
    rng = np.random.default_rng(0)
    group, x = np.repeat(np.arange(groups), 8), rng.normal(size=8 * groups)
    effects = rng.normal(size=(groups, 2)) @ np.array([[1.0, 0.5], [0.0, 0.4]])
    y = effects[group, 0] + effects[group, 1] * x + rng.normal(size=len(x))

    def likelihood(p, row):
        a, b = p["e"][row["g"]]
        return -0.5 * (row["y"] - a - b * row["x"]) ** 2

    def prior(p):
        (one, two), c = jnp.exp(p["log_tau"]), jnp.tanh(p["c"])
        off = p["e"] - p["mu"]
        first = off[:, 0] / one
        second = (off[:, 1] / two - c * first) / jnp.sqrt(1 - c**2)
        of_effects = -0.5 * jnp.sum(first**2 + second**2) - groups * (
            jnp.sum(p["log_tau"]) + 0.5 * jnp.log1p(-(c**2))
        )
        of_scales = jnp.sum(p["log_tau"] - 0.5 * jnp.exp(2 * p["log_tau"]))
        return of_effects + of_scales + jnp.log1p(-(c**2)) - 0.5 * jnp.sum(p["mu"] ** 2)

    start = {
        "mu": jnp.zeros(2),
        "log_tau": jnp.zeros(2),
        "c": jnp.zeros(()),
        "e": jnp.zeros((groups, 2)),
    }
    return ewsg.Posterior(likelihood, prior), start, {"g": group, "x": x, "y": y}


class SearchedError(Exception):
    """The search has ended: no more of the plan is made."""


def heavy_tailed_effects() -> tuple[ewsg.Posterior, dict, dict]:
    """The rows of `correlated_effects`, noisier, with intercepts that are Student t, centred.

    Their posterior given the rest is not normal: no coordinates are found in which it has a mode.
    """
    _, _, rows = correlated_effects()

    def likelihood(p, row):
        return -0.5 * ((row["y"] - p["a"][row["g"]]) / 4) ** 2

    def prior(p):
        scaled = (p["a"] - p["mu"]) / jnp.exp(p["log_tau"])
        of_effects = -2.5 * jnp.sum(jnp.log1p(scaled**2 / 4)) - scaled.size * p["log_tau"]
        return of_effects + p["log_tau"] - 0.5 * jnp.exp(2 * p["log_tau"]) - 0.5 * p["mu"] ** 2

    start = {"mu": jnp.zeros(()), "log_tau": jnp.zeros(()), "a": jnp.zeros(12)}
    return ewsg.Posterior(likelihood, prior), start, {name: rows[name] for name in "gy"}


def test_a_search_without_a_mode_is_short(monkeypatch):
    posterior, start, rows = heavy_tailed_effects()
    found = []
    # The cause and its cure come first.
    said = "^log_prior has no bound: .*prior widths of 13 coordinates fell.*effect = mean . scale"

    def searched(*given, **named):
        with pytest.warns(RuntimeWarning, match=said):
            found.append(ewsg.find_mode(*given, **named))
        raise SearchedError

    monkeypatch.setattr(plan, "find_mode", searched)
    with pytest.raises(SearchedError):
        ewsg.plan(jax.random.key(0), posterior, start, rows, progress=False)
    assert not found[0].converged
    # Of 500 steps down to a scale of 0, each of d + 1 data passes and more.
    assert found[0].num_steps <= 60, found[0].num_steps


def test_steps_that_are_rejected_have_no_hessian():
    """A Hessian takes 38 passes; of four trials on the way to no mode three are rejected."""
    posterior, start, rows = correlated_effects(16)
    with pytest.warns(RuntimeWarning, match="found no mode|ended"):
        mode = ewsg.find_mode(jax.random.key(0), posterior, start, rows, max_steps=40)
    assert mode.data_passes < 3 * 38 * mode.num_steps
