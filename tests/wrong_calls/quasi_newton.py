"""Wrong calls of the quasi-Newton dynamics and of the method made of it."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import A_POSTERIOR, MODEL, POSITIVE, SCHEDULE, T, V, failing, of


def dynamics(step_size=0.1, **options):
    return ewsg.dynamics.quasi_newton(step_size, **options)


def hamcmc(step_size=0.1, **options):
    return ewsg.hamcmc(MODEL, step_size, **({"batch_size": 2} | options))


SIZE = "must be a whole number, at least 2"

of(
    "dynamics.quasi_newton",
    ("no step", V, "step_size", "got 0.0", SCHEDULE, lambda: dynamics(0.0)),
    ("step a text", T, "step_size", "'0.1' (str)", SCHEDULE, lambda: dynamics("0.1")),
    (
        "schedule that fails",
        V,
        "step_size",
        "RuntimeError: the disk is full",
        SCHEDULE,
        lambda: dynamics(failing),
    ),
    ("one chain", V, "memory_size", "got 1", SIZE, lambda: dynamics(memory_size=1)),
    ("two and a half", T, "memory_size", "2.5 (float)", SIZE, lambda: dynamics(memory_size=2.5)),
    ("memory True", T, "memory_size", "True (bool)", SIZE, lambda: dynamics(memory_size=True)),
    ("no trust", V, "trust_region", "got 0.0", POSITIVE, lambda: dynamics(trust_region=0.0)),
    (
        "trust a schedule",
        T,
        "trust_region",
        "function",
        POSITIVE,
        lambda: dynamics(trust_region=lambda step: 1.0),
    ),
    (
        "trust None",
        T,
        "trust_region",
        "None (NoneType)",
        POSITIVE,
        lambda: dynamics(trust_region=None),
    ),
    (
        "scale below 0",
        V,
        "initial_scale",
        "got -1.0",
        POSITIVE,
        lambda: dynamics(initial_scale=-1.0),
    ),
    (
        "a scale for each coordinate",
        V,
        "initial_scale",
        "shape (2,)",
        POSITIVE,
        lambda: dynamics(initial_scale=jnp.ones(2)),
    ),
    (
        "scale an integer array",
        V,
        "initial_scale",
        "np.int32(1) (int32)",
        POSITIVE,
        lambda: dynamics(initial_scale=np.int32(1)),
    ),
    (
        "threshold 0",
        V,
        "curvature_threshold",
        "got 0",
        POSITIVE,
        lambda: dynamics(curvature_threshold=0),
    ),
    (
        "threshold NaN",
        V,
        "curvature_threshold",
        "nan",
        POSITIVE,
        lambda: dynamics(curvature_threshold=float("nan")),
    ),
    ("no temperature", V, "temperature", "got 0.0", SCHEDULE, lambda: dynamics(temperature=0.0)),
    (
        "noise misspelt",
        V,
        "noise",
        "'gausian'",
        "did you mean 'gaussian'?",
        lambda: dynamics(noise="gausian"),
    ),
    (
        "frozen noise at rest",
        V,
        "frozen_noise of this dynamics",
        "'rest'",
        "one of 'momentum', 'zero', 'one'",
        lambda: ewsg.kernel(
            dynamics(),
            ewsg.gradients.exponentially_weighted(
                ewsg.gradients.uniform(MODEL, batch_size=1), frozen_noise="rest"
            ),
        ),
    ),
)
of(
    "hamcmc",
    (
        "a dynamics for a posterior",
        T,
        "posterior",
        "quasi_newton(",
        A_POSTERIOR,
        lambda: ewsg.hamcmc(dynamics(), 0.1, batch_size=1),
    ),
    (
        "no rows",
        V,
        "batch_size",
        "got 0",
        "must be a whole number, at least 1",
        lambda: hamcmc(batch_size=0),
    ),
    ("one chain", V, "memory_size", "got 1", SIZE, lambda: hamcmc(memory_size=1)),
    ("no trust", V, "trust_region", "got 0.0", POSITIVE, lambda: hamcmc(trust_region=0.0)),
    (
        "scale a list",
        T,
        "initial_scale",
        "[1.0] (list)",
        POSITIVE,
        lambda: hamcmc(initial_scale=[1.0]),
    ),
    ("no step", V, "step_size", "got -1", SCHEDULE, lambda: hamcmc(-1)),
)
