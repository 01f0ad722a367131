"""What a type checker sees: the position's type goes from a posterior's functions to whatever comes
of them.

Pyright reads this file: `assert_type` demands that very type, and an `ignore` that hides no error
is an error. Pytest runs it: `assert_type` does nothing, and the calls are those of any user.
"""
# pyright: reportUnnecessaryTypeIgnoreComment=true

import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, assert_type

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg


class Params(NamedTuple):
    mean: jax.Array
    log_scale: jax.Array


def log_likelihood(position: Params, row: jax.Array) -> jax.Array:
    return -position.log_scale - 0.5 * ((row - position.mean) * jnp.exp(-position.log_scale)) ** 2


def log_prior(position: Params) -> jax.Array:
    return -0.5 * (position.mean**2 + position.log_scale**2)


KEY = jax.random.key(0)
DATA = np.linspace(-1.0, 1.0, 5, dtype=np.float32)
START = Params(jnp.float32(0.0), jnp.float32(0.0))
POSTERIOR = ewsg.Posterior(log_likelihood, log_prior)


def test_a_posterior_has_the_positions_of_its_functions():
    assert_type(POSTERIOR, ewsg.Posterior[Params])
    assert isinstance(assert_type(POSTERIOR.gradient(START, DATA), Params), Params)
    assert_type(ewsg.models.normal(), ewsg.Posterior[jax.Array])
    with pytest.raises(ValueError, match="log_prior"):
        POSTERIOR.gradient(jnp.zeros(2), DATA)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="log_likelihood"):
        ewsg.models.normal().gradient(START, DATA)  # pyright: ignore[reportArgumentType]


def test_lambdas_take_any_position():
    posterior = ewsg.Posterior(
        lambda p, x: -jnp.sum((p["mean"] - x) ** 2), lambda p: -jnp.sum(p["mean"] ** 2)
    )
    kernel = ewsg.sgld(posterior, 1e-3, batch_size=2)
    state = kernel.init(KEY, {"mean": jnp.zeros(1)}, DATA)
    assert state.position["mean"].shape == (1,)
    declared: ewsg.Posterior[Params] = ewsg.Posterior(lambda p, x: (p.mean - x) ** 2, lambda p: 0.0)
    assert_type(ewsg.ld(declared, 1e-3), ewsg.Kernel[Params])


def test_a_mode_is_a_position():
    mode = ewsg.find_mode(KEY, POSTERIOR, START, DATA)
    assert_type(mode, ewsg.Mode[Params])
    assert isinstance(assert_type(mode.position, Params), Params)


def test_kernels_lead_from_positions_to_positions():
    kernel = ewsg.kernel(
        ewsg.dynamics.langevin(1e-3), ewsg.gradients.uniform(POSTERIOR, batch_size=2)
    )
    assert_type(kernel, ewsg.Kernel[Params])
    assert kernel == assert_type(ewsg.sgld(POSTERIOR, 1e-3, batch_size=2), ewsg.Kernel[Params])
    weighted = ewsg.gradients.exponentially_weighted(ewsg.gradients.saga(POSTERIOR, batch_size=2))
    assert_type(ewsg.kernel(ewsg.dynamics.langevin(1e-3), weighted), ewsg.Kernel[Params])
    assert_type(ewsg.random_walk_metropolis(POSTERIOR, 0.1), ewsg.Kernel[Params])

    state = assert_type(kernel.init(KEY, START, DATA), ewsg.KernelState[Params])
    state, info = kernel.step(KEY, state, DATA)
    assert isinstance(assert_type(state.position, Params), Params)
    assert_type(info, ewsg.Info)
    assert_type(kernel.bind(DATA).step(KEY, state)[0].position, Params)
    with pytest.raises(ValueError, match="log_likelihood"):
        kernel.init(KEY, jnp.zeros(2), DATA)  # pyright: ignore[reportArgumentType]


@pytest.mark.full
def test_samples_are_of_the_kernels_positions():
    kernel = ewsg.sgld(POSTERIOR, 1e-3, batch_size=2)
    samples = ewsg.sample(KEY, kernel, START, DATA, 2)
    assert_type(samples, ewsg.Samples[Params])
    assert_type(samples.state.position, Params)
    # Its leaves are NumPy's: a tree like the position, but not of its type.
    assert isinstance(assert_type(samples.position, Any).mean, np.ndarray)
    onwards = ewsg.sample(KEY, kernel, None, DATA, 2, state=samples.state, keep=lambda p: p.mean)
    assert_type(onwards, ewsg.Samples[Params])
    runs = ewsg.sample(KEY, ewsg.stack([kernel]), START, DATA, 2)
    assert_type(runs, ewsg.StackedSamples[Params])
    assert_type(runs[0], ewsg.Samples[Params])


@pytest.mark.full
def test_the_short_calls_have_the_same_types():
    plan = ewsg.plan(KEY, ewsg.models.normal(), jnp.zeros(2), DATA, progress=False)
    samples = assert_type(ewsg.sample(KEY, plan, DATA, num_chains=2), ewsg.Samples[Any])
    assert_type(ewsg.check(KEY, samples, DATA), ewsg.Report)
    assert_type(ewsg.check(KEY, samples, ewsg.models.normal(), DATA, names=None), ewsg.Report)


@pytest.mark.sweep
def test_pyright_agrees():
    """What linting asks as well, for the planted faults."""
    pytest.importorskip("pyright")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, __file__]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def wrong(kernel: ewsg.Kernel[Params], samples: ewsg.Samples[jax.Array]) -> None:
    """What nobody runs: each line is an error of its own."""
    assert_type(samples.state, ewsg.KernelState[Params])  # pyright: ignore[reportAssertTypeFailure]
    ewsg.sample(KEY, kernel, jnp.zeros(2), DATA, 2)  # pyright: ignore[reportCallIssue, reportArgumentType]
    ewsg.sample(KEY, kernel, None, DATA, 2, state=samples.state)  # pyright: ignore[reportCallIssue, reportArgumentType]
    ewsg.sample(KEY, kernel, START, DATA, 2, keep=lambda p: p.scale)  # pyright: ignore[reportAttributeAccessIssue]
    ewsg.sample(KEY, kernel, DATA, 2)  # pyright: ignore[reportCallIssue, reportArgumentType]
    ewsg.find_mode(KEY, POSTERIOR, {"mean": 0.0}, DATA)  # pyright: ignore[reportArgumentType]
    ewsg.diagnostics.log_predictive_density(samples, POSTERIOR, DATA)  # pyright: ignore[reportArgumentType]
