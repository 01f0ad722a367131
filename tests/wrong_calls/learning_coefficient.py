"""Wrong calls of the local learning coefficient."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from tests.wrong_calls.standard import NUMBER, every
from tests.wrong_calls.table import KEY, MODEL, NAN, WRONG

ROWS = {"x": jnp.arange(12.0).reshape(6, 2) / 10, "y": jnp.arange(6.0)}
WEIGHTS = {"layer": {"w": jnp.ones(2)}, "b": jnp.ones(1)}
NEAR = "log_likelihood must have a maximum at weights"


def log_likelihood(w, row):
    return -0.5 * (row["y"] - row["x"] @ w["layer"]["w"] - w["b"][0]) ** 2


def coefficient(weights=WEIGHTS, data=ROWS, likelihood=log_likelihood, **changes):
    """Estimate with something wrong."""
    key = changes.pop("key", KEY)
    return ewsg.learning_coefficient(key, likelihood, weights, data, progress=False, **changes)


right = functools.partial(
    ewsg.learning_coefficient, key=KEY, log_likelihood=log_likelihood, weights=WEIGHTS, data=ROWS
)
numbers = dict.fromkeys(("localization", "temperature", "step_size", "tolerance"), NUMBER)
unlike = {"data": None, "num_steps": None, "log_likelihood": None, "batched_log_likelihood": None}
every("learning_coefficient", right, **numbers, **unlike)
WRONG["learning_coefficient"] |= {
    "V data | got 2 rows | at least 3 rows": lambda: coefficient(
        data=jax.tree.map(lambda x: x[:2], ROWS)
    ),
    "V data | data['x']: 6, data['y']: 4 | share their leading axis": lambda: coefficient(
        data=ROWS | {"y": jnp.ones(4)}
    ),
    "V data | 1 NaN | must be finite": lambda: coefficient(
        data=ROWS | {"y": ROWS["y"].at[0].set(NAN)}
    ),
    "V weights | 1 NaN | must be finite": lambda: coefficient(WEIGHTS | {"b": jnp.full(1, NAN)}),
    "V weights | without leaves | pytree of floating-point arrays": lambda: coefficient({}),
    f"V log_likelihood | it has a minimum there | {NEAR}": lambda: coefficient(
        likelihood=lambda w, row: -log_likelihood(w, row)
    ),
    "T log_likelihood | (w, row, key) | (weights, row) -> scalar without a key": lambda: (
        coefficient(likelihood=lambda w, row, key: log_likelihood(w, row))
    ),
    "V log_likelihood | one that it makes or holds | evaluation mode": lambda: coefficient(
        likelihood=lambda w, row: log_likelihood(w, row) * jax.random.bernoulli(KEY)
    ),
    "T log_likelihood | got None without one | (weights, row) -> scalar": lambda: coefficient(
        likelihood=None
    ),
    "V batched_log_likelihood | function | must be None with a Posterior": lambda: coefficient(
        likelihood=MODEL, batched_log_likelihood=log_likelihood
    ),
    "V batched_log_likelihood | shape () | one floating-point number for each row": (
        lambda: coefficient(
            likelihood=None, batched_log_likelihood=lambda w, rows: jnp.mean(rows["y"])
        )
    ),
    "V sampled | which chooses none | 'b', 'layer/w'": lambda: coefficient(
        sampled=lambda name, leaf: False
    ),
    "V sampled | got 'head', which matches none | 'b', 'layer/w'": lambda: coefficient(
        sampled="head"
    ),
    "T sampled | it returned 1 (int) | True or False": lambda: coefficient(
        sampled=lambda name, leaf: 1
    ),
    "T sampled | got 1 (int) | a name or a pattern of leaves": lambda: coefficient(sampled=1),
    "T observables | list | a dictionary of data by name": lambda: coefficient(observables=[ROWS]),
    "V observables | 'data' | must not have the name": lambda: coefficient(
        observables={"data": ROWS}
    ),
    "V observables | '' | must not have the name": lambda: coefficient(observables={"": ROWS}),
    "V observables['a'] | shape (1, 1) | like those of data": lambda: coefficient(
        observables={"a": ROWS | {"x": jnp.ones((6, 1))}}
    ),
    "V observables['a'] | observables['a']['x']: 6, observables['a']['y']: 4 | share": (
        lambda: coefficient(observables={"a": ROWS | {"y": jnp.ones(4)}})
    ),
    "V num_steps | got 10 | at least 1000": lambda: coefficient(num_steps=10),
    "T learning_coefficient | traced | on the host": lambda: jax.jit(coefficient)(WEIGHTS, ROWS),
}
