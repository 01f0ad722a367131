"""The combinations that the contract tests go through, made from the table of methods."""

import inspect
import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

X = np.random.default_rng(0).normal(size=(7, 3))
DATA = {"x": X, "y": (X @ np.array([1.0, -2.0, 0.5]) > 0).astype(float)}
POSITION = np.array([0.3, -0.1, 0.2])

OPTIONS = {"friction": 2.0, "batch_size": 2, "chain_length": 2}


def combinations():
    """`(name, options)` of every method with each of its dynamics, with and without replacement."""
    for name, method in ewsg.METHODS.items():
        accepted = inspect.signature(method.build).parameters
        options = {k: v for k, v in OPTIONS.items() if k in accepted}
        choices = [
            [("integrator", d) for d in method.dynamics] if "integrator" in accepted else [None],
            [("replace", True), ("replace", False)] if "replace" in accepted else [None],
        ]
        for chosen in itertools.product(*choices):
            yield name, options | dict(c for c in chosen if c is not None)


def every_kernel(shift):
    """Parametrise a test over all combinations: every fourth of them, from `shift` on, outside the sweep.

    Tests take different shifts, so that each combination meets some of the promises in every run.
    """
    parameters = []
    for k, (name, options) in enumerate(combinations()):
        label = "-".join([name, *(f"{v}" for key, v in options.items() if key not in OPTIONS)])
        marks = [] if k % 4 == shift % 4 else [pytest.mark.sweep]
        parameters.append(pytest.param(name, options, id=label, marks=marks))
    return pytest.mark.parametrize(("name", "options"), parameters)


def data(dtype=None):
    """The seven rows of the logistic regression that every combination runs on."""
    return {k: jnp.asarray(v, dtype) for k, v in DATA.items()}


def build(name, options, posterior=None, step_size=0.05):
    """The kernel of one combination."""
    posterior = posterior or ewsg.models.logistic_regression(prior_scale=2.0)
    return ewsg.METHODS[name].build(posterior, step_size, **options)
