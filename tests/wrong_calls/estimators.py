"""Wrong calls of the estimators without a memory."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

from typing import Any

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    A_POSTERIOR,
    AN_ESTIMATOR,
    FROZEN,
    INF,
    KERNEL,
    MODEL,
    NAN,
    POINT,
    UNIFORM,
    WHOLE,
    WHOLE_0,
    T,
    V,
    of,
)

of(
    "gradients.full",
    ("a kernel", T, "posterior", "kernel(", A_POSTERIOR, lambda: ewsg.gradients.full(KERNEL)),
    (
        "not called",
        T,
        "posterior",
        "call it",
        A_POSTERIOR,
        lambda: ewsg.gradients.full(ewsg.models.logistic_regression),
    ),
    ("chunk", V, "chunk_size", "got 0", WHOLE, lambda: ewsg.gradients.full(MODEL, chunk_size=0)),
    (
        "chunk a float",
        T,
        "chunk_size",
        "1e3 (float)".replace("1e3", "1000.0"),
        WHOLE,
        lambda: ewsg.gradients.full(MODEL, chunk_size=1e3),
    ),
)


def uniform(**changes: Any) -> Any:
    """The uniform estimator with an argument replaced."""
    return ewsg.gradients.uniform(**({"posterior": MODEL, "batch_size": 2} | changes))


of(
    "gradients.uniform",
    ("no batch", V, "batch_size", "got 0", WHOLE, lambda: uniform(batch_size=0)),
    ("a share", T, "batch_size", "0.1 (float)", WHOLE, lambda: uniform(batch_size=0.1)),
    ("a bool", T, "batch_size", "True (bool)", WHOLE, lambda: uniform(batch_size=True)),
    ("a text", T, "batch_size", "'2' (str)", WHOLE, lambda: uniform(batch_size="2")),
    ("replace", T, "replace", "1 (int)", "must be True or False", lambda: uniform(replace=1)),
    (
        "class",
        T,
        "posterior",
        "call it to make one",
        A_POSTERIOR,
        lambda: uniform(posterior=ewsg.Posterior),
    ),
)
A_BATCH = "from every batch"


def weighted(estimator: Any = UNIFORM, **changes: Any) -> Any:
    """The exponentially weighted estimator with an argument replaced."""
    return ewsg.gradients.exponentially_weighted(estimator, **changes)


of(
    "gradients.exponentially_weighted",
    ("a posterior", T, "estimator", "gaussian_location(", AN_ESTIMATOR, lambda: weighted(MODEL)),
    (
        "full",
        V,
        "estimator",
        "the full gradient",
        "must draw batches",
        lambda: weighted(ewsg.gradients.full(MODEL)),
    ),
    (
        "twice",
        V,
        "estimator",
        "'momentum' (str)",
        "not be exponentially weighted",
        lambda: weighted(weighted()),
    ),
    ("length -1", V, "chain_length", "got -1", WHOLE_0, lambda: weighted(chain_length=-1)),
    ("length 1.5", T, "chain_length", "1.5 (float)", WHOLE_0, lambda: weighted(chain_length=1.5)),
    ("length NaN", T, "chain_length", "nan (float)", WHOLE_0, lambda: weighted(chain_length=NAN)),
    (
        "length a text",
        T,
        "chain_length",
        "'inf' (str)",
        WHOLE_0,
        lambda: weighted(chain_length="inf"),
    ),
    (
        "x",
        V,
        "frozen_noise",
        "(did you mean 'momentum'?)",
        FROZEN,
        lambda: weighted(frozen_noise="momentun"),
    ),
    ("x none", V, "frozen_noise", "None (NoneType)", FROZEN, lambda: weighted(frozen_noise=None)),
    ("x an array", V, "frozen_noise", "an array", FROZEN, lambda: weighted(frozen_noise=POINT)),
    ("carry", T, "carry_index", "1 (int)", "True or False", lambda: weighted(carry_index=1)),
    (
        "carry one",
        V,
        "carry_index",
        "True",
        "chain_length=0",
        lambda: weighted(carry_index=True, chain_length=0),
    ),
    (
        "carry exact",
        V,
        "carry_index",
        "True",
        "no index chain",
        lambda: weighted(carry_index=True, chain_length=INF),
    ),
)
