"""Runs over several devices: `on_four_devices.py`'s checks, in a process with four."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import Mesh

import ewsg_jax as ewsg

CHECKS = Path(__file__).parent / "on_four_devices.py"
USUAL = (
    "chains: sghmc",
    "chains: ewsg_vr",
    "chains: flymc",
    "rows: svrg_ld",
    "rows: ewsg",
    "rows_and_chains",
    "covariances_are_those_of_all_batches",
    "rows_by_probability_are_unbiased",
    "rows_are_taken_from_where_they_are",
    "walls_are_those_of_one_device",
    "forecast: cv_uld",
    "estimates_are_unbiased",
    "batches_are_of_each_device_own_rows",
)
"""Some of every kind; the sweep makes all."""


def said(names, seconds):
    """What the checks of these names said, by name."""
    environment = dict(
        os.environ, PYTHONPATH=str(Path(ewsg.__file__).parents[1]), PYTHONWARNINGS="ignore"
    )
    ended = subprocess.run(
        [sys.executable, CHECKS, *names],
        env=environment,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    return dict(line.split("\t")[:2] for line in ended.stdout.splitlines() if "\t" in line)


@pytest.mark.full
def test_runs_over_four_devices():
    found = said(USUAL, 300)
    assert found == dict.fromkeys(USUAL, "ok")


@pytest.mark.sweep
def test_every_check_over_four_devices():
    found = said((), 1200)
    assert len(found) == len(ewsg.METHODS) + 40
    assert set(found.values()) == {"ok"}, found


def run_on(mesh, kernel=None, rows=8, **options):
    model = ewsg.models.gaussian_location()
    kernel = kernel or ewsg.sgld(model, 1e-2, batch_size=4)
    data, start = np.arange(float(rows))[:, None], np.zeros(1)
    return ewsg.sample(
        jax.random.key(0), kernel, start, data, 3, progress=False, mesh=mesh, **options
    )


def over(*axes):
    shape = (2,) + (1,) * (len(axes) - 1)
    return Mesh(np.array(jax.devices()[:2]).reshape(shape), axes)


@pytest.mark.parametrize(
    ("mesh", "options", "told"),
    [
        (2, {}, "mesh must be a jax.sharding.Mesh whose axes are 'chains', 'data' or both"),
        (over("batch"), {}, r"got one with the axes \('batch',\)"),
        (over("data"), {"rows": 1}, "an axis 'data' of at most n = 1 devices"),
        (over("chains"), {"chain_batch_size": 2}, "chain_batch_size must be None with mesh; got 2"),
    ],
)
def test_wrong_meshes_are_refused(mesh, options, told):
    with pytest.raises((TypeError, ValueError), match=told):
        run_on(mesh, **options)


@pytest.mark.full
def test_what_needs_all_rows_in_one_place_is_refused():
    model = ewsg.models.gaussian_location()
    with pytest.raises(ValueError, match=r"batch_size must be a multiple of 2, the parts .* got 3"):
        run_on(over("data"), ewsg.sgld(model, 1e-2, batch_size=3))
    for estimator in (
        ewsg.gradients.uniform(model, batch_size=4, rows="epochs"),
        ewsg.gradients.covariance_tracking(model, batch_size=4, rows="epochs"),
        ewsg.gradients.uniform(model, batch_size=4, rows="blocks"),
    ):
        kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-2), estimator)
        with pytest.raises(
            ValueError,
            match=r"for a kernel of which (epochs|blocks)\(batch_size=4\) needs all rows on one "
            r"device",
        ):
            run_on(over("data"), kernel)
        # One device along the axis is no cut.
        assert run_on(over("chains", "data"), kernel).num_steps == 3
