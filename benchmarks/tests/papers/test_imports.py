"""The papers' experiments use the library as anybody does, by its public names, and share with the
command line what reads configurations and writes results.
"""

import ast
import importlib
import types
from pathlib import Path

import pytest

import benchmarks.papers
import ewsg_jax as ewsg

COMMAND_LINE = (
    *(f"ewsg_jax.cli.{file}" for file in ("config", "console", "plan", "results")),
    "ewsg_jax.base.progress",
    "ewsg_jax.base.table",
)
PAPERS = sorted(Path(benchmarks.papers.__file__).parent.glob("*.py"))


def imported(text):
    """The library's names a text imports, as (room, name); None where a module is imported."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (
                (each.name, None) for each in node.names if each.name.split(".")[0] == "ewsg_jax"
            )
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ewsg_jax":
            yield from ((node.module, each.name) for each in node.names)


def is_public(room, name):
    """Whether a name is one of `ewsg_jax`, or one that the `__init__` of a room of it offers."""
    if name is None:
        return room == "ewsg_jax"
    if room in COMMAND_LINE:
        return not name.startswith("_")
    if (
        name.startswith("_")
        or room.count(".") > 1
        or any(part.startswith("_") for part in room.split("."))
    ):
        return False
    module = importlib.import_module(room)
    if room == "ewsg_jax":
        return name in dir(ewsg)
    # A file is no room, and a room's files are not what it offers.
    return hasattr(module, "__path__") and not isinstance(
        getattr(module, name, None), types.ModuleType | None
    )


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_papers_import_public_names_alone(path):
    assert [
        each for each in imported(path.read_text(encoding="utf-8")) if not is_public(*each)
    ] == []
