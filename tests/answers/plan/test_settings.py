"""The settings of a plan: each says what set it, is used, and is read when a plan runs."""

import ast
import itertools
import re
from pathlib import Path

import pytest

from ewsg_jax.answers.plan import settings

SOURCE = Path(settings.__file__)


def documented():
    """The name of each setting, with the docstring under it."""
    body = ast.parse(SOURCE.read_text(encoding="utf-8")).body
    return {
        statement.targets[0].id: after.value.value if isinstance(after, ast.Expr) else ""
        for statement, after in itertools.pairwise(body)
        if isinstance(statement, ast.Assign)
    }


def test_each_setting_is_documented():
    assert len(documented()) > 50
    assert [name for name, text in documented().items() if len(text) < 20] == []


@pytest.mark.parametrize("path", sorted(SOURCE.parent.glob("*.py")), ids=lambda path: path.stem)
def test_settings_are_read_when_a_plan_runs(path):
    """A change of one place counts everywhere: nobody imports a value, or has it as a default."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.module != "ewsg_jax.answers.plan.settings"
        if isinstance(node, ast.FunctionDef):
            defaults = [*node.args.defaults, *node.args.kw_defaults]
            assert not any("settings." in ast.unparse(node) for node in defaults if node)
    at_import = [node for node in tree.body if isinstance(node, ast.Assign)]
    assert not any("settings." in ast.unparse(node) for node in at_import)


def test_each_setting_is_used():
    text = "".join(path.read_text(encoding="utf-8") for path in SOURCE.parent.glob("*.py"))
    used = set(re.findall(r"(?<!\w)(?<!check_)settings\.([A-Z_]+)", text))
    assert set(documented()) == used - {"NAME"}
