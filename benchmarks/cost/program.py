"""One compiled scan over the steps of a chain, or of many side by side, and its timing.

Read by interpreters with older versions of JAX too.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.cost.settings import Case, PyTree
from benchmarks.cost.workload import WORKLOADS, Workload


class Chain(NamedTuple):
    """One chain as a library, or a hand, writes it.

    Attributes:
        init: `init(key, position, data) -> state`.
        step: `step(key, state, data) -> state`.
        position: `position(state, data) -> position`.
        batch: `batch(key, data)`: what `step` is given in the place of the data, made once a call
            for all chains; None: the data.
        numbered: whether `step` takes the number of the call too, one for all chains.
        steps_per_call: steps, each with a gradient on a new minibatch, in one call of `step`.
        holds_data: whether the library keeps the data itself, so that none is passed.
    """

    init: Callable[[jax.Array, PyTree, Any], Any]
    step: Callable[..., Any]
    position: Callable[[Any, Any], PyTree]
    steps_per_call: int = 1
    batch: Callable[[jax.Array, Any], Any] | None = None
    numbered: bool = False
    holds_data: bool = False


class Program:
    """A case, compiled; each call of `run` times one more run with other random numbers.

    Args:
        build: makes the chain of a workload and a method.
        case: what is timed.
        data: the workload's, on the device; made here by default.
    """

    def __init__(
        self, build: Callable[[Workload, str], Chain], case: Case, data: Any = None
    ) -> None:
        workload = WORKLOADS[case.workload]()
        if data is not None:
            workload = workload._replace(data=lambda: data)
        chain = build(workload, case.method)
        calls = max(1, case.num_steps // chain.steps_per_call)
        self._chain_steps = calls * chain.steps_per_call * case.num_chains
        self._data = (
            {} if chain.holds_data else jax.tree_util.tree_map(jnp.asarray, workload.data())
        )
        self._position = jax.tree_util.tree_map(jnp.asarray, workload.position)
        self._runs = 0

        def run(key: jax.Array, position: PyTree, data: Any) -> tuple[Any, PyTree]:
            init, step, read = chain.init, chain.step, chain.position
            init_key, run_key = jax.random.split(key)
            keys = jax.random.split(run_key, calls)
            batch_keys = (
                jax.random.split(jax.random.fold_in(run_key, 0), calls) if chain.batch else None
            )
            numbers = jnp.arange(calls) if chain.numbered else None
            if case.num_chains > 1:
                init_key = jax.random.split(init_key, case.num_chains)
                keys = jax.vmap(lambda k: jax.random.split(k, case.num_chains))(keys)
                init = jax.vmap(init, in_axes=(0, None, None))
                step = jax.vmap(
                    step, in_axes=(0, 0, None, None) if chain.numbered else (0, 0, None)
                )
                read = jax.vmap(read, in_axes=(0, None))

            def body(state: Any, given: Any) -> tuple[Any, PyTree]:
                key, batch_key, number = given
                rows = chain.batch(batch_key, data) if chain.batch else data
                state = step(key, state, rows, number) if chain.numbered else step(key, state, rows)
                return state, read(state, data) if case.keep_all else None

            state, kept = jax.lax.scan(
                body, init(init_key, position, data), (keys, batch_keys, numbers)
            )
            return kept if case.keep_all else read(state, data)

        started = time.perf_counter()
        self._run = jax.jit(run).lower(jax.random.PRNGKey(0), self._position, self._data).compile()
        self.compile_seconds = time.perf_counter() - started

    def run(self) -> float:
        """Run once and return microseconds per step and chain, kept positions as NumPy arrays
        included.

        Raises:
            FloatingPointError: a kept position is not finite.
        """
        self._runs += 1
        key = jax.random.PRNGKey(self._runs)
        jax.block_until_ready(key)
        started = time.perf_counter()
        kept = jax.block_until_ready(self._run(key, self._position, self._data))
        kept = jax.tree_util.tree_map(np.asarray, kept)
        seconds = time.perf_counter() - started
        if not all(np.isfinite(x).all() for x in jax.tree_util.tree_leaves(kept)):
            raise FloatingPointError("a chain left the finite numbers: its time means nothing")
        return seconds / self._chain_steps * 1e6
