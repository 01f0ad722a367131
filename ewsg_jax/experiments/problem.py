"""What an experiment samples: a posterior, its rows, starting points; made from a configuration."""

import dataclasses
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax import products
from ewsg_jax._types import Array, Data, Key, Position
from ewsg_jax.experiments.config import Config, ConfigError

TOLERANCE = 1e-3
"""Posterior standard deviations within which the mode is found."""


class Original(NamedTuple):
    """Weights of features as they are given, of those of scaled features.

    Attributes:
        names: of these weights, the intercept last.
        of: takes draws of the others, shape (chain, draw, …), to those of these.
    """

    names: tuple[str, ...]
    of: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Regression:
    """A regression; its posterior and training rows are in the coordinates that the chains
    move in.

    Attributes:
        posterior: of the training rows.
        train: rows to train on.
        test: held-out rows; None where there are none.
        start: where chains start, as `ewsg_jax.sample` takes it.
        names: the features' names.
        matrix: weights of the features are `matrix @ position`; None where they are the position.
        mode: the mode in those coordinates; None where nothing needed it.
        description: the data and the model in words, a line each.
        original: weights of the features as they are given; None where they are the same, or nobody
            asks.
    """

    posterior: ewsg.Posterior
    train: Data
    test: Data
    start: Position | Callable[[Key], Position]
    names: tuple[str, ...]
    matrix: np.ndarray | None
    mode: ewsg.Mode | None
    description: tuple[str, ...]
    original: Original | None = None

    def to_weights(self, draws: np.ndarray) -> np.ndarray:
        """Return draws of the position, shape (…, d), as weights of the features."""
        return draws if self.matrix is None else (draws @ self.matrix.T).astype(np.float32)

    def to_position(self, weights: np.ndarray) -> np.ndarray:
        """Return draws of weights of the features as those of the position."""
        if self.matrix is None:
            return weights
        flat = np.linalg.solve(self.matrix, weights.reshape(-1, len(self.names)).T.astype(float))
        return flat.T.reshape(weights.shape).astype(np.float32)

    @property
    def coordinates(self) -> tuple[str, ...]:
        """The names of the coordinates that the chains move in."""
        if self.matrix is None:
            return self.names
        return tuple(f"direction {i}" for i in range(len(self.names)))


def prepare(config: Config) -> Regression:
    """Load and scale the data, build the posterior, and find its mode where the configuration needs
    it.
    """
    train, test, words = _rows(config)
    model, run = config.model, config.run
    rows, names = train.rows(), train.feature_names
    posterior = ewsg.models.logistic_regression(prior_scale=model.prior_scale)
    words.append(
        f"logistic regression, {len(names)} weights, prior N(0, {model.prior_scale:.4g}² I) on them"
    )

    mode, matrix, start = None, None, jnp.zeros(len(names))
    if model.coordinates == "curvature" or run.start == "mode":
        mode = _mode(posterior, start, rows)
        words.append(
            f"mode by Newton's method: {mode.num_steps} steps, {mode.data_passes:g} passes over "
            "the data (not counted below)"
        )
    if model.coordinates == "curvature":
        assert mode is not None
        # The weights are matrix @ position, so that the position has the covariance I.
        matrix = np.linalg.cholesky(np.asarray(mode.covariance))
        posterior = _in_coordinates(posterior, matrix)
        rows["x"] = (rows["x"] @ matrix).astype(np.float32)
        moved = np.linalg.solve(matrix, np.asarray(mode.position, float))
        mode = _mode(posterior, jnp.asarray(moved, jnp.float32), rows)
        words.append(
            "sampled in units of the posterior's standard deviations at the mode, reported as "
            "weights"
        )
    if run.start == "mode":
        assert mode is not None
        start = dataclasses.replace(mode.start, width=run.start_spread)
        words.append(
            f"chains start around the mode with {run.start_spread:g} times the standard deviations "
            "there"
        )
    else:
        words.append("chains start at zero, all at one point")
    return Regression(
        posterior=posterior,
        train=jax.tree.map(jnp.asarray, rows),
        test=jax.tree.map(jnp.asarray, test.rows()),
        start=start,
        names=names,
        matrix=matrix,
        mode=mode,
        description=tuple(words),
    )


def _mode(posterior: ewsg.Posterior, start: Array, rows: dict[str, np.ndarray]) -> ewsg.Mode[Array]:
    """Return the mode of a logistic regression; a flat prior on features that depend on each other
    has none, which is an error.
    """
    with warnings.catch_warnings():
        # A search that failed is reported below, with what to do in a configuration.
        warnings.simplefilter("ignore", RuntimeWarning)
        mode = ewsg.find_mode(
            jax.random.key(0), posterior, start, rows, tolerance=TOLERANCE, progress=False
        )
    if not np.isfinite(mode.distance):
        raise ConfigError(
            "model.prior_scale must be smaller: the posterior's curvature at its mode is not "
            "positive definite, since features depend on each other and the prior is too flat"
        )
    return mode


def _rows(config: Config) -> tuple[ewsg.datasets.Dataset, ewsg.datasets.Dataset, list[str]]:
    """Return training and held-out rows as the configuration says, and what was done, in words."""
    settings = config.data
    whole = ewsg.datasets.load(settings.name).without(settings.drop_columns)
    train, test = ewsg.datasets.split(whole, settings.test_fraction, settings.split_seed)
    words = [
        f"{whole.source}: {train.num_rows:,} rows to train on, {test.num_rows:,} held out, "
        f"{len(whole.feature_names)} features"
    ]
    if settings.drop_columns:
        words.append(f"without {', '.join(settings.drop_columns)}")
    train, test = ewsg.datasets.standardise(train, test)
    scaled = "features standardised by the mean and standard deviation of the training rows"
    if settings.intercept:
        train, test = train.with_intercept(), test.with_intercept()
        scaled += ", with an intercept"
    return train, test, [*words, scaled]


def _in_coordinates(posterior: ewsg.Posterior, matrix: np.ndarray) -> ewsg.Posterior:
    """Return the posterior of φ, where the weights are matrix @ φ and the rows' x became x @
    matrix.
    """
    predictor = posterior.predictor
    assert predictor is not None
    to_weights = jnp.asarray(matrix, jnp.float32)
    return ewsg.Posterior.linear(
        predictor.log_likelihood,
        lambda position: posterior.log_prior(products.matmul(to_weights, position)),
        inputs=predictor.inputs,
        residual=predictor.residual,
    )
