"""`python -m ewsg_jax plan DATA`: how to sample the posterior of your own rows; and the run,
where it is to be written.

What is asked for, rows, a model and a run, is written to the folder of results as a table `[plan]`
of config.toml, from which `check` makes the same posterior again.
"""

import dataclasses
import json
import math
import warnings
from pathlib import Path
from typing import Any, get_type_hints

import jax
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.cli import answer
from ewsg_jax.cli.arguments import PlanArguments
from ewsg_jax.cli.config import ConfigError, MethodConfig, build, from_toml, refuse_unknown
from ewsg_jax.cli.console import Console, Exit
from ewsg_jax.cli.data_file import is_file
from ewsg_jax.cli.places import remember
from ewsg_jax.cli.plan import Job, PlannedRun, keys_of
from ewsg_jax.cli.problem import Regression, prepare
from ewsg_jax.cli.results import Folder
from ewsg_jax.cli.run import carry_out

MODELS = {
    "logistic": "logistic regression, for two classes",
    "softmax": "softmax regression, for several classes",
    "linear": "linear regression with normal noise, for numbers",
    "poisson": "Poisson regression, for counts",
    "negative_binomial": "negative binomial regression, for counts that vary more than Poisson's",
}
"""The built-in models of rows with a response, and what the response is."""
HELP = {
    "model": "; ".join(f"{name}: {about}" for name, about in MODELS.items()),
    "response": "the column of a table that is y (default: the last)",
    "drop": "leave a column out; may be repeated",
    "keep": "use a column that looks like an id; may be repeated",
    "categorical": "take the numbers of a column as levels; may be repeated",
    "reference": "COLUMN=LEVEL: what its other levels are compared with; may be repeated",
    "group": "a column of groups, each with an intercept of its own, whose sd is found too",
    "exposure": "of counts: a column of what they were counted in, such as days or people; what is "
    "modelled is the rate per unit of it",
    "missing": "rows with missing cells are left out (drop), or cells are filled and marked "
    "(indicator); default: they are an error",
    "na": "what stands for a missing cell, in addition to NA, N/A, NaN, null, ., -, ? and nothing; "
    "may be repeated",
    "decimal": "the decimal mark of numbers (default: as the file shows)",
    "encoding": "the encoding of the file (default: UTF-8)",
    "prior_scale": "sd of the normal prior on each weight (default: 1); inf: flat",
    "dispersion": "of a negative binomial model: overdispersion α, variance μ + αμ² (default: by "
    "maximum likelihood)",
    "noise_scale": "of a linear model: sd of y around its mean (default: that of the residuals of "
    "least squares)",
    "standardise": "whether features, and y of a linear model, are scaled to mean 0 and sd 1 "
    "(default: yes)",
    "intercept": "whether there is a column of ones (default: yes)",
    "tolerance": "how far off an sd may be, relatively (default: 0.05)",
    "num_chains": "chains of the run (default: 8)",
    "ess": "effective draws of the run (default: as many as the tolerance needs)",
    "max_passes": "passes over the data that each chain of a pilot run makes at most",
    "seconds": "seconds that planning takes at most (default: 90; with groups 300)",
    "seed": "of the plan and the run (default: 0)",
}
"""What each option is."""
NAME = "plan"
"""What the run is called: in draws.npz, for one."""


def arguments_of(table: dict[str, Any]) -> PlanArguments:
    """Return the arguments of these keys and values, checked; a value of None is left out."""
    return build(
        PlanArguments, {key: value for key, value in table.items() if value is not None}, "plan"
    )


def text_of(arguments: PlanArguments) -> str:
    """Return the text of config.toml."""
    lines = ["# Made by python -m ewsg_jax plan.", "[plan]"]
    for key, value in dataclasses.asdict(arguments).items():
        if value is not None and value != {}:
            lines.append(f"{key} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Return a value in TOML."""
    if isinstance(value, dict):
        inside = (f"{_toml(key)} = {_toml(item)}" for key, item in value.items())
        return f"{{{', '.join(inside)}}}"
    return "inf" if value == math.inf else json.dumps(value, ensure_ascii=False)


def with_config(path: Path | None, options: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of `[plan]` in a file, if any, replaced by options."""
    options = {key: value for key, value in options.items() if value is not None}
    if path is None:
        return options
    try:
        tables = from_toml(path.read_text(encoding="utf-8"))
        refuse_unknown(tables, [NAME], "")
        table = tables.get(NAME, {})
        refuse_unknown(table, hints(), NAME)
    except (ConfigError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    return table | options


def hints() -> dict[str, Any]:
    """Return the annotations of the keys of `[plan]`, which say what each takes."""
    return get_type_hints(PlanArguments, include_extras=True)


def plan(arguments: PlanArguments, output: Path | None, console: Console) -> int:
    """Plan a run, print the plan, and make the run if there is a folder for it; return the exit
    status.
    """
    arguments, problem = prepare(arguments)
    folder = None if output is None else Folder(output)
    planned = _planned(arguments, problem, console)
    problem = dataclasses.replace(problem, start=planned.start, mode=planned.mode)
    status = Exit.OK if planned.is_trusted else Exit.DOUBTFUL
    for line in [
        *answer.of_plan(planned, problem),
        *answer.gaussian_of(planned, problem),
    ]:
        console.answer(line)
    if folder is None:
        console.say("\n" + "\n".join(problem.description))
    console.say(f"\n{answer.with_names(str(planned), problem)}\n")
    if folder is None:
        console.say("--output FOLDER makes this run, checks it, and writes report.html with more")
        return status
    num_steps, full = (answer.steps_of(planned, ess) for ess in (arguments.ess, None))
    run = PlannedRun(
        number=1,
        method=MethodConfig(NAME, NAME, {"kernel": answer.kernel_of(planned)}),
        kernel=planned.kernel,
        num_chains=arguments.num_chains,
        # Effective draws cannot be more than draws; a thousand of a chain show its shape.
        num_draws=max(1_000, math.ceil(planned.ess / arguments.num_chains)),
        num_steps=num_steps,
        burn_in=planned.burn_in,
        tolerance=arguments.tolerance,
        deciding_steps=full if planned.is_trusted else 0,
        doublings=3 if planned.is_trusted else 0,
    )
    title = f"{Path(arguments.data).stem}: {arguments.model.replace('_', ' ')} regression"
    written = arguments
    if is_file(arguments.data):
        remember(Path(arguments.data), arguments.checksum)
        written = dataclasses.replace(arguments, data=Path(arguments.data).name)
    job = Job(title, "", arguments.seed, text_of(written), problem, [run])
    return max(status, carry_out(job, folder, console))


def _planned(arguments: PlanArguments, problem: Regression, console: Console) -> ewsg.Plan:
    # The plan's own key is none of a run's.
    key = jax.random.fold_in(keys_of(arguments.seed, 0)[0], 1)
    try:
        with warnings.catch_warnings():
            # What a plan warns of is the first line of the answer.
            warnings.simplefilter("ignore", RuntimeWarning)
            return ewsg.plan(
                key,
                problem.posterior,
                problem.start,
                problem.train,
                tolerance=arguments.tolerance,
                num_chains=arguments.num_chains,
                max_passes=arguments.max_passes,
                # A hierarchy is warmed up, by windows that take their time.
                seconds=arguments.seconds or (300.0 if arguments.group else None),
                progress=console.shows_progress,
            )
    except np.linalg.LinAlgError as error:
        raise ConfigError(
            f"{arguments.data}: the posterior has no widths that 32 bits hold ({error}): features "
            "may depend on each other, or be of very different sizes; take a smaller "
            "--prior-scale, or leave --standardise as it is"
        ) from error
    except ValueError as error:
        raise ConfigError(f"{arguments.data}: {error}") from error
