"""The programs of some rows against the model itself: values, gradients, signs of rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.some_rows import MOST_SUBSET_ROWS, PADDED_POSITIONS, SomeRows

pytestmark = pytest.mark.full

RNG = np.random.default_rng(0)
START = {"b": jnp.zeros(()), "w": jnp.zeros((2, 3))}
LINEAR = ewsg.models.linear_regression(noise_scale=0.5, prior_scale=2.0)


def log_likelihood(p, row):
    return jnp.tanh(row["x"] @ p["w"].sum(0) + p["b"]) - row["y"] * p["b"] ** 2


def log_prior(p):
    return -0.25 * jnp.sum(p["w"] ** 4) - 0.5 * p["b"] ** 2


def rows_of(n):
    x = RNG.normal(size=(n, 3)).astype(np.float32)
    return {"x": x, "y": RNG.random(n).astype(np.float32)}


@pytest.mark.parametrize("model", ["own", "linear predictors"])
@pytest.mark.parametrize(
    ("n", "count"), [(1, 3), (30, PADDED_POSITIONS), (2 * MOST_SUBSET_ROWS, PADDED_POSITIONS + 1)]
)
def test_values_and_gradients_are_the_models(model, n, count):
    posterior = ewsg.Posterior(log_likelihood, log_prior) if model == "own" else LINEAR
    start, data = (START if model == "own" else jnp.zeros(3)), rows_of(n)
    some = SomeRows.of(posterior, Layout.of(start), data)
    assert some.size == min(n, MOST_SUBSET_ROWS)
    assert some.size * some.stands_for == n
    places = RNG.normal(size=(count, len(vector(start)))).astype(np.float32)
    weights = RNG.normal(size=(count, some.size))

    def of(flat, own):
        position = some.layout.tree(flat)
        each = jax.vmap(posterior.log_likelihood, (None, 0))(position, some.rows)
        return jnp.asarray(posterior.log_prior(position)), each, own @ each

    expected = [of(*each)[:2] for each in zip(places, weights, strict=True)]
    expected = [np.concatenate([prior[None], each]) for prior, each in expected]
    np.testing.assert_allclose(some.values(places), expected, rtol=1e-4, atol=1e-4)
    slopes = [
        [jax.grad(lambda x, own=own, part=part: of(x, own)[part])(flat) for part in (0, 2)]
        for flat, own in zip(places[:3], jnp.float32(weights[:3]), strict=True)
    ]
    found = some.gradients(places, weights)
    assert found.shape == (count, 2, places.shape[1])
    np.testing.assert_allclose(found[:3], slopes, rtol=1e-3, atol=1e-3)
    # One weight of each row serves all places.
    same = some.gradients(places, weights[0])
    np.testing.assert_allclose(same[0], found[0], rtol=1e-6)


def test_sums_with_random_signs_have_the_square_of_the_sum_of_squares():
    some = SomeRows.of(LINEAR, Layout.of(jnp.zeros(3)), rows_of(500))
    signs = some.signs(4_000)
    assert set(np.unique(signs)) == {-1.0, 1.0}
    assert np.array_equal(signs, some.signs(4_000))
    # The standard error is √2/√4,000 of the mean.
    values = RNG.normal(size=500)
    assert abs(np.mean((signs @ values) ** 2) / np.sum(values**2) - 1) < 5 * np.sqrt(2 / 4_000)
