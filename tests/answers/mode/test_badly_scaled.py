"""Modes of posteriors in unlike units, or of many rows: `converged` is the truth."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.oracles import newton

KEY = jax.random.key(0)
PRECISION = 1e-4
STUDENT = ewsg.Posterior(
    lambda w, row: -2.5 * jnp.log1p((row["y"] - row["x"] @ w) ** 2 / 4),
    lambda w: -PRECISION / 2 * jnp.sum(w**2),
)
MODELS = {
    "linear": (ewsg.models.linear_regression(prior_scale=100.0), newton.linear),
    "logistic": (ewsg.models.logistic_regression(prior_scale=100.0), newton.logistic),
    "student": (STUDENT, newton.student),
}


def found_and_true(name, x, y, dtype=np.float32, **options):
    """The mode that is found, and how far it is from the true one."""
    model, loss = MODELS[name]
    rows = {"x": jnp.asarray(x, dtype), "y": jnp.asarray(y, dtype)}
    start = jnp.zeros(x.shape[1], dtype)
    found = ewsg.find_mode(KEY, model, start, rows, **options)
    begin = found.position if name == "student" else None
    return found, newton.mode(loss, rows["x"], rows["y"], PRECISION, begin).away(found.position)


def test_linear_regression_of_scaled_columns():
    """It was 43 standard deviations away, and called that 2e-5."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(2000, 3)) * [1e-3, 1, 1e3]
    found, true = found_and_true("linear", x, x @ [300, 1, 1e-3] + rng.normal(size=2000))
    assert found.converged
    assert true < 1e-4
    assert found.distance == pytest.approx(true, rel=0.01)


@pytest.mark.full
def test_student_regression_of_raw_columns(x64):
    """It was 14 standard deviations away, and called that 0.009."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(500), rng.normal(2000, 30, 500), rng.normal(0, 0.02, 500)])
    found, true = found_and_true(
        "student", x, x @ [3, 0.01, 40] + rng.standard_t(4, size=500), np.float64
    )
    assert found.converged
    assert found.distance == pytest.approx(true, rel=0.01)
    assert true < 0.01


@pytest.mark.full
def test_logistic_regression_of_raw_columns():
    """It was 11 standard deviations away, and called that 0.006."""
    rng = np.random.default_rng(3)
    columns = [
        np.ones(1000),
        rng.normal(50, 10, 1000),
        rng.normal(0, 1e-2, 1000),
        rng.normal(3000, 500, 1000),
    ]
    x = np.column_stack(columns)
    logits = (x - x.mean(0)) @ [0, 0.05, 50, 1e-3]
    found, true = found_and_true("logistic", x, rng.random(1000) < 1 / (1 + np.exp(-logits)))
    assert found.converged
    assert found.distance == pytest.approx(true, rel=0.01)
    assert true < 0.01


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_two_hundred_problems(name):
    """Units 1e-4 to 1e4, columns far from zero and nearly dependent; a third a model."""
    rng, truths = np.random.default_rng(7), []
    for _ in range(67):
        base = rng.normal(size=(120, 4))
        base[:, 1] += base[:, 0] * rng.choice([0.0, 3.0, 30.0])
        base += rng.choice([0.0, 0.0, 10.0, 100.0], size=4)
        units = 10 ** rng.uniform(-4, 4, size=4)
        logits = (base - base.mean(0)) @ rng.normal(size=4) + 0.5
        y = (
            rng.random(120) < 1 / (1 + np.exp(-logits))
            if name == "logistic"
            else logits + rng.standard_t(4, 120)
        )
        found, true = found_and_true(name, base * units, y)
        assert found.converged
        assert true < 0.1, units
        truths.append(true)
    assert np.median(truths) < 0.01


@functools.cache
def tall():
    """Many rows with a drifting input, nearly dependent columns, a far intercept."""
    rng, n = np.random.default_rng(0), 200_000
    base = rng.normal(size=(n, 4))
    base[:, 1] = base[:, 0] + 0.01 * base[:, 1]
    base[:, 3] = np.linspace(-1, 1, n)
    x = np.column_stack([np.ones(n), base, 5 + 0.01 * rng.normal(size=n)]).astype(np.float32)
    y = rng.random(n) < 1 / (1 + np.exp(-(x[:, :5] @ [0.5, 1, -1, 0.5, 2])))
    return x, y.astype(np.float32)


@pytest.mark.full
def test_many_rows_in_float32():
    """It ended 2.4 standard deviations away, after 77 passes, and called that 0.04."""
    found, true = found_and_true("logistic", *tall())
    assert found.converged
    assert true <= 0.01
    assert found.data_passes <= 40


@pytest.mark.real_data
def test_covertype():
    """It ended 1.8 standard deviations away, after 37 passes."""
    whole = ewsg.datasets.covertype()
    rows = np.sort(np.random.default_rng(0).permutation(len(whole.y))[:464_809])
    x, y = np.asarray(whole.x, np.float64)[rows], np.asarray(whole.y, np.float32)[rows]
    used = [min(np.count_nonzero(column[y == label]) for label in (0, 1)) >= 20 for column in x.T]
    x = x[:, used]
    x = ((x - x.mean(0)) / x.std(0)).astype(np.float32)
    assert x.shape == (464_809, 46)
    model, start = ewsg.models.logistic_regression(), jnp.zeros(46)
    found = ewsg.find_mode(KEY, model, start, {"x": x, "y": y})
    true = newton.mode(newton.logistic, x, y, 1.0, found.position).away(found.position)
    assert found.converged
    assert true <= 0.01
    assert found.data_passes <= 40
