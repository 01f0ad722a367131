"""An ensemble of networks, trained side by side, each kept at its best score of held-out rows."""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, rng
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.networks._model import NetworkModel


class Trained(NamedTuple):
    """Trained networks.

    Attributes:
        members: their positions, leading axis member.
        epochs: passes over the rows that each made.
        log_score: the mean log density of held-out rows, of each member, shape (member,).
    """

    members: Position
    epochs: int
    log_score: np.ndarray


def starts(key: Key, params: PyTree | Callable[[Key], PyTree], count: int) -> list[PyTree]:
    """Return the parameters that members start from: of a function of a key, or with the numbers of
    each leaf in another order, which are as likely as the given ones under a usual initialisation.
    """
    keys = jax.random.split(key, count)
    if callable(params):
        try:
            return [params(key) for key in keys]
        except Exception as error:
            raise ValueError(
                "params must be parameters, or a function of a key that returns them; it failed: "
                f"{checks.reason(error)}"
            ) from error
    leaves, structure = jax.tree.flatten(jax.tree.map(jnp.asarray, params))

    def shuffled(key: Key) -> PyTree:
        generator = rng.host_generator(key)
        return structure.unflatten(
            [jnp.asarray(generator.permutation(x.ravel()).reshape(x.shape)) for x in host]
        )

    host = [np.asarray(x) for x in leaves]
    return [params, *(shuffled(key) for key in keys[1:])]


def train(key: Key, model: NetworkModel, members: Position, data: Data, seconds: float) -> Trained:
    """Train members by Adam on the potential, until held-out rows are fitted no better.

    A tenth of the rows is held out. Training ends when the mean of the best scores has not risen
    by a hundredth for a third of the epochs so far, or when the time is up.

    Args:
        key: a typed PRNG key.
        model: the network, all that is trained sampled.
        members: positions, leading axis member.
        data: all rows.
        seconds: a bound on the time, without compiling.
    """
    import optax

    of_split, of_steps = jax.random.split(key)
    n = jax.tree.leaves(data)[0].shape[0]
    # By NumPy, here and below, whose permutations take no program.
    order = rng.host_generator(of_split).permutation(n)
    num_held = max(1, n // 10) if n > 1 else 0
    rows, held = (
        jax.tree.map(lambda x, chosen=chosen: x[chosen], data)
        for chosen in (order[num_held:], order[:num_held] if num_held else order)
    )
    batch_size, optimizer = min(128, n - num_held), optax.adam(1e-2)
    # Some epochs in a call if they are short.
    num_steps = max(50, math.ceil((n - num_held) / batch_size))
    per_round = num_steps * batch_size / (n - num_held)

    # Data are arguments, so that one program serves all data of a shape.
    @jax.jit
    def epoch(keys: Key, carry: PyTree, rows: Data, held: Data) -> Any:
        def loss(position: Position, batch: Data, key: Key) -> Array:
            prior = model._assembly.training_prior(position)
            return -jnp.mean(model.log_density(position, batch, key)) - prior / n

        def step(carry: PyTree, key: Key) -> tuple[PyTree, None]:
            (position, state), (of_rows, of_network) = carry, jax.random.split(key)
            chosen = rng.rows(of_rows, num_rows, batch_size)
            batch = jax.tree.map(lambda x: x[chosen], rows)
            gradient = jax.grad(loss)(position, batch, of_network)
            updates, state = optimizer.update(gradient, state, position)
            return (optax.apply_updates(position, updates), state), None

        num_rows = jax.tree.leaves(rows)[0].shape[0]

        def one(key: Key, carry: PyTree) -> PyTree:
            position, state, best, score = carry
            of_training, of_score = jax.random.split(key)
            keys = jax.random.split(of_training, num_steps)
            (position, state), _ = jax.lax.scan(step, (position, state), keys)
            now = jnp.mean(model.log_density(position, held, of_score))
            is_best = now > score
            best = jax.tree.map(lambda x, y: jnp.where(is_best, x, y), position, best)
            return position, state, best, jnp.where(is_best, now, score)

        return jax.vmap(one)(keys, carry)

    count = len(jax.tree.leaves(members)[0])
    score = jnp.full(count, -jnp.inf, jnp.float32)
    carry = (members, jax.vmap(optimizer.init)(members), members, score)
    highest, since, done, began = -np.inf, 0, 0, 0.0
    while True:
        keys = jax.random.split(jax.random.fold_in(of_steps, done), count)
        carry = jax.block_until_ready(epoch(keys, carry, rows, held))
        done += 1
        began = began or time.perf_counter()
        mean = float(jnp.mean(carry[3]))
        # A rise of a hundredth of a natural unit is none.
        since, highest = (0, mean) if mean > highest + 0.01 else (since + 1, highest)
        if since > max(5, done // 3) or time.perf_counter() - began > seconds:
            return Trained(carry[2], round(done * per_round), np.asarray(carry[3]))


def stacked(positions: list[Position]) -> Position:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *positions)


def trained_starts(
    key: Key, model: NetworkModel, members: list[PyTree], rows: Data, seconds: float
) -> tuple[NetworkModel, Position, Trained]:
    """Return the model, the starts of chains and the training, of all leaves that are not fixed."""
    trainable = model.trainable()
    if "trained" in model.roles.values():
        # Chains share what is not sampled, so there is one network.
        first = jax.tree.map(lambda x: x[None], trainable.position)
        record = train(key, trainable, first, rows, seconds)
        one = jax.tree.map(lambda x: x[0], record.members)
        model = model.with_params(trainable.params(one))
        return model, stacked([model.position] * len(members)), record
    positions = stacked([trainable.with_params(one).position for one in members])
    record = train(key, trainable, positions, rows, seconds)
    return model, record.members, record
