"""The heat that a run is told of, where it is known in closed form."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.sampling import heat, ratios

KEY = jax.random.key(0)
DATA = jax.random.normal(KEY, (1000, 3)) * jnp.array([1.0, 0.5, 0.2])
MODEL, SHARP = ewsg.models.gaussian_location(), ewsg.models.gaussian_location(noise_scale=1000**0.5)
START, WEIGHTS = jnp.zeros(3), jnp.linspace(0.0, 1.0, 1000)
COVARIANCE = 1000**2 / 5 * np.asarray(DATA).var(0)
"""Of the gradient of five rows."""


def run(kernel, num_chains=4, num_steps=33_000, position=START, **options):
    return ewsg.sample(KEY, kernel, position, DATA, num_steps, num_chains=num_chains, progress=False, **options)


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
    kernel = ewsg.sghmc(SHARP, 0.8, friction=2.0, batch_size=5, integrator="BAOAB")
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


def members(kernels, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(members lost|chains diverged)")
        runs = run(ewsg.stack(kernels), thin=100, **options)
        alone = [run(kernel, thin=100, **options).heat for kernel in kernels]
    for told, own in zip([one.heat for one in runs], alone, strict=True):
        assert (told is None) == (own is None)
    np.testing.assert_allclose(runs.heat, np.array(alone, float), rtol=1e-3)
    return runs


def test_members_of_a_stack_tell_what_their_own_runs_tell(tmp_path):
    """Each by its own step; a lost one nothing."""
    steps = (1e-4, 2e-7, 1e30, 1e-5)
    runs = members([ewsg.sgld(MODEL, h, batch_size=5) for h in steps])
    assert runs.heat[0] == pytest.approx(steps[0] / 2 * COVARIANCE.max(), rel=0.7)
    assert "heat=" in repr(runs[0])
    assert runs.whole.heat is None
    assert np.isnan(runs.heat).tolist() == [False, False, True, False]
    # Few batches tell what is large, and nothing else: of each member by itself; of fewer steps nothing is known.
    kernels = [ewsg.sgld(MODEL, h, batch_size=5) for h in (1e-4, 2e-7)]
    fewer = members(kernels, num_steps=9_000)
    assert np.isnan(fewer.heat).tolist() == [False, True]
    assert np.isnan(members(kernels, num_steps=1_000).heat).all()
    runs.save(tmp_path / "runs.npz")
    np.testing.assert_array_equal(ewsg.StackedSamples.load(tmp_path / "runs.npz").heat, runs.heat)
    runs = run(ewsg.stack(kernels), thin=100)
    more = run(ewsg.stack(kernels), num_steps=1_000, position=None, state=runs.state)
    np.testing.assert_array_equal(runs.concatenate(more).heat, runs.heat)


@pytest.mark.parametrize(
    "kernels",
    [
        [ewsg.sgld(MODEL, 1e-5, batch_size=5, temperature=t) for t in (1.0, 4.0)],
        [ewsg.sghmc(SHARP, 0.8, friction=f, batch_size=5, integrator="BAOAB") for f in (2.0, 0.5)],
        [ewsg.sgld(MODEL, 1e-5, batch_size=5, rows=ewsg.rows.by_probability(1 + c * WEIGHTS)) for c in (0.0, 1.0)],
        [ewsg.sgld(MODEL, h, batch_size=5, rows="epochs") for h in (1e-5, 2e-5)],
        [ewsg.nc_sghmc(MODEL, h, friction=1.0, batch_size=5) for h in (1e-5, 2e-5)],
        [ewsg.ld(MODEL, h) for h in (1e-5, 2e-5)],
    ],
    ids=["temperatures", "frictions", "laws of rows", "epochs", "a covariance", "no batches"],
)
def test_of_whatever_kernels_they_are(kernels):
    members(kernels)


def test_of_members_that_lost_some_chains():
    """Those that are left tell it, as in their own runs."""
    starts = jnp.zeros((4, 3)).at[1].set(1e38)
    kernels = [ewsg.sgld(MODEL, h, batch_size=5) for h in (1e-4, 1e-5)]
    runs = members(kernels, position=starts, stacked=True, num_chains=1)
    assert np.isfinite(runs.heat).all()
    np.testing.assert_array_equal(np.sum(runs.diverged_at >= 0, axis=0), 1)


def test_it_is_measured_by_a_stacks_own_program(monkeypatch, caplog):
    """Nothing is compiled for it but what makes keys, and the run is the same without."""
    stack, measure = ewsg.stack([ewsg.sgld(MODEL, h, batch_size=5) for h in (1e-4, 1e-5)]), heat._measured

    def logged(*arguments):
        with jax.log_compiles():
            return measure(*arguments)

    monkeypatch.setattr(heat, "_measured", logged)
    runs = run(stack, thin=330)
    assert np.isfinite(runs.heat).all()
    assert "advance" not in caplog.text
    monkeypatch.setattr(heat, "of_run", lambda *arguments: None)
    without = run(stack, thin=330)
    assert np.isnan(without.heat).all()
    np.testing.assert_array_equal(runs[0].position, without[0].position)
    np.testing.assert_array_equal(runs.state.position, without.state.position)


def test_data_sets_tell_theirs():
    """h Cov(g)/2 of each, by batches of its own."""
    rows = [DATA, DATA[:250]]
    kernel = ewsg.sgld(MODEL, 1e-5, batch_size=5)
    runs = ewsg.sample(
        KEY, kernel, jnp.zeros(3), ewsg.stack_data(rows), 4_200, num_chains=128, keep=None, progress=False
    )
    for one, own in zip(runs, rows, strict=True):
        assert one.heat == pytest.approx(1e-5 / 2 * len(own) ** 2 / 5 * np.asarray(own).var(0).max(), rel=0.5)


@pytest.mark.parametrize("d", [1, 300])
def test_the_largest_of_many_estimates_is_not_so_by_chance(d):
    """With one half for both, 300 coordinates of 0.05 come out at 0.9."""
    rng = np.random.default_rng(1)
    batch, noise = rng.standard_normal((2, 8, 8, d))
    assert ratios.largest(batch * 0.05**0.5, noise) == pytest.approx(0.05, rel=0.5)


def test_a_direction_may_be_hotter_than_any_coordinate():
    """Along (1, …, 1) it is d times that of a coordinate."""
    rng = np.random.default_rng(2)
    common, noise = rng.standard_normal((8, 32, 1)) * np.ones(20), rng.standard_normal((8, 32, 20))
    assert ratios.largest(0.1 * common, noise) == pytest.approx(0.01 * 20, rel=0.4)
    # What moves by no more than rounding is left out, and what does not move at all.
    still = np.concatenate([noise[..., :2], 1e-9 * noise[..., :1], np.zeros((8, 32, 1))], axis=2)
    assert ratios.largest(common[..., :4], still, 1e-7) == pytest.approx(2.0, rel=0.4)
    assert ratios.largest(common, np.zeros((8, 32, 20))) is None
