"""A density that does not fall along a coordinate is no posterior, and one that falls slowly has no
standard deviation: plans say so of them alone.
"""

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan.request import PlanResult
from ewsg_jax.answers.plan.search import ask_about_model
from ewsg_jax.answers.plan.tails import find_tails
from ewsg_jax.answers.plan.whitening import Whitening

pytestmark = pytest.mark.full

RNG = np.random.default_rng(0)
N, GROUPS = 400, 8
GROUP = np.repeat(np.arange(GROUPS), N // GROUPS)
Y = RNG.normal(size=N) + 0.1 * RNG.normal(size=GROUPS)[GROUP]
EFFECTS = RNG.normal(size=GROUPS)
APART = Y + 5 * EFFECTS[GROUP]
COUNTS = RNG.poisson(4.0, size=N)
ROWS = {"y": Y, "apart": APART, "count": COUNTS, "group": GROUP.astype(np.int32)}
ROWS = {name: jnp.asarray(x) for name, x in ROWS.items()}


def flat(p):
    return 0.0 * p["a"]


def standard(p):
    return -0.5 * sum(jnp.sum(x**2) for x in jax.tree.leaves(p))


def student(p, row):
    half = (jnp.exp(p["b"]) + 1) / 2
    constant = gammaln(half) - gammaln(half - 0.5) - 0.5 * p["b"]
    return constant - half * jnp.log1p((row["y"] - p["a"]) ** 2 * jnp.exp(-p["b"]))


def negative_binomial(p, row):
    k, mean, y = jnp.exp(p["b"]), jnp.exp(p["a"]), row["count"]
    constant = gammaln(y + k) - gammaln(k)
    return constant + k * jnp.log(k / (k + mean)) + y * jnp.log(mean / (k + mean))


def grouped(p, row, name="y"):
    effect = jnp.exp(p["b"]) * p["e"][row["group"]]
    return -0.5 * (row[name] - p["a"] - effect) ** 2


def effects(p):
    return -0.5 * jnp.sum(p["e"] ** 2)


def half_cauchy(p):
    return effects(p) + p["b"] - jnp.log1p(jnp.exp(2 * p["b"]))


TWO, WITH_EFFECTS = {"a": 0.1, "b": 0.2}, {"a": 0.1, "b": -1.0, "e": np.zeros(GROUPS)}
MODELS = {
    # log_likelihood, log_prior, center, along which
    "a scale of effects that are not there": (grouped, effects, WITH_EFFECTS, ["b"]),
    "a parameter that nothing reads": (
        lambda p, row: -((row["y"] - p["a"]) ** 2),
        flat,
        TWO,
        ["b"],
    ),
    "a chance near 0": (
        lambda p, row: -0.5 * (row["y"] - p["a"]) ** 2 + jax.nn.log_sigmoid(p["b"]) / N,
        flat,
        TWO,
        ["b"],
    ),
    "a scale that the groups bound": (
        lambda p, row: grouped(p, row, "apart"),
        effects,
        {"a": 0.1, "b": np.log(5), "e": EFFECTS},
        [],
    ),
    "a scale with a half-Cauchy prior": (grouped, half_cauchy, WITH_EFFECTS, []),
    "normal priors": (negative_binomial, standard, TWO, []),
    "a scale of residuals": (
        lambda p, row: -0.5 * ((row["y"] - p["a"]) * jnp.exp(-p["b"])) ** 2 - p["b"],
        flat,
        TWO,
        [],
    ),
    "one Cauchy row": (
        lambda p, row: -(jnp.log1p((row["y"] - p["a"]) ** 2) + p["b"] ** 2) / N,
        flat,
        TWO,
        [],
    ),
}  # fmt: skip


def frame_of(center, sd=0.3):
    center = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), center)
    size = sum(x.size for x in jax.tree.leaves(center))
    mode = Mode(center, True, 0.0, 0.0, 0.0, 0, 0.0)
    return Whitening(center, jnp.asarray(sd**2 * np.eye(size), jnp.float32), mode)


@pytest.mark.parametrize("name", MODELS)
def test_what_does_not_fall_is_found_and_what_falls_is_not(name):
    log_likelihood, log_prior, center, wanted = MODELS[name]
    found = find_tails(ewsg.Posterior(log_likelihood, log_prior), frame_of(center), ROWS)
    assert [sorted(center)[i] for i in found.level] == wanted
    assert found.slow == ([0] if name == "one Cauchy row" else [])
    assert not found.is_slow


def test_tails_are_those_of_the_chains_where_the_mode_is_a_rounding_error():
    """The constant of a gamma prior cancels in float32, and a search ends where that is highest."""

    def log_prior(p):
        return jnp.where(jnp.abs(p["a"] - 32.0) < 1.0, 1e6, -0.5 * p["a"] ** 2)

    posterior = ewsg.Posterior(lambda p, row: jnp.zeros(()), log_prior)
    request: Any = SimpleNamespace(
        posterior=posterior, data=ROWS, timed=lambda _: contextlib.nullcontext()
    )
    result = PlanResult(
        kernel=ewsg.sgld(posterior, 0.1, batch_size=1),
        start=None,
        time=1.0,
        burn_in=1,
        table=[],
        gaussian=None,
        report=None,
        data_passes=0.0,
    )
    at_mode, by_chains = frame_of({"a": 32.0}, 1e-7), frame_of({"a": 0.0}, 1.0)
    at_mode_alone = ask_about_model(request, result, at_mode).findings
    assert "improper" in {finding.kind for finding in at_mode_alone}
    assert not ask_about_model(request, replace(result, whitening=by_chains), at_mode).findings


@pytest.mark.parametrize("of_rows", [student, negative_binomial])
def test_a_law_that_tends_to_another_has_no_end(of_rows):
    """Degrees of freedom of normal rows, and the concentration of counts that are Poisson."""
    posterior = ewsg.Posterior(of_rows, flat)
    rows = {"y": jnp.asarray(RNG.normal(size=N)), "count": ROWS["count"]}
    # In float32 gammaln of large numbers cancels: a few widths are enough for the constant.
    found = find_tails(posterior, frame_of({"a": 0.0, "b": 3.0}, 0.005), rows)
    assert found.level == [1]
    proper = ewsg.Posterior(of_rows, standard)
    assert find_tails(proper, frame_of({"a": 0.0, "b": 3.0}), rows) == ([], [], False)


def independent(power):
    return lambda p: -(power + 1) / 2 * sum(jnp.sum(jnp.log1p(x**2)) for x in jax.tree.leaves(p))


def spherical(power):
    def log_density(p):
        square = sum(jnp.sum(x**2) for x in jax.tree.leaves(p))
        return -(power + len(TWO)) / 2 * jnp.log1p(square)

    return log_density


@pytest.mark.parametrize(
    ("log_prior", "wanted"),
    [
        # Student's laws with so many degrees of freedom: two have a mean and no variance.
        pytest.param(independent(1.0), ([], [0, 1], True), id="Cauchy"),
        pytest.param(independent(2.0), ([], [0, 1], False), id="2"),
        pytest.param(independent(2.2), ([], [], False), id="2.2"),
        pytest.param(independent(5.0), ([], [], False), id="5"),
        pytest.param(spherical(1.8), ([], [], True), id="spherical, 1.8"),
        pytest.param(spherical(2.4), ([], [], False), id="spherical, 2.4"),
        pytest.param(lambda p: -abs(p["a"]) - p["b"] ** 2, ([], [], False), id="Laplace"),
    ],
)
def test_what_falls_too_slowly_for_a_standard_deviation_is_found(log_prior, wanted):
    posterior = ewsg.Posterior(lambda p, row: 0.0 * p["a"], log_prior)
    assert find_tails(posterior, frame_of({"a": 0.0, "b": 0.0}, 1.0), ROWS) == wanted


@pytest.mark.full
def test_a_plan_knows_no_standard_deviation_of_a_cauchy_law():
    """One of five independent ones was trusted."""
    posterior = ewsg.Posterior(lambda p, row: 0.0 * jnp.sum(p["a"]), independent(1.0))
    start = {"a": jnp.full(2, 0.1)}
    with pytest.warns(
        RuntimeWarning, match="as that of a distribution without a standard deviation"
    ):
        plan = ewsg.plan(jax.random.key(0), posterior, start, {"y": ROWS["y"]})
    assert not plan.is_trusted
    assert not plan.gaussian.is_right
    assert any("falls along a[0], a[1] as that of" in each for each in plan.doubts)


def test_a_plan_says_so():
    """Of a normal law with a floor, exp(−8) of its height, that draws near it do not show."""

    def with_floor(p):
        return jnp.logaddexp(-0.5 * p["b"] ** 2, -8.0)

    posterior = ewsg.Posterior(lambda p, row: -0.5 * (row["y"] - p["a"]) ** 2, with_floor)
    start = {"a": jnp.zeros(()), "b": jnp.zeros(())}
    with pytest.warns(RuntimeWarning, match="does not fall along b"):
        plan = ewsg.plan(jax.random.key(0), posterior, start, {"y": ROWS["y"]})
    assert not plan.is_trusted
    assert any("does not fall along b: 1,000 standard deviations" in each for each in plan.doubts)
