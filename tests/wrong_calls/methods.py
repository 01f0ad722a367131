"""Wrong calls of the methods made of them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from typing import Any

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    DATA,
    FROZEN,
    INF,
    KEY,
    MODEL,
    POINT,
    V,
    of,
    row,
)

NO_RADEMACHER = "must be 'gaussian' for integrator='exact'"


def uld(**changes: Any) -> Any:
    """Underdamped Langevin dynamics with an argument replaced."""
    return ewsg.uld(MODEL, **({"step_size": 0.1, "friction": 1.0} | changes))


of(
    "uld",
    row(
        V,
        f"noise | 'rademacher' | {NO_RADEMACHER}",
        lambda: uld(integrator="exact", noise="rademacher"),
    ),
)


def sghmc(**changes: Any) -> Any:
    """Stochastic-gradient HMC with an argument replaced."""
    return ewsg.sghmc(MODEL, **({"step_size": 0.1, "friction": 1.0, "batch_size": 1} | changes))


of(
    "sghmc",
    row(V, "noise | 'student' | one of 'gaussian', 'rademacher'", lambda: sghmc(noise="student")),
)


def weighted_method(**changes: Any) -> Any:
    """EWSG with an argument replaced."""
    return ewsg.ewsg(MODEL, **({"step_size": 0.1, "friction": 1.0, "batch_size": 1} | changes))


EVERY = "at most 100,000 are listed"
of(
    "ewsg",
    row(
        V,
        "frozen_noise | 'rest' (str) | one of 'momentum', 'zero', 'one'",
        lambda: weighted_method(integrator="exact", frozen_noise="rest"),
    ),
    row(V, f"frozen_noise | {{'a' | {FROZEN}", lambda: weighted_method(frozen_noise={"a": POINT})),
    row(
        V,
        f"batch_size | batch_size = 9 | {EVERY}",
        lambda: weighted_method(batch_size=9, chain_length=INF).init(KEY, POINT, DATA),
    ),
    row(
        V,
        f"batch_size | about 10^7782 | {EVERY}",
        lambda: weighted_method(batch_size=10_000, chain_length=INF).init(KEY, POINT, DATA),
    ),
)
of(
    "ewsg_ld",
    row(
        V,
        "frozen_noise | 'rest' (str) | one of 'momentum', 'zero', 'one'",
        lambda: ewsg.ewsg_ld(MODEL, 0.1, batch_size=1, frozen_noise="rest"),
    ),
)
