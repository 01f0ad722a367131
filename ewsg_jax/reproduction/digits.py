"""MNIST for networks: rows of digits, and what is the same of steps at another number of rows.

The papers' steps go with 60,000 rows. Where there are n, a step of underdamped methods is made √(60,000/n) times
as long and one of Langevin methods 60,000/n times: h² n and h n, which multiply the gradient of the mean, stay.
pSGLD's step is read as of gradients of the sum, as in `decreasing`, which asks for no change; of those of the
mean its first move would be six prior standard deviations long.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from ewsg_jax import datasets
from ewsg_jax._types import Array, Data
from ewsg_jax.experiments.config import Method
from ewsg_jax.experiments.tables import ConfigError, at_least
from ewsg_jax.preparation import cluster
from ewsg_jax.reproduction import metrics
from ewsg_jax.reproduction.judging import scores
from ewsg_jax.reproduction.networks import Convolutional, LogProbabilities, Network, Perceptron, classes, start_of
from ewsg_jax.reproduction.problem import Budget, Problem
from ewsg_jax.sampling import Samples

NUM_TRAINING, SIDE, CLUSTERS = 60_000, 28, 10
"""Rows of MNIST's training set, of which the first are; pixels; k of k-means for CP-SGHMC."""
LANGEVIN = ("sgld",)
UNTRAINED = 0.5
"""An error from which on a network has learned next to nothing, and is better than none."""


@dataclass(frozen=True, kw_only=True)
class DigitSettings:
    """Rows to train on, to choose by and to judge by; hidden layers; how long; factors of the step; which rows."""

    num_rows: int
    num_validation: int
    num_test: int
    hidden: tuple[int, ...]
    data_passes: float
    num_repeats: int
    ensemble: int
    factors: tuple[float, ...]
    seed: int = 0

    def __post_init__(self) -> None:
        at_least("full", self, num_rows=10, num_validation=1, num_test=1, num_repeats=1, ensemble=1)
        if 1.0 not in self.factors:
            raise ConfigError(f"full.factors must hold 1, the paper's step; got {list(self.factors)}")

    @property
    def budget(self) -> Budget:
        """How long all run, with 20 draws along the way."""
        return Budget(self.data_passes, self.num_repeats, self.ensemble)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows to train on, to choose by and to judge by."""
        return self.num_rows, self.num_validation, self.num_test


def network_of(hidden: tuple[int, ...], channels: tuple[int, ...], shrink: int) -> Network:
    """Return a network of digits: dense where there are no channels; `shrink` pixels of a side are made one."""
    side = SIDE // shrink
    if channels:
        return Convolutional(side, (channels[0], channels[1]), (*hidden, 10))
    return Perceptron((side * side, *hidden, 10))


def problems(
    network: Network, sizes: tuple[int, int, int], shrink: int, seed: int, clusters: bool = False
) -> tuple[Problem, Data, Data]:
    """Return a problem whose rows to judge by are of the test set, and rows of validation and of training.

    Args:
        network: of `network_of`.
        sizes: rows to train on, to choose by and to judge by; the second are others of the training set.
        shrink: pixels of a side that are made one.
        seed: of which rows.
        clusters: whether each row has the number of its cluster, `"stratum"`.
    """
    digits, rng = datasets.mnist(), np.random.default_rng(seed)
    of_training = rng.permutation(NUM_TRAINING)
    cuts = of_training[: sizes[0]], of_training[sizes[0] : sizes[0] + sizes[1]]
    tests = NUM_TRAINING + rng.permutation(len(digits.y) - NUM_TRAINING)[: sizes[2]]

    def rows(chosen: np.ndarray) -> dict[str, Array]:
        side = SIDE // shrink
        pixels = digits.x[chosen].reshape(-1, side, shrink, side, shrink).mean((2, 4)).reshape(len(chosen), -1)
        return {"x": jnp.asarray(pixels / 255, jnp.float32), "y": jnp.asarray(digits.y[chosen], jnp.int32)}

    train = rows(cuts[0])
    if clusters:
        train["stratum"] = cluster(train, CLUSTERS, features="x", seed=seed)
    error = {"error": metrics.error_rate(LogProbabilities(network))}
    return Problem(classes(network), train, rows(tests), start_of(network), error), rows(cuts[1]), train


def step_of(method: Method, num_rows: int) -> float:
    """Return a method's printed step for so many rows, as the library takes it."""
    step = float(method.options["step_size"])
    if method.name == "psgld":
        return step / num_rows
    share = NUM_TRAINING / num_rows
    return step * (share if method.name in LANGEVIN else share**0.5)


def for_rows(problem: Problem, rows: Data) -> Problem:
    """Return the problem, judged by these rows."""
    return replace(problem, test={name: rows[name] for name in ("x", "y")})


def best_of(runs: Sequence[Samples], problem: Problem, rows: Data, budget: Budget) -> int:
    """Return which of several runs errs least on rows to choose by, as a mean over repeats; never a lost one."""
    judged = for_rows(problem, rows)
    lasts = [scores(samples, judged, budget)["error"][:, -1].mean() for samples in runs]
    return int(np.argmin([x if np.isfinite(x) else np.inf for x in lasts]))


def options_of(method: Method, **more: Any) -> dict[str, Any]:
    """Return the options of a method's kernel beside its step; strata are those of the rows."""
    strata = {"labels": "stratum", "num_strata": CLUSTERS} if method.name == "cp_sghmc" else {}
    return {**method.options, **strata, **more}
