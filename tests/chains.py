"""Chains side by side in one compiled loop, each with randomness of its own."""

import functools

import jax
import jax.numpy as jnp


def nothing(states, info):
    return None


def run(kernel, states, data, steps, keys, record=nothing):
    """Make so many steps of all chains, with one key for each; return the last states and what was
    recorded.

    `record(states, info)` sees all chains after each step; what it returns gets a leading axis, the
    steps.
    """
    return scan(kernel, states, keys, data, steps, record)


@functools.partial(jax.jit, static_argnames=("steps", "record"))
def scan(kernel, states, keys, data, steps, record):
    """One program for all kernels of one structure, whatever their numbers."""

    def step(states, t):
        own = jax.vmap(lambda key: jax.random.fold_in(key, t))(keys)
        states, info = jax.vmap(kernel.step, in_axes=(0, 0, None))(own, states, data)
        return states, record(states, info)

    return jax.lax.scan(step, states, jnp.arange(steps))
