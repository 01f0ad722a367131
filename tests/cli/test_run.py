"""Whole runs through the command line."""

import errno
import json
import os
import shutil
import signal
import subprocess

import numpy as np
import pytest

from ewsg_jax.__main__ import main
from ewsg_jax.cli.config import load
from ewsg_jax.run import archive
from tests.cli.commands import FILES, configuration, ended, files, whole


def test_a_run_writes_its_files(tmp_path):
    config, output = configuration(tmp_path), tmp_path / "made" / "here"
    printed = whole("run", config, "--output", output)
    assert files(output) == FILES
    assert (output / "config.toml").read_text() == config.read_text()
    assert (output / "report.txt").read_text() == printed
    for part in (
        "A word about it.",
        "R-hat",
        "ESS",
        "114 held out",
        "what gradient noise adds to the temperature: 0.",
        "what gradient noise adds to the temperature: unknown: weights choose the batch",
        "sghmc: UNSURE",
        "against the reference",
    ):
        assert part in printed

    metrics = json.loads((output / "metrics.json").read_text())
    assert set(metrics["versions"]) == {"python", "jax", "ewsg_jax", "numpy"}
    assert metrics["device"]
    assert (metrics["num_train"], metrics["num_test"], metrics["interrupted"]) == (455, 114, False)
    assert list(metrics["runs"]) == ["reference", "sghmc", "ewsg"]
    for label in ("sghmc", "ewsg"):
        run = metrics["runs"][label]
        assert run["data_passes"] == pytest.approx(4, abs=0.3)
        assert run["compile_seconds"] > 0
        assert run["run_seconds"] > 0
        assert set(run["coordinates"]["intercept"]) == {
            "mean",
            "sd",
            "rhat",
            "ess_bulk",
            "ess_tail",
            "mcse",
        }
        assert 0.5 < run["held_out"]["accuracy"] <= 1
        assert run["held_out"]["log_likelihood"] < 0
        assert (run["gradient_noise"]["median"] is None) == (label == "ewsg")
        assert run["check"]["verdict"]
        assert "sd_ratio_median" in run["distance_to_reference"]
    assert metrics["runs"]["reference"]["data_passes"] == 40

    with np.load(output / "draws.npz") as draws:
        assert draws["names"].tolist()[-1] == "intercept"
        for label, run in metrics["runs"].items():
            assert draws[label].shape == (2, run["num_draws"], 31)
            assert draws[f"{label}.data_passes"].shape == (run["num_draws"],)


def test_a_diverged_run_is_reported_and_the_seed_is_kept(tmp_path, capsys):
    """In this process, where every warning is an error."""
    config, output = configuration(tmp_path, step_size=1e12), tmp_path / "out"
    text = config.read_text()
    reference = text.index("[reference]")
    first = text.index("[[methods]]")
    second = text.rindex("[[methods]]")
    config.write_text(text[:reference] + text[first:second])
    with pytest.warns(RuntimeWarning, match="2 of 2 chains diverged"):
        assert main(["run", str(config), "--output", str(output), "--seed", "5"]) == 0
    said = capsys.readouterr().out
    assert "2 of 2 chains DIVERGED" in said
    assert "\nsghmc: WRONG: every chain diverged" in said
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["runs"]["sghmc"]["held_out"]["log_likelihood"] is None
    assert metrics["runs"]["sghmc"]["finite_chains"] == 0
    assert metrics["seed"] == load(output / "config.toml")[0].run.seed == 5
    assert files(output) == FILES


def test_data_that_are_not_there_are_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("EWSG_JAX_DATA", str(tmp_path / "nothing"))
    config = configuration(tmp_path)
    config.write_text(config.read_text().replace("breast_cancer", "covertype"))
    assert main(["run", str(config), "--output", str(tmp_path / "out")]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"ewsg_jax: error: {config}: EWSG_JAX_DATA must name a folder")
    assert told.err.count("\n") == 1


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_an_interrupt_writes_what_there_is(tmp_path):
    config, output = configuration(tmp_path, passes=1e7), tmp_path / "out"
    status, printed, errors = ended(
        ["run", config, "--output", output],
        output / "metrics.json",
        lambda process: process.send_signal(signal.SIGINT),
        pause=0.3,
    )
    assert status == 130
    assert "interrupted" in printed
    assert "Traceback" not in errors
    assert files(output) == FILES | {"checkpoints"}
    metrics = json.loads((output / "metrics.json").read_text())
    assert metrics["interrupted"] is True
    assert "ewsg" not in metrics["runs"]


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_killed_run_resumes(tmp_path):
    """It says so, gives what it would have given, and leaves no checkpoint; another configuration
    starts again.
    """
    config, output = configuration(tmp_path), tmp_path / "out"
    words = ["run", config, "--output", output]
    ended(words, output / "checkpoints" / "ewsg" / "run.npz", subprocess.Popen.kill)
    shutil.copytree(output, tmp_path / "copy")
    config.write_text(f"# A comment changes nothing.\n{config.read_text()}")
    told = whole(*words)
    assert f"resumes from {output}/checkpoints/, left by an earlier start" in told
    assert files(output) == FILES
    assert "resumes from" not in whole("run", config, "--output", tmp_path / "new")
    with np.load(output / "draws.npz") as draws, np.load(tmp_path / "new" / "draws.npz") as wanted:
        for name in wanted:
            np.testing.assert_array_equal(draws[name], wanted[name])
    another = configuration(tmp_path, passes=5)
    assert "resumes from" not in whole("run", another, "--output", tmp_path / "copy")


def test_a_damaged_checkpoint_is_one_line(tmp_path, capsys):
    config, output = configuration(tmp_path), tmp_path / "out"
    damaged = output / "checkpoints" / "reference"
    damaged.mkdir(parents=True)
    (damaged / "run.npz").write_bytes(b"PK")
    (output / "config.toml").write_text(config.read_text())
    assert main(["run", str(config), "--output", str(output)]) == 2
    told = capsys.readouterr().err
    assert told.count("error: ") == 1
    # Those of the other runs need not be lost with it.
    assert f": remove {damaged} to start this run again" in told


def test_a_run_that_wrote_nothing_starts_again(tmp_path, monkeypatch, capsys):
    config, output = configuration(tmp_path), tmp_path / "out"
    words = ["run", str(config), "--output", str(output), "--quiet"]

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "run.npz")

    with monkeypatch.context() as patch:
        patch.setattr(archive, "write", full)
        assert main(words) == 2
    assert (output / "checkpoints" / "reference").is_dir()
    assert main(words) == 0
    assert files(output) == FILES
