"""A text file with a separator between its cells: its encoding, its separator, names and cells.

Nothing is decided here about what a cell means. What is wrong is collected, so that one message can
say all of it.
"""

import codecs
import collections
import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ewsg_jax.base import checks, limits
from ewsg_jax.cli.config import ConfigError

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""What may stand between cells, the most usual first."""


@dataclass(frozen=True, eq=False)
class Table:
    """The cells of a file.

    Attributes:
        names: what the columns are called; all differ.
        columns: the cells of each column, without spaces around them.
        separator: what stands between cells.
        words: what was done to read it, if it is not an ordinary file.
        problems: what is wrong, a sentence each.
    """

    names: tuple[str, ...]
    columns: tuple[tuple[str, ...], ...]
    separator: str
    words: tuple[str, ...]
    problems: tuple[str, ...]


class FileError(ConfigError):
    """What is wrong with a file; several things are numbered, a line each."""

    def __init__(self, path: Path | str, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            super().__init__(f"{path} {self.problems[0]}")
            return
        lines = [f"\n  {i}. it {problem}" for i, problem in enumerate(self.problems, 1)]
        super().__init__(f"{path}: {len(self.problems)} things are wrong:{''.join(lines)}")


def table(path: Path, encoding: str = "") -> Table:
    """Read a file.

    Args:
        path: the file.
        encoding: its encoding. Default: UTF-8, or UTF-16 if it begins with that mark.

    Raises:
        FileError: it is no table at all: not text, without a header, or without rows.
        ConfigError: there is no such encoding.
        OSError: it cannot be read.
    """
    text, words = _text(path, encoding)
    try:
        separator = _separator(path, text)
        header, rows, problems = _rows(path, _reader(text, separator))
    except csv.Error as error:
        raise FileError(
            path, [f"cannot be read as a table: {error}; a quote may not be closed"]
        ) from None
    if separator != ",":
        words.append(f"cells are separated by {SEPARATORS[separator]}")
    columns = tuple(tuple(map(str.strip, column)) for column in zip(*rows, strict=True))
    return Table(tuple(header), columns, separator, tuple(words), tuple(problems))


def _text(path: Path, encoding: str) -> tuple[str, list[str]]:
    raw = path.read_bytes()
    words = []
    if not encoding and raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
        words.append("the file is text in UTF-16")
    try:
        # The mark with which some programs begin a file is no part of the first name.
        text = raw.decode(encoding or "utf-8-sig")
    except LookupError:
        raise ConfigError(
            f"--encoding must be one that Python knows, such as utf-8, cp1252 or latin-1; got "
            f"{encoding!r}"
        ) from None
    except UnicodeError as error:
        at = error.start if isinstance(error, UnicodeDecodeError) else 0
        way_out = "say its encoding, such as --encoding cp1252 (Windows) or latin-1"
        raise FileError(
            path,
            [
                f"must be text in {encoding or 'UTF-8'}; line {raw[:at].count(10) + 1} has the "
                f"byte 0x{raw[at]:02x}, which does not occur there: save it as UTF-8, or {way_out}"
            ],
        ) from None
    if "\0" in text:
        raise FileError(path, ["must be a table in text; it holds bytes of value 0"])
    return text, words


def _reader(text: str, separator: str) -> Iterator[list[str]]:
    # A space between a separator and a quote is no part of the cell.
    return csv.reader(io.StringIO(text, ""), delimiter=separator, skipinitialspace=True)


def _separator(path: Path, text: str) -> str:
    """Return what separates the cells of the first lines: they have as many as the header."""

    def fit(separator: str) -> tuple[float, int]:
        reader = _reader(text, separator)
        lines = [*itertools.islice(filter(any, reader), limits.LINES_SHOWN)]
        header, *rows = lines or [[]]
        same = sum(len(row) == len(header) for row in rows)
        return (same / max(1, len(rows)) if len(header) > 1 else -1.0), len(header)

    if not text.strip():
        raise FileError(path, ["must have columns with commas between them; it has nothing"])
    with_columns = {separator: fit(separator) for separator in SEPARATORS}
    best = max(with_columns, key=lambda separator: with_columns[separator])
    if with_columns[best][0] < 0:
        first = text.split("\n", 1)[0].strip()
        raise FileError(
            path,
            [
                "must have columns with commas, semicolons, tabs or bars between them; it has one "
                f"column, {first[:60]!r}"
            ],
        )
    # If several separators fit as well, the most usual one is taken.
    return next(s for s in SEPARATORS if with_columns[s] == with_columns[best])


def _rows(path: Path, reader: Iterator[list[str]]) -> tuple[list[str], list[list[str]], list[str]]:
    """Return names that differ, the rows that have a cell for each, and what is wrong."""
    lines = filter(any, reader)
    header = [name.strip() for name in next(lines)]
    if any(map(is_number, header)):
        raise FileError(path, [f"must begin with a line of column names; got {shown(header)}"])
    problems, rows, others = [], [], []
    width = len(header)
    for number, row in enumerate(lines, 1):
        while len(row) > width and not row[-1].strip():
            row.pop()
        if len(row) == width:
            rows.append(row)
        else:
            others.append((number, len(row)))
    counts = collections.Counter(filter(None, header))
    problems += [
        f"must have columns of different names; {count} are called {name!r}"
        for name, count in counts.items()
        if count > 1
    ]
    if others:
        (number, cells), *more = others
        so_have = f" (as {len(more):,} other rows have another number too)" if more else ""
        takes = f"must have {width} cells in every row, as its header"
        problems.append(f"{takes}; row {number} has {cells}{so_have}")
    if not rows:
        raise FileError(path, problems or ["must have rows below its header; it has none"])
    seen: collections.Counter[str] = collections.Counter()
    for i, name in enumerate(header):
        name = name or f"column {i + 1}"
        seen[name] += 1
        header[i] = name if seen[name] == 1 else f"{name} ({seen[name]})"
    return header, rows, problems


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


def among(option: str, name: str, names: Sequence[str]) -> None:
    """Check that an option names a column."""
    try:
        checks.one_of(option, name, names)
    except ValueError as error:
        raise ConfigError(str(error)) from None
