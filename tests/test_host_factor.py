"""A covariance's factor on the host: C = L Lᵀ, dense and of low rank, and its draws."""

import jax
import numpy as np
import pytest

from ewsg_jax.base.factors import HostFactor, LowRank, variances

RNG = np.random.default_rng(0)
SIZE = 5
ROOT = RNG.normal(size=(SIZE, SIZE))
LOW = LowRank(
    RNG.uniform(0.5, 2, SIZE), np.linalg.qr(RNG.normal(size=(SIZE, 2)))[0], np.array([9.0, 0.1])
)


def whole(covariance):
    """The matrix (d, d)."""
    if not isinstance(covariance, LowRank):
        return covariance
    diagonal, basis, values = covariance
    inner = np.eye(SIZE) + (basis * (values - 1)) @ basis.T
    return np.sqrt(diagonal)[:, None] * inner * np.sqrt(diagonal)


@pytest.mark.parametrize(
    "covariance", [ROOT @ ROOT.T + np.eye(SIZE), LOW], ids=["dense", "low rank"]
)
def test_its_square_is_the_covariance(covariance):
    """L Lᵀ = C, Lᵀ transposes L, L⁻¹ L = 1; draws have the covariance in five errors."""
    factor, unit, matrix = HostFactor(covariance), np.eye(SIZE), whole(covariance)
    root = factor.times(unit).T
    np.testing.assert_allclose(root @ root.T, matrix, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(factor.transposed(unit).T, root.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(factor.solved(factor.times(unit)), unit, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(variances(covariance), np.diag(matrix), rtol=1e-12)
    draws = factor.draws(jax.random.key(0), 40_000)
    np.testing.assert_allclose(
        np.cov(draws.T), matrix, atol=5 * np.diag(matrix).max() * (2 / 40_000) ** 0.5
    )
    assert draws.dtype == np.float32
    np.testing.assert_array_equal(draws, factor.draws(jax.random.key(0), 40_000))
