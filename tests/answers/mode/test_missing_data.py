"""Data with holes that the likelihood masks, with `check_data=False`: the closed form."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.densities import normal

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
N, D, K = 300, 2, 3
X = RNG.normal(size=(N, D)).astype(np.float32)
Y = (X @ RNG.normal(size=(D, K)) + RNG.normal(size=(N, K))).astype(np.float32)
Y[RNG.random((N, K)) < [0.1, 0.5, 0.9]] = np.nan
HOLES = {"x": X, "y": Y}
START = jnp.zeros((D, K))


def known_rows(k):
    """The rows in which an outcome is known."""
    return X[~np.isnan(Y[:, k])].astype(float)


def regression(k):
    """Mean and sds of an outcome's coefficients by its own rows."""
    x, y = known_rows(k), Y[~np.isnan(Y[:, k]), k]
    covariance = np.linalg.inv(x.T @ x + np.eye(D))
    return covariance @ x.T @ y, np.sqrt(np.diag(covariance))


MEAN, SD = (np.stack(parts, axis=1) for parts in zip(*map(regression, range(K)), strict=True))


def masked(w, row):
    known = ~jnp.isnan(row["y"])
    return jnp.sum(
        jnp.where(known, -0.5 * (jnp.where(known, row["y"], 0.0) - row["x"] @ w) ** 2, 0.0)
    )


MODEL = ewsg.Posterior(masked, normal)
UNMASKED = ewsg.Posterior(lambda w, row: jnp.sum(-0.5 * (row["y"] - row["x"] @ w) ** 2), normal)
UNSAFE = ewsg.Posterior(lambda w, row: jnp.nansum(-0.5 * (row["y"] - row["x"] @ w) ** 2), normal)


def test_a_mode_and_a_forecast():
    mode = ewsg.find_mode(KEY, MODEL, START, HOLES, check_data=False)
    np.testing.assert_allclose((mode.position - MEAN) / SD, 0, atol=0.01)
    np.testing.assert_allclose(mode.sd / SD, 1, rtol=1e-5)
    # Of Langevin steps with all rows: 1/(1 − h λ/2) in each direction.
    kernel = ewsg.ld(MODEL, 1e-3, inverse_mass=1.0)
    told = ewsg.forecast(kernel, mode, HOLES, check_data=False)
    widest = max(np.linalg.eigvalsh(x.T @ x + np.eye(D)).max() for x in map(known_rows, range(K)))
    largest = 1 / (1 - 1e-3 * widest / 2)
    assert told.direction_ratios[1] == pytest.approx(largest, rel=1e-4)


@pytest.mark.full
def test_a_plan():
    plan = ewsg.plan(KEY, MODEL, START, HOLES, check_data=False)
    assert plan.is_trusted
    np.testing.assert_allclose((plan.gaussian.mean - MEAN) / SD, 0, atol=0.02)
    np.testing.assert_allclose(plan.gaussian.sd / SD, 1, rtol=0.01)


def test_holes_that_are_not_masked_are_named():
    takes = "position must be a start at which the potential and its derivatives are finite"
    with pytest.raises(
        ValueError, match=f"{takes}.*log_likelihood is NaN for .* of 300 rows .*does not mask"
    ):
        ewsg.find_mode(KEY, UNMASKED, START, HOLES, check_data=False)
    # nansum masks the value and not its gradient.
    with pytest.raises(
        ValueError, match=f"{takes}.*6 of 6 derivatives of log_likelihood .*jnp.where"
    ):
        ewsg.plan(KEY, UNSAFE, START, HOLES, check_data=False)


def test_clusters_by_what_is_known():
    """Three groups far apart, and a hole in each third row: by the features that it has."""
    centers = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    group = np.arange(90) % 3
    x = centers[group] + RNG.normal(size=(90, 2))
    x[::9, 1] = np.nan
    x[1, 0] = np.inf
    labels = np.asarray(ewsg.cluster({"x": x}, 3, check_data=False))
    whole = np.isfinite(x).all(1)
    assert len({(a, b) for a, b in zip(labels[whole], group[whole], strict=True)}) == 3
    # A column of which nothing is known says nothing.
    empty = np.column_stack([x[:, 0], np.full(90, np.nan)])
    empty[1, 0] = 20.0
    assert len(set(np.asarray(ewsg.cluster({"x": empty}, 2, check_data=False))[group == 1])) == 1
