"""What an experiment samples: a posterior, its rows, starting points."""

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.base.typing import Array, Data, Key, Position
from ewsg_jax.cli import data_file
from ewsg_jax.cli.config import (
    BETWEEN_0_AND_1,
    FINITE,
    POSITIVE,
    Config,
    ConfigError,
    Count,
    Positive,
    Seed,
)
from ewsg_jax.datasets import Dataset, Standardisation, split, standardisation
from ewsg_jax.datasets._table import checksum


@dataclass(frozen=True)
class PlanArguments:
    """`[plan]`: the arguments of `python -m ewsg_jax plan`, which `HELP` explains.

    `checksum` is that of the rows; in a file of results `data` is an absolute path.
    """

    data: str
    model: Literal["logistic", "softmax", "linear"]
    response: str = ""
    drop: tuple[str, ...] = ()
    prior_scale: Positive = 1.0
    noise_scale: Annotated[float, POSITIVE, FINITE] | None = None
    standardise: bool = True
    intercept: bool = True
    tolerance: Annotated[float, BETWEEN_0_AND_1] = 0.05
    num_chains: Count = 8
    ess: Annotated[float, POSITIVE, FINITE] | None = None
    max_passes: Annotated[float, POSITIVE, FINITE] | None = None
    seed: Seed = 0
    checksum: str = ""


class Original(NamedTuple):
    """Weights of the features in their own units, from those of scaled features.

    Attributes:
        names: names of these weights, the intercept last.
        of: maps draws of the weights of scaled features, shape (chain, draw, …), to draws of these.
    """

    names: tuple[str, ...]
    of: Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False, kw_only=True)
class Regression:
    """A regression.

    Attributes:
        posterior: the posterior, which takes the training rows.
        train: rows to train on.
        test: held-out rows, or None.
        start: a starting point, or a function of a key, as `ewsg_jax.sample` takes it.
        names: the features' names.
        inverse_mass: the inverse mass of all kernels if steps are in units of the posterior, else
            None.
        mode: the mode; None if nothing needed it.
        description: the data and the model in words, a line each.
        original: weights of the features in their own units; None if these are the same, or not
            needed.
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


def of_config(config: Config) -> Regression:
    """Return the regression of a configuration, with its mode if it needs that."""
    data_table, run = config.data, config.run
    arguments = PlanArguments(
        data_table.name,
        "logistic",
        drop=data_table.drop_columns,
        prior_scale=config.model.prior_scale,
        intercept=data_table.intercept,
    )
    problem = _prepared(
        arguments,
        *_rows(arguments, "data.drop_columns"),
        data_table.test_fraction,
        data_table.split_seed,
    )
    words = [*problem.description]
    mode, inverse_mass, start = None, None, problem.start
    if config.model.coordinates == "curvature" or run.start == "mode":
        mode = _mode(problem.posterior, jnp.zeros(len(problem.names)), problem.train)
        words.append(
            f"mode by Newton's method: {mode.num_steps} steps, {mode.data_passes:g} passes over "
            "the data (not counted below)"
        )
        if config.model.coordinates == "curvature":
            inverse_mass = mode.covariance
            words.append("steps are in units of the posterior's standard deviations at the mode")
        if run.start == "mode":
            start = dataclasses.replace(mode.start, width=run.start_spread)
            words.append(
                f"chains start around the mode with {run.start_spread:g} times the standard "
                "deviations there"
            )
    # Methods are compared by their scaled weights: there is no table of unscaled ones.
    changed = {"start": start, "mode": mode, "inverse_mass": inverse_mass, "original": None}
    return dataclasses.replace(problem, description=tuple(words), **changed)


def _mode(posterior: ewsg.Posterior, start: Array, rows: Data) -> ewsg.Mode[Array]:
    """Return the mode of a logistic regression; a flat prior on features that depend on each other
    has none, which is an error.
    """
    with warnings.catch_warnings():
        # A search that failed is reported below, with what to do in a configuration.
        warnings.simplefilter("ignore", RuntimeWarning)
        # In posterior sds: small compared with the Monte Carlo error of any run.
        mode = ewsg.find_mode(
            jax.random.key(0), posterior, start, rows, tolerance=1e-3, progress=False
        )
    if not np.isfinite(mode.distance):
        raise ConfigError(
            "model.prior_scale must be smaller: the posterior's curvature at its mode is not "
            "positive definite, since features depend on each other and the prior is too flat"
        )
    return mode


def prepare(arguments: PlanArguments) -> tuple[PlanArguments, Regression]:
    """Return the arguments, with the rows' checksum and the whole path of their file; and the
    regression on these rows.

    Raises:
        ConfigError: the rows do not go with the model, or are others than those of the checksum.
    """
    if arguments.noise_scale is not None and arguments.model != "linear":
        raise ConfigError(f"--noise-scale is for --model linear; got --model {arguments.model}")
    dataset, y = _rows(arguments, "--drop")
    codes = y if y.dtype.kind in "biuf" else np.unique(y, return_inverse=True)[1]
    rows_checksum = checksum(dataset.x, codes, (None, None))
    if arguments.checksum not in ("", rows_checksum):
        raise ConfigError(f"{arguments.data} has changed since the run: its rows are others")
    is_file = Path(arguments.data).suffix.lower() in data_file.SUFFIXES
    where = str(Path(arguments.data).resolve()) if is_file else arguments.data
    problem = _prepared(arguments, dataset, y)
    return dataclasses.replace(arguments, data=where, checksum=rows_checksum), problem


def _rows(arguments: PlanArguments, dropped_by: str) -> tuple[Dataset, np.ndarray]:
    return data_file.read(arguments.data, arguments.response, arguments.drop, dropped_by)


def _prepared(
    arguments: PlanArguments,
    dataset: Dataset,
    y: np.ndarray,
    test_fraction: float = 0.0,
    split_seed: int = 0,
) -> Regression:
    """Return the posterior of these rows, or of those that are not held out."""
    numbers, classes, response = _response(arguments, y)
    train = dataclasses.replace(dataset, y=numbers)
    without = f", without {', '.join(arguments.drop)}" if arguments.drop else ""
    words = [
        f"{dataset.name}: {dataset.num_rows:,} rows of {dataset.x.shape[1]} features{without}",
        f"source: {dataset.source}",
        response,
    ]
    parts = [train]
    if test_fraction:
        parts = [*split(train, test_fraction, split_seed)]
        words.append(f"{parts[0].num_rows:,} rows to train on, {parts[1].num_rows:,} held out")
    scaling, shift, scale, original = standardisation(parts[0]), 0.0, 1.0, None
    if arguments.standardise:
        constant = [
            name for name, f in zip(train.feature_names, scaling.factor, strict=True) if not f
        ]
        so_0 = f", constant and so 0: {', '.join(constant)}" if constant else ""
        by = " by the rows to train on" if test_fraction else ""
        words.append(f"features standardised{by}{so_0}")
        if arguments.model == "linear":
            y = parts[0].y
            shift, scale = float(y.mean()), float(y.std()) or 1.0
            words.append("response standardised")
        way_back = functools.partial(_unscaled, arguments, scaling, shift, scale)
        original = Original(_names(train.with_intercept(), classes), way_back)
        parts = [dataclasses.replace(scaling(part), y=(part.y - shift) / scale) for part in parts]
    if arguments.intercept:
        parts = [part.with_intercept() for part in parts]
        words.append("with an intercept")
    names = _names(parts[0], classes)
    posterior, model = _model(arguments, parts[0], len(names), scale)
    rows = [part.rows() for part in parts]
    start = jnp.zeros((parts[0].x.shape[1], *[len(classes)] * (arguments.model == "softmax")))
    if arguments.model == "softmax":
        rows = [part | {"y": part["y"].astype(np.int32)} for part in rows]
    rows = jax.tree.map(jnp.asarray, rows)
    return Regression(
        posterior=posterior,
        train=rows[0],
        test=rows[1] if test_fraction else None,
        start=start,
        names=names,
        description=(*words, model),
        original=original,
    )


def _names(data: Dataset, classes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of weights, in the order of a position's numbers."""
    if not classes:
        return data.feature_names
    return tuple(f"{name}[{of}]" for name in data.feature_names for of in classes)


def _unscaled(
    arguments: PlanArguments,
    scaling: Standardisation,
    shift: float,
    scale: float,
    draws: np.ndarray,
) -> np.ndarray:
    """Return draws as weights of the features as they are given, the intercept last."""
    axis = -2 if arguments.model == "softmax" else -1
    weights, of_intercept = np.split(np.asarray(draws, float), [len(scaling.mean)], axis)
    intercept = of_intercept.squeeze(axis) if arguments.intercept else 0.0
    weights, intercept = scaling.original(weights, intercept, axis=axis)
    return np.concatenate([scale * weights, np.expand_dims(scale * intercept + shift, axis)], axis)


def _response(arguments: PlanArguments, y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...], str]:
    """Return the response in numbers, the classes that have weights each, and what was done."""
    if arguments.model == "logistic":
        advice = "; --model softmax takes several classes, linear takes numbers"
        codes, (zero, one) = data_file.coded(y, 2, advice)
        return codes, (), f"class {one!r} is 1, {zero!r} is 0"
    if arguments.model == "softmax":
        advice = "; --model linear takes numbers"
        codes, classes = data_file.coded(y, 1_000, advice)
        return codes, classes, f"{len(classes)} classes: {', '.join(classes[:12])}"
    for value in y.tolist():
        if not data_file.is_number(value) or not math.isfinite(float(value)):
            raise ConfigError(
                f"the response of {arguments.data} must hold finite numbers for --model linear; "
                f"got {str(value)!r}"
            )
    return y.astype(float), (), "the response is a number"


def _model(
    arguments: PlanArguments, data: Dataset, num_weights: int, scale: float
) -> tuple[ewsg.Posterior, str]:
    """Return the posterior, and what it is in words; the response was divided by `scale`."""
    prior = f"prior N(0, {arguments.prior_scale:.4g}² I)"
    if arguments.prior_scale == math.inf:
        prior = "flat prior"
    words = f"{arguments.model} regression, {prior} on {num_weights} weights"
    model = getattr(ewsg.models, f"{arguments.model}_regression")
    if arguments.model != "linear":
        return model(prior_scale=arguments.prior_scale), words
    if arguments.noise_scale is None:
        noise, origin = _residual_scale(data), "that of the residuals of least squares"
    else:
        noise, origin = arguments.noise_scale / scale, "as given"
    posterior = model(noise_scale=noise, prior_scale=arguments.prior_scale)
    return posterior, f"{words}; noise scale {noise * scale:.4g}, {origin}"


def _residual_scale(data: Dataset) -> float:
    """Return the standard deviation of the residuals of least squares; raise if there are none."""
    weights, _, rank, _ = np.linalg.lstsq(data.x, data.y, rcond=None)
    freedom = data.num_rows - int(rank)
    left = float(np.sum((data.y - data.x @ weights) ** 2))
    # A line that fits exactly: a noise scale of rounding errors would follow.
    if freedom < 1 or left <= 1e-12 * float(np.sum(data.y**2)):
        raise ConfigError(
            f"--noise-scale is missing: least squares leave no residuals of {data.num_rows} rows "
            f"and {data.x.shape[1]} weights that could say it"
        )
    return math.sqrt(left / freedom)
