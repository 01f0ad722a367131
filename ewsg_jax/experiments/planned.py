"""`python -m ewsg_jax plan DATA`: how to sample the posterior of your own rows; and the run,
where it is to be written.
"""

import dataclasses
import warnings
from pathlib import Path

import jax
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.experiments import answer
from ewsg_jax.experiments.asked import Asked, prepare, text_of
from ewsg_jax.experiments.config import ConfigError, MethodConfig
from ewsg_jax.experiments.console import DOUBTFUL, OK, Console
from ewsg_jax.experiments.plan import Job, Plan, keys_of
from ewsg_jax.experiments.problem import Regression
from ewsg_jax.experiments.results import Folder
from ewsg_jax.experiments.run import carry_out

NAME = "plan"
"""What the run is called: in draws.npz, for one."""
DRAWS = 1_000
"""Draws of a chain that are kept, at least."""


def plan(asked: Asked, output: Path | None, console: Console) -> int:
    """Plan a run, print the plan, and make the run where there is a folder for it; return the exit
    status.

    Raises:
        ConfigError: the rows do not go with the model, or nothing fits.
        OSError, ImportError: a file, a folder or a package is missing or not as it must be.
    """
    asked, problem = prepare(asked)
    folder = None if output is None else Folder(output)
    made = _made(asked, problem, console)
    problem = dataclasses.replace(problem, start=made.start, mode=made.mode)
    status = OK if made.is_trusted else DOUBTFUL
    kernel, trust, price = answer.of_plan(made, problem)
    console.answer(kernel)
    console.answer(trust, status)
    for line in [price, *answer.gaussian_of(made, problem)]:
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
