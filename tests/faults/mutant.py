"""A planted fault: one wrong snippet, and the test that finds it."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """`before` stands once in `file`; with `after` in its place, `test` fails."""

    name: str
    file: str
    before: str
    after: str
    test: str
    sweep: bool = False
