"""The data of Li et al.'s networks: 70 % of the rows to train on, 10 % to choose by and 20 % to judge by.

Where SUSY or YearPredictionMSD are not at hand, rows of like shape stand in for them: correlated features, and a
response that a random network of ten hidden units gives, with noise, or a class by its sign.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ewsg_jax import datasets
from ewsg_jax._types import Data
from ewsg_jax.reproduction import metrics
from ewsg_jax.reproduction.networks import Network, Outputs, Perceptron, classes, numbers, start_of
from ewsg_jax.reproduction.problem import Problem

REGRESSION, CLASSIFICATION = ("protein", "music"), ("letter", "susy")
SOURCES = {"protein": "protein", "music": "year_prediction_msd", "letter": "letter", "susy": "susy"}
FEATURES = {"music": 90, "susy": 18}
SCORE = "score"


def posed(name: str, num_rows: int, noise_scale: float, seed: int = 0) -> tuple[Problem, Data, str]:
    """Return a data set's problem, rows to choose by, and where the rows are from.

    Args:
        name: of `SOURCES`.
        num_rows: of all three parts together; all where there are fewer.
        noise_scale: of y around the network's output, in standard deviations of y.
        seed: of which rows are where.
    """
    x, y, source = arrays(name, num_rows, seed)
    cuts = round(0.7 * len(x)), round(0.8 * len(x))
    x = (x - x[: cuts[0]].mean(0)) / np.maximum(x[: cuts[0]].std(0), 1e-6)
    is_regression = name in REGRESSION
    if is_regression:
        y = (y - y[: cuts[0]].mean()) / y[: cuts[0]].std()
    kind: Any = jnp.float32 if is_regression else jnp.int32
    train, choose, test = (
        {"x": jnp.asarray(part, jnp.float32), "y": jnp.asarray(of, kind)}
        for part, of in zip(np.split(x, cuts), np.split(y, cuts), strict=True)
    )
    network = network_of(name, x.shape[1])
    posterior = numbers(network, noise_scale) if is_regression else classes(network)
    judged = metrics.rmse(Outputs(network)) if is_regression else metrics.log_likelihood(posterior)
    return Problem(posterior, train, test, start_of(network), {SCORE: judged}), choose, source


def network_of(name: str, num_features: int) -> Network:
    """Return one hidden layer of 50 units, of 100 for SUSY; two classes have an output each."""
    outputs = {"letter": 26, "susy": 2}.get(name, 1)
    return Perceptron((num_features, 100 if name == "susy" else 50, outputs))


def arrays(name: str, num_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray, str]:
    """Return so many features and responses in random order, and where they are from."""
    rng = np.random.default_rng(seed)
    try:
        data = datasets.load(SOURCES[name])
    except FileNotFoundError:
        if name not in FEATURES:
            raise
        return *stand_in(name, num_rows, rng), f"rows that stand in for {name}"
    chosen = rng.permutation(len(data.y))[:num_rows]
    return np.asarray(data.x[chosen], float), np.asarray(data.y[chosen], float), data.source


def stand_in(name: str, num_rows: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of the shape of a data set that is not at hand."""
    d = FEATURES[name]
    x = rng.standard_normal((num_rows, d)) @ (rng.standard_normal((d, d)) / d**0.5 + np.eye(d))
    hidden = np.maximum(x @ rng.standard_normal((d, 10)) / d**0.5, 0)
    y = hidden @ rng.standard_normal(10) + rng.standard_normal(num_rows)
    return x, y if name in REGRESSION else (y > np.median(y)).astype(float)
