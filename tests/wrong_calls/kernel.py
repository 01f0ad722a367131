"""Wrong calls of `kernel`, and of what a kernel does."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    A_DYNAMICS,
    A_KEY,
    A_STATE,
    A_TREE,
    AN_ESTIMATOR,
    AT_MOST_2_31,
    DATA,
    IS_FLOAT,
    IS_SCALAR,
    KERNEL,
    KEY,
    KEYS,
    LANGEVIN,
    MODEL,
    NAN,
    OLD_KEY,
    POINT,
    ROWS,
    ROWS_SHARED,
    STRATA,
    TOO_MANY,
    UNIFORM,
    T,
    V,
    failing,
    of,
    posterior,
)

of(
    "kernel",
    (
        "posterior for an estimator",
        T,
        "estimator",
        "gaussian_location(",
        AN_ESTIMATOR,
        lambda: ewsg.kernel(LANGEVIN, MODEL),
    ),
    (
        "kernel for a dynamics",
        T,
        "dynamics",
        "kernel(",
        A_DYNAMICS,
        lambda: ewsg.kernel(KERNEL, UNIFORM),
    ),
    ("swapped", T, "dynamics", "uniform(", A_DYNAMICS, lambda: ewsg.kernel(UNIFORM, LANGEVIN)),
    (
        "a name",
        T,
        "dynamics",
        "'langevin' (str)",
        A_DYNAMICS,
        lambda: ewsg.kernel("langevin", UNIFORM),
    ),
    (
        "a dynamics not called",
        T,
        "dynamics",
        "function langevin",
        "call it to make one",
        lambda: ewsg.kernel(ewsg.dynamics.langevin, UNIFORM),
    ),
    ("no estimator", T, "estimator", "None", AN_ESTIMATOR, lambda: ewsg.kernel(LANGEVIN, None)),
    (
        "a frozen noise that the dynamics lacks",
        V,
        "frozen_noise",
        "'rest' (str)",
        "one of 'momentum', 'zero', 'one'",
        lambda: ewsg.kernel(
            LANGEVIN, ewsg.gradients.exponentially_weighted(UNIFORM, frozen_noise="rest")
        ),
    ),
)
WITHOUT = ewsg.sgld(MODEL, 0.1, batch_size=7, replace=False)
STRATIFIED = ewsg.cp_sghmc(ewsg.models.linear_regression(), 0.1, friction=1.0, labels="y", **STRATA)
of(
    "Kernel.init",
    ("a seed", T, "key", "0 (int)", A_KEY, lambda: KERNEL.init(0, POINT, DATA)),
    (
        "legacy key",
        T,
        "key",
        "shape (2,) and dtype uint32",
        A_KEY,
        lambda: KERNEL.init(OLD_KEY, POINT, DATA),
    ),
    ("keys", V, "key", "keys of shape (3,)", A_KEY, lambda: KERNEL.init(KEYS, POINT, DATA)),
    (
        "integers",
        T,
        "position",
        "int32",
        A_TREE,
        lambda: KERNEL.init(KEY, {"a": np.zeros(2, np.int32)}, DATA),
    ),
    (
        "NaN",
        V,
        "position",
        "holds 1 NaN",
        "must be finite",
        lambda: KERNEL.init(KEY, POINT.at[0].set(NAN), DATA),
    ),
    (
        "a module",
        T,
        "position",
        "position.activation is",
        "keep the arrays only",
        lambda: KERNEL.init(KEY, eqx.nn.MLP(2, 1, 4, 1, key=KEY), DATA),
    ),
    (
        "a linen module",
        T,
        "position",
        "Dense(",
        A_TREE,
        lambda: KERNEL.init(KEY, nn.Dense(2), DATA),
    ),
    ("texts", T, "position", "dtype <U1", A_TREE, lambda: KERNEL.init(KEY, np.array(["a"]), DATA)),
    (
        "texts as data",
        T,
        "data",
        "dtype <U1",
        "and hold numbers",
        lambda: KERNEL.init(KEY, POINT, np.array([["a"]])),
    ),
    (
        "unequal",
        V,
        "data",
        "data['y']: 5",
        ROWS_SHARED,
        lambda: KERNEL.init(KEY, POINT, ROWS | {"y": np.ones(5)}),
    ),
    (
        "too many rows",
        V,
        "data",
        "got 3,000,000,000 rows",
        AT_MOST_2_31,
        lambda: KERNEL.init(KEY, POINT, TOO_MANY),
    ),
    (
        "too many rows in strata",
        V,
        "data",
        "got 3,000,000,000 rows",
        AT_MOST_2_31,
        lambda: STRATIFIED.init(KEY, POINT, {"x": TOO_MANY, "y": TOO_MANY[:, 0]}),
    ),
    (
        "a refresh that cannot be counted",
        V,
        "data",
        "2,147,483,649 evaluations",
        AT_MOST_2_31,
        lambda: ewsg.svrg_ld(MODEL, 0.1, batch_size=1).init(KEY, POINT, TOO_MANY[: 2**31 - 1]),
    ),
    (
        "batch above n",
        V,
        "batch_size",
        "got 7",
        "at most n = 6",
        lambda: WITHOUT.init(KEY, POINT, DATA),
    ),
    (
        "likelihood a vector",
        V,
        "log_likelihood",
        "an array of shape (2,) and dtype float32",
        IS_FLOAT,
        lambda: ewsg.sgld(posterior(lambda p, x: x - p), 0.1, batch_size=1).init(KEY, POINT, DATA),
    ),
)
STATE = KERNEL.init(KEY, POINT, DATA)
MOVING = ewsg.sghmc(MODEL, 0.1, friction=1.0, batch_size=2)
MOVING_STATE = MOVING.init(KEY, POINT, DATA)
MANY = jax.tree.map(lambda x: jnp.stack([x] * 3), STATE)
HALF = jax.tree.map(lambda x: x.astype(jnp.float16), MOVING_STATE.dynamics.momentum)
of(
    "Kernel.step",
    ("a seed", T, "key", "1 (int)", A_KEY, lambda: KERNEL.step(1, STATE, DATA)),
    ("legacy key", T, "key", "uint32", A_KEY, lambda: KERNEL.step(OLD_KEY, STATE, DATA)),
    ("keys", V, "key", "keys of shape (3,)", A_KEY, lambda: KERNEL.step(KEYS, STATE, DATA)),
    (
        "a position",
        T,
        "state",
        "an array of shape (2,)",
        A_STATE,
        lambda: KERNEL.step(KEY, POINT, DATA),
    ),
    (
        "state and info",
        T,
        "state",
        "(tuple)",
        A_STATE,
        lambda: KERNEL.step(KEY, KERNEL.step(KEY, STATE, DATA), DATA),
    ),
    (
        "swapped",
        T,
        "state",
        "an array of shape (6, 2)",
        A_STATE,
        lambda: KERNEL.step(KEY, DATA, STATE),
    ),
    (
        "other kernel",
        V,
        "state",
        "without state.dynamics.momentum",
        A_STATE,
        lambda: MOVING.step(KEY, STATE, DATA),
    ),
    (
        "more",
        V,
        "state",
        "with state.dynamics.momentum",
        A_STATE,
        lambda: KERNEL.step(KEY, MOVING_STATE, DATA),
    ),
    (
        "other data",
        V,
        "log_likelihood",
        "got an array of shape (2,)",
        IS_SCALAR,
        lambda: KERNEL.step(KEY, STATE, jnp.stack([DATA, DATA], 1)),
    ),
    (
        "a minibatch",
        V,
        "data",
        "got 2",
        "all 6 rows that init saw",
        lambda: KERNEL.step(KEY, STATE, DATA[:2]),
    ),
    (
        "more data",
        V,
        "data",
        "got 12",
        "give it no minibatches",
        lambda: KERNEL.step(KEY, STATE, jnp.tile(DATA, (2, 1))),
    ),
    ("no data", V, "data", "None", ROWS_SHARED, lambda: KERNEL.step(KEY, STATE, None)),
    (
        "too many rows",
        V,
        "data",
        "got 3,000,000,000 rows",
        AT_MOST_2_31,
        lambda: KERNEL.step(KEY, STATE, TOO_MANY),
    ),
    (
        "three chains",
        V,
        "position",
        "shape (3, 2)",
        "shaped like a datum",
        lambda: KERNEL.step(KEY, MANY, DATA),
    ),
    (
        "another dtype",
        V,
        "state.dynamics.momentum",
        "float16",
        "dtype float32",
        lambda: MOVING.step(
            KEY, MOVING_STATE._replace(dynamics=MOVING_STATE.dynamics._replace(momentum=HALF)), DATA
        ),
    ),
)
BOUND = KERNEL.bind(DATA)
of(
    "Kernel.bind",
    ("no data", V, "data", "None", ROWS_SHARED, lambda: KERNEL.bind(None)),
    ("no rows", V, "data", "got 0 rows", ROWS_SHARED, lambda: KERNEL.bind(DATA[:0])),
    (
        "too many rows",
        V,
        "data",
        "got 3,000,000,000 rows",
        AT_MOST_2_31,
        lambda: KERNEL.bind(TOO_MANY),
    ),
    ("a number", V, "data", "is a scalar", ROWS_SHARED, lambda: KERNEL.bind(jnp.array(1.0))),
    (
        "objects",
        T,
        "data",
        "dtype object",
        "hold numbers",
        lambda: KERNEL.bind(np.array([None, 1])),
    ),
    ("a function", T, "data", "function", ROWS_SHARED, lambda: KERNEL.bind(failing)),
    ("init: a seed", T, "rng_key", "5 (int)", A_KEY, lambda: BOUND.init(POINT, 5)),
    ("init: swapped", T, "rng_key", "shape (2,)", A_KEY, lambda: BOUND.init(KEY, POINT)),
    ("step: legacy key", T, "rng_key", "uint32", A_KEY, lambda: BOUND.step(OLD_KEY, STATE)),
    ("step: no state", T, "state", "None", A_STATE, lambda: BOUND.step(KEY, None)),
)
