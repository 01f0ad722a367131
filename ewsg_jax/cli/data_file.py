"""Your own rows: a table in text, a .npz file, or a data set by its name, as a `Dataset`.

`delimited`, `cells` and `design` read a .csv or .tsv file. A .npz file has the arrays `x` (n, d)
and `y` (n,), and may have `feature_names`.
"""

import collections
import contextlib
import dataclasses
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ewsg_jax import datasets
from ewsg_jax.base import checks
from ewsg_jax.cli.arguments import Reading
from ewsg_jax.cli.config import ConfigError
from ewsg_jax.cli.delimited import FileError, shown, table
from ewsg_jax.cli.design import Exposure, Feature, Groups, design
from ewsg_jax.datasets import Dataset
from ewsg_jax.datasets._dataset import INTERCEPT

TEXT_TABLES = (".csv", ".tsv")
SUFFIXES = (*TEXT_TABLES, ".npz")
OF_ROWS = ("x", "y", "feature_names")
"""Arrays of a .npz file that are read."""


@dataclass(frozen=True, eq=False)
class FileRows:
    """The rows of a file or a data set.

    Attributes:
        dataset: features, with a response that is 0 if it is no number.
        y: the response as it stands there, numbers or texts, shape (n,).
        features: what each feature is.
        response: what the response is called.
        first: the class of a response that is the reference; empty for the first in their order.
        groups: the groups, if they were asked for.
        exposure: what counts are per one of, if that was asked for.
        words: what was done with each column, a line each.
        problems: what is wrong with the file, a sentence each.
    """

    dataset: Dataset
    y: np.ndarray
    features: tuple[Feature, ...]
    response: str = "y"
    first: str = ""
    groups: Groups | None = None
    exposure: Exposure | None = None
    words: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def read(
    data: str, response: str = "", drop: Sequence[str] = (), dropped_by: str = "--drop"
) -> tuple[Dataset, np.ndarray]:
    """Return features and the response, as `rows` does, of a file without anything wrong."""
    file_rows = rows(data, Reading(response=response, drop=tuple(drop)), dropped_by)
    if file_rows.problems:
        raise FileError(data, file_rows.problems)
    return file_rows.dataset, file_rows.y


def rows(data: str, reading: Reading, dropped_by: str = "--drop") -> FileRows:
    """Return the rows of a file or a data set, by what was asked of its columns.

    The response of a table is the column of that name, by default the last.

    Raises:
        ConfigError: there is no such file or data set, or it cannot be read. What else is wrong
            with a table is in `problems`. `dropped_by` is what the message calls `drop`.
    """
    path, source = Path(data), data
    kind = path.suffix.lower()
    if kind in TEXT_TABLES:
        return _of_table(path, reading)
    for field in dataclasses.fields(Reading):
        name = field.name
        # No column of other files is left out by itself, whatever `every_column` says.
        anyway = ("drop", "intercept", "every_column")
        if name not in anyway and getattr(reading, name) != field.default:
            raise ConfigError(
                f"--{name.replace('_', '-')} is for .csv and .tsv files, whose columns have names; "
                f"got {data!r}"
            )
    if kind == ".npz":
        x, y, names = _npz(path)
        source = path.name
    elif data in datasets.DATASETS:
        known = datasets.load(data)
        x, y, names, source = known.x, known.y, known.feature_names, known.source
    else:
        hint = checks.nearest(data, datasets.DATASETS)
        raise ConfigError(
            "DATA must be a .csv, .tsv or .npz file, or the name of a data set (ewsg_jax list "
            f"data); got {data!r}{hint}"
        )
    numbers = y if y.dtype.kind in "biuf" else np.zeros(y.shape)
    try:
        for name in reading.drop:
            checks.one_of(dropped_by, name, names)
        kept = Dataset(x, numbers, tuple(names), path.stem, source).without(reading.drop)
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
    return FileRows(kept, y, tuple(Feature(name, name) for name in kept.feature_names))


def is_file(data: str) -> bool:
    """Return whether data are a file, by the end of its name, and not the name of a data set."""
    return Path(data).suffix.lower() in SUFFIXES


def _of_table(path: Path, reading: Reading) -> FileRows:
    numeric = design(table(path, reading.encoding), reading)
    if numeric.problems:
        # What a model says of the response is listed beside them; features are none yet.
        x, names = np.zeros((len(numeric.y), 1)), ("",)
    else:
        x, names = numeric.x, tuple(feature.name for feature in numeric.features)
        _check_names(path, names)
    numbers = numeric.y if numeric.y.dtype.kind == "f" else np.zeros(numeric.y.shape)
    dataset = Dataset(x, numbers, names, path.stem, path.name)
    same = ("response", "first", "groups", "exposure", "words", "problems")
    about = {name: getattr(numeric, name) for name in same}
    return FileRows(dataset, numeric.y, numeric.features, **about)


def _npz(path: Path) -> tuple[np.ndarray, np.ndarray, Sequence[str]]:
    """Return features (n, d), a response (n,) and the features' names."""
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


def coded(
    y: np.ndarray, most: int, advice: str, first: str = ""
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return classes, numbers or strings, as whole numbers from 0, and what each is called.

    There must be at least two and at `most` some; else the error names another model, `advice`.
    The class 0 is `first`, else the first in their order.
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
    if first and first not in names:
        raise ConfigError(
            f"--reference must name a class of the response: {shown(names)}; got {first!r}"
        )
    if not first:
        return codes.reshape(-1), names
    order = sorted(range(len(names)), key=lambda i: names[i] != first)
    return np.argsort(order)[codes.reshape(-1)], tuple(names[i] for i in order)
