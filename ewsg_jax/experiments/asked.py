"""What `python -m ewsg_jax plan` is asked for: rows, a model and a run; and the posterior of them.

It is written to the folder of results as a table `[plan]` of config.toml, from which `check` makes
the same posterior again.
"""

import dataclasses
import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.datasets import Dataset, Standardisation, standardisation
from ewsg_jax.datasets.table import checksum
from ewsg_jax.experiments import data_file
from ewsg_jax.experiments.config import (
    BETWEEN_0_AND_1,
    FINITE,
    POSITIVE,
    ConfigError,
    Count,
    Positive,
    Seed,
    build,
)
from ewsg_jax.experiments.problem import Original, Regression

MODELS = {
    "logistic": "logistic regression, for two classes",
    "softmax": "softmax regression, for several classes",
    "linear": "linear regression with normal noise, for numbers",
}
"""The ready models of rows with a response, and what the response is."""
NOTHING = 1e-6
"""Residuals over the response, below which a line fits exactly."""


@dataclass(frozen=True)
class Asked:
    """`[plan]`: the arguments of `python -m ewsg_jax plan`.

    Attributes:
        data: the absolute path of a file, or the name of a data set.
        model: the ready model.
        response: the column that is y; empty: the last one.
        drop: features that are left out.
        prior_scale: standard deviation of the normal prior of each weight.
        noise_scale: of a linear model, in units of the response; None: by least squares.
        standardise: whether features, and the response of a linear model, are standardised.
        intercept: whether there is a column of ones.
        tolerance: as of `ewsg_jax.plan`.
        num_chains: the same.
        ess: effective draws of the run; None: as many as the tolerance needs.
        max_passes: as of `ewsg_jax.plan`; None: its default.
        seed: of the plan and the run.
        checksum: of the rows.
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

    @property
    def name(self) -> str:
        """What the data are called."""
        return Path(self.data).stem


def asked_of(table: dict[str, Any]) -> Asked:
    """Return what is asked for by keys and values; those that are None are left out.

    Raises:
        ConfigError: a key is unknown or missing, or a value is not allowed.
    """
    return build(Asked, {key: value for key, value in table.items() if value is not None}, "plan")


def text_of(asked: Asked) -> str:
    """Return the text of config.toml."""
    lines = ["# Made by python -m ewsg_jax plan.", "[plan]"]
    for key, value in dataclasses.asdict(asked).items():
        if value is not None:
            said = "inf" if value == math.inf else json.dumps(value, ensure_ascii=False)
            lines.append(f"{key} = {said}")
    return "\n".join(lines) + "\n"


class Scaled(NamedTuple):
    """Rows as they are sampled.

    Attributes:
        data: features scaled, and a response in numbers.
        names: of the weights, in the order of a position's numbers.
        start: the position at which the search for the mode begins.
        response_scale: what a response in numbers was divided by.
        original: weights of the features as they are given; None where they are the same.
        words: what was done.
    """

    data: Dataset
    names: tuple[str, ...]
    start: jax.Array
    response_scale: float
    original: Original | None
    words: list[str]


def prepare(asked: Asked) -> tuple[Asked, Regression]:
    """Return the posterior of the rows that are asked for; and what is asked for, with the rows'
    checksum and the whole path of their file.

    Raises:
        ConfigError: the rows do not go with the model, or are others than those of the checksum.
        OSError, ImportError: they cannot be read.
    """
    if asked.noise_scale is not None and asked.model != "linear":
        raise ConfigError(f"--noise-scale is for --model linear; got --model {asked.model}")
    dataset, y = data_file.read(asked.data, asked.response, asked.drop)
    found = checksum(dataset.x, y, (None, None)) if y.dtype.kind in "biuf" else _of_text(dataset, y)
    if asked.checksum not in ("", found):
        raise ConfigError(f"{asked.data} has changed since the run: its rows are others")
    is_file = Path(asked.data).suffix.lower() in data_file.SUFFIXES
    where = str(Path(asked.data).resolve()) if is_file else asked.data
    scaled = _scaled(asked, dataset, y)
    posterior, words = _model(asked, scaled)
    rows = scaled.data.rows()
    if asked.model == "softmax":
        rows["y"] = rows["y"].astype(np.int32)
    size = f"{dataset.num_rows:,} rows of {dataset.x.shape[1]} features"
    problem = Regression(
        posterior=posterior,
        train=jax.tree.map(jnp.asarray, rows),
        test=None,
        start=scaled.start,
        names=scaled.names,
        matrix=None,
        mode=None,
        description=(f"{dataset.name}: {size}", *scaled.words, *words),
        original=scaled.original,
    )
    return dataclasses.replace(asked, data=where, checksum=found), problem


def _of_text(dataset: Dataset, y: np.ndarray) -> str:
    codes = np.unique(y, return_inverse=True)[1]
    return checksum(dataset.x, codes, (None, None))


def _scaled(asked: Asked, dataset: Dataset, y: np.ndarray) -> Scaled:
    """Return the rows as they are sampled."""
    numbers, classes, words = _response(asked, y)
    data = data_file.with_response(dataset, numbers)
    shift, scale = 0.0, 1.0
    scaling = standardisation(data)
    if asked.standardise:
        data = scaling(data)
        constant = [
            name for name, f in zip(data.feature_names, scaling.factor, strict=True) if not f
        ]
        words.append("features standardised" + _listed(", constant and so 0: ", constant))
        if asked.model == "linear":
            shift, scale = float(numbers.mean()), float(numbers.std()) or 1.0
            data = data_file.with_response(data, (numbers - shift) / scale)
            words.append("response standardised")
    with_intercept = data.with_intercept()
    if asked.intercept:
        data = with_intercept
        words.append("with an intercept")
    names, shape = _names(data, classes), (data.x.shape[1],)
    if asked.model == "softmax":
        shape = (*shape, len(classes))
    original = None
    if asked.standardise:
        way_back = functools.partial(_unscaled, asked, scaling, shift, scale)
        original = Original(_names(with_intercept, classes), way_back)
    return Scaled(data, names, jnp.zeros(shape), scale, original, words)


def _names(data: Dataset, classes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of weights, in the order of a position's numbers."""
    if not classes:
        return data.feature_names
    return tuple(f"{name}[{of}]" for name in data.feature_names for of in classes)


def _unscaled(
    asked: Asked, scaling: Standardisation, shift: float, scale: float, draws: np.ndarray
) -> np.ndarray:
    """Return draws as weights of the features as they are given, the intercept last."""
    axis = -2 if asked.model == "softmax" else -1
    weights, own = np.split(np.asarray(draws, float), [len(scaling.mean)], axis)
    intercept = own.squeeze(axis) if asked.intercept else 0.0
    weights, intercept = scaling.original(weights, intercept, axis=axis)
    return np.concatenate([scale * weights, np.expand_dims(scale * intercept + shift, axis)], axis)


def _response(asked: Asked, y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...], list[str]]:
    """Return the response in numbers, the classes that have weights each, and what was done, in
    words.
    """
    if asked.model == "linear":
        if y.dtype.kind in "biuf":
            wrong = y[~np.isfinite(y.astype(float))].tolist()
        else:
            wrong = [cell for cell in map(str, y.tolist()) if not data_file.is_number(cell)]
        if wrong:
            raise ConfigError(
                f"the response of {asked.data} must hold finite numbers for --model linear; got "
                f"{str(wrong[0])!r}"
            )
        return y.astype(float), (), ["the response is a number"]
    if asked.model == "logistic":
        advice = "; --model softmax takes several classes, linear takes numbers"
        codes, classes = data_file.coded(y, 2, advice)
        return codes, (), [f"class {classes[1]!r} is 1, {classes[0]!r} is 0"]
    codes, classes = data_file.coded(y, data_file.MOST_CLASSES, "; --model linear takes numbers")
    return codes, classes, [f"{len(classes)} classes: {', '.join(classes[:12])}"]


def _listed(head: str, names: list[str]) -> str:
    return head + ", ".join(names) if names else ""


def _model(asked: Asked, scaled: Scaled) -> tuple[ewsg.Posterior, list[str]]:
    """Return the posterior, and what it is in words."""
    prior = f"prior N(0, {asked.prior_scale:.4g}² I) on {scaled.start.size} weights"
    if asked.prior_scale == math.inf:
        prior = f"flat prior on {scaled.start.size} weights"
    if asked.model != "linear":
        build_model = getattr(ewsg.models, f"{asked.model}_regression")
        words = f"{asked.model} regression, {prior}"
        return build_model(prior_scale=asked.prior_scale), [words]
    if asked.noise_scale is None:
        noise, words = _residual_scale(scaled.data), "that of the residuals of least squares"
    else:
        noise, words = asked.noise_scale / scaled.response_scale, "as given"
    model = ewsg.models.linear_regression(noise_scale=noise, prior_scale=asked.prior_scale)
    in_units = f"noise scale {noise * scaled.response_scale:.4g}, {words}"
    return model, [f"linear regression, {prior}; {in_units}"]


def _residual_scale(data: Dataset) -> float:
    """Return the standard deviation of what least squares leave.

    Raises:
        ConfigError: they leave nothing.
    """
    weights, _, rank, _ = np.linalg.lstsq(data.x, data.y, rcond=None)
    freedom = data.num_rows - int(rank)
    left = float(np.sum((data.y - data.x @ weights) ** 2))
    if freedom < 1 or left <= NOTHING**2 * float(np.sum(data.y**2)):
        raise ConfigError(
            f"--noise-scale is missing: least squares leave no residuals of {data.num_rows} rows "
            f"and {data.x.shape[1]} weights that could say it"
        )
    return math.sqrt(left / freedom)


def hint_of(name: str) -> Any:
    """Return the annotation of a key of `[plan]`, which says what it takes."""
    return get_type_hints(Asked, include_extras=True)[name]
