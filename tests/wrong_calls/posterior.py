"""Wrong calls of `Posterior` and its gradients."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    A_TREE,
    DATA,
    IS_FLOAT,
    IS_SCALAR,
    LIKELIHOOD,
    LOGISTIC,
    MODEL,
    POINT,
    PRIOR,
    ROWS,
    ROWS_SHARED,
    WHOLE,
    T,
    V,
    failing,
    linear,
    of,
    posterior,
)

of(
    "Posterior",
    ("likelihood no function", T, "log_likelihood", "3 (int)", LIKELIHOOD, lambda: ewsg.Posterior(3, failing)),
    ("prior left as None", T, "log_prior", "None (NoneType)", PRIOR, lambda: ewsg.Posterior(failing, None)),
    ("prior a number", T, "log_prior", "0.0 (float)", PRIOR, lambda: ewsg.Posterior(failing, 0.0)),
    ("log_concave", T, "log_concave", "1 (int)", "True or False", lambda: ewsg.Posterior(abs, abs, log_concave=1)),
    ("normalised", T, "normalised", "0 (int)", "True or False", lambda: ewsg.Posterior(abs, abs, normalised=0)),
    ("likelihood an array", T, "log_likelihood", "(2,)", LIKELIHOOD, lambda: ewsg.Posterior(POINT, failing)),
    (
        "predictor a function",
        T,
        "predictor",
        "function",
        "LinearPredictor",
        lambda: ewsg.Posterior(abs, abs, failing),
    ),
)
of(
    "Posterior.linear",
    (
        "likelihood",
        T,
        "log_likelihood",
        "None",
        "(predictor, datum) -> scalar",
        lambda: linear(log_likelihood=None),
    ),
    ("prior", T, "log_prior", "0.0 (float)", "(W) -> scalar", lambda: linear(log_prior=0.0)),
    ("inputs", T, "inputs", "'x' (str)", "(datum) -> x", lambda: linear(inputs="x")),
    ("residual", T, "residual", "1 (int)", "(predictors, rows) -> derivatives", lambda: linear(residual=1)),
)
of(
    "Posterior.check",
    (
        "inputs a matrix",
        V,
        "inputs",
        "array of shape (1, 2)",
        "an array of shape (d,)",
        lambda: linear(inputs=lambda row: row["x"][None]).check(POINT, ROWS),
    ),
    (
        "inputs fail",
        V,
        "datum",
        "KeyError: 'z'",
        IS_SCALAR,
        lambda: linear(inputs=lambda row: row["z"]).check(POINT, ROWS),
    ),
    (
        "residual summed",
        V,
        "residual",
        "returned an array of shape ()",
        "like the predictors, (6,)",
        lambda: linear(residual=lambda s, rows: jnp.sum(s)).gradient(POINT, ROWS),
    ),
    (
        "residual fails",
        V,
        "residual",
        "RuntimeError: the disk is full",
        "like the predictors, (6,)",
        lambda: linear(residual=failing).gradient(POINT, ROWS),
    ),
    (
        "linear position a dictionary",
        V,
        "position",
        "position['w']: (2,)",
        "one array of shape (2,) or (2, k)",
        lambda: LOGISTIC.check({"w": POINT}, ROWS),
    ),
    (
        "linear position too long",
        V,
        "position",
        "position: (3,)",
        "one array of shape (2,) or (2, k)",
        lambda: LOGISTIC.check(jnp.zeros(3), ROWS),
    ),
    ("prior a vector", V, "log_prior", "shape (2,)", IS_FLOAT, lambda: posterior(log_prior=abs).check(POINT, DATA)),
    (
        "likelihood that compares",
        V,
        "log_likelihood",
        "dtype bool",
        IS_FLOAT,
        lambda: posterior(lambda p, x: x[0] > 0).check(POINT, DATA),
    ),
    (
        "likelihood of three arguments",
        V,
        "log_likelihood",
        "missing 1 required positional argument",
        IS_SCALAR,
        lambda: posterior(lambda p, x, y: 0.0).check(POINT, DATA),
    ),
    (
        "likelihood with a branch on a value",
        V,
        "log_likelihood",
        "TracerBoolConversionError",
        IS_SCALAR,
        lambda: posterior(lambda p, x: 1.0 if x[0] > 0 else 0.0).check(POINT, DATA),
    ),
)
of(
    "Posterior.gradient",
    ("integer position", T, "position", "int32", A_TREE, lambda: MODEL.gradient(jnp.zeros(2, int), DATA)),
    ("no data", V, "data", "without leaves, None", ROWS_SHARED, lambda: MODEL.gradient(POINT, None)),
    ("no rows", V, "data", "got 0 rows", ROWS_SHARED, lambda: MODEL.gradient(POINT, DATA[:0])),
    ("chunk of none", V, "chunk_size", "got 0", WHOLE, lambda: MODEL.gradient(POINT, DATA, 0)),
    ("chunk of a half", T, "chunk_size", "0.5 (float)", WHOLE, lambda: MODEL.gradient(POINT, DATA, 0.5)),
    ("prior fails", V, "log_prior", "full", IS_SCALAR, lambda: posterior(log_prior=failing).gradient(POINT, DATA)),
    (
        "another dimension",
        V,
        "position",
        "got an array of shape (3,)",
        "shaped like a datum, (2,)",
        lambda: MODEL.gradient(jnp.zeros(3), DATA),
    ),
    (
        "a mean that would broadcast",
        V,
        "position",
        "got an array of shape (1,)",
        "shaped like a datum, (2,)",
        lambda: MODEL.gradient(jnp.zeros(1), DATA),
    ),
)
ROW_NUMBERS = "an array of row numbers, shape (b,), from 0 to 5"
of(
    "Posterior.batch_gradient",
    ("a list", T, "batch", "[0, 1] (list)", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, [0, 1])),
    ("floats", T, "batch", "float32", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, jnp.zeros(2))),
    ("one", V, "batch", "that holds 3", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, jnp.array(3))),
    ("none", V, "batch", "(0,)", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, np.zeros(0, int))),
    ("beyond n", V, "batch", "got 6", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, jnp.array([0, 6]))),
    ("below 0", V, "batch", "got -1", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, np.array([-1]))),
    ("a mask", T, "batch", "bool", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, np.ones(6, bool))),
)
of(
    "Posterior.potential",
    ("complex position", T, "position", "complex64", A_TREE, lambda: MODEL.potential(POINT + 1j, DATA)),
    ("data a list", T, "data[0]", "1.0 (float)", ROWS_SHARED, lambda: MODEL.potential(POINT, [1.0])),
    ("chunks", V, "chunk_size", "got -1", WHOLE, lambda: MODEL.potential(POINT, DATA, -1)),
    (
        "prior",
        V,
        "log_prior",
        "dtype int32",
        IS_FLOAT,
        lambda: posterior(log_prior=lambda p: 0).potential(POINT, DATA),
    ),
)
of(
    "Posterior.likelihood_gradient",
    ("chunks", V, "chunk_size", "got 0", WHOLE, lambda: MODEL.likelihood_gradient(POINT, DATA, 0)),
    ("position", V, "position", "without leaves, {}", A_TREE, lambda: MODEL.likelihood_gradient({}, DATA)),
)
of(
    "Posterior.prior_gradient",
    ("position", T, "position", "'here' (str)", A_TREE, lambda: MODEL.prior_gradient("here")),
    ("prior", V, "log_prior", "shape (2,)", IS_FLOAT, lambda: posterior(log_prior=abs).prior_gradient(POINT)),
)
