"""Wrong calls of the estimators with a memory, and of what wraps them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    DATA,
    KEY,
    LOGISTIC,
    MODEL,
    NAN,
    POINT,
    ROWS,
    STRATA,
    WHOLE,
    T,
    V,
    failing,
    of,
    row,
    sampled,
)

G = ewsg.gradients


def started(estimator, data=DATA, position=POINT):
    """Begin a chain of an estimator."""
    return ewsg.kernel(ewsg.dynamics.langevin(0.1), estimator).init(KEY, position, data)


of(
    "gradients.svrg",
    row(
        T,
        f"refresh_every(n) | 3.0 (float) | {WHOLE}",
        lambda: started(G.svrg(MODEL, batch_size=1, refresh_every=lambda n: n / 2)),
    ),
    row(
        V,
        "replace | got False | must be True for rows='blocks'",
        lambda: G.svrg(MODEL, batch_size=1, rows="blocks", replace=False),
    ),
    row(
        V,
        "batch_size | got 7 | at most n = 6",
        lambda: started(G.svrg(MODEL, batch_size=7, rows="blocks")),
    ),
)
of(
    "gradients.saga",
    row(
        V,
        "memory_limit | got 47 | at least 48 ",
        lambda: started(G.saga(MODEL, batch_size=1, memory_limit=47)),
    ),
    row(
        V,
        "memory_limit | got 100 | for 3 chains",
        lambda: sampled(
            kernel=ewsg.saga_ld(MODEL, 0.1, batch_size=1, memory_limit=100), num_chains=3
        ),
    ),
)
of(
    "gradients.control_variate",
    row(
        T,
        "center | 'mode' (str) | a tree of floating-point arrays",
        lambda: G.control_variate(MODEL, batch_size=1, center="mode"),
    ),
    row(
        T,
        "center | center.converged is | give its position, not the whole Mode",
        lambda: G.control_variate(
            MODEL, batch_size=1, center=ewsg.find_mode(KEY, MODEL, POINT, DATA)
        ),
    ),
    row(
        V,
        "center | holds 1 NaN | must be finite",
        lambda: G.control_variate(MODEL, batch_size=1, center=POINT.at[0].set(NAN)),
    ),
    row(
        V,
        "center | shape (3,) | a tree like the position",
        lambda: started(G.control_variate(MODEL, batch_size=1, center=jnp.zeros(3))),
    ),
)
of(
    "gradients.stratified",
    row(
        V,
        "batch_size | got 1 | at least num_strata = 2",
        lambda: G.stratified(MODEL, batch_size=1, labels="c", num_strata=2),
    ),
    row(
        T,
        "labels | int32 | a function",
        lambda: G.stratified(MODEL, labels=jnp.zeros(6, int), **STRATA),
    ),
    row(
        V,
        "labels | 'c' for the keys ['x', 'y'] | a key of data",
        lambda: started(G.stratified(LOGISTIC, labels="c", **STRATA), ROWS),
    ),
    row(
        V,
        "labels | shape (6, 2) | whole numbers from 0 to 1",
        lambda: started(G.stratified(MODEL, labels=lambda data: data, **STRATA)),
    ),
    row(
        V,
        "labels | got 2 | whole numbers from 0 to 1",
        lambda: started(
            G.stratified(MODEL, labels=lambda data: np.array([0, 1, 2, 0, 0, 0]), **STRATA)
        ),
    ),
    row(
        V,
        "labels | the disk is full | a function of the data",
        lambda: started(G.stratified(MODEL, labels=failing, **STRATA)),
    ),
)
STRUCTURES = "one of 'dense', 'diagonal', 'low_rank'"
for name in ("covariance_tracking", "kept_covariance"):
    wrong = functools.partial(getattr(G, name), MODEL, batch_size=1)
    of(
        f"gradients.{name}",
        row(
            V,
            f"structure | 'full' (str) | {STRUCTURES}",
            lambda wrong=wrong: wrong(structure="full"),
        ),
        row(
            V,
            "rows | got 'blocks' | 'random' or 'epochs'",
            lambda wrong=wrong: wrong(rows="blocks"),
        ),
        row(
            V,
            "rows | 'block_sweeps' | 'random' or 'ep",
            lambda wrong=wrong: wrong(rows="block_sweeps"),
        ),
    )
of(
    "gradients.covariance_at",
    row(
        V,
        "position | NaN | finite",
        lambda: G.covariance_at(MODEL, POINT * NAN, DATA, batch_size=1),
    ),
    row(
        V,
        f"structure | 'full' (str) | {STRUCTURES}",
        lambda: G.covariance_at(MODEL, POINT, DATA, batch_size=1, structure="full"),
    ),
    row(
        V,
        "batch_size | got 7 | at most n = 6",
        lambda: G.covariance_at(MODEL, POINT, DATA, batch_size=7, replace=False),
    ),
)
EPOCHS = G.uniform(MODEL, batch_size=2, rows="epochs")
of(
    "gradients.exponentially_weighted: what it wraps",
    row(V, "estimator | rows='epochs' | exchangeable", lambda: G.exponentially_weighted(EPOCHS)),
    row(
        V,
        "estimator | rows='block_epochs' | exchangeable",
        lambda: G.exponentially_weighted(G.uniform(MODEL, batch_size=2, rows="block_epochs")),
    ),
    row(
        V,
        "chain_length | got inf | must be finite",
        lambda: G.exponentially_weighted(
            G.stratified(MODEL, labels="c", **STRATA), chain_length=float("inf")
        ),
    ),
    row(
        V,
        "shared_minibatch | got True | epochs of their own",
        lambda: sampled(
            kernel=ewsg.kernel(ewsg.dynamics.langevin(0.1), EPOCHS), shared_minibatch=True
        ),
    ),
)

R = ewsg.rows
WEIGHTS = "an array (n,) of numbers that are not negative and not all zero"
LABELS = "whole numbers from 0"
of(
    "rows.by_probability",
    row(T, f"weights | (list) | {WEIGHTS}", lambda: R.by_probability([1.0, 2.0])),
    row(V, f"weights | the least -1 | {WEIGHTS}", lambda: R.by_probability(np.array([1.0, -1.0]))),
    row(V, f"weights | of sum 0 | {WEIGHTS}", lambda: R.by_probability(np.zeros(3))),
    row(V, f"weights | got 0 numbers | {WEIGHTS}", lambda: R.by_probability(np.zeros(0))),
    row(V, f"weights | the least NaN | {WEIGHTS}", lambda: R.by_probability(np.array([1.0, NAN]))),
    row(V, f"weights | of sum inf | {WEIGHTS}", lambda: R.by_probability(np.array([1.0, np.inf]))),
    row(V, f"weights | complex128 | {WEIGHTS}", lambda: R.by_probability(np.ones(3) * 1j)),
    row(V, f"weights | shape (2, 2) | {WEIGHTS}", lambda: R.by_probability(np.ones((2, 2)))),
    row(T, f"strata | (list) | {LABELS}", lambda: R.by_probability(np.ones(3), strata=[0, 0, 1])),
    row(
        V,
        f"strata | shape (2,) | {LABELS}",
        lambda: R.by_probability(np.ones(3), strata=np.zeros(2, int)),
    ),
    row(
        V, f"strata | float64 | {LABELS}", lambda: R.by_probability(np.ones(3), strata=np.zeros(3))
    ),
    row(
        V,
        f"strata | got -1 | {LABELS}",
        lambda: R.by_probability(np.ones(3), strata=np.array([0, -1, 1])),
    ),
    row(
        V,
        "batch_size | got 2 | at least 3: a row of each of the 3 strata",
        lambda: G.uniform(
            MODEL, batch_size=2, rows=R.by_probability(np.ones(6), strata=np.arange(6) // 2)
        ),
    ),
    row(
        V,
        "rows | 3 probabilities | each of the 6 rows",
        lambda: started(G.uniform(MODEL, batch_size=1, rows=R.by_probability(np.ones(3)))),
    ),
    row(
        V,
        "replace | got False | must be True",
        lambda: G.uniform(MODEL, batch_size=1, replace=False, rows=R.by_probability(np.ones(3))),
    ),
    row(
        V,
        "batch_size | got 3 | at most 2",
        lambda: G.uniform(MODEL, batch_size=3, rows=R.by_probability(np.array([1.0, 0.0, 1.0]))),
    ),
    row(
        V,
        "rows | by_probability( | 'random' or 'epochs'",
        lambda: G.covariance_tracking(MODEL, batch_size=1, rows=R.by_probability(np.ones(3))),
    ),
    row(
        V,
        "chain_length | got inf | must be finite",
        lambda: G.exponentially_weighted(
            G.uniform(MODEL, batch_size=1, rows=R.by_probability(np.ones(6))),
            chain_length=float("inf"),
        ),
    ),
)
of(
    "rows.leverage",
    row(T, "inputs | (list) | an array of numbers", lambda: R.leverage([[1.0]], np.ones(1))),
    row(V, "inputs | shape (3,) | (n, d)", lambda: R.leverage(np.ones(3), np.ones(3))),
    row(
        V,
        "covariance | shape (3,) | (2,) or (2, 2)",
        lambda: R.leverage(np.ones((4, 2)), np.ones(3)),
    ),
    row(V, "covariance | not | finite", lambda: R.leverage(np.ones((4, 2)), -np.ones(2))),
    row(V, "covariance | not | finite", lambda: R.leverage(np.ones((4, 2)), np.array([NAN, 1.0]))),
    row(V, f"weights | of sum 0 | {WEIGHTS}", lambda: R.leverage(np.zeros((4, 2)), np.ones(2))),
)
