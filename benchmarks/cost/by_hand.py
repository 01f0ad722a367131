"""The least that a step of logistic regression can be: written out, closed-form gradient, nothing
general.
"""

import jax
import jax.numpy as jnp

from benchmarks.cost.program import Chain
from benchmarks.cost.settings import FRICTION, PRIOR_VARIANCE, STEP_SIZE, PyTree
from benchmarks.cost.workload import Workload


def by_hand(workload: Workload, method: str, *, wide: bool, shared: bool = False) -> Chain:
    """Return a chain written out.

    Args:
        workload: the logistic regression.
        method: `"sgld"` or `"sghmc"`.
        wide: make each row number as the high word of 64 random bits times n, exact to n / 2⁶⁴;
            otherwise by `jax.random.randint`. The cheaper `uniform * n` is not an option: it
            favours some rows by 5%.
        shared: draw and fetch one batch a step for all chains.
    """
    n, b, h = workload.num_data, workload.batch_size, STEP_SIZE[method]

    def batch(key: jax.Array, data: PyTree) -> tuple[jax.Array, jax.Array]:
        rows = (
            _high_product(jax.random.bits(key, (2, b)), n)
            if wide
            else jax.random.randint(key, (b,), 0, n)
        )
        return data["x"][rows], data["y"][rows]

    def gradient(key: jax.Array, position: jax.Array, data: PyTree) -> jax.Array:
        x, y = data if shared else batch(key, data)
        return (jax.nn.sigmoid(x @ position) - y) @ x * (n / b) + position / PRIOR_VARIANCE

    def sgld(key: jax.Array, position: jax.Array, data: PyTree) -> jax.Array:
        batch_key, noise_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, position.shape)
        return position - h * gradient(batch_key, position, data) + (2 * h) ** 0.5 * noise

    def sghmc(
        key: jax.Array, state: tuple[jax.Array, jax.Array], data: PyTree
    ) -> tuple[jax.Array, jax.Array]:
        batch_key, noise_key = jax.random.split(key)
        position, momentum = state
        noise = jax.random.normal(noise_key, position.shape)
        kick = -h * gradient(batch_key, position, data) + (2 * FRICTION * h) ** 0.5 * noise
        momentum = (1 - FRICTION * h) * momentum + kick
        return position + h * momentum, momentum

    if method == "sgld":
        chain = Chain(lambda key, position, data: position, sgld, lambda state, data: state)
    else:
        chain = Chain(
            lambda key, position, data: (position, jnp.zeros_like(position)),
            sghmc,
            lambda state, data: state[0],
        )
    return chain._replace(batch=batch) if shared else chain


def _high_product(words: jax.Array, n: int) -> jax.Array:
    """Return ⌊w n / 2⁶⁴⌋ of w, two 32-bit words (most significant first), for n < 2³¹, in 32-bit
    arithmetic.
    """

    def multiply(word: jax.Array) -> tuple[jax.Array, jax.Array]:
        bound_high, bound_low = jnp.uint32(n >> 16), jnp.uint32(n & 0xFFFF)
        high, low = word >> 16, word & 0xFFFF
        first = low * bound_low
        second = high * bound_low + (first >> 16)
        third = low * bound_high + (second & 0xFFFF)
        return high * bound_high + (second >> 16) + (third >> 16), word * jnp.uint32(n)

    high, low = multiply(words[0])
    carry, _ = multiply(words[1])
    return (high + (low + carry < low)).astype(jnp.int32)
