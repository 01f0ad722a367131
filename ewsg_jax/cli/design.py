"""From the columns of a file to the numbers that a regression takes.

A number or a date is a feature; a text is a feature for each level but one, the reference, which
says by 1 that a row has the level; a column that says nothing, or what others say, is left out with
a word. What is missing goes by a stated policy.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np

from ewsg_jax.base import limits
from ewsg_jax.cli.arguments import Reading
from ewsg_jax.cli.cells import CellColumn, Mark, column, mark_of
from ewsg_jax.cli.config import ConfigError
from ewsg_jax.cli.delimited import Table, among
from ewsg_jax.datasets._dataset import INTERCEPT

ID_NAME = re.compile(r"(?i)(^|[\W_])(id|ids|nr|no|key|index|uuid|mrn)($|[\W_])|number|ID$")
"""Names of columns whose cells are names of rows."""
NO_VALUE = "missing"
"""What a level, or a feature, is called that says by 1 that the cell is missing."""


class Feature(NamedTuple):
    """What a column of the design says.

    Attributes:
        name: what it is called, `column[level]` for a level.
        column: the file's column.
        level: the level whose rows have 1; empty for a number.
        reference: the level that it is compared with.
        unit: what one more of a number is, if the file says it.
    """

    name: str
    column: str
    level: str = ""
    reference: str = ""
    unit: str = ""


class Groups(NamedTuple):
    """The groups of rows: the column's name, numbers of groups, shape (n,), and their names."""

    name: str
    numbers: np.ndarray
    names: tuple[str, ...]


class Exposure(NamedTuple):
    """What counts are per one of, such as days: the column's name, and its numbers, shape (n,)."""

    name: str
    numbers: np.ndarray


@dataclass(frozen=True, eq=False)
class Design:
    """The numbers of a file.

    Attributes:
        x: features, shape (n, d).
        y: the response, shape (n,): numbers, or texts.
        features: what each feature is.
        response: what the response is called.
        first: the class of the response that is the reference, if that was asked for or is clear.
        groups: the groups, if they were asked for.
        exposure: what counts are per one of, if that was asked for.
        words: what was done with each column, a line each.
        problems: what is wrong, a sentence each; the arrays are then of no use.
    """

    x: np.ndarray
    y: np.ndarray
    features: tuple[Feature, ...]
    response: str
    first: str
    groups: Groups | None
    exposure: Exposure | None
    words: tuple[str, ...]
    problems: tuple[str, ...]


def design(table: Table, reading: Reading) -> Design:
    """Return the numbers of a file, and all that is wrong with it.

    Raises:
        ConfigError: an option names no column, or columns that do not go together.
    """
    names, words, problems = table.names, [*table.words], [*table.problems]
    response = reading.response or names[-1]
    _check_options(names, response, reading)

    # Leave out columns that are no use, and rows or cells that are missing.
    columns = _columns(table, response, reading)
    mixed = [c for c in columns.values() if c.kind == "mixed"]
    problems += [f"{c.words} of the column {c.name!r}: {_way_out_of(c.name)}" for c in mixed]
    empty = [c.name for c in columns.values() if c.kind == "empty" and c.name != response]
    columns = {n: c for n, c in columns.items() if n not in empty and c.kind != "mixed"}
    if empty:
        words.append(f"left out, for every cell is missing: {', '.join(empty)}")
    if not reading.every_column:
        columns, said = _without_ids(columns, response, reading)
        words += said
    columns, said, wrong = _without_missing(columns, response, reading)
    words += said
    problems += wrong

    # Take out what is no feature: the response, the groups, the exposure.
    if response in columns and columns[response].kind == "empty":
        problems.append(f"must have a response; every cell of {response!r} is missing")
    of_response = columns.pop(response, None)
    groups, exposure = None, None
    if reading.group:
        groups, said, wrong = _groups(reading.group, columns.pop(reading.group, None))
        words += said
        problems += wrong
    if reading.exposure:
        exposure, wrong = _exposure(reading.exposure, columns.pop(reading.exposure, None))
        problems += wrong

    # The rest are features, of which those are left out that others determine.
    encoded = _encoded(columns, reading)
    words += encoded.words
    problems += encoded.problems
    features = tuple(encoded.features)
    num_rows = len(next(iter(columns.values())).values) if columns else 0
    x = np.zeros((num_rows, 0))
    if encoded.arrays:
        x = np.column_stack(encoded.arrays).astype(float)
    if not problems and not features:
        problems.append(f"must have features, not only the response {response!r}")
    if any(feature.name == INTERCEPT for feature in features):
        problems.append(
            f"must have no feature called {INTERCEPT!r}, the name of the weight of a column of "
            f"ones: give it another name, or leave it out by --drop {INTERCEPT}"
        )
    y = np.zeros(len(x)) if of_response is None else _response(of_response)
    if not problems and not reading.every_column:
        x, features, said = _independent(x, features, reading.intercept)
        words += said

    # The reference of a text is its first level; the classes of numbers are known to a model alone.
    references = dict(pair.split("=", 1) for pair in reading.reference)
    first = references.get(response, "")
    if of_response is not None and of_response.kind == "text" and not first:
        first = of_response.levels[0]
    said = tuple(words), tuple(problems)
    return Design(x, y, features, response, first, groups, exposure, *said)


def _check_options(names: Sequence[str], response: str, reading: Reading) -> None:
    among("--response", response, names)
    for option in ("drop", "keep", "categorical"):
        for name in getattr(reading, option):
            among(f"--{option}", name, names)
    for option, what in (("group", "groups"), ("exposure", "exposure")):
        name = getattr(reading, option)
        if not name:
            continue
        among(f"--{option}", name, names)
        if name == response or (option == "exposure" and name == reading.group):
            taken = "response" if name == response else "groups"
            raise ConfigError(f"--{option} must be another column than the {taken}; got {name!r}")
        if name in reading.drop:
            raise ConfigError(f"--drop must leave the {what}; got {name!r}")
    if response in reading.drop:
        raise ConfigError(f"--drop must leave the response; got {response!r}")
    for pair in reading.reference:
        name, equals, _ = pair.partition("=")
        if not equals:
            raise ConfigError(f"--reference must be COLUMN=LEVEL; got {pair!r}")
        among("--reference", name, names)


def _columns(table: Table, response: str, reading: Reading) -> dict[str, CellColumn]:
    """Return the columns that are used, by their names."""
    references = dict(pair.split("=", 1) for pair in reading.reference)
    used = {
        name: cells
        for name, cells in zip(table.names, table.columns, strict=True)
        if name not in reading.drop
    }
    fixed = reading.decimal != ""
    mark = cast(Mark | None, reading.decimal or mark_of([*used.values()]))
    columns = {}
    for name, cells in used.items():
        columns[name] = column(
            name,
            cells,
            mark,
            separator=table.separator,
            is_text=name in reading.categorical or name == reading.group,
            may_mix=name == response,
            fixed_mark=fixed,
            missing=reading.na,
            reference=references.get(name, ""),
        )
        levels = columns[name].levels
        if name in references and name != response and references[name] not in levels:
            listed = f": {', '.join(levels[: limits.NAMES_SHOWN])}" if levels else "; it has none"
            raise ConfigError(
                f"--reference must name a level of {name!r}{listed}; got {references[name]!r}"
            )
    return columns


def _way_out_of(name: str) -> str:
    return (
        f"correct them, say what stands for a missing value by --na TEXT, take all cells as levels "
        f"by --categorical {name}, or leave the column out by --drop {name}"
    )


def _without_ids(
    columns: dict[str, CellColumn], response: str, reading: Reading
) -> tuple[dict[str, CellColumn], list[str]]:
    """Leave out columns whose every row has another text, or another whole number without need:
    they are in order, or so near each other that some would be equal by accident, or called so.
    """
    ids = []
    for name, one in columns.items():
        if name in (response, reading.group, reading.exposure, *reading.keep, *reading.categorical):
            continue
        known = one.values[~one.missing]
        few = limits.LINES_SHOWN
        if len(known) <= few or len(np.unique(known)) < len(known):
            continue
        steps = np.diff(known)
        # Pairs of equal numbers in draws from their range: none are found once in e¹² times.
        pairs = len(known) * (len(known) - 1) / 2 / (np.ptp(known) + 1)
        is_number_of = bool(ID_NAME.search(name)) or np.all(steps > 0) or pairs > few
        if one.kind == "text" or (one.kind == "number" and is_number_of and not np.any(known % 1)):
            ids.append(name)
    kept = {name: one for name, one in columns.items() if name not in ids}
    said = [
        f"left out: {name} is an id, for no two rows have the same "
        f"{'text' if columns[name].kind == 'text' else 'whole number'} (--keep {name} keeps it)"
        for name in ids
    ]
    return kept, said


def _without_missing(
    columns: dict[str, CellColumn], response: str, reading: Reading
) -> tuple[dict[str, CellColumn], list[str], list[str]]:
    """Return columns by the policy for missing cells, what was done, and what is wrong."""
    count = {name: int(one.missing.sum()) for name, one in columns.items() if one.kind != "empty"}
    count = {name: number for name, number in count.items() if number}
    if not count:
        return columns, [], []
    if not reading.missing:
        listed = []
        for name, number in [*count.items()][: limits.LINES_SHOWN]:
            row = int(np.argmax(columns[name].missing)) + 1
            listed.append(f"{number:,} of {name!r} (the first in row {row:,})")
        more = f", and {len(count) - len(listed):,} more columns" * (len(count) > len(listed))
        return (
            columns,
            [],
            [
                f"has missing cells: {', '.join(listed)}{more}: say what is done with them by "
                "--missing drop (leave those rows out) or --missing indicator (a column that says "
                "so, and the mean in the place of a number), or leave a column out by --drop"
            ],
        )
    gone = np.zeros(len(next(iter(columns.values())).values), bool)
    needed = [*count]
    if reading.missing != "drop":
        # Neither has a value that could stand for it.
        needed = [name for name in count if name in (response, reading.exposure)]
    for name in needed:
        gone |= columns[name].missing
    said, problems = [], []
    if gone.any():
        by = ", ".join(f"{name} {count[name]:,}" for name in needed)
        said.append(f"{int(gone.sum()):,} rows with missing cells left out ({by})")
        if gone.all():
            problems.append(f"has a missing cell in every row ({by}): leave columns out by --drop")
            return columns, said, problems
        columns = {n: c if c.kind == "empty" else c.take(~gone) for n, c in columns.items()}
    return columns, said, problems


class _Encoded(NamedTuple):
    """What columns become.

    Attributes:
        arrays: the numbers of each feature, shape (n,).
        features: what each feature is.
        words: what was done, a line each.
        problems: what is wrong, a sentence each.
    """

    arrays: list[np.ndarray]
    features: list[Feature]
    words: list[str]
    problems: list[str]

    def add(self, other: "_Encoded") -> None:
        """Put another column's behind these."""
        self.arrays.extend(other.arrays)
        self.features.extend(other.features)
        self.words.extend(other.words)
        self.problems.extend(other.problems)


def _encoded(columns: dict[str, CellColumn], reading: Reading) -> _Encoded:
    """Return the features that columns become: those of a text by levels, of others by numbers."""
    encoded, constant = _Encoded([], [], [], []), []
    for name, one in columns.items():
        known = one.values[~one.missing]
        # A column that is missing in some rows says at least in which.
        says_missing = one.missing.any() and len(known)
        if len(np.unique(known)) < 2 and not (reading.every_column or says_missing):
            constant.append(f"{name} ({_constant(one)})")
            continue
        if one.kind == "text" and (problem := _too_many_levels(one, len(columns), reading)):
            encoded.problems.append(problem)
            continue
        encoded.add(_levels(one) if one.kind == "text" else _numbers(one, reading.every_column))
    if constant:
        encoded.words.append(f"left out, for they are constant: {', '.join(constant)}")
    return encoded


def _too_many_levels(one: CellColumn, num_columns: int, reading: Reading) -> str:
    """Return what is wrong with a text of too many levels, and the way out; else nothing."""
    name = one.name
    # Texts that nearly every row has for itself are names, unless they were asked for as levels.
    most = max(limits.LINES_SHOWN, math.isqrt(len(one.values)))
    if name in reading.categorical:
        most = limits.MAX_DENSE_DIMENSION
    if len(one.levels) <= most:
        return ""
    as_groups = f"take them as groups by --group {name}, or "
    if len(one.levels) + num_columns > limits.MAX_DENSE_DIMENSION or reading.group:
        as_groups = ""
    return (
        f"has {len(one.levels):,} different texts in the column {name!r}, such as "
        f"{', '.join(map(repr, one.levels[:2]))}, too many for levels: "
        f"{as_groups}leave the column out by --drop {name}"
    )


def _levels(one: CellColumn) -> _Encoded:
    """Return a text as features that are 1 for a level: one for each but the reference, the first;
    a missing cell is a level of its own, the last.
    """
    name = one.name
    levels = [*one.levels, *[NO_VALUE] * bool(one.missing.any())]
    codes = np.where(one.missing, len(one.levels), one.values).astype(int)
    sizes = np.bincount(codes, minlength=len(levels))
    first, *others = [f"{n} ({c:,})" for n, c in zip(levels, sizes, strict=True)]
    listed = ", ".join(others[: limits.LINES_SHOWN]) + ", …" * (len(others) > limits.LINES_SHOWN)
    words = [f"{name}: levels {listed}; reference {first}"]
    if one.words:
        words.append(f"{name}: {one.words}")
    return _Encoded(
        [codes == i for i in range(1, len(levels))],
        [Feature(f"{name}[{level}]", name, level, levels[0]) for level in levels[1:]],
        words,
        [],
    )


def _numbers(one: CellColumn, keeps_constant: bool) -> _Encoded:
    """Return numbers or dates as a feature, and a feature that is 1 for a missing cell.

    Missing numbers are the mean of the others, so that the second feature has their effect.
    """
    name, known = one.name, one.values[~one.missing]
    encoded = _Encoded([], [], [], [])
    if one.words:
        encoded.words.append(f"{name}: {one.words}")
    if np.ptp(known) or keeps_constant:
        encoded.arrays.append(np.where(one.missing, known.mean(), one.values))
        encoded.features.append(Feature(name, name, unit="day" if one.kind == "date" else ""))
    if one.missing.any():
        encoded.arrays.append(one.missing)
        encoded.features.append(Feature(f"{name}[{NO_VALUE}]", name, NO_VALUE, "known"))
        encoded.words.append(
            f"{name}: {int(one.missing.sum()):,} missing cells have the mean of the others, "
            f"{known.mean():.6g}, and 1 in {name}[{NO_VALUE}]"
        )
    return encoded


def _groups(name: str, one: CellColumn | None) -> tuple[Groups | None, list[str], list[str]]:
    """Return the groups of a column, what was done, and what is wrong; a missing cell is a group of
    its own.
    """
    # A column of missing cells alone was left out before.
    if one is None:
        return None, [], [f"must have two groups or more in {name!r}; every cell is missing"]
    # Another array, since one of short names would cut this one off.
    texts = one.texts()
    texts = np.where(texts == "", NO_VALUE, texts)
    levels, numbers = np.unique(texts, return_inverse=True)
    groups = Groups(name, numbers.reshape(-1), tuple(levels.tolist()))
    wrong = []
    if len(levels) < 2:
        wrong = [f"must have two groups or more in {name!r}; it has one"]
    return groups, [f"{name}: {len(levels):,} groups"], wrong


def _exposure(name: str, one: CellColumn | None) -> tuple[Exposure | None, list[str]]:
    """Return an exposure, or what is wrong with its column."""
    if one is None or one.kind != "number":
        return None, [f"must have numbers in the exposure {name!r}"]
    least = one.values[~one.missing].min()
    if least <= 0:
        return None, [
            f"must have numbers above 0 in the exposure {name!r}; the smallest is {least:g}: "
            "leave out rows in which nothing could be counted"
        ]
    return Exposure(name, one.values), []


def _constant(one: CellColumn) -> str:
    """Return the one value of a column; it may be known only in rows that were left out."""
    known = one.values[~one.missing]
    if not len(known):
        return NO_VALUE
    return one.levels[0] if one.kind == "text" else f"{known[0]:.6g}"


def _response(one: CellColumn) -> np.ndarray:
    """Return numbers as such, and levels as texts."""
    return one.texts() if one.kind == "text" else one.values


def _independent(
    x: np.ndarray, features: tuple[Feature, ...], intercept: bool
) -> tuple[np.ndarray, tuple[Feature, ...], list[str]]:
    """Leave out features that are sums of multiples of features before them, and say so."""
    if x.shape[1] > limits.MAX_DENSE_DIMENSION:
        return x, features, []
    z = x - x.mean(axis=0) if intercept else x
    z = z / np.sqrt(np.sum(z**2, axis=0))
    gram = z.T @ z
    kept: list[int] = []
    words = []
    for i, feature in enumerate(features):
        of = np.linalg.solve(gram[np.ix_(kept, kept)], gram[kept, i])
        # Of the squares of a feature, the share that the others leave; float32 holds no less.
        if 1.0 - of @ gram[kept, i] > 1e-10:
            kept.append(i)
            continue
        causes = [features[k].name for k, w in zip(kept, of, strict=True) if abs(w) > 1e-5]
        words.append(f"left out: {feature.name} is determined by {', '.join(causes)}")
    return x[:, kept], tuple(features[i] for i in kept), words
