"""Wrong calls of `kernel`, and of what a kernel does."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import functools

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from tests.wrong_calls.standard import A_RANDOM_KEY, every
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
    LANGEVIN,
    MODEL,
    NAN,
    POINT,
    STRATA,
    TOO_MANY,
    UNIFORM,
    WRONG,
    posterior,
)

WRONG["kernel"] |= {
    f"T estimator | gaussian_location( | {AN_ESTIMATOR}": lambda: ewsg.kernel(LANGEVIN, MODEL),
    f"T dynamics | kernel( | {A_DYNAMICS}": lambda: ewsg.kernel(KERNEL, UNIFORM),
    f"T dynamics | uniform( | {A_DYNAMICS}": lambda: ewsg.kernel(UNIFORM, LANGEVIN),
    f"T dynamics | 'langevin' (str) | {A_DYNAMICS}": lambda: ewsg.kernel("langevin", UNIFORM),
    "T dynamics | function langevin | call it to make one": lambda: ewsg.kernel(
        ewsg.dynamics.langevin, UNIFORM
    ),
    f"T estimator | None | {AN_ESTIMATOR}": lambda: ewsg.kernel(LANGEVIN, None),
    "V frozen_noise | 'rest' (str) | one of 'momentum', 'zero', 'one'": lambda: ewsg.kernel(
        LANGEVIN, ewsg.gradients.exponentially_weighted(UNIFORM, frozen_noise="rest")
    ),
}
WITHOUT = ewsg.sgld(MODEL, 0.1, batch_size=7, replace=False)
STRATIFIED = ewsg.cp_sghmc(ewsg.models.linear_regression(), 0.1, friction=1.0, labels="y", **STRATA)
every("Kernel.init", functools.partial(KERNEL.init, key=KEY, position=POINT, data=DATA))
WRONG["Kernel.init"] |= {
    "V position | holds 1 NaN | must be finite": lambda: KERNEL.init(
        KEY, POINT.at[0].set(NAN), DATA
    ),
    "T position | position.activation is | keep the arrays only": lambda: KERNEL.init(
        KEY, eqx.nn.MLP(2, 1, 4, 1, key=KEY), DATA
    ),
    f"T position | Dense( | {A_TREE}": lambda: KERNEL.init(KEY, nn.Dense(2), DATA),
    f"V data | got 3,000,000,000 rows | {AT_MOST_2_31}": lambda: STRATIFIED.init(
        KEY, POINT, {"x": TOO_MANY, "y": TOO_MANY[:, 0]}
    ),
    f"V data | 2,147,483,649 evaluations | {AT_MOST_2_31}": lambda: ewsg.svrg_ld(
        MODEL, 0.1, batch_size=1
    ).init(KEY, POINT, TOO_MANY[: 2**31 - 1]),
    "V batch_size | got 7 | at most n = 6": lambda: WITHOUT.init(KEY, POINT, DATA),
    f"V log_likelihood | an array of shape (2,) and dtype float32 | {IS_FLOAT}": lambda: ewsg.sgld(
        posterior(lambda p, x: x - p), 0.1, batch_size=1
    ).init(KEY, POINT, DATA),
}
STATE = KERNEL.init(KEY, POINT, DATA)
MOVING = ewsg.sghmc(MODEL, 0.1, friction=1.0, batch_size=2)
MOVING_STATE = MOVING.init(KEY, POINT, DATA)
MANY = jax.tree.map(lambda x: jnp.stack([x] * 3), STATE)
HALF = jax.tree.map(lambda x: x.astype(jnp.float16), MOVING_STATE.dynamics.momentum)
every("Kernel.step", functools.partial(KERNEL.step, key=KEY, state=STATE, data=DATA))
WRONG["Kernel.step"] |= {
    f"T state | an array of shape (2,) | {A_STATE}": lambda: KERNEL.step(KEY, POINT, DATA),
    f"T state | (tuple) | {A_STATE}": lambda: KERNEL.step(KEY, KERNEL.step(KEY, STATE, DATA), DATA),
    f"T state | an array of shape (6, 2) | {A_STATE}": lambda: KERNEL.step(KEY, DATA, STATE),
    f"V state | without state.dynamics.momentum | {A_STATE}": lambda: MOVING.step(KEY, STATE, DATA),
    f"V state | with state.dynamics.momentum | {A_STATE}": lambda: KERNEL.step(
        KEY, MOVING_STATE, DATA
    ),
    f"V log_likelihood | got an array of shape (2,) | {IS_SCALAR}": lambda: KERNEL.step(
        KEY, STATE, jnp.stack([DATA, DATA], 1)
    ),
    "V data | got 2 | all 6 rows that init saw": lambda: KERNEL.step(KEY, STATE, DATA[:2]),
    "V data | got 12 | give it no minibatches": lambda: KERNEL.step(
        KEY, STATE, jnp.tile(DATA, (2, 1))
    ),
    "V position | shape (3, 2) | shaped like a datum": lambda: KERNEL.step(KEY, MANY, DATA),
    "V state.dynamics.momentum | float16 | dtype float32": lambda: MOVING.step(
        KEY, MOVING_STATE._replace(dynamics=MOVING_STATE.dynamics._replace(momentum=HALF)), DATA
    ),
}
BOUND = KERNEL.bind(DATA)
every("Kernel.bind", KERNEL.bind)
of_key = {"rng_key": A_RANDOM_KEY}
every("Kernel.bind: init", functools.partial(BOUND.init, position=POINT), **of_key)
every("Kernel.bind: step", functools.partial(BOUND.step, state=STATE), **of_key)
WRONG["Kernel.bind"] |= {
    f"T rng_key | shape (2,) | {A_KEY}": lambda: BOUND.init(KEY, POINT),
    f"T state | None | {A_STATE}": lambda: BOUND.step(KEY, None),
}
