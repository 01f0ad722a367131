"""Wrong calls of the thermostat, the preconditioner, the metric, and the methods made of them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax.numpy as jnp

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    DATA,
    KEY,
    MODEL,
    NAN,
    POINT,
    POSITIVE,
    SCHEDULE,
    WHOLE,
    T,
    V,
    failing,
    of,
)

UNIT = "decay must be a number from 0 up to but not including 1"
NOISE = "one of 'gaussian', 'rademacher'"


def identity(position, data):
    """The inverse metric of plain Langevin."""
    return jnp.ones_like(position)


def thermostat(step_size=0.1, **options):
    return ewsg.dynamics.thermostat(step_size, **({"friction": 1.0} | options))


def preconditioned(step_size=0.1, **options):
    return ewsg.dynamics.preconditioned(step_size, **options)


def riemannian(step_size=0.1, **options):
    return ewsg.dynamics.riemannian(step_size, **({"inverse_metric": identity} | options))


def stepped(inverse_metric, position=POINT, **options):
    """One step in a metric."""
    kernel = ewsg.sgrld(MODEL, 0.1, inverse_metric=inverse_metric, batch_size=2, **options)
    return kernel.step(KEY, kernel.init(KEY, position, DATA), DATA)


of(
    "dynamics.thermostat",
    ("no step", V, "step_size", "0.0 (float)", SCHEDULE, lambda: thermostat(0.0)),
    ("no friction", V, "friction", "0 (int)", SCHEDULE, lambda: thermostat(friction=0)),
    ("friction a text", T, "friction", "'1' (str)", POSITIVE, lambda: thermostat(friction="1")),
    ("cold", V, "temperature", "-1.0 (float)", POSITIVE, lambda: thermostat(temperature=-1.0)),
    ("a vector", V, "friction", "(2,)", POSITIVE, lambda: thermostat(friction=jnp.ones(2))),
    ("noise", V, "noise", "'normal' (str)", NOISE, lambda: thermostat(noise="normal")),
)
of(
    "dynamics.preconditioned",
    ("NaN", V, "step_size", "nan (float)", SCHEDULE, lambda: preconditioned(NAN)),
    ("all is kept", V, "decay", "1.0 (float)", UNIT, lambda: preconditioned(decay=1.0)),
    ("less than nothing", V, "decay", "-0.1 (float)", UNIT, lambda: preconditioned(decay=-0.1)),
    ("decay NaN", V, "decay", "nan (float)", UNIT, lambda: preconditioned(decay=NAN)),
    ("decay a schedule", T, "decay", "function", UNIT, lambda: preconditioned(decay=failing)),
    ("decay a bool", T, "decay", "False (bool)", UNIT, lambda: preconditioned(decay=False)),
    ("decays", V, "decay", "(2,)", UNIT, lambda: preconditioned(decay=jnp.zeros(2))),
    (
        "no damping",
        V,
        "damping",
        "0.0 (float)",
        "damping must be a positive",
        lambda: preconditioned(damping=0.0),
    ),
    (
        "correction alone",
        V,
        "damping",
        "None",
        "correction=True",
        lambda: preconditioned(correction=True),
    ),
    (
        "correction",
        T,
        "correction",
        "1 (int)",
        "True or False",
        lambda: preconditioned(correction=1),
    ),
    (
        "temperature",
        T,
        "temperature",
        "None (NoneType)",
        SCHEDULE,
        lambda: preconditioned(temperature=None),
    ),
    ("noise", V, "noise", "True (bool)", NOISE, lambda: preconditioned(noise=True)),
)
LIKE, SQUARE = "a tree like the position", "or an array (2, 2)"
of(
    "dynamics.riemannian",
    ("no step", V, "step_size", "-1 (int)", SCHEDULE, lambda: riemannian(-1)),
    (
        "a matrix",
        T,
        "inverse_metric",
        "(2, 2)",
        "a function (position",
        lambda: riemannian(inverse_metric=jnp.eye(2)),
    ),
    (
        "divergence",
        T,
        "divergence",
        "True (bool)",
        "a function (position",
        lambda: riemannian(divergence=True),
    ),
    ("temperature", V, "temperature", "0 (int)", SCHEDULE, lambda: riemannian(temperature=0)),
    ("noise", V, "noise", "None (NoneType)", NOISE, lambda: riemannian(noise=None)),
)
of(
    "sgrld",
    (
        "fails",
        V,
        "inverse_metric",
        "RuntimeError: the disk is full",
        SQUARE,
        lambda: stepped(failing),
    ),
    (
        "three numbers",
        V,
        "inverse_metric",
        "it: (3,) float32",
        LIKE,
        lambda: stepped(lambda p, data: jnp.ones(3)),
    ),
    (
        "a scalar",
        V,
        "inverse_metric",
        "it: () float32",
        SQUARE,
        lambda: stepped(lambda p, data: 1.0),
    ),
    (
        "whole numbers",
        V,
        "inverse_metric",
        "(2,) int32",
        "floating",
        lambda: stepped(lambda p, data: jnp.arange(2)),
    ),
    (
        "another tree",
        V,
        "inverse_metric",
        "it['x']: (2,) float32",
        "position: (2,) float32",
        lambda: stepped(lambda p, data: {"x": p}),
    ),
    ("nothing", V, "inverse_metric", "nothing", LIKE, lambda: stepped(lambda p, data: None)),
    (
        "divergence of a matrix's shape",
        V,
        "divergence",
        "(2, 2)",
        LIKE,
        lambda: stepped(identity, divergence=lambda p, data: jnp.eye(2)),
    ),
    (
        "no rows",
        V,
        "batch_size",
        "got 0",
        WHOLE,
        lambda: ewsg.sgrld(MODEL, 0.1, inverse_metric=abs, batch_size=0),
    ),
)
of(
    "sgnht",
    (
        "friction a list",
        T,
        "friction",
        "[1.0] (list)",
        SCHEDULE,
        lambda: ewsg.sgnht(MODEL, 0.1, friction=[1.0], batch_size=1),
    ),
    (
        "half a row",
        T,
        "batch_size",
        "0.5 (float)",
        WHOLE,
        lambda: ewsg.sgnht(MODEL, 0.1, friction=1.0, batch_size=0.5),
    ),
)
of(
    "psgld",
    (
        "a step of two",
        V,
        "step_size",
        "(2,)",
        SCHEDULE,
        lambda: ewsg.psgld(MODEL, jnp.ones(2), batch_size=1),
    ),
    (
        "decay a text",
        T,
        "decay",
        "'0.9' (str)",
        UNIT,
        lambda: ewsg.psgld(MODEL, 0.1, batch_size=1, decay="0.9"),
    ),
    (
        "damping",
        V,
        "damping",
        "-1.0 (float)",
        POSITIVE,
        lambda: ewsg.psgld(MODEL, 0.1, batch_size=1, damping=-1.0),
    ),
)
