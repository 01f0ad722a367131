"""Your own rows: a .csv or .npz file, or a data set by its name, as a `Dataset`.

A .csv file has names in its first line, commas between its columns and a number in every place but
in the response, which may have names of classes. A .npz file has the arrays `x` (n, d) and `y`
(n,), and may have `feature_names`.
"""

import array
import collections
import contextlib
import csv
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ewsg_jax import datasets
from ewsg_jax.base import checks, limits
from ewsg_jax.cli.config import ConfigError
from ewsg_jax.datasets import Dataset
from ewsg_jax.datasets._dataset import INTERCEPT

SUFFIXES = (".csv", ".npz")
OF_ROWS = ("x", "y", "feature_names")
"""Arrays of a .npz file that are read."""
Rows = tuple[np.ndarray, np.ndarray, Sequence[str]]
"""Features (n, d), a response (n,) and the features' names."""


def read(
    data: str, response: str = "", drop: Sequence[str] = (), dropped_by: str = "--drop"
) -> tuple[Dataset, np.ndarray]:
    """Return the rows of a file or a data set, without the features that are dropped, and the
    response as it stands there, numbers or strings.

    The response of a .csv file is the column of that name, by default the last. In the data set `y`
    is 0 for a response that is no number in the file. ConfigError says what is wrong with a file;
    `dropped_by` is what it calls `drop`.
    """
    path, source = Path(data), data
    kind = path.suffix.lower()
    if response and kind != ".csv":
        raise ConfigError(f"--response is for .csv files, whose columns have names; got {data!r}")
    if kind == ".csv":
        x, y, names = _csv(path, response, drop)
        drop = ()  # They were not read.
    elif kind == ".npz":
        x, y, names = _npz(path)
    elif data in datasets.DATASETS:
        known = datasets.load(data)
        x, y, names, source = known.x, known.y, known.feature_names, known.source
    else:
        hint = checks.nearest(data, datasets.DATASETS)
        raise ConfigError(
            "DATA must be a .csv or .npz file, or the name of a data set (ewsg_jax list data); "
            f"got {data!r}{hint}"
        )
    numbers = y if y.dtype.kind in "biuf" else np.zeros(y.shape)
    try:
        for name in drop:
            checks.one_of(dropped_by, name, names)
        kept = Dataset(x, numbers, tuple(names), path.stem, source).without(drop)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{data}: {error}") from error
    _check_names(path, kept.feature_names)
    wrong = np.argwhere(~np.isfinite(kept.x))
    if len(wrong):
        row, column = wrong[0].tolist()
        raise ConfigError(
            f"the features of {data} must be finite; row {row + 1} has {kept.x[row, column]} in "
            f"the column {kept.feature_names[column]!r}: give a number, or remove the row"
        )
    return kept, y


def _npz(path: Path) -> Rows:
    with reading(path) as file:
        # Names may be in capital letters; other arrays of the file are not read.
        spelling = {name.lower(): name for name in file.files} | {name: name for name in file.files}
        arrays = {name: file[spelling[name]] for name in OF_ROWS if name in spelling}
        held = ", ".join(file.files) or "none"
    if not {"x", "y"} <= set(arrays):
        raise ConfigError(f"{path} must hold the arrays x (n, d) and y (n,); it holds {held}")
    x = arrays["x"]
    names = arrays.get("feature_names", [f"x[{i}]" for i in range(x.shape[-1] if x.ndim else 0)])
    return x, arrays["y"], [*map(str, names)]


@contextlib.contextmanager
def reading(path: Path) -> Iterator[Any]:
    """Open a .npz file; ConfigError names it if NumPy cannot read it."""
    try:
        # Opened here, for NumPy leaves a file open that is no archive.
        with path.open("rb") as file, np.load(file) as arrays:
            yield arrays
    except (EOFError, TypeError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ConfigError(f"{path} cannot be read as .npz: {checks.reason(error)}") from error


def _csv(path: Path, response: str, drop: Sequence[str]) -> Rows:
    x, y = array.array("d"), []
    try:
        # The mark with which some programs begin a file is no part of the first name.
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = filter(None, csv.reader(file))
            header = _header(path, [name.strip() for name in next(rows, [])])
            response = response or header[-1]
            for option, name in [("--response", response), *(("--drop", name) for name in drop)]:
                checks.one_of(option, name, header)
            if response in drop:
                raise ConfigError(f"--drop must leave the response; got {response!r}")
            place = header.index(response)
            features = [i for i, name in enumerate(header) if i != place and name not in drop]
            if not features:
                raise ConfigError(f"{path} must have features, not only the response {response!r}")
            for number, row in enumerate(rows, 1):
                if len(row) != len(header):
                    raise ConfigError(
                        f"{path} must have {len(header)} cells in every row, as its header; row "
                        f"{number} has {len(row)}"
                    )
                for i in features:
                    try:
                        x.append(float(row[i]))
                    except ValueError:
                        raise ConfigError(
                            f"{path} must have numbers as features; row {number} has {row[i]!r} in "
                            f"the column {header[i]!r}: give a number, remove the row, or leave "
                            f"the column out by --drop {header[i]}"
                        ) from None
                y.append(row[place].strip())
                if not y[-1]:
                    raise ConfigError(
                        f"{path} must have a response in every row; row {number} has an empty "
                        f"{response!r}"
                    )
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} must be text in UTF-8: {error}") from None
    if not y:
        raise ConfigError(f"{path} must have rows below its header; it has none")
    responses = np.array(y, float) if all(map(is_number, y)) else np.array(y)
    return np.array(x).reshape(-1, len(features)), responses, [header[i] for i in features]


def _header(path: Path, header: list[str]) -> list[str]:
    """Check the names of the columns, and return them."""
    if len(header) < 2:
        held = "nothing" if not header else f"one column, {header[0][:60]!r}"
        raise ConfigError(f"{path} must have columns with commas between them; it has {held}")
    if any(map(is_number, header)):
        raise ConfigError(f"{path} must begin with a line of column names; got {shown(header)}")
    _check_different(path, header)
    return header


def _check_names(path: Path, names: Sequence[str]) -> None:
    """Check that names differ, also from that of the weight of a column of ones."""
    _check_different(path, names)
    if INTERCEPT in names:
        raise ConfigError(
            f"{path} must have no feature called {INTERCEPT!r}, the name of the weight of a column "
            f"of ones: give it another name, or leave it out by --drop {INTERCEPT}"
        )


def _check_different(path: Path, names: Sequence[str]) -> None:
    name, count = collections.Counter(names).most_common(1)[0]
    if count > 1:
        raise ConfigError(
            f"{path} must have columns of different names; {count} are called {name!r}"
        )


def shown(values: Sequence[object]) -> str:
    """Return the first of some values, for an error message."""
    return ", ".join(map(str, values[: limits.NAMES_SHOWN])) + ", …" * (
        len(values) > limits.NAMES_SHOWN
    )


def is_number(cell: str) -> bool:
    """Return whether a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def coded(y: np.ndarray, most: int, advice: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return classes, numbers or strings, as whole numbers from 0, and what each is called.

    There must be at least two and at `most` some; else the error names another model, `advice`.
    """
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.argmin(np.isfinite(y)))
        raise ConfigError(
            f"the response must have a class in every row; row {row + 1} has {y[row]}: remove it"
        )
    classes, codes = np.unique(y, return_inverse=True)
    if not 2 <= len(classes) <= most:
        takes = "2 values" if most == 2 else f"2 to {most:,} values"
        raise ConfigError(
            f"the response must take {takes} for this model; got {len(classes):,}: "
            f"{shown(classes.tolist())}{advice}"
        )
    # Six digits where these are all; 1000001 and 1000002 are two classes.
    names = tuple(
        f"{x:g}" if isinstance(x, float) and float(f"{x:g}") == x else str(x)
        for x in classes.tolist()
    )
    return codes.reshape(-1), names
