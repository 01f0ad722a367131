"""Steps of an optax optimiser on minibatches, from a start far from the mode."""

from typing import Any

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.progress import Progress
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import num_rows


def warm_up(
    key: Key,
    posterior: Posterior,
    position: Position,
    data: Data,
    batch_size: int,
    num_steps: int,
    optimizer: object,
    progress: bool,
) -> Position:
    """Return the position after steps of an optimiser on minibatches."""
    import optax

    # Adam with a step that falls to 0, so that it ends near the mode whatever the batch.
    if optimizer is None:
        optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, num_steps))
    elif not isinstance(optimizer, optax.GradientTransformation):
        raise TypeError(
            f"optimizer must be an optax.GradientTransformation; got {checks.describe(optimizer)}"
        )

    # Many steps in a call: the host's own time for each would count.
    @jax.jit
    def many(first: Array, count: Array, carry: PyTree, data: Data) -> Any:
        def one(i: Array, carry: PyTree) -> PyTree:
            position, state = carry
            rows = rng.rows(jax.random.fold_in(key, first + i), num_rows(data), batch_size)
            gradient = pytrees.combine(
                (1, posterior.prior_gradient(position)),
                (1, posterior.batch_gradient(position, data, rows)),
            )
            updates, state = optimizer.update(gradient, state, position)
            return pytrees.combine((1, position), (1, updates)), state

        return jax.lax.fori_loop(0, count, one, carry)

    carry, bar = (position, optimizer.init(position)), Progress(num_steps, progress)
    # The progress bar moves after each compiled call.
    for first in range(0, num_steps, 100):
        count = min(100, num_steps - first)
        carry = jax.block_until_ready(many(jnp.int32(first), jnp.int32(count), carry, data))
        bar.update(count)
    bar.close()
    return carry[0]
