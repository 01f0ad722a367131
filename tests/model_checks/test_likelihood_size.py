"""Notes of a model: a likelihood of an odd size, and coordinates that are nearly one."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.model_checks.correlation import high_correlations
from ewsg_jax.model_checks.likelihood_size import odd_size
from ewsg_jax.vectors.layout import Layout

pytestmark = pytest.mark.full

RNG = np.random.default_rng(0)
N = 2_000
X = RNG.normal(size=(N, 3)).astype(np.float32)
LABELS = {"x": X, "y": (RNG.random(N) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.2]))).astype(int)}
COUNTS = {"x": X, "y": RNG.poisson(np.exp(X @ [0.5, -0.2, 0.1]) * RNG.gamma(0.5, 2.0, N))}


def logistic(w, row):
    logit = row["x"] @ w
    return row["y"] * logit - jnp.logaddexp(0.0, logit)


def poisson(w, row):
    return row["y"] * (row["x"] @ w) - jnp.exp(row["x"] @ w)


def wide(w):
    return -0.5 * jnp.sum(w**2) / 100


def note_of(log_likelihood, data=LABELS, log_prior=wide):
    """By exact draws of the normal approximation, which a check corrects."""
    posterior = ewsg.Posterior(log_likelihood, log_prior)
    mode = ewsg.find_mode(jax.random.key(0), posterior, jnp.zeros(3), data)
    draws = jax.vmap(mode.start)(jax.random.split(jax.random.key(1), 2_000)).reshape(4, 500, 3)
    return ewsg.check(jax.random.key(2), draws, posterior, data).note


@pytest.mark.parametrize(
    ("log_likelihood", "said"),
    [
        (lambda w, row: logistic(w, row) / N, r"mean over rows \(1/n is 0.0005\)"),
        (lambda w, row: N * logistic(w, row), r"multiplied \(n is 2,000\)"),
    ],
    ids=["a mean", "a multiple"],
)
def test_a_likelihood_of_an_odd_size_is_noted(log_likelihood, said):
    note = note_of(log_likelihood)
    assert "gradients of rows vary by" in note
    assert re.search(said, note), note


@pytest.mark.usual_parameters("counts*")
@pytest.mark.parametrize(
    ("log_likelihood", "data", "log_prior"),
    [
        (logistic, LABELS, wide),
        (logistic, LABELS, lambda w: -0.5 * 1e6 * jnp.sum(w**2)),
        (poisson, COUNTS, wide),
    ],
    ids=["right", "a prior that says all", "counts with more noise"],
)
def test_others_are_not(log_likelihood, data, log_prior):
    assert "gradients of rows" not in note_of(log_likelihood, data, log_prior)


def test_coordinates_that_the_data_do_not_know_apart_are_noted():
    twice = {"x": np.c_[X[:, :2], X[:, 1] + 0.01 * X[:, 2]], "y": LABELS["y"]}
    note = note_of(logistic, twice)
    assert "correlated above 0.99: position[1] and position[2] (-1.000)" in note
    assert "position[0]" not in note


def test_no_more_than_five_pairs_are_named():
    names = tuple("abcde")
    assert high_correlations(np.eye(5), names) == []
    alike = 0.999 + 0.001 * np.eye(5)
    (found,) = high_correlations(alike, names)
    said = str(found)
    assert said.startswith("correlated above 0.99: a and b (+0.999), a and c (+0.999), a and d (")
    assert "b and c (+0.999) and 5 more; " in said


def test_some_rows_stand_for_all_of_many():
    """Of 20,000 rows 1,024 are taken: a right model is as curved as all of them vary."""
    x = np.random.default_rng(5).normal(size=(20_000, 2)).astype(np.float32)
    y = (x @ [0.5, -1.0] + np.random.default_rng(6).normal(size=len(x))).astype(np.float32)
    model = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=2.0)
    covariance = np.linalg.inv(x.T @ x + np.eye(2) / 4)
    center, layout = covariance @ (x.T @ y), Layout.of(jnp.zeros(2))
    assert odd_size(model, layout, center, covariance, {"x": x, "y": y}) == []


@pytest.mark.parametrize("places", [[7_000], [0], np.arange(20) * 2_999 + 1], ids=str)
def test_a_model_of_rare_positives_is_not_noted(places):
    """Of 60,000 rows some are positive: in the subset there is none, or one that stands for 59."""
    n, y = 60_000, np.zeros(60_000, np.float32)
    y[places] = 1
    rate = y.mean()
    model = ewsg.Posterior(
        lambda w, row: row["y"] * w[0] - jnp.logaddexp(0.0, w[0]), lambda w: -0.5 * w[0] ** 2 / 1e4
    )
    center = np.log(rate / (1 - rate))[None]
    covariance = 1 / (n * rate * (1 - rate)) * np.eye(1)
    judge = lambda model: odd_size(model, Layout.of(jnp.zeros(1)), center, covariance, {"y": y})
    assert judge(model) == []
    mean = ewsg.Posterior(lambda w, row: model.log_likelihood(w, row) / n, model.log_prior)
    covariance *= n
    mean = dataclasses.replace(mean, log_prior=lambda w: -0.5 * w[0] ** 2 / 1e9)
    (note,) = judge(mean)
    assert "a mean over rows (1/n is 2e-05)" in note.cure
