"""NumPyro's NUTS of rows that are too many for it, for `answers.py`: gradients timed, their number
another case's.

How many gradients a warm-up and an effective sample size take is what the same model took with
fewer rows of each group (the case's `pilot`), as if more rows asked for no more of them.
"""

import json
import time
from typing import Any

import jax

from benchmarks import record
from benchmarks.answers.case import Data, Grouped
from benchmarks.answers.nuts import as_it_comes, near
from benchmarks.answers.ours import ESS, Answer, Clock

FEWEST, MOST, ENOUGH_SECONDS = 5, 50, 15.0
"""Gradients that are timed, at least and at most, and after how many seconds there are enough."""


def estimated(case: Grouped, data: Data, num_chains: int) -> dict[str, Answer]:
    """Time gradients of all chains at once, and multiply the quickest by the pilot's number of
    them.
    """
    name = as_it_comes(num_chains)
    stored = json.loads((record.RESULTS / "answers.json").read_text())["cases"]
    pilot = stored.get(case.pilot, {}).get(name)
    if pilot is None:
        raise ValueError(
            f"{case.name} is estimated by {case.pilot}, which must be answered before: {name}"
        )
    clock = Clock()

    def slope(position: Any, data: Data) -> Any:
        return jax.grad(lambda p: -case.log_density(p, data))(position)

    gradient = jax.jit(slope if num_chains == 1 else jax.vmap(slope, (0, None)))
    at = near(case.start, num_chains)
    jax.block_until_ready(gradient(at, data))
    clock.tick("compile")
    taken: list[float] = []
    while len(taken) < FEWEST or (sum(taken) < ENOUGH_SECONDS and len(taken) < MOST):
        began = time.perf_counter()
        jax.block_until_ready(gradient(at, data))
        taken.append(time.perf_counter() - began)
    clock.tick("gradients")
    each, times = min(taken), pilot["gradients_in_step"]
    says = (
        f"estimated: {times:.0f} gradients, as of {case.pilot} to ESS {ESS}, at "
        f"{1e3 * each:.0f} ms each"
    )
    told = {"seconds": clock.parts["compile"] + times * each, "passes": float(times * num_chains)}
    return {
        name: Answer(
            None,
            None,
            1.0 + len(taken),
            clock.parts,
            says,
            told,
            {"gradient_seconds": each} | clock.told(),
        )
    }
