"""What a part of a kernel needs of the data, compared with what the data offer."""

import dataclasses
import enum
from collections.abc import Iterator
from typing import Any


class Need(enum.Enum):
    """Something that not all data offer; the value says it in words."""

    ONE_N = "the same number of rows for every member of a stack"
    ONE_PLACE = "all rows on one device"
    ALL_ROWS = "all rows in memory"


EVERYTHING = frozenset(Need)


def parts_of(part: Any) -> Iterator[Any]:
    """Yield a part of a kernel and the parts that it is made of, itself first."""
    yield part
    for field in dataclasses.fields(part):
        value = getattr(part, field.name)
        if hasattr(type(value), "needs"):
            yield from parts_of(value)


def who_needs(part: object, need: Need) -> Any | None:
    """Return the innermost part of a kernel that has a need, None if no part has."""
    needing = [inner for inner in parts_of(part) if need in inner.needs]
    return needing[-1] if needing else None
