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
    """A regression.

    Attributes:
        posterior: of the training rows.
        train: rows to train on.
        test: held-out rows; None where there are none.
        start: where chains start, as `ewsg_jax.sample` takes it.
        names: the features' names.
        inverse_mass: of all kernels, where steps are in units of the posterior; else None.
        mode: the mode; None where nothing needed it.
        description: the data and the model in words, a line each.
        original: weights of the features as they are given; None where they are the same, or nobody
            asks.
    """

    posterior: ewsg.Posterior
    train: Data
    test: Data
    start: Position | Callable[[Key], Position]
    names: tuple[str, ...]
    description: tuple[str, ...]
    inverse_mass: np.ndarray | ewsg.dynamics.LowRank | None = None
    mode: ewsg.Mode | None = None
    original: Original | None = None


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

    mode, inverse_mass, start = None, None, jnp.zeros(len(names))
    if model.coordinates == "curvature" or run.start == "mode":
        mode = _mode(posterior, start, rows)
        words.append(
            f"mode by Newton's method: {mode.num_steps} steps, {mode.data_passes:g} passes over "
            "the data (not counted below)"
        )
    if model.coordinates == "curvature":
        assert mode is not None
        inverse_mass = mode.covariance
        words.append("steps are in units of the posterior's standard deviations at the mode")
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
        description=tuple(words),
        inverse_mass=inverse_mass,
        mode=mode,
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
