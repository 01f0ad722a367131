"""The experiment of rare rows: its reference against quadrature, and what its page says of its numbers."""

import numpy as np
import pytest

from benchmarks import by_importance

SEPARATED = 1


def small():
    """40 rows; three of them, all of class 1, have the second column."""
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.normal(size=40), np.where(np.arange(40) < 3, 3.0, -0.25), np.ones(40)])
    y = (rng.random(40) < 1 / (1 + np.exp(-x[:, 0]))).astype(float)
    y[:3] = 1.0
    return x, y


def on_a_grid(x, y):
    """Means and standard deviations of three weights, summed over a grid."""
    axes = [np.linspace(-5.5, 5.5, 61)] * 3
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 3)
    logits = points @ x.T
    log = (y * logits - np.logaddexp(0, logits)).sum(1) - 0.5 * (points**2).sum(1)
    p = np.exp(log - log.max())
    p /= p.sum()
    mean = p @ points
    return mean, np.sqrt(p @ (points - mean) ** 2)


def test_importance_sampling_is_the_posterior():
    """Few rows, so that the wall lies in the bulk and the other weights are skewed: within 4 standard errors."""
    x, y = small()
    mean, sd = on_a_grid(x, y)
    found = by_importance.reference(x, y, 20_000)
    assert found.separated == [SEPARATED]
    assert found.ess > 5_000
    error = 4 / np.sqrt(found.ess)
    assert np.abs(found.mean - mean).max() < error * sd.max()
    np.testing.assert_allclose(found.sd, sd, rtol=error)
    assert max(found.halves) < 2 * error


@pytest.mark.parametrize("change", ["a row of the other class", "three values", "the common value"])
def test_columns_that_are_not_separated(change):
    x, y = small()
    if change == "a row of the other class":
        y[0] = 0.0
    elif change == "three values":
        x[4, SEPARATED] = 1.0
    else:
        x[:, SEPARATED] *= -1  # the larger value is that of 37 rows
    assert by_importance.separated_columns(x, y) == []
