"""The settings of a check: each says what set it, is used, and is read when a check runs."""

import ast
import itertools
import re
from pathlib import Path

import pytest

from ewsg_jax.answers.check import settings

ROOM = Path(settings.__file__).parent
PACKAGE = ROOM.parents[1]
SOURCE = Path(settings.__file__).read_text(encoding="utf-8")
WHAT_SET_IT = (
    r"\b([Cc]overage|[Aa]larms|[Bb]y hand|[Mm]emory|[Tt]ime|`test_\w+\.py`|"
    r"float(32|64)|usual 95 %)"
)


def documented():
    """The names of each assignment with the docstring under it."""
    body = ast.parse(SOURCE).body
    found = {}
    for statement, after in itertools.pairwise(body):
        if isinstance(statement, ast.Assign):
            names = [
                node.id for node in ast.walk(statement.targets[0]) if isinstance(node, ast.Name)
            ]
            text = after.value.value if isinstance(after, ast.Expr) else ""
            found |= dict.fromkeys(names, text)
    return found


@pytest.mark.parametrize(("name", "text"), documented().items())
def test_a_setting_says_what_set_it(name, text):
    assert re.search(WHAT_SET_IT, " ".join(text.split())), text


def test_settings_are_read_when_a_check_runs():
    """A change of one place counts everywhere: nobody imports a value, or has one as a default."""
    used = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                assert node.module != "ewsg_jax.answers.check.settings", path
            if isinstance(node, ast.Attribute):
                used.add(ast.unparse(node).removeprefix("check_"))
        if path.parent == ROOM:
            defaults = [
                default
                for node in ast.walk(tree)
                if isinstance(node, ast.FunctionDef)
                for default in (*node.args.defaults, *node.args.kw_defaults)
            ]
            assert not any("settings." in ast.unparse(node) for node in defaults if node), path
            at_import = [
                statement
                for statement in tree.body
                if isinstance(statement, ast.Assign) and "settings." in ast.unparse(statement)
            ]
            assert not at_import, path
    assert set(documented()) <= {name.removeprefix("settings.") for name in used} | {
        "MAX_MEAN_SHIFT",
        "MIN_VARIANCE_RATIO",
    }
