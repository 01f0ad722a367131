"""Posteriors of six rows: a position, and what NumPy says of both parts of ∇V anywhere."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from tests.oracles import enumeration

N = 6
RNG = np.random.default_rng(1)
X, Y = RNG.normal(size=(N, 3)), RNG.normal(size=N)
BINARY, CLASSES = np.array([0, 1, 1, 0, 1, 0]), np.array([2, 0, 1, 1, 3, 0])
W, MATRIX = RNG.normal(size=3), RNG.normal(size=(3, 4))


class Model(NamedTuple):
    """A posterior, a NumPy position, and what NumPy says of both parts of ∇V anywhere."""

    posterior: ewsg.Posterior
    position: Any
    data: Any
    per_datum: Callable
    prior: Callable


def dict_posterior():
    def log_likelihood(p, x):
        return (
            -0.5 * jnp.sum((x - p["mean"]) ** 2) * jnp.exp(-2 * p["log_scale"])
            - x.size * p["log_scale"]
        )

    return ewsg.Posterior(
        log_likelihood, lambda p: -0.5 * jnp.sum(p["mean"] ** 2) - 2.0 * p["log_scale"] ** 2
    )


def network_posterior():
    def log_likelihood(p, row):
        return -0.5 * jnp.square(jnp.tanh(row["x"] @ p["first"]) @ p["second"] - row["y"])

    return ewsg.Posterior(
        log_likelihood, lambda p: -0.5 * (jnp.sum(p["first"] ** 2) + jnp.sum(p["second"] ** 2))
    )


MODELS = {
    "gaussian_location": Model(
        ewsg.models.gaussian_location(noise_scale=0.8, prior_scale=0.7),
        W,
        X,
        lambda w: enumeration.gaussian_location(w, X, 0.8),
        lambda w: enumeration.normal_prior(w, 0.7),
    ),
    "linear_regression": Model(
        ewsg.models.linear_regression(noise_scale=0.8, prior_scale=0.7),
        W,
        {"x": X, "y": Y},
        lambda w: enumeration.linear_regression(w, X, Y, 0.8),
        lambda w: enumeration.normal_prior(w, 0.7),
    ),
    "logistic_regression": Model(
        ewsg.models.logistic_regression(prior_scale=0.7),
        W,
        {"x": X, "y": BINARY},
        lambda w: enumeration.logistic_regression(w, X, BINARY),
        lambda w: enumeration.normal_prior(w, 0.7),
    ),
    "softmax_regression": Model(
        ewsg.models.softmax_regression(prior_scale=0.7),
        MATRIX,
        {"x": X, "y": CLASSES},
        lambda w: enumeration.softmax_regression(w, X, CLASSES),
        lambda w: enumeration.normal_prior(w, 0.7),
    ),
    "custom": Model(
        dict_posterior(),
        {"log_scale": np.array(0.3), "mean": W},
        X,
        lambda p: enumeration.normal_with_unknown_scale(float(p["log_scale"]), p["mean"], X),
        lambda p: np.concatenate([[4 * p["log_scale"]], p["mean"]]),
    ),
    "network": Model(
        network_posterior(),
        {"first": MATRIX[:, :2], "second": MATRIX[0, 2:]},
        {"x": X, "y": Y},
        lambda p: enumeration.two_layer_network(p["first"], p["second"], X, Y),
        lambda p: np.concatenate([p["first"].ravel(), p["second"]]),
    ),
}
# The network is for SAGA's table in float32, the location for estimators without a memory.
NAMES = ("linear_regression", "logistic_regression", "softmax_regression", "custom")


def shifted(position, factor, shift):
    return jax.tree.map(lambda x: factor * x + shift, position)


def flat(tree):
    return ravel_pytree(tree)[0]


def like_position(vector, model):
    return ravel_pytree(as_jax(model.position))[1](jnp.asarray(vector))


def as_jax(tree):
    return jax.tree.map(jnp.asarray, tree)


def no_weight(estimate, frozen_noise="momentum"):
    raise AssertionError("an unweighted estimator asked for a weight")


def close(actual, desired, digits=1e-13):
    np.testing.assert_allclose(actual, desired, rtol=0, atol=digits * (1 + np.abs(desired).max()))
