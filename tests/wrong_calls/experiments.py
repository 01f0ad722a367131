"""Wrong calls of the command line, whose rows have an exit status for an error.

What a configuration does not take is in `tests/experiments/test_config.py`.
"""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
        "usage: ewsg_jax",
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
    ("nothing", None, "--list", "one of the arguments", "ID", lambda: main(["reproduce"])),
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
