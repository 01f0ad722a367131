"""What is evaluated at draws, and what is added to gradients, against NumPy and closed forms."""

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.learning_coefficient import search
from ewsg_jax.answers.learning_coefficient.at_draws import LossChanges, Stiffness, largest_curvature
from ewsg_jax.answers.learning_coefficient.chains import (
    CoefficientEstimate,
    PairedChains,
    error_of_mean,
)
from ewsg_jax.answers.learning_coefficient.target import Localized, flat, target_of
from ewsg_jax.base.optional import student_quantile

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(40, 3)).astype(np.float32), RNG.normal(size=40).astype(np.float32)
DATA = {"x": X, "y": Y}
CENTER = np.array([0.3, -0.2, 0.5], np.float32)


def log_likelihood(w, row):
    return -0.5 * (row["y"] - row["x"] @ w) ** 2


POSTERIOR = ewsg.Posterior(log_likelihood, flat)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_the_gradient_is_that_of_the_likelihood_and_of_the_localizing_prior(batch_size):
    point, strength = CENTER + np.float32(0.7), 5.0
    local = ewsg.Posterior(log_likelihood, lambda w: -strength / 2 * jnp.sum((w - CENTER) ** 2))
    if batch_size is None:
        inner, whole = ewsg.gradients.full(POSTERIOR), ewsg.gradients.full(local)
    else:
        options = {"batch_size": batch_size, "center": CENTER}
        inner = ewsg.gradients.control_variate(POSTERIOR, **options)
        whole = ewsg.gradients.control_variate(local, **options)
    ours = Localized(posterior=POSTERIOR, inner=inner, center=CENTER, strength=strength)

    def estimate(estimator):
        key, weight = jax.random.key(1), lambda *_: 0.0
        drawn = estimator.draw(key, DATA)
        memory = estimator.init(key, CENTER, DATA)
        estimate, _ = estimator.propose(drawn, memory, point, DATA, weight)
        return estimate.gradient, estimator.gradient_at(estimate, 2 * point, DATA)

    for one, other in zip(estimate(ours), estimate(whole), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-4)
    assert ours.evaluations(DATA) == whole.evaluations(DATA)


def test_losses_are_means_over_rows_and_so_are_those_of_drawn_rows():
    pair = (CENTER + np.float32(0.1), CENTER - np.float32(0.2))
    of = LossChanges(POSTERIOR, None)
    loss = [0.5 * np.mean((Y - X.astype(float) @ w) ** 2) for w in (*pair, CENTER)]
    inputs = CENTER, {"": DATA, "half": jax.tree.map(lambda x: x[:20], DATA)}
    changes = of(pair, inputs, jax.random.key(0))
    np.testing.assert_allclose(changes[""], [loss[0] - loss[2], loss[1] - loss[2]], rtol=1e-4)
    keys = jax.random.split(jax.random.key(1), 4_000)
    drawn = jax.vmap(lambda key: LossChanges(POSTERIOR, 5)(pair, inputs, key)[""])(keys)
    error = np.std(drawn, axis=0) / 4_000**0.5
    assert np.all(np.abs(np.mean(drawn, axis=0) - changes[""]) < 5 * error)


def test_a_small_change_of_many_rows_keeps_its_digits():
    """The change is 5e-5, and numbers of float32 near the mean loss, 5,000, are 5e-4 apart."""
    n = 400_000
    x = RNG.normal(size=(n, 1)).astype(np.float32)
    data = {"x": x, "y": (100 + RNG.normal(size=n)).astype(np.float32)}
    center = np.array([float(np.sum(x.T @ data["y"]) / np.sum(x**2))], np.float32)
    moved = center + np.float32(1e-2)
    residual = data["y"].astype(float)[:, None] - x.astype(float) * np.stack([moved, center]).T
    exact = np.diff(np.mean(residual**2, axis=0)[::-1])[0] / 2
    changes = LossChanges(POSTERIOR, None)((moved, moved), (center, {"": data}), jax.random.key(0))
    assert abs(float(changes[""][0]) - exact) < 0.05 * abs(exact)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_largest_curvature_is_that_of_the_hessian_with_its_sign(sign):
    posterior = ewsg.Posterior(lambda w, row: sign * log_likelihood(w, row), flat)
    curvature, direction = largest_curvature(posterior, CENTER, DATA, 2.0, jax.random.key(0))
    values, vectors = np.linalg.eigh(2 * sign * X.T.astype(float) @ X)
    k = np.argmax(np.abs(values))
    np.testing.assert_allclose(curvature, values[k], rtol=0.02)
    assert abs(direction @ vectors[:, k]) > 0.95


def test_the_noise_of_a_row_is_the_trace_of_its_covariance():
    place = CENTER + np.float32(1.0)
    of = Stiffness(POSTERIOR, 1.0, 16)
    keys = jax.random.split(jax.random.key(1), 500)
    noises = jax.vmap(lambda key: of((place, place), (CENTER, DATA), key)["noise"])(keys)
    rows = X * (X @ (place - CENTER))[:, None]
    exact = np.sum(np.var(rows, axis=0))
    assert abs(np.mean(noises) - exact) < 5 * np.std(noises) / 500**0.5


@pytest.mark.parametrize("order", [1, 2])
def test_the_bias_of_half_the_step_is_that_of_its_order(order):
    """Values 12 + 0.8 hᵖ: those of h and h/2 tell what is left at h/2."""
    noise = 1e-9 * np.random.default_rng(1).normal(size=(8, 100, 2))
    values = 12.0 + 0.8 * np.array([0.5, 0.25]) ** order + noise
    pairs: Any = SimpleNamespace(
        changes={"": values},
        coefficients=lambda changes: changes,
        order=order,
        _request=SimpleNamespace(used_share=0.5),
    )
    estimate = PairedChains.estimate(pairs)
    assert estimate.bias == pytest.approx(0.8 * 0.25**order)
    assert estimate.value - estimate.bias == pytest.approx(12.0)
    # If the difference is of the next order, that is how far the correction is off.
    apart = 0.8 * (0.5**order - 0.25**order)
    other = apart / (2 ** (order + 1) - 1)
    assert estimate.corrected_error == pytest.approx(estimate.bias - other)


def test_a_run_that_ends_after_a_new_step_keeps_the_draws_before(monkeypatch):
    """The steps are over when the bias asks for half the step: chains of that have no draws."""

    class OneEstimate:
        diverged = interrupted = False
        curvature, noise, draws_at_once = -np.inf, 0.0, 40

        def __init__(self, request, setting, number):
            self.setting, self.num_steps, self.data_passes = setting, 0, 0.0
            self.changes = {}

        def advance(self, num_draws, seconds):
            self.num_steps, self.changes = 400, {"": np.zeros((8, 40, 2))}

        def estimate(self):
            return CoefficientEstimate(10.0, 0.1, 5.0, 0.1, 0.1, 1.0)

    monkeypatch.setattr(search, "PairedChains", OneEstimate)
    request: Any = SimpleNamespace(
        target=SimpleNamespace(strength=1.0),
        num_data=100,
        num_steps=500,
        thin=10,
        draws_per_call=40,
        tolerance=0.03,
        step_size=None,
        batch_size=None,
        seconds=None,
        progress=False,
    )
    outcome = search.run(request, curvature=99.0)
    assert outcome.chains.changes[""].shape == (8, 40, 2)
    assert outcome.chains.setting.step_size == pytest.approx(0.08)
    assert outcome.estimate is not None
    assert outcome.estimate.value == 10
    assert "all 500 steps" in outcome.reason


def test_errors_are_the_larger_ones_of_chains_and_of_draws():
    draws = np.random.default_rng(1).normal(size=(4, 1_000))
    assert 0.7 / 4_000**0.5 < error_of_mean(draws) < 3 / 4_000**0.5
    apart = draws + np.arange(4)[:, None]
    between = apart.mean(1).std(ddof=1) / 2
    assert error_of_mean(apart) >= between * student_quantile(3, 0.975) / 1.97
    assert error_of_mean(draws[:1]) > 0


def test_some_leaves_are_sampled_and_the_others_stay():
    weights = {"a": {"b": jnp.ones(2), "c": jnp.zeros(3)}, "d": jnp.full(1, 2.0, jnp.bfloat16)}

    def of_all(w, row):
        return row @ jnp.concatenate([w["a"]["b"], w["a"]["c"], w["d"].astype(jnp.float32)])

    target = target_of(ewsg.Posterior(of_all, lambda w: 7.0), weights, ["a/c", "d"], 1.0)
    assert set(target.center) == {"a/c", "d"}
    assert target.center["d"].dtype == jnp.float32
    moved = {"a/c": jnp.arange(3.0), "d": jnp.full(1, 5.0)}
    assert target.posterior.log_likelihood(moved, jnp.arange(6.0)) == 1 + 3 + 8 + 25
    assert target.posterior.log_prior(moved) == 0
    every = target_of(POSTERIOR, {"w": jnp.ones(1)}, "w", 1.0)
    assert set(every.center) == {"w"}
