"""`python -m ewsg_jax plan DATA`: how to sample the posterior of your own rows; and the run,
where it is to be written.

What is asked for, rows, a model and a run, is written to the folder of results as a table `[plan]`
of config.toml, from which `check` makes the same posterior again.
"""

import dataclasses
import functools
import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.datasets import Dataset, Standardisation, standardisation
from ewsg_jax.datasets.table import checksum
from ewsg_jax.experiments import answer, data_file
from ewsg_jax.experiments.config import (
    BETWEEN_0_AND_1,
    FINITE,
    POSITIVE,
    ConfigError,
    Count,
    MethodConfig,
    Positive,
    Seed,
    build,
)
from ewsg_jax.experiments.console import DOUBTFUL, OK, Console
from ewsg_jax.experiments.plan import Job, Plan, keys_of
from ewsg_jax.experiments.problem import Original, Regression
from ewsg_jax.experiments.results import Folder
from ewsg_jax.experiments.run import carry_out

MODELS = {
    "logistic": "logistic regression, for two classes",
    "softmax": "softmax regression, for several classes",
    "linear": "linear regression with normal noise, for numbers",
}
"""The ready models of rows with a response, and what the response is."""
HELP = {
    "model": "; ".join(f"{name}: {about}" for name, about in MODELS.items()),
    "response": "the column of a .csv file that is y (default: the last)",
    "drop": "leave a column out; may be repeated",
    "prior_scale": "sd of the normal prior on each weight (default: 1); inf: flat",
    "noise_scale": "of a linear model: sd of y around its mean (default: that of the residuals of "
    "least squares)",
    "standardise": "whether features, and y of a linear model, are scaled to mean 0 and sd 1 "
    "(default: yes)",
    "intercept": "whether there is a column of ones (default: yes)",
    "tolerance": "how far off an sd may be, relatively (default: 0.05)",
    "num_chains": "chains of the run (default: 8)",
    "ess": "effective draws of the run (default: as many as the tolerance needs)",
    "max_passes": "passes over the data of a trial, of each chain, at most",
    "seed": "of the plan and the run (default: 0)",
}
"""What each option is."""
NAME = "plan"
"""What the run is called: in draws.npz, for one."""
DRAWS = 1_000
"""Draws of a chain that are kept, at least."""
NOTHING = 1e-6
"""Residuals over the response, below which a line fits exactly."""


@dataclass(frozen=True)
class Asked:
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


def asked_of(table: dict[str, Any]) -> Asked:
    """Return what is asked for by keys and values, checked; those that are None are left out."""
    return build(Asked, {key: value for key, value in table.items() if value is not None}, "plan")


def text_of(asked: Asked) -> str:
    """Return the text of config.toml."""
    lines = ["# Made by python -m ewsg_jax plan.", "[plan]"]
    for key, value in dataclasses.asdict(asked).items():
        if value is not None:
            said = "inf" if value == math.inf else json.dumps(value, ensure_ascii=False)
            lines.append(f"{key} = {said}")
    return "\n".join(lines) + "\n"


def prepare(asked: Asked) -> tuple[Asked, Regression]:
    """Return the posterior of the rows that are asked for; and what is asked for, with the rows'
    checksum and the whole path of their file.

    Raise ConfigError where the rows do not go with the model, or are others than those of the
    checksum.
    """
    if asked.noise_scale is not None and asked.model != "linear":
        raise ConfigError(f"--noise-scale is for --model linear; got --model {asked.model}")
    dataset, y = data_file.read(asked.data, asked.response, asked.drop)
    codes = y if y.dtype.kind in "biuf" else np.unique(y, return_inverse=True)[1]
    found = checksum(dataset.x, codes, (None, None))
    if asked.checksum not in ("", found):
        raise ConfigError(f"{asked.data} has changed since the run: its rows are others")
    is_file = Path(asked.data).suffix.lower() in data_file.SUFFIXES
    where = str(Path(asked.data).resolve()) if is_file else asked.data

    numbers, classes, response = _response(asked, y)
    data = dataclasses.replace(dataset, y=numbers)
    words = [
        f"{dataset.name}: {dataset.num_rows:,} rows of {dataset.x.shape[1]} features",
        response,
    ]
    scaling, shift, scale = standardisation(data), 0.0, 1.0
    if asked.standardise:
        data = scaling(data)
        constant = [
            name for name, f in zip(data.feature_names, scaling.factor, strict=True) if not f
        ]
        so_0 = f", constant and so 0: {', '.join(constant)}" if constant else ""
        words.append(f"features standardised{so_0}")
        if asked.model == "linear":
            shift, scale = float(numbers.mean()), float(numbers.std()) or 1.0
            data = dataclasses.replace(data, y=(numbers - shift) / scale)
            words.append("response standardised")
    original = None
    if asked.standardise:
        way_back = functools.partial(_unscaled, asked, scaling, shift, scale)
        original = Original(_names(data.with_intercept(), classes), way_back)
    if asked.intercept:
        data = data.with_intercept()
        words.append("with an intercept")
    names, rows = _names(data, classes), data.rows()
    start = jnp.zeros((data.x.shape[1], *[len(classes)] * (asked.model == "softmax")))
    if asked.model == "softmax":
        rows["y"] = rows["y"].astype(np.int32)
    posterior, model = _model(asked, data, len(names), scale)
    problem = Regression(
        posterior=posterior,
        train=jax.tree.map(jnp.asarray, rows),
        test=None,
        start=start,
        names=names,
        description=(*words, model),
        original=original,
    )
    return dataclasses.replace(asked, data=where, checksum=found), problem


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


def _response(asked: Asked, y: np.ndarray) -> tuple[np.ndarray, tuple[str, ...], str]:
    """Return the response in numbers, the classes that have weights each, and what was done."""
    if asked.model == "logistic":
        advice = "; --model softmax takes several classes, linear takes numbers"
        codes, (zero, one) = data_file.coded(y, 2, advice)
        return codes, (), f"class {one!r} is 1, {zero!r} is 0"
    if asked.model == "softmax":
        advice = "; --model linear takes numbers"
        codes, classes = data_file.coded(y, data_file.MOST_CLASSES, advice)
        return codes, classes, f"{len(classes)} classes: {', '.join(classes[:12])}"
    for value in y.tolist():
        if not data_file.is_number(value) or not math.isfinite(float(value)):
            raise ConfigError(
                f"the response of {asked.data} must hold finite numbers for --model linear; got "
                f"{str(value)!r}"
            )
    return y.astype(float), (), "the response is a number"


def _model(
    asked: Asked, data: Dataset, num_weights: int, scale: float
) -> tuple[ewsg.Posterior, str]:
    """Return the posterior, and what it is in words; the response was divided by `scale`."""
    words = (
        f"{asked.model} regression, prior N(0, {asked.prior_scale:.4g}² I) on {num_weights} weights"
    )
    if asked.prior_scale == math.inf:
        words = f"{asked.model} regression, flat prior on {num_weights} weights"
    model = getattr(ewsg.models, f"{asked.model}_regression")
    if asked.model != "linear":
        return model(prior_scale=asked.prior_scale), words
    if asked.noise_scale is None:
        noise, origin = _residual_scale(data), "that of the residuals of least squares"
    else:
        noise, origin = asked.noise_scale / scale, "as given"
    posterior = model(noise_scale=noise, prior_scale=asked.prior_scale)
    return posterior, f"{words}; noise scale {noise * scale:.4g}, {origin}"


def _residual_scale(data: Dataset) -> float:
    """Return the standard deviation of what least squares leave, an error where it is nothing."""
    weights, _, rank, _ = np.linalg.lstsq(data.x, data.y, rcond=None)
    freedom = data.num_rows - int(rank)
    left = float(np.sum((data.y - data.x @ weights) ** 2))
    if freedom < 1 or left <= NOTHING**2 * float(np.sum(data.y**2)):
        raise ConfigError(
            f"--noise-scale is missing: least squares leave no residuals of {data.num_rows} rows "
            f"and {data.x.shape[1]} weights that could say it"
        )
    return math.sqrt(left / freedom)


def hints() -> dict[str, Any]:
    """Return the annotations of the keys of `[plan]`, which say what each takes."""
    return get_type_hints(Asked, include_extras=True)


def plan(asked: Asked, output: Path | None, console: Console) -> int:
    """Plan a run, print the plan, and make the run where there is a folder for it; return the exit
    status.
    """
    asked, problem = prepare(asked)
    folder = None if output is None else Folder(output)
    made = _made(asked, problem, console)
    problem = dataclasses.replace(problem, start=made.start, mode=made.mode)
    status = OK if made.is_trusted else DOUBTFUL
    kernel, trust, price = answer.of_plan(made, problem)
    for line in [kernel, trust, price, *answer.gaussian_of(made, problem)]:
        console.answer(line)
    console.say(f"\n{answer.with_names(str(made), problem)}\n")
    if folder is None:
        return status
    run = Plan(
        number=1,
        method=MethodConfig(NAME, NAME, {"kernel": answer.kernel_of(made)}),
        kernel=made.kernel,
        num_chains=asked.num_chains,
        num_draws=DRAWS,
        num_steps=answer.steps_of(made, asked.ess),
        burn_in=made.burn_in,
        tolerance=asked.tolerance,
    )
    title = f"{Path(asked.data).stem}: {asked.model} regression"
    job = Job(title, "", asked.seed, text_of(asked), problem, [run], (kernel, trust, price))
    return max(status, carry_out(job, folder, console))


def _made(asked: Asked, problem: Regression, console: Console) -> ewsg.Plan:
    # The plan's own key is none of a run's.
    key = jax.random.fold_in(keys_of(asked.seed, 0)[0], 1)
    try:
        with warnings.catch_warnings():
            # What a plan warns of is the first line of the answer.
            warnings.simplefilter("ignore", RuntimeWarning)
            return ewsg.plan(
                key,
                problem.posterior,
                problem.start,
                problem.train,
                tolerance=asked.tolerance,
                num_chains=asked.num_chains,
                max_passes=asked.max_passes,
                progress=console.shows_progress,
            )
    except np.linalg.LinAlgError as error:
        raise ConfigError(
            f"{asked.data}: the posterior has no widths that 32 bits hold ({error}): features may "
            "depend on each other, or be of unlike sizes; take a smaller --prior-scale, or leave "
            "--standardise as it is"
        ) from error
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{asked.data}: {error}") from error
