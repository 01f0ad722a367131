"""Every named method has one record, which is right, and the table keeps its order."""

import dataclasses
import inspect
import re

import pytest

import ewsg_jax as ewsg
from ewsg_jax import methods
from ewsg_jax.kernels.docstrings import documented_arguments
from ewsg_jax.kernels.record import METHODS, Method, method

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
    monkeypatch.setattr("ewsg_jax.kernels.record.METHODS", table := dict(METHODS))
    assert method(**FACTS, integrators=("euler",), example={"friction": 2.0})(added) is added
    assert list(table) == [*before, "added"]
    assert table["added"] == Method(
        name="added", build=added, integrators=("euler",), example={"friction": 2.0}, **FACTS
    )
    added.__name__ = "without options"
    method(**FACTS)(added)
    assert table["without options"].integrators == ()
    assert table["without options"].example == {}


def test_a_docstring_is_completed_from_the_record_and_from_methods_like_it(monkeypatch):
    monkeypatch.setattr("ewsg_jax.kernels.record.METHODS", {})
    facts = FACTS | {"source": "Welling & Teh 2011, eq. 4", "hazard": "is slow"}

    @method(**facts, like=(ewsg.sgld, ewsg.uld))
    def added(posterior, step_size, *, friction, gain):
        """A method.

        Bias: Large.

        Args:
            gain: g > 0.
        """

    text = inspect.getdoc(added)
    assert text.startswith("A method.\n\nBias: h (discretisation). Large.\nCost: ")
    assert "\nHazard: is slow.\n" in text
    assert "M. Welling and Y. W. Teh" in text
    documented = documented_arguments(text)
    assert list(documented) == ["posterior", "step_size", "friction", "gain"]
    for other, name in ((ewsg.sgld, "step_size"), (ewsg.uld, "friction")):
        assert documented[name] == documented_arguments(inspect.getdoc(other))[name]
    assert "Raises:\n    TypeError, ValueError: " in text

    def lacking(posterior, unknown):
        """Another."""

    with pytest.raises(ValueError, match="lacking documents no unknown"):
        method(**facts, like=(ewsg.sgld,))(lacking)


def test_a_record_is_keyword_only_and_frozen():
    with pytest.raises(TypeError):
        Method("added", ewsg.ld, *FACTS.values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        METHODS["ld"].title = "another"
    assert len(set(METHODS.values())) == len(METHODS)


def test_the_table_has_every_method_in_its_order():
    assert ["METHODS", "Method", *METHODS] == methods.__all__
    assert [record.name for record in METHODS.values()] == list(METHODS)


@pytest.mark.parametrize("record", METHODS.values(), ids=list(METHODS))
def test_a_method_is_public_and_so_are_its_parts(record):
    assert getattr(ewsg, record.name) is getattr(methods, record.name) is record.build
    for name in record.dynamics:
        assert callable(getattr(ewsg.dynamics, "palindrome" if name.isupper() else name))
    for name in re.findall(r"\w+", record.estimator.replace("none", "")):
        assert callable(getattr(ewsg.gradients, name))


@pytest.mark.parametrize("record", METHODS.values(), ids=list(METHODS))
def test_the_example_is_what_the_method_asks_for(record):
    posterior = ewsg.models.logistic_regression()
    assert isinstance(record.build(posterior, 0.1, **record.example), ewsg.Kernel)
    for integrator in record.integrators:
        assert isinstance(
            record.build(posterior, 0.1, integrator=integrator, **record.example), ewsg.Kernel
        )


def metric(theta, data):
    return 1 + theta**2


@pytest.mark.parametrize(
    ("name", "dynamics", "own"),
    [
        ("sgnht", "thermostat", {"friction": 1.3}),
        ("psgld", "preconditioned", {"decay": 0.9, "damping": 0.2, "correction": True}),
        ("sgrld", "riemannian", {"inverse_metric": metric, "divergence": metric}),
        ("hamcmc", "quasi_newton", {"memory_size": 3, "trust_region": 0.7, "initial_scale": 0.3}),
    ],
)
def test_a_method_hands_on_its_options(name, dynamics, own):
    """It is its dynamics over uniform rows, with no option at its default."""
    model, rows = ewsg.models.logistic_regression(), {"batch_size": 3, "replace": False}
    own = own | {"temperature": 0.7, "noise": "rademacher"}
    composed = ewsg.kernel(
        getattr(ewsg.dynamics, dynamics)(0.1, **own), ewsg.gradients.uniform(model, **rows)
    )
    assert getattr(ewsg, name)(model, 0.1, **own, **rows) == composed
