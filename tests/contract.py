"""The combinations that the contract tests go through, made from the table of methods."""

import functools
import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from tests.parts import altered

X = np.random.default_rng(0).normal(size=(7, 3))
DATA = {"x": X, "y": (X @ np.array([1.0, -2.0, 0.5]) > 0).astype(float)}
POSITION = np.array([0.3, -0.1, 0.2])


def combinations():
    """`(name, options)` of every method with each of its dynamics, with and without replacement."""
    for name, method in ewsg.METHODS.items():
        accepted = inspect.signature(method.build).parameters
        choices = [
            # BAOAB is ABOBA's program with other numbers.
            [("integrator", name) for name in method.integrators if name != "BAOAB"] or [None],
            [("replace", True), ("replace", False)] if "replace" in accepted else [None],
            [("rows", "random"), ("rows", "blocks")] if "rows" in accepted else [None],
            [("option", "I"), ("option", "II")] if "option" in accepted else [None],
            [("correction", False), ("correction", True)] if "correction" in accepted else [None],
            [("structure", name) for name in ("dense", "diagonal", "low_rank")]
            if "structure" in accepted
            else [None],
        ]
        for chosen in itertools.product(*choices):
            combination = dict(c for c in chosen if c is not None)
            # No row comes twice in a block.
            if combination.get("rows") != "blocks" or combination.get("replace", True):
                yield name, {**method.example, **combination}


def chosen_for(name, options):
    """The options of a combination beside those that each one of the method has."""
    return [(key, value) for key, value in options.items() if key not in ewsg.METHODS[name].example]


def pairwise(every):
    """Combinations in which each method meets each value, and any two values meet."""

    def pairs(name, options):
        values = [("method", name), *chosen_for(name, options)]
        return set(itertools.combinations(values, 2)) or {tuple(values)}

    wanted = set().union(*(pairs(*c) for c in every))
    chosen = set()
    while wanted:
        best = max(range(len(every)), key=lambda k: len(wanted & pairs(*every[k])))
        chosen.add(best)
        wanted -= pairs(*every[best])
    return chosen


@functools.cache
def met_in_pairs():
    """Every combination, and the places of those that `pairwise` chooses."""
    every = list(combinations())
    return every, sorted(pairwise(every))


def every_kernel(shift):
    """Parametrise a test over all combinations; outside the sweep over every eighth of the pairwise
    ones.

    One of these is in the usual tier. Tests take different shifts, so that each combination meets
    some of the promises in every run; those that share a program share their shift.
    """
    parameters = []
    every, met = met_in_pairs()
    places = {k: place for place, k in enumerate(met) if place % 8 == shift % 8}
    for k, combination in enumerate(every):
        tier = (
            [pytest.mark.sweep]
            if k not in places
            else [pytest.mark.full]
            if places[k] != 48 + shift
            else []
        )
        parameters.append(pytest.param(*combination, id=label(*combination), marks=tier))
    # By module, so that what a combination has compiled is still there for its next test.
    return pytest.mark.parametrize(("name", "options"), parameters, scope="module")


def label(name, options):
    """The combination's name among a test's parameters."""
    return "-".join([name, *(f"{value}" for _, value in chosen_for(name, options))])


def every_pair():
    """Parametrise over pairwise combinations, usual tier: for what needs no compiled program."""
    every, met = met_in_pairs()
    return pytest.mark.parametrize(
        ("name", "options"),
        [pytest.param(*every[k], id=label(*every[k])) for k in met],
        scope="module",
    )


def every_method():
    """Parametrise over all combinations: usual each estimator and dynamics once, full a half of the
    pairwise ones, with one of each method."""
    every, met = met_in_pairs()
    of_method = {every[k][0]: k for k in met}
    full = {*met[::2], *of_method.values()}
    usual, parts, parameters = set(), set(), []
    for name, k in of_method.items():
        method = ewsg.METHODS[name]
        if {method.estimator, method.dynamics[:1]} - parts:
            usual.add(k)
        parts |= {method.estimator, method.dynamics[:1]}
    for k, combination in enumerate(every):
        tier = [] if k in usual else [pytest.mark.full] if k in full else [pytest.mark.sweep]
        parameters.append(pytest.param(*combination, id=label(*combination), marks=tier))
    return pytest.mark.parametrize(("name", "options"), parameters, scope="module")


@functools.cache
def compiled_step(kernel):
    """One program for all tests of a kernel, and of those that equal it."""
    return jax.jit(kernel.step)


def data(dtype=None):
    """The seven rows of the logistic regression that every combination runs on."""
    return {k: jnp.asarray(v, dtype) for k, v in DATA.items()}


def flat_bound():
    """The bound of a logistic regression at any tree of weights, an intercept before or none."""
    bound = ewsg.bounds.jaakkola_jordan()

    def flat(position):
        return ravel_pytree(position)[0]

    def rows(position, data):
        x = data["x"]
        ones = jnp.ones((x.shape[0], flat(position).size - x.shape[1]), x.dtype)
        return data | {"x": jnp.concatenate([ones, x], axis=1)}

    return altered(
        bound,
        summarize=lambda center, data, chunk_size: bound.summarize(
            flat(center), rows(center, data), chunk_size
        ),
        total=lambda position, center, summary: bound.total(flat(position), flat(center), summary),
        gaps=lambda position, center, data: bound.gaps(
            flat(position), flat(center), rows(center, data)
        ),
    )


def build(name, options, posterior=None, step_size=0.05):
    """The kernel of one combination."""
    posterior = posterior or ewsg.models.logistic_regression(prior_scale=2.0)
    if "capacity" in options and posterior.bound is None:
        options = options | {"bound": flat_bound()}
    return ewsg.METHODS[name].build(posterior, step_size, **options)
