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
from tests.wrong_calls.table import FROZEN, POSITIVE, C, of, row

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
    row(None, "none.csv | No such file | ", lambda: main(PLAN)),
    row(None, "--model | is missing | logistic", lambda: main(["plan", "rows.csv"])),
    row(None, "--noise-scale | logistic | linear", planned(ROWS, *NOISE)),
    row(None, "--model | 'logit' | logistic", planned(ROWS, "--model", "logit")),
    row(None, "--prior-scale | got -1 | above 0", planned(ROWS, "--prior-scale", "-1")),
    row(None, "--prior-scale | 'wide' | number", planned(ROWS, "--prior-scale", "wide")),
    row(None, "--noise-scale | got 0 | above 0", planned(ROWS, "--noise-scale", "0")),
    row(None, "--tolerance | got 5 | below 1", planned(ROWS, "--tolerance", "5")),
    row(None, "--ess | got inf | finite", planned(ROWS, "--ess", "inf")),
    row(None, "--chains | 1.5 | a whole number", planned(ROWS, "--chains", "1.5")),
    row(None, "--chains | got 0 | at least 1", planned(ROWS, "--chains", "0")),
    row(None, "--seed | got -1 | at least 0", planned(ROWS, "--seed", "-1")),
    row(None, "--response | 'yy' | did you mean 'y'", planned(ROWS, "--response", "yy")),
    row(None, "--drop | 'c' | one of a, b, y", planned(ROWS, "--drop", "c")),
    row(None, "--drop | 'y' | leave the response", planned(ROWS, "--drop", "y")),
    row(None, "rows.csv | row 2 has 'NA' | 'b'", planned(ROWS.replace("2,1,1", "2,NA,1"))),
    row(None, f"row 2 | '' | {CELLS}", planned(ROWS.replace("2,1,1", "2,,1"))),
    row(None, "row 2 | nan | finite", planned(ROWS.replace("2,1,1", "2,nan,1"))),
    row(None, "row 2 | has 2 | 3 cells", planned(ROWS.replace("2,1,1", "2,1"))),
    row(None, "rows.csv | 1, 2, 0 | column names", planned(ROWS.replace("a,b,y\n", ""))),
    row(None, "rows.csv | 'a;b;y' | commas", planned(ROWS.replace(",", ";"))),
    row(None, "rows.csv | 'a' twice | different", planned(ROWS.replace("b", "a"))),
    row(None, "rows.csv | none | rows below", planned("a,b,y\n")),
    row(None, "rows.csv | nothing | columns", planned("")),
    row(None, "response | got 3 | 2 values", planned(ROWS.replace("3,0", "3,2"))),
    row(None, "response | got 1 | 2 values", planned(ROWS.replace("1,1", "1,0"))),
    row(
        None,
        "response | 'no' | finite numbers",
        planned(ROWS.replace("3,0", "3,no"), "--model", "linear"),
    ),
    row(None, "DATA | 'rows.txt' | .csv", lambda: main(["plan", "rows.txt", *PLAN[2:]])),
    row(None, "DATA | 'eegs' | 'eeg'", lambda: main(["plan", "eegs", *PLAN[2:]])),
    row(None, "rows.npz | holds z | x (n, d)", saved("rows.npz", z=np.ones(3))),
    row(None, "rows.npz | (2,) | (n,)", saved("rows.npz", x=np.ones((3, 1)), y=np.ones(2))),
    row(
        None,
        "--noise-scale | 3 rows | residuals",
        planned("a,y\n1,1\n2,2\n3,3\n", "--model", "linear"),
    ),
    row(None, "rows.npz | cannot be read | .npz", not_an_archive),
)
of(
    "main check",
    row(None, "RUN | there is no | a folder", lambda: main(["check", "none"])),
    row(None, "config.toml | no config | wrote", lambda f: main(["check", str(f)])),
    row(None, "--max-draws | got 7 | at least 8", lambda: main(["check", "a", "--max-draws", "7"])),
    row(None, "--data | needs | --model", lambda: main([*CHECK, "--data", "b"])),
)
of("main list", row(None, "KIND | 'method' | methods", lambda: main(["list", "method"])))


of(
    "main",
    row(None, "none.toml | No such file | ", lambda f: main(["run", str(f / "none.toml")])),
    row(None, "error: | Is a directory | ", lambda folder: main(["run", str(folder)])),
    row(None, "COMMAND | are required | see ewsg_jax --help", lambda: main([])),
    row(None, "--seed | got -1 | at least 0", ran("", "", "--seed", "-1")),
    row(None, "--seed | got 'one' | a number", ran("", "", "--seed", "one")),
    row(None, "--seed | got 1.5 | a whole number", ran("", "", "--seed", "1.5")),
    row(None, "--seed | 4294967296 | at most 4294967295", ran("", "", "--seed", "4294967296")),
    row(None, "output folder | File exists | cannot write to", into_a_file),
    row(None, "data_passes | got inf | a positive number", ran("passes = 2", "passes = inf")),
    row(None, f"sghmc: step_size | -1 (int) | {POSITIVE}", ran("1e-3", "-1")),
    row(None, "columns | 'size' | one of 'mean_", ran("[run]", 'drop_columns = ["size"]\n[run]')),
    row(
        None, "sghmc: batch_size | got 500 | at most n = 455", ran("= 50", "= 500\nreplace = false")
    ),
    row(None, "sghmc | 9100000000 | at most 2147483647", ran("passes = 2", "passes = 1e9")),
    row(
        None,
        f"sghmc: frozen_noise | [0.0, 1.0] | {FROZEN}",
        ran('"sghmc"', '"ewsg"\nlabel = "sghmc"\nfrozen_noise = [0.0, 1.0]'),
    ),
)


def chosen(text: str) -> Callable[[], Any]:
    """Read an experiment's configuration with something wrong."""
    return lambda: settings_of(Mse, text, "quick")


of(
    "reproduce",
    row(
        None,
        "ID | invalid choice: 'gaussian' | gaussian-kl",
        lambda: main(["reproduce", "gaussian"]),
    ),
    row(None, "ID | are required | --help", lambda: main(["reproduce"])),
    row(None, "--scale | 'huge' | quick", lambda: main(["reproduce", "all", "--scale", "huge"])),
    row(
        None,
        "output folder | File exists | cannot write to",
        lambda folder: main(["reproduce", "gaussian-mse", "--output", str(written(folder))]),
    ),
    row(C, "TOML | Expected | valid", chosen("[full")),
    row(C, "ful | unknown key 'ful' | 'full'", chosen("[ful]\n")),
    row(C, "num_chains | 1.5 | a whole number", chosen("[full]\nnum_chains = 1.5")),
    row(C, "data_seeds | missing | data_seeds", chosen("[full]\nnum_chains = 9")),
)
