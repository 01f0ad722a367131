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
from ewsg_jax.cli.config import ConfigError, MethodConfig, build
from ewsg_jax.cli.console import Console, Exit
from ewsg_jax.cli.plan import Job, PlannedRun, keys_of
from ewsg_jax.cli.problem import PlanArguments, Regression, prepare
from ewsg_jax.cli.results import Folder
from ewsg_jax.cli.run import carry_out

MODELS = {
    "logistic": "logistic regression, for two classes",
    "softmax": "softmax regression, for several classes",
    "linear": "linear regression with normal noise, for numbers",
}
"""The built-in models of rows with a response, and what the response is."""
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
    "max_passes": "passes over the data that each chain of a pilot run makes at most",
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
        if value is not None:
            said = "inf" if value == math.inf else json.dumps(value, ensure_ascii=False)
            lines.append(f"{key} = {said}")
    return "\n".join(lines) + "\n"


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
    console.say(f"\n{answer.with_names(str(planned), problem)}\n")
    if folder is None:
        return status
    run = PlannedRun(
        number=1,
        method=MethodConfig(NAME, NAME, {"kernel": answer.kernel_of(planned)}),
        kernel=planned.kernel,
        num_chains=arguments.num_chains,
        num_draws=1_000,
        num_steps=answer.steps_of(planned, arguments.ess),
        burn_in=planned.burn_in,
        tolerance=arguments.tolerance,
    )
    title = f"{Path(arguments.data).stem}: {arguments.model} regression"
    job = Job(title, "", arguments.seed, text_of(arguments), problem, [run])
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
