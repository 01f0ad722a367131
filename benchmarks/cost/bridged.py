"""Measure a bridged NumPyro model beside the same densities written by hand, and write it as JSON.

    python -m benchmarks.cost.bridged

A logistic regression of 50,000 rows and 20 columns: steps of SGHMC of 1 and 100 chains in
interleaved pairs, compiled before, and one `plan` of each, compiling included.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.timing import Pair, Target, interleave, machine

ROWS, COLUMNS, BATCH, STEPS, PAIRS = 50_000, 20, 256, 20_000, 9
STEP, PLAN = Target(1.05, 1.3, higher_is_better=False), Target(1.05, 1.3, higher_is_better=False)
KEY = jax.random.key(0)
PROTOCOL = (
    "Steps: microseconds of compiled runs of sample, in interleaved pairs. Plans: processor time, "
    "compiling included, each pair of new posteriors."
)


def model(x: Any, y: Any = None) -> None:
    """The NumPyro model."""
    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([x.shape[1]]).to_event(1))
    with numpyro.plate("rows", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


def by_hand() -> ewsg.Posterior:
    """The same densities, of one row."""

    def log_likelihood(p: Any, row: Any) -> jax.Array:
        logit = row["x"] @ p["w"]
        return jax.nn.log_sigmoid(jnp.where(row["y"] == 1, logit, -logit))

    def log_prior(p: Any) -> jax.Array:
        return -0.5 * jnp.sum(p["w"] ** 2)

    return ewsg.Posterior(log_likelihood, log_prior)


def seconds(call: Callable[[], object]) -> float:
    """Return how long a call takes, by processor time, on which other work counts less."""
    start = time.process_time()
    jax.block_until_ready(call())
    return time.process_time() - start


def step_ratio(
    sides: Sequence[Any], start: Any, data: Any, chains: int, pairs: int, steps: int
) -> list[Pair]:
    """Return pairs of seconds of runs of both posteriors."""

    def run(posterior: Any) -> Callable[[], float]:
        kernel = ewsg.sghmc(posterior, 1e-3, batch_size=BATCH, friction=10.0)

        def call() -> float:
            options = {"num_chains": chains, "thin": steps, "progress": False}
            samples = ewsg.sample(KEY, kernel, start, data, steps, **options)
            return samples.run_seconds

        call()
        return call

    return interleave(run(sides[0]), run(sides[1]), pairs)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    options = record.parser(__doc__, "bridged.json", PAIRS).parse_args(arguments)
    pairs, shorten = record.extent(options, PAIRS)
    warnings.simplefilter("ignore")  # of plans on a busy machine
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    y = (random.random(ROWS) < 1 / (1 + np.exp(-x @ random.normal(size=COLUMNS)))).astype(np.int32)
    before, begin = machine(), time.process_time()
    bridged = ewsg.from_numpyro(model, x, y)
    took = time.process_time() - begin
    data = jax.tree.map(jnp.asarray, bridged.data)
    sides = bridged.posterior, by_hand()
    names = "bridged", "by hand"
    results = []
    for chains in (1, 100):
        steps = STEPS // (shorten * (1 if chains == 1 else 40))
        measured = step_ratio(sides, bridged.position, data, chains, pairs, steps)
        per_step = [Pair(*(1e6 * taken / steps for taken in pair)) for pair in measured]
        results.append(record.row(f"a step of {chains} chains", per_step, STEP, names))
        print(record.told(results[-1]), flush=True)

    def plan(posterior: Any) -> float:
        return seconds(
            lambda: ewsg.plan(KEY, posterior, bridged.position, data, progress=False).start
        )

    plans = [
        Pair(1e6 * plan(ewsg.from_numpyro(model, x, y).posterior), 1e6 * plan(by_hand()))
        for _ in range(1 if options.quick else 3)
    ]
    results.append(record.row("a plan, its first compiled", plans, PLAN, names))
    print(record.told(results[-1]), flush=True)
    record.write(options, PROTOCOL, pairs, before, results, from_numpyro_seconds=round(took, 2))


if __name__ == "__main__":
    main()
