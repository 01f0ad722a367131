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
from benchmarks.papers import command, convergence, gaussian, gaussian_mse, running
from benchmarks.papers.command import EXPERIMENTS
from benchmarks.papers.experiment import FAILS, HOLDS, IN_PART, Claim, Experiment, verdict_of
from benchmarks.papers.figures import Line, Panel, _label_short_axis, png
from benchmarks.papers.running import CONFIGS, RESULT, SCALES, judged, run, settings_of, text_of
from ewsg_jax import pictures
from ewsg_jax.__main__ import main
from ewsg_jax.experiments import ConfigError, Folder
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


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("scale", SCALES)
def test_every_configuration_is_one(name, scale):
    experiment = EXPERIMENTS[name]
    assert len(experiment.parts(settings_of(experiment.settings, text_of(name), scale))) > 1


def test_a_scale_that_is_no_table_is_refused():
    with pytest.raises(ConfigError, match="full must be a table of keys; got 7"):
        settings_of(gaussian_mse.Settings, "full = 7", "full")


def test_the_command_needs_a_checkout(monkeypatch, tmp_path, capsys):
    """Of an installed wheel there is the package alone."""
    monkeypatch.setattr("ewsg_jax.__main__.CHECKOUT", tmp_path / "none")
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


def curves(**ends):
    """Curves of three passes that end where told, at the paper's steps and at tuned ones."""
    both = {label: {"passes": [1, 2, 3], "kl": [9.0, *end]} for label, end in ends.items()}
    return {"paper": both, "tuned": both}


def test_curves_are_judged_by_their_ends():
    parts = {
        "tuning": {"step_sizes": {}},
        "data 0": curves(A=[2.0, 1.0], B=[3.0, 2.0], C=[5.0, 4.0]),
        "data 1": curves(A=[2.5, 1.0], B=[1.0, 0.5], C=[None, None]),
    }
    shares = lambda claims: [claim.share for claim in claims]
    assert shares(gaussian.closer(parts, "A", "C")) == [1.0, 1.0]
    assert shares(gaussian.closer(parts, "A", "B")) == [0.5, 0.5]
    assert shares(gaussian.least(parts, "B", ["A", "C"])) == [0.5, 0.5]
    assert shares(gaussian.ordered(parts, ["C", "B", "A"], "")) == [0.5, 0.5]
    # Within twice its end from the second pass on, and from the third.
    assert [gaussian.arrival(parts[f"data {i}"]["paper"], "A") for i in range(2)] == [2, 3]
    assert gaussian.arrival(parts["data 0"]["paper"], "C") == 2
    assert shares(gaussian.slowest(parts, "A", ["C"])) == [0.5, 0.5]
    assert [claim.by_the_paper for claim in gaussian.closer(parts, "A", "B")] == [True, False]


def test_slopes_are_judged_within_a_quarter():
    step = np.array([1.0, 2.0, 4.0])

    def part(scale):
        short = [{"mse": 2.0 + h, "full": 2.0} for h in step]
        return {
            "by_time": list(scale / step),
            "short": short,
            "long": [{"bias": h**1.2, "error": 0.0} for h in step],
        }

    axes = {"times": list(step), "short_steps": list(step), "long_steps": list(step)}
    claims = gaussian_mse.claims({"axes": axes, "data 0": part(1.0), "data 1": part(3.0)})
    assert [claim.share for claim in claims] == [1.0, 1.0, 0.0]
    assert np.isnan(gaussian_mse.slope([1, 2], [1, 0]))
    less = part(1.0)
    less["short"][0]["full"] = 4.0
    claims = gaussian_mse.claims({"axes": axes, "data 0": part(1.0), "data 1": less})
    assert (claims[1].share, claims[0].shown) == (0.5, "slopes -1.00, -1.00")
    assert (
        claims[1].shown == "slopes 1.00, none; none where it is not above 0, which it is not at 1"
    )


def test_means_are_judged_by_their_errors_and_order():
    def steps(shift, power):
        exact = [np.array([3.0, 2.0, 1.0])] * 2
        return [
            {
                "step": h,
                "exact": x,
                "SGHMC": x + shift,
                "EWSG": x + shift + h**power,
                "SGHMC, error": np.array([0.0, 0.01, 0.01]),
            }
            for h, x in zip((0.1, 0.2), exact, strict=True)
        ]

    shares = [
        [claim.share for claim in convergence.claims({"data 0": {"steps": steps(shift, power)}})]
        for shift, power in ((1e-5, 1.0), (0.06, 2.0), (0.0, 0.5))
    ]
    assert shares == [[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]


def test_exact_means_are_powers():
    h, gamma = 0.1, 1.5
    moved = np.linalg.matrix_power(np.eye(2) + h * np.array([[0, 1], [-1, -gamma]]), 7) @ [
        convergence.START,
        0,
    ]
    np.testing.assert_allclose(convergence.exact(h, gamma, 7)[-1], moved[0], rtol=1e-12)


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


def test_a_map_is_judged_step_by_step():
    """Two data sets, three steps, of which the last loses the first method's chains."""
    table = lambda a, b: {"map": {"step_sizes": [0.1, 0.2, 0.3], "kl": {"A": a, "B": b}}}
    parts = {"tuning": {}, "data 0": table([1.0, 2.0, None], [0.5, 3.0, 1.0])}
    parts["data 1"] = table([1.0, 5.0, None], [4.0, 3.0, 2.0])
    claim = gaussian.everywhere(parts, ["A", "B"], "B is closer")
    assert claim.share == 4 / 6
    assert claim.shown == "of 2 data sets at each h: 0.1 1, 0.2 1, 0.3 2"
    assert [each.share for each in gaussian.best(parts, ["A", "B"])] == [0.5, 0.5]
    assert not any(each.by_the_paper for each in [claim, *gaussian.best(parts, ["A", "B"])])


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


def test_a_figure_says_what_check_says_of_draws():
    """By the steps they ran at; of each method the right runs and the median of stated sds."""
    check = lambda outcome, **told: {"check": {"outcome": outcome, **told}}
    parts = {
        "tuning": {"step_sizes": {}},
        "data 0": {
            "paper": {"A": check("right", sd_ratio=1.1), "B": check(None, note="lost")},
            "seconds": 1.0,
        },
        "data 1": {
            "paper": {"A": check("wrong", sd_ratio=1.3), "B": [check("wrong", sd_ratio=9.0)]}
        },
        "C": {"tuned": check("right", sd_ratio=1.0)},
        "D": check("unsure", sd_ratio=0.5),
    }
    assert running.note(parts).splitlines()[1:] == [
        "at the paper's steps: A: 1 of 2, × 1.2; B: 0 of 2, × 9",
        "at tuned steps: C: 1 of 1, × 1",
        "D: 0 of 1, × 0.5",
    ]
    assert running.note({"axes": {"steps": [1, 2]}}) == ""


def test_a_short_logarithmic_axis_has_labels_apart():
    axis = pictures.blank(4, 3).subplots()
    axis.plot([200, 5_000], [1, 2])
    axis.set_xscale("log")
    _label_short_axis(axis)
    low, high = axis.get_xlim()
    told = [
        text.get_text() for text in axis.get_xticklabels() if low <= text.get_position()[0] <= high
    ]
    assert told == ["200", "500", "1000", "2000", "5000"]
    assert not len(axis.get_xticks(minor=True))


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
