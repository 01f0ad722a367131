"""How people hold their rows: what is no row is refused, or said, and what is one is taken.

The right values are those of least squares.
"""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

RNG = np.random.default_rng(0)
X = RNG.normal(size=100).astype(np.float32)
Y = (2 * X + 0.5 * RNG.normal(size=100)).astype(np.float32)
PAIRS = np.stack([X, Y], 1)
Row = collections.namedtuple("Row", "x y")


def of_pair(p, row):
    return -0.5 * ((row[1] - p * row[0]) / 0.5) ** 2


def of_names(p, row):
    return -0.5 * ((row["y"] - p * row["x"]) / 0.5) ** 2


def posterior(log_likelihood):
    return ewsg.Posterior(log_likelihood, lambda p: -0.5 * p**2 / 100)


ONE_A_ROW = {
    "a list": (of_pair, list(PAIRS)),
    "a tuple of JAX arrays": (of_pair, tuple(map(jnp.array, PAIRS[:20]))),
    "pairs of arrays": (
        lambda p, row: jnp.sum(of_pair(p, row[0])),
        [(np.array([x]), np.array([y])) for x, y in PAIRS],
    ),
    "named pairs of arrays": (
        lambda p, row: jnp.sum(of_pair(p, row[0])),
        [Row(np.array([x]), np.array([y])) for x, y in PAIRS],
    ),
    "a list with a name": (lambda p, row: of_pair(p, row["rows"]), {"rows": list(PAIRS)}),
    "a dictionary by numbers": (of_pair, dict(enumerate(PAIRS))),
}


@pytest.mark.parametrize("kind", ONE_A_ROW)
def test_one_array_a_row_is_refused(kind):
    """100 columns of 2 rows to JAX, of which the likelihood reads two: 42 sds off."""
    log_likelihood, rows = ONE_A_ROW[kind]
    model = posterior(log_likelihood)
    with pytest.raises(ValueError, match=r"without names.*numpy\.stack\(rows\)"):
        model.check(jnp.float32(0), rows)
    with pytest.raises(ValueError, match="without names"):
        ewsg.plan(jax.random.key(0), model, jnp.float32(0), rows, progress=False)


NUMBERS_A_ROW = {
    "tuples": list(map(tuple, PAIRS.tolist())),
    "dictionaries": [{"x": x, "y": y} for x, y in PAIRS],
    "named tuples": [Row(x, y) for x, y in PAIRS],
    "arrays of one number": [{"x": np.array(x), "y": np.array(y)} for x, y in PAIRS],
}


@pytest.mark.parametrize("kind", NUMBERS_A_ROW)
def test_rows_of_numbers_are_refused_with_what_makes_columns_of_them(kind):
    rows = NUMBERS_A_ROW[kind]
    way = "jax.tree.map(lambda *x: numpy.stack(x), *data)"
    with pytest.raises((TypeError, ValueError)) as refused:
        posterior(of_names).check(jnp.float32(0), rows)
    assert way in str(refused.value)
    columns = eval(way, {"jax": jax, "numpy": np, "data": rows})
    assert {x.shape for x in jax.tree.leaves(columns)} == {(100,)}


TAKEN = {
    "two columns": (of_pair, [X, Y]),
    "named columns": (lambda p, row: of_pair(p, (row.x, row.y)), Row(X, Y)),
    "more columns than rows": (of_names, {"x": X[:3], "y": Y[:3], "a": X[:3], "b": X[:3]}),
    "a long row": (lambda p, row: of_pair(p, row[:2]) + 0 * p * jnp.sum(row), PAIRS[:3]),
}


@pytest.mark.usual_parameters("a long row")
@pytest.mark.parametrize("kind", TAKEN)
def test_columns_are_taken(kind, recwarn):
    log_likelihood, rows = TAKEN[kind]
    model = posterior(log_likelihood)
    model.check(jnp.float32(0), rows)
    ewsg.sample(jax.random.key(0), ewsg.ld(model, 1e-4), jnp.float32(0), rows, 2)
    assert not recwarn.list


SAID = {
    "many columns": (
        of_names,
        {"x": X, "y": Y} | {f"c{i}": X for i in range(38)},
        "reads 2 of the 40 arrays of data, data['x'], data['y']",
    ),
    "batches": (
        lambda p, row: of_pair(p, row[0]),
        [(X[i : i + 20], Y[i : i + 20]) for i in range(0, 100, 20)],
        "reads 2 of the 10 arrays of data, data[0][0], data[0][1], .* if it is a batch",
    ),
    "rows in columns": (of_pair, PAIRS.T, r"reads 2 of the 100 numbers .* columns, data\.T"),
}


@pytest.mark.usual_parameters("rows in columns")
@pytest.mark.parametrize("kind", SAID)
def test_data_that_are_mostly_unread_are_said(kind):
    log_likelihood, rows, said = SAID[kind]
    kernel = ewsg.ld(posterior(log_likelihood), 1e-4)
    with pytest.warns(RuntimeWarning, match=said.replace("[", r"\[").replace("]", r"\]")):
        ewsg.sample(jax.random.key(0), kernel, jnp.float32(0), rows, 2)
