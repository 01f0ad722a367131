"""Wrong calls of the command line, whose rows have an exit status for an error.

What a configuration does not take is in `tests/experiments/test_config.py`.
"""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.papers.gaussian_mse import Settings as Mse
from benchmarks.papers.running import settings_of
from ewsg_jax.__main__ import main
from tests.wrong_calls.table import FROZEN, POSITIVE, C, of

CONFIG = """
title = "A title"
[data]
name = "breast_cancer"
[run]
num_chains = 2
data_passes = 2
[[methods]]
name = "sghmc"
step_size = 1e-3
friction = 1
batch_size = 50
"""


def written(folder: Path, old: str = "", new: str = "") -> Path:
    """A configuration with something wrong, in a file."""
    assert old in CONFIG
    path = folder / "config.toml"
    path.write_text(CONFIG.replace(old, new, 1))
    return path


def ran(old: str = "", new: str = "", *arguments: str) -> Callable[[Path], Any]:
    """Run a configuration with something wrong from the command line."""

    def call(folder: Path) -> Any:
        path = written(folder, old, new)
        return main(["run", str(path), "--output", str(folder / "out"), *arguments])

    return call


def into_a_file(folder: Path) -> Any:
    """Run with an output folder that is a file."""
    (folder / "file").write_text("kept")
    return main(["run", str(written(folder)), "--output", str(folder / "file")])


SEED = "a whole number from 0 to 4294967295"
PLAN = ["plan", "none.csv", "--model", "logistic"]
CHECK = ["check", "some"]
NOISE = ["--noise-scale", "2"]
ROWS = "a,b,y\n1,2,0\n2,1,1\n3,3,0\n"


def planned(text: str, *arguments: str) -> Callable[[Path], Any]:
    """Plan for rows with something wrong, or with wrong arguments."""

    def call(folder: Path) -> Any:
        (folder / "rows.csv").write_text(text)
        model = () if "--model" in arguments else ("--model", "logistic")
        given = ["plan", "rows.csv", "--output", str(folder / "out"), *model, *arguments]
        return main(given)

    return call


def saved(name: str, **arrays: Any) -> Callable[[Path], Any]:
    """Plan for arrays with something wrong."""

    def call(folder: Path) -> Any:
        np.savez(folder / name, **arrays)
        return main(["plan", name, "--model", "linear"])

    return call


def not_an_archive(folder: Path) -> Any:
    """Plan for a file that is no archive."""
    (folder / "rows.npz").write_text("no archive")
    return main(["plan", "rows.npz", "--model", "linear"])


CELLS = "numbers as features"
of(
    "main plan",
    ("no rows", None, "none.csv", "No such file", "", lambda: main(PLAN)),
    ("no model", None, "--model", "is missing", "logistic", lambda: main(["plan", "rows.csv"])),
    ("noise of classes", None, "--noise-scale", "logistic", "linear", planned(ROWS, *NOISE)),
    ("model", None, "--model", "'logit'", "logistic", planned(ROWS, "--model", "logit")),
    ("prior", None, "--prior-scale", "got -1", "above 0", planned(ROWS, "--prior-scale", "-1")),
    (
        "prior a word",
        None,
        "--prior-scale",
        "'wide'",
        "number",
        planned(ROWS, "--prior-scale", "wide"),
    ),
    ("noise", None, "--noise-scale", "got 0", "above 0", planned(ROWS, "--noise-scale", "0")),
    ("tolerance", None, "--tolerance", "got 5", "below 1", planned(ROWS, "--tolerance", "5")),
    ("ess", None, "--ess", "got inf", "finite", planned(ROWS, "--ess", "inf")),
    ("chains", None, "--chains", "1.5", "a whole number", planned(ROWS, "--chains", "1.5")),
    ("no chains", None, "--chains", "got 0", "at least 1", planned(ROWS, "--chains", "0")),
    ("seed", None, "--seed", "got '-1'", SEED, planned(ROWS, "--seed", "-1")),
    ("response", None, "--response", "'yy'", "did you mean 'y'", planned(ROWS, "--response", "yy")),
    ("drop", None, "--drop", "'c'", "one of a, b, y", planned(ROWS, "--drop", "c")),
    ("drop y", None, "--drop", "'y'", "leave the response", planned(ROWS, "--drop", "y")),
    ("a cell", None, "rows.csv", "row 2 has 'NA'", "'b'", planned(ROWS.replace("2,1,1", "2,NA,1"))),
    ("an empty cell", None, "row 2", "''", CELLS, planned(ROWS.replace("2,1,1", "2,,1"))),
    ("NaN", None, "row 2", "nan", "finite", planned(ROWS.replace("2,1,1", "2,nan,1"))),
    ("ragged", None, "row 2", "has 2", "3 cells", planned(ROWS.replace("2,1,1", "2,1"))),
    (
        "no header",
        None,
        "rows.csv",
        "1, 2, 0",
        "column names",
        planned(ROWS.replace("a,b,y\n", "")),
    ),
    ("semicolons", None, "rows.csv", "'a;b;y'", "commas", planned(ROWS.replace(",", ";"))),
    ("names twice", None, "rows.csv", "'a' twice", "different", planned(ROWS.replace("b", "a"))),
    ("header alone", None, "rows.csv", "none", "rows below", planned("a,b,y\n")),
    ("empty", None, "rows.csv", "nothing", "columns", planned("")),
    ("classes", None, "response", "got 3", "2 values", planned(ROWS.replace("3,0", "3,2"))),
    ("one class", None, "response", "got 1", "2 values", planned(ROWS.replace("1,1", "1,0"))),
    (
        "words as numbers",
        None,
        "response",
        "'no'",
        "finite numbers",
        planned(ROWS.replace("3,0", "3,no"), "--model", "linear"),
    ),
    ("suffix", None, "DATA", "'rows.txt'", ".csv", lambda: main(["plan", "rows.txt", *PLAN[2:]])),
    ("name", None, "DATA", "'eegs'", "'eeg'", lambda: main(["plan", "eegs", *PLAN[2:]])),
    ("arrays", None, "rows.npz", "holds z", "x (n, d)", saved("rows.npz", z=np.ones(3))),
    (
        "shapes",
        None,
        "rows.npz",
        "(2,)",
        "(n,)",
        saved("rows.npz", x=np.ones((3, 1)), y=np.ones(2)),
    ),
    (
        "no noise",
        None,
        "--noise-scale",
        "3 rows",
        "residuals",
        planned("a,y\n1,1\n2,2\n3,3\n", "--model", "linear"),
    ),
    ("not npz", None, "rows.npz", "cannot be read", ".npz", not_an_archive),
)
of(
    "main check",
    ("no folder", None, "RUN", "there is no", "a folder", lambda: main(["check", "none"])),
    (
        "an empty folder",
        None,
        "config.toml",
        "no config",
        "wrote",
        lambda f: main(["check", str(f)]),
    ),
    (
        "draws",
        None,
        "--max-draws",
        "'7'",
        "from 8",
        lambda: main(["check", "a", "--max-draws", "7"]),
    ),
    ("data alone", None, "--data", "needs", "--model", lambda: main([*CHECK, "--data", "b"])),
)
of("main list", ("kind", None, "KIND", "'method'", "methods", lambda: main(["list", "method"])))


of(
    "main",
    (
        "no file",
        None,
        "none.toml",
        "No such file",
        "none.toml",
        lambda folder: main(["run", str(folder / "none.toml")]),
    ),
    ("a folder", None, "error:", "Is a directory", "", lambda folder: main(["run", str(folder)])),
    (
        "no command",
        None,
        "COMMAND",
        "the following arguments are required",
        "see ewsg_jax --help",
        lambda: main([]),
    ),
    ("seed", None, "--seed", "got '-1'", SEED, ran("", "", "--seed", "-1")),
    ("seed a text", None, "--seed", "got 'one'", SEED, ran("", "", "--seed", "one")),
    (
        "seed too large",
        None,
        "--seed",
        "got '4294967296'",
        SEED,
        ran("", "", "--seed", "4294967296"),
    ),
    ("output a file", None, "output folder", "File exists", "cannot write to", into_a_file),
    (
        "step size",
        None,
        "sghmc: step_size",
        "-1 (int)",
        POSITIVE,
        ran("step_size = 1e-3", "step_size = -1"),
    ),
    (
        "column",
        None,
        "columns",
        "'size' (str)",
        "one of 'mean_",
        ran("[data]", '[data]\ndrop_columns = ["size"]'),
    ),
    (
        "batch above n",
        None,
        "sghmc: batch_size",
        "got 500",
        "at most n = 455",
        ran("= 50", "= 500\nreplace = false"),
    ),
    (
        "steps",
        None,
        "sghmc",
        "got 9100000000",
        "at most 2147483647 steps",
        ran("data_passes = 2", "data_passes = 1e9"),
    ),
    (
        "x",
        None,
        "sghmc: frozen_noise",
        "[0.0, 1.0]",
        FROZEN,
        ran('"sghmc"', '"ewsg"\nlabel = "sghmc"\nfrozen_noise = [0.0, 1.0]'),
    ),
)


def chosen(text: str) -> Callable[[], Any]:
    """Read an experiment's configuration with something wrong."""
    return lambda: settings_of(Mse, text, "quick")


of(
    "reproduce",
    (
        "no such",
        None,
        "ID",
        "invalid choice: 'gaussian'",
        "gaussian-kl",
        lambda: main(["reproduce", "gaussian"]),
    ),
    ("nothing", None, "ID", "are required", "--help", lambda: main(["reproduce"])),
    (
        "scale",
        None,
        "--scale",
        "'huge'",
        "quick",
        lambda: main(["reproduce", "all", "--scale", "huge"]),
    ),
    (
        "output a file",
        None,
        "output folder",
        "File exists",
        "cannot write to",
        lambda folder: main(["reproduce", "gaussian-mse", "--output", str(written(folder))]),
    ),
    ("not TOML", C, "TOML", "Expected", "valid", chosen("[full")),
    ("table", C, "ful", "unknown key 'ful'", "'full'", chosen("[ful]\n")),
    ("chains", C, "num_chains", "1.5", "a whole number", chosen("[full]\nnum_chains = 1.5")),
    ("missing", C, "data_seeds", "missing", "data_seeds", chosen("[full]\nnum_chains = 9")),
)
