"""What an experiment samples: rows, posterior, coordinates and starting points."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import datasets, models, products
from ewsg_jax._types import Array, Key
from ewsg_jax.experiments.config import Experiment
from ewsg_jax.experiments.tables import ConfigError
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation import Mode, find_mode

TOLERANCE = 1e-3
"""Posterior standard deviations within which the mode is found."""


@dataclass(frozen=True, eq=False)
class Problem:
    """A posterior with its data.

    Attributes:
        posterior: in the coordinates that the chains move in.
        train: its rows, in those coordinates.
        test: held-out rows, in features.
        names: the features' names.
        matrix: weights of the features are `matrix @ position`; None where they are the position.
        start: where chains start, as `ewsg_jax.sample` takes it.
        mode: the mode of the weights; None where nothing needed it.
        description: the data and the model in words, a line each.
    """

    posterior: Posterior
    train: dict[str, Array]
    test: dict[str, Array]
    names: tuple[str, ...]
    matrix: np.ndarray | None
    start: Array | Callable[[Key], Array]
    mode: Mode | None
    description: tuple[str, ...]

    def to_weights(self, draws: np.ndarray) -> np.ndarray:
        """Return draws of the position, shape (…, d), as weights of the features."""
        return draws if self.matrix is None else (draws @ self.matrix.T).astype(np.float32)


def prepare(experiment: Experiment) -> Problem:
    """Load and scale the data, build the posterior, and find its mode where the experiment needs it.

    Raises:
        ImportError, OSError: the data are not there; the message says what to do.
        ValueError: the data or the model do not go with the configuration.
    """
    train, test, words = _rows(experiment)
    model, run = experiment.model, experiment.run
    rows, names = train.rows(), train.feature_names
    posterior = models.logistic_regression(prior_scale=model.prior_scale)
    words.append(f"logistic regression, {len(names)} weights, prior N(0, {model.prior_scale:.4g}² I) on them")

    mode, root, matrix = None, None, None
    if model.coordinates == "curvature" or run.start == "mode":
        mode = _mode(posterior, rows)
        # The normal approximation at the mode has the covariance H⁻¹ = root rootᵀ.
        root = np.linalg.inv(np.linalg.cholesky(np.linalg.inv(np.asarray(mode.covariance)))).T
        words.append(
            f"mode by Newton's method: {mode.num_steps} steps, {mode.data_passes:g} passes over the data "
            "(not counted below)"
        )
    centre = np.zeros(len(names)) if mode is None or run.start == "zero" else np.asarray(mode.position, float)
    spread = None if root is None or run.start == "zero" else run.start_spread * root
    if model.coordinates == "curvature":
        assert root is not None
        matrix = root
        posterior = _in_coordinates(posterior, matrix)
        rows["x"] = (rows["x"] @ matrix).astype(np.float32)
        centre = np.linalg.solve(matrix, centre)
        spread = None if spread is None else run.start_spread * np.eye(len(names))
        words.append("sampled in units of the posterior's standard deviations at the mode, reported as weights")
    words.append(
        "chains start at zero, all at one point"
        if spread is None
        else f"chains start around the mode with {run.start_spread:g} times the standard deviations there"
    )
    return Problem(
        posterior=posterior,
        train=jax.tree.map(jnp.asarray, rows),
        test=jax.tree.map(jnp.asarray, test.rows()),
        names=names,
        matrix=matrix,
        start=_start(centre, spread),
        mode=mode,
        description=tuple(words),
    )


def _mode(posterior: Posterior, rows: dict[str, np.ndarray]) -> Mode[Array]:
    """Return the mode of a logistic regression.

    Raises:
        ConfigError: there is none: a flat prior on features that depend on each other.
    """
    key, start = jax.random.key(0), jnp.zeros(rows["x"].shape[1])
    with warnings.catch_warnings():
        # What the search says of a mode that it has not found is said below, with what to do in a configuration.
        warnings.simplefilter("ignore", RuntimeWarning)
        mode = find_mode(key, posterior, start, rows, tolerance=TOLERANCE, progress=False)
    if not np.isfinite(mode.distance):
        raise ConfigError(
            "model.prior_scale must be smaller: the posterior's curvature at its mode is not positive definite, "
            "since features depend on each other and the prior is too flat"
        )
    return mode


def _rows(experiment: Experiment) -> tuple[datasets.Dataset, datasets.Dataset, list[str]]:
    """Training and test rows as the configuration wants them, and what was done, in words."""
    settings = experiment.data
    whole = datasets.load(settings.name).without(settings.drop_columns)
    train, test = datasets.split(whole, settings.test_fraction, settings.split_seed)
    words = [
        f"{whole.source}: {train.num_rows:,} rows to train on, {test.num_rows:,} held out, "
        f"{len(whole.feature_names)} features"
    ]
    if settings.drop_columns:
        words.append(f"without {', '.join(settings.drop_columns)}")
    train, test = datasets.standardise(train, test)
    scaled = "features standardised by the mean and standard deviation of the training rows"
    if settings.features == "whitened":
        train, test, dropped = datasets.whiten(train, test)
        scaled += f", then whitened: {len(train.feature_names)} components, {dropped} null directions dropped"
    if settings.intercept:
        train, test = train.with_intercept(), test.with_intercept()
        scaled += ", with an intercept"
    return train, test, [*words, scaled]


def _in_coordinates(posterior: Posterior, matrix: np.ndarray) -> Posterior:
    """The same posterior of φ, where the weights are matrix @ φ; the rows' x become x @ matrix."""
    predictor = posterior.predictor
    assert predictor is not None
    to_weights = jnp.asarray(matrix, jnp.float32)
    return Posterior.linear(
        predictor.log_likelihood,
        lambda position: posterior.log_prior(products.matmul(to_weights, position)),
        inputs=predictor.inputs,
        residual=predictor.residual,
    )


def _start(centre: np.ndarray, spread: np.ndarray | None) -> Array | Callable[[Key], Array]:
    middle = jnp.asarray(centre, jnp.float32)
    if spread is None:
        return middle
    factor = jnp.asarray(spread, jnp.float32)
    return lambda key: middle + products.matmul(factor, jax.random.normal(key, middle.shape))
