"""What the cells of a column are: numbers, dates, levels of a text, or missing.

A cell is read once for each different text, so that a column of 200,000 rows takes milliseconds.
"""

import dataclasses
import datetime
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ewsg_jax.base import limits

MISSING_CELLS = frozenset(
    ["", "na", "n/a", "nan", "null", "none", ".", "-", "--", "?", "#n/a", "#na"]
)
"""Cells that stand for a missing value, in small letters."""
NO_LEVEL = MISSING_CELLS - {"none"}
"""Those that do so in a column of text: `none` may be a level there."""
NEGATIVE = {
    "yes": "no",
    "y": "n",
    "true": "false",
    "t": "f",
    "on": "off",
    "positive": "negative",
    "ja": "nein",
    "oui": "non",
    "sí": "no",
    "si": "no",
    "sim": "não",
}
"""Pairs of words whose second is the reference, in small letters."""
THOUSANDS = re.compile(r"(?<=\d)[\s'’](?=\d{3}(?!\d))")
GROUPED = {
    "point": re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?"),
    "comma": re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?"),
}
ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].+)?")
OTHER_DATE = re.compile(r"(\d{1,2})([./])(\d{1,2})\2(\d{4})")
Mark = Literal["point", "comma"]


@dataclass(frozen=True, eq=False)
class CellColumn:
    """A column of a file.

    Attributes:
        name: what it is called.
        kind: what its cells are; `"empty"` if all are missing, `"mixed"` if it is wrong.
        values: numbers, days since the first date, or the number of the level, shape (n,), NaN if
            missing.
        levels: levels of a text, the reference first.
        words: what was done to read it, if anything; of a mixed column what is wrong.
    """

    name: str
    kind: Literal["number", "date", "text", "empty", "mixed"]
    values: np.ndarray
    levels: tuple[str, ...] = ()
    words: str = ""

    @property
    def missing(self) -> np.ndarray:
        """Which cells are missing, shape (n,)."""
        return np.isnan(self.values)

    def take(self, rows: np.ndarray) -> "CellColumn":
        """Return the column of some rows, with the levels that are left."""
        values, levels = self.values[rows], self.levels
        if self.kind == "text":
            left = np.unique(values[~np.isnan(values)]).astype(int)
            levels = tuple(levels[i] for i in left)
            number = np.full(len(self.levels) + 1, np.nan)
            number[left] = np.arange(len(left))
            values = number[np.where(np.isnan(values), -1, values).astype(int)]
        return dataclasses.replace(self, values=values, levels=levels)

    def texts(self) -> np.ndarray:
        """Return the level of each row, as text; of a row without one it is empty."""
        names = np.array([*self.levels, ""])
        return names[np.where(np.isnan(self.values), -1, self.values).astype(int)]


def mark_of(columns: Sequence[Sequence[str]]) -> Mark | None:
    """Return the decimal mark of a file, from columns that can be read in one way only; None if
    none is such.
    """
    votes = {"point": 0, "comma": 0}
    for cells in columns:
        known = [cell for cell in dict.fromkeys(cells) if cell.lower() not in MISSING_CELLS]
        if not any("," in cell or "." in cell for cell in known):
            continue
        reads = [mark for mark in votes if all(number(cell, mark) is not None for cell in known)]
        if len(reads) == 1:
            votes[reads[0]] += 1
    if votes["point"] == votes["comma"]:
        return None
    return "point" if votes["point"] > votes["comma"] else "comma"


def column(
    name: str,
    cells: Sequence[str],
    mark: Mark | None,
    *,
    separator: str = ",",
    is_text: bool = False,
    may_mix: bool = False,
    fixed_mark: bool = False,
    missing: Sequence[str] = (),
    reference: str = "",
) -> CellColumn:
    """Return what a column is.

    Args:
        name: what it is called.
        cells: its cells.
        mark: the decimal mark of cells that may be read in two ways. None: a point, but a comma in
            1,234 if a semicolon separates cells.
        separator: what separates cells.
        is_text: whether numbers are levels too.
        may_mix: whether numbers are levels if some cells are none.
        fixed_mark: whether no other decimal mark is tried.
        missing: what stands for a missing value, in addition to `MISSING_CELLS`.
        reference: the level that is the reference. Default: `no` of `yes` and `no` and of such
            pairs, else the first in the order of the alphabet.
    """
    stands_for_missing = MISSING_CELLS | {word.strip().lower() for word in missing}
    different = dict.fromkeys(cells)
    known = [cell for cell in different if cell.lower() not in stands_for_missing]
    if not known:
        return CellColumn(name, "empty", np.full(len(cells), np.nan))
    if mark is None:
        has_comma = any("," in cell for cell in known)
        mark = "comma" if separator == ";" and has_comma else "point"

    # Numbers if all cells are such, by the file's mark or else by the other one; or dates.
    if not is_text:
        other: Mark = "comma" if mark == "point" else "point"
        for tried in (mark,) if fixed_mark else (mark, other):
            read = {cell: number(cell, tried) for cell in known}
            if None not in read.values():
                words = _of_numbers(known, tried)
                return CellColumn(name, "number", _values(cells, read), words=words)
        if dates := _dates(known):
            return _of_dates(name, cells, dates)

    # Else levels of a text, among which `none` may be one.
    no_level = stands_for_missing - (MISSING_CELLS - NO_LEVEL)
    known = [cell for cell in different if cell.lower() not in no_level]
    if not (is_text or may_mix) and (wrong := _mixed(cells, known, mark)):
        return CellColumn(name, "mixed", np.full(len(cells), np.nan), words=wrong)
    levels = sorted(known)
    first = reference if reference in levels else _reference(levels)
    levels.sort(key=lambda level: level != first)
    places = {level: float(i) for i, level in enumerate(levels)}
    return CellColumn(
        name, "text", _values(cells, places), tuple(levels), _spelling_variants(levels)
    )


def number(cell: str, mark: str) -> float | None:
    """Return the number in a cell; None if there is none, or none that is finite."""
    text = THOUSANDS.sub("", cell.replace("−", "-"))
    group = "," if mark == "point" else "."
    if group in text:
        text = text.replace(group, "") if GROUPED[mark].fullmatch(text) else "no"
    if mark == "comma":
        text = text.replace(",", ".")
    try:
        value = float("no" if "_" in text else text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _values(cells: Sequence[str], read: dict[str, Any]) -> np.ndarray:
    known = dict.fromkeys(cells, np.nan) | read
    return np.fromiter(map(known.__getitem__, cells), float, len(cells))


def _of_numbers(known: Sequence[str], mark: str) -> str:
    """Return how numbers were read, if they are not written as Python writes them."""
    for cell in known:
        if "," in cell or THOUSANDS.search(cell) or (mark == "comma" and "." in cell):
            return f"{cell} is read as {number(cell, mark):.15g}"
    return ""


def _mixed(cells: Sequence[str], known: Sequence[str], mark: str) -> str:
    """Return what is wrong with a column most of whose cells are numbers; else nothing."""
    wrong = {cell for cell in known if number(cell, mark) is None}
    is_known = set(known)
    places = [i for i, cell in enumerate(cells, 1) if cell in wrong]
    total = sum(cell in is_known for cell in cells)
    if not places or 2 * len(places) >= total:
        return ""
    few = [f"row {i} has {cells[i - 1]!r}" for i in places[: limits.NAMES_SHOWN]]
    more = f", and {len(places) - len(few):,} more" if len(places) > len(few) else ""
    return f"has no number in {len(places):,} of {total:,} cells ({', '.join(few)}{more})"


def _reference(levels: Sequence[str]) -> str:
    low = {level.lower(): level for level in levels}
    if len(levels) == 2:
        for word, negative in NEGATIVE.items():
            if set(low) == {word, negative}:
                return low[negative]
    return levels[0]


def _spelling_variants(levels: Sequence[str]) -> str:
    """Return which levels differ in their spelling only."""
    by_letters: dict[str, list[str]] = {}
    for level in levels:
        by_letters.setdefault(" ".join(level.lower().split()), []).append(level)
    twice = [" and ".join(map(repr, same)) for same in by_letters.values() if len(same) > 1]
    return f"levels that differ in spelling only are different: {'; '.join(twice)}" if twice else ""


def _dates(known: Sequence[str]) -> dict[str, datetime.datetime] | None:
    """Return the dates of cells, if all are such and it is clear what is the month."""
    try:
        if all(map(ISO_DATE.fullmatch, known)):
            times = {cell: datetime.datetime.fromisoformat(cell) for cell in known}
            # In several time zones, or in none.
            return {
                cell: time.astimezone(datetime.UTC).replace(tzinfo=None) if time.tzinfo else time
                for cell, time in times.items()
            }
        parts = [OTHER_DATE.fullmatch(cell) for cell in known]
        numbers = [(int(p[1]), int(p[3]), int(p[4])) for p in parts if p]
        if len(numbers) < len(known):
            return None
        # With points the day is first; with slashes it may be either, unless a number says so.
        day_first = all(p and p[2] == "." for p in parts) or any(day > 12 for day, _, _ in numbers)
        if not day_first and not any(month > 12 for _, month, _ in numbers):
            return None
        ordered = [(y, b, a) if day_first else (y, a, b) for a, b, y in numbers]
        return {c: datetime.datetime(*of) for c, of in zip(known, ordered, strict=True)}
    except (ValueError, OverflowError):
        return None  # no day of the calendar, or none in UTC


def _of_dates(
    name: str, cells: Sequence[str], dates: Mapping[str, datetime.datetime]
) -> CellColumn:
    first = min(dates.values())
    days = {cell: (time - first) / datetime.timedelta(days=1) for cell, time in dates.items()}
    words = f"dates are days since {first.date().isoformat()}, the first"
    return CellColumn(name, "date", _values(cells, days), words=words)
