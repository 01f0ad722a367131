"""Randomness that a compiled program would draw once: of NumPy, of Python, of a clock, of a key
that a function makes or holds.

The right values come from closed forms.
"""

import random
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

KEY, HOST = jax.random.key(0), np.random.default_rng(1)
HELD = jax.random.key(3)
ROWS = np.zeros(4, np.float32)
MODEL = ewsg.Posterior(lambda p, y: -0.5 * (y - p) ** 2, lambda p: -0.5 * p**2)
KERNEL = ewsg.ld(MODEL, 0.01)
POINT = jnp.float32(0)
legacy = np.random.normal
jitted = jax.jit(lambda x: x + legacy())
counter = iter(range(10**6))

CHANGES = {
    "NumPy's generator": lambda x: x + HOST.normal(),
    "np.random": lambda x: x + legacy(),
    "inside a jit": lambda x: jitted(x),
    "an array": lambda x: x + legacy(size=3).sum(),
    "Python's random": lambda x: x + random.gauss(0, 1),
    "a clock": lambda x: x + 1e3 * time.perf_counter() % 1.0,
    "an iterator": lambda x: x + next(counter),
    "a choice": lambda x: x if next(counter) % 2 else -x,
}
OWN_KEY = {
    "made inside": lambda x: x + jax.random.normal(jax.random.key(3)),
    "held": lambda x: x + jax.random.normal(HELD),
    "folded": lambda x: x + jax.random.normal(jax.random.fold_in(HELD, 1)),
    "in a loop": lambda x: x + jax.random.poisson(HELD, 3.0),
}


def sampled(position=POINT, num_chains=4, **options):
    return ewsg.sample(KEY, KERNEL, position, ROWS, 20, num_chains=num_chains, **options)


def start_of(function):
    return lambda key: function(jax.random.normal(key))


@pytest.fixture(scope="module")
def samples():
    return sampled()


@pytest.mark.usual_parameters("np.random", "inside a jit")
@pytest.mark.parametrize("kind", CHANGES)
def test_what_changes_from_trace_to_trace_is_refused(kind, samples):
    function, said = CHANGES[kind], "return the same for the same arguments"
    with pytest.raises(ValueError, match=f"position must {said}.*the argument"):
        sampled(start_of(function))
    with pytest.raises(ValueError, match=f"keep must {said}"):
        sampled(keep=function)
    with pytest.raises(ValueError, match=rf"function must {said}.*key=jax\.random\.key"):
        samples.predict(lambda p, x: function(p) * x, 1.0)
    for name in ("log_likelihood", "log_prior"):
        functions = {"log_likelihood": MODEL.log_likelihood, "log_prior": MODEL.log_prior}
        functions[name] = lambda p, *row: -0.5 * function(p) ** 2
        with pytest.raises(ValueError, match=f"{name} must {said}"):
            ewsg.Posterior(**functions).check(jnp.float32(0), ROWS)


@pytest.mark.usual_parameters("held")
@pytest.mark.parametrize("kind", OWN_KEY)
def test_a_key_of_its_own_is_refused(kind, samples):
    """One draw for all chains or draws: R-hat 1.00 with all chains at one of two modes."""
    function, said = OWN_KEY[kind], "must draw from a key that it is given"
    with pytest.raises(ValueError, match=f"position {said}"):
        sampled(start_of(function))
    with pytest.raises(ValueError, match=f"keep {said}"):
        sampled(keep=function)
    with pytest.raises(ValueError, match=f"the function of moments {said}"):
        sampled(moments=ewsg.moments(of=function))
    with pytest.raises(ValueError, match=f"function {said}"):
        samples.predict(lambda p, x: function(p) * x, 1.0)
    # With one fixed key the same units of a network are left out everywhere, which is a model.
    ewsg.Posterior(lambda p, y: function(p) * y, lambda p: 0.0).check(jnp.float32(0), ROWS)


@pytest.mark.parametrize(
    "start",
    [lambda key: jnp.float32(2), lambda key: np.float32(np.random.default_rng(3).normal())],
    ids=["a point", "a seed"],
)
def test_a_start_that_ignores_its_key_is_refused(start):
    with pytest.raises(ValueError, match=r"the same for each of 4 chains.*give the point itself"):
        sampled(start)
    sampled(start, num_chains=1)


def test_what_a_function_does_at_its_first_call_alone_is_no_change():
    """Modules that find the shapes of their parameters by an initialisation, once."""
    shapes = {}

    def log_likelihood(p, y):
        if not shapes:
            shapes["p"] = jax.random.normal(jax.random.key(0), p.shape).shape
        return -0.5 * jnp.sum((y - p.reshape(shapes["p"])) ** 2)

    kernel = ewsg.ld(ewsg.Posterior(log_likelihood, MODEL.log_prior), 0.01)
    samples = ewsg.sample(KEY, kernel, POINT, ROWS, 20)
    np.testing.assert_allclose(samples.position, sampled(num_chains=1).position, rtol=1e-6)


def test_an_expectation_that_draws_is_refused():
    draws = HOST.normal(0, 5**-0.5, (4, 200)).astype(np.float32)
    report = ewsg.check(KEY, draws, MODEL, ROWS)
    for function in (OWN_KEY["held"], CHANGES["np.random"]):
        with pytest.raises(ValueError, match="function must"):
            report.expectation(function)


@pytest.mark.parametrize("keep_draws", [False, True])
def test_a_prediction_has_a_key_for_each_draw(keep_draws):
    """The sd of a new observation is √(1 + 1/100), and was 1/10 with one noise for all draws."""
    draws = HOST.normal(0, 0.1, (4, 5_000)).astype(np.float32)
    kernel = ewsg.uld(MODEL, 0.1, friction=1.0)
    run = ewsg.sample(KEY, kernel, jnp.float32(0), ROWS, 10, num_chains=4)
    samples = type(run)(**(vars(run) | {"draws": draws}))

    def observed(position, x, key):
        y = position * x + jax.random.normal(key)
        return y if keep_draws else jnp.stack([y, y**2])

    predicted = samples.predict(observed, 1.0, key=KEY, keep_draws=keep_draws)
    mean, square = (predicted.mean(), (predicted**2).mean()) if keep_draws else predicted
    # Five standard errors of 20,000 draws.
    assert abs(mean) < 5 * 1.005 / 20_000**0.5
    assert abs((square - mean**2) ** 0.5 - 1.01**0.5) < 5 / 40_000**0.5
    again = samples.predict(observed, 1.0, key=KEY, keep_draws=keep_draws, chunk_size=7_000)
    np.testing.assert_allclose(again, predicted, rtol=1e-5, atol=1e-6)
