"""The step size of a network's chains: from the energy error, or from the curvature."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.kernels.protocol import Kernel, KernelState, posterior_of
from ewsg_jax.networks._model import NetworkModel


@functools.partial(jax.jit, static_argnames="num_steps")
def energy_errors(
    key: Key, kernel: Kernel, state: KernelState, data: Data, num_steps: int
) -> Array:
    """Return ΔV + ΔK of the next steps of chains of `dynamics.microcanonical`, shape (chain, step).

    Args:
        key: a typed PRNG key.
        kernel: the dynamics with full gradients.
        state: states with a leading axis chain; they are not changed.
        data: all rows.
        num_steps: steps of each chain.
    """
    target = posterior_of(kernel)
    assert target is not None
    potential = target.potential

    def step(carry: Any, key: Key) -> tuple[Any, Array]:
        state, before = carry
        state, _ = kernel.step(key, state, data)
        value = potential(state.position, data)
        return (state, value), value - before + state.dynamics.kinetic_change

    def one(key: Key, state: KernelState) -> Array:
        first = state, potential(state.position, data)
        return jax.lax.scan(step, first, jax.random.split(key, num_steps))[1]

    return jax.vmap(one)(jax.random.split(key, jax.tree.leaves(state)[0].shape[0]), state)


def by_energy(
    key: Key,
    kernel_of: Callable[[float], Kernel],
    state: KernelState,
    data: Data,
    step_size: float,
    rounds: int,
    variance: float,
) -> float:
    """Return the step at which the median chain has this variance of the energy error.

    Args:
        key: a typed PRNG key.
        kernel_of: the kernel with a step size.
        state: states of chains.
        data: all rows.
        step_size: the first step that is tried.
        rounds: corrections of the step, each by a factor of at most 2.
        variance: the wanted variance of the energy error, over the number of sampled numbers.
    """
    d = sum(x[0].size for x in jax.tree.leaves(state.position))
    for key_of_round in jax.random.split(key, rounds):
        errors = energy_errors(key_of_round, kernel_of(step_size), state, data, 20)
        # The mean over chains would be that of the stiffest one, which is not lost: its steps are
        # bounded.
        measured = float(np.nanmedian(np.mean(np.asarray(errors) ** 2, 1))) / d
        # An error of order h³ in a step.
        factor = (variance / max(measured, 1e-12)) ** (1 / 6)
        step_size *= float(np.clip(np.nan_to_num(factor, nan=0.5), 0.5, 2.0))
    return step_size


def largest_curvature(
    key: Key, model: NetworkModel, positions: Position, rows: Data, num_rows: int
) -> np.ndarray:
    """Return the largest eigenvalue of V's Hessian in units of the prior, of each position.

    Args:
        key: a typed PRNG key.
        model: the network.
        positions: positions with a leading axis.
        rows: some rows, which stand for all.
        num_rows: n, the number of all.
    """
    return np.asarray(_power_iteration(model, key, positions, rows, jnp.float32(num_rows)))


@functools.partial(jax.jit, static_argnums=0)
def _power_iteration(
    model: NetworkModel, key: Key, positions: Position, rows: Data, num_rows: Array
) -> Array:
    of_network, of_start = jax.random.split(key)
    share = num_rows / jax.tree.leaves(rows)[0].shape[0]
    sds = jax.tree.map(jnp.sqrt, model.prior_variance)

    def potential(position: Position) -> Array:
        densities = model.log_density(position, rows, of_network)
        return -share * jnp.sum(densities) - model._assembly.log_prior(position)

    def times(a: PyTree, b: PyTree) -> PyTree:
        return jax.tree.map(jnp.multiply, a, b)

    def one(position: Position) -> Array:
        def step(v: PyTree, _: None) -> tuple[PyTree, Array]:
            image = jax.jvp(jax.grad(potential), (position,), (times(sds, v),))[1]
            image = times(sds, image)
            size = jnp.sqrt(pytrees.squared_norm(image))
            return pytrees.combine((1 / size, image)), size

        return jax.lax.scan(step, pytrees.combine((1, start)), length=20)[1][-1]

    leaves, structure = jax.tree.flatten(model.prior_variance)
    keys = jax.random.split(of_start, len(leaves))
    start = structure.unflatten(
        [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
    )
    return jax.vmap(one)(positions)
