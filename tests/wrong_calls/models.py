"""Wrong calls of the models."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import INF, IS_SCALAR, NAN, POINT, POSITIVE, ROWS, T, V, of

models = ewsg.models
of(
    "models.gaussian_location",
    (
        "noise 0",
        V,
        "noise_scale",
        "0 (int)",
        POSITIVE,
        lambda: models.gaussian_location(noise_scale=0),
    ),
    (
        "noise inf",
        V,
        "noise_scale",
        "inf (float)",
        POSITIVE,
        lambda: models.gaussian_location(noise_scale=INF),
    ),
    (
        "prior",
        V,
        "prior_scale",
        "-1.0 (float)",
        POSITIVE,
        lambda: models.gaussian_location(prior_scale=-1.0),
    ),
)
of(
    "models.linear_regression",
    (
        "noise",
        T,
        "noise_scale",
        "'1' (str)",
        POSITIVE,
        lambda: models.linear_regression(noise_scale="1"),
    ),
    (
        "prior",
        V,
        "prior_scale",
        "nan (float)",
        POSITIVE,
        lambda: models.linear_regression(prior_scale=NAN),
    ),
)
of(
    "models.logistic_regression",
    (
        "prior",
        V,
        "prior_scale",
        "-inf (float)",
        POSITIVE,
        lambda: models.logistic_regression(prior_scale=-INF),
    ),
    (
        "prior None",
        T,
        "prior_scale",
        "None",
        POSITIVE,
        lambda: models.logistic_regression(prior_scale=None),
    ),
)
of(
    "models.softmax_regression",
    (
        "prior",
        T,
        "prior_scale",
        "1j (complex)",
        POSITIVE,
        lambda: models.softmax_regression(prior_scale=1j),
    ),
    (
        "weights of one class",
        V,
        "log_likelihood",
        "position: (2,)",
        IS_SCALAR,
        lambda: models.softmax_regression().gradient(POINT, ROWS | {"y": np.zeros(6, np.int32)}),
    ),
    (
        "classes as floats",
        V,
        "log_likelihood",
        "Indexer must have integer or boolean type",
        IS_SCALAR,
        lambda: models.softmax_regression().gradient(jnp.zeros((2, 2)), ROWS),
    ),
)
