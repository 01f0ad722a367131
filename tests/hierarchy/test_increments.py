"""Effects that depend on each other: their increments, against matrices in closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

from ewsg_jax.hierarchy.centring import along_information, not_centred
from ewsg_jax.hierarchy.conditionals import VectorPrior
from ewsg_jax.hierarchy.increments import Increments, constant_regressions
from ewsg_jax.vectors.layout import Layout

SIZE = 7
STEPS = np.diff(np.eye(SIZE), axis=0)
FIRST = np.diag(np.eye(SIZE)[0])
SCALES = (0.5, 1.0, 3.0)


def found(*precisions):
    return constant_regressions(list(precisions), 1e-3)


def test_increments_of_a_walk_are_its_steps():
    effects, coefficients = found(*(STEPS.T @ STEPS / s**2 + FIRST for s in SCALES))
    assert sorted(effects) == list(range(1, SIZE))  # the first value has a width of its own
    increments = Increments(tuple(effects), coefficients)
    walk = np.random.default_rng(0).normal(size=(3, SIZE))
    expected = np.append(walk[:, :1], np.diff(walk), axis=1)
    np.testing.assert_allclose(increments.of_position(jnp.asarray(walk)), expected, atol=1e-6)


@pytest.mark.parametrize("kind", ["second differences", "a dense matrix"])
def test_increments_are_independent_whatever_the_scale(kind):
    rng = np.random.default_rng(1)
    root = (
        np.diff(np.eye(SIZE), 2, axis=0)
        if kind[0] == "s"
        else np.eye(SIZE) + 0.3 * rng.normal(size=(SIZE, SIZE))
    )
    own = np.diag(np.eye(SIZE)[0] + np.eye(SIZE)[1]) if kind[0] == "s" else np.zeros(SIZE)
    precisions = [root.T @ root / s**2 + own for s in SCALES]
    effects, coefficients = found(*precisions)
    assert len(effects) == (SIZE - 2 if kind[0] == "s" else SIZE)
    increments = Increments(tuple(effects), coefficients)
    for precision, scale in zip(precisions, SCALES, strict=True):
        inner = increments.back.T @ precision @ increments.back * scale**2
        of_effects = inner[np.ix_(effects, effects)]
        np.testing.assert_allclose(of_effects, np.diag(np.diag(of_effects)), atol=1e-6)
        np.testing.assert_allclose(np.diag(of_effects), np.diag(inner)[effects], rtol=1e-9)


def test_coefficients_that_change_are_none():
    """An autoregression whose coefficient is a parameter."""
    roots = [np.eye(SIZE) - phi * np.eye(SIZE, k=-1) for phi in (0.2, 0.5, 0.9)]
    # The last value but one given the last is no regression on what comes before.
    effects, _ = found(*(root.T @ root / s**2 for root, s in zip(roots, SCALES, strict=True)))
    assert len(effects) < 3


def test_fixed_widths_are_none():
    assert found(*[STEPS.T @ STEPS + FIRST] * 3)[0] == []


def test_gradients_are_pulled_back_by_the_map():
    effects, coefficients = found(*(STEPS.T @ STEPS / s**2 + FIRST for s in SCALES))
    increments = Increments(tuple(effects), coefficients)
    value = lambda flat: jnp.sum(jnp.sin(flat) * jnp.arange(1.0, SIZE + 1))
    at = jnp.asarray(np.random.default_rng(0).normal(size=SIZE), jnp.float32)
    gradient = np.asarray(jax.grad(value)(increments.position_of(at)), np.float64)
    expected = jax.grad(lambda flat: value(increments.position_of(flat)))(at)
    np.testing.assert_allclose(increments.pulled_back(gradient), expected, rtol=1e-5, atol=1e-5)


def walk(p):
    steps = norm.logpdf(jnp.diff(p["h"]), p["m"], jnp.exp(p["t"])).sum()
    return steps + norm.logpdf(p["h"][0], 0, 2) - p["m"] ** 2 - p["t"] ** 2


def of_values(to):
    """What a unit of information on each value of a walk says of its increments."""
    places = np.searchsorted(to.increments.among, to.effects)
    of_path = to.increments.back[np.searchsorted(to.increments.among, np.arange(SIZE))][:, places]
    return of_path.T @ of_path


@pytest.mark.full
@pytest.mark.parametrize("turned", [False, True])
def test_a_walk_with_drift_is_standard_normal_in_its_coordinates(turned):
    layout = Layout.of({"h": jnp.zeros(SIZE), "m": jnp.zeros(()), "t": jnp.zeros(())})
    rng = np.random.default_rng(0)
    points = 0.3 * rng.normal(size=(3, layout.size))
    to = not_centred(VectorPrior(walk, layout), points, np.zeros(9), np.ones(9))
    assert to is not None
    assert sorted(to.effects) == list(range(1, SIZE))
    assert to.linear is not None
    if turned:
        # The rows of a walk tell of its values, not of its steps.
        to = along_information(to, lambda units: of_values(to) * units * units[:, None])
        information = of_values(to)
        np.testing.assert_allclose(information, np.diag(np.diag(information)), atol=1e-4)
    u = jnp.asarray(rng.normal(size=layout.size), jnp.float32)
    theta, log_det = to.position_of(u)
    np.testing.assert_allclose(to.coordinates_of(theta), u, atol=1e-5)
    jacobian = jax.jacfwd(lambda u: to.position_of(u)[0])(u)
    np.testing.assert_allclose(log_det, np.linalg.slogdet(jacobian)[1], rtol=1e-5)

    def prior(u):
        theta, log_det = to.position_of(u)
        return walk(layout.tree(theta)) + log_det

    hessian = np.asarray(jax.hessian(prior)(u))[to.effects]
    expected = -np.eye(layout.size)[to.effects]
    np.testing.assert_allclose(hessian, expected, atol=1e-4)
    assert to.scales(np.asarray(to.not_mixed(theta))).tolist() == [8]
