"""Wrong calls of the command line, whose rows have an exit status for an error.

What a configuration does not take is in `tests/cli/test_config.py`.
"""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.papers.gaussian_mse import Settings as Mse
from benchmarks.papers.running import settings_of
from ewsg_jax.__main__ import main
from tests.wrong_calls.table import FROZEN, POSITIVE, WRONG

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
EXPOSED = ["--model", "poisson", "--exposure"]
ROWS = "a,b,y\n1,2,0\n2,1,1\n3,3,0\n"


def planned(text: str | bytes, *arguments: str) -> Callable[[Path], Any]:
    """Plan for rows with something wrong, or with wrong arguments."""

    def call(folder: Path) -> Any:
        raw = text if isinstance(text, bytes) else text.encode()
        (folder / "rows.csv").write_bytes(raw)
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


def dropped(data: str) -> Callable[[Path], Any]:
    """Plan without a column that is not there."""

    def call(folder: Path) -> Any:
        np.savez(folder / "rows.npz", x=np.ones((3, 1)), y=np.ones(3))
        return main(["plan", data, "--model", "linear", "--drop", "zz"])

    return call


def damaged(draws: str) -> Callable[[Path], Any]:
    """Check a folder whose draws cannot be read."""

    def call(folder: Path) -> Any:
        written(folder)
        (folder / "draws.npz").write_text(draws)
        return main(["check", str(folder)])

    return call


def of_other_weights(folder: Path) -> Any:
    """Check a run of five weights as one of three."""
    (folder / "rows.csv").write_text(ROWS)
    model, data = ewsg.models.gaussian_location(), jnp.ones((4, 5))
    kernel = ewsg.sgld(model, 1e-2, batch_size=2)
    run = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(5), data, 10)
    run.save(folder / "five.npz")
    given = ["--data", "rows.csv", "--model", "logistic"]
    return main(["check", str(folder / "five.npz"), *given])


CELLS = "1 of 'b' (the first in row 2)"


def saved_and(*arguments: str) -> Callable[[Path], Any]:
    """Plan for arrays with an option that is for tables."""

    def call(folder: Path) -> Any:
        np.savez(folder / "rows.npz", x=np.ones((3, 1)), y=np.ones(3))
        return main(["plan", "rows.npz", "--model", "linear", *arguments])

    return call


def with_table(line: str) -> Callable[[Path], Any]:
    """Plan with a configuration with something wrong."""

    def call(folder: Path) -> Any:
        (folder / "config.toml").write_text(f"[plan]\n{line}\n")
        return planned(ROWS, "--config", str(folder / "config.toml"))(folder)

    return call


WRONG["main plan"] |= {
    "exit none.csv | No such file | ": lambda: main(PLAN),
    "exit --model | is missing | logistic": lambda: main(["plan", "rows.csv"]),
    "exit --noise-scale | logistic | linear": planned(ROWS, *NOISE),
    "exit --model | 'logit' | logistic": planned(ROWS, "--model", "logit"),
    "exit --prior-scale | got -1 | above 0": planned(ROWS, "--prior-scale", "-1"),
    "exit --prior-scale | 'wide' | number": planned(ROWS, "--prior-scale", "wide"),
    "exit --noise-scale | got 0 | above 0": planned(ROWS, "--noise-scale", "0"),
    "exit --tolerance | got 5 | below 1": planned(ROWS, "--tolerance", "5"),
    "exit --ess | got inf | finite": planned(ROWS, "--ess", "inf"),
    "exit --chains | 1.5 | a whole number": planned(ROWS, "--chains", "1.5"),
    "exit --chains | got 0 | at least 1": planned(ROWS, "--chains", "0"),
    "exit --seed | got -1 | at least 0": planned(ROWS, "--seed", "-1"),
    "exit --response | 'yy' | did you mean 'y'": planned(ROWS, "--response", "yy"),
    "exit --drop | 'c' | one of 'a', 'b', 'y'": planned(ROWS, "--drop", "c"),
    "exit --drop | 'y' | leave the response": planned(ROWS, "--drop", "y"),
    f"exit rows.csv | {CELLS} | --missing drop": planned(ROWS.replace("2,1,1", "2,NA,1")),
    f"exit rows.csv | {CELLS} | --missing indicator": planned(ROWS.replace("2,1,1", "2,,1")),
    f"exit rows.csv | {CELLS} | by --drop": planned(ROWS.replace("2,1,1", "2,nan,1")),
    "exit 'b' | row 2 has 'inf' | --na": planned(ROWS.replace("2,1,1", "2,inf,1")),
    "exit 'b' | row 2 has '40+' | --categorical b": planned(ROWS.replace("2,1,1", "2,40+,1")),
    "exit --missing | 'mean' | drop": planned(ROWS, "--missing", "mean"),
    "exit --missing | got 'rows.npz' | .csv": saved_and("--missing", "drop"),
    "exit --group | 'c' | one of 'a', 'b', 'y'": planned(ROWS, "--group", "c"),
    "exit --group | 'y' | another column": planned(ROWS, "--group", "y"),
    "exit --drop | 'b' | leave the groups": planned(ROWS, "--group", "b", "--drop", "b"),
    "exit --exposure | logistic | poisson": planned(ROWS, "--exposure", "b"),
    "exit --exposure | 'y' | than the response": planned(ROWS, *EXPOSED, "y"),
    "exit --exposure | 'b' | than the groups": planned(ROWS, *EXPOSED, "b", "--group", "b"),
    "exit --drop | 'b' | leave the exposure": planned(ROWS, *EXPOSED, "b", "--drop", "b"),
    "exit exposure 'b' | smallest is 0 | above 0": planned(
        ROWS.replace("2,1,1", "2,0,1"), *EXPOSED, "b"
    ),
    "exit exposure 'b' | in the | numbers": planned(ROWS.replace("2,1,1", "2,x,1"), *EXPOSED, "b"),
    "exit --reference | 'a' | COLUMN=LEVEL": planned(ROWS, "--reference", "a"),
    "exit --reference | 'z' | a level of 'b'": planned(
        ROWS, "--categorical", "b", "--reference", "b=z"
    ),
    "exit --reference | '7' | a class of the response": planned(ROWS, "--reference", "y=7"),
    "exit --encoding | 'utf-88' | utf-8": planned(ROWS, "--encoding", "utf-88"),
    "exit --dispersion | logistic | negative_binomial": planned(ROWS, "--dispersion", "1"),
    "exit rows.csv | 0xe9 | --encoding": planned(ROWS.encode() + b"4,5,\xe9\n"),
    "exit rows.csv | value 0 | in text": planned(ROWS.encode() + b"4,5,\0\n"),
    "exit rows.csv | 'a b y' | commas": planned(ROWS.replace(",", " ")),
    "exit response | '1.5' | counts": planned(ROWS.replace("3,0", "3,1.5"), "--model", "poisson"),
    "exit response | all are 0 | above 0": planned(
        ROWS.replace("1,1", "1,0"), "--model", "poisson"
    ),
    "exit priors | 'c' | columns or weights": with_table("priors.c = {scale = 1}"),
    "exit config.toml | 'plan.prior' | did you mean": with_table("prior = 1"),
    "exit plan.priors.a.scale | got 0 | above 0": with_table("priors.a = {scale = 0}"),
    "exit plan.priors.a | missing key | scale": with_table("priors.a = {mean = 0}"),
    "exit row 2 | has 2 | 3 cells": planned(ROWS.replace("2,1,1", "2,1")),
    "exit rows.csv | 1, 2, 0 | column names": planned(ROWS.replace("a,b,y\n", "")),
    "exit rows.csv | 2 are called 'a' | different": planned(ROWS.replace("b", "a")),
    "exit rows.csv | none | rows below": planned("a,b,y\n"),
    "exit rows.csv | nothing | columns": planned(""),
    "exit response | got 3 | 2 values": planned(ROWS.replace("3,0", "3,2")),
    "exit response | got 1 | 2 values": planned(ROWS.replace("1,1", "1,0")),
    "exit response | 'no' | finite numbers": planned(
        ROWS.replace("3,0", "3,no"), "--model", "linear"
    ),
    "exit DATA | 'rows.txt' | .csv": lambda: main(["plan", "rows.txt", *PLAN[2:]]),
    "exit DATA | 'letters' | 'letter'": lambda: main(["plan", "letters", *PLAN[2:]]),
    "exit rows.npz | holds Z | x (n, d)": saved("rows.npz", Z=np.ones(3)),
    "exit --drop | 'zz' | one of 'x[0]'": dropped("rows.npz"),
    "exit --drop | 'zz' | one of 'mean_radius'": dropped("breast_cancer"),
    "exit rows.npz | (2,) | (n,)": saved("rows.npz", x=np.ones((3, 1)), y=np.ones(2)),
    "exit --noise-scale | 3 rows | residuals": planned("a,y\n1,1\n2,2\n3,3\n", "--model", "linear"),
    "exit rows.npz | cannot be read | .npz": not_an_archive,
}
WRONG["main check"] |= {
    "exit RUN | there is no | a folder": lambda: main(["check", "none"]),
    "exit config.toml | no config | wrote": lambda f: main(["check", str(f)]),
    "exit --max-draws | got 7 | at least 64": lambda: main(["check", "a", "--max-draws", "7"]),
    "exit draws.npz | EOFError | cannot be read as .npz": damaged(""),
    "exit draws.npz | ValueError | cannot be read as .npz:": damaged("no archive"),
    "exit draws.npz | BadZipFile | cannot be read as .npz": damaged("PK\x03\x04 and no more"),
    "exit five.npz | (5,) | rows.csv have (a, b, intercept)": of_other_weights,
    "exit --data | needs | --model": lambda: main([*CHECK, "--data", "b"]),
}
WRONG["main list"] |= {
    "exit KIND | 'method' | methods": lambda: main(["list", "method"]),
}


WRONG["main"] |= {
    "exit none.toml | No such file | ": lambda f: main(["run", str(f / "none.toml")]),
    "exit error: | Is a directory | ": lambda folder: main(["run", str(folder)]),
    "exit COMMAND | are required | see ewsg_jax --help": lambda: main([]),
    "exit --seed | got -1 | at least 0": ran("", "", "--seed", "-1"),
    "exit --seed | got 'one' | a number": ran("", "", "--seed", "one"),
    "exit --seed | got 1.5 | a whole number": ran("", "", "--seed", "1.5"),
    "exit --seed | 4294967296 | at most 4294967295": ran("", "", "--seed", "4294967296"),
    "exit output folder | File exists | cannot write to": into_a_file,
    "exit --processes | got 0 | at least 1": ran("", "", "--processes", "0"),
    "exit --processes | got 'two' | a number": ran("", "", "--processes", "two"),
    "exit data_passes | got inf | a positive number": ran("passes = 2", "passes = inf"),
    f"exit sghmc: step_size | -1 (int) | {POSITIVE}": ran("1e-3", "-1"),
    "exit columns | 'size' | one of 'mean_": ran("[run]", 'drop_columns = ["size"]\n[run]'),
    "exit sghmc: batch_size | got 500 | at most n = 455": ran("= 50", "= 500\nreplace = false"),
    "exit sghmc | 9100000000 | at most 2147483647": ran("passes = 2", "passes = 1e9"),
    f"exit sghmc: frozen_noise | [0.0, 1.0] | {FROZEN}": ran(
        '"sghmc"', '"ewsg"\nlabel = "sghmc"\nfrozen_noise = [0.0, 1.0]'
    ),
}


def chosen(text: str) -> Callable[[], Any]:
    """Read an experiment's configuration with something wrong."""
    return lambda: settings_of(Mse, text, "quick")


WRONG["reproduce"] |= {
    "exit ID | invalid choice: 'gaussian' | gaussian-kl": lambda: main(["reproduce", "gaussian"]),
    "exit ID | are required | --help": lambda: main(["reproduce"]),
    "exit --scale | 'huge' | quick": lambda: main(["reproduce", "all", "--scale", "huge"]),
    "exit output folder | File exists | cannot write to": lambda folder: main(
        ["reproduce", "gaussian-mse", "--output", str(written(folder))]
    ),
    "C TOML | Expected | valid": chosen("[full"),
    "C ful | unknown key 'ful' | 'full'": chosen("[ful]\n"),
    "C num_chains | 1.5 | a whole number": chosen("[full]\nnum_chains = 1.5"),
    "C data_seeds | missing | data_seeds": chosen("[full]\nnum_chains = 9"),
}
