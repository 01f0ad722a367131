"""Stationary laws of chains on the line whose steps are Gaussian, on a grid; NumPy float64, nothing
of ewsg_jax.

Densities and moments are sums over an even grid, of which the error falls faster than any power of
its spacing for smooth integrands that vanish at its ends.
"""

import numpy as np
from scipy.sparse import linalg


def normal(grid, mean, scale):
    """Density of N(mean, scale²) at the grid, which becomes a last axis."""
    z = (grid - mean[..., None]) / scale[..., None]
    return np.exp(-0.5 * z**2) / (np.sqrt(2 * np.pi) * scale[..., None])


def stationary(grid, mean, scale):
    """Return the density of x' ~ N(mean(x), scale(x)²), mean and scale on the grid, (N,)."""
    spacing = grid[1] - grid[0]
    transition = normal(grid, mean, scale) * spacing
    equations = np.vstack([transition.T - np.eye(len(grid)), np.full(len(grid), spacing)])
    return np.linalg.lstsq(equations, np.append(np.zeros(len(grid)), 1.0), rcond=None)[0]


def stationary_of_pairs(grid, mean, scale):
    """Return x's density in (w, x) → (x, y), y ~ N(mean(w, x), scale(w, x)²), given (N, N)."""
    spacing, size = grid[1] - grid[0], len(grid)
    transition = normal(grid, mean, scale) * spacing

    def step(law):
        return np.einsum("wx,wxy->xy", law.reshape(size, size), transition).ravel()

    operator = linalg.LinearOperator((size**2, size**2), matvec=step, dtype=float)
    start = np.outer(*(2 * [np.exp(-0.5 * (grid - grid.mean()) ** 2)])).ravel()
    _, vectors = linalg.eigs(operator, k=1, which="LR", v0=start, tol=1e-12)
    law = np.real(vectors[:, 0]).reshape(size, size)
    density = law.sum(0)
    return density / (density.sum() * spacing)


def tilted(grid, potential, temperature=1.0, factor=1.0):
    """Return the density proportional to factor · exp(−V/T), both given at the grid."""
    density = factor * np.exp(-(potential - potential.min()) / temperature)
    return density / (density.sum() * (grid[1] - grid[0]))


def mean_and_variance(grid, density):
    """Return the first two moments as an array (2,)."""
    spacing = grid[1] - grid[0]
    np.testing.assert_allclose(density.sum() * spacing, 1, atol=1e-9)
    assert abs(density[[0, -1]]).max() < 1e-6 * density.max(), "the grid is too small"
    mean = density @ grid * spacing
    return np.array([mean, density @ (grid - mean) ** 2 * spacing])
