"""Every planted fault of the tables in this folder is found by the test it names.

Each fault is made in a copy of the tree, and the named test is run there in a process of its own.
"""

import ast
import re

import pytest

from tests.faults import operators
from tests.faults.judge import ROOT, Judge
from tests.faults.tables import FAULTS, USUAL

PARAMETERS = [
    pytest.param(f, id=f.name, marks=[] if f.name in USUAL else [pytest.mark.sweep]) for f in FAULTS
]


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    """One copy of the tree and one process for all faults; each fault is taken out again."""
    made = Judge(tmp_path_factory.mktemp("faults"))
    yield made
    made.close()


@pytest.mark.parametrize("fault", PARAMETERS)
def test_fault_is_killed(fault, judge):
    file, source = operators.mutated(ROOT, fault.function, fault.operator)
    verdict = judge.run(file, source, [f"tests/{fault.test}"])
    assert verdict.why is None, verdict.why


@pytest.mark.parametrize(
    ("operator", "test", "why"),
    [
        (
            operators.rename("jnp.sqrt", "(jnp.sqrt)", nth=1),
            "test_factors[tree]",
            r"no test failed \(0\)",
        ),
        (
            operators.rename("jnp.sqrt", "no_such_name", nth=1),
            "test_factors[tree]",
            "the fault cannot run",
        ),
    ],
    ids=["no fault", "no name"],
)
def test_what_counts_as_found(judge, operator, test, why):
    file, source = operators.mutated(ROOT, "factors.factor_of", operator)
    said = judge.run(file, source, [f"tests/dynamics/test_mass.py::{test}"]).why
    assert re.search(why, said or "")


def test_names_are_unique():
    names = [fault.name for fault in FAULTS]
    assert len(set(names)) == len(names)
    assert set(names) >= USUAL


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_can_be_planted(fault):
    """Its function and its place are there, it is a program, and the file with its test has one of that name."""
    file, source = operators.mutated(ROOT, fault.function, fault.operator)
    assert ast.dump(ast.parse(source)) != ast.dump(ast.parse(file.read_text()))
    test, _, name = fault.test.partition("::")
    assert f"def {name.partition('[')[0]}(" in (ROOT / "tests" / test).read_text()


def test_the_readme_counts_them():
    assert f"We inject {len(FAULTS)} bugs" in (ROOT / "README.md").read_text()
