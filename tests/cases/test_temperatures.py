"""Runs at a temperature other than 1: cold and tempered posteriors, annealing, joined runs.

The posterior is normal, of variance T/n.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ewsg_jax as ewsg

KEY, SIZE = jax.random.key(0), 50
MODEL = ewsg.models.gaussian_location()
DATA = jax.random.normal(jax.random.key(1), (SIZE, 1))
SD = SIZE**-0.5


def run(temperature, num_steps=4_000, state=None, **options):
    kernel = ewsg.uld(MODEL, 0.04, friction=8.0, temperature=temperature)
    start = DATA.mean(0) if state is None else None
    options = {"num_chains": 20, "burn_in": 400, "thin": 5, "progress": False} | options
    return ewsg.sample(KEY, kernel, start, DATA, num_steps, state=state, **options)


def check(samples, **options):
    return ewsg.check(jax.random.key(2), samples, MODEL, DATA, **options)


@pytest.fixture(scope="module")
def cold():
    return run(0.1)


def test_draws_are_judged_at_the_temperature_of_their_run(cold):
    report = check(cold)
    assert report.outcome == "right"
    np.testing.assert_allclose(report.corrected.sd, 0.1**0.5 * SD, rtol=0.02)
    assert "the temperature of their run, T = 0.1: temperature=1 judges" in report.note
    # What is asked for counts, and draws from elsewhere are the posterior's.
    for other in (check(cold, temperature=1.0), check(np.asarray(cold.position))):
        assert other.outcome == "wrong"
        assert "T = 0.1" not in other.note


@pytest.mark.full
def test_diagnostics_and_momenta_have_the_temperature_of_the_run(cold):
    means = ewsg.diagnostics.control_variates(KEY, cold, MODEL, DATA, function=jnp.square, order=2)
    assert abs(means.mean - (DATA.mean() ** 2 + 0.1 * SD**2)) < 1e-4
    right, wrong = (
        ewsg.diagnostics.kernel_stein_discrepancy(KEY, cold, MODEL, DATA, temperature=t).value
        for t in (None, 1.0)
    )
    assert right < 0.3 * wrong
    kernel = ewsg.uld(MODEL, 0.04, friction=8.0, temperature=0.1)
    assert abs(check(cold, kernel=kernel).kinetic.mean.value - 1) < 0.3


def test_a_file_and_joined_runs_keep_the_temperature(cold, tmp_path):
    cold.save(tmp_path / "run.npz")
    np.testing.assert_array_equal(ewsg.load(tmp_path / "run.npz").temperature, cold.temperature)
    joined = cold.concatenate(run(1.0, state=cold.state, burn_in=0, num_chains=1))
    assert joined.temperature.shape == joined.step.shape
    report = check(joined)
    assert report.outcome == "wrong"
    assert report.verdict.startswith("draws were made at temperatures from 0.1 to 1, and are")


@pytest.mark.full
def test_an_annealed_run_is_judged_at_its_end():
    schedule = optax.linear_schedule(5.0, 2.0, 2_000)
    samples = run(schedule, 6_000, burn_in=3_000)
    np.testing.assert_allclose(samples.temperature, 2.0, rtol=1e-6)
    report = check(samples)
    assert report.outcome == "right"
    np.testing.assert_allclose(report.corrected.sd, 2**0.5 * SD, rtol=0.02)


def test_members_and_mapped_kernels_have_temperatures_of_their_own():
    kernels = [ewsg.uld(MODEL, 0.04, friction=8.0, temperature=t) for t in (0.1, 3.0)]
    options = {"num_chains": 2, "progress": False}
    runs = ewsg.sample(KEY, ewsg.stack(kernels), jnp.zeros(1), DATA, 10, **options)
    assert [set(one.temperature.tolist()) for one in runs] == [{np.float32(0.1)}, {3.0}]
    same = ewsg.stack([ewsg.uld(MODEL, h, friction=8.0, temperature=0.5) for h in (0.1, 0.2)])
    runs = ewsg.sample(KEY, same, jnp.zeros(1), DATA, 10, **options)
    assert [set(one.temperature.tolist()) for one in runs] == [{0.5}, {0.5}]
    exact = ewsg.random_walk_metropolis(MODEL, 0.1, temperature=3.0)
    assert set(ewsg.sample(KEY, exact, jnp.zeros(1), DATA, 10, **options).temperature) == {3.0}
