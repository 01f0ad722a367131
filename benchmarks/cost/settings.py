"""What every side of a timing is told: sizes, steps and data, in NumPy alone, for interpreters
without JAX too.
"""

from typing import Any, NamedTuple

import numpy as np

PyTree = Any

PRIOR_VARIANCE = 10.0
STEP_SIZE = {"sgld": 1e-7, "sghmc": 1e-4}
FRICTION = 10.0
LOGISTIC_ROWS, LOGISTIC_COLUMNS, LOGISTIC_BATCH = 464_809, 54, 50
NETWORK_ROWS, NETWORK_SIZES, NETWORK_BATCH = 60_000, (784, 100, 10), 100
"""Rows; inputs, hidden units and classes; rows of a batch."""


class Case(NamedTuple):
    """One program to time.

    Attributes:
        workload: a name of `WORKLOADS`.
        method: `"sgld"` or `"sghmc"`, underdamped with one new minibatch a step.
        num_chains: chains side by side, each with its own minibatches.
        num_steps: steps of a timed run.
        keep_all: whether every position is kept, or the last only.
    """

    workload: str
    method: str
    num_chains: int
    num_steps: int
    keep_all: bool


def logistic_data(num_data: int, dimension: int) -> dict[str, np.ndarray]:
    """Return inputs of normals and labels of coins, from a fixed seed."""
    generator, x = _gaussian(num_data, dimension)
    return {"x": x, "y": (generator.random(num_data) < 0.5).astype(np.float32)}


def network_data(num_data: int, inputs: int, classes: int) -> dict[str, np.ndarray]:
    """Return inputs of normals and random classes, from a fixed seed."""
    generator, x = _gaussian(num_data, inputs)
    return {"x": x, "y": generator.integers(0, classes, num_data).astype(np.int32)}


def network_position(inputs: int, hidden: int, classes: int) -> PyTree:
    """Return the weights from which the network's chains start."""
    generator = np.random.default_rng(1)

    def layer(rows: int, columns: int) -> dict[str, np.ndarray]:
        weights = generator.standard_normal((rows, columns), np.float32) / np.float32(rows) ** 0.5
        return {"weights": weights.astype(np.float32), "bias": np.zeros(columns, np.float32)}

    return {"hidden": layer(inputs, hidden), "output": layer(hidden, classes)}


def _gaussian(num_data: int, dimension: int) -> tuple[np.random.Generator, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator, generator.standard_normal((num_data, dimension), np.float32)
