"""Starts of chains at trained networks."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.typing import Data, Key, Position, PyTree
from ewsg_jax.networks._model import NetworkModel
from ewsg_jax.networks._posterior import checked_rows
from ewsg_jax.networks._train import starts, trained_starts


class WarmStart(NamedTuple):
    """Trained networks, from which chains start.

    Attributes:
        model: the model, with the trained leaves that are not sampled.
        position: the starts, a pytree of positions with the leading axis chain, as `sample` takes
            with `stacked=True`.
        log_score: the mean log density of held-out rows, of each network, shape (network,).
        epochs: passes over the rows that each network made.
    """

    model: NetworkModel
    position: Position
    log_score: np.ndarray
    epochs: int


def warm_start(
    key: Key,
    model: NetworkModel,
    data: Data,
    *,
    num_members: int = 4,
    start: Callable[[Key], PyTree] | None = None,
    seconds: float = 60.0,
) -> WarmStart:
    """Train networks by Adam on the potential until held-out rows are fitted no better.

    A tenth of the rows is held out of the training. All leaves that are not fixed are trained. If
    some of these are not sampled, one network is trained, which all chains share and start from.

    Args:
        key: a typed PRNG key.
        model: the model.
        data: all rows.
        num_members: how many networks are trained side by side, one for each chain. Default 4.
        start: `start(key)` returns first parameters of a network. Default: those of the model, and
            for the others the same numbers of each leaf in another order.
        seconds: a bound on the seconds of training, compiling not counted. Default 60.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> def apply(params, x):
        ...     return jnp.tanh(x @ params["hidden"]) @ params["last"]
        >>> params = {"hidden": jnp.ones((1, 3)), "last": jnp.ones((3, 2))}
        >>> data = {"x": jnp.arange(20.0)[:, None] / 10, "y": jnp.arange(20.0) / 10}
        >>> model = ewsg.networks.posterior(apply, params, data, likelihood="normal")
        >>> warm = ewsg.networks.warm_start(jax.random.key(0), model, data, seconds=2.0)
        >>> kernel = ewsg.sghmc(warm.model.posterior, 1e-4, friction=1.0, batch_size=5)
        >>> samples = ewsg.sample(jax.random.key(1), kernel, warm.position, data, 100, stacked=True)
        >>> samples.num_chains
        4
    """
    checks.key(key)
    checks.instance("model", model, NetworkModel, "what ewsg_jax.networks.posterior returns")
    checks.integer("num_members", num_members)
    checks.positive("seconds", seconds)
    data = checked_rows(data)
    checks.finite("data", data)
    if start is not None:
        checks.function("start", start, "(key) -> params")
    of_starts, of_training = jax.random.split(key)
    first = model.params(model.position) if start is None else start
    members = starts(of_starts, first, num_members)
    model, position, record = trained_starts(of_training, model, members, data, seconds)
    return WarmStart(model, position, record.log_score, record.epochs)
