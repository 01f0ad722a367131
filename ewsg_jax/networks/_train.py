"""An ensemble of networks, trained side by side, each kept at its best score of held-out rows."""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.networks._model import NetworkModel, WithRawSD


class Trained(NamedTuple):
    """Trained networks.

    Attributes:
        members: their positions, leading axis member.
        epochs: passes over the rows that each made.
        log_score: the mean log density of held-out rows, of each member, shape (member,).
        is_interrupted: whether an interrupt (Ctrl-C) ended the training.
    """

    members: Position
    epochs: int
    log_score: np.ndarray
    is_interrupted: bool = False


class _State(NamedTuple):
    """A network in training: its position, the optimiser's state, the position that fitted held-out
    rows best, and their mean log density there.
    """

    position: Position
    optimiser: Any
    best: Position
    score: Array


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

    A tenth of the rows is held out, 10,000 at most. Training ends when the mean of the best scores
    has not risen by a hundredth for a third of the rounds so far, when the time is up, or by an
    interrupt after the first round.

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
    # By NumPy, here and below, whose permutations take no program. Of 10,000 rows the mean log
    # density has an error of about the hundredth that counts as a rise.
    order = rng.host_generator(of_split).permutation(n)
    num_held = max(1, min(n // 10, 10_000)) if n > 1 else 0
    rows, held = (
        jax.tree.map(lambda x, chosen=chosen: x[chosen], data)
        for chosen in (order[num_held:], order[:num_held] if num_held else order)
    )
    # A round is an epoch, some if they are short, a part of one if it is long.
    batch_size, optimizer = min(128, n - num_held), optax.adam(1e-2)
    num_steps = min(max(50, math.ceil((n - num_held) / batch_size)), 1_000)
    epochs_of_round = num_steps * batch_size / (n - num_held)

    # Data are arguments, so that one program serves all data of a shape.
    @jax.jit
    def train_round(keys: Key, states: _State, rows: Data, held: Data) -> _State:
        def loss(position: Position, batch: Data, key: Key) -> Array:
            prior = model._assembly.training_prior(position)
            return -jnp.mean(model.log_density(position, batch, key)) - prior / n

        def step(carry: tuple[Position, Any], key: Key) -> tuple[tuple[Position, Any], None]:
            (position, optimiser), (of_rows, of_network) = carry, jax.random.split(key)
            chosen = rng.rows(of_rows, num_rows, batch_size)
            batch = jax.tree.map(lambda x: x[chosen], rows)
            gradient = jax.grad(loss)(position, batch, of_network)
            updates, optimiser = optimizer.update(gradient, optimiser, position)
            return (optax.apply_updates(position, updates), optimiser), None

        num_rows = jax.tree.leaves(rows)[0].shape[0]

        def of_member(key: Key, state: _State) -> _State:
            of_training, of_score = jax.random.split(key)
            keys = jax.random.split(of_training, num_steps)
            moved, _ = jax.lax.scan(step, (state.position, state.optimiser), keys)
            score = jnp.mean(model.log_density(moved[0], held, of_score)).astype(jnp.float32)
            is_best = score > state.score
            best = pytrees.where(is_best, moved[0], state.best)
            return _State(*moved, best, jnp.where(is_best, score, state.score))

        return jax.vmap(of_member)(keys, states)

    count = len(jax.tree.leaves(members)[0])
    states = _State(
        members,
        jax.vmap(optimizer.init)(members),
        members,
        jnp.full(count, -jnp.inf, jnp.float32),
    )

    def keys_of(number: int) -> Key:
        return jax.random.split(jax.random.fold_in(of_steps, number), count)

    compiled = train_round.lower(keys_of(0), states, rows, held).compile()
    began, is_interrupted = time.perf_counter(), False
    highest, num_rounds, rounds_since_rise = -np.inf, 0, 0
    try:
        while rounds_since_rise <= max(5, num_rounds // 3):
            if num_rounds and time.perf_counter() - began > seconds:
                break
            states = jax.block_until_ready(compiled(keys_of(num_rounds), states, rows, held))
            num_rounds += 1
            # A rise of a hundredth of a natural unit is none. A member whose density is infinite
            # has no score, and does not count.
            scores = np.asarray(states.score)
            known = scores[np.isfinite(scores)]
            mean = float(np.mean(known)) if known.size else -np.inf
            rounds_since_rise += 1
            if mean > highest + 0.01:
                highest, rounds_since_rise = mean, 0
    except KeyboardInterrupt:
        if not num_rounds:
            raise
        is_interrupted = True
    epochs = max(1, round(num_rounds * epochs_of_round))
    return Trained(states.best, epochs, np.asarray(states.score), is_interrupted)


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
        start = model.position
        if isinstance(start, WithRawSD):
            # It is trained with the network, and no part of its parameters.
            start = start._replace(raw_sd=one.raw_sd)
        return model, stacked([start] * len(members)), record
    positions = stacked([trainable.with_params(one).position for one in members])
    record = train(key, trainable, positions, rows, seconds)
    return model, record.members, record
