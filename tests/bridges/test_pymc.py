"""What `from_pymc` returns: draws in the model's names, predictions, floats, flags, files."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.bridges.needs_pymc import skip_without_pymc

skip_without_pymc()

import pymc as pm  # noqa: E402
import pytensor  # noqa: E402

from tests.bridges import pymc_models as models  # noqa: E402

KEY = jax.random.key(0)


def sampled(model, steps=60, **options):
    kernel = ewsg.sgld(model.posterior, 1e-3, batch_size=6)
    options = {"num_chains": 2, "progress": False} | options
    return ewsg.sample(KEY, kernel, model.position, model.data, steps, **options)


@pytest.fixture(scope="module")
def logistic():
    model = ewsg.from_pymc(models.model("logistic"))
    return model, sampled(model)


def test_a_position_has_pymcs_names_and_start(logistic):
    model, _ = logistic
    whole = models.model("logistic")
    for name, value in whole.initial_point().items():
        np.testing.assert_allclose(model.position[name], value)
    assert repr(model) == "BridgedModel(w (3,), intercept_interval__; 24 rows)"
    assert {name: x.shape for name, x in model.data.items()} == {"x": (24, 3), "labels": (24,)}


def test_draws_have_dims_coords_and_observed_data(logistic):
    model, samples = logistic
    tree = model.to_arviz(samples, log_likelihood=True)
    assert tree["posterior"]["w"].dims == ("chain", "draw", "feature")
    assert list(tree["posterior"]["feature"].values) == ["a", "b", "c"]
    assert tree["observed_data"]["y"].dims == ("obs",)
    np.testing.assert_array_equal(tree["observed_data"]["y"], models.BINARY)
    assert tree["log_likelihood"]["y"].shape == (2, 60, 24)
    last = jax.tree.map(lambda x: x[1, -1], samples.draws)
    lp = -model.posterior.potential(last, model.data)
    np.testing.assert_allclose(tree["sample_stats"]["lp"][1, -1], lp, rtol=1e-5)
    assert not tree["sample_stats"]["diverging"].any()
    # The interval's own map, at the same draws.
    logit = samples.draws["intercept_interval__"]
    np.testing.assert_allclose(
        tree["posterior"]["intercept"], -2 + 5 / (1 + np.exp(-logit)), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_array_equal(tree["posterior"]["w"], samples.draws["w"])


def test_log_likelihoods_of_rows_on_another_axis_have_a_name_of_their_own():
    """An observed table (k, obs) has two axes, and the log likelihood of its rows has one."""

    def write():
        level = pm.Normal("level", shape=2)
        pm.Normal("y", level[:, None], 1, observed=models.TABLE.T, dims=("pair", "obs"))

    model = ewsg.from_pymc(models.model("", write), rows="obs")
    tree = model.to_arviz(sampled(model, 4), log_likelihood=True)
    assert tree["observed_data"]["y"].shape == (2, models.N)
    assert tree["log_likelihood"]["log_likelihood"].dims == ("chain", "draw", "row")


def test_predictions_are_pymcs_for_its_data_and_for_new_data(logistic):
    model, samples = logistic
    assert model.predict(KEY, samples)["y"].shape == (2, 60, 24)
    # Probabilities are 0 and 1 to rounding.
    sure = {"x": np.outer([-1, 1, 1], [1e6, 0, 0]), "labels": np.zeros(3, int)}
    new = model.predict(KEY, samples, **sure, coords={"obs": ["i", "j", "k"]})["y"]
    assert new.shape == (2, 60, 3)
    np.testing.assert_array_equal(new[..., 1], samples.draws["w"][..., 0] > 0)
    np.testing.assert_array_equal(new[..., 0] == 0, new[..., 1] == 1)
    again = model.predict(KEY, samples)["y"]
    np.testing.assert_array_equal(again, model.predict(KEY, samples)["y"])
    assert (again != model.predict(jax.random.key(1), samples)["y"]).any()


def test_predictions_are_refused_in_a_sentence(logistic):
    model, samples = logistic
    with pytest.raises(ValueError, match=r"pm\.Data, of 'x', 'labels'; got 'z'"):
        model.predict(KEY, samples, z=1)
    with pytest.raises(ValueError, match="lengths that the model takes; PyMC failed"):
        model.predict(KEY, samples, x=np.zeros((5, 3)))
    of_batches = ewsg.from_pymc(models.model("minibatch"))
    with pytest.raises(ValueError, match=r"got one with pm\.Minibatch"):
        of_batches.predict(KEY, sampled(of_batches, 4))


def test_deterministic_variables_are_computed():
    model = ewsg.from_pymc(models.model("linear"))
    draws = {"w": np.ones((2, 5, 3), np.float32), "sigma_log__": np.zeros((2, 5), np.float32)}
    values = model.constrain(draws)
    assert sorted(values) == ["mean", "sigma", "w"]
    np.testing.assert_allclose(
        values["mean"], np.broadcast_to(models.X.sum(1), (2, 5, models.N)), rtol=1e-5
    )
    np.testing.assert_allclose(values["sigma"], 1.0)


def test_a_run_with_batches_has_the_exact_moments():
    """A normal mean whose posterior is known, with n = 24 rows of unit noise and a unit prior."""

    def write():
        mean = pm.Normal("mean", 0, 1)
        pm.Normal("y", mean, 1, observed=models.Y)

    model = ewsg.from_pymc(models.model("", write))
    kernel = ewsg.uld(model.posterior, 0.05, friction=5.0, integrator="BAOAB")
    samples = ewsg.sample(
        KEY, kernel, model.position, model.data, 3_000, num_chains=50, burn_in=500, progress=False
    )
    exact = models.Y.sum() / (models.N + 1)
    # 50 chains with some 300 effective draws each: five standard errors.
    assert abs(samples.draws["mean"].mean() - exact) < 5 * 0.2 / np.sqrt(15_000)


@pytest.mark.usual_parameters("False-float64")
@pytest.mark.parametrize("floats", ["float64", "float32"])
@pytest.mark.parametrize("has_x64", [False, True])
def test_floats_are_those_of_jax(floats, has_x64):
    with pytensor.config.change_flags(floatX=floats), jax.enable_x64(has_x64):
        model = ewsg.from_pymc(models.model("linear"))
        wanted = np.dtype(floats if has_x64 else "float32")
        assert {x.dtype for x in jax.tree.leaves(model.position)} == {wanted}
        at = jax.tree.map(lambda x: x + 0.25, model.position)
        gradient = jax.jit(model.posterior.gradient)(at, model.data)
        assert {x.dtype for x in jax.tree.leaves(gradient)} == {wanted}
        potential = jax.jit(model.posterior.potential)(at, model.data)
    density = models.model("linear").compile_logp(mode="FAST_COMPILE")
    np.testing.assert_allclose(-potential, density(jax.tree.map(np.asarray, at)), rtol=1e-5)


SET_BACK = """
import os, jax
os.environ["XLA_FLAGS"] = "--xla_cpu_enable_fast_math=false"
from ewsg_jax.bridges import _pymc
with jax.enable_x64(True):
    _pymc._imported("from_pymc")
assert os.environ["XLA_FLAGS"] == "--xla_cpu_enable_fast_math=false"
assert jax.numpy.zeros(1).dtype == "float32" and len(jax.devices()) == 1
"""


@pytest.mark.full
def test_what_pymc_sets_for_the_process_is_set_back():
    done = subprocess.run(
        [sys.executable, "-c", SET_BACK],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"JAX_PLATFORMS": "cpu"},
    )
    assert done.returncode == 0, done.stderr


def test_other_versions_are_refused(monkeypatch):
    monkeypatch.setattr(pm, "__version__", "5.28.5")
    with pytest.raises(ImportError, match=r"takes PyMC 6, on Python 3.12 or later; got PyMC 5.28"):
        ewsg.from_pymc(None)


@pytest.mark.full
def test_a_checkpoint_knows_the_model(tmp_path):
    """The same in another process, as its digest is; with another number it is refused."""

    def of(scale):
        def write():
            pm.Normal("y", pm.Normal("mean", 0, scale), 1, observed=models.Y)

        return ewsg.from_pymc(models.model("", write))

    first, again, other = of(1.0), of(1.0), of(2.0)
    path = str(tmp_path / "run")
    whole = sampled(first, checkpoint=path)
    kernel = ewsg.sgld(again.posterior, 1e-3, batch_size=6)
    resumed = ewsg.resume(path, again.data, kernel=kernel, progress=False)
    np.testing.assert_array_equal(resumed.draws["mean"], whole.draws["mean"])
    kernel = ewsg.sgld(other.posterior, 1e-3, batch_size=6)
    with pytest.raises(ValueError, match="kernel must have the functions"):
        ewsg.resume(path, other.data, kernel=kernel, progress=False)
