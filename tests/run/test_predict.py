"""Averages over draws against NumPy loops in float64."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ewsg_jax.draws import predict as module
from ewsg_jax.draws.predict import predict

CHAINS, DRAWS, ROWS = 3, 7, 5
RNG = np.random.default_rng(0)
# As a run returns them: chain and draw exchanged in memory.
POSITIONS = {
    "w": np.swapaxes(RNG.normal(size=(DRAWS, CHAINS, 4)), 0, 1).astype(np.float32),
    "scale": np.swapaxes(RNG.random((DRAWS, CHAINS)) + 0.5, 0, 1).astype(np.float32),
}
INPUTS = {"x": RNG.normal(size=(ROWS, 4)).astype(np.float32), "power": 2.0}


class Outputs(NamedTuple):
    line: jax.Array
    scalar: jax.Array


def function(position, inputs):
    return Outputs(
        position["scale"] * (inputs["x"] @ position["w"]) ** inputs["power"],
        jnp.sin(position["scale"]),
    )


def by_loop():
    """The outputs at every draw, in float64: (chain, draw, row) and (chain, draw)."""
    line, scalar = np.empty((CHAINS, DRAWS, ROWS)), np.empty((CHAINS, DRAWS))
    for c in range(CHAINS):
        for d in range(DRAWS):
            w, scale = POSITIONS["w"][c, d].astype(float), float(POSITIONS["scale"][c, d])
            line[c, d] = scale * (INPUTS["x"].astype(float) @ w) ** 2
            scalar[c, d] = np.sin(scale)
    return line, scalar


@pytest.mark.parametrize("chunk_size", [None, 1, 4, 20, 21, 1000])
def test_mean_log_mean_and_all(chunk_size):
    line, scalar = by_loop()
    mean = predict(POSITIONS, function, INPUTS, chunk_size=chunk_size)
    assert isinstance(mean, Outputs)
    np.testing.assert_allclose(mean.line, line.mean((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(mean.scalar, scalar.mean(), rtol=1e-6)
    log = predict(POSITIONS, function, INPUTS, log=True, chunk_size=chunk_size)
    np.testing.assert_allclose(log.line, np.log(np.exp(line).mean((0, 1))), rtol=1e-5)
    np.testing.assert_allclose(log.scalar, np.log(np.exp(scalar).mean()), rtol=1e-5)
    every = predict(POSITIONS, function, INPUTS, keep_draws=True, chunk_size=chunk_size)
    np.testing.assert_allclose(every.line, line, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(every.scalar, scalar, rtol=1e-6)
    assert {type(x) for x in (*mean, *log, *every)} == {np.ndarray}
    assert {x.dtype for x in (*mean, *log, *every)} == {np.dtype(np.float32)}


def test_two_draws_by_hand():
    """Probabilities 1/4 and 3/4, and a logarithm whose exponential is beyond float32."""
    draws = np.log(np.float32([[[0.25, 0.5], [0.75, 1e-30]]]))
    outputs = predict(draws, lambda log_p, shift: log_p + shift, np.float32([0, -100]), log=True)
    np.testing.assert_allclose(outputs, [np.log(0.5), np.log(0.25) - 100], rtol=1e-6)
    np.testing.assert_allclose(
        predict(draws, lambda log_p, _: jnp.exp(log_p), None), [0.5, 0.25], rtol=1e-6
    )
    huge = predict(np.float32([[800.0, 801.0]]), lambda x, _: x, None, log=True)
    np.testing.assert_allclose(huge, 800 + np.log((1 + np.e) / 2), rtol=1e-7)


@pytest.mark.full
def test_many_draws_lose_no_digits():
    draws = np.full((2, 300_000), 0.1, np.float32)
    assert float(predict(draws, lambda x, _: x, None)) == pytest.approx(
        float(np.float32(0.1)), rel=1e-6
    )
    half = np.full((2, 3_000), 100.0, np.float16)  # their sum is beyond float16
    assert predict(half, lambda x, _: x, None) == 100


def test_draws_that_are_not_finite_show(x64):
    draws = np.array([[0.0, np.nan, -np.inf]])
    stacked = lambda x, which: jnp.stack(
        [jnp.where(which == 0, x, 0), jnp.where(jnp.isnan(x), -jnp.inf, x)]
    )
    for size in (1, 2, 3):
        mean = predict(draws, stacked, 0, chunk_size=size)
        np.testing.assert_array_equal(mean, [np.nan, -np.inf])
        log = predict(draws, stacked, 0, log=True, chunk_size=size)
        np.testing.assert_allclose(log, [np.nan, -np.log(3)])
    assert predict(draws[:, 2:], lambda x, _: x, None, log=True) == -np.inf


def test_dtypes(x64):
    half = predict(POSITIONS["scale"].astype(np.float16), lambda x, _: x, None)
    assert half.dtype == np.float16
    double = predict(POSITIONS["scale"].astype(float), lambda x, _: x, None)
    assert double.dtype == np.float64
    np.testing.assert_allclose(double, POSITIONS["scale"].astype(float).mean(), rtol=1e-14)


def test_integers_are_returned_but_not_averaged():
    labels = lambda position, x: {"label": jnp.argmax(x @ position), "yes": x @ position > 0}
    for log in (False, True):
        with pytest.raises(
            TypeError,
            match=r"function\(…\)\['label'\] is an array of shape \(\) and dtype int32: conv",
        ):
            predict(POSITIONS["w"], labels, INPUTS["x"], log=log)
    every = predict(POSITIONS["w"], labels, INPUTS["x"], keep_draws=True)
    assert (every["label"].dtype, every["yes"].dtype) == (np.int32, np.bool_)
    np.testing.assert_array_equal(every["yes"], POSITIONS["w"] @ INPUTS["x"].T > 0)


@pytest.mark.full
def test_inputs_are_arguments_and_nothing_is_compiled_twice():
    traced = []

    def count(position, inputs):
        traced.append(isinstance(inputs, jax.core.Tracer))
        return inputs * position

    draws = np.ones((2, 5), np.float32)
    predict(draws, count, np.ones(3, np.float32), chunk_size=2)
    first = len(traced)
    predict(draws, count, np.zeros(3, np.float32), chunk_size=2)
    assert all(traced)
    assert first == 4  # for the shapes, twice for whether they agree, and for the program
    assert len(traced) == first


@pytest.mark.full
def test_keys_and_unhashable_functions():
    """Randomness goes in as an input; an object that holds arrays serves as a function."""

    class Scaled:
        __hash__ = None

        def __call__(self, position, key):
            return position + jax.random.normal(key, position.shape)

    key = jax.random.key(3)
    expected = POSITIONS["w"].mean((0, 1)) + np.asarray(jax.random.normal(key, (4,)))
    np.testing.assert_allclose(
        predict(POSITIONS["w"], Scaled(), key), expected, rtol=1e-5, atol=1e-6
    )
    partial = functools.partial(lambda a, position, inputs: a * position, 2.0)
    np.testing.assert_allclose(
        predict(POSITIONS["w"], partial, None), 2 * POSITIONS["w"].mean((0, 1)), rtol=1e-5
    )


@pytest.mark.full
def test_memory_bounds_the_chunk():
    """Positions, outputs and the largest intermediate count, also inside a scan."""
    draws = np.zeros((2, 1000, 10), np.float32)

    def wide(position, inputs):
        grown = jax.lax.scan(
            lambda c, _: (c + jnp.sum(jnp.outer(position, inputs)), None), 0.0, None, length=2
        )[0]
        return jnp.tile(grown, 5)

    program = module.prepare(draws, wide, jnp.ones(1000), "mean", None)
    most = module.limits.BYTES_AT_ONCE // (4 * (10 + 5 + 10 * 1000))
    assert most / 2 < program.size <= most
    assert module.prepare(draws, lambda w, _: w, None, "mean", None).size == 2000
    assert (
        module.prepare(draws, lambda w, _: w, None, "mean", 1500).size == 1000
    )  # two of one length


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (np.zeros((3, 0, 4)), "at least one draw"),
        ({"a": np.zeros((3, 7)), "b": np.zeros((2, 7))}, "the same for all"),
        (np.zeros(3), "the same for all"),
        ({}, "without leaves"),
    ],
    ids=["none", "of two runs", "one axis", "nothing"],
)
def test_draws_that_are_none_are_refused(draws, message):
    match = r"draws must be a pytree of arrays with leading axes .*" + message
    with pytest.raises(ValueError, match=match):
        predict(draws, lambda position, inputs: jnp.ones(2), None)
