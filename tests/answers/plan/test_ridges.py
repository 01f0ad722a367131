"""Tails along ridges: the power of a marginal density is found, and light tails have none.

Powers follow by counting: along a ridge on which numbers grow as powers of t, the priors' powers
add, and the width across it is a power of t, too.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.potential import HostPotential
from ewsg_jax.answers.plan import ridges as room
from ewsg_jax.answers.plan.ridges import find_ridges
from ewsg_jax.answers.plan.tails import look_at_tails
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.vectors.layout import vector

RNG = np.random.default_rng(0)
Y = jnp.asarray(2 + 0.1 * RNG.normal(size=10), jnp.float32)
TIMES = np.arange(5, 120, 6)


def student(power):
    """Return log densities of Student's t with this power of the density less 1."""
    return lambda x: jnp.sum(-(power + 1) / 2 * jnp.log1p(x**2 / power))


def positive(x):
    return jnp.where(jnp.all(x > 0), 0.0, -jnp.inf)


def ratio(p, y):
    return -0.5 * ((y - p[0] / p[1]) / 0.1) ** 2


def product(p, y):
    return -0.5 * ((y - p[0] * p[1]) / 0.3) ** 2


def total(p, y):
    return -0.5 * ((y - p[0] - p[1]) / 0.3) ** 2


def concentrations(v, k):
    """Michaelis–Menten elimination from a concentration of 1, by Heun's method."""

    def step(c, _):
        first = -v * c / (k + c)
        middle = c + 0.1 * first
        ahead = c + 0.05 * (first - v * middle / (k + middle))
        return ahead, ahead

    return jax.lax.scan(step, 1.0 + 0.0 * v, None, 120)[1]


def elimination(p, row):
    expected = jnp.log(concentrations(p[0], p[1])[row["time"]])
    return -0.5 * ((row["y"] - expected) * jnp.exp(-p[2])) ** 2 - p[2]


LOGS = jnp.log(concentrations(8.0, 20.0))[TIMES] + 0.1 * RNG.normal(size=len(TIMES))
ELIMINATED = {"y": LOGS.astype(jnp.float32), "time": jnp.asarray(TIMES, jnp.int32)}


def of_elimination(power):
    return lambda p: student(power)(p[:2]) + positive(p[:2]) - 0.5 * p[2] ** 2


def half(power):
    return lambda p: student(power)(p) + positive(p)


CASES = {
    # log_likelihood, log_prior, start, rows, power of each coordinate's marginal density
    # The width of one at the other's t is in proportion to t: 2(ν + 1) − 1.
    "a ratio, Cauchy": (ratio, half(1.0), [2.0, 1.0], Y, 3.0),
    "a ratio, 0.8": (ratio, half(0.8), [2.0, 1.0], Y, 2.6),
    "a ratio, 1.3": (ratio, half(1.3), [2.0, 1.0], Y, 3.6),
    # The other one tends to 0, and its width is 1/t: ν + 2.
    "a product, Cauchy": (product, student(1.0), [1.5, 1.3], Y, 3.0),
    "a product, 0.5": (product, student(0.5), [1.5, 1.3], Y, 2.5),
    "a product, 2": (product, student(2.0), [1.5, 1.3], Y, 4.0),
    # One width everywhere: 2(ν + 1).
    "a sum, 0.4": (total, student(0.4), [1.0, 1.0], Y, 2.8),
    "a sum, 0.8": (total, student(0.8), [1.0, 1.0], Y, 3.6),
    "an elimination, Cauchy": (
        elimination, of_elimination(1.0), [8.0, 20.0, -2.0], ELIMINATED, 3.0,
    ),
    "an elimination, 2": (
        elimination, of_elimination(2.0), [8.0, 20.0, -2.0], ELIMINATED, 5.0,
    ),
}  # fmt: skip
LIGHT = {
    "a ratio, normal": (ratio, lambda p: -0.5 * jnp.sum(p**2) / 9 + positive(p), [2.0, 1.0], Y),
    "a ratio, lognormal": (
        ratio,
        lambda p: jnp.sum(-0.5 * jnp.log(p) ** 2 - jnp.log(p)) + positive(p),
        [2.0, 1.0],
        Y,
    ),
    "a product, normal": (product, lambda p: -0.5 * jnp.sum(p**2), [1.5, 1.3], Y),
    "a banana": (
        lambda p, y: 0.0 * y * p[0],
        lambda p: -5 * (p[1] - p[0] ** 2) ** 2 - 0.5 * p[0] ** 2,
        [0.1, 0.1],
        Y,
    ),
    "Neal's funnel": (
        lambda p, y: 0.0 * y * p[0],
        lambda p: -(p[0] ** 2) / 18 - 0.5 * jnp.sum(p[1:] ** 2) * jnp.exp(-p[0]) - 1.5 * p[0],
        [0.1] * 4,
        Y,
    ),
    "a regression with its scale": (
        lambda p, y: -0.5 * ((y - p[0]) * jnp.exp(-p[1])) ** 2 - p[1],
        lambda p: -0.5 * jnp.sum(p**2) / 100,
        [2.0, -1.0],
        Y,
    ),
    "t of four degrees": (
        lambda p, y: 0.0 * y * p[0],
        lambda p: student(4.0)(p),
        [0.1, 0.1, 0.2],
        Y,
    ),
}


def framed(log_likelihood, log_prior, start, rows):
    posterior = ewsg.Posterior(log_likelihood, log_prior)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        mode = ewsg.find_mode(jax.random.key(0), posterior, jnp.asarray(start), rows)
    return posterior, Whitening.at_mode(mode), rows


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_a_power_is_found_and_one_up_to_3_is_named(name):
    *model, power = CASES[name]
    posterior, whitening, rows = framed(*model)
    found = find_ridges(posterior, whitening, rows)
    assert found == ([], [0, 1] if power <= 3 else [])
    potential = HostPotential(posterior, whitening.center, rows, 4_096, lazy=False)
    center = potential.at(vector(whitening.center))
    covariance = np.asarray(whitening.covariance)
    line = room._line(center.flat, 0, float(whitening.sd[0]), None)
    assert line is not None
    track = room.Track(0, *line, covariance[0] / covariance[0, 0])
    heights = room._heights(potential, center, track, 1_000)
    assert abs(-np.diff(heights)[-1] / np.log(10) - power) < 0.02


@pytest.mark.full
@pytest.mark.parametrize("name", LIGHT)
def test_light_tails_are_none(name):
    assert find_ridges(*framed(*LIGHT[name])) == ([], [])


class Exponential:
    forward = staticmethod(jnp.exp)
    inverse = staticmethod(jnp.log)
    log_det = staticmethod(jnp.sum)


@pytest.mark.full
@pytest.mark.parametrize("name", ["a ratio, Cauchy", "a ratio, 1.3"])
def test_the_tail_of_what_draws_are_mapped_to_is_noted(name):
    """On the logarithmic scale each tail is exponential, and no doubt; mapped forward it is not."""
    log_likelihood, log_prior, start, rows, power = CASES[name]
    bijector = Exponential()
    posterior = ewsg.Posterior(log_likelihood, log_prior).transformed(bijector)
    start = bijector.inverse(jnp.asarray(start))
    mode = ewsg.find_mode(jax.random.key(0), posterior, start, rows)
    whitening = Whitening.at_mode(mode)
    assert find_ridges(posterior, whitening, rows, bijector) == ([], [0, 1] * (power <= 3))
    # An affine map has the tails of its positions.
    affine = ewsg.bijectors.affine(jnp.ones(2), jnp.full(2, 3.0))
    assert find_ridges(posterior, whitening, rows, affine) == ([], [])
    findings = look_at_tails(posterior, whitening, rows, None)
    assert [one.severity for one in findings] == ["note"] * (power <= 3)


def test_powers_are_believed_if_they_do_not_change():
    decades = np.arange(4) * np.log(10)
    assert room._kinds(list(-2.9 * decades)) == (False, True)
    assert room._kinds(list(-3.1 * decades)) == (False, False)
    assert room._kinds(list(-0.9 * decades)) == (True, True)
    assert room._kinds(list(-2.9 * decades[:3])) == (False, False), "too near"
    assert room._kinds(list(-2.0 * decades - 0.2 * decades**2)) == (False, False), "lognormal"
    assert room._kinds([0.0]) == room._kinds([]) == (False, False)
    assert room._kinds([0.0, 0.05]) == (True, False)
    assert room._kinds([0.0, -0.9 * np.log(10)]) == (False, False)


@pytest.mark.full
def test_a_plan_is_told_so():
    posterior, whitening, rows = framed(product, student(1.0), [1.5, 1.3], Y)
    (finding,) = look_at_tails(posterior, whitening, rows, None)
    assert (finding.kind, finding.severity) == ("heavy_tail", "doubt")
    assert "falls along a ridge of position[0], position[1] as that of" in finding.text
