"""`plan` and `check` from the terminal, on rows of a file."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.__main__ import main
from ewsg_jax.cli import console
from ewsg_jax.model_checks.finding import Finding
from tests.cli.commands import FILES as OF_A_RUN
from tests.cli.commands import command, ended, files, whole

ROOT = Path(__file__).parents[2]
FILES = OF_A_RUN | {"report.html"}


def rows_of(folder, n=200):
    generator = np.random.default_rng(0)
    x = generator.normal([30, 2], [10, 0.5], (n, 2))
    y = generator.random(n) < 1 / (1 + np.exp(3 - 0.1 * x[:, 0]))
    path = folder / "rows.csv"
    lines = [f"{a!r},{b!r},{'yes' if c else 'no'}" for (a, b), c in zip(x.tolist(), y, strict=True)]
    path.write_text("\n".join(["age,dose,died", *lines]) + "\n")
    return path


def test_a_plan_of_200_rows(tmp_path, capsys):
    """The answer first; without a chain too, where that is right; and nothing is written."""
    path = rows_of(tmp_path)
    assert main(["plan", str(path), "--model", "logistic"]) == console.Exit.OK
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("Kernel: ")
    assert said[1].startswith("Trusted: ")
    assert re.match(r"A run to an effective sample size of 8,712: [\d,.]+ passes", said[2])
    assert said[3].startswith("Without a chain: the Gaussian at the mode")
    table = {line.split()[0]: line.split()[1:] for line in said[5:8]}
    assert set(table) == {"age", "dose", "intercept"}
    mean, sd, unscaled, _ = map(float, table["age"])
    assert 0.5 < mean < 2
    assert 0.05 < sd < 0.4
    assert unscaled == pytest.approx(0.1, abs=0.05)
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows.csv"]


@pytest.mark.full
def test_a_plan_that_is_not_trusted_says_so_by_its_status(tmp_path, capsys, monkeypatch):
    made = ewsg.plan
    doubts = tuple(Finding("pilot_run", "doubt", text, "another model") for text in "ab")
    monkeypatch.setattr(
        ewsg, "plan", lambda *given, **o: dataclasses.replace(made(*given, **o), findings=doubts)
    )
    arguments = ["plan", str(rows_of(tmp_path)), "--model", "logistic", "--quiet"]
    assert main(arguments) == console.Exit.DOUBTFUL
    assert "NOT TRUSTED: a; b. What to do: another" in capsys.readouterr().out


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A plan's folder, and what was printed."""
    folder = tmp_path_factory.mktemp("planned")
    words = command("plan", rows_of(folder), "--model", "logistic", "--output", folder / "out")
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return folder / "out", done.stdout


@pytest.mark.full
def test_a_plan_is_carried_out_and_written(written):
    output, said = written
    assert files(output) == FILES
    assert (output / "check-plan.png").stat().st_size > 10_000
    assert said.splitlines()[0].startswith("Kernel: ")
    assert (output / "report.txt").read_text() == said
    run = json.loads((output / "metrics.json").read_text())["runs"]["plan"]
    assert run["check"]["outcome"] == "right"
    assert run["num_chains"] == 8
    assert "held_out" not in run
    with np.load(output / "draws.npz") as arrays:
        assert arrays["names"].tolist() == ["age", "dose", "intercept"]
        assert arrays["unscaled names"].tolist() == ["age", "dose", "intercept"]
        assert arrays["plan"].shape == arrays["plan.unscaled"].shape
        assert arrays["plan.unscaled"][..., 0].mean() == pytest.approx(0.1, abs=0.05)


@pytest.mark.full
def test_what_was_written_is_checked(written, tmp_path, capsys):
    output, _ = written
    assert main(["check", str(output)]) == console.Exit.OK
    said = capsys.readouterr().out
    assert said.startswith("plan: RIGHT within tolerance")
    assert "age" in said
    copy = tmp_path / "copy"
    shutil.copytree(output, copy)
    with np.load(output / "draws.npz") as arrays:
        kept = dict(arrays)
    mean = kept["plan"].mean((0, 1))
    np.savez(copy / "draws.npz", **kept | {"plan": mean + 1.5 * (kept["plan"] - mean)})
    assert main(["check", str(copy), "--quiet"]) == console.Exit.WRONG
    assert capsys.readouterr().out.startswith("plan: WRONG: too wide by ")
    np.savez(copy / "draws.npz", **kept | {"plan": kept["plan"][:, :20]})
    assert main(["check", str(copy), "--quiet"]) == console.Exit.DOUBTFUL
    np.savez(copy / "draws.npz", **kept | {"plan": kept["plan"][:, :5]})
    assert main(["check", str(copy), "--quiet"]) == console.Exit.DOUBTFUL
    assert "plan: UNSURE: too few draws to check, 5 of a chain" in capsys.readouterr().out
    np.savez(copy / "draws.npz", **kept | {"plan": np.nan * kept["plan"]})
    assert main(["check", str(copy), "--quiet"]) == console.Exit.WRONG
    np.savez(copy / "draws.npz", **kept | {"plan": kept["plan"][:, :0]})
    assert main(["check", str(copy), "--quiet"]) == console.Exit.USAGE_ERROR
    assert "must hold draws" in capsys.readouterr().err
    assert main(["check", str(output), "--run", "ewsg"]) == console.Exit.USAGE_ERROR
    assert "--run must be one of 'plan'; got 'ewsg'" in capsys.readouterr().err


@pytest.mark.full
def test_a_saved_run_is_checked(tmp_path, capsys):
    x = np.random.default_rng(0).normal(size=(300, 2))
    y = x @ [1.0, -1.0] + np.random.default_rng(1).normal(size=300)
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    data = jax.tree.map(jax.numpy.asarray, {"x": x.astype("f"), "y": y.astype("f")})
    model = ewsg.models.linear_regression()
    kernel = ewsg.uld(model, 0.01, friction=20.0)
    options = {"num_chains": 8, "burn_in": 200, "thin": 4}
    run = ewsg.sample(jax.random.key(0), kernel, jax.numpy.zeros(2), data, 8_000, **options)
    run.save(tmp_path / "run.npz")
    arguments = ["check", str(tmp_path / "run.npz"), "--data", str(tmp_path / "rows.npz")]
    options = ["--model", "linear", "--noise-scale", "1", "--no-standardise", "--no-intercept"]
    assert main([*arguments, *options]) == console.Exit.OK
    assert capsys.readouterr().out.startswith("run: RIGHT")
    # Of other noise it is another posterior.
    assert main([*arguments, *options, "--noise-scale", "3"]) == console.Exit.WRONG
    # And with an intercept, of another size.
    capsys.readouterr()
    assert main([*arguments, *options[:-1]]) == console.Exit.USAGE_ERROR
    assert capsys.readouterr().err.startswith("ewsg_jax: error: ")


@pytest.mark.full
@pytest.mark.parametrize("model", ["linear", "softmax"])
def test_other_models_are_carried_out(tmp_path, capsys, model):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(150, 2))
    y = np.argmax(x @ generator.normal(size=(2, 3)) + generator.gumbel(size=(150, 3)), 1)
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    path, output = str(tmp_path / "rows.npz"), tmp_path / "out"
    words = ["plan", path, "--model", model, "--output", str(output), "--ess", "2000", "--quiet"]
    assert main(words) in (console.Exit.OK, console.Exit.DOUBTFUL)
    assert files(output) == FILES
    assert main(["check", str(output), "--quiet"]) in (console.Exit.OK, console.Exit.DOUBTFUL)
    assert "plan: " in capsys.readouterr().out


@pytest.mark.full
@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_an_interrupt_loses_nothing(tmp_path):
    """The same command resumes, and gives what it would have given."""
    words = ["plan", rows_of(tmp_path), "--model", "logistic", "--ess", "3e5", "--output"]
    output, alone = tmp_path / "out", tmp_path / "whole"
    kept = output / "checkpoints"
    status, said, errors = ended(
        [*words, output],
        kept / "plan" / "run.npz",
        lambda process: process.send_signal(signal.SIGINT),
        pause=1,
    )
    assert status == console.Exit.INTERRUPTED, errors
    assert "Traceback" not in errors
    assert f"the same command resumes from {kept}/" in said
    assert files(output) == FILES | {"checkpoints"}
    assert f"resumes from {kept}/" in whole(*words, output)
    assert "resumes from" not in whole(*words, alone)
    assert not kept.exists()
    draws = [np.load(folder / "draws.npz")["plan"] for folder in (output, alone)]
    np.testing.assert_array_equal(*draws)


@pytest.mark.full
@pytest.mark.skipif(os.name == "nt", reason="a shell")
def test_the_page_s_rows_are_made_planned_and_checked(tmp_path):
    """By the shell, as the page has it."""
    page = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    # A link would not find the packages of a virtual environment.
    (tmp_path / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    paths = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    shell = ["bash", "-e", "-c", "".join(blocks[:2])]
    environment = os.environ | paths
    done = subprocess.run(shell, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Kernel: ") == 2
    assert "plan: RIGHT within tolerance" in done.stdout


@pytest.mark.full
def test_an_interrupt_before_a_run_has_ended_leaves_what_there_was(
    written, tmp_path, capsys, monkeypatch
):
    """Of an earlier start of the same command."""
    from ewsg_jax.cli import run

    def interrupt(*_):
        raise KeyboardInterrupt

    folder = tmp_path / "out"
    shutil.copytree(written[0], folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr(run, "execute", interrupt)
    path = str(written[0].parent / "rows.csv")
    words = ["plan", path, "--model", "logistic", "--output", str(folder), "--quiet"]
    assert main(words) == console.Exit.INTERRUPTED
    assert "interrupted before a run ended: the same command resumes" in capsys.readouterr().out
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    # Of another command nothing is left that could be taken for its draws.
    assert main([*words, "--seed", "1"]) == console.Exit.INTERRUPTED
    assert [path.name for path in folder.iterdir()] == ["config.toml"]
