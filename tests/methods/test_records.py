"""Every named method stands in a file of its own with one record, and the table keeps the order of the imports."""

import dataclasses
import re
from pathlib import Path

import pytest

import ewsg_jax as ewsg
from ewsg_jax import methods
from ewsg_jax.methods import METHODS, Method
from ewsg_jax.record import method

FOLDER = Path(methods.__file__).parent
FACTS = {
    "title": "A title",
    "dynamics": ("langevin",),
    "estimator": "full",
    "bias": "h",
    "evaluations": "n",
    "memory": "none",
    "source": "nowhere",
    "hazard": "all",
}


def test_a_record_is_written_beside_its_method(monkeypatch):
    def added(posterior, step_size, *, friction):
        return ewsg.uld(posterior, step_size, friction=friction)

    before = list(METHODS)
    monkeypatch.setattr("ewsg_jax.record.METHODS", table := dict(METHODS))
    assert method(**FACTS, integrators=("euler",), example={"friction": 2.0})(added) is added
    assert list(table) == [*before, "added"]
    assert table["added"] == Method(
        name="added", build=added, integrators=("euler",), example={"friction": 2.0}, **FACTS
    )
    added.__name__ = "without options"
    method(**FACTS)(added)
    assert table["without options"].integrators == ()
    assert table["without options"].example == {}


def test_a_second_method_of_a_name_is_refused():
    def sgld():
        """Not the one in the table."""

    kept = METHODS["sgld"]
    with pytest.raises(ValueError, match=r"two methods are called 'sgld': in ewsg_jax\.methods\._sgld and tests"):
        method(**FACTS)(sgld)
    assert METHODS["sgld"] is kept


def test_a_record_is_keyword_only_and_frozen():
    with pytest.raises(TypeError):
        Method("added", ewsg.ld, *FACTS.values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        METHODS["ld"].title = "another"
    assert len(set(METHODS.values())) == len(METHODS)


def test_the_table_is_in_the_order_of_the_imports():
    text = (FOLDER / "__init__.py").read_text(encoding="utf-8")
    lines = re.findall(r"^from ewsg_jax\.(?:methods|exact)\.\w+ import (\w+) as \1$", text, re.MULTILINE)
    assert lines == list(METHODS)
    assert [record.name for record in METHODS.values()] == list(METHODS)


def test_every_method_has_a_file_of_its_own():
    files = {record.build.__module__.rsplit(".", 1)[1] for record in METHODS.values()}
    assert len(files) == len(METHODS)
    assert files == {f"_{name}" for name in METHODS}
    places = [*FOLDER.glob("*.py"), *FOLDER.parent.glob("exact/*.py")]
    written = {path.stem for path in places if "\n@method(" in path.read_text(encoding="utf-8")}
    assert written == files


@pytest.mark.parametrize("record", METHODS.values(), ids=list(METHODS))
def test_the_example_is_what_the_method_asks_for(record):
    posterior = ewsg.models.logistic_regression()
    assert isinstance(record.build(posterior, 0.1, **record.example), ewsg.Kernel)
    for integrator in record.integrators:
        assert isinstance(record.build(posterior, 0.1, integrator=integrator, **record.example), ewsg.Kernel)
    with pytest.raises((TypeError, ValueError), match="integrator"):
        record.build(posterior, 0.1, integrator="another", **record.example)
