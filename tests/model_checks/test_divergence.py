"""Why chains diverged: a gradient that is not finite is named, with its function and its row."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

N = 60
Y = np.random.default_rng(0).normal(size=N).astype(np.float32)
HOLES = np.where(np.arange(N) % 7 == 3, np.nan, Y).astype(np.float32)


def normal(p, y):
    return -0.5 * (y - p) ** 2


def narrow(p):
    return -0.5 * p**2


def diverged(log_likelihood, log_prior, start, data=Y, step_size=1e-4, **options):
    kernel = ewsg.sgld(ewsg.Posterior(log_likelihood, log_prior), step_size, batch_size=10)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        samples = ewsg.sample(
            jax.random.key(0), kernel, start, data, 100, num_chains=2, check_data=False, **options
        )
    assert not samples.is_finite.any()
    (message,) = [str(each.message) for each in told]
    return message


CASES = {
    "where does not mask a gradient": (
        lambda p, y: jnp.where(jnp.isnan(y), 0.0, normal(p, y)),
        narrow,
        0.0,
        HOLES,
        r"at the start: that of log_likelihood of row 3 is not \(9 such rows; .*jnp.where does "
        r"not mask",
    ),
    "a root at 0": (
        normal,
        jnp.sqrt,
        0.0,
        Y,
        r"at the start: that of log_prior is not \(log_prior is 0 there\)",
    ),
    "an exponential overflows": (
        lambda p, y: y * p - jnp.exp(100 * p),
        narrow,
        1.0,
        Y,
        r"at the start: .*row 0 is not \(60 such rows; log_likelihood is -inf there\); in float64 "
        r"it is finite",
    ),
    "a sigmoid's logarithm": (
        lambda p, y: jnp.log(1 / (1 + jnp.exp(p * jnp.abs(y) + p))),
        lambda p: -0.5 * p**2 / 1e6,
        200.0,
        Y,
        "at the start: .*float32 overflows",
    ),
}


@pytest.mark.usual_parameters("a root at 0")
@pytest.mark.parametrize("name", CASES)
def test_a_gradient_that_is_not_finite_is_named(name):
    *model, start, data, pattern = CASES[name]
    message = diverged(*model, start, data)
    assert re.search(pattern, message), message
    assert "smaller step_size" not in message


@pytest.mark.full
def test_a_row_that_a_later_batch_meets():
    row = np.r_[Y[:59], np.float32(np.nan)]
    message = diverged(
        lambda p, y: jnp.where(jnp.isnan(y), 0.0, normal(p, y)), narrow, 0.0, row, step_size=1e-6
    )
    assert "log_likelihood of row 59 is not (1 such rows; " in message


def test_all_chains_that_leave_at_once_have_too_large_a_step():
    """Though a row's term overflows where they went, of a size that none would call enormous."""
    message = diverged(
        lambda p, y: -jnp.sqrt(jnp.exp(jnp.abs(2 * (p - y))) + 1), narrow, 0.5, Y, step_size=0.5
    )
    assert "samples.diverged_at): the steps are too large: all chains left" in message, message
    assert "take a tenth of step_size" in message


@pytest.mark.full
def test_too_large_a_step_is_still_too_large():
    message = diverged(normal, narrow, 0.0, step_size=1.0)
    assert "the steps are too large" in message
    assert "right sign" not in message
    assert "right sign" in diverged(lambda p, y: -normal(p, y), lambda p: 0.0, 0.0, step_size=0.1)


@pytest.mark.full
def test_a_position_that_is_a_tree():
    posterior = lambda p, row: jnp.where(jnp.isnan(row["y"]), 0.0, normal(p["m"], row["y"]))
    message = diverged(posterior, lambda p: narrow(p["m"]), {"m": jnp.float32(0)}, {"y": HOLES})
    assert "log_likelihood of row 3" in message


@pytest.mark.parametrize(
    ("rate", "step_size", "value"),
    [
        (1.0, 1.0, r"\(in float64 it is -\d.*e\+\d+\)"),  # which float64 holds
        (1e3, 1e-3, ""),  # which it does not
    ],
)
def test_a_step_that_overshoots_is_not_put_down_to_float32(rate, step_size, value):
    """A row's exponential overflows where a step, and no gradient, has led."""
    message = diverged(
        lambda p, y: -jnp.exp(rate * p) - jnp.exp(-rate * p), narrow, 2.0 / rate, Y, step_size
    )
    assert re.search(
        r"log_likelihood is -inf there\); it was -7\.52 at the start, so that steps were too large "
        rf"and carried the chain there ?{value}: a smaller step_size may help",
        message,
    ), message
    assert "float32 overflows" not in message


@pytest.mark.full
def test_a_prior_that_a_step_overshoots():
    message = diverged(normal, lambda p: -0.5 * p**2 - jnp.exp(30 * p), -10.0, Y, step_size=0.03)
    said = r"log_prior is -inf there\); it was -50 at the start, so that steps"
    assert re.search(said, message), message
