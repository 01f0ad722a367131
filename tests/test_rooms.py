"""The tree of the package: imports lead one way, and an underscore means one thing."""

import ast
import graphlib
import importlib
from pathlib import Path

import pytest

import ewsg_jax as ewsg

PACKAGE = Path(ewsg.__file__).parent
ORDER = [
    ["_base"],
    ["datasets"],
    ["rows", "bijectors"],
    ["streams", "bounds"],
    ["posterior"],
    ["models", "gradients"],
    ["dynamics"],
    ["kernels"],
    ["exact", "stacking"],
    ["methods"],
    ["preparation", "sampling"],
    ["forecasting"],
    ["checking"],
    ["halving"],
    ["diagnostics"],
    ["planning"],
    ["experiments"],
    ["__main__"],
]
"""From what everything stands on to what nothing does; rooms of a line import no other."""
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
HIDDEN_ELSEWHERE = {"types", "random", "tree", "module"}
"""Names of modules of Python and JAX, and of the decorator that a module of that name holds."""


def modules():
    """The package's modules by their dotted names, without those of rooms themselves."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts)] = path
    return found


MODULES = modules()


def imported(path):
    """The package's modules that a module imports, wherever the line stands in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ewsg_jax":
            inner = (node.module or "").split(".")[1:]
            for alias in node.names:
                whole = ".".join([*inner, alias.name])
                names.add(whole if whole in MODULES else ".".join(inner))
    return names


@pytest.mark.parametrize("name", [name for name in MODULES if name.split(".")[0] != "__init__"])
def test_imports_lead_one_way(name):
    room = name.split(".")[0]
    for other in imported(MODULES[name]):
        target = other.split(".")[0]
        if target and target != room:
            assert LEVEL[target] < LEVEL[room], f"{name} imports {other}"


def test_modules_have_no_circle():
    graph = {
        name: {f"{x}.__init__" if f"{x}.__init__" in MODULES else x for x in imported(path)}
        - {name, ""}
        for name, path in MODULES.items()
        if not name.endswith("__init__")
    }
    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    "name", [name for name in MODULES if not name.endswith(("__init__", "__main__"))]
)
def test_an_underscore_is_there_where_a_name_would_be_hidden(name):
    """A public function or class of the room, or a module of Python's or JAX's; `check` is kept for
    a function.

    All of `methods`, which `ewsg_jax` takes with a star: without an underscore they would be names
    of the package.
    """
    *rooms, module = name.split(".")
    public = ewsg if not rooms else importlib.import_module(f"ewsg_jax.{'.'.join(rooms)}")
    taken = {
        name
        for name, value in vars(public).items()
        if getattr(value, "__module__", "").startswith("ewsg")
    }
    hidden = HIDDEN_ELSEWHERE | {"check"} if rooms == ["_base"] else set()
    hides = module.lstrip("_") in taken | hidden
    assert module.startswith("_") == (hides or rooms == ["methods"])


def test_every_room_has_its_place():
    assert set(LEVEL) == {name.split(".")[0] for name in MODULES} - {"__init__"}
