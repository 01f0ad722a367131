"""Networks of MNIST: against NumPy and XLA's convolutions, experiments on made-up digits."""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.papers import mnist
from benchmarks.papers.figures import png
from benchmarks.papers.networks import (
    Convolutional,
    LogProbabilities,
    Outputs,
    Perceptron,
    start_of,
)
from benchmarks.papers.running import settings_of, text_of

RNG = np.random.default_rng(0)


def test_a_perceptron_is_products_and_relu():
    network = Perceptron((3, 4, 2))
    weights = start_of(network)(jax.random.key(0))
    x = RNG.normal(size=(5, 3))
    first, last = weights["layers"][0], weights["layers"][2]
    hidden = np.maximum(x @ np.asarray(first["kernel"]) + np.asarray(first["bias"]), 0)
    expected = hidden @ np.asarray(last["kernel"]) + np.asarray(last["bias"])
    rows = {"x": jnp.asarray(x, jnp.float32)}
    np.testing.assert_allclose(Outputs(network)(weights, rows), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        np.exp(LogProbabilities(network)(weights, rows)).sum(1), 1, rtol=1e-5
    )
    other = start_of(network)(jax.random.key(1))
    assert not np.allclose(other["layers"][0]["kernel"], first["kernel"])


def test_convolutions_are_those_of_xla():
    network = Convolutional(8, (2, 3), (4,))
    weights = start_of(network)(jax.random.key(0))
    layers = weights["layers"]
    places = [place for place, layer in layers.items() if "kernel" in layer]
    image = jnp.asarray(RNG.normal(size=(1, 8, 8, 1)), jnp.float32)
    found = image
    for place in places:
        kernel = layers[place]["kernel"].reshape(5, 5, found.shape[-1], -1)
        found = jax.lax.conv_general_dilated(
            found, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        found = jax.nn.relu(found + layers[place]["bias"])
        found = jax.lax.reduce_window(
            found, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
    (dense,) = (layer["layers"][0] for place, layer in layers.items() if "layers" in layer)
    expected = found.ravel() @ dense["kernel"] + dense["bias"]
    np.testing.assert_allclose(
        Outputs(network)(weights, {"x": image.reshape(1, 64)})[0], expected, rtol=1e-4
    )


@pytest.fixture
def made_up(monkeypatch):
    """Digits that are bright in a place of their own."""
    y = np.arange(70_000) % 10
    x = np.zeros((70_000, 784), np.uint8)
    for digit in range(10):
        x[digit::10, 56 * digit : 56 * digit + 56] = 255
    found = types.SimpleNamespace(x=x, y=y)
    monkeypatch.setattr(mnist.data_sets, "load", lambda name: found)


def test_rows_are_of_their_sets(made_up):
    network = mnist.network_of((5,), (), 2)
    assert network == Perceptron((196, 5, 10))
    problem, validation, training = mnist.problems(network, (60, 20, 30), 2, 0, clusters=True)
    assert [len(rows["y"]) for rows in (problem.train, validation, problem.test)] == [60, 20, 30]
    assert training is problem.train
    strata = {(int(c), int(y)) for c, y in zip(training["stratum"], training["y"], strict=True)}
    assert len({c for c, _ in strata}) == len(strata), "each cluster is one digit"
    assert mnist.network_of((200, 200), (32, 64), 1) == Convolutional(28, (32, 64), (200, 200, 10))


def test_steps_in_the_unit_of_the_mean_move_as_the_mean_does():
    """Two recursions by hand: of the mean over n at temperature 1/n, and of the sum."""
    n, h, friction, temperature = 400, 0.05, 0.3, 1 / 400
    rng = np.random.default_rng(1)
    rows, noise = rng.normal(size=n), rng.normal(size=(30, 2))
    told = mnist.in_unit(h, friction, n)
    ends = []
    for step, gamma, weight, heat, scale in (
        (h, friction, 1 / n, temperature, 1.0),
        (told["step_size"], told["friction"], 1.0, 1.0, n**0.5),
    ):
        position, momentum = 0.3, 0.1 * scale
        for xi in noise[:, 0]:
            gradient = weight * np.sum(position - rows)
            momentum += (
                -step * gamma * momentum - step * gradient + np.sqrt(2 * gamma * heat * step) * xi
            )
            position += step * momentum
        ends.append(position)
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


def test_steps_keep_their_product_with_the_mean_gradient():
    named = small("mnist-mlp").named
    options = lambda label, n, **more: mnist.options_of(named[label][0], n, **more)
    # Steps that are read as of gradients of the sum of 60,000 rows, then of the mean.
    sum_of = options("SGHMC", 15_000, of=mnist.OF_SUM)
    assert (sum_of["step_size"], sum_of["friction"]) == pytest.approx((4e-3, 0.05))
    mean_of = options("SGHMC", 15_000, factor=3.0)
    assert (mean_of["step_size"], mean_of["friction"]) == pytest.approx(
        (6e-3 / 15_000**0.5, 0.1 * 15_000**0.5)
    )
    assert options("SGHMC", mnist.NUM_TRAINING, of=mnist.OF_SUM)["step_size"] == 2e-3
    assert options("SGLD", 15_000)["step_size"] == pytest.approx(4e-7)
    assert options("pSGLD", 15_000)["step_size"] == pytest.approx(1e-4 / 15_000)
    assert options("CP-SGHMC", 15_000)["labels"] == "stratum"


def small(name):
    """The quick settings, made small."""
    settings = settings_of(mnist.Settings, text_of(name), "quick")
    return dataclasses.replace(
        settings,
        num_rows=40,
        num_validation=20,
        num_test=20,
        hidden=(3,),
        batch_size=10,
        data_passes=4,
        sum_passes=2,
        num_repeats=1,
        ensemble=1,
        shrink=2,
        channels=(),
        factors=(1.0, 1e9),
        checked=(),
    )


def test_a_small_experiment(made_up):
    settings, done = small("mnist-mlp"), {}
    compute = mnist.parts(settings)
    assert list(compute) == ["EWSG", "SGHMC", "CP-SGHMC", "SGLD", "pSGLD"]
    done["CP-SGHMC"] = compute["CP-SGHMC"](done) | {"seconds": 0.0}
    assert done["CP-SGHMC"]["factor"] == 1.0
    assert done["CP-SGHMC"]["paper"]["per_step"] == 10
    assert 0 <= done["CP-SGHMC"]["tuned"]["training"]["last"][0] <= 1
    for other in ("EWSG", "SGHMC", "SGLD", "pSGLD"):
        done[other] = done["CP-SGHMC"]
    claims = mnist.claims(done)
    assert [claim.by_the_paper for claim in claims] == [True] * 8 + [False] * 9
    assert "read as of gradients of the sum" in claims[-1].words
    assert "of 5 runs" in claims[-1].shown
    assert png(mnist.draw(done))[:4] == b"\x89PNG"
