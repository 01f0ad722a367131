"""Pareto-smoothed importance sampling for `answers.py`: of the mode's normal law, and of
Pathfinder's.
"""

import jax
import jax.numpy as jnp
import numpy as np
from arviz_stats.base import array_stats  # pyright: ignore[reportPrivateImportUsage]

from benchmarks.answers.by_importance import log_likelihoods, weighted_moments
from benchmarks.answers.case import Data, Regression
from benchmarks.answers.ours import Answer, Clock, mode_of
from benchmarks.answers.peers import library

NUM_DRAWS = 4_000
ITERATIONS, ELBO_DRAWS = 60, 25
"""Of Pathfinder. It holds the rows' likelihoods of all of these at once; 200 draws, its default,
are too many.
"""
LONG_MEMORY = {"maxcor": 20, "ftol": 1e-8}
"""Of its search: with its own 10 steps and 1e-5 it was further off on letter."""


def _weighted(
    case: Regression, data: Data, draws: np.ndarray, log_drawn: np.ndarray
) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the moments by smoothed weights, of the full likelihood at all draws, and what is said
    of them.
    """
    likelihoods = log_likelihoods(
        draws, np.asarray(data["x"]), np.asarray(data["y"]), is_linear=case.is_linear
    )
    log_weight = likelihoods - 0.5 * (draws**2).sum(1) - log_drawn
    # It takes what is to be left out, as leave-one-out has it: the negative of the log weights.
    smoothed, shape = array_stats.psislw(log_weight.max() - log_weight)
    share = np.exp(smoothed - smoothed.max())
    share /= share.sum()
    says = f"k-hat {float(shape):.2f}, ESS {1 / (share**2).sum():.0f} of {len(draws)} draws"
    return *weighted_moments(draws, share), says


def at_mode(case: Regression, data: Data, limit: float) -> dict[str, Answer]:
    """The normal approximation at the mode, its draws weighted."""
    clock = Clock()
    mode = mode_of(case, data)
    clock.tick("mode")
    normal = np.random.default_rng(0).standard_normal((NUM_DRAWS, data["x"].shape[1]))
    root = np.linalg.cholesky(np.asarray(mode.covariance, np.float64))
    draws = np.asarray(mode.position, np.float64) + normal @ root.T
    mean, sd, says = _weighted(case, data, draws, -0.5 * (normal**2).sum(1))
    clock.tick("weights")
    return {"laplace, PSIS": Answer(mean, sd, mode.data_passes + NUM_DRAWS, clock.parts, says)}


def pathfinder(case: Regression, data: Data, limit: float) -> dict[str, Answer]:
    """BlackJAX's Pathfinder from zero, its draws weighted."""
    paths = library("blackjax.vi.pathfinder")
    clock = Clock()

    @jax.jit
    def find(
        key: jax.Array, start: jax.Array, data: Data
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        for_path, for_draws = jax.random.split(key)
        best, info = paths.approximate(
            for_path,
            lambda x: case.log_density(x, data),
            start,
            ELBO_DRAWS,
            maxiter=ITERATIONS,
            **LONG_MEMORY,
        )
        draws, log_drawn = paths.sample(for_draws, best, NUM_DRAWS)
        return draws, log_drawn, jnp.isfinite(info.path.elbo).sum()

    found = find(jax.random.key(1), jnp.zeros(data["x"].shape[1]), data)
    draws, log_drawn, steps = (np.asarray(x, np.float64) for x in found)
    clock.tick("path")
    mean, sd, says = _weighted(case, data, draws, log_drawn)
    clock.tick("weights")
    passes = float(steps) + (ITERATIONS + 1) * ELBO_DRAWS + NUM_DRAWS
    says += f"; {steps:.0f} steps of the path, its line searches not counted"
    return {"BlackJAX Pathfinder, PSIS": Answer(mean, sd, passes, clock.parts, says)}
