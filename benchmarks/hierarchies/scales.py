"""Hyperparameters: their priors, grids of their marginal density, and exact draws from it."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from benchmarks.hierarchies.model import Draws

NEGLIGIBLE = 1e-9
"""Cells of a grid with less mass than this are not drawn from."""
LEAST_LOG = -25.0
"""Logarithms of densities this far below the largest are cut before the range is chosen."""


class Hyper(NamedTuple):
    """A hyperparameter, most often the logarithm of a scale.

    Attributes:
        prior: of the scale itself, half normal or half Cauchy, or normal of the number.
        width: of that prior.
        lower, upper: the range of its grid.
        num_points: of its grid.
    """

    prior: Literal["half_normal", "half_cauchy", "normal"]
    width: float
    lower: float
    upper: float
    num_points: int = 40


def log_prior(hypers: Mapping[str, Hyper], h: Mapping[str, Any], xp: Any = np) -> Any:
    """Return the log prior of hyperparameters up to a constant, with Jacobians."""
    total: Any = 0.0
    for name, hyper in hypers.items():
        x = h[name]
        if hyper.prior == "normal":
            total = total - 0.5 * (x / hyper.width) ** 2
        elif hyper.prior == "half_normal":
            total = total - 0.5 * (xp.exp(x) / hyper.width) ** 2 + x
        else:
            total = total - xp.log1p((xp.exp(x) / hyper.width) ** 2) + x
    return total


def prior_of(hypers: Mapping[str, Hyper]) -> Callable[[Mapping[str, Any]], Any]:
    """Return the same for a model in JAX."""
    return lambda p: log_prior(hypers, p, jnp)


class Grid(NamedTuple):
    """The marginal density of hyperparameters on a grid.

    Attributes:
        points: by name, shape (cells,).
        steps: of each name.
        log_density: at the points.
    """

    points: dict[str, np.ndarray]
    steps: dict[str, float]
    log_density: np.ndarray

    @property
    def mass(self) -> np.ndarray:
        """The probability of each cell."""
        p = np.exp(self.log_density - self.log_density.max())
        return p / p.sum()

    def moments(
        self, name: str, function: Callable[[Any], Any] = lambda x: x
    ) -> tuple[float, float]:
        """Return mean and sd of a function of one hyperparameter."""
        values, p = function(self.points[name]), self.mass
        mean = float(p @ values)
        return mean, float(np.sqrt(p @ (values - mean) ** 2))


def _grid(
    axes: Mapping[str, np.ndarray], log_density: Callable[[Mapping[str, np.ndarray]], np.ndarray]
) -> Grid:
    flat = np.array(list(itertools.product(*axes.values()))).T
    points = dict(zip(axes, flat, strict=True))
    steps = {name: float(axis[1] - axis[0]) for name, axis in axes.items()}
    return Grid(points, steps, log_density(points))


def on_grid(
    hypers: Mapping[str, Hyper],
    log_density: Callable[[Mapping[str, np.ndarray]], np.ndarray],
    finer: float = 1.0,
) -> Grid:
    """Return the density on a grid: a coarse one finds the range, and another is laid there."""
    coarse = _grid(
        {name: np.linspace(x.lower, x.upper, 25) for name, x in hypers.items()}, log_density
    )
    axes = {}
    is_near = coarse.log_density > coarse.log_density.max() + LEAST_LOG
    for name, hyper in hypers.items():
        near, step = coarse.points[name][is_near], coarse.steps[name]
        lower, upper = max(hyper.lower, near.min() - step), min(hyper.upper, near.max() + step)
        axes[name] = np.linspace(lower, upper, round(hyper.num_points * finer))
    return _grid(axes, log_density)


def draw_hypers(
    rng: np.random.Generator,
    count: int,
    grid: Grid,
    log_density: Callable[[Mapping[str, np.ndarray]], np.ndarray],
) -> Draws:
    """Return exact draws of hyperparameters: a cell by its mass, a point of it, and rejection by
    the ratio of the density there and at the centre of the cell.
    """
    mass = np.where(grid.mass > NEGLIGIBLE, grid.mass, 0.0)
    names, kept, bound, have = list(grid.points), [], 0.0, 0
    while have < count:
        cells = rng.choice(len(mass), size=max(1_000, 2 * (count - have)), p=mass / mass.sum())
        at = {
            name: grid.points[name][cells] + grid.steps[name] * (rng.random(len(cells)) - 0.5)
            for name in names
        }
        ratio = log_density(at) - grid.log_density[cells]
        bound = max(bound, float(ratio.max()))
        is_kept = np.log(rng.random(len(cells))) < ratio - bound
        kept.append({name: x[is_kept] for name, x in at.items()})
        have += int(is_kept.sum())
    return {name: np.concatenate([part[name] for part in kept])[:count] for name in names}
