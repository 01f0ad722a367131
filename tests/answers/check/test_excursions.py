"""Excursions of chains are found, with chain, draw and distance, and heavy tails are not taken for
them.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import ewsg_jax as ewsg
from ewsg_jax.answers.check.draws import draws_of
from ewsg_jax.answers.check.excursions import excursions

CHAINS, DRAWS = 4, 4_000


def autocorrelated(seed=0, rho=0.9, size=2):
    """Draws of N(0, 1) with an autocorrelation of rho, shape (chain, draw, size)."""
    noise = np.random.default_rng(seed).normal(size=(DRAWS, CHAINS, size))
    for t in range(1, DRAWS):
        noise[t] = rho * noise[t - 1] + np.sqrt(1 - rho**2) * noise[t]
    return noise.swapaxes(0, 1)


def thrown(*places, size=40.0, decay=60.0):
    """The same, with the second coordinate thrown out at (chain, draw), to come back slowly."""
    draws = autocorrelated()
    for chain, draw in places:
        time = np.arange(DRAWS - draw)
        draws[chain, draw:, 1] += size * np.minimum(1, (time + 1) / 2) * np.exp(-time / decay)
    return draws


def found(draws):
    return excursions(draws, draws_of(draws, None, 1_000))


def test_an_excursion_is_named_with_chain_draw_and_distance():
    (finding,) = found(thrown((2, 1_234)))
    assert finding.text.startswith(
        "chain 2 was thrown out at draw 1,234, to 38 robust sds (position[1])"
    )
    assert "and came back in 126 draws, which makes 73 % of the variance" in finding.text
    assert "smaller step" in finding.cure
    (finding,) = found(thrown((2, 1_234), (0, 300), (0, 2_000)))
    assert "; 3 such excursions of 2 chains make" in finding.text


def test_excursions_that_make_little_of_a_variance_are_none():
    assert not found(thrown((2, 1_234), size=12.0, decay=15.0))


def test_the_direction_in_time_tells_them_from_a_tail():
    draws = thrown((2, 1_234), (1, 700))
    assert found(draws)
    assert not found(draws[:, ::-1])
    both = draws.copy()
    both[3] = draws[2, ::-1]
    assert not found(both), "reversible"
    assert not found(draws[:, 1_240:1_300]), "began outside"


NORMAL = np.random.default_rng(1).normal(size=(CHAINS, DRAWS, 2))
HEAVY = {
    "t with 3 dof": lambda z: stats.t.ppf(special.ndtr(z), 3),
    "Cauchy": lambda z: stats.t.ppf(special.ndtr(z), 1),
    "lognormal": lambda z: np.exp(2 * z),
    "funnel": lambda z: np.stack([3 * z[..., 0], np.exp(1.5 * z[..., 0]) * z[..., 1]], -1),
    "banana": lambda z: np.stack([z[..., 0], 5 * z[..., 0] ** 2 + z[..., 1]], -1),
}


@pytest.mark.parametrize("name", HEAVY)
def test_draws_of_heavy_tails_have_none(name):
    assert not found(HEAVY[name](NORMAL))
    for rho in (0.9, 0.99):
        assert not found(HEAVY[name](autocorrelated(3, rho)))


def funnel(theta):
    v, x = theta[0], theta[1:]
    return -(v**2) / 18 - 0.5 * jnp.sum(x**2) * jnp.exp(-v) - 0.5 * len(x) * v


@pytest.mark.full
def test_a_check_asks_for_a_smaller_step_and_not_for_more_draws():
    model = ewsg.Posterior(lambda p, y: 0.0 * jnp.sum(p) * y, lambda p: -0.5 * jnp.sum(p**2))
    draws = thrown((2, 1_234), size=15.0).astype(np.float32)
    report = ewsg.check(jax.random.key(0), draws, model, jnp.zeros(4))
    assert report.outcome == "unsure"
    assert report.verdict.startswith("chain 2 was thrown out at draw 1,234")
    assert "take a smaller step" in report.verdict
    assert "times as long" not in report.verdict
    exact = np.random.default_rng(0).normal(size=(4, 2_000, 5))
    exact[..., 0] *= 3
    exact[..., 1:] *= np.exp(exact[..., :1] / 2)
    model = ewsg.Posterior(lambda p, y: 0.0 * jnp.sum(p) * y, funnel)
    report = ewsg.check(jax.random.key(0), exact.astype(np.float32), model, jnp.zeros(4))
    assert "excursions" not in {finding.kind for finding in report.findings}
