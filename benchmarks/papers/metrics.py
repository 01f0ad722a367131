"""What predictions for held-out rows are judged by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from benchmarks.papers.annotations import Array, Data, Position
from ewsg_jax import Posterior

Predict = Callable[[Position, Data], Array]
"""`predict(position, rows)`: for each row a number or some, leading axis of rows."""


@dataclass(frozen=True)
class Metric:
    """A score of the mean prediction over draws. Equal metrics share compiled programs: make them
    once.

    Attributes:
        predict: what one position predicts of rows.
        score: `score(prediction, rows)`, a number.
        log: whether predictions are logarithms, whose exponentials are averaged.
        higher: whether a higher score is better.
    """

    predict: Predict
    score: Callable[[Array, Data], Array]
    log: bool = False
    higher: bool = True

    def is_better(self, first: Any, second: Any) -> Any:
        """Return whether a score is better than another; NaN is none."""
        return first > second if self.higher else first < second


def log_likelihood(posterior: Posterior) -> Metric:
    """Return the mean over rows of log p(y | x), with the constants that the model's log likelihood
    has.
    """
    return Metric(posterior.log_likelihoods, _mean, log=True)


def accuracy(posterior: Posterior) -> Metric:
    """Return the share of rows whose own class has a probability above one half, of a model of two
    classes.
    """
    return Metric(posterior.log_likelihoods, _hit_rate, log=True)


def rmse(predict: Predict | None = None) -> Metric:
    """Return the root of the mean squared error of y.

    Args:
        predict: the mean of y at a position, shape (n,). Default: x @ position.
    """
    return Metric(predict or linear, _root_mean_square, higher=False)


def mse(predict: Predict | None = None) -> Metric:
    """Return the mean squared error of y; the argument is that of `rmse`."""
    return Metric(predict or linear, _mean_square, higher=False)


def error_rate(log_probabilities: Predict) -> Metric:
    """Return the share of rows whose class y is not the most probable one, of several.

    Args:
        log_probabilities: of the classes at a position, shape (n, classes).
    """
    return Metric(log_probabilities, _miss_rate, log=True, higher=False)


def linear(position: Array, rows: Data) -> Array:
    """Return the linear predictor of each row."""
    return jnp.matmul(rows["x"], position, precision="highest")


def _mean(prediction: Array, rows: Data) -> Array:
    return prediction.mean()


def _hit_rate(prediction: Array, rows: Data) -> Array:
    return jnp.where(jnp.isnan(prediction), jnp.nan, prediction > jnp.log(0.5)).mean()


def _mean_square(prediction: Array, rows: Data) -> Array:
    return jnp.mean((rows["y"] - prediction) ** 2)


def _root_mean_square(prediction: Array, rows: Data) -> Array:
    return jnp.sqrt(_mean_square(prediction, rows))


def _miss_rate(prediction: Array, rows: Data) -> Array:
    missed = jnp.argmax(prediction, -1) != rows["y"].astype(jnp.int32)
    return jnp.where(jnp.isnan(prediction).any(-1), jnp.nan, missed).mean()
