"""Hierarchies whose groups are independent given a few hyperparameters: one local number of each
group on a grid, its integral, and exact draws of it.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from benchmarks.hierarchies.linear import in_parts
from benchmarks.hierarchies.model import Draws
from benchmarks.hierarchies.scales import Grid, Hyper, draw_hypers, log_prior, on_grid

AT_ONCE = 100
"""Draws whose groups are on their grids together."""


@dataclass(frozen=True)
class Local:
    """A hierarchy of independent groups.

    Attributes:
        hypers: the hyperparameters with their priors and ranges.
        points: the grid of the local number t, equally spaced, shape (m,).
        every: integrals take every so many of them: sums over equally spaced points of a smooth
            density that falls to 0 are exact to many digits at steps of half its sd.
        log_density: of t and the group's rows, from hyperparameters of shape (count,) and points:
            shape (count, groups, m).
    """

    hypers: Mapping[str, Hyper]
    points: np.ndarray
    every: int
    log_density: Callable[[Mapping[str, np.ndarray], np.ndarray], np.ndarray]

    def log_marginal(self, h: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the log density of hyperparameters, shape (count,), groups integrated out."""
        points = self.points[:: self.every]
        parts = [
            np.asarray(logsumexp(self.log_density(part, points), axis=2)).sum(1)
            for part in in_parts(h, AT_ONCE)
        ]
        return np.concatenate(parts) + log_prior(self.hypers, h)

    @functools.cached_property
    def grid(self) -> Grid:
        """The marginal of the hyperparameters."""
        return on_grid(self.hypers, self.log_marginal)

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Draws, np.ndarray]:
        """Return exact draws of hyperparameters, and of t given them, shape (count, groups)."""
        h = draw_hypers(rng, count, self.grid, self.log_marginal)
        return h, self.draw_local(rng, h)

    def draw_local(self, rng: np.random.Generator, h: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return draws of t given hyperparameters, shape (count, groups)."""
        return np.concatenate(
            [
                on_points(rng, self.points, self.log_density(part, self.points))
                for part in in_parts(h, AT_ONCE)
            ]
        )


def on_points(rng: np.random.Generator, points: np.ndarray, log_density: np.ndarray) -> np.ndarray:
    """Return a draw from each density on equally spaced points, the last axis: a point by its mass,
    and a uniform number of its cell.
    """
    mass = np.exp(log_density - log_density.max(-1, keepdims=True))
    total = np.cumsum(mass, axis=-1)
    level = rng.random(total.shape[:-1])[..., None] * total[..., -1:]
    at = np.minimum((total < level).sum(-1), len(points) - 1)
    return points[at] + (points[1] - points[0]) * (rng.random(at.shape) - 0.5)
