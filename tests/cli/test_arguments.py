"""What the command line takes and says, without a run."""

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.__main__ import EXAMPLES, main, parser
from ewsg_jax.base import progress
from ewsg_jax.cli import console, data_file
from ewsg_jax.cli.config import Config, ConfigError, build, from_toml
from ewsg_jax.cli.plan_data import arguments_of, text_of
from ewsg_jax.cli.problem import of_config, prepare

PAGE = (Path(__file__).parents[2] / "docs" / "command_line.md").read_text(encoding="utf-8")


may_be_interrupted = pytest.mark.skipif(
    os.name == "nt" or signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    reason="interrupts are ignored here, as in a shell's background",
)


def commands(text):
    """The commands of a text, without `python -m ewsg_jax`."""
    found = re.findall(r"^\s*python -m ewsg_jax (.+?)(?:\s+#.*)?$", text, re.MULTILINE)
    return [shlex.split(words) for words in found]


def helped(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main([*words, "--help"])
    assert end.value.code == 0
    return capsys.readouterr().out


def test_version(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    assert capsys.readouterr().out == f"ewsg_jax {ewsg.__version__}\n"


@pytest.mark.parametrize("command", [name for name in EXAMPLES if name])
def test_help_ends_with_examples_that_are_taken(command, capsys):
    text = helped(capsys, command)
    assert text.index("examples:") > text.index("options:")
    assert "exit status:" in text
    found = commands(text)
    assert len(found) > 1
    for words in found:
        assert words[0] == command
        assert parser().parse_args(words).command == command


def test_the_first_help_names_every_command(capsys):
    text = helped(capsys)
    for command in ("plan", "check", "run", "list", "reproduce"):
        assert re.search(rf"^    {command}(?:  |$)", text, re.MULTILINE)
    assert commands(text)


@pytest.mark.full
def test_examples_of_the_first_help_run(tmp_path, monkeypatch, capsys):
    """One after the other, in a folder of a stranger's; that of `run` is tested elsewhere."""
    monkeypatch.chdir(tmp_path)
    found = [words for words in commands(helped(capsys)) if words[0] in ("plan", "check", "list")]
    for words in found[:-1]:
        assert main(words) == console.Exit.OK
    assert [words[0] for words in found] == ["plan", "plan", "check", "list", "plan"]
    assert "RIGHT within tolerance" in capsys.readouterr().out


@pytest.mark.skipif(os.name == "nt", reason="pipes")
def test_a_reader_that_has_seen_enough_ends_nothing():
    """Such as `head`: there is no traceback, and the command goes on."""
    code = "import sys, time; from ewsg_jax.cli.console import write_line as put\n"
    code += "put('a'); time.sleep(1); put('b'); put('c'); print('ended', file=sys.stderr)"
    command = f'{shlex.quote(sys.executable)} -c "{code}" | head -1'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("a\n", "ended\n")


def test_a_terminal_without_a_letter_has_another(monkeypatch):
    written = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", written)
    console.write_line("N(0, 1² I) ± 0.1")
    written.seek(0)
    assert written.read() == "N(0, 1? I) ? 0.1\n"


@may_be_interrupted
def test_an_interrupt_of_the_imports_has_no_traceback():
    command = [sys.executable, "-X", "importtime", "-m", "ewsg_jax", "list", "methods"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        seen = next(line for line in process.stderr if "jaxlib" in line)
        process.send_signal(signal.SIGINT)
        printed, errors = process.communicate(timeout=100)
    assert process.returncode == -signal.SIGINT, seen
    assert printed == ""
    assert "Traceback" not in errors


@may_be_interrupted
def test_a_program_that_imports_the_library_is_interrupted_as_before():
    code = "import signal, ewsg_jax\n"
    code += "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_examples_of_the_page_are_taken():
    found = [words for words in commands(PAGE) if words[0] != "reproduce"]
    assert len(found) > 6
    for words in found:
        assert parser().parse_args(words).command == words[0]


def test_the_page_names_every_exit_status_and_option(capsys):
    rows = dict(re.findall(r"^\| (\d+) \| (.+?) \|$", PAGE, re.MULTILINE))
    assert set(rows) == {str(status) for status in console.EXIT_STATUS}
    for command in ("plan", "check", "run", "list"):
        for option in re.findall(r"(?<![\w-])--[a-z-]+", helped(capsys, command).split("\n\n")[0]):
            assert option in PAGE


def test_the_list_has_a_line_for_each(capsys):
    assert main(["list", "methods"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(ewsg.METHODS)
    assert main(["list", "configs"]) == 0
    assert "quickstart.toml  " in capsys.readouterr().out
    assert main(["list", "models"]) == 0
    assert capsys.readouterr().out.splitlines()[0].startswith("logistic ")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_quiet_prints_the_answer_alone(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", Terminal())
    for is_quiet in (True, False):
        out = console.Console(is_quiet)
        out.say("a report")
        out.answer("the answer")
        out.stage("1 of 2")
        with out.under_way("planning"):
            pass
        said = capsys.readouterr().out
        assert said == ("" if is_quiet else "a report\n") + "the answer\n"
        assert out.said == ["a report", "the answer"]
        assert bool(sys.stderr.getvalue()) != is_quiet


def test_progress_says_the_time_that_is_left(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    bar = progress.Progress(1_000, True)
    now[0] = 10.0
    bar.update(250)
    assert " 25 % of 1,000 steps, 30 s left" in sys.stderr.getvalue()
    bar.close()
    assert sys.stderr.getvalue().endswith(" \r")
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    progress.Progress(1_000, True).update(250)
    assert sys.stderr.getvalue() == ""


def test_a_clock_says_what_goes_on_and_leaves_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress.Clock(True) as clock:
        for what in ("the mode is searched for", "chains warm up"):
            clock.says(what)
            while f"{what}, " not in sys.stderr.getvalue():
                time.sleep(0.01)
    shown = sys.stderr.getvalue()
    assert shown.endswith(" \r")
    assert shown.rsplit("\r", 2)[1].strip() == ""
    for show, stream in ((False, Terminal()), (True, io.StringIO())):
        monkeypatch.setattr(sys, "stderr", stream)
        with progress.Clock(show) as clock:
            clock.says("the mode is searched for")
        assert stream.getvalue() == ""


# Rows.


CSV = 'age,"the dose",died\n30,1.5,no\n40,2.5,yes\n\n50,-1e1,no\n60,0,yes\n'


def rows_file(folder, text=CSV):
    path = folder / "rows.csv"
    path.write_text(text, encoding="utf-8-sig")
    return str(path)


def test_columns_of_a_csv_file(tmp_path):
    data, y = data_file.read(rows_file(tmp_path))
    assert data.feature_names == ("age", "the dose")
    np.testing.assert_array_equal(data.x, [[30, 1.5], [40, 2.5], [50, -10], [60, 0]])
    assert y.tolist() == ["no", "yes", "no", "yes"]
    # A column that is dropped need not hold numbers.
    data, y = data_file.read(rows_file(tmp_path), response="age", drop=["died"])
    assert data.feature_names == ("the dose",)
    np.testing.assert_array_equal(y, [30, 40, 50, 60])


@pytest.mark.parametrize("names", [{"x": "x", "y": "y"}, {"x": "X", "y": "y"}])
def test_arrays_of_an_npz_file(tmp_path, names):
    x, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 0])
    path = tmp_path / "rows.npz"
    # What else the file holds is not read: NumPy would refuse this.
    other = np.array([None])
    np.savez(path, **{names["x"]: x, names["y"]: y}, other=other)
    data, found = data_file.read(str(path), drop=["x[0]"])
    np.testing.assert_array_equal(data.x, x[:, 1:])
    np.testing.assert_array_equal(found, y)
    assert data.feature_names == ("x[1]",)


def test_each_weight_has_a_name_of_its_own(tmp_path):
    """By it a report has its numbers, that of the column of ones beside them."""
    path = tmp_path / "rows.npz"
    np.savez(path, x=np.ones((3, 2)), y=np.arange(3), feature_names=["a", "a"])
    with pytest.raises(ConfigError, match="must have columns of different names; 2 are called 'a'"):
        data_file.read(str(path))
    path = rows_file(tmp_path, CSV.replace("age", "intercept"))
    for words in ([], ["--no-intercept"]):
        assert main(["plan", path, "--model", "logistic", *words]) == console.Exit.USAGE_ERROR
    with pytest.raises(ConfigError, match=r"no feature called 'intercept'.* --drop intercept"):
        data_file.read(path)
    assert data_file.read(path, drop=["intercept"])[0].feature_names == ("the dose",)


def test_the_report_names_the_source_and_what_was_dropped(tmp_path):
    """And says whose moments scale the features: those of all rows, unless some are held out."""
    asked = {"data": rows_file(tmp_path), "model": "logistic", "drop": ["age"]}
    said = prepare(arguments_of(asked))[1].description
    assert said[0] == "rows: 4 rows of 1 features, without age"
    # Without its folder, which is nobody's business.
    assert said[1] == "source: rows.csv"
    assert "features standardised" in said
    config = build(
        Config,
        {
            "title": "A title",
            "data": {"name": "breast_cancer", "drop_columns": ["mean_area"]},
            "run": {"num_chains": 1, "data_passes": 1},
            "methods": [{"name": "sgld", "step_size": 0.1, "batch_size": 2}],
        },
    )
    said = of_config(config).description
    assert said[0] == "breast_cancer: 569 rows of 29 features, without mean_area"
    assert said[1].startswith("source: UCI breast cancer")
    assert "features standardised by the rows to train on" in said


@pytest.mark.parametrize(
    ("words", "function", "begins"),
    [
        (["plan", "rows.csv"], "plan", "rows.csv"),
        (["check", "run.npz", "--data", "rows.csv"], "check", "run.npz: run"),
    ],
)
def test_an_error_of_the_library_names_what_it_is_about(
    tmp_path, monkeypatch, capsys, words, function, begins
):
    def refuse(*_, **__):
        raise ValueError("something must be otherwise")

    monkeypatch.chdir(tmp_path)
    rows_file(tmp_path)
    kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
    run = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(3), jnp.ones((4, 3)), 10)
    run.save("run.npz")
    monkeypatch.setattr(ewsg, function, refuse)
    assert main([*words, "--model", "logistic"]) == console.Exit.USAGE_ERROR
    assert capsys.readouterr().err.endswith(f"{begins}: something must be otherwise\n")


@pytest.mark.parametrize("keep", [None, jnp.sum])
def test_a_saved_run_without_positions_is_refused(tmp_path, capsys, keep):
    kernel, path = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2), tmp_path / "run"
    run = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(3), jnp.ones((4, 3)), 10, keep=keep)
    run.save(path)
    words = ["check", str(path), "--data", rows_file(tmp_path), "--model", "logistic"]
    assert main(words) == console.Exit.USAGE_ERROR
    assert f"{path} must hold draws of positions" in capsys.readouterr().err


def test_classes_are_numbers_in_their_order():
    codes, names = data_file.coded(np.array(["b", "a", "b"]), 2, "")
    assert (codes.tolist(), names) == ([1, 0, 1], ("a", "b"))
    codes, names = data_file.coded(np.array([1.0, -1.0]), 2, "")
    assert (codes.tolist(), names) == ([1, 0], ("-1", "1"))
    codes, names = data_file.coded(np.array([1000001.0, 1000002.0, 0.1]), 3, "")
    assert names == ("0.1", "1000001.0", "1000002.0")
    for missing in (np.nan, np.inf):
        with pytest.raises(ConfigError, match=r"a class in every row; row 2 has (nan|inf): remove"):
            data_file.coded(np.array([1.0, missing, 1.0]), 2, "")


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("model", ["linear", "logistic", "softmax"])
def test_unscaled_weights_give_the_same_predictor(tmp_path, model, intercept):
    """Of the rows as they stand in the file."""
    generator = np.random.default_rng(0)
    x = generator.normal([3, -50, 0], [1, 20, 1e-3], (40, 3))
    y = (
        x @ [1, 0.1, 500] + 7 + generator.normal(size=40)
        if model == "linear"
        else np.arange(40) % 3
    )
    path = tmp_path / "rows.npz"
    np.savez(path, x=x, y=y if model != "logistic" else y > 0)
    given = {"data": str(path), "model": model, "intercept": intercept}
    asked, problem = prepare(arguments_of(given))
    shape = problem.start.shape
    draws = generator.normal(size=(2, 5, *shape))
    unscaled = problem.original.of(draws)
    axis = -2 if model == "softmax" else -1
    weights, offset = np.split(unscaled, [3], axis)
    scaled = np.tensordot(draws, np.asarray(problem.train["x"]), (axis, 1))
    given = np.tensordot(weights, x, (axis, 1)) + offset.squeeze(axis)[..., None]
    if model == "linear":
        scaled = y.mean() + y.std() * scaled
    np.testing.assert_allclose(scaled, given, rtol=1e-3, atol=1e-3)
    assert len(problem.names) == np.prod(shape)
    assert len(problem.original.names) == np.prod(unscaled.shape[2:])
    # And what was asked for stands in a text that is read again.
    assert arguments_of(from_toml(text_of(asked))["plan"]) == asked


def test_the_noise_scale_of_a_linear_model(tmp_path):
    """By least squares, in units of the response, or as given."""
    generator = np.random.default_rng(1)
    x = generator.normal(size=(5_000, 2))
    y = 100 + 3 * x[:, 0] + 2.0 * generator.normal(size=5_000)
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    given = {"data": str(tmp_path / "rows.npz"), "model": "linear"}
    _, problem = prepare(arguments_of(given))
    said = problem.description[-1]
    assert float(re.search(r"noise scale ([\d.]+),", said)[1]) == pytest.approx(2.0, rel=0.03)
    _, problem = prepare(arguments_of(given | {"noise_scale": 2.5}))
    assert "noise scale 2.5, as given" in problem.description[-1]
    # Two rows beside each of two means: residuals 1, 1, 2, 2, and two weights of four rows.
    np.savez(tmp_path / "few.npz", x=[[0], [0], [1], [1]], y=[0.0, 2.0, 10.0, 14.0])
    _, problem = prepare(arguments_of({"data": str(tmp_path / "few.npz"), "model": "linear"}))
    assert f"noise scale {np.sqrt(10 / 2):.4g}," in problem.description[-1]


def test_rows_that_have_changed_are_refused(tmp_path):
    path = rows_file(tmp_path)
    asked, _ = prepare(arguments_of({"data": path, "model": "logistic"}))
    assert prepare(asked)[0] == asked
    rows_file(tmp_path, CSV.replace("1.5", "1.6"))
    with pytest.raises(ConfigError, match="has changed since the run"):
        prepare(asked)
