"""The tree of the package: imports lead one way, and an underscore means one thing."""

import ast
import graphlib
from pathlib import Path

import pytest

import ewsg_jax as ewsg

PACKAGE = Path(ewsg.__file__).parent
CORE = (
    "base rows bijectors bounds posterior vectors hierarchy models gradients dynamics kernels "
    "metropolis methods"
)
RUN = "model_checks draws run"
ANSWERS = (
    "answers.mode answers.forecast answers.check answers.halve answers.learning_coefficient "
    "answers.plan"
)
DOORS = "diagnostics datasets bridges networks cli __main__"
FLOORS = {"core": CORE, "run": RUN, "answers": ANSWERS, "doors": DOORS}
"""The rooms of each floor in their order: a room imports only from rooms that stand before it."""
ROOMS = [room for rooms in FLOORS.values() for room in rooms.split()]


def modules():
    """The package's modules by their dotted names, without those of rooms themselves."""
    paths = (path for path in PACKAGE.rglob("*.py") if path.name != "__init__.py")
    return {
        ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in sorted(paths)
    }


MODULES = modules()


def room_of(name):
    """The room of a module or of a room; of `answers` each part is a room."""
    parts = name.split(".")
    return ".".join(parts[: 2 if parts[0] == "answers" else 1])


def imported(path):
    """The package's modules that a module imports, wherever the line stands in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "ewsg_jax":
            package = (node.module or "").split(".")[1:]
            for alias in node.names:
                whole = ".".join([*package, alias.name])
                names.add(whole if whole in MODULES else ".".join(package))
    return names - {""}


@pytest.mark.parametrize("name", MODULES)
def test_imports_lead_one_way(name):
    room = room_of(name)
    for other in imported(MODULES[name]):
        target = room_of(other)
        assert target == room or ROOMS.index(target) < ROOMS.index(room), f"{name} imports {other}"


def test_the_core_and_the_run_know_nothing_of_answers():
    """As the floors say it, not the rooms: nothing below the wall imports from above it."""
    above = {*ANSWERS.split(), *DOORS.split()}
    below = {name: path for name, path in MODULES.items() if room_of(name) not in above}
    assert len(below) > 100
    assert not [(name, other) for name, path in below.items() for other in imported(path) & above]


def test_modules_have_no_circle():
    graph = {name: imported(path) & set(MODULES) for name, path in MODULES.items()}
    graphlib.TopologicalSorter(graph).prepare()


def test_an_underscore_marks_a_private_module_of_a_public_room():
    """And nothing else: a private room is private as a whole, and its modules need no mark."""
    for name in MODULES:
        room, _, module = name.rpartition(".")
        if module != "__main__":
            assert module.startswith("_") == (room in ewsg._ROOMS), name


def test_private_rooms_hand_out_modules_only():
    """So that a name has one place; `methods` is the exception, which the package takes whole."""
    for path in PACKAGE.rglob("__init__.py"):
        room = ".".join(path.relative_to(PACKAGE).parts[:-1])
        if room and room not in (*ewsg._ROOMS, "methods"):
            assert [type(node) for node in ast.parse(path.read_text()).body] == [ast.Expr], room


def test_every_room_has_its_place():
    assert set(ROOMS) == {room_of(name) for name in MODULES}


def test_the_page_of_the_tree_has_the_floors():
    """`ewsg_jax/README.md` names every room, in the order of the floors."""
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    places = [text.find(f"`{room.removeprefix('answers.')}`") for room in ROOMS[:-1]]
    assert -1 not in places, [room for room, place in zip(ROOMS, places, strict=False) if place < 0]
    assert len(text.splitlines()) <= 30


def is_number(node):
    """Whether an expression is made of numbers alone: a number, a product of numbers, a tuple."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    kinds = ast.Constant, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.operator, ast.unaryop, ast.Load
    return isinstance(node, kinds) and all(
        isinstance(part, kinds) and (not isinstance(part, ast.Constant) or is_number(part))
        for part in ast.walk(node)
    )


def numeric_constants():
    """The names of all modules that stand for a number, by module."""
    for name, path in MODULES.items():
        for statement in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(statement, ast.Assign):
                continue
            (target,), value = statement.targets, statement.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = zip(target.elts, value.elts, strict=True)
            for one, number in pairs:
                if isinstance(one, ast.Name) and one.id.isupper() and is_number(number):
                    yield name, one.id


def test_numeric_constants_are_few():
    """Each is a thing that somebody may have to know: what is derived, or a convention that is used
    once, has no name.
    """
    constants = list(numeric_constants())
    assert 150 < len(constants) <= 250, len(constants)
    limits = [name for module, name in constants if module == "base.limits"]
    assert len(limits) == len(set(limits)) > 5
