"""Is the local learning coefficient of a network right within its errors, with minibatches?

    EWSG_JAX_DATA=… python -m benchmarks.learning_coefficient_network

A network 196-50-10 (10,360 weights) on 20,000 digits of MNIST at 14 × 14, trained by Adam, with
γ = 100. The reference is BAOAB with full gradients at two step sizes. Ten runs with a step and
batches of 512 chosen by hand, so that there is a bias, and SGLD with the same batches at three
rates of devinterp, ε = 2hT. Numbers go to `results/learning_coefficient_network.json`.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import ewsg_jax as ewsg
from benchmarks import data_sets
from benchmarks.record import RESULTS
from benchmarks.timing import load_average

ROWS, HIDDEN, LOCALIZATION, BATCH_SIZE = 20_000, 50, 100.0, 512
"""Rows; hidden units; γ, at which chains stay near w*; rows of a batch, so few that its noise
biases the value by a sixth. By hand."""
TEMPERATURE = float(np.log(ROWS))


def digits() -> dict[str, jax.Array]:
    """Return the rows: mean grey values of 2 × 2 pixels, standardised together, and labels."""
    stored = data_sets.load("mnist")
    pixels = np.asarray(stored.x[:ROWS], np.float32).reshape(-1, 14, 2, 14, 2)
    x = pixels.mean((2, 4)).reshape(ROWS, 196)
    x = (x - x.mean()) / x.std()
    return {"x": jnp.asarray(x), "y": jnp.asarray(stored.y[:ROWS], jnp.int32)}


def log_likelihoods(w: Any, rows: Any) -> jax.Array:
    """Return the log density of each row."""
    hidden = jax.nn.relu(rows["x"] @ w["a"] + w["b"])
    log_probabilities = jax.nn.log_softmax(hidden @ w["c"] + w["d"])
    return jnp.take_along_axis(log_probabilities, rows["y"][:, None], 1)[:, 0]


def trained(data: Any, epochs: int = 30, batch_size: int = 100) -> dict[str, jax.Array]:
    """Return weights after training by Adam with a cosine schedule."""
    first, last = jax.random.split(jax.random.key(0))
    weights = {
        "a": jax.random.normal(first, (196, HIDDEN)) / 14,
        "b": jnp.zeros(HIDDEN),
        "c": jax.random.normal(last, (HIDDEN, 10)) / 7,
        "d": jnp.zeros(10),
    }
    schedule = optax.cosine_decay_schedule(2e-3, epochs * ROWS // batch_size)
    optimiser = optax.adam(schedule)

    @jax.jit
    def epoch(weights: Any, state: Any, key: jax.Array, data: Any) -> Any:
        def step(carry: Any, places: jax.Array) -> Any:
            weights, state = carry
            batch = jax.tree.map(lambda leaf: leaf[places], data)
            gradient = jax.grad(lambda w: -log_likelihoods(w, batch).mean())(weights)
            updates, state = optimiser.update(gradient, state)
            return (optax.apply_updates(weights, updates), state), None

        order = jax.random.permutation(key, ROWS).reshape(-1, batch_size)
        return jax.lax.scan(step, (weights, state), order)[0]

    state = optimiser.init(weights)
    for number in range(epochs):
        weights, state = epoch(weights, state, jax.random.key(number + 1), data)
    return weights


def by_kernel(kernel: Any, weights: Any, data: Any, num_steps: int, thin: int) -> dict[str, Any]:
    """Return λ̂ of four chains of a kernel, with its error over chains."""
    began = time.perf_counter()
    at_weights = log_likelihoods(weights, data)

    def coefficient(w: Any, rows: Any) -> jax.Array:
        return jnp.sum(at_weights - log_likelihoods(w, rows)) / TEMPERATURE

    options = {"num_chains": 4, "burn_in": num_steps // 4, "thin": thin, "progress": False}
    samples = ewsg.sample(jax.random.key(7), kernel, weights, data, num_steps, **options)
    values = np.asarray(samples.predict(coefficient, data, keep_draws=True), float)
    error = values.mean(1).std(ddof=1) / 2
    return {
        "value": round(float(values.mean()), 2),
        "error_over_chains": round(float(error), 2),
        "seconds": round(time.perf_counter() - began),
    }


def main() -> None:
    """Run all and write it down."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS / "learning_coefficient_network.json")
    options = parser.parse_args()
    written: dict[str, Any] = {"load_average_before": load_average()}
    data = digits()
    weights = trained(data)

    def log_prior(w: Any) -> jax.Array:
        squares = jax.tree.map(lambda a, b: jnp.sum((a - b) ** 2), w, weights)
        return -TEMPERATURE * LOCALIZATION / 2 * jnp.stack(jax.tree.leaves(squares)).sum()

    posterior = ewsg.Posterior(batched_log_likelihood=log_likelihoods, log_prior=log_prior)
    written["reference"] = []
    for step_size, num_steps, thin in ((0.003, 400, 10), (0.0015, 800, 20)):
        scheme = ewsg.dynamics.splitting_scheme(
            "BAOAB",
            step_size,
            friction=2 * (LOCALIZATION * TEMPERATURE) ** 0.5,
            temperature=TEMPERATURE,
        )
        kernel = ewsg.kernel(scheme, ewsg.gradients.full(posterior))
        row = by_kernel(kernel, weights, data, num_steps, thin)
        written["reference"].append({"step_size": step_size} | row)
        print(written["reference"][-1], flush=True)
    written["sgld"] = []
    for rate in (1e-3, 3e-4, 1e-4):
        kernel = ewsg.sgld(
            posterior, rate / 2 / TEMPERATURE, batch_size=BATCH_SIZE, temperature=TEMPERATURE
        )
        written["sgld"].append({"rate": rate} | by_kernel(kernel, weights, data, 2_000, 50))
        print(written["sgld"][-1], flush=True)
    written["ours"] = []
    for seed in range(options.runs):
        result = ewsg.learning_coefficient(
            jax.random.key(100 + seed),
            None,
            weights,
            data,
            batched_log_likelihood=log_likelihoods,
            localization=LOCALIZATION,
            num_chains=4,
            step_size=0.0036,
            batch_size=BATCH_SIZE,
            num_steps=1_000,
            tolerance=0.02,
            progress=False,
        )
        names = ("value", "error", "bias", "bias_error", "corrected_error", "rhat", "seconds")
        row = {name: round(float(getattr(result, name)), 3) for name in names}
        written["ours"].append(row)
        print(row, flush=True)
    written["load_average_after"] = load_average()
    options.out.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
