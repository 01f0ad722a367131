"""A likelihood that is a mean over rows, or a multiple, is noted; a right one is not."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

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
    mode = ewsg.find_mode(jax.random.key(0), posterior, jnp.zeros(3), data, progress=False)
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
