"""Mode, coordinates and numbers of steps against direct computations."""

import types
from typing import Any

import jax
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.cli import plan, processes
from ewsg_jax.cli.config import Config, ConfigError, build, from_toml
from ewsg_jax.cli.plan import execute, plans_of
from ewsg_jax.cli.problem import of_config

TEXT = """
title = "A title"
[data]
name = "breast_cancer"
drop_columns = ["mean_area"]
{data}
[model]
prior_scale = 2.0
coordinates = "{coordinates}"
[run]
num_chains = 2
data_passes = 1
start = "{start}"
[[methods]]
name = "sgld"
step_size = 1e-3
batch_size = 5
"""


def parse(text):
    return build(Config, from_toml(text))


def problem(coordinates="features", start="zero", data=""):
    return of_config(parse(TEXT.format(coordinates=coordinates, start=start, data=data)))


def test_a_flat_prior_on_dependent_features_is_refused(monkeypatch):
    """One column twice, and a prior so flat that float64 has no curvature between them."""
    whole = ewsg.datasets.load("breast_cancer")
    x = np.column_stack([whole.x[:, 0], whole.x[:, 0]])
    twice = ewsg.datasets.Dataset(x, whole.y, ("mean_area", "again"), "twice", "made here")
    monkeypatch.setattr(ewsg.datasets, "load", lambda name: twice)
    text = TEXT.format(coordinates="features", start="mode", data="").replace(
        'drop_columns = ["mean_area"]', ""
    )
    with pytest.raises(
        ConfigError, match=r"model.prior_scale must be smaller: .* not positive definite"
    ):
        of_config(parse(text.replace("prior_scale = 2.0", "prior_scale = inf")))


def test_curvature_coordinates_are_a_mass():
    """Of every method: the covariance at the mode; a method without one is refused."""
    made = problem("curvature", "mode")
    text = TEXT.format(coordinates="curvature", start="mode", data="")
    (planned,) = plans_of(parse(text), made)
    np.testing.assert_array_equal(planned.kernel.dynamics.mass.given, made.mode.covariance)
    with pytest.raises(ConfigError, match=r"psgld has no mass, which model.coordinates"):
        plans_of(parse(text.replace('"sgld"', '"psgld"')), made)


def test_starts_are_spread_around_the_mode():
    made = problem("features", "mode")
    mode = made.mode
    starts = jax.vmap(made.start)(jax.random.split(jax.random.key(0), 4000))
    weights = np.asarray(starts, np.float64)
    covariance = 4 * np.asarray(mode.covariance)
    sd = np.sqrt(np.diag(covariance))
    assert np.abs((weights.mean(0) - np.asarray(mode.position)) / sd).max() < 5 / np.sqrt(4000)
    np.testing.assert_allclose(weights.std(0) / sd, 1, atol=0.06)


def test_a_run_that_keeps_no_draw_is_refused_before_it():
    text = TEXT.format(coordinates="features", start="zero", data="")
    with pytest.raises(ConfigError, match="sgld: 0 steps keep no draw"):
        plans_of(parse(text.replace("data_passes = 1", "data_passes = 0.001")), problem())


SVRG = """
[[methods]]
name = "svrg_ld"
step_size = 1e-3
batch_size = 5
refresh_every = 70
"""


def test_burn_in_counts_refreshes():
    """The burn-in is the least number of steps that takes its passes, by counting them
    one by one.
    """
    text = TEXT.format(coordinates="features", start="zero", data="") + SVRG
    made = problem()
    for passes in (0, 3, 4.5):
        wanted = text.replace("data_passes = 1\n", f"data_passes = 10\nburn_in_passes = {passes}\n")
        _, planned = plans_of(parse(wanted), made)
        cost = planned.kernel.evaluations(made.train)
        assert (cost.at_init, cost.per_step, cost.per_refresh) == (0, 10, 455)
        steps, spent = 0, 0
        while spent < passes * 455:
            spent += 10 + 455 * (steps % 70 == 0)
            steps += 1
        assert planned.burn_in == steps


def test_a_run_is_judged_in_the_metric_of_its_kernel(tmp_path):
    """The noise is that of the gradients of rows there."""
    made = problem("curvature", "mode")
    experiment = parse(TEXT.format(coordinates="curvature", start="mode", data=""))
    (planned,) = plans_of(experiment, made)
    result = execute(planned, experiment.run.seed, made, None, tmp_path / "run")
    assert result.samples.position.shape[-1] == len(made.names)
    # h Cov(g)/2, with the curvature Σ ∇Vᵢ ∇Vᵢᵀ near the identity where the model is right.
    assert 0.2 < result.noise.median / (1e-3 / 2 * 455 / 5) < 5


def test_the_first_process_says_whether_a_run_resumes(tmp_path, monkeypatch):
    """Another process may still see a checkpoint of another job, which the first one removes."""
    checkpoint = tmp_path / "checkpoints" / "run"
    checkpoint.mkdir(parents=True)
    (checkpoint / plan.RUN_FILE).touch()
    monkeypatch.setattr(processes, "as_the_first", lambda answer: False)
    monkeypatch.setattr(ewsg, "sample", lambda *_, **options: "sampled")
    of_run = dict.fromkeys(["num_steps", "num_chains", "burn_in", "thin", "shared_minibatch"], 1)
    run: Any = types.SimpleNamespace(kernel=None, **of_run)
    rows: Any = types.SimpleNamespace(start=None, train=None)
    assert plan._sampled(jax.random.key(0), run, rows, checkpoint, False) == "sampled"
