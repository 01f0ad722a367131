"""A planted fault: a function, what is wrong in it, and the test that finds it."""

from typing import NamedTuple

from tests.faults.operators import Operator


class Fault(NamedTuple):
    """With the operator's change in the function, the test (its path without `tests/`) fails."""

    name: str
    function: str
    operator: Operator
    test: str
