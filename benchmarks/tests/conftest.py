"""What these tests share with those of the library: flags, devices, tiers, data and fixtures."""

from tests.conftest import (
    linearize,
    optimised,
    programs_are_freed,
    pytest_collection_modifyitems,
    pytest_runtest_protocol,
    x64,
)

__all__ = [
    "linearize",
    "optimised",
    "programs_are_freed",
    "pytest_collection_modifyitems",
    "pytest_runtest_protocol",
    "x64",
]
