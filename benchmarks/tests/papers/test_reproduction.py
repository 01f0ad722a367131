"""The papers' experiments: rules, the arithmetic under them, runs that resume."""

import dataclasses
import functools
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks.on_gpu import with_values
from benchmarks.papers import command, gaussian, gaussian_mse
from benchmarks.papers.command import EXPERIMENTS
from benchmarks.papers.experiment import FAILS, HOLDS, IN_PART, Claim, Experiment, verdict_of
from benchmarks.papers.figures import Line, Panel, png
from benchmarks.papers.running import (
    CONFIGS,
    RESULT,
    SCALES,
    judged,
    run,
    settings_of,
    stored,
    text_of,
)
from benchmarks.papers.sizes import AS_IN_THE_PAPER, CHOSEN, size_of
from ewsg_jax.__main__ import main
from ewsg_jax.cli.config import ConfigError
from ewsg_jax.cli.results import Folder
from tests.oracles.gaussian import kl_divergence

STORED = sorted((CONFIGS / "results").glob(f"*/{RESULT}"))


# What is stored.


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.parent.name)
def test_a_stored_verdict_follows_from_stored_numbers(path):
    """By the rule as it stands, from the numbers alone, made with the configuration."""
    result = json.loads(path.read_text())
    name = path.parent.name
    expected = json.loads(json.dumps(judged(EXPERIMENTS[name], result["parts"])))
    assert {key: result[key] for key in expected} == expected
    assert tomllib.loads(result["config"]) == tomllib.loads(text_of(name))
    assert (path.parent / "figure.png").is_file()


def test_sizes_are_those_that_were_run():
    """What is cut is told, and a run at the paper's values is called so."""
    said = {
        name: size_of(name, result["config"], result["scale"])
        for name in EXPERIMENTS
        if (result := stored(name)) is not None
    }
    assert said["mnist-cnn"].startswith("5 of 200 passes, 10,000 of 60,000 rows, ")
    assert said["blr-vr"] == "200 of 1,000 chains"
    assert said["gaussian-kl"] == "the paper's"
    for name, size in said.items():
        has_cut = any(word in text_of(name) for word in ("Cut: ", "Left of it: ", "are left "))
        assert (size not in (AS_IN_THE_PAPER, CHOSEN)) or not has_cut, name
        assert size_of(name, "", "quick") == "quick"
    whole = with_values(text_of("blr-vr"), {"num_chains": 1_000})
    assert size_of("blr-vr", whole, "full") == AS_IN_THE_PAPER
    listed = command.listed().splitlines()
    assert all(line.endswith(said[line.split()[0]]) for line in listed)


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("scale", SCALES)
def test_every_configuration_is_one(name, scale):
    experiment = EXPERIMENTS[name]
    assert len(experiment.parts(settings_of(experiment.settings, text_of(name), scale))) > 1


WRONG = [
    ("mnist-cnn", {"shrink": 3}, "shrink must be 1, 2 or 4"),
    ("mnist-cnn", {"channels": (4,)}, "channels must be two numbers or none"),
    ("mnist-m", {"candidates": (1,)}, "candidates must be at least 2 each"),
    ("linear-gaussian", {"factors": (2.0,)}, "factors must hold 1"),
    ("covertype", {"methods": []}, "flymc"),
    ("vr-hmc-regression", {"data": ("pima", "bike")}, "data.* must be"),
    ("vr-regimes", {"data_passes": (1.0,)}, "data must be some of"),
]


@pytest.mark.parametrize(("name", "change", "said"), WRONG)
def test_settings_that_cannot_be_run_are_refused(name, change, said):
    settings = settings_of(EXPERIMENTS[name].settings, text_of(name), "quick")
    with pytest.raises(ConfigError, match=said):
        dataclasses.replace(settings, **change)


def test_the_command_needs_a_checkout(monkeypatch, tmp_path, capsys):
    """Of an installed wheel there is the package alone."""
    monkeypatch.setattr("ewsg_jax.__main__.PAPERS_FOLDER", tmp_path / "none")
    for words in (["list", "experiments"], ["reproduce", "gaussian-mse"]):
        assert main(words) == 2
        assert "experiments need a checkout of the repository" in capsys.readouterr().err
    assert main(["list"]) == 0
    assert "experiments:" not in capsys.readouterr().out


def test_the_command_works_from_a_folder_with_benchmarks_of_its_own(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "__init__.py").write_text("raise ImportError('not these')")
    command = [sys.executable, "-m", "ewsg_jax", "list", "experiments"]
    paths = {"PYTHONPATH": str(Path(ewsg.__file__).parents[1])}
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | paths, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(EXPERIMENTS)


# How it is judged.


def test_claims_hold_by_shares():
    shares = {0.0: FAILS, 0.1: FAILS, 0.11: IN_PART, 0.89: IN_PART, 0.9: HOLDS, 1.0: HOLDS}
    for share, verdict in shares.items():
        assert Claim("", share, "").verdict == verdict
    good, bad = Claim("", 1.0, ""), Claim("", 0.0, "")
    beside = dataclasses.replace(bad, by_the_paper=False)
    assert verdict_of([good, good, beside]) == HOLDS
    assert verdict_of([bad, bad]) == FAILS
    assert verdict_of([good, bad]) == IN_PART


# What it is judged by.


def test_the_divergence_is_that_of_normal_laws():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(500, 2)) @ [[0.3, 0.1], [0.0, 0.2]] + 0.1
    rows = rng.normal(size=(50, 2))
    expected = kl_divergence(rows.mean(0), np.eye(2) / 50, draws.mean(0), np.cov(draws.T))
    np.testing.assert_allclose(gaussian.divergence(draws, rows), expected, rtol=1e-12)
    assert gaussian.divergence(np.full((9, 2), np.nan), rows) == np.inf
    assert gaussian.divergence(np.zeros((9, 2)), rows) == np.inf


def test_averages_are_those_of_all_steps():
    """Of a run in segments, each chain's own: a chain typed by hand."""
    data, chains = gaussian.rows_of(0), 3
    kernel = ewsg.sgld(gaussian.MODEL, 1e-3, batch_size=1)
    found = gaussian_mse.averages(kernel, data, chains, [2, 5], jax.random.key(1))
    whole = ewsg.sample(jax.random.key(1), kernel, jnp.zeros(2), data, 5, num_chains=chains)
    values = np.sum(
        (np.asarray(whole.position, float) - np.asarray(data, float).mean(0)) ** 2, axis=-1
    )
    np.testing.assert_allclose(found, [values[:, :2].mean(1), values.mean(1)], rtol=1e-5)


@functools.cache
def small():
    """All of an experiment of the Gaussian, made small."""
    text = text_of("gaussian-x")
    settings = settings_of(gaussian.Settings, text, "quick")
    return dataclasses.replace(
        settings,
        num_chains=128,
        data_passes=4,
        data_seeds=(0,),
        tuning_chains=16,
        step_sizes=(1e-3, 0.9),
    )


def test_a_small_experiment():
    """The unstable step is not taken; passes are equal; what is checked is what was run."""
    done = {}
    for name, compute in gaussian.parts(small()).items():
        done[name] = compute(done) | {"seconds": 0.0}
    assert set(done["tuning"]["step_sizes"].values()) == {1e-3}
    ends = [
        curve["passes"][-1]
        for which in ("paper", "tuned")
        for curve in done["data 0"][which].values()
    ]
    assert ends == [4.0] * 8
    assert done["data 0"]["evaluations"] == 8 * 128 * 4 * 50
    curve = done["data 0"]["paper"]["x = √hγr/σ"]
    assert curve["check"]["outcome"] == "wrong"
    assert curve["check"]["sd_ratio"] > 1.5
    result = judged(EXPERIMENTS["gaussian-x"], done)
    assert len(result["claims"]) == 2
    assert png(EXPERIMENTS["gaussian-x"].draw(done))[:4] == b"\x89PNG"


def test_a_map_has_each_method_at_each_step():
    """As runs of one kernel have it; lost chains are no number."""
    settings = dataclasses.replace(small(), map_step_sizes=(1e-3, 0.9), methods=small().methods[:1])
    part = gaussian.parts(settings)["data 0"]({"tuning": {"step_sizes": {"x = √hγr/σ": 1e-3}}})
    (method,) = settings.named.values()
    data, key = gaussian.rows_of(0), jax.random.fold_in(jax.random.key(0), 0)
    one = gaussian.run_of(gaussian.kernel_of(method, 1e-3), data, settings.tuning_chains, 4, key)
    found = part["map"]["kl"]["x = √hγr/σ"]
    np.testing.assert_allclose(found[0], gaussian.divergences(one, data)[-1], rtol=1e-4)
    assert found[1] == np.inf
    assert part["evaluations"] == 2 * 128 * 4 * 50


# Runs.


@dataclasses.dataclass(frozen=True)
class Nothing:
    """Settings of an experiment that computes next to nothing."""

    size: int


def counting(fails_at, made):
    """An experiment of three parts, one of which may fail; `made` are those that were computed."""

    def part(name, settings):
        def compute(done):
            if name == fails_at:
                raise KeyboardInterrupt
            made.append(name)
            return {"sum": settings.size + len(done), "evaluations": 10}

        return compute

    return Experiment(
        "test",
        "nowhere",
        "nothing",
        Nothing,
        lambda settings: {name: part(name, settings) for name in "abc"},
        lambda parts: [Claim("sums grow", float(parts["c"]["sum"] > parts["a"]["sum"]), "")],
        lambda parts: [Panel("all", "x", "y", [Line("one", [1, 2], [3, 4])])],
    )


TEXT = "[full]\nsize = 7\n[quick]\nsize = 1\n"


def test_an_interrupted_experiment_goes_on(tmp_path):
    made, said = [], []
    with pytest.raises(KeyboardInterrupt):
        run(counting("b", made), TEXT, "quick", Folder(tmp_path), said.append)
    result = run(counting(None, made), TEXT, "quick", Folder(tmp_path), said.append)
    assert made == ["a", "b", "c"]
    assert said[0] == "test: 1 of 3 (a)"
    assert said[1].startswith("test: 2 of 3 (b), ")
    assert said[2:4] == ["test: resumes after 1 of 3 parts", "test: 2 of 3 (b)"]
    assert said[4].endswith(" s left")
    assert [part["sum"] for part in result["parts"].values()] == [1, 2, 3]
    assert result["verdict"] == HOLDS
    assert result["evaluations"] == 30
    assert {path.name for path in tmp_path.iterdir()} == {RESULT, "figure.png"}


def test_another_configuration_begins_anew(tmp_path):
    made = []
    with pytest.raises(KeyboardInterrupt):
        run(counting("c", made), TEXT, "quick", Folder(tmp_path), print)
    result = run(counting(None, made), TEXT, "full", Folder(tmp_path), print)
    assert made == ["a", "b", "a", "b", "c"]
    assert result["parts"]["a"]["sum"] == 7


def test_all_are_made_but_those_whose_data_are_missing(monkeypatch, tmp_path, capsys):
    made = []

    def without_data(settings):
        def compute(done):
            raise FileNotFoundError("found no rows.npz: put it there")

        return {"a": compute}

    two = {
        "first": dataclasses.replace(counting(None, made), parts=without_data),
        "second": counting(None, made),
    }
    monkeypatch.setattr(command, "EXPERIMENTS", two)
    monkeypatch.setattr(command, "text_of", lambda name: TEXT)
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "all", "--output", "here"]) == 1
    assert "first: not made: found no rows.npz" in capsys.readouterr().out
    assert made == ["a", "b", "c"]
    assert (tmp_path / "here" / "second-quick" / RESULT).is_file()


def test_the_list_tells_what_is_stored(capsys):
    assert main(["list", "experiments"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(EXPERIMENTS)
    for path in STORED:
        line = next(line for line in lines if line.split()[0] == path.parent.name)
        assert json.loads(path.read_text())["verdict"] in line
