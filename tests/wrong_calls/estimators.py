"""Wrong calls of the estimators without a memory."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from typing import Any

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    AN_ESTIMATOR,
    FROZEN,
    INF,
    MODEL,
    POINT,
    UNIFORM,
    T,
    V,
    of,
    row,
)


def uniform(**changes: Any) -> Any:
    """The uniform estimator with an argument replaced."""
    return ewsg.gradients.uniform(**({"posterior": MODEL, "batch_size": 2} | changes))


A_BATCH = "from every batch"


def weighted(estimator: Any = UNIFORM, **changes: Any) -> Any:
    """The exponentially weighted estimator with an argument replaced."""
    return ewsg.gradients.exponentially_weighted(estimator, **changes)


of(
    "gradients.exponentially_weighted",
    row(T, f"estimator | gaussian_location( | {AN_ESTIMATOR}", lambda: weighted(MODEL)),
    row(
        V,
        "estimator | the full gradient | must draw batches",
        lambda: weighted(ewsg.gradients.full(MODEL)),
    ),
    row(
        V,
        "estimator | 'momentum' (str) | not be exponentially weighted",
        lambda: weighted(weighted()),
    ),
    row(
        V,
        f"frozen_noise | (did you mean 'momentum'?) | {FROZEN}",
        lambda: weighted(frozen_noise="momentun"),
    ),
    row(V, f"frozen_noise | None (NoneType) | {FROZEN}", lambda: weighted(frozen_noise=None)),
    row(V, f"frozen_noise | an array | {FROZEN}", lambda: weighted(frozen_noise=POINT)),
    row(
        V,
        "carry_index | True | chain_length=0",
        lambda: weighted(carry_index=True, chain_length=0),
    ),
    row(
        V,
        "carry_index | True | no index chain",
        lambda: weighted(carry_index=True, chain_length=INF),
    ),
)
