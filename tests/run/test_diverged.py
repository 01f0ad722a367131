"""A chain that diverged is in no answer: means, predictions, ArviZ, summaries, moments."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

KEY = jax.random.key(1)
Y = 1 + jax.random.normal(jax.random.key(0), (400,))
TRUTH, SD = float(Y.mean()), 400**-0.5
FAR = 1e6
"""Beyond this no draw of the posterior is."""


@pytest.fixture(scope="module")
def run():
    """Eight chains, of which the last starts behind a wall and is frozen far out."""
    wall = ewsg.Posterior(
        lambda p, y: -0.5 * (y - p) ** 2, lambda p: -0.005 * p**2 - jnp.exp(p - 20.0)
    )
    with pytest.warns(RuntimeWarning, match=r"1 of 8 chains diverged, the first \(chain 7\)"):
        samples = ewsg.sample(
            KEY,
            ewsg.uld(wall, 0.02, friction=10.0, integrator="BAOAB"),
            jnp.array([1.0] * 7 + [60.0]),
            Y,
            2_000,
            stacked=True,
            burn_in=200,
            moments=ewsg.moments(),
        )
    assert samples.diverged_at.tolist()[:7] == [-1] * 7
    assert 0 < samples.diverged_at[7] < 200
    assert np.abs(samples.position[7]).min() > FAR
    return samples


def near(mean, sd=SD):
    return abs(mean - TRUTH) < 0.3 * SD and abs(sd - SD) < 0.2 * SD


def everything(run):
    """All chains diverged."""
    return dataclasses.replace(run, diverged_at=np.arange(1, 9))


def test_the_draws_that_count(run):
    assert run.position.shape == (8, 1_800)  # raw
    assert run.finite_draws.shape == (7, 1_800)
    assert near(run.finite_draws.mean(), run.finite_draws.std())
    whole = dataclasses.replace(run, diverged_at=np.full(8, -1))
    assert whole.finite_draws is whole.draws  # no copy
    assert everything(run).finite_draws.shape == (0, 1_800)
    with pytest.raises(AttributeError, match="hold no draws"):
        _ = dataclasses.replace(run, draws=None).finite_draws


@pytest.mark.full
def test_means_and_moments(run):
    assert near(run.mean, run.sd)
    pooled = run.moments.pooled()
    assert run.moments.weight.tolist() == [1_800.0] * 7 + [0.0]
    assert near(pooled.mean, np.sqrt(pooled.variance))
    twice = dataclasses.replace(run, diverged_at=np.full(8, -1)).moments.of_chains(
        np.zeros(8, bool)
    )
    assert np.isnan(twice.pooled().mean)
    assert np.isnan(twice.pooled().variance)


@pytest.mark.full
def test_a_prediction_has_the_chains_that_count(run):
    def function(p, x):
        return p * x

    np.testing.assert_allclose(run.predict(function, 1.0), run.mean, rtol=1e-5)
    with pytest.warns(RuntimeWarning, match=r"^chain 7 diverged at step \d+: not in predict"):
        every = run.predict(function, 1.0, keep_draws=True)
    np.testing.assert_array_equal(every, run.finite_draws)
    assert np.isnan(everything(run).predict(function, 1.0))
    with pytest.raises(ValueError, match="must have a chain that did not diverge; got none"):
        everything(run).predict(function, 1.0, keep_draws=True)


@pytest.mark.full
def test_arviz_has_the_chains_that_count_by_their_numbers(run):
    pytest.importorskip("arviz")
    some = dataclasses.replace(run, diverged_at=np.where(np.arange(8) == 2, 50, run.diverged_at))
    with pytest.warns(
        RuntimeWarning, match=r"^2 of 8 chains diverged .chain 2 at step 50, chain 7 at .*to_arviz"
    ):
        found = some.to_arviz()["posterior"]["position"]
    assert found.coords["chain"].values.tolist() == [0, 1, 3, 4, 5, 6]
    np.testing.assert_array_equal(found.sel(chain=3).values, run.position[3])
    assert near(float(found.mean()), float(found.std()))
    with pytest.raises(ValueError, match=r"to_arviz\(\) must have a chain that did not diverge"):
        everything(run).to_arviz()


@pytest.mark.full
def test_a_stack_in_arviz_has_no_number_where_a_member_diverged():
    pytest.importorskip("arviz")
    model = ewsg.models.gaussian_location()
    stack = ewsg.stack([ewsg.ld(model, h) for h in (1e-3, 1.0)])
    with pytest.warns(RuntimeWarning, match="1 of 2 members have diverged chains"):
        runs = ewsg.sample(
            KEY,
            stack,
            jnp.zeros(1),
            Y[:, None],
            500,
            num_chains=3,
            burn_in=50,
            moments=ewsg.moments(),
        )
    with pytest.warns(RuntimeWarning, match=r"NaN for chains that diverged: 3 of 6, of 1 of 2"):
        found = runs.to_arviz()["posterior"]["position"]
    assert np.isnan(found.sel(step_size=1.0)).all()
    np.testing.assert_array_equal(found.sel(step_size=1e-3).values, runs[0].position)
    assert runs[0].moments.weight.tolist() == [450.0] * 3
    assert runs[1].moments.weight.tolist() == [0.0] * 3


@pytest.mark.full
def test_a_summary_names_who_is_left_out(run):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        summary = ewsg.diagnostics.summary(run, quantiles=(0.5,))
    assert near(summary.mean[0], summary.sd[0])
    assert near(summary.quantiles[0, 0])
    assert summary.worst_rhat < 1.02
    assert (summary.num_chains, summary.num_diverged) == (8, 1)
    step = run.diverged_at[7]
    assert str(summary).endswith(
        f"8 chains (1 diverged, left out) of 1800 draws\nnote: chain 7 diverged at step {step}: "
        f"left out of all these numbers; without it R-hat is {summary.worst_rhat:.3f}"
    )
    nothing = ewsg.diagnostics.summary(everything(run))
    assert np.isnan(nothing.mean).all()
    assert np.isnan(nothing.rhat).all()
    assert nothing.notes == (
        "8 of 8 chains diverged (chain 0 at step 1, chain 1 at step 2, chain 2 at step 3, chain 3 "
        "at step 4, chain 4 at step 5, …): nothing is left to summarise",
    )


@pytest.mark.full
def test_predictive_scores_leave_it_out():
    data = {"x": jnp.array([[1.0], [-1.0]]), "y": jnp.array([1, 0])}
    model = ewsg.models.logistic_regression()
    kernel = ewsg.uld(model, 0.1, friction=1.0)
    samples = ewsg.sample(KEY, kernel, jnp.zeros(1), data, 100, num_chains=3, thin=10)
    spoilt = dataclasses.replace(
        samples,
        draws=np.where(np.arange(3)[:, None, None] == 1, -1e20, samples.draws),
        diverged_at=np.array([-1, 5, -1]),
    )
    alone = dataclasses.replace(
        samples, draws=samples.draws[[0, 2]], diverged_at=samples.diverged_at[[0, 2]]
    )
    found, wanted = (ewsg.diagnostics.trajectory(each, data) for each in (spoilt, alone))
    for name in ("ensemble_log_likelihood", "running_log_likelihood", "running_accuracy"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=1e-6)
    assert found.chain_accuracy.shape == (3, 10)
    assert np.all(found.chain_accuracy[1] == 0)
    none = dataclasses.replace(samples, diverged_at=np.full(3, 5))
    assert np.isnan(ewsg.diagnostics.trajectory(none, data).running_log_likelihood).all()
    assert np.isnan(ewsg.diagnostics.predictive(none, data)).all()
    assert np.isnan(ewsg.diagnostics.log_predictive_density(none, model, data)).all()


@pytest.mark.full
def test_a_mass_and_a_correction_are_of_the_chains_that_count(run):
    plain = ewsg.Posterior(lambda p, y: -0.5 * (y - p) ** 2, lambda p: -0.005 * p**2)
    wide = jnp.full((1, 1), 1.0)
    assert ewsg.diagnostics.inverse_mass(run, wide)[0, 0] == pytest.approx(SD**2, rel=0.3)
    with pytest.raises(ValueError, match="must have a chain that did not diverge; got none"):
        ewsg.diagnostics.inverse_mass(everything(run), wide)
    report = ewsg.check(jax.random.key(2), run, plain, Y)
    moved = report.correct(run)
    assert moved.position.shape == run.position.shape
    assert near(moved.mean, moved.sd)
    assert near(report.correct(run.finite_draws).mean())
    np.testing.assert_array_equal(moved.position[7], run.position[7])
