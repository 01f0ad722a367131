"""What an experiment samples: a posterior, its rows, starting points."""

import dataclasses
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.base.typing import Array, Data, Key, Position
from ewsg_jax.cli import data_file
from ewsg_jax.cli.arguments import PlanArguments
from ewsg_jax.cli.config import Config, ConfigError
from ewsg_jax.cli.counts import LOG_EXPOSURE
from ewsg_jax.cli.data_file import FileRows
from ewsg_jax.cli.delimited import FileError, is_number
from ewsg_jax.cli.design import Exposure, Feature, Groups
from ewsg_jax.cli.model import OWN_NAME, Units, model_of
from ewsg_jax.cli.weights import GROUP
from ewsg_jax.datasets import Dataset, split, standardisation
from ewsg_jax.datasets._table import checksum


class Original(NamedTuple):
    """Weights of the features in their own units, from those of scaled features.

    Attributes:
        names: names of these weights, the intercept last.
        of: maps draws of the weights of scaled features, shape (chain, draw, …), to draws of these.
    """

    names: tuple[str, ...]
    of: Callable[[np.ndarray], np.ndarray]


class Meaning(NamedTuple):
    """What the weights of a regression on a file say.

    Attributes:
        model: the model of `plan`.
        response: what the response is called.
        classes: classes of the response, the reference first; empty for numbers.
        features: what each feature is, without the intercept.
        spread: the standard deviation of each feature in its units; NaN for a level.
        groups: what the groups are called, and each of them; None without groups.
        words: what was done with each column of the file.
        exposure: what counts are per one of; empty if there is no such column.
    """

    model: str
    response: str
    classes: tuple[str, ...]
    features: tuple[Feature, ...]
    spread: tuple[float, ...]
    groups: tuple[str, tuple[str, ...]] | None
    words: tuple[str, ...]
    exposure: str = ""


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
        meaning: what they say; None if that is not needed.
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
    meaning: Meaning | None = None


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
    file_rows = data_file.rows(data_table.name, arguments, dropped_by="data.drop_columns")
    problem = _prepared(arguments, file_rows, data_table.test_fraction, data_table.split_seed)
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
    changed["meaning"] = None
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
    """Return the arguments, with the rows' checksum; and the regression on these rows.

    Raises:
        ConfigError: the rows do not go with the model, or are others than those of the checksum.
            All that is wrong with a file is in one message.
    """
    for name, model in (("noise_scale", "linear"), ("dispersion", "negative_binomial")):
        if getattr(arguments, name) is not None and arguments.model != model:
            raise ConfigError(
                f"--{name.replace('_', '-')} is for --model {model}; got --model {arguments.model}"
            )
    if arguments.exposure and arguments.model in OWN_NAME:
        raise ConfigError(
            "--exposure is for counts, --model poisson or negative_binomial; got --model "
            f"{arguments.model}"
        )
    file_rows = data_file.rows(arguments.data, arguments)
    problems = [*file_rows.problems]
    try:
        _response(arguments, file_rows)
    except ConfigError as error:
        if Path(arguments.data).suffix.lower() not in data_file.TEXT_TABLES:
            raise
        which = f"column {file_rows.response!r}, unless --response names another"
        problems.append(f"does not go with the model: {error}; the response is the {which}")
    if problems:
        raise FileError(arguments.data, problems)
    codes = file_rows.y
    if codes.dtype.kind not in "biuf":
        codes = np.unique(codes, return_inverse=True)[1]
    if file_rows.groups is not None:
        codes = np.stack([codes, file_rows.groups.numbers])
    if file_rows.exposure is not None:
        codes = np.vstack([codes, file_rows.exposure.numbers])
    rows_checksum = checksum(file_rows.dataset.x, codes, (None, None))
    if arguments.checksum not in ("", rows_checksum):
        raise ConfigError(f"{arguments.data} has changed since the run: its rows are others")
    problem = _prepared(arguments, file_rows)
    return dataclasses.replace(arguments, checksum=rows_checksum), problem


def _prepared(
    arguments: PlanArguments, file_rows: FileRows, test_fraction: float = 0.0, split_seed: int = 0
) -> Regression:
    """Return the regression on these rows, or on those that are not held out.

    Args:
        arguments: the model that was asked for, and how rows are scaled.
        file_rows: the rows of a file, of which nothing is wrong.
        test_fraction: the part of the rows that is held out, in [0, 1). Default: none.
        split_seed: the seed by which these are chosen.

    Raises:
        ConfigError: the response, the priors or the sizes do not go with the model.
    """
    numbers, classes, response = _response(arguments, file_rows)
    dataset, groups, exposure = file_rows.dataset, file_rows.groups, file_rows.exposure
    # A logistic regression has one weight for a feature, a softmax one for each class.
    weight_classes = classes if arguments.model == "softmax" else ()
    without = f", without {', '.join(arguments.drop)}" if arguments.drop else ""
    words = [
        f"{dataset.name}: {dataset.num_rows:,} rows of {dataset.x.shape[1]} features{without}",
        f"source: {dataset.source}",
        *file_rows.words,
        response,
    ]

    # Rows are split first: what is held out has no part in the scaling.
    unscaled = dataclasses.replace(dataset, y=numbers)
    parts = [unscaled]
    if test_fraction:
        parts = [*split(unscaled, test_fraction, split_seed)]
        words.append(f"{parts[0].num_rows:,} rows to train on, {parts[1].num_rows:,} held out")
    is_level = np.array([feature.level != "" for feature in file_rows.features])
    spread = np.where(is_level, np.nan, parts[0].x.std(axis=0, dtype=float))
    parts, units, said = _scaled(arguments, parts, is_level, len(weight_classes))
    words += said

    # Names are those of a position's numbers; without a scaling they are in the units of the file.
    original = None
    if arguments.standardise or groups is not None:
        # Without a shift of the features there is no intercept if none was asked for.
        has_intercept = arguments.intercept or arguments.standardise
        shown = unscaled.with_intercept() if has_intercept else unscaled
        names = _names([*shown.feature_names, *_of_groups(groups, "sd of ")], weight_classes)
        original = Original(names, functools.partial(_unscaled, units, has_intercept))
    if arguments.intercept:
        parts = [part.with_intercept() for part in parts]
        words.append("with an intercept")
    names = _names([*parts[0].feature_names, *_of_groups(groups, "log sd of ")], weight_classes)

    posterior, model, start = model_of(arguments, file_rows, parts[0], units, weight_classes)
    train, *held_out = [_arrays(arguments, part, groups, exposure) for part in parts]
    return Regression(
        posterior=posterior,
        train=train,
        test=held_out[0] if held_out else None,
        start=jnp.asarray(start, jnp.float32),
        names=names,
        description=(*words, *model),
        original=original,
        meaning=Meaning(
            arguments.model,
            file_rows.response,
            classes,
            file_rows.features,
            tuple(spread.tolist()),
            None if groups is None else (groups.name, groups.names),
            file_rows.words,
            exposure.name if exposure else "",
        ),
    )


def _scaled(
    arguments: PlanArguments, parts: list[Dataset], is_level: np.ndarray, num_classes: int
) -> tuple[list[Dataset], Units, list[str]]:
    """Return the rows as they are sampled, how their weights become those of the file, and what was
    done in words; as they are without `standardise`.

    Args:
        arguments: what was asked for.
        parts: the rows to train on, and those that are held out, if any.
        is_level: which features are 1 for a level of a text, shape (d,).
        num_classes: classes with weights each; 0 if there is one weight for a feature.
    """
    train = parts[0]
    scaling, shift, scale = standardisation(train), 0.0, 1.0
    if not arguments.standardise:
        zero, one = np.zeros_like(scaling.mean), np.ones_like(scaling.factor)
        scaling = dataclasses.replace(scaling, mean=zero, factor=one)
        return parts, Units(scaling, shift, scale, arguments.intercept, num_classes), []
    # A level stays 0 and 1, about its mean: the prior is on what it changes.
    scaling = dataclasses.replace(scaling, factor=np.where(is_level, 1.0, scaling.factor))
    constant = [name for name, f in zip(train.feature_names, scaling.factor, strict=True) if not f]
    so_0 = f", constant and so 0: {', '.join(constant)}" if constant else ""
    by = " by the rows to train on" if len(parts) > 1 else ""
    but = ", levels centred" if is_level.any() else ""
    words = [f"features standardised{by}{but}{so_0}"]
    if arguments.model == "linear":
        shift, scale = float(train.y.mean()), float(train.y.std()) or 1.0
        words.append("response standardised")
    parts = [dataclasses.replace(scaling(part), y=(part.y - shift) / scale) for part in parts]
    return parts, Units(scaling, shift, scale, arguments.intercept, num_classes), words


def _arrays(
    arguments: PlanArguments, part: Dataset, groups: Groups | None, exposure: Exposure | None
) -> Data:
    """Return rows as the model takes them: a dictionary of arrays of JAX, with the numbers of
    groups and the logarithm of the exposure if there are these.
    """
    rows = part.rows()
    if arguments.model == "softmax":
        rows |= {"y": rows["y"].astype(np.int32)}
    if groups is not None:
        rows |= {GROUP: groups.numbers.astype(np.int32)}
    if exposure is not None:
        rows |= {LOG_EXPOSURE: np.log(exposure.numbers)}
    return jax.tree.map(jnp.asarray, rows)


def _of_groups(groups: Groups | None, scale: str) -> list[str]:
    """Return names of the scale and of the effects of groups."""
    if groups is None:
        return []
    return [f"{scale}{groups.name}", *(f"{groups.name}[{name}]" for name in groups.names)]


def _names(names: Sequence[str], classes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of weights, in the order of a position's numbers."""
    if not classes:
        return tuple(names)
    return tuple(f"{name}[{of}]" for name in names for of in classes)


def _unscaled(units: Units, has_intercept: bool, draws: np.ndarray) -> np.ndarray:
    """Return draws as weights of the features as they are given, the intercept after them, then
    the scale and the effects of groups.
    """
    axis = -2 if units.num_classes else -1
    num_features = len(units.scaling.mean)
    fixed = num_features + units.intercept
    weights, of_intercept, of_groups = np.split(
        np.asarray(draws, float), [num_features, fixed], axis
    )
    intercept = of_intercept.squeeze(axis) if units.intercept else 0.0
    weights, intercept = units.scaling.original(weights, intercept, axis=axis)
    parts = [units.scale * weights]
    if has_intercept:
        parts.append(np.expand_dims(units.scale * intercept + units.shift, axis))
    log_scale, effects = np.split(of_groups, [1], axis)
    parts += [units.scale * np.exp(log_scale), units.scale * effects]
    return np.concatenate(parts, axis)


def _response(
    arguments: PlanArguments, file_rows: FileRows
) -> tuple[np.ndarray, tuple[str, ...], str]:
    """Return the response in numbers, its classes, and what was done."""
    y, model = file_rows.y, arguments.model
    if model == "logistic":
        advice = "; --model softmax takes several classes, linear takes numbers"
        codes, (zero, one) = data_file.coded(y, 2, advice, file_rows.first)
        return codes, (zero, one), f"class {one!r} is 1, {zero!r} is 0"
    if model == "softmax":
        advice = "; --model linear takes numbers"
        codes, classes = data_file.coded(y, 1_000, advice, file_rows.first)
        return codes, classes, f"{len(classes)} classes: {', '.join(classes[:12])}"
    takes = "finite numbers" if model == "linear" else "counts, whole numbers from 0 on,"
    for value in y.tolist():
        number = float(value) if is_number(value) else math.nan
        if not math.isfinite(number) or (model != "linear" and (number < 0 or number % 1)):
            raise ConfigError(
                f"the response of {arguments.data} must hold {takes} for --model {model}; "
                f"got {str(value)!r}"
            )
    if model == "linear":
        return y.astype(float), (), "the response is a number"
    if not np.any(y.astype(float)):
        raise ConfigError(
            f"the response of {arguments.data} must hold counts, some above 0, for --model {model};"
            " all are 0"
        )
    per = f"; its rate is per unit of {of.name}" if (of := file_rows.exposure) else ""
    return y.astype(float), (), f"the response is a count{per}"
