"""Every planted fault of the lists in this folder is found by the test it names.

Each fault is made in a copy of the tree, and the named test is run there in a process of its own.
"""

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import faults, lists
from tests.faults.mutant import Mutant

ROOT = Path(__file__).parents[2]
MUTANTS = [mutant for module in lists.modules_of(faults, but=("mutant", "server")) for mutant in module.MUTANTS]
QUICK = [m for m in MUTANTS if not m.sweep]
IN_EVERY_RUN = QUICK[::12]
"""Each takes a process of its own, and a second or more: a twelfth of the quick ones, from every list."""
PARAMETERS = [pytest.param(m, id=m.name, marks=[] if m in IN_EVERY_RUN else [pytest.mark.sweep]) for m in MUTANTS]

NO_PROGRAM, NO_VALUE = {"NameError", "SyntaxError", "ImportError"}, {"TypeError", "AttributeError"}
"""What says that the snippet is no program, and, where it is raised in the file that is changed, that it makes no sense."""
LONGEST = 600
"""Seconds of one test."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """A copy of all that tests read, compiled: one for all faults, each of which is taken out again."""
    copy = tmp_path_factory.mktemp("tree")
    for folder in ("ewsg_jax", "tests", "docs", "benchmarks", "notebooks", "configs"):
        shutil.copytree(ROOT / folder, copy / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff"):
        shutil.copy2(ROOT / name, copy)
    compileall.compile_dir(copy / "ewsg_jax", quiet=1)
    return copy


@pytest.fixture(scope="module")
def server():
    """The process whose forks run the tests, with one thread."""
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    quick = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    quick["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    # Without -P the names of the lists, `types` among them, would stand for modules of Python.
    with subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("server.py"))],
        env=os.environ | one_thread | quick,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.stdin.close()


@pytest.fixture
def survives(tree, server, tmp_path):
    """`survives(mutant)`: why the named test does not find the fault, or None where it does."""

    def judge(mutant):
        file, output, raised = tree / mutant.file, tmp_path / "output", tmp_path / "raised.json"
        source = file.read_text()
        assert source.count(mutant.before) == 1, f"{mutant.before!r} must stand once in {mutant.file}"
        changed = source.replace(mutant.before, mutant.after)
        if file.suffix == ".py":
            compile(changed, mutant.file, "exec")
        paths = {"tree": str(tree), "output": str(output), "raised": str(raised)}
        file.write_text(changed)
        try:
            server.stdin.write(json.dumps({**paths, "test": mutant.test, "seconds": LONGEST}) + "\n")
            server.stdin.flush()
            code = server.stdout.readline().strip()
        finally:
            shutil.copy2(ROOT / mutant.file, file)
        said = output.read_text()[-3000:]
        # 1: tests ran and failed. Anything else is a test that passes, is missing or cannot be collected.
        if code != "1":
            return f"{mutant.test} did not fail ({code}):\n{said}"
        failures = json.loads(raised.read_text())
        if [failure["when"] for failure in failures] != ["call"]:
            return f"an error is no failure:\n{said}"
        senseless = NO_PROGRAM | (NO_VALUE if failures[0]["raised_in"] == mutant.file else set())
        return f"the snippet cannot run:\n{said}" if senseless & set(failures[0]["kinds"]) else None

    return judge


@pytest.mark.parametrize("mutant", PARAMETERS)
def test_mutant_is_killed(mutant, survives):
    assert not (why := survives(mutant)), why


@pytest.mark.parametrize(
    ("after", "test", "why"),
    [
        ("Diagonal(root=jax.tree.map(jnp.sqrt, (tree)))", "test_factors[tree]", r"did not fail \(0\)"),
        ("Diagonal(root=tree)", "test_no_such_test", r"did not fail \(4\)"),
        ("Diagonal(root=no_such_name)", "test_factors[tree]", "the snippet cannot run"),
        ("Diagonal(root=jax.tree.map(jnp.sqrt))", "test_factors[tree]", "the snippet cannot run"),
        ("Diagonal(root=tree)", "test_factors[tree]", None),
    ],
    ids=["no fault", "no test", "no name", "no argument", "a fault"],
)
def test_what_counts_as_found(survives, after, test, why):
    before = "Diagonal(root=jax.tree.map(jnp.sqrt, tree))"
    said = survives(Mutant("", "ewsg_jax/factors.py", before, after, f"tests/dynamics/test_mass.py::{test}"))
    assert re.search(why, said) if why else said is None


def test_names_are_unique():
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_mutant_can_be_planted(mutant):
    assert (ROOT / mutant.file).read_text().count(mutant.before) == 1
