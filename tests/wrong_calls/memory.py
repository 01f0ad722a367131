"""Wrong calls of the estimators, of what wraps them, and of the laws of rows."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.standard import Kind, choice, refuses
from tests.wrong_calls.table import (
    AN_ESTIMATOR,
    DATA,
    FROZEN,
    INF,
    KEY,
    LOGISTIC,
    MODEL,
    NAN,
    POINT,
    ROW_LAWS,
    ROWS,
    STRATA,
    UNIFORM,
    WHOLE,
    WRONG,
    T,
    V,
    failing,
    sampled,
)

G = ewsg.gradients


def started(estimator, data=DATA, position=POINT):
    """Begin a chain of an estimator."""
    return ewsg.kernel(ewsg.dynamics.langevin(0.1), estimator).init(KEY, position, data)


WRONG["gradients.svrg"] |= {
    f"T refresh_every(n) | 3.0 (float) | {WHOLE}": lambda: started(
        G.svrg(MODEL, batch_size=1, refresh_every=lambda n: n / 2)
    ),
}
for name in ("blocks", "epochs", "block_epochs", "block_sweeps"):
    refuses(
        f"gradients.uniform: {name}",
        lambda batch_size=2, replace=True, rows=name: started(
            G.uniform(MODEL, batch_size=batch_size, replace=replace, rows=rows)
        ),
        batch_size=Kind(f"at most n = 6 when rows={name!r}", ((V, 7, "got 7"),)),
        replace=Kind(f"must be True for rows={name!r}", ((V, False, "got False"),)),
        rows=Kind(ROW_LAWS, ((V, name[:-1], f"(did you mean {name!r}?)"),)),
    )
WRONG["gradients.saga"] |= {
    "V memory_limit | got 47 | at least 48 ": lambda: started(
        G.saga(MODEL, batch_size=1, memory_limit=47)
    ),
    "V memory_limit | got 100 | for 3 chains": lambda: sampled(
        kernel=ewsg.saga_ld(MODEL, 0.1, batch_size=1, memory_limit=100), num_chains=3
    ),
}
WRONG["gradients.control_variate"] |= {
    "T center | 'mode' (str) | a pytree of floating-point arrays": lambda: G.control_variate(
        MODEL, batch_size=1, center="mode"
    ),
    "T center | center.converged is | give its position, not the whole Mode": lambda: (
        G.control_variate(MODEL, batch_size=1, center=ewsg.find_mode(KEY, MODEL, POINT, DATA))
    ),
    "V center | holds 1 NaN | must be finite": lambda: G.control_variate(
        MODEL, batch_size=1, center=POINT.at[0].set(NAN)
    ),
    "V center | shape (3,) | a pytree like the position": lambda: started(
        G.control_variate(MODEL, batch_size=1, center=jnp.zeros(3))
    ),
}
WRONG["gradients.stratified"] |= {
    "V batch_size | got 1 | at least num_strata = 2": lambda: G.stratified(
        MODEL, batch_size=1, labels="c", num_strata=2
    ),
    "V labels | 'c' for the keys ['x', 'y'] | a key of data": lambda: started(
        G.stratified(LOGISTIC, labels="c", **STRATA), ROWS
    ),
}


WRONG["gradients.random"] |= {
    "T function | 3 (int) | (key, position, data)": lambda: G.random(3),
    "T function | takes (key, position) | (key, position, data)": lambda: G.random(
        lambda key, position: 0.0
    ),
    "V log_prior | function abs | must be None with a posterior": lambda: G.random(
        lambda key, position, data: 0.0, log_prior=abs, posterior=MODEL
    ),
    "V returns | got 'value' | 'potential', 'gradient'": lambda: G.random(
        lambda key, position, data: 0.0, returns="value"
    ),
    "V function | shape (1,) | floating-point scalar": lambda: started(
        G.random(lambda key, position, data: position[:1])
    ),
    "V function | dtype int32 | floating-point scalar": lambda: started(
        G.random(lambda key, position, data: jnp.int32(1))
    ),
    "V posterior | a random potential | values that can be evaluated": lambda: started(
        G.uniform(G.random(lambda key, position, data: 0.0).posterior, batch_size=1)
    ),
}
WRONG["gradients.random_likelihood"] |= {
    "T log_likelihood | takes (position, datum) | (position, datum, key)": lambda: (
        G.random_likelihood(lambda position, datum: 0.0, abs, batch_size=1)
    ),
    "V log_likelihood | shape (2,) | a floating-point scalar": lambda: started(
        G.random_likelihood(lambda p, x, key: p, lambda p: 0.0, batch_size=1)
    ),
}


def with_labels(labels):
    """Begin a chain of strata by these labels."""
    return started(G.stratified(MODEL, labels=labels, **STRATA))


refuses(
    "gradients.stratified",
    with_labels,
    labels=Kind(
        "whole numbers from 0 to 1",
        (
            (V, lambda data: data, "shape (6, 2)"),
            (V, lambda data: np.array([0, 1, 2, 0, 0, 0]), "got 2"),
        ),
    ),
)
refuses(
    "gradients.stratified",
    with_labels,
    labels=Kind("a function", ((T, jnp.zeros(6, int), "int32"), (V, failing, "the disk is full"))),
)
STRUCTURE = choice("dense", "diagonal", "low_rank")
for build in (G.covariance_tracking, G.periodic_covariance):
    refuses(
        f"gradients.{build.__name__}",
        functools.partial(build, MODEL, batch_size=1),
        structure=STRUCTURE,
        rows=Kind(
            "'random' or 'epochs'",
            ((V, "blocks", "got 'blocks'"), (V, "block_sweeps", "'block_sweeps'")),
        ),
    )
refuses(
    "gradients.covariance_at",
    functools.partial(G.covariance_at, MODEL, POINT, DATA, batch_size=1, replace=False),
    structure=STRUCTURE,
    batch_size=Kind("at most n = 6", ((V, 7, "got 7"),)),
)
WRONG["gradients.covariance_at"] |= {
    "V position | NaN | finite": lambda: G.covariance_at(MODEL, POINT * NAN, DATA, batch_size=1),
}


def weighted(estimator=UNIFORM, **changes):
    """The exponentially weighted estimator with an argument replaced."""
    return G.exponentially_weighted(estimator, **changes)


WRONG["gradients.exponentially_weighted"] |= {
    f"T estimator | gaussian_location( | {AN_ESTIMATOR}": lambda: weighted(MODEL),
    "V estimator | the full gradient | must draw batches": lambda: weighted(G.full(MODEL)),
    "V estimator | 'momentum' (str) | not be exponentially weighted": lambda: weighted(weighted()),
    "V carry_index | True | chain_length=0": lambda: weighted(carry_index=True, chain_length=0),
    "V num_proposals | num_proposals=2 (int) and chain_length=3 (int) | its other name": lambda: (
        weighted(num_proposals=2, chain_length=3)
    ),
    "V carry_index | True | no index chain": lambda: weighted(carry_index=True, chain_length=INF),
}
refuses(
    "gradients.exponentially_weighted",
    weighted,
    frozen_noise=Kind(
        FROZEN,
        (
            (V, "momentun", "(did you mean 'momentum'?)"),
            (V, None, "None (NoneType)"),
            (V, POINT, "an array"),
            (V, {"a": POINT}, "{'a'"),
        ),
    ),
)
WRONG["gradients.exponentially_weighted: what it wraps"] |= {
    "V estimator | rows='epochs' | exchangeable": (
        lambda: weighted(G.uniform(MODEL, batch_size=2, rows="epochs")),
        lambda: weighted(G.covariance_tracking(MODEL, batch_size=2, rows="epochs")),
    ),
    "V estimator | rows='block_epochs' | exchangeable": lambda: weighted(
        G.saga(MODEL, batch_size=2, rows="block_epochs")
    ),
    "V estimator | rows='block_sweeps' | exchangeable": lambda: weighted(
        G.svrg(MODEL, batch_size=2, rows="block_sweeps")
    ),
    "V chain_length | got inf | must be finite": lambda: G.exponentially_weighted(
        G.stratified(MODEL, labels="c", **STRATA), chain_length=float("inf")
    ),
    "V shared_minibatch | got True | epochs of their own": lambda: sampled(
        kernel=ewsg.sgld(MODEL, 0.1, batch_size=2, rows="block_sweeps"), shared_minibatch=True
    ),
}

R = ewsg.rows
WEIGHTS = "an array (n,) of numbers that are not negative and not all zero"
refuses(
    "rows.importance_weighted",
    functools.partial(R.importance_weighted, weights=np.ones(3)),
    weights=Kind(
        WEIGHTS,
        (
            (T, [1.0, 2.0], "(list)"),
            (V, np.array([1.0, -1.0]), "the least -1"),
            (V, np.zeros(3), "of sum 0"),
            (V, np.zeros(0), "got 0 numbers"),
            (V, np.array([1.0, NAN]), "the least NaN"),
            (V, np.array([1.0, np.inf]), "of sum inf"),
            (V, np.ones(3) * 1j, "complex128"),
            (V, np.ones((2, 2)), "shape (2, 2)"),
        ),
    ),
    strata=Kind(
        "whole numbers from 0",
        (
            (T, [0, 0, 1], "(list)"),
            (V, np.zeros(2, int), "shape (2,)"),
            (V, np.zeros(3), "float64"),
            (V, np.array([0, -1, 1]), "got -1"),
        ),
    ),
)
WRONG["rows.importance_weighted"] |= {
    "V batch_size | got 2 | at least 3: a row of each of the 3 strata": lambda: G.uniform(
        MODEL, batch_size=2, rows=R.importance_weighted(np.ones(6), strata=np.arange(6) // 2)
    ),
    "V rows | 3 probabilities | each of the 6 rows": lambda: started(
        G.uniform(MODEL, batch_size=1, rows=R.importance_weighted(np.ones(3)))
    ),
    "V replace | got False | must be True": lambda: G.uniform(
        MODEL, batch_size=1, replace=False, rows=R.importance_weighted(np.ones(3))
    ),
    "V batch_size | got 3 | at most 2": lambda: G.uniform(
        MODEL, batch_size=3, rows=R.importance_weighted(np.array([1.0, 0.0, 1.0]))
    ),
    "V rows | by_probability( | 'random' or 'epochs'": lambda: G.covariance_tracking(
        MODEL, batch_size=1, rows=R.importance_weighted(np.ones(3))
    ),
    "V chain_length | got inf | must be finite": lambda: G.exponentially_weighted(
        G.uniform(MODEL, batch_size=1, rows=R.importance_weighted(np.ones(6))),
        chain_length=float("inf"),
    ),
}
WRONG["rows.leverage"] |= {
    "T inputs | (list) | an array of numbers": lambda: R.leverage([[1.0]], np.ones(1)),
    "V inputs | shape (3,) | (n, d)": lambda: R.leverage(np.ones(3), np.ones(3)),
    "V covariance | shape (3,) | (2,) or (2, 2)": lambda: R.leverage(np.ones((4, 2)), np.ones(3)),
    "V covariance | a squared norm of -2 | no negative eigenvalues": lambda: R.leverage(
        np.ones((4, 2)), -np.ones(2)
    ),
    "V inputs | inputs holds 1 NaN | must be finite": lambda: R.leverage(
        np.array([[1.0, NAN]]), np.ones(2)
    ),
    "V covariance | covariance holds 2 NaN or infinite | must be finite": lambda: R.leverage(
        np.ones((4, 2)), np.full(2, INF)
    ),
    "V inputs | dtype complex128 | real numbers": lambda: R.leverage(
        np.ones((4, 2)) * 1j, np.ones(2)
    ),
    "V inputs | dtype <U1 | real numbers": lambda: R.leverage(np.array([["a", "b"]]), np.ones(2)),
    "V inputs | shape (0, 2) | (n, d) of at least one row": lambda: R.leverage(
        np.ones((0, 2)), np.ones(2)
    ),
    f"V weights | of sum 0 | {WEIGHTS}": lambda: R.leverage(np.zeros((4, 2)), np.ones(2)),
}
