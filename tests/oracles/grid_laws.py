"""Stationary laws of one-dimensional chains that are not linear, on grids: NumPy in float64,
nothing of ewsg_jax.

A step adds Gaussian noise to one of finitely many places, chosen with probabilities that depend on
the state. On a grid that is fine beside the noise the density after a step is a sum, which
converges faster than any power of the spacing where the probabilities are smooth. (Those of
exponential weights with M = 1 have kinks in their second derivative: errors of the third order in
the spacing.)
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def _density(x: Vector, mean: Vector, variance: Vector) -> Vector:
    return np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def overdamped(
    place: Callable[[float], tuple[Vector, Vector]],
    variance: Callable[[float], float],
    grid: Vector,
) -> tuple[float, float]:
    """Return mean and variance of θ, θ' ~ Σ pᵢ N(mᵢ, variance), (m, p) = place(θ)."""
    step = grid[1] - grid[0]
    matrix = np.empty((len(grid), len(grid)))
    for column, theta in enumerate(grid):
        means, probabilities = place(theta)
        matrix[:, column] = (
            _density(grid[:, None], means, np.float64(variance(theta))) @ probabilities * step
        )
    # (P − 1) f = 0 with one of its equations replaced by Σ f = 1.
    equations = matrix - np.eye(len(grid))
    equations[len(grid) // 2] = 1.0
    right = np.zeros(len(grid))
    right[len(grid) // 2] = 1.0
    density = np.linalg.solve(equations, right)
    mean = density @ grid
    return float(mean), float(density @ (grid - mean) ** 2)


def semi_implicit(
    kick: Callable[[float, float], tuple[Vector, Vector]],
    h: float,
    sigma: float,
    grid: Vector,
    steps: int,
) -> tuple[float, float, float]:
    """Return the mean and variance of θ and E p², p' ~ Σ pᵢ N(mᵢ, σ²h) with (m, p) = kick(θ, p); θ'
    = θ + h p'.

    In the pair (θ', θ), from which p' follows, the noise is that of one coordinate: `steps` of its
    density.
    """
    spacing, size = grid[1] - grid[0], len(grid)
    tensor = np.zeros((size, size, size))  # θ', θ, θ before
    for i, theta in enumerate(grid):
        for j, before in enumerate(grid):
            means, probabilities = kick(theta, (theta - before) / h)
            places = _density(grid[:, None], theta + h * means, np.float64(h**3 * sigma**2))
            tensor[:, i, j] = places @ probabilities * spacing
    density = _density(grid[:, None], 0.0, np.float64(1.0)) * _density(
        grid[None, :], 0.0, np.float64(1.0)
    )
    for _ in range(steps):
        density = np.einsum("kij,ij->ki", tensor, density)
        density = density / density.sum()
    marginal = density.sum(1)
    mean = marginal @ grid
    momentum = (grid[:, None] - grid[None, :]) / h
    return float(mean), float(marginal @ (grid - mean) ** 2), float(np.sum(density * momentum**2))


def semi_implicit_with_anchor(
    kick: Callable[[float, float, float], tuple[Vector, Vector]],
    h: float,
    sigma: float,
    grid: Vector,
    period: int,
    cycles: int,
) -> tuple[float, float, float, float]:
    """As `semi_implicit`, with kick(θ, p, ω), ω the θ before the last step numbered by a multiple
    of a period.

    Mean and variance of θ are those over the steps of a cycle, E p² likewise; the fourth is the
    mass that left the grid in the last cycle.
    """
    spacing, size = grid[1] - grid[0], len(grid)
    theta, before, anchor = np.meshgrid(grid, grid, grid, indexing="ij")
    means, probabilities = kick(
        theta, (theta - before) / h, anchor
    )  # with a leading axis, the batches
    tensor = np.zeros((size, size, size, size))  # θ', θ, θ before, ω
    for mean, probability in zip(means, probabilities, strict=True):
        tensor += probability * _density(
            grid[:, None, None, None], theta + h * mean, np.float64(h**3 * sigma**2)
        )
    tensor *= spacing
    density = _density(grid[:, None], 0.0, np.float64(1.0)) * _density(
        grid[None, :], 0.0, np.float64(1.0)
    )
    momentum = (grid[:, None] - grid[None, :]) / h
    for _ in range(cycles):
        # θ, θ before, ω: the anchor is θ.
        joint = density[:, :, None] * np.eye(size)[:, None, :] / density.sum()
        average = np.zeros((size, size))
        for _ in range(period):
            joint = np.einsum("kija,ija->kia", tensor, joint, optimize=True)
            average += joint.sum(2) / period
        density = joint.sum(2)
    average = average / average.sum()
    marginal = average.sum(1)
    mean = marginal @ grid
    variance = marginal @ (grid - mean) ** 2
    return (
        float(mean),
        float(variance),
        float(np.sum(average * momentum**2)),
        float(1 - density.sum()),
    )
