"""Wrong calls of the methods made of them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from typing import Any

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    A_POSTERIOR,
    DATA,
    FROZEN,
    INF,
    INTEGRATORS,
    KERNEL,
    KEY,
    MODEL,
    POINT,
    POSITIVE,
    SCHEDULE,
    WHOLE,
    WHOLE_0,
    T,
    V,
    failing,
    of,
)

NO_RADEMACHER = "must be 'gaussian' for integrator='exact'"
of(
    "ld",
    ("a kernel", T, "posterior", "kernel(", A_POSTERIOR, lambda: ewsg.ld(KERNEL, 0.1)),
    ("step size", V, "step_size", "-1 (int)", POSITIVE, lambda: ewsg.ld(MODEL, -1)),
    (
        "temperature",
        V,
        "temperature",
        "inf (float)",
        POSITIVE,
        lambda: ewsg.ld(MODEL, 0.1, temperature=INF),
    ),
    ("chunks", T, "chunk_size", "None", WHOLE, lambda: ewsg.ld(MODEL, 0.1, chunk_size=None)),
)


def uld(**changes: Any) -> Any:
    """Underdamped Langevin dynamics with an argument replaced."""
    return ewsg.uld(MODEL, **({"step_size": 0.1, "friction": 1.0} | changes))


of(
    "uld",
    (
        "integrator",
        V,
        "integrator",
        "(did you mean 'splitting'?)",
        INTEGRATORS,
        lambda: uld(integrator="spliting"),
    ),
    ("no integrator", V, "integrator", "None", INTEGRATORS, lambda: uld(integrator=None)),
    (
        "noise",
        V,
        "noise",
        "'rademacher'",
        NO_RADEMACHER,
        lambda: uld(integrator="exact", noise="rademacher"),
    ),
    ("friction", V, "friction", "0 (int)", POSITIVE, lambda: uld(friction=0)),
    ("temperature", V, "temperature", "-1 (int)", POSITIVE, lambda: uld(temperature=-1)),
    ("inverse mass", V, "inverse_mass", "-2.0 (float)", POSITIVE, lambda: uld(inverse_mass=-2.0)),
    (
        "inverse mass True",
        T,
        "inverse_mass",
        "True (bool)",
        POSITIVE,
        lambda: uld(inverse_mass=True),
    ),
)
of(
    "sgld",
    (
        "a class",
        T,
        "posterior",
        "class 'ewsg_jax",
        "call it",
        lambda: ewsg.sgld(ewsg.Posterior, 0.1, batch_size=1),
    ),
    (
        "a pair",
        T,
        "posterior",
        "(tuple)",
        A_POSTERIOR,
        lambda: ewsg.sgld((failing, failing), 0.1, batch_size=1),
    ),
    ("step size", T, "step_size", "None", POSITIVE, lambda: ewsg.sgld(MODEL, None, batch_size=1)),
    ("batch", V, "batch_size", "got -1", WHOLE, lambda: ewsg.sgld(MODEL, 0.1, batch_size=-1)),
    (
        "replace",
        T,
        "replace",
        "'no' (str)",
        "True or False",
        lambda: ewsg.sgld(MODEL, 0.1, batch_size=1, replace="no"),
    ),
)


def sghmc(**changes: Any) -> Any:
    """Stochastic-gradient HMC with an argument replaced."""
    return ewsg.sghmc(MODEL, **({"step_size": 0.1, "friction": 1.0, "batch_size": 1} | changes))


of(
    "sghmc",
    ("friction", T, "friction", "'1' (str)", POSITIVE, lambda: sghmc(friction="1")),
    ("batch", T, "batch_size", "None", WHOLE, lambda: sghmc(batch_size=None)),
    (
        "noise",
        V,
        "noise",
        "'student'",
        "one of 'gaussian', 'rademacher'",
        lambda: sghmc(noise="student"),
    ),
    ("integrator", V, "integrator", "3 (int)", INTEGRATORS, lambda: sghmc(integrator=3)),
    ("step size", T, "step_size", "True (bool)", SCHEDULE, lambda: sghmc(step_size=True)),
)


def weighted_method(**changes: Any) -> Any:
    """EWSG with an argument replaced."""
    return ewsg.ewsg(MODEL, **({"step_size": 0.1, "friction": 1.0, "batch_size": 1} | changes))


EVERY = "at most 100,000 are listed"
of(
    "ewsg",
    ("length", V, "chain_length", "got -1", WHOLE_0, lambda: weighted_method(chain_length=-1)),
    (
        "rest on exact",
        V,
        "frozen_noise",
        "'rest' (str)",
        "one of 'momentum', 'zero', 'one'",
        lambda: weighted_method(integrator="exact", frozen_noise="rest"),
    ),
    (
        "x a tree",
        V,
        "frozen_noise",
        "{'a'",
        FROZEN,
        lambda: weighted_method(frozen_noise={"a": POINT}),
    ),
    (
        "too many batches",
        V,
        "batch_size",
        "batch_size = 9",
        EVERY,
        lambda: weighted_method(batch_size=9, chain_length=INF).init(KEY, POINT, DATA),
    ),
    (
        "far too many batches",
        V,
        "batch_size",
        "about 10^7782",
        EVERY,
        lambda: weighted_method(batch_size=10_000, chain_length=INF).init(KEY, POINT, DATA),
    ),
)
of(
    "ewsg_ld",
    (
        "rest",
        V,
        "frozen_noise",
        "'rest' (str)",
        "one of 'momentum', 'zero', 'one'",
        lambda: ewsg.ewsg_ld(MODEL, 0.1, batch_size=1, frozen_noise="rest"),
    ),
    (
        "step size",
        V,
        "step_size",
        "0 (int)",
        SCHEDULE,
        lambda: ewsg.ewsg_ld(MODEL, 0, batch_size=1),
    ),
    (
        "temperature",
        T,
        "temperature",
        "False",
        POSITIVE,
        lambda: ewsg.ewsg_ld(MODEL, 1, batch_size=1, temperature=False),
    ),
)
