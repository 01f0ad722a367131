"""Every named method says by itself what it does, in the words that the methods share."""

import doctest
import inspect
import re

import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.methods.shared_text import ARGUMENTS, EXAMPLE, REFERENCES, RETURNS, VARIANTS, text_of

SECTIONS = ["Args", "Returns", "Raises", "References", "Example"]
EVERY_METHOD = pytest.mark.parametrize("method", ewsg.METHODS.values(), ids=list(ewsg.METHODS))


def sections(method):
    """The summary with what follows it, then each section by its name; in the order of the docstring."""
    parts = re.split(r"^(\w+):$", inspect.getdoc(method.build), flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def entries(section):
    """The entries of a section, one from each line that is not indented deeper than the first; spaces as one."""
    lines = inspect.cleandoc("\n" + section).split("\n")
    text = "\n".join(" " + line.strip() if line.startswith(" ") else "\n" + line for line in lines)
    return [" ".join(entry.split()) for entry in re.split(r"\n\n+", text) if entry.strip()]


def test_entries_are_told_apart_by_their_indent():
    assert entries("    one: a\n        and b\n    two:  c\n\n") == ["one: a and b", "two: c"]


@EVERY_METHOD
def test_sections(method):
    found = sections(method)
    assert list(found) == ["", *SECTIONS]
    summary, blank, *update = found[""].strip().split("\n")
    assert summary.endswith(".")
    assert not blank
    assert update
    assert "Targets" in found[""]
    assert "rguments as in" not in method.build.__doc__
    assert ">>> " in found["Example"]


@EVERY_METHOD
def test_arguments(method):
    wanted = [f"{name}: {text_of(name, method)}" for name in inspect.signature(method.build).parameters]
    assert entries(sections(method)["Args"]) == wanted


@EVERY_METHOD
def test_defaults_are_told(method):
    for name, parameter in inspect.signature(method.build).parameters.items():
        text = text_of(name, method)
        assert ("default" in text.lower()) == (parameter.default is not parameter.empty), name
        if isinstance(parameter.default, str):
            assert f'`"{parameter.default}"` (default)' in text
        elif isinstance(parameter.default, int | float) and name != "memory_limit":
            said = re.search(r"[Dd]efault,? ([\w.,-]*\w)|(\w+) \(default\)", text)
            told = (said[1] or said[2]).replace(",", "").replace("replacement", "True")
            assert (
                float(told) == parameter.default
                if told not in ("True", "False")
                else told == str(parameter.default)
            )


@EVERY_METHOD
def test_what_is_returned_and_raised(method):
    found = sections(method)
    assert entries(found["Returns"]) == [RETURNS]
    (raised,) = entries(found["Raises"])
    assert raised.startswith("TypeError, ValueError: an argument is of the wrong kind")


@EVERY_METHOD
def test_references(method):
    found = entries(sections(method)["References"])
    assert found
    assert len(set(found)) == len(found)
    assert set(found) <= set(REFERENCES.values())


def rows_of_the_example(method):
    """The n that the example's numbers are for."""
    said = entries(sections(method)["Example"])[0]
    n = int(re.search(r"[\d,]+", said)[0].replace(",", ""))
    assert said == EXAMPLE.format(n=n)
    return n


def example(method):
    """The kernel that the example makes."""
    (parsed,) = [
        test
        for test in doctest.DocTestFinder().find(method.build, method.name, globs={})
        if test.name == method.name
    ]
    names = {}
    for line in parsed.examples:
        exec(line.source, names)
        if "kernel" in names:
            return names["kernel"]
    raise AssertionError("no kernel")


@EVERY_METHOD
def test_the_step_of_the_example_goes_with_its_rows(method):
    """Short enough there, by its stability and by the heat of its minibatches; too long with 30 times the rows.

    Rows of unit scale have curvatures 1 in Gaussian location, 1/4 in logistic regression, which are the variances
    of their gradients too.
    """
    n, kernel = rows_of_the_example(method), example(method)
    one = 0.25 if "logistic" in repr(kernel) else 1.0
    h = float(kernel.step_size(jnp.int32(0)))
    if not method.dynamics:
        assert 0.5 < h / (2.4 / np.sqrt(n * one)) < 2
        return
    of = {**kernel.dynamics.arguments(), **getattr(kernel.estimator, "estimator", kernel.estimator).arguments()}
    gamma = float(of["friction"](jnp.int32(0))) if "friction" in of else 1.0

    def worst(n):
        curvature, variance = n * one, n**2 * one / of.get("batch_size", n)
        if method.name == "cv_uld":
            return h * float(of["inverse_mass"]) * curvature / (2 * gamma)
        if method.name == "hamcmc":
            return h * float(of["initial_scale"]) * curvature
        # The running mean of squares of g/n.
        scale = 1 / np.sqrt(one / of["batch_size"]) if method.name == "psgld" else 1.0
        underdamped = "friction" in of
        heat = h * scale * variance / (2 * gamma if underdamped else 2)
        stable = h**2 * curvature if underdamped else h * scale * curvature
        return max(stable, 0.0 if method.estimator in ("svrg", "saga", "control_variate", "full") else heat)

    assert worst(n) < 0.4
    assert worst(30 * n) > 0.4


def test_no_shared_text_is_left_over():
    documented = {
        (name, text_of(name, method))
        for method in ewsg.METHODS.values()
        for name in inspect.signature(method.build).parameters
    }
    texts = set(ARGUMENTS.items()) | {(name, text) for name, own in VARIANTS.items() for text in own.values()}
    assert texts == documented
    cited = {entry for method in ewsg.METHODS.values() for entry in entries(sections(method)["References"])}
    assert cited == set(REFERENCES.values())
