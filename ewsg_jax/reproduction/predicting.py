"""Methods that are judged by what they predict: runs at equal passes, and held-out scores along them.

`measured` runs a kernel on a `problem` at a budget, and judges predictions by `metrics` and draws by `check`;
`tuning` picks options for every method alike.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ewsg_jax._kernel import Kernel
from ewsg_jax._types import Key
from ewsg_jax.experiments import counted
from ewsg_jax.experiments.config import Method, Run
from ewsg_jax.experiments.tables import ConfigError
from ewsg_jax.methods import METHODS
from ewsg_jax.posterior import Posterior
from ewsg_jax.reproduction.experiment import Numbers
from ewsg_jax.reproduction.judging import checked, lost, scores, short
from ewsg_jax.reproduction.problem import Budget, Problem
from ewsg_jax.rows.gathering import num_rows
from ewsg_jax.sampling import Samples, sample
from ewsg_jax.sampling.budget import steps_reaching, steps_within


@dataclass(frozen=True)
class _Plan:
    """What `counted` wants to know."""

    label: str
    kernel: Kernel
    num_chains: int


def kernel_of(method: Method, posterior: Posterior, **changed: Any) -> Kernel:
    """Return a method's kernel of a posterior, with its own options or some of them changed."""
    return METHODS[method.name].build(posterior, **{**method.options, **changed})


def run(key: Key, kernel: Kernel, problem: Problem, budget: Budget, **options: Any) -> Any:
    """Return samples of a kernel, or of a stack of kernels, at a budget; lost chains are no news.

    Steps that cost what they turn out to (`flymc`) are counted in a run ahead.

    Args:
        key: a typed PRNG key.
        kernel: which.
        problem: of what.
        budget: how long.
        **options: of `ewsg_jax.sample`, such as `shared_minibatch`.

    Raises:
        ConfigError: the budget allows no step.
    """
    cost, n = kernel.evaluations(problem.train), num_rows(problem.train)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        if cost.counted:
            wanted = Run(budget.num_chains, budget.data_passes, budget.burn_in_passes)
            plan = _Plan(repr(kernel), kernel, budget.num_chains)
            num_steps, burn_in = counted.steps(key, plan, problem, wanted)
        else:
            num_steps = steps_within(cost, n, budget.data_passes)
            burn_in = steps_reaching(cost, n, budget.burn_in_passes)
        if num_steps <= burn_in:
            raise ConfigError(f"{kernel!r}: {budget.data_passes:g} passes keep no draw")
        thin = max(1, (num_steps - burn_in) // budget.num_draws)
        given: dict[str, Any] = {"num_chains": budget.num_chains, "thin": thin} | options
        # The last draw is that of the last step.
        burn_in = num_steps - thin * ((num_steps - burn_in) // thin)
        return sample(key, kernel, problem.start, problem.train, num_steps, burn_in=burn_in, **given)


def measured(
    key: Key, kernel: Kernel, problem: Problem, budget: Budget, judged: bool = True, **options: Any
) -> Numbers:
    """Run a kernel, and return what its predictions and draws are worth.

    Args:
        key: a typed PRNG key.
        kernel: which.
        problem: of what, with metrics.
        budget: how long.
        judged: whether draws are checked against the posterior too.
        **options: of `ewsg_jax.sample`.

    Returns:
        `passes`; for each metric `NAME` its `mean` and `sd` over repeats along them, and of each repeat the `last`;
        `evaluations` of all chains, `per_step` of one, `seconds`, `compile_seconds`, repeats that were `lost`, and
        what `check` says.
    """
    return numbers_of(key, run(key, kernel, problem, budget, **options), problem, budget, judged)


def numbers_of(key: Key, samples: Samples, problem: Problem, budget: Budget, judged: bool = True) -> Numbers:
    """Return what `measured` does, of a run that there is, such as a member of a stack."""
    numbers: Numbers = {"passes": short(samples.evaluations / samples.num_data)}
    for name, values in scores(samples, problem, budget).items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            mean, sd = np.nanmean(values, 0), np.nanstd(values, 0)
        numbers[name] = {"mean": short(mean), "sd": short(sd), "last": short(values[:, -1])}
    numbers |= {
        "evaluations": int(samples.gradient_evaluations),
        "per_step": float(f"{samples.data_passes * samples.num_data / samples.num_steps:.4g}"),
        "seconds": round(samples.run_seconds, 2),
        "compile_seconds": round(samples.compile_seconds, 2),
        "lost": int(lost(samples, budget).sum()),
    }
    return numbers | ({"check": checked(key, samples, problem)} if judged else {})
