"""A run and the one that went on from it, joined, against the one that never stopped."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import health

pytestmark = pytest.mark.full

KEY = jax.random.key(3)
DATA = jnp.arange(12.0).reshape(6, 2)
KERNEL = ewsg.ewsg_vr(
    ewsg.models.gaussian_location(),
    lambda t: 0.01 / (1 + t),
    friction=1.0,
    batch_size=2,
    refresh_every=4,
)
COUNTS = (
    "draws",
    "step",
    "step_size",
    "evaluations",
    "gradient_evaluations",
    "num_data",
    "num_steps",
    "overflow",
    "diverged_at",
    "keeps_positions",
    "common_start",
    "shared_minibatch",
    "interrupted",
)


def run(num_steps, state=None, num_chains=3, **options):
    start = None if state is not None else jnp.zeros(2)
    options = {"thin": 2, "burn_in": 2, "moments": ewsg.moments(covariance="dense")} | options
    return ewsg.sample(
        KEY, KERNEL, start, DATA, num_steps, num_chains=num_chains, state=state, **options
    )


@pytest.fixture(scope="module")
def parts():
    first = run(14)
    return first, run(18, first.state, burn_in=0)


def test_two_runs_joined_are_one(parts):
    """Refreshes every fourth step: the second run begins between two of them."""
    whole, joined = run(32), parts[0].concatenate(parts[1])
    assert (whole.common_start, parts[1].common_start) == (True, False)
    for name in COUNTS:
        np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name), err_msg=name)
    jax.tree.map(np.testing.assert_array_equal, joined.state, whole.state)
    np.testing.assert_allclose(joined.index_acceptance, whole.index_acceptance, rtol=1e-12)
    np.testing.assert_allclose(joined.acceptance, whole.acceptance, rtol=1e-12)
    assert joined.run_seconds == parts[0].run_seconds + parts[1].run_seconds
    for name in ("weight", "mean", "covariance"):
        np.testing.assert_allclose(
            getattr(joined.moments, name), getattr(whole.moments, name), rtol=1e-5
        )
    assert joined.data_passes == whole.data_passes


@pytest.mark.full
@pytest.mark.parametrize("covariance", ["none", "diagonal"])
def test_moments_are_those_of_all_draws(parts, covariance):
    """Against the draws in float64."""
    first, later = (
        run(
            part.num_steps,
            state,
            keep=None,
            burn_in=0,
            thin=1,
            moments=ewsg.moments(covariance=covariance),
        )
        for part, state in zip(parts, (None, parts[0].state), strict=True)
    )
    joined = first.concatenate(later)
    draws = np.asarray(run(32, burn_in=0, thin=1).draws, np.float64)
    assert joined.draws is None
    assert joined.moments.weight.tolist() == [32] * 3
    np.testing.assert_allclose(joined.moments.mean, draws.mean(axis=1), rtol=1e-5)
    if covariance == "diagonal":
        np.testing.assert_allclose(joined.moments.variance, draws.var(axis=1), rtol=1e-4)


def test_a_chain_that_was_lost_stays_lost(parts):
    first, later = parts
    first = dataclasses.replace(
        first, diverged_at=np.array([-1, 5, 7]), overflow=np.array([0, 1, 2])
    )
    later = dataclasses.replace(
        later, diverged_at=np.array([-1, -1, 20]), overflow=np.array([1, 1, 1])
    )
    joined = dataclasses.replace(first, interrupted=True).concatenate(later)
    assert joined.diverged_at.tolist() == [-1, 5, 7]
    assert joined.overflow.tolist() == [1, 2, 3]
    assert not joined.interrupted
    assert joined.common_start
    lost = dataclasses.replace(later, diverged_at=np.array([30, -1, -1]))
    assert parts[0].concatenate(lost).diverged_at.tolist() == [30, -1, -1]


def test_a_run_that_failed_before_its_last_draw_is_not_continued(parts, monkeypatch):
    """Its state is the last that was kept: what continues makes steps again that it has made."""
    call = health.DivergenceMonitor.call

    def failing(watch, advance, keep, state, done, steps):
        made = call(watch, advance, keep, state, done, steps)
        if done:
            raise RuntimeError("no device")
        return made

    monkeypatch.setattr(health.DivergenceMonitor, "call", failing)
    monkeypatch.setattr(health.DivergenceMonitor, "keep", lambda *_: None)
    with pytest.warns(RuntimeWarning, match="the next ones failed: RuntimeError: no device"):
        first = run(10_000)
    monkeypatch.undo()
    later = run(18, first.state, burn_in=0)
    assert later.step[0] < first.step[-1]
    with pytest.raises(ValueError, match=f"last draw, of step {first.step[-1]}; got .* of step 0"):
        first.concatenate(later)
