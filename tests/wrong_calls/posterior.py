"""Wrong calls of `Posterior`, its gradients, and the models."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import functools

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.standard import Kind, every, refuses
from tests.wrong_calls.table import (
    DATA,
    IS_FLOAT,
    IS_SCALAR,
    LIKELIHOOD,
    LOGISTIC,
    MODEL,
    POINT,
    PRIOR,
    ROWS,
    WRONG,
    T,
    V,
    failing,
    linear,
    posterior,
)

every("Posterior", functools.partial(ewsg.Posterior, log_likelihood=abs, log_prior=abs))
every("Posterior.prior_gradient", MODEL.prior_gradient)
for name in ("gradient", "potential", "likelihood_gradient"):
    right = functools.partial(getattr(MODEL, name), position=POINT, data=DATA)
    every(f"Posterior.{name}", right)
WRONG["Posterior"] |= {
    f"T log_likelihood | 3 (int) | {LIKELIHOOD}": lambda: ewsg.Posterior(3, failing),
    f"T log_prior | None (NoneType) | {PRIOR}": lambda: ewsg.Posterior(failing, None),
    f"T log_prior | 0.0 (float) | {PRIOR}": lambda: ewsg.Posterior(failing, 0.0),
    f"T log_likelihood | (2,) | {LIKELIHOOD}": lambda: ewsg.Posterior(POINT, failing),
    "T batched_log_likelihood | 3 (int) | (position, rows) -> values": lambda: ewsg.Posterior(
        failing, failing, batched_log_likelihood=3
    ),
    "T log_likelihood | None (NoneType) | (position, datum)": lambda: ewsg.Posterior(
        log_prior=failing
    ),
    "T batched_log_likelihood | abs | left out with a predictor": lambda: ewsg.Posterior(
        abs, abs, linear().predictor, batched_log_likelihood=abs
    ),
    "T predictor | function | LinearPredictor": lambda: ewsg.Posterior(abs, abs, failing),
}
WRONG["Posterior.linear"] |= {
    "T log_likelihood | None | (predictor, datum) -> scalar": lambda: linear(log_likelihood=None),
    "T log_prior | 0.0 (float) | (W) -> scalar": lambda: linear(log_prior=0.0),
    "T inputs | 'x' (str) | (datum) -> x": lambda: linear(inputs="x"),
    "T residual | 1 (int) | (predictors, rows) -> derivatives": lambda: linear(residual=1),
}
WRONG["Posterior.check"] |= {
    "V inputs | array of shape (1, 2) | an array of shape (d,)": lambda: linear(
        inputs=lambda row: row["x"][None]
    ).check(POINT, ROWS),
    f"V datum | KeyError: 'z' | {IS_SCALAR}": lambda: linear(inputs=lambda row: row["z"]).check(
        POINT, ROWS
    ),
    "V residual | returned an array of shape () | like the predictors, (6,)": lambda: linear(
        residual=lambda s, rows: jnp.sum(s)
    ).gradient(POINT, ROWS),
    "V residual | RuntimeError: the disk is full | like the predictors, (6,)": lambda: linear(
        residual=failing
    ).gradient(POINT, ROWS),
    "V position | position['w']: (2,) | one array of shape (2,) or (2, k)": lambda: LOGISTIC.check(
        {"w": POINT}, ROWS
    ),
    "V position | position: (3,) | one array of shape (2,) or (2, k)": lambda: LOGISTIC.check(
        jnp.zeros(3), ROWS
    ),
    f"V log_prior | shape (2,) | {IS_FLOAT}": lambda: posterior(log_prior=abs).check(POINT, DATA),
    f"V log_likelihood | dtype bool | {IS_FLOAT}": lambda: posterior(lambda p, x: x[0] > 0).check(
        POINT, DATA
    ),
    f"V log_likelihood | missing 1 required positional argument | {IS_SCALAR}": lambda: posterior(
        lambda p, x, y: 0.0
    ).check(POINT, DATA),
    f"V log_likelihood | TracerBoolConversionError | {IS_SCALAR}": lambda: posterior(
        lambda p, x: 1.0 if x[0] > 0 else 0.0
    ).check(POINT, DATA),
}
WRONG["Posterior.gradient"] |= {
    f"V log_prior | full | {IS_SCALAR}": lambda: posterior(log_prior=failing).gradient(POINT, DATA),
}
refuses(
    "Posterior.gradient",
    functools.partial(MODEL.gradient, data=DATA),
    position=Kind(
        "shaped like a datum, (2,)",
        ((V, jnp.zeros(3), "shape (3,)"), (V, jnp.zeros(1), "shape (1,)")),
    ),
)
refuses(
    "Posterior.batch_gradient",
    functools.partial(MODEL.batch_gradient, POINT, DATA),
    batch=Kind(
        "an array of row numbers, shape (b,), from 0 to 5",
        (
            (T, [0, 1], "[0, 1] (list)"),
            (T, jnp.zeros(2), "float32"),
            (V, jnp.array(3), "that holds 3"),
            (V, np.zeros(0, int), "(0,)"),
            (V, jnp.array([0, 6]), "got 6"),
            (V, np.array([-1]), "got -1"),
            (T, np.ones(6, bool), "bool"),
        ),
    ),
)
refuses(
    "Posterior.batch_gradient",
    functools.partial(MODEL.batch_gradient, POINT, DATA, np.arange(3)),
    weights=Kind(
        "an array of numbers of shape (3,)",
        (
            (T, [1.0, 2.0, 3.0], "(list)"),
            (V, jnp.array(2.0), "that holds 2.0"),
            (V, jnp.ones(1), "shape (1,)"),
            (V, jnp.ones(4), "shape (4,)"),
            (V, np.ones(3, bool), "bool"),
        ),
    ),
)
WRONG["Posterior.potential"] |= {
    "T data[0] | 1.0 (float) | convert the whole (not each number)": lambda: MODEL.potential(
        POINT, [1.0]
    ),
    f"V log_prior | dtype int32 | {IS_FLOAT}": lambda: posterior(log_prior=lambda p: 0).potential(
        POINT, DATA
    ),
}
WRONG["Posterior.prior_gradient"] |= {
    f"V log_prior | shape (2,) | {IS_FLOAT}": lambda: posterior(log_prior=abs).prior_gradient(
        POINT
    ),
}

SOFTMAX = ewsg.models.softmax_regression()
WRONG["models.softmax_regression"] |= {
    f"V log_likelihood | position: (2,) | {IS_SCALAR}": lambda: (
        ewsg.models.softmax_regression().gradient(POINT, ROWS | {"y": np.zeros(6, np.int32)})
    ),
    f"V log_likelihood | Indexer must have integer or boolean type | {IS_SCALAR}": lambda: (
        SOFTMAX.gradient(jnp.zeros((2, 2)), ROWS)
    ),
}
FLOAT_SQUARE = "whose inverse square is a float"
WRONG["models.gaussian_location"] |= {
    f"V noise_scale | got 1e-200 | {FLOAT_SQUARE}": lambda: ewsg.models.gaussian_location(
        noise_scale=1e-200
    ),
}
WRONG["models.linear_regression"] |= {
    f"V prior_scale | got 1e-200 | {FLOAT_SQUARE}": lambda: ewsg.models.linear_regression(
        prior_scale=1e-200
    ),
}
