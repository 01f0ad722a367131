"""The steps that `accelerators.py` times: kernels, numbers of chains, and the time of each."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from benchmarks.cost.settings import (
    FRICTION,
    LOGISTIC_BATCH,
    LOGISTIC_COLUMNS,
    LOGISTIC_ROWS,
    PRIOR_VARIANCE,
    STEP_SIZE,
    logistic_data,
)
from benchmarks.cost.timed import runs
from benchmarks.timing import summarise

CHAINS = (1, 100, 1_000, 10_000)
RUNS, RUN_SECONDS, LONGEST = 5, 0.25, 20.0
"""Timed runs of a cell, about how long each is, and the seconds over which a cell is left out."""
REFRESH_EVERY = 100
"""Steps of SVRG between full gradients, as many as a run of its cell has at least."""


def own_likelihood(precision: str | None) -> ewsg.Posterior:
    """Return the same posterior, whose likelihood a user wrote, with products in this precision."""

    def log_likelihood(position: jax.Array, row: Any) -> jax.Array:
        logit = jnp.matmul(row["x"], position, precision=precision)
        return row["y"] * logit - jax.nn.softplus(logit)

    return ewsg.Posterior(
        log_likelihood, lambda position: -0.5 / PRIOR_VARIANCE * jnp.sum(position**2)
    )


HIDDEN = 512
"""Units of both hidden layers of the network that is timed."""
NETWORK = (LOGISTIC_COLUMNS + HIDDEN + 1) * HIDDEN
"""Its numbers."""


def network(precision: str | None) -> ewsg.Posterior:
    """Return a network of two hidden layers for the same labels, as a vector of weights."""

    def log_likelihood(position: jax.Array, row: Any) -> jax.Array:
        x, first = row["x"], LOGISTIC_COLUMNS * HIDDEN
        shapes = (LOGISTIC_COLUMNS, HIDDEN), (HIDDEN, HIDDEN)
        for part, shape in zip((position[:first], position[first:-HIDDEN]), shapes, strict=True):
            x = jnp.tanh(jnp.matmul(x, part.reshape(shape), precision=precision))
        logit = jnp.matmul(x, position[-HIDDEN:], precision=precision)
        return row["y"] * logit - jax.nn.softplus(logit)

    return ewsg.Posterior(log_likelihood, lambda position: -0.5 * jnp.sum(position**2))


def kernels(quick: bool) -> dict[str, tuple[ewsg.Kernel, bool, int]]:
    """Return the kernels that are timed, whether one batch serves all chains, and the size of a
    position.
    """
    model = ewsg.models.logistic_regression(prior_scale=PRIOR_VARIANCE**0.5)
    h, hp, b = STEP_SIZE["sgld"], STEP_SIZE["sghmc"], LOGISTIC_BATCH
    every = 10 if quick else REFRESH_EVERY
    d = LOGISTIC_COLUMNS
    return {
        "sgld": (ewsg.sgld(model, h, batch_size=b), False, d),
        "sghmc": (ewsg.sghmc(model, hp, friction=FRICTION, batch_size=b), False, d),
        "ewsg": (ewsg.ewsg(model, hp, friction=FRICTION, batch_size=b), False, d),
        "ld": (ewsg.ld(model, h), False, d),
        "svrg_ld": (ewsg.svrg_ld(model, h, batch_size=b, refresh_every=every), False, d),
        "sgld, one batch for all chains": (ewsg.sgld(model, h, batch_size=b), True, d),
        "saga_ld": (ewsg.saga_ld(model, h, batch_size=b), False, d),
        "sgld, own likelihood": (ewsg.sgld(own_likelihood(None), h, batch_size=b), False, d),
        "sgld, own likelihood, TF32": (
            ewsg.sgld(own_likelihood("default"), h, batch_size=b),
            False,
            d,
        ),
        "sgld, network": (ewsg.sgld(network(None), h, batch_size=b), False, NETWORK),
        "sgld, network, TF32": (ewsg.sgld(network("default"), h, batch_size=b), False, NETWORK),
        "ld, chunks of 65,536 rows": (ewsg.ld(model, h, chunk_size=65_536), False, d),
        "ld, all rows at once": (ewsg.ld(model, h, chunk_size=LOGISTIC_ROWS), False, d),
    }


def time_steps(
    kernel: ewsg.Kernel, shared: bool, size: int, data: Any, chains: int, last: float | None
) -> dict[str, Any]:
    """Return the time of a step, in microseconds per step and chain.

    Args:
        kernel: of which steps are timed.
        shared: whether one batch serves all chains.
        size: of a position.
        data: on the device.
        chains: side by side.
        last: seconds of a step with the chains before, of which this one has more; None for none.
    """
    run = runs(kernel, jnp.zeros(size), data, chains, shared_minibatch=shared)
    is_refreshed, is_full = "svrg" in repr(kernel), last is not None and last > 0.02
    steps = REFRESH_EVERY if is_refreshed else 4 if is_full else 64
    # A tenth of these chains took `last`, and work for so long grows with them.
    if last is not None and last * steps * (10 if is_full else 1) > LONGEST:
        return {"left_out": f"a run would take over {LONGEST:.0f} s"}
    started = time.perf_counter()
    compile_seconds = run(steps).compile_seconds
    first = time.perf_counter() - started
    taken = run(steps).run_seconds
    if taken > LONGEST:
        return {"left_out": f"a run takes over {LONGEST:.0f} s"}
    while taken < RUN_SECONDS / 2:
        steps *= 2 ** max(1, round(np.log2(RUN_SECONDS / taken)))
        taken = run(steps).run_seconds
    count = RUNS if taken < 4 * RUN_SECONDS else 1
    microseconds = [run(steps).run_seconds / steps / chains * 1e6 for _ in range(count)]
    return {
        "microseconds": summarise(microseconds)._asdict(),
        "steps": steps,
        "compile_seconds": compile_seconds,
        "first_call_seconds": first,
    }


def steps(quick: bool, only: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the cells of steps, of all kernels or of some."""
    rows, chains = (2_000, CHAINS[:2]) if quick else (LOGISTIC_ROWS, CHAINS)
    data = jax.tree.map(jnp.asarray, logistic_data(rows, LOGISTIC_COLUMNS))
    for name, (kernel, shared, size) in kernels(quick).items():
        last: float | None = None
        for count in chains if not only or name in only else ():
            cell: dict[str, Any] = {"part": "steps", "kernel": name, "chains": count}
            timed: dict[str, Any]
            try:
                timed = time_steps(kernel, shared, size, data, count, last)
            except Exception as error:  # for one: a table that does not fit
                timed = {"left_out": f"{type(error).__name__}: {str(error).splitlines()[0]}"}
            if "microseconds" in timed:
                last = timed["microseconds"]["median"] * count / 1e6
            elif "a run" in timed["left_out"]:
                last = np.inf
            yield cell | timed
