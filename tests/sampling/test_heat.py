"""The heat that a run is told of, where it is known in closed form."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.sampling import heat

KEY = jax.random.key(0)
DATA = jax.random.normal(KEY, (1000, 3)) * jnp.array([1.0, 0.5, 0.2])
MODEL = ewsg.models.gaussian_location()
COVARIANCE = 1000**2 / 5 * np.asarray(DATA).var(0)
"""Of the gradient of five rows."""


def run(kernel, num_chains=4, num_steps=33_000, **options):
    return ewsg.sample(KEY, kernel, jnp.zeros(3), DATA, num_steps, num_chains=num_chains, progress=False, **options)


@pytest.mark.parametrize(
    ("kernel", "ratio"),
    [
        (ewsg.sgld(MODEL, 1e-5, batch_size=5), 1e-5 / 2),
        (ewsg.sghmc(MODEL, 1e-3, friction=10.0, batch_size=5, temperature=2.0), 1e-3 / (2 * 10 * 2)),
    ],
)
def test_heat_is_the_formula(kernel, ratio):
    """h Cov(g)/(2T), h Cov(g)/(2γT); of 128 batches and noises each an error of a fifth."""
    samples = run(kernel, num_chains=128, num_steps=4_200, keep=None)
    assert samples.heat == pytest.approx(ratio * COVARIANCE.max(), rel=0.5)
    assert f"heat={samples.heat:.2g}" in repr(samples)


def test_heat_is_that_of_the_position():
    """BAOAB at γ = 2: friction takes most of what a batch gave the momentum, after that has moved the position."""
    sharp = ewsg.models.gaussian_location(noise_scale=1000**0.5)
    kernel = ewsg.sghmc(sharp, 0.8, friction=2.0, batch_size=5, integrator="BAOAB")
    found = run(kernel, num_chains=128, num_steps=4_200, keep=None).heat
    assert found == pytest.approx(0.8**2 / 4 / np.tanh(0.8) * COVARIANCE.max() / 1000**2, rel=0.4)


def test_a_summary_tells_of_heat_where_there_is_some(tmp_path):
    hot, right = (run(ewsg.sgld(MODEL, step_size, batch_size=5), thin=10) for step_size in (1e-4, 2e-7))
    assert hot.heat == pytest.approx(1e-4 / 2 * COVARIANCE.max(), rel=0.7)
    assert right.heat < 0.05
    note = f"the noise of batches heats this run: +{hot.heat:.2g} ×"
    assert any(each.startswith(note) for each in ewsg.diagnostics.summary(hot).notes)
    assert not any("heats" in each for each in ewsg.diagnostics.summary(right).notes)
    assert "heat" not in repr(right)
    hot.save(tmp_path / "run.npz")
    assert ewsg.load(tmp_path / "run.npz").heat == hot.heat


def test_it_is_measured_once_and_the_run_is_the_same_without(monkeypatch):
    kernel, asked, measure = ewsg.sgld(MODEL, 1e-4, batch_size=5), [], heat._measured
    monkeypatch.setattr(heat, "_measured", lambda *arguments: asked.append(1) or measure(*arguments))
    first, again = run(kernel), run(kernel)
    assert (len(asked), again.heat) == (1, first.heat)
    later = run(dataclasses.replace(kernel))
    assert len(asked) == 2
    assert run(kernel, num_steps=1_000).heat is None
    assert len(asked) == 2
    # Few batches tell what is large, and nothing else.
    assert run(kernel, num_steps=9_000).heat > 1
    assert run(ewsg.sgld(MODEL, 2e-7, batch_size=5), num_steps=9_000).heat is None
    assert len(asked) == 4
    monkeypatch.setattr(heat, "of_run", lambda *arguments: None)
    without = run(kernel)
    np.testing.assert_array_equal(first.position, without.position)
    for samples in (first, later):
        np.testing.assert_array_equal(samples.state.position, without.state.position)


def anchored(**options):
    return ewsg.kernel(ewsg.dynamics.langevin(1e-5), ewsg.gradients.svrg(MODEL, batch_size=5, **options))


@pytest.mark.parametrize(
    ("kernel", "known"),
    [
        (ewsg.sgld(MODEL, 1e-5, batch_size=5), True),
        (ewsg.cv_ld(MODEL, 1e-5, batch_size=5, center=np.zeros(3)), True),
        (ewsg.saga_ld(MODEL, 1e-5, batch_size=5), True),
        (ewsg.psgld(MODEL, 1e-5, batch_size=5), True),
        (ewsg.sgld(MODEL, 1e-5, batch_size=5, temperature=lambda step: 1.0), False),
        (ewsg.sgld(MODEL, 1e-5, batch_size=5, rows="epochs"), False),
        (ewsg.svrg_ld(MODEL, 1e-5, batch_size=5, refresh_every=10), False),
        (ewsg.ewsg(MODEL, 1e-5, friction=1.0, batch_size=5), False),
        (ewsg.nc_sghmc(MODEL, 1e-5, friction=1.0, batch_size=5), False),
        (ewsg.sgnht(MODEL, 1e-5, friction=1.0, batch_size=5), False),
        (ewsg.hamcmc(MODEL, 1e-5, batch_size=5), False),
    ],
)
def test_where_it_is_known(kernel, known):
    state = jax.eval_shape(kernel.init, KEY, jnp.zeros(3), DATA)
    assert (heat.cooled(kernel, state, DATA) is not None) is known


def test_without_batches_there_is_none():
    samples = ewsg.sample(KEY, ewsg.ld(MODEL, 1e-4), jnp.zeros(3), DATA, 3, progress=False)
    assert samples.heat == 0.0


@pytest.mark.parametrize("d", [1, 300])
def test_the_largest_of_many_estimates_is_not_so_by_chance(d):
    """With one half for both, 300 coordinates of 0.05 come out at 0.9."""
    rng = np.random.default_rng(1)
    batch, noise = rng.standard_normal((2, 8, 8, d))
    assert heat.largest(batch * 0.05**0.5, noise) == pytest.approx(0.05, rel=0.5)


def test_a_direction_may_be_hotter_than_any_coordinate():
    """Along (1, …, 1) it is d times that of a coordinate."""
    rng = np.random.default_rng(2)
    common, noise = rng.standard_normal((8, 32, 1)) * np.ones(20), rng.standard_normal((8, 32, 20))
    assert heat.largest(0.1 * common, noise) == pytest.approx(0.01 * 20, rel=0.4)
    # What moves by no more than rounding is left out, and what does not move at all.
    still = np.concatenate([noise[..., :2], 1e-9 * noise[..., :1], np.zeros((8, 32, 1))], axis=2)
    assert heat.largest(common[..., :4], still, 1e-7) == pytest.approx(2.0, rel=0.4)
    assert heat.largest(common, np.zeros((8, 32, 20))) is None
