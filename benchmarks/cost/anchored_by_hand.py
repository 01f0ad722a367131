"""Anchored gradients (SVRG) of logistic regression written out: as cheap as can be, and as one
would at first.

All forms make the same chain of the same keys, but for rounding.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from benchmarks.cost.by_hand import _high_product
from benchmarks.cost.program import Chain
from benchmarks.cost.settings import PRIOR_VARIANCE, STEP_SIZE, PyTree
from benchmarks.cost.workload import Workload

REFRESH_EVERY = 100
BLOCK = 4096
"""Rows that a full gradient takes at once."""


class Naive(NamedTuple):
    """The state of the naive form: with its own count of steps, which `vmap` makes one
    per chain.
    """

    position: jax.Array
    anchor: jax.Array
    gradient: jax.Array
    step: jax.Array


def nested(workload: Workload, method: str, *, ahead: bool) -> Chain:
    """Return a chain whose one call is a full gradient and the steps from this anchor to the next.

    The structure is static, so nothing has to be decided in the loop; the number of steps is a
    multiple of `REFRESH_EVERY`.

    Args:
        workload: the logistic regression.
        method: `"svrg_ld"`.
        ahead: draw the randomness of all these steps at once, or that of each step in it.
    """
    parts = _Parts(workload, method)

    def anchored(key: jax.Array, position: jax.Array, data: PyTree) -> jax.Array:
        anchor, gradient = position, parts.full_gradient(position, data)

        def step(position: jax.Array, given: Any) -> tuple[jax.Array, None]:
            randomness = given if ahead else parts.draw(given)
            return parts.move(randomness, position, anchor, gradient, data), None

        keys = jax.random.split(key, REFRESH_EVERY)
        return jax.lax.scan(step, position, jax.vmap(parts.draw)(keys) if ahead else keys)[0]

    return Chain(
        lambda key, position, data: position,
        anchored,
        lambda state, data: state,
        steps_per_call=REFRESH_EVERY,
    )


def naive(workload: Workload, method: str) -> Chain:
    """Return a chain of single steps that asks its own counter, by a plain `lax.cond`, whether the
    anchor moves.

    Right for one chain. Under `vmap` the counter has a chain axis, the condition becomes a
    selection between both results at every step, and what the condition reads, the data among it,
    is given a chain axis too.
    """
    parts = _Parts(workload, method)

    def init(key: jax.Array, position: jax.Array, data: PyTree) -> Naive:
        return Naive(position, position, jnp.zeros_like(position), jnp.int32(0))

    def step(key: jax.Array, state: Naive, data: PyTree) -> Naive:
        anchor, gradient = jax.lax.cond(
            state.step % REFRESH_EVERY == 0,
            lambda: (state.position, parts.full_gradient(state.position, data)),
            lambda: (state.anchor, state.gradient),
        )
        moved = parts.move(parts.draw(key), state.position, anchor, gradient, data)
        return Naive(moved, anchor, gradient, state.step + 1)

    return Chain(init, step, lambda state, data: state.position)


class _Parts:
    """What all forms are made of."""

    def __init__(self, workload: Workload, method: str) -> None:
        assert method == "svrg_ld"
        self._n, self._b = workload.num_data, workload.batch_size
        self._shape, self._h = workload.position.shape, STEP_SIZE["sgld"]

    def full_gradient(self, position: jax.Array, data: PyTree) -> jax.Array:
        """Return Σᵢ ∇Vᵢ, a block of rows at a time."""

        def block(start: Any, size: int) -> jax.Array:
            x, y = (jax.lax.dynamic_slice_in_dim(data[name], start, size) for name in "xy")
            return (jax.nn.sigmoid(x @ position) - y) @ x

        size = min(BLOCK, self._n)
        blocks, rest = divmod(self._n, size)
        total = jax.lax.fori_loop(
            0, blocks, lambda i, total: total + block(i * size, size), jnp.zeros_like(position)
        )
        return total if rest == 0 else total + block(self._n - rest, rest)

    def draw(self, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the rows and the noise of a step."""
        batch_key, noise_key = jax.random.split(key)
        rows = _high_product(jax.random.bits(batch_key, (2, self._b)), self._n)
        return rows, jax.random.normal(noise_key, self._shape)

    def move(
        self,
        randomness: tuple[jax.Array, jax.Array],
        position: jax.Array,
        anchor: jax.Array,
        gradient: jax.Array,
        data: PyTree,
    ) -> jax.Array:
        """Make a step; the labels fall out of the difference of the gradients."""
        rows, noise = randomness
        x = data["x"][rows]
        difference = (
            (jax.nn.sigmoid(x @ position) - jax.nn.sigmoid(x @ anchor)) @ x * (self._n / self._b)
        )
        drift = position / PRIOR_VARIANCE + difference + gradient
        return position - self._h * drift + (2 * self._h) ** 0.5 * noise
