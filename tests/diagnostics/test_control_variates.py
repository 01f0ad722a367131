"""Zero-variance control variates: exact for normal targets, never worse with noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.diagnostics import control_variates

KEY = jax.random.key(0)
RNG = np.random.default_rng(7)
X = RNG.normal(size=(60, 3)) @ [[1.0, 0.8, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 4.0]]
ROWS = {"x": X, "y": X @ [0.3, -0.5, 0.1] + RNG.normal(size=60)}
LINEAR = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=5.0)
COVARIANCE = np.linalg.inv(X.T @ X + np.eye(3) / 25)
MEAN = COVARIANCE @ X.T @ ROWS["y"]
SD = np.sqrt(np.diag(COVARIANCE))
ROOT = np.linalg.cholesky(COVARIANCE)
DRAWS = MEAN + RNG.uniform(-1.5, 2.0, (4, 50, 3)) @ ROOT.T
"""Of no normal law, and elsewhere."""


def linear_and_square(w):
    return {"linear": 2 * w[0] - w[2], "square": w * w[0]}


@pytest.mark.parametrize("temperature", [1.0, 3.0])
@pytest.mark.parametrize("chains", [4, 1])
def test_a_normal_target_leaves_no_variance(chains, temperature):
    """Of linear functions with order 1, of quadratic ones with order 2; means are the target's."""
    draws = DRAWS[:chains]
    linear = 2 * MEAN[0] - MEAN[2]
    square = MEAN * MEAN[0] + temperature * COVARIANCE[0]
    with jax.enable_x64(True):
        first, second = (
            control_variates(
                KEY,
                draws,
                LINEAR,
                ROWS,
                function=linear_and_square,
                order=order,
                temperature=temperature,
            )
            for order in (1, 2)
        )
        assert first.mean["linear"] == pytest.approx(linear, rel=1e-9)
        assert first.error["linear"] < 1e-9 * first.plain_error["linear"]
        assert np.all(
            np.asarray(first.error["square"]) > 1e-3 * np.asarray(first.plain_error["square"])
        )
        assert second.mean["linear"] == pytest.approx(linear, rel=1e-9)
        np.testing.assert_allclose(second.mean["square"], square, rtol=1e-9)
        np.testing.assert_array_less(
            second.error["square"], 1e-9 * np.asarray(second.plain_error["square"])
        )
        np.testing.assert_allclose(second.taken["square"], 1.0, atol=1e-12)
        values = jax.vmap(linear_and_square)(draws.reshape(-1, 3))
        assert first.plain_mean["linear"] == pytest.approx(float(values["linear"].mean()), rel=1e-6)
        assert first.mean["linear"].dtype == np.float64
    assert (first.num_features, second.num_features) == (3, 9)


def test_one_number_in_float32():
    model, rows = ewsg.models.gaussian_location(), np.linspace(0, 2, 30, dtype=np.float32)[:, None]
    draws = RNG.normal(1.1, 0.3, (2, 60, 1)).astype(np.float32)
    found = control_variates(KEY, draws, model, rows, function=jnp.square, order=2)
    assert found.mean[0] == pytest.approx(1 + 1 / 30, rel=1e-5)
    assert found.error[0] < 1e-4 * found.plain_error[0]
    assert "control variates of order 2 (2) on 120 draws" in str(found)
    assert "100.00% of the variance" in str(found)


@pytest.mark.full
@pytest.mark.parametrize("order", [1, 2])
def test_noise_of_batches_takes_no_more_than_it_gives(order):
    """Over sets of draws: means are the target's, errors as stated, at most those without."""
    off, told, plain = [], [], []
    for key in jax.random.split(KEY, 40):
        draws = MEAN + RNG.normal(size=(2, 200, 3)) @ ROOT.T
        found = control_variates(key, draws, LINEAR, ROWS, order=order, batch_size=2)
        off.append((found.mean - MEAN) / SD)
        told.append(found.error / SD)
        plain.append((found.plain_mean - MEAN) / SD)
    squares, least = np.mean(np.square(off), axis=0), np.mean(np.square(plain), axis=0)
    np.testing.assert_array_less(np.abs(np.mean(off, axis=0)), 4.5 * np.sqrt(squares / 40))
    # Of 40 squares a mean's relative error is √(2/40).
    np.testing.assert_allclose(squares / np.mean(np.square(told), axis=0), 1, atol=0.7)
    assert np.mean(squares) < 0.9 * np.mean(least)
    assert found.data_passes == pytest.approx(2 * 400 * 1 / 60 + 1)


@pytest.mark.full
@pytest.mark.parametrize("shared", [False, True])
def test_errors_are_those_of_blocks(shared):
    """Of chains with a memory; of chains that move alike, as many as of one of them."""
    memory, rng = 0.6, np.random.default_rng(3)
    draws, here = [], rng.normal(size=(4, 1))
    for _ in range(800):
        noise = np.broadcast_to(rng.normal(), (4, 1)) if shared else rng.normal(size=(4, 1))
        here = memory * here + (1 - memory**2) ** 0.5 * noise
        draws.append(here)
    model, rows = ewsg.models.gaussian_location(), np.zeros((1, 1), np.float32)
    found = control_variates(
        KEY,
        np.stack(draws, 1),
        model,
        rows,
        function=lambda w: {"w": w, "wild": jnp.sin(40 * w)},
        shared_minibatch=shared,
    )
    right = np.sqrt((1 + memory) / (1 - memory) / (800 if shared else 3200))
    assert found.plain_error["w"][0] == pytest.approx(right, rel=0.35)
    # The gradient says nothing of the other function.
    assert abs(found.taken["wild"][0]) < 0.02
    assert found.error["wild"][0] == pytest.approx(float(found.plain_error["wild"][0]), rel=0.1)
