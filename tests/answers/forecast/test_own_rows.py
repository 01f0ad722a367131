"""Forecasts take laws of rows of one's own in which every row counts once on average."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.forecast.own_parts import check_rows
from ewsg_jax.rows._view import Block

KEY, N = jax.random.key(0), 100
MODEL = ewsg.models.gaussian_location()
ROWS = jax.random.normal(KEY, (N, 2))
P = np.linspace(0.5, 1.5, N) / N


def law(draw, **members):
    """A law of one's own that draws five rows so."""
    cls = type("Mine", (ewsg.rows.RowLaw,), {"draw": draw, "__annotations__": {}} | members)
    return ewsg.module(cls)(batch_size=5)


def uniform(rows, **members):
    return law(lambda self, key, data, order=None: ewsg.rows.Batch(rows(key)), **members)


def weighted(rows, weights):
    def draw(self, key, data, order=None):
        found = rows(key)
        return ewsg.rows.Batch(found, weights=jnp.asarray(weights)[found])

    return law(draw, weighted=True)


def any_row(key):
    return jax.random.randint(key, (5,), 0, N)


def by_p(key):
    return jax.random.choice(key, N, (5,), p=jnp.asarray(P))


@pytest.mark.parametrize(
    "right",
    [
        uniform(any_row),
        uniform(lambda key: (jax.random.randint(key, (), 0, N) + 20 * jnp.arange(5)) % N),
        weighted(by_p, 1 / (5 * P)),
        law(
            lambda self, key, data, order=None: Block(
                start=jax.random.randint(key, (), 0, N), size=5
            ),
        ),
    ],
    ids=["uniform", "systematic", "by probability", "a block"],
)
def test_right_ones(right):
    check_rows(ewsg.gradients.uniform(MODEL, batch_size=5, rows=right), ROWS)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (weighted(any_row, np.full(N, 2 * N / 5)), "whose weights sum to 2 n on average"),
        (weighted(any_row, np.full(N, N / 5 * 0.9)), "whose weights sum to 0.9 n on average"),
        (weighted(by_p, np.full(N, N / 5)), "some rows count more than others"),
        (uniform(by_p), "some rows count more than others"),
        (uniform(lambda key: jax.random.randint(key, (5,), 0, N - 10)), "some rows count more"),
    ],
)
def test_wrong_ones(wrong, message):
    kernel = ewsg.kernel(
        ewsg.dynamics.langevin(1e-4), ewsg.gradients.uniform(MODEL, batch_size=5, rows=wrong)
    )
    mode = ewsg.find_mode(KEY, MODEL, jnp.zeros(2), ROWS)
    with pytest.raises(ValueError, match=f"law of rows in which every row counts once.*{message}"):
        ewsg.forecast(kernel, mode, ROWS)
