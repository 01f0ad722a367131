"""Every method's docstring has what a reader needs and agrees with signature and record."""

import doctest
import functools
import inspect
import re

import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base.modules import arguments as shown
from ewsg_jax.kernels.docstrings import PARAGRAPHS

SECTIONS = [*PARAGRAPHS, "Args", "Raises", "Example"]
EVERY_METHOD = pytest.mark.parametrize("method", ewsg.METHODS.values(), ids=list(ewsg.METHODS))


def entries(text):
    """Each `name: text` by its name; what follows is indented deeper. A text's spaces are one."""
    found = re.findall(
        r"^(\w[\w, ]*):\s(.*(?:\n(?:[ ].*)?)*)", inspect.cleandoc("\n" + text), flags=re.MULTILINE
    )
    assert len({name for name, _ in found}) == len(found)
    return dict(found)


def sections(method):
    return entries(inspect.getdoc(method.build))


def arguments(method):
    return {
        name: " ".join(text.split()) for name, text in entries(sections(method)["Args"]).items()
    }


@functools.cache
def example(name):
    """The kernel that the example makes; it runs, and prints what it says."""
    (parsed,) = doctest.DocTestFinder(recurse=False).find(ewsg.METHODS[name].build, name, globs={})
    assert doctest.DocTestRunner().run(parsed, clear_globs=False).failed == 0
    return parsed.globs["kernel"]


@EVERY_METHOD
def test_sections(method):
    summary, _ = inspect.getdoc(method.build).split("\n\n", 1)
    assert summary.endswith(".")
    assert len(summary.split("\n")) <= 2
    assert list(sections(method)) == SECTIONS
    assert all(text.strip() for text in sections(method).values())
    assert list(entries(sections(method)["Raises"])) == ["TypeError, ValueError"]


@EVERY_METHOD
def test_arguments_are_those_of_the_signature(method):
    parameters = inspect.signature(method.build).parameters
    texts = arguments(method)
    assert list(texts) == list(parameters)
    assert all(texts.values())
    for name, parameter in parameters.items():
        default = parameter.default
        assert ("default" in texts[name].lower()) == (default is not parameter.empty), name
        if isinstance(default, str):
            assert f'`"{default}"` (default)' in texts[name]
        elif isinstance(default, int | float) and not isinstance(default, bool):
            number, unit = re.search(r"[Dd]efault,? ([\d.,e-]*\d)( GiB)?", texts[name]).groups()
            assert float(number.replace(",", "")) * (2**30 if unit else 1) == default, name


@EVERY_METHOD
def test_what_it_names_exists(method):
    text = inspect.getdoc(method.build)
    for path in re.findall(r"`ewsg_jax\.([\w.]+)", text):
        functools.reduce(getattr, path.split("."), ewsg)
    others = set(re.findall(r"`(\w+)`", text)) - set(arguments(method))
    assert {name for name in others if name.endswith(("ld", "mc", "ht"))} <= set(ewsg.METHODS)


@pytest.mark.usual_parameters("sg*", "*ewsg*", "*_ld", "*_hmc")
@EVERY_METHOD
def test_the_step_of_the_example_goes_with_its_rows(method):
    """Short enough there, by stability and by the minibatch's gradient noise; too long with 30
    times the rows.

    Rows of unit scale have curvatures 1 in Gaussian location, 1/4 in logistic regression, which are
    the variances of their gradients too.
    """
    stated = re.match(r"for about ([\d,]+) rows of unit scale", sections(method)["Example"])
    n, kernel = int(stated[1].replace(",", "")), example(method.name)
    one = 0.25 if "logistic" in repr(kernel) else 1.0
    h = float(kernel.step_size(jnp.int32(0)))
    if not method.dynamics:
        assert 0.5 < h / (2.4 / np.sqrt(n * one)) < 2
        return
    estimator = getattr(kernel.estimator, "estimator", kernel.estimator)
    of = shown(kernel.dynamics) | shown(estimator)
    if hasattr(estimator, "batch_size"):
        of["batch_size"] = estimator.batch_size
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
        excess = h * scale * variance / (2 * gamma if underdamped else 2)
        stable = h**2 * curvature if underdamped else h * scale * curvature
        has_little_noise = method.estimator in ("svrg", "saga", "control_variate", "full")
        return max(stable, 0.0 if has_little_noise else excess)

    assert worst(n) < 0.4
    assert worst(30 * n) > 0.4
