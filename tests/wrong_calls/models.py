"""Wrong calls of the models."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import IS_SCALAR, POINT, ROWS, V, of, row

models = ewsg.models


of(
    "models.softmax_regression",
    row(
        V,
        f"log_likelihood | position: (2,) | {IS_SCALAR}",
        lambda: models.softmax_regression().gradient(POINT, ROWS | {"y": np.zeros(6, np.int32)}),
    ),
    row(
        V,
        f"log_likelihood | Indexer must have integer or boolean type | {IS_SCALAR}",
        lambda: models.softmax_regression().gradient(jnp.zeros((2, 2)), ROWS),
    ),
)
