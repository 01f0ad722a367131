"""Measure plan and run beside NumPyro's NUTS, compiling included, and write it as JSON.

    python -m benchmarks.cost.plan_time

Each model in both ways, a new process each, in turn: `plan` and `sample` for 1,000 effective draws
of 8 chains; NUTS with 4 vectorised chains, its own warm-up of 1,000 steps, until the least ESS over
all coordinates is 1,000. The machine's other work counts in seconds, so that the seconds of
the process's own processor time stand beside them; ratios are of both.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import record
from benchmarks.timing import machine

ESS, CHAINS, WARM_UP, AT_ONCE, LIMIT = 1_000.0, 4, 1_000, 250, 280.0
PROTOCOL = (
    "Seconds from data to draws, in a new process each, imports left out; [wall clock, processor "
    "time]. A run that takes more than 280 s ends there."
)
Density = Callable[[Any, Any], jax.Array]


class Model(NamedTuple):
    """A posterior: log likelihood of a row, log prior, the start and the rows."""

    log_likelihood: Density
    log_prior: Callable[[Any], jax.Array]
    start: dict[str, jax.Array]
    rows: dict[str, jax.Array]


def normal(x: jax.Array, scale: float = 1.0) -> jax.Array:
    """Return the log density of N(0, scale²), summed, without its constant."""
    return -0.5 * jnp.sum((x / scale) ** 2)


def hidden_markov() -> Model:
    """Return two states, 200 pairs of observations: the forward algorithm, one row."""
    rng = np.random.default_rng(1)
    states, stay = [0], (0.9, 0.95)
    for _ in range(199):
        states.append(states[-1] if rng.random() < stay[states[-1]] else 1 - states[-1])
    z = np.array(states)
    u = np.array([0.2, 0.6])[z] + 0.3 * rng.normal(size=200)
    v = np.array([1.5, 0.5])[z] + 1.0 * rng.normal(size=200)

    def log_likelihood(p: Any, row: Any) -> jax.Array:
        low_u = p["u"][0]
        mean_u = jnp.stack([low_u, low_u + jnp.exp(p["u"][1])])
        scales = jnp.exp(p["scale"])
        emission = (
            -0.5 * ((row["u"][:, None] - mean_u) / scales[0]) ** 2
            - 0.5 * ((row["v"][:, None] - p["v"]) / scales[1]) ** 2
            - jnp.sum(p["scale"])
        )
        stay, leave = jax.nn.log_sigmoid(p["stay"]), jax.nn.log_sigmoid(-p["stay"])
        moves = jnp.stack([jnp.stack([stay[0], leave[0]]), jnp.stack([leave[1], stay[1]])])

        def forward(log_alpha: jax.Array, e: jax.Array) -> tuple[jax.Array, None]:
            return jax.nn.logsumexp(log_alpha[:, None] + moves, axis=0) + e, None

        last, _ = jax.lax.scan(forward, emission[0], emission[1:])
        return jax.nn.logsumexp(last)

    def log_prior(p: Any) -> jax.Array:
        apart = p["u"][1] - 0.5 * jnp.exp(2 * p["u"][1])
        ends = jnp.sum(9 * jax.nn.log_sigmoid(p["stay"]) + 2 * jax.nn.log_sigmoid(-p["stay"]))
        return normal(p["u"][0]) + apart + normal(p["v"], 3.0) + normal(p["scale"]) + ends

    start = {"u": jnp.zeros(2), "v": jnp.zeros(2), "scale": jnp.zeros(2), "stay": jnp.zeros(2)}
    rows = {"u": jnp.asarray(u[None], jnp.float32), "v": jnp.asarray(v[None], jnp.float32)}
    return Model(log_likelihood, log_prior, start, rows)


def item_response() -> Model:
    """Return a two-parameter logistic model: 100 people, 20 items, 2,000 answers, d = 144."""
    rng = np.random.default_rng(2)
    ability, easy = rng.normal(size=100), 0.8 * rng.normal(size=20)
    slope = np.exp(0.4 * rng.normal(size=20))
    person, item = np.repeat(np.arange(100), 20), np.tile(np.arange(20), 100)
    chance = 1 / (1 + np.exp(-slope[item] * (ability[person] - easy[item])))
    y = rng.random(2_000) < chance

    def log_likelihood(p: Any, row: Any) -> jax.Array:
        a = jnp.exp(p["log_a"][row["item"]])
        logit = a * (p["ability"][row["person"]] - p["b"][row["item"]])
        return row["y"] * logit - jax.nn.softplus(logit)

    def log_prior(p: Any) -> jax.Array:
        scales = jnp.exp(p["log_scale"])
        items = -0.5 * jnp.sum(((p["b"] - p["mean"][0]) / scales[0]) ** 2) - 20 * p["log_scale"][0]
        slopes = -0.5 * jnp.sum(((p["log_a"] - p["mean"][1]) / scales[1]) ** 2)
        slopes -= 20 * p["log_scale"][1]
        hyper = normal(p["mean"]) - 0.5 * jnp.sum(scales**2) + jnp.sum(p["log_scale"])
        return normal(p["ability"]) + items + slopes + hyper

    start = {
        "ability": jnp.zeros(100),
        "b": jnp.zeros(20),
        "log_a": jnp.zeros(20),
        "mean": jnp.zeros(2),
        "log_scale": jnp.zeros(2),
    }
    rows = {
        "person": jnp.asarray(person, jnp.int32),
        "item": jnp.asarray(item, jnp.int32),
        "y": jnp.asarray(y, jnp.float32),
    }
    return Model(log_likelihood, log_prior, start, rows)


def capture() -> Model:
    """Return a closed population seen on 5 days: 385 individuals of which many may not exist, an
    effect each; d = 388.
    """
    rng = np.random.default_rng(3)
    exists = np.arange(385) < 190
    p = 1 / (1 + np.exp(-(-0.8 + 0.9 * rng.normal(size=385))))
    seen = np.sort(rng.binomial(5, p) * exists)[::-1].copy()

    def log_likelihood(p: Any, row: Any) -> jax.Array:
        logit = p["mean"] + jnp.exp(p["log_scale"]) * p["effect"][row["i"]]
        of_days = row["seen"] * logit - 5 * jax.nn.softplus(logit)
        is_there, is_not = jax.nn.log_sigmoid(p["share"]), jax.nn.log_sigmoid(-p["share"])
        never = jnp.logaddexp(is_there - 5 * jax.nn.softplus(logit), is_not)
        return jnp.where(row["seen"] > 0, is_there + of_days, never)

    def log_prior(p: Any) -> jax.Array:
        share = jax.nn.log_sigmoid(p["share"]) + jax.nn.log_sigmoid(-p["share"])
        scale = -0.5 * jnp.exp(2 * p["log_scale"]) / 4 + p["log_scale"]
        return normal(p["effect"]) + normal(p["mean"], 1.5) + share + scale

    start = {
        "effect": jnp.zeros(385),
        "mean": jnp.zeros(()),
        "log_scale": jnp.zeros(()),
        "share": jnp.zeros(()),
    }
    rows = {"i": jnp.arange(385), "seen": jnp.asarray(seen, jnp.float32)}
    return Model(log_likelihood, log_prior, start, rows)


MODELS = {"hidden Markov": hidden_markov, "item response": item_response, "capture": capture}


def _least_ess(draws: Any) -> float:
    """Return the least effective sample size of all coordinates, of draws (chain, draw, …)."""
    from numpyro.diagnostics import effective_sample_size

    return min(float(np.min(effective_sample_size(x))) for x in jax.tree.leaves(draws))


def ours(model: Model) -> dict[str, Any]:
    """Return what a plan and its run took, and what they say."""
    import ewsg_jax as ewsg

    posterior = ewsg.Posterior(model.log_likelihood, model.log_prior)
    keys = jax.random.split(jax.random.key(0), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plan = ewsg.plan(keys[0], posterior, model.start, model.rows, progress=False)
        samples = ewsg.sample(
            keys[1],
            plan.kernel,
            plan.start,
            model.rows,
            **plan.sample_options(ess=ESS),
            progress=False,
        )
    return {
        "kernel": str(plan.kernel)[:60],
        "is_trusted": plan.is_trusted,
        "doubts": list(plan.doubts),
        "notes": list(plan.notes),
        "plan_seconds": plan.seconds_spent,
        "run_seconds": [samples.compile_seconds, samples.run_seconds],
        "ess": _least_ess(jax.tree.map(np.asarray, samples.draws)),
    }


def nuts(model: Model) -> dict[str, Any]:
    """Return how many draws of NUTS have that many effective ones."""
    from numpyro.infer import MCMC, NUTS

    def potential(p: Any) -> jax.Array:
        rows = jax.vmap(model.log_likelihood, in_axes=(None, 0))(p, model.rows)
        return -jnp.sum(rows) - model.log_prior(p)

    mcmc = MCMC(
        NUTS(potential_fn=potential),
        num_warmup=WARM_UP,
        num_samples=AT_ONCE,
        num_chains=CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    start = jax.tree.map(
        lambda x: 0.1 * jax.random.normal(jax.random.key(1), (CHAINS, *x.shape)), model.start
    )
    mcmc.run(jax.random.key(2), init_params=start)
    draws = [mcmc.get_samples(group_by_chain=True)]
    began = time.perf_counter()
    while True:
        joined = jax.tree.map(lambda *x: np.concatenate(x, axis=1), *draws)
        ess = _least_ess(joined)
        if ess >= ESS or time.perf_counter() - began > LIMIT:
            break
        mcmc.post_warmup_state = state = mcmc.last_state
        assert state is not None
        mcmc.run(state.rng_key)
        draws.append(mcmc.get_samples(group_by_chain=True))
    return {"ess": ess, "draws": AT_ONCE * len(draws)}


SIDES = {"ours": ours, "nuts": nuts}


def measured(name: str, side: str) -> dict[str, Any]:
    """Return what one side took in a new process."""
    command = [sys.executable, "-m", "benchmarks.cost.plan_time", "--one", name, side]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"seconds": [LIMIT, float("nan")], "error": "took too long"}
    if done.returncode:
        return {"seconds": [float("nan")] * 2, "error": done.stderr.strip().splitlines()[-1:]}
    return json.loads(done.stdout.splitlines()[-1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    parser = record.parser(__doc__, "plan_time.json", 1)
    parser.add_argument("--only", type=record.names(MODELS), default=list(MODELS))
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.one:
        model, side = MODELS[options.one[0]](), SIDES[options.one[1]]
        began, used = time.perf_counter(), time.process_time()
        measurement = side(model)
        taken = [time.perf_counter() - began, time.process_time() - used]
        print(json.dumps({"seconds": taken, **measurement}))
        return 0
    before, rows = machine(), []
    for name in options.only:
        measurements = {side: measured(name, side) for side in SIDES}
        ours_took, nuts_took = (np.array(measurements[side]["seconds"]) for side in SIDES)
        rows.append({"model": name, "ratio": (ours_took / nuts_took).tolist(), **measurements})
        print(name, rows[-1]["ratio"])
        for side in SIDES:
            print("   ", side, measurements[side])
    written = {"protocol": PROTOCOL, "machine": before, "results": rows}
    options.out.write_text(json.dumps(written, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
