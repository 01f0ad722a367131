"""Draws of a density on a grid, and z-tests against its moments."""

import numpy as np

from tests.oracles import flymc

POINTS = 71
"""Along each axis, over 14 sds: a uniform place in a cell adds 0.3 % of a variance."""
Z = 5.6
"""Two-sided 2e-8, for several tests of one run."""


def law_of(log_density, dimension):
    """Return `(points, weights, cells, mean, covariance)` of a density by quadrature."""
    axes = [np.linspace(-8, 8, 41)] * dimension
    for _ in range(2):
        mean, covariance = flymc.moments(*flymc.on_grid(axes, log_density))
        scale = np.sqrt(np.diag(covariance))
        axes = [np.linspace(m - 7 * s, m + 7 * s, POINTS) for m, s in zip(mean, scale, strict=True)]
    points, weights = flymc.on_grid(axes, log_density)
    cells = np.array([axis[1] - axis[0] for axis in axes])
    return points, weights, cells, *flymc.moments(points, weights)


def draws_and_moments(log_density, dimension, num_chains, seed):
    """Return independent draws (chain, d) and the mean and the covariance."""
    points, weights, cells, mean, covariance = law_of(log_density, dimension)
    rng = np.random.default_rng(seed)
    chosen = points[rng.choice(len(points), size=num_chains, p=weights)]
    return chosen + cells * rng.uniform(-0.5, 0.5, size=chosen.shape), mean, covariance


def assert_moments(draws, mean, covariance):
    """z-tests of the mean and of every second moment around it of independent draws (chain, d)."""
    centred = np.asarray(draws, float) - mean
    z = centred.mean(axis=0) / np.sqrt(np.diag(covariance) / len(centred))
    assert np.abs(z).max() < Z, f"mean {centred.mean(axis=0) + mean}, expected {mean}, z = {z}"
    products = centred[:, :, None] * centred[:, None, :]
    z = (products.mean(axis=0) - covariance) / (products.std(axis=0) / np.sqrt(len(centred)))
    assert np.abs(z).max() < Z, (
        f"covariance {products.mean(axis=0)}, expected {covariance}, z = {z}"
    )
