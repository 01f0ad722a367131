"""Every test is in one tier, and the commands of CI run all that is not of the sweep."""

import itertools
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from tests.conftest import FULL as FULL_FOLDERS

ROOT = Path(__file__).parents[1]
MARKERS = ("full", "sweep", "real_data")
OPTIONS = shlex.split(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
)
USUAL, FULL, SWEEP = OPTIONS[OPTIONS.index("-m") + 1], "full and not sweep", "sweep"
MARKED = [
    dict(zip(MARKERS, has, strict=True))
    for has in itertools.product([False, True], repeat=len(MARKERS))
]


def chosen(expression, marked):
    """Whether `-m expression` runs a test with those markers: the syntax is that of Python."""
    return bool(eval(expression, {}, marked))


@pytest.mark.parametrize(
    "marked", MARKED, ids=lambda marked: "-".join(k for k in marked if marked[k]) or "none"
)
def test_a_test_is_in_one_tier(marked):
    assert sum(chosen(tier, marked) for tier in (USUAL, FULL, SWEEP)) == 1


def test_the_commands_of_ci_run_all_but_the_sweep():
    commands = [
        line
        for line in (ROOT / ".ci" / "run").read_text().splitlines()
        if "python -m pytest" in line
    ]
    # The README's command, which CI reads there, has no expression of its own.
    expressions = [
        USUAL,
        *(found for line in commands for found in re.findall(r'-m "(.+?)"', line)),
    ]
    assert FULL in expressions
    for marked in MARKED:
        assert any(chosen(of, marked) for of in expressions) == (not marked["sweep"])


def test_the_page_of_tests_has_the_commands_of_the_tiers():
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    for command in ("python -m pytest -n 2\n", f'-m "{FULL}"\n', f"-m {SWEEP}\n"):
        assert command in text


def test_folders_of_the_full_tier_are_there():
    assert all(list((ROOT / folder).glob("test_*.py")) for folder in FULL_FOLDERS)


def test_the_page_of_tests_names_those_of_the_benchmarks():
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(benchmarks/tests/[\w/.]+?)/?` \|", text, re.MULTILINE))
    here = ROOT / "benchmarks" / "tests"
    files = [path.relative_to(ROOT) for path in here.glob("**/test_*.py")]
    assert named == {
        (path if path.parent == here.relative_to(ROOT) else path.parent).as_posix()
        for path in files
    }
