"""Measure what a step of FlyMC evaluates, and whether its time depends on n, and write it as JSON.

    EWSG_JAX_DATA=… python -m benchmarks.cost.flymc

The result says how it was measured (`protocol`).
"""

import functools
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks import record
from benchmarks.timing import (
    Summary,
    Target,
    interleave,
    load_average,
    machine,
    summarise,
    times_the_cost,
    verdict,
)

PROTOCOL = (
    "Covertype, its first n rows (class 2 against the rest), standardised, with an intercept and a "
    "prior N(0, 10 I), in coordinates in which the curvature of prior and bounds is the identity; "
    "the bound of Jaakkola and Jordan, tight at the mode that find_mode finds; one chain from "
    "there, after a burn-in of 20,000 steps. Evaluations: a run of ewsg_jax.sample, whose steps "
    "are made again one by one, and the bright data and the selected dark ones counted from states "
    "and draws; lanes are rows that a step computes, free places included. Times: a compiled scan "
    "over the transitions of steps whose randomness was drawn before, no rows gathered ahead; "
    "interleaved pairs (many rows, few rows, …) after one pair thrown away; of the ten quantities "
    "only, where about as many (few) data are bright for every n; nq, capacity and the room for "
    "selected data are the same. With all 54 features the chain of the first cell may still be on "
    "its way, to more bright data: its count per step is not that of the stationary law, its ratio "
    "does not depend on it."
)
ROWS, FEW_ROWS = 50_000, 10_000
MANY_ROWS = (50_000, 200_000)
ALL_FEATURES, QUANTITIES = 54, 10
CAPACITY, SELECTED, PROPOSAL_CAPACITY = 512, 100, 168
STEP_SIZE, BURN_IN, PRIOR_VARIANCE = 0.3, 20_000, 10.0
EVALUATIONS = Target(1.0, 1.1, higher_is_better=False)
GROWTH = Target(1.3, 1.5, higher_is_better=False)


class Problem(NamedTuple):
    """The posterior of some first rows, a kernel around its mode, and the state of a chain after
    its burn-in.
    """

    kernel: ewsg.Kernel
    data: dict[str, jax.Array]
    state: ewsg.KernelState


def problem(n: int, num_features: int) -> Problem:
    """Return logistic regression on the first n rows and features, and a chain after
    its burn-in.
    """
    whole = _covertype()
    x, names = whole.x[:n, :num_features], whole.feature_names[:num_features]
    rows = ewsg.datasets.Dataset(x, whole.y[:n], names, whole.name, whole.source)
    scaled, _ = ewsg.datasets.standardise(rows, rows)
    scaled = scaled.with_intercept()
    x, y = scaled.x.astype(np.float64), np.asarray(scaled.y, np.float64)
    weights = _mode_of(x, y)
    logits = x @ weights
    prior = np.eye(x.shape[1]) / PRIOR_VARIANCE
    bounded = x.T @ (x * (np.tanh(logits / 2) / (2 * logits))[:, None]) + prior
    values, vectors = np.linalg.eigh(bounded)
    root = vectors / np.sqrt(values)
    data = {"x": jnp.asarray(x @ root, jnp.float32), "y": jnp.asarray(y, jnp.float32)}
    precision = jnp.asarray(root.T @ prior @ root, jnp.float32)
    logistic = ewsg.models.logistic_regression()
    assert logistic.predictor is not None
    posterior = ewsg.Posterior.linear(
        logistic.predictor.log_likelihood,
        lambda u: -0.5 * u @ precision @ u,
        inputs=logistic.predictor.inputs,
        residual=logistic.predictor.residual,
        bound=logistic.bound,
    )
    start = jnp.asarray(np.linalg.solve(root, weights), jnp.float32)
    mode = ewsg.find_mode(
        jax.random.key(0), posterior, start, data, progress=False, tolerance=0.1
    ).position
    kernel = ewsg.flymc(
        posterior,
        STEP_SIZE,
        capacity=CAPACITY,
        resample_probability=SELECTED / n,
        proposal_capacity=PROPOSAL_CAPACITY,
        center=mode,
    )
    burn_in = ewsg.sample(jax.random.key(5), kernel, mode, data, BURN_IN, keep=None, progress=False)
    state = ewsg.KernelState(
        jax.tree.map(lambda leaf: leaf[0], burn_in.state.dynamics), burn_in.state.memory
    )
    return Problem(kernel, data, state)


@functools.cache
def _covertype() -> ewsg.datasets.Dataset:
    return ewsg.datasets.covertype()


def _mode_of(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return roughly the mode under a prior N(0, 10 I), by Newton's method: the coordinates are
    made from it.
    """
    w = np.zeros(x.shape[1])
    for _ in range(12):
        p = 1 / (1 + np.exp(-x @ w))
        hessian = x.T @ (x * (p * (1 - p))[:, None]) + 0.1 * np.eye(len(w))
        w += np.linalg.solve(hessian, x.T @ (y - p) - 0.1 * w)
    return w


def evaluations(num_steps: int) -> dict[str, Any]:
    """Count what a run reports, over what its bright sets and selections need."""
    made = problem(ROWS, ALL_FEATURES)
    kernel, data, state = made.kernel, made.data, made.state
    key = jax.random.key(1)
    stacked = state._replace(dynamics=jax.tree.map(lambda leaf: leaf[None], state.dynamics))
    samples = ewsg.sample(
        key, kernel, None, data, num_steps, state=stacked, keep=None, progress=False
    )
    # The same steps, one by one: the randomness of chain c at step t is a function of (key, c, t).
    own_key = jax.random.fold_in(jax.random.split(key, 3)[1], 0)

    @jax.jit
    def step(state: ewsg.KernelState, t: jax.Array, data: Any) -> Any:
        randomness = kernel.draw(jax.random.fold_in(own_key, t), state, data)
        moved, info = kernel.transition(randomness, state, data)
        return moved, info, randomness.batch.rows, randomness.batch.used

    counts = []
    for t in range(BURN_IN, BURN_IN + num_steps):
        bright = np.asarray(state.dynamics.bright.rows)
        state, info, rows, used = step(state, jnp.int32(t), data)
        selected = set(np.asarray(rows)[np.asarray(used)].tolist())
        lit = set(bright[bright >= 0].tolist())
        counts.append(
            (len(lit), len(selected - lit), int(info.gradient_evaluations), bool(info.overflow))
        )
    bright, proposals, reported, overflow = np.transpose(counts)
    in_run = samples.gradient_evaluations / num_steps
    ratio = in_run / float(np.mean(bright + proposals))
    return {
        "cell": "evaluations",
        "what": f"likelihood evaluations of a step over bright data and proposals, n = {ROWS:,}",
        "unit": "ratio",
        "measured": Summary(ratio, ratio, ratio, num_steps)._asdict(),
        **verdict(ratio, EVALUATIONS),
        "load_average": load_average(),
        "steps": num_steps,
        "bright": _spread(bright),
        "proposals": _spread(proposals),
        "evaluations": _spread(reported),
        "lanes": CAPACITY + PROPOSAL_CAPACITY,
        "lanes_over_needed": (CAPACITY + PROPOSAL_CAPACITY) / float(np.mean(bright + proposals)),
        "share_of_data_per_step": in_run / ROWS,
        "overflowing_steps": int(overflow.sum()),
        "acceptance": float(samples.acceptance[0]),
    }


def _spread(values: np.ndarray) -> dict[str, float]:
    return {"mean": float(values.mean()), "least": float(values.min()), "most": float(values.max())}


def timed(made: Problem, num_steps: int) -> tuple[Callable[[], float], float]:
    """Return a function that runs transitions on randomness drawn before and returns seconds, and E
    bright.
    """
    kernel, data, state = made.kernel, made.data, made.state

    @jax.jit
    def drawn(key: jax.Array, state: ewsg.KernelState) -> Any:
        def at(step: jax.Array) -> Any:
            return kernel.draw(jax.random.fold_in(key, step), state.at_step(step), data)

        return jax.vmap(at)(jnp.arange(num_steps, dtype=jnp.int32))

    @jax.jit
    def scan(randomness: Any, state: ewsg.KernelState, data: Any) -> Any:
        def one(state: ewsg.KernelState, randomness: Any) -> Any:
            state, info = kernel.transition(randomness, state, data)
            return state, info.gradient_evaluations

        return jax.lax.scan(one, state, randomness)

    randomness = jax.block_until_ready(drawn(jax.random.key(3), state))
    _, evaluations = jax.block_until_ready(scan(randomness, state, data))

    def run() -> float:
        began = time.perf_counter()
        jax.block_until_ready(scan(randomness, state, data))
        return time.perf_counter() - began

    return run, float(np.mean(evaluations))


def growth(pairs: int, num_steps: int) -> list[dict[str, Any]]:
    """Time the transitions with many rows against few."""
    few, few_evaluations = timed(problem(FEW_ROWS, QUANTITIES), num_steps)
    rows = []
    for n in MANY_ROWS:
        many, many_evaluations = timed(problem(n, QUANTITIES), num_steps)
        measured = interleave(many, few, pairs)
        ratio = times_the_cost(measured)
        microseconds = {
            name: summarise([1e6 * value / num_steps for value in values])._asdict()
            for name, values in (
                ("many", [p.ours for p in measured]),
                ("few", [p.other for p in measured]),
            )
        }
        rows.append(
            {
                "cell": "growth",
                "what": f"a step's transition, n = {n:,} against n = {FEW_ROWS:,}",
                "unit": "time ratio",
                "measured": ratio._asdict(),
                **verdict(ratio.median, GROWTH),
                "load_average": load_average(),
                "steps": num_steps,
                "microseconds": microseconds,
                "evaluations_per_step": {"many": many_evaluations, "few": few_evaluations},
            }
        )
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and write; 0."""
    options = record.parser(__doc__, "flymc_cost.json").parse_args(arguments)
    pairs, shorten = record.extent(options)
    before = machine()
    rows = [evaluations(2_000 // shorten), *growth(pairs, 2_000 // shorten)]
    for row in rows:
        print(
            f"{row['cell']}: {row['what']}: {row['measured']['median']:.3f} "
            f"(goal {row['goal']}, floor {row['floor']})"
        )
    sizes = {
        "capacity": CAPACITY,
        "selected_per_step": SELECTED,
        "proposal_capacity": PROPOSAL_CAPACITY,
    }
    record.write(options, PROTOCOL, pairs, before, rows, **sizes)
    return 0


if __name__ == "__main__":
    sys.exit(main())
