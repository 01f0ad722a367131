"""Predictions have the shape of the observations, and those of many rows are made in parts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ewsg_jax import networks
from ewsg_jax.base import limits

KEY = jax.random.key(0)
RNG = np.random.default_rng(3)
X = RNG.normal(size=(9, 2)).astype(np.float32)
MEMBERS = [np.array([1.0, 2.0], np.float32), np.array([1.5, 1.0], np.float32)]


def of_shape(shape, kind):
    """Predictions of an observation of a shape, by two members, each number a multiple of x @ w."""
    numbers = max(1, int(np.prod(shape)))
    y = np.ones((len(X), *shape), np.float32 if kind == "normal" else np.int32)
    likelihood = networks.normal(scale=0.5) if kind == "normal" else kind

    def apply(params, x):
        return (x @ params) * jnp.arange(1.0, numbers + 1) / 10

    model = networks.posterior(apply, MEMBERS[0], {"x": X, "y": y}, likelihood=likelihood)
    return networks.predictions(model, networks.ensemble(MEMBERS)), y


@pytest.mark.parametrize("kind", ["normal", "poisson", "bernoulli"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3)])
def test_predictions_have_the_shape_of_observations(shape, kind):
    """Of shape (b,) in the place of (b, 1), an error y − mean would be one of all pairs of rows."""
    predicted, y = of_shape(shape, kind)
    new = predicted.predict(X)
    assert new.mean.shape == new.sd.shape == new.mean_sd.shape == y.shape
    outputs = np.stack([X @ w for w in MEMBERS]).reshape(2, -1, *[1] * len(shape))
    outputs = outputs * np.arange(1, max(1, np.prod(shape)) + 1).reshape(shape) / 10
    means = {"normal": outputs, "poisson": np.exp(outputs), "bernoulli": 1 / (1 + np.exp(-outputs))}
    np.testing.assert_allclose(new.mean, means[kind].mean(0), rtol=1e-5, atol=1e-6)
    low, high = predicted.interval(X)
    assert low.shape == high.shape == y.shape
    assert predicted.model.draw(KEY, MEMBERS[0], X).shape == y.shape
    assert predicted.log_scores(X, y).shape == (len(X),)


def test_intervals_of_many_rows_are_made_in_parts(monkeypatch):
    """Each row has the quantiles of its own mixture of two normal distributions."""
    predicted, _ = of_shape((1,), "normal")
    whole = predicted.interval(X, 0.8)
    monkeypatch.setattr(limits, "NUMBERS_AT_ONCE", 4_000 * 2)
    parts = predicted.interval(X, 0.8)
    rows, keys = [], []
    draw = predicted.samples.predict
    monkeypatch.setattr(
        type(predicted.samples),
        "predict",
        lambda self, function, x, *, key, **options: (
            rows.append(len(x)) or keys.append(key) or draw(function, x, key=key, **options)
        ),
    )
    predicted.interval(X, 0.8)
    assert rows == [2, 2, 2, 2, 1]
    # None of them is the key from which they are split.
    used = {tuple(jax.random.key_data(key).tolist()) for key in [*keys, KEY]}
    assert len(used) == len(rows) + 1
    for one, other in zip(whole, parts, strict=True):
        # Twice the error of a quantile of 4,000 draws: other draws, of the same distributions.
        np.testing.assert_allclose(one, other, atol=0.1)
        assert not np.array_equal(one[2:], other[2:])


def test_no_rows_have_no_intervals():
    predicted, _ = of_shape((2,), "normal")
    assert [x.shape for x in predicted.interval(X[:0])] == [(0, 2), (0, 2)]
