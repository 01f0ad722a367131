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
    "chains_that_the_devices_divide",
    "rows: svrg_ld",
    "rows: ewsg",
    "rows_and_chains",
    "covariances_are_those_of_all_batches",
    "rows_by_probability",
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
    assert len(found) == len(ewsg.METHODS) + 39
    assert set(found.values()) == {"ok"}, found


@pytest.mark.full
@pytest.mark.parametrize("rows", ["epochs", "blocks"])
def test_one_device_along_the_axis_is_no_cut(rows):
    """A law of rows that no axis 'data' of two devices takes runs on one of a single device."""
    model = ewsg.models.gaussian_location()
    mesh = Mesh(np.array(jax.devices()[:2])[:, None], ("chains", "data"))
    samples = ewsg.sample(
        jax.random.key(0),
        ewsg.sgld(model, 1e-2, batch_size=4, rows=rows),
        np.zeros(1),
        np.arange(8.0)[:, None],
        3,
        mesh=mesh,
    )
    assert samples.num_steps == 3
