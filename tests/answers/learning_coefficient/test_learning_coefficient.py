"""Local learning coefficients against closed forms and quadrature, and what is said of them."""

import dataclasses
import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks.learning_coefficient import (
    network_data,
    network_log_likelihood,
    network_value,
    product_data,
    product_log_likelihood,
    product_value,
)
from ewsg_jax.answers.learning_coefficient import chains

RNG = np.random.default_rng(0)
N, D = 300, 2
X, Y = RNG.normal(size=(N, D)).astype(np.float32), RNG.normal(size=N).astype(np.float32)
DATA = {"x": X, "y": Y}
BEST = np.linalg.lstsq(X, Y, rcond=None)[0]
KEY = jax.random.key(0)


def log_likelihood(w, row):
    return -0.5 * (row["y"] - row["x"] @ w) ** 2


def of(
    weights: Any = BEST,
    key: Any = KEY,
    likelihood: Any = log_likelihood,
    data: Any = DATA,
    **options: Any,
) -> ewsg.LearningCoefficient:
    """One program serves all that differ in numbers alone."""
    options = {"progress": False} | options
    return ewsg.learning_coefficient(key, likelihood, weights, data, **options)


def exact(weights=BEST, localization=1.0, temperature=None):
    """nβ E[L − L*] of a normal distribution, in float64."""
    x, y, center = (np.asarray(a, float) for a in (X, Y, weights))
    temperature = np.log(N) if temperature is None else temperature
    hessian = x.T @ x / temperature
    covariance = np.linalg.inv(hessian + localization * np.eye(D))
    slope = x.T @ (x @ center - y) / temperature
    shift = -covariance @ slope
    return slope @ shift + 0.5 * (shift @ hessian @ shift + np.trace(hessian @ covariance))


def is_right(result, right, errors=4.5):
    total = np.hypot(result.error, result.bias)
    return abs(result.value - right) < errors * total and total < 0.1 * max(abs(right), 1)


def test_a_regular_model_has_its_closed_form():
    result = of()
    assert is_right(result, exact())
    assert result.ended == ""
    assert not result.findings
    assert result.rhat < 1.05
    assert result.error <= 0.03 * result.value
    assert abs(result.bias) < 5 * result.bias_error
    assert result.bias_unknown == ""
    assert result.draws.shape[0] == result.num_chains == 8
    assert np.isclose(result.draws.mean(), result.value)
    assert result.batch_size == result.num_data == N
    assert result.num_parameters == D
    at_best = 0.5 * np.mean((Y - X @ BEST) ** 2)
    assert np.isclose(result.losses_at_weights["data"], at_best, rtol=1e-5)
    excess = (result.losses["data"] - at_best) * N / np.log(N)
    np.testing.assert_allclose(excess, result.draws, rtol=1e-2, atol=1e-2)
    assert result.corrected == result.value - result.bias
    assert "Learning coefficient" in repr(result)
    assert "bias" in repr(result)


@pytest.mark.full
def test_localization_temperature_and_one_chain():
    assert is_right(of(localization=20.0), exact(localization=20.0))
    assert is_right(of(temperature=1.0), exact(temperature=1.0))
    assert is_right(of(num_chains=1, key=jax.random.key(1)), exact())


def test_the_same_key_gives_the_same_numbers():
    one, other = of(num_steps=1_000), of(num_steps=1_000)
    assert one.value == other.value
    assert one.bias == other.bias


def test_weights_of_half_precision_are_sampled_in_float32():
    rounded = jnp.asarray(BEST, jnp.bfloat16)
    assert is_right(of(rounded), exact(np.asarray(rounded, np.float32)))


def test_losses_on_other_data_are_followed():
    other = {"x": X[:50] + 1.0, "y": Y[:50]}
    result = of(observables={"other": other}, num_steps=1_000)
    assert result.losses["other"].shape == result.draws.shape
    rise, error = result.observables["other"]
    x, y = other["x"].astype(float), other["y"].astype(float)
    covariance = np.linalg.inv(X.T.astype(float) @ X / np.log(N) + np.eye(D))
    # The gradient at w* has no part in the mean over a distribution around w*.
    assert abs(rise - np.trace(x.T @ x / 50 @ covariance) / 2) < 5 * error
    assert np.isclose(result.losses_at_weights["other"], 0.5 * np.mean((y - x @ BEST) ** 2))


def test_weights_that_are_no_minimum_are_told():
    result = of(BEST + np.float32(1.0), num_steps=1_000)
    assert is_right(result, exact(BEST + np.float32(1.0)))
    assert [one.kind for one in result.findings] == ["mode", "mode"]
    assert "negative" in repr(result)
    assert "train longer" in repr(result)


def test_a_mean_loss_and_weights_that_no_row_reaches_are_told():
    weights = {"w": BEST, "other": {"a": np.ones(2, np.float32), "b": np.ones(1, np.float32)}}
    result = of(weights, likelihood=lambda w, row: log_likelihood(w["w"], row) / N, num_steps=1_000)
    assert [one.kind for one in result.findings] == ["unread", "size"]
    assert "does not read weights['other']['a'], weights['other']['b'], which" in repr(result)
    assert "divided by n" in repr(result)


@pytest.mark.filterwarnings("error")
def test_weights_on_a_coarse_grid_of_float32_are_told_once():
    far = np.array([1e6, 2e6]) + BEST
    y = X.astype(float) @ far + (Y - X @ BEST)
    data = {"x": X, "y": y.astype(np.float32)}
    result = of(far.astype(np.float32), data=data, num_steps=1_000)
    assert [one.kind for one in result.findings].count("spacing") == 1
    assert "apart in float32" in repr(result) or "numbers of float32 are" in repr(result)


def test_a_budget_ends_a_run_and_keeps_what_there_is():
    result = of(tolerance=1e-6, num_steps=1_000)
    assert result.num_steps <= 1_000
    assert "all 1,000 steps" in result.ended
    assert np.isfinite(result.value)
    assert not result.interrupted


def test_the_bias_of_chains_that_do_not_agree_is_not_known():
    result = of(step_size=1e-4, num_steps=1_000)
    assert result.rhat > 1.1
    assert "chains do not agree" in result.bias_unknown
    assert "bias not known" in repr(result)
    assert np.isnan([result.bias, result.bias_error, result.corrected]).all()


def test_an_interrupt_keeps_what_there_is(monkeypatch):
    """The tenth part of the run is interrupted, as `sample` tells it."""
    calls, sample = [], chains.sample

    def interrupted(*arguments, **options):
        calls.append(options)
        samples = sample(*arguments, **options)
        return dataclasses.replace(samples, interrupted=len(calls) == 10)

    monkeypatch.setattr(chains, "sample", interrupted)
    result = of(tolerance=1e-6, num_steps=10**8)
    assert len(calls) == 10
    assert result.interrupted
    assert "interrupt" in result.ended
    assert is_right(result, exact())


@pytest.mark.full
def test_a_step_that_diverges_is_refused_and_one_that_is_found_is_not():
    with pytest.raises(ValueError, match=r"step_size must be so small .* diverged"):
        of(step_size=1.0)


@pytest.mark.full
def test_other_forms_of_the_likelihood_give_the_same_numbers():
    def of_rows(w, rows):
        return -0.5 * (rows["y"] - rows["x"] @ w) ** 2

    plain = of(num_steps=1_000)
    posterior = ewsg.Posterior(log_likelihood, lambda w: -50.0 * jnp.sum(w**2))
    for other in (
        of(likelihood=None, batched_log_likelihood=of_rows, num_steps=1_000),
        of(likelihood=posterior, num_steps=1_000),
    ):
        assert np.isclose(other.value, plain.value, rtol=1e-3)


@pytest.mark.full
def test_a_restricted_coefficient_is_that_of_the_leaves():
    def of_leaves(w, row):
        return log_likelihood(jnp.stack([w["a"], w["b"]]), row)

    weights = {"a": BEST[0], "b": BEST[1]}
    result = of(weights, likelihood=of_leaves, sampled="a")
    h = np.sum(X[:, 0].astype(float) ** 2) / np.log(N)
    assert result.num_parameters == 1
    assert is_right(result, h / (h + 1) / 2)


@pytest.mark.full
def test_the_bias_of_minibatches_is_shown():
    result = of(batch_size=20, step_size=0.04, tolerance=0.02)
    assert result.value - exact() > 4 * result.error
    assert result.bias > 4 * result.bias_error
    assert abs(result.value - exact()) < 2 * np.hypot(result.error, result.bias)
    assert any("bias is" in one.text for one in result.findings)


@pytest.mark.full
@pytest.mark.parametrize("localization", [1.0, 10.0])
def test_a_product_is_right_by_quadrature(localization):
    data, weights = product_data(3, 500)
    right = product_value(data, weights, localization)
    assert np.isclose(right, product_value(data, weights, localization, 2_001), rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = of(weights, KEY, product_log_likelihood, data, localization=localization)
    assert is_right(result, right)


@pytest.mark.sweep
def test_twenty_runs_are_covered_by_two_errors():
    covered = 0
    for seed in range(10):
        data, weights = product_data(50 + seed, 500)
        result = of(weights, jax.random.key(seed), product_log_likelihood, data)
        off = result.value - product_value(data, weights, 1.0)
        covered += abs(off) <= 2 * np.hypot(result.error, result.bias)
    for seed in range(10):
        data, weights = network_data(50 + seed)
        result = of(weights, jax.random.key(seed), network_log_likelihood, data)
        right, error = network_value(data, weights, 0.01, 1_500)
        total = np.hypot(np.hypot(result.error, result.bias), error)
        covered += abs(result.value - right) <= 2 * total
    assert covered >= 17  # of 20 with a probability of 95 % each: 98 %


@pytest.mark.full
def test_a_picture_shows_the_chains(tmp_path):
    path = tmp_path / "chains.png"
    figure = of(num_steps=1_000).plot(path)
    assert path.stat().st_size > 10_000
    assert len(figure.axes) == 2
