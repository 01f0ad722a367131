"""Every planted fault of the tables in this folder is found by the test it names.

Each fault is made in a copy of the tree, and the named test is run there in a process of its own.
"""

import ast
import re
from pathlib import Path

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
        (operators.drop_call("jnp.sqrt"), "test_no_such_test", r"no test failed \(4\)"),
        (
            operators.rename("jnp.sqrt", "no_such_name", nth=1),
            "test_factors[tree]",
            "the fault cannot run",
        ),
        (operators.drop_argument("jax.tree.map", 1), "test_factors[tree]", "the fault cannot run"),
        (operators.rename("jnp.sqrt", "jnp.abs", nth=1), "test_factors[tree]", None),
    ],
    ids=["no fault", "no test", "no name", "no argument", "a fault"],
)
def test_what_counts_as_found(judge, operator, test, why):
    file, source = operators.mutated(ROOT, "factors.factor_of", operator)
    said = judge.run(file, source, [f"tests/dynamics/test_mass.py::{test}"]).why
    assert re.search(why, said) if why else said is None


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


SOURCE = '''
def step(x, h: float = 2 * 3):
    """The law: 2 * x."""
    total = 1 + sqrt(x, 2)
    total *= h
    if not 0 < x <= h and x < 1:
        raise ValueError(f"{x * h}")
    return -h * (total - x), kick(total, x)
'''


@pytest.mark.parametrize(
    ("operator", "was", "now"),
    [
        (operators.swap("-", "+"), "(total - x)", "(((total) + (x)))"),
        (operators.swap("*", "/"), "2 * 3", "((2) / (3))"),
        (operators.swap("*", "/", nth=1), "total *= h", "total /= h"),
        (operators.comparison("<", "<="), "x < 1", "((x) <= (1))"),
        (operators.negate("total - x"), "(total - x)", "((-(total - x)))"),
        (operators.drop("1"), "1 + sqrt(x, 2)", "((sqrt(x, 2)))"),
        (operators.drop("x < 1"), "not 0 < x <= h and x < 1", "((not 0 < x <= h))"),
        (operators.drop_call("sqrt"), "sqrt(x, 2)", "(x)"),
        (operators.drop_argument("sqrt", 1), "sqrt(x, 2)", "(sqrt(x))"),
        (operators.swap_arguments("kick"), "kick(total, x)", "(kick(x, total))"),
        (operators.constant(1, 0), "1 + sqrt", "(0) + sqrt"),
        (operators.rename("x", "state.x"), "sqrt(x, 2)", "sqrt((state.x), 2)"),
        (operators.assume("x < 1", True), "x < 1", "(True)"),
        (operators.drop_statement("total *="), "total *= h", "pass"),
    ],
    ids=lambda part: part.label if isinstance(part, operators.Operator) else "",
)
def test_an_operator_changes_one_place(tmp_path, operator, was, now):
    """Docstrings, annotations and messages are passed over, and every line keeps its number."""
    (tmp_path / operators.PACKAGE / "room").mkdir(parents=True)
    file = tmp_path / operators.PACKAGE / "room" / "file.py"
    file.write_text(SOURCE)
    found, source = operators.mutated(tmp_path, "room.step", operator)
    assert SOURCE.count(was) == 1
    assert (found, source) == (file, SOURCE.replace(was, now))


@pytest.mark.parametrize(
    ("name", "operator", "said"),
    [
        (
            "room.leap",
            operators.swap("+", "-"),
            "must be one function of the package; got 'room.leap', which names none",
        ),
        (
            "step",
            operators.swap("+", "-"),
            r"got 'step', which names ewsg_jax.a.step, ewsg_jax.b.step",
        ),
        (
            "a.step",
            operators.swap("+", "-", nth=1),
            r"nth must be below 1, its places in a.step; got 1",
        ),
    ],
    ids=["missing", "ambiguous", "no place"],
)
def test_a_wrong_fault_is_one_error(tmp_path, name, operator, said):
    (tmp_path / operators.PACKAGE).mkdir()
    for file in ("a.py", "b.py"):
        (tmp_path / operators.PACKAGE / file).write_text(SOURCE)
    with pytest.raises(LookupError, match=said):
        operators.mutated(Path(tmp_path), name, operator)


def test_rename_takes_names_alone():
    with pytest.raises(ValueError, match="rename takes names"):
        operators.rename("x", "x + 1")
