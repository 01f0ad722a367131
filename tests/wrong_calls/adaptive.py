"""Wrong calls of the thermostat, the preconditioner, the metric, and the methods made of them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax.numpy as jnp

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    DATA,
    KEY,
    MODEL,
    POINT,
    POSITIVE,
    T,
    V,
    failing,
    of,
    row,
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
    "dynamics.preconditioned",
    row(
        V,
        "damping | 0.0 (float) | damping must be a positive",
        lambda: preconditioned(damping=0.0),
    ),
    row(V, "damping | None | correction=True", lambda: preconditioned(correction=True)),
)
LIKE, SQUARE = "a tree like the position", "or an array (2, 2)"
of(
    "dynamics.riemannian",
    row(
        T,
        "inverse_metric | (2, 2) | a function (position",
        lambda: riemannian(inverse_metric=jnp.eye(2)),
    ),
    row(T, "divergence | True (bool) | a function (position", lambda: riemannian(divergence=True)),
)
of(
    "sgrld",
    row(V, f"inverse_metric | RuntimeError: the disk is full | {SQUARE}", lambda: stepped(failing)),
    row(
        V,
        f"inverse_metric | it: (3,) float32 | {LIKE}",
        lambda: stepped(lambda p, data: jnp.ones(3)),
    ),
    row(V, f"inverse_metric | it: () float32 | {SQUARE}", lambda: stepped(lambda p, data: 1.0)),
    row(
        V,
        "inverse_metric | (2,) int32 | floating",
        lambda: stepped(lambda p, data: jnp.arange(2)),
    ),
    row(
        V,
        "inverse_metric | it['x']: (2,) float32 | position: (2,) float32",
        lambda: stepped(lambda p, data: {"x": p}),
    ),
    row(V, f"inverse_metric | nothing | {LIKE}", lambda: stepped(lambda p, data: None)),
    row(
        V,
        f"divergence | (2, 2) | {LIKE}",
        lambda: stepped(identity, divergence=lambda p, data: jnp.eye(2)),
    ),
)

of(
    "psgld",
    row(
        V,
        f"damping | -1.0 (float) | {POSITIVE}",
        lambda: ewsg.psgld(MODEL, 0.1, batch_size=1, damping=-1.0),
    ),
)
