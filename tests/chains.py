"""Chains side by side in one compiled loop, each with randomness of its own."""

import jax
import jax.numpy as jnp


def run(kernel, states, data, steps, keys, record=lambda states, info: None):
    """Make so many steps of all chains, with one key for each; return the last states and what was recorded.

    `record(states, info)` sees all chains after each step; what it returns gets a leading axis, the steps.
    """

    @jax.jit
    def scan(states, keys, data):
        def step(states, t):
            own = jax.vmap(lambda key: jax.random.fold_in(key, t))(keys)
            states, info = jax.vmap(kernel.step, in_axes=(0, 0, None))(own, states, data)
            return states, record(states, info)

        return jax.lax.scan(step, states, jnp.arange(steps))

    return scan(states, keys, data)
