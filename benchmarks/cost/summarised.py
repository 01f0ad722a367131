"""Measure a summary of many draws against the run that made them, and write it as JSON.

    python -m benchmarks.cost.summarised

A Bayesian linear regression of 88 weights on 900 rows is planned and run by eight chains. A run
that keeps as many draws at a larger `thin` makes as many times the steps; its seconds are those of
the steps that were timed, times their number.
"""

import sys
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.timing import Target, machine, summarise, verdict

TENTH = Target(0.1, 0.1, False)
ROWS, SIZE, NUM_CHAINS = 900, 88, 8
DRAWS, TIMED_STEPS = 1_000_000, 125_000
THINS = (1, 5, 25)
PROTOCOL = (
    "Seconds of diagnostics.summary of a million draws of 88 numbers, eight chains, and of the run "
    "that keeps them at each thin: 125,000 steps are timed, and seconds go by steps. Compiling is "
    "not counted."
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    options = record.parser(__doc__, "summary_cost.json", pairs=3).parse_args(arguments)
    pairs, shorten = record.extent(options, pairs=3)
    before, rng = machine(), np.random.default_rng(0)
    x = rng.normal(size=(ROWS, SIZE))
    y = x @ rng.normal(size=SIZE) + rng.normal(size=ROWS)
    data = {"x": jnp.asarray(x, jnp.float32), "y": jnp.asarray(y, jnp.float32)}
    posterior = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=5.0)
    plan = ewsg.plan(jax.random.key(0), posterior, jnp.zeros(SIZE), data, progress=False)
    steps, took, ran = TIMED_STEPS // shorten, [], []
    for seed in range(pairs):
        samples = ewsg.sample(
            jax.random.key(seed),
            plan.kernel,
            plan.start,
            data,
            steps,
            num_chains=NUM_CHAINS,
            moments=ewsg.moments(steps="all"),
            progress=False,
        )
        ran.append(samples.run_seconds)
        began = time.perf_counter()
        summary = ewsg.diagnostics.summary(samples)
        took.append(time.perf_counter() - began)
        print(
            f"run {ran[-1]:.1f} s, summary {took[-1]:.1f} s, {summary.worst_rhat:.3f}", flush=True
        )
    share, results = DRAWS / (NUM_CHAINS * steps), []
    for thin in THINS:
        ratio = summarise([one / (thin * other) for one, other in zip(took, ran, strict=True)])
        results.append(
            {"what": f"summary / run at thin {thin}", "unit": "time ratio", "thin": thin}
            | {"measured": ratio._asdict()}
            | {"seconds of the summary": share * float(np.median(took))}
            | {"seconds of the run": thin * share * float(np.median(ran))}
            | verdict(ratio.median, TENTH)
        )
        print(f"thin {thin}: {ratio.median:.3f} of the run", flush=True)
    record.write(options, PROTOCOL, pairs, before, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
