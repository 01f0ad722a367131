"""Wrong calls of the estimators with a memory, and of what wraps them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    A_POSTERIOR,
    DATA,
    KEY,
    LOGISTIC,
    MODEL,
    NAN,
    POINT,
    ROW_LAWS,
    ROWS,
    STRATA,
    WHOLE,
    T,
    V,
    failing,
    of,
    sampled,
)

G = ewsg.gradients


def started(estimator, data=DATA, position=POINT):
    """Begin a chain of an estimator."""
    return ewsg.kernel(ewsg.dynamics.langevin(0.1), estimator).init(KEY, position, data)


of(
    "gradients.svrg",
    (
        "a method for a posterior",
        T,
        "posterior",
        "function ld",
        A_POSTERIOR,
        lambda: G.svrg(ewsg.ld, batch_size=1),
    ),
    ("no rows", V, "batch_size", "got 0", WHOLE, lambda: G.svrg(MODEL, batch_size=0)),
    (
        "half a step",
        T,
        "refresh_every",
        "1.5 (float)",
        WHOLE,
        lambda: G.svrg(MODEL, batch_size=1, refresh_every=1.5),
    ),
    (
        "never",
        V,
        "refresh_every",
        "got 0",
        WHOLE,
        lambda: G.svrg(MODEL, batch_size=1, refresh_every=0),
    ),
    (
        "a function that gives no number",
        T,
        "refresh_every(n)",
        "3.0 (float)",
        WHOLE,
        lambda: started(G.svrg(MODEL, batch_size=1, refresh_every=lambda n: n / 2)),
    ),
    (
        "option",
        V,
        "option",
        "1 (int)",
        "one of 'I', 'II'",
        lambda: G.svrg(MODEL, batch_size=1, option=1),
    ),
    (
        "rows",
        V,
        "rows",
        "'block' (str)",
        ROW_LAWS,
        lambda: G.svrg(MODEL, batch_size=1, rows="block"),
    ),
    (
        "subsets of blocks",
        V,
        "replace",
        "got False",
        "must be True for rows='blocks'",
        lambda: G.svrg(MODEL, batch_size=1, rows="blocks", replace=False),
    ),
    (
        "a block above n",
        V,
        "batch_size",
        "got 7",
        "at most n = 6",
        lambda: started(G.svrg(MODEL, batch_size=7, rows="blocks")),
    ),
)
of(
    "gradients.saga",
    ("no posterior", T, "posterior", "None", A_POSTERIOR, lambda: G.saga(None, batch_size=1)),
    ("no rows", V, "batch_size", "got -1", WHOLE, lambda: G.saga(MODEL, batch_size=-1)),
    (
        "replace",
        T,
        "replace",
        "1 (int)",
        "True or False",
        lambda: G.saga(MODEL, batch_size=1, replace=1),
    ),
    ("chunks", V, "chunk_size", "got 0", WHOLE, lambda: G.saga(MODEL, batch_size=1, chunk_size=0)),
    (
        "a limit",
        T,
        "memory_limit",
        "'1 GB' (str)",
        WHOLE,
        lambda: G.saga(MODEL, batch_size=1, memory_limit="1 GB"),
    ),
    (
        "a table that does not fit",
        V,
        "memory_limit",
        "got 47",
        "at least 48 ",
        lambda: started(G.saga(MODEL, batch_size=1, memory_limit=47)),
    ),
    (
        "tables that do not fit",
        V,
        "memory_limit",
        "got 100",
        "for 3 chains",
        lambda: sampled(
            kernel=ewsg.saga_ld(MODEL, 0.1, batch_size=1, memory_limit=100), num_chains=3
        ),
    ),
)
of(
    "gradients.control_variate",
    ("data", T, "posterior", "array", A_POSTERIOR, lambda: G.control_variate(DATA, batch_size=1)),
    (
        "half a row",
        T,
        "batch_size",
        "0.5 (float)",
        WHOLE,
        lambda: G.control_variate(MODEL, batch_size=0.5),
    ),
    (
        "a name",
        T,
        "center",
        "'mode' (str)",
        "a tree of floating-point arrays",
        lambda: G.control_variate(MODEL, batch_size=1, center="mode"),
    ),
    (
        "a mode for its position",
        T,
        "center",
        "center.converged is",
        "give its position, not the whole Mode",
        lambda: G.control_variate(
            MODEL, batch_size=1, center=ewsg.find_mode(KEY, MODEL, POINT, DATA)
        ),
    ),
    (
        "NaN",
        V,
        "center",
        "holds 1 NaN",
        "must be finite",
        lambda: G.control_variate(MODEL, batch_size=1, center=POINT.at[0].set(NAN)),
    ),
    (
        "of another shape",
        V,
        "center",
        "shape (3,)",
        "a tree like the position",
        lambda: started(G.control_variate(MODEL, batch_size=1, center=jnp.zeros(3))),
    ),
)
of(
    "gradients.stratified",
    (
        "no strata",
        V,
        "num_strata",
        "got 0",
        WHOLE,
        lambda: G.stratified(MODEL, batch_size=2, labels="c", num_strata=0),
    ),
    (
        "fewer rows than strata",
        V,
        "batch_size",
        "got 1",
        "at least num_strata = 2",
        lambda: G.stratified(MODEL, batch_size=1, labels="c", num_strata=2),
    ),
    (
        "labels",
        T,
        "labels",
        "int32",
        "a function",
        lambda: G.stratified(MODEL, labels=jnp.zeros(6, int), **STRATA),
    ),
    (
        "no such key",
        V,
        "labels",
        "'c' for the keys ['x', 'y']",
        "a key of data",
        lambda: started(G.stratified(LOGISTIC, labels="c", **STRATA), ROWS),
    ),
    (
        "labels of all",
        V,
        "labels",
        "shape (6, 2)",
        "whole numbers from 0 to 1",
        lambda: started(G.stratified(MODEL, labels=lambda data: data, **STRATA)),
    ),
    (
        "a label too large",
        V,
        "labels",
        "got 2",
        "whole numbers from 0 to 1",
        lambda: started(
            G.stratified(MODEL, labels=lambda data: np.array([0, 1, 2, 0, 0, 0]), **STRATA)
        ),
    ),
    (
        "labels that fail",
        V,
        "labels",
        "the disk is full",
        "a function of the data",
        lambda: started(G.stratified(MODEL, labels=failing, **STRATA)),
    ),
)
STRUCTURES = "one of 'dense', 'diagonal', 'low_rank'"
for name in ("covariance_tracking", "kept_covariance"):
    wrong = functools.partial(getattr(G, name), MODEL, batch_size=1)
    of(
        f"gradients.{name}",
        (
            "structure",
            V,
            "structure",
            "'full' (str)",
            STRUCTURES,
            lambda wrong=wrong: wrong(structure="full"),
        ),
        ("rank", V, "rank", "got 0", WHOLE, lambda wrong=wrong: wrong(rank=0)),
        (
            "blocks",
            V,
            "rows",
            "got 'blocks'",
            "'random' or 'epochs'",
            lambda wrong=wrong: wrong(rows="blocks"),
        ),
        (
            "sweeps",
            V,
            "rows",
            "'block_sweeps'",
            "'random' or 'ep",
            lambda wrong=wrong: wrong(rows="block_sweeps"),
        ),
        (
            "period",
            T,
            "refresh_every",
            "'epoch' (str)",
            WHOLE,
            lambda wrong=wrong: wrong(refresh_every="epoch"),
        ),
        (
            "posterior",
            T,
            "posterior",
            "function",
            A_POSTERIOR,
            lambda build=wrong.func: build(len, batch_size=1),
        ),
    )
of(
    "gradients.covariance_at",
    (
        "posterior",
        T,
        "posterior",
        "function",
        A_POSTERIOR,
        lambda: G.covariance_at(len, POINT, DATA, batch_size=1),
    ),
    (
        "NaN",
        V,
        "position",
        "NaN",
        "finite",
        lambda: G.covariance_at(MODEL, POINT * NAN, DATA, batch_size=1),
    ),
    (
        "batch",
        V,
        "batch_size",
        "got 0",
        WHOLE,
        lambda: G.covariance_at(MODEL, POINT, DATA, batch_size=0),
    ),
    (
        "passes",
        V,
        "passes",
        "got 0",
        WHOLE,
        lambda: G.covariance_at(MODEL, POINT, DATA, batch_size=1, passes=0),
    ),
    (
        "structure",
        V,
        "structure",
        "'full' (str)",
        STRUCTURES,
        lambda: G.covariance_at(MODEL, POINT, DATA, batch_size=1, structure="full"),
    ),
    (
        "more rows than there are",
        V,
        "batch_size",
        "got 7",
        "at most n = 6",
        lambda: G.covariance_at(MODEL, POINT, DATA, batch_size=7, replace=False),
    ),
)
EPOCHS = G.uniform(MODEL, batch_size=2, rows="epochs")
of(
    "gradients.exponentially_weighted: what it wraps",
    (
        "epochs",
        V,
        "estimator",
        "rows='epochs'",
        "exchangeable",
        lambda: G.exponentially_weighted(EPOCHS),
    ),
    (
        "epochs of blocks",
        V,
        "estimator",
        "rows='block_epochs'",
        "exchangeable",
        lambda: G.exponentially_weighted(G.uniform(MODEL, batch_size=2, rows="block_epochs")),
    ),
    (
        "strata, exactly",
        V,
        "chain_length",
        "got inf",
        "must be finite",
        lambda: G.exponentially_weighted(
            G.stratified(MODEL, labels="c", **STRATA), chain_length=float("inf")
        ),
    ),
    (
        "shared epochs",
        V,
        "shared_minibatch",
        "got True",
        "epochs of their own",
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
    ("a list", T, "weights", "(list)", WEIGHTS, lambda: R.by_probability([1.0, 2.0])),
    (
        "negative",
        V,
        "weights",
        "the least -1",
        WEIGHTS,
        lambda: R.by_probability(np.array([1.0, -1.0])),
    ),
    ("zero", V, "weights", "of sum 0", WEIGHTS, lambda: R.by_probability(np.zeros(3))),
    ("none", V, "weights", "got 0 numbers", WEIGHTS, lambda: R.by_probability(np.zeros(0))),
    ("NaN", V, "weights", "the least NaN", WEIGHTS, lambda: R.by_probability(np.array([1.0, NAN]))),
    (
        "infinite",
        V,
        "weights",
        "of sum inf",
        WEIGHTS,
        lambda: R.by_probability(np.array([1.0, np.inf])),
    ),
    ("complex", V, "weights", "complex128", WEIGHTS, lambda: R.by_probability(np.ones(3) * 1j)),
    ("a matrix", V, "weights", "shape (2, 2)", WEIGHTS, lambda: R.by_probability(np.ones((2, 2)))),
    (
        "strata as a list",
        T,
        "strata",
        "(list)",
        LABELS,
        lambda: R.by_probability(np.ones(3), strata=[0, 0, 1]),
    ),
    (
        "strata of other rows",
        V,
        "strata",
        "shape (2,)",
        LABELS,
        lambda: R.by_probability(np.ones(3), strata=np.zeros(2, int)),
    ),
    (
        "strata of numbers",
        V,
        "strata",
        "float64",
        LABELS,
        lambda: R.by_probability(np.ones(3), strata=np.zeros(3)),
    ),
    (
        "a negative stratum",
        V,
        "strata",
        "got -1",
        LABELS,
        lambda: R.by_probability(np.ones(3), strata=np.array([0, -1, 1])),
    ),
    (
        "more strata than rows",
        V,
        "batch_size",
        "got 2",
        "at least 3: a row of each of the 3 strata",
        lambda: G.uniform(
            MODEL, batch_size=2, rows=R.by_probability(np.ones(6), strata=np.arange(6) // 2)
        ),
    ),
    (
        "of other data",
        V,
        "rows",
        "3 probabilities",
        "each of the 6 rows",
        lambda: started(G.uniform(MODEL, batch_size=1, rows=R.by_probability(np.ones(3)))),
    ),
    (
        "without replacement",
        V,
        "replace",
        "got False",
        "must be True",
        lambda: G.uniform(MODEL, batch_size=1, replace=False, rows=R.by_probability(np.ones(3))),
    ),
    (
        "more than there are",
        V,
        "batch_size",
        "got 3",
        "at most 2",
        lambda: G.uniform(MODEL, batch_size=3, rows=R.by_probability(np.array([1.0, 0.0, 1.0]))),
    ),
    (
        "a tracked covariance",
        V,
        "rows",
        "by_probability(",
        "'random' or 'epochs'",
        lambda: G.covariance_tracking(MODEL, batch_size=1, rows=R.by_probability(np.ones(3))),
    ),
    (
        "all batches",
        V,
        "chain_length",
        "got inf",
        "must be finite",
        lambda: G.exponentially_weighted(
            G.uniform(MODEL, batch_size=1, rows=R.by_probability(np.ones(6))),
            chain_length=float("inf"),
        ),
    ),
)
of(
    "rows.leverage",
    (
        "a list",
        T,
        "inputs",
        "(list)",
        "an array of numbers",
        lambda: R.leverage([[1.0]], np.ones(1)),
    ),
    ("a vector", V, "inputs", "shape (3,)", "(n, d)", lambda: R.leverage(np.ones(3), np.ones(3))),
    (
        "another size",
        V,
        "covariance",
        "shape (3,)",
        "(2,) or (2, 2)",
        lambda: R.leverage(np.ones((4, 2)), np.ones(3)),
    ),
    (
        "negative",
        V,
        "covariance",
        "not",
        "finite",
        lambda: R.leverage(np.ones((4, 2)), -np.ones(2)),
    ),
    (
        "NaN",
        V,
        "covariance",
        "not",
        "finite",
        lambda: R.leverage(np.ones((4, 2)), np.array([NAN, 1.0])),
    ),
    (
        "no norms",
        V,
        "weights",
        "of sum 0",
        WEIGHTS,
        lambda: R.leverage(np.zeros((4, 2)), np.ones(2)),
    ),
)
