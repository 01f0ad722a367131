"""Predictions that are averaged along a run, so that no draw is stored."""

from typing import Any, Literal, NamedTuple

import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.typing import Array, Position, PyTree
from ewsg_jax.networks._likelihoods import check_predicts
from ewsg_jax.networks._model import NetworkModel, NetworkPrediction, checked_inputs
from ewsg_jax.run.moments import MomentPlan, Moments, moments


class _Averaged(NamedTuple):
    """What is averaged: means, squared standard deviations and class probabilities of one draw."""

    mean: Array | None
    squared_sd: Array | None
    probabilities: Array | None


class _PredictionsAt:
    """The function of a position whose running moments are kept: predictions at some inputs."""

    def __init__(self, model: NetworkModel, x: PyTree) -> None:
        self.model, self.x = model, x

    def __call__(self, position: Position) -> _Averaged:
        """Return what one draw says of the inputs."""
        mean, sd, probabilities = self.model.predict(position, self.x)
        return _Averaged(mean, None if sd is None else sd**2, probabilities)


def running_predictive(
    model: NetworkModel, x: PyTree, *, steps: Literal["kept", "all"] = "kept"
) -> MomentPlan:
    """Ask `sample` for predictions averaged along a run, as its argument `moments`.

    With `keep=None` no draw is stored: the memory is that of the predictions, whatever the length
    of the run and the size of the network. `networks.predictive_of` makes a prediction of them.

    Args:
        model: the model whose posterior is sampled.
        x: b rows of inputs like data["x"]. The compiled run holds them: thousands, not millions.
        steps: as for `ewsg_jax.moments`: the kept steps, or all after the burn-in.

    Raises:
        TypeError, ValueError: an argument has the wrong type; the network takes a key; or the
            likelihood says neither means nor probabilities.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> def apply(params, x):
        ...     return x @ params["w"]
        >>> data = {"x": jnp.arange(12.0).reshape(6, 2) / 6, "y": jnp.arange(6) % 2}
        >>> params = {"w": jnp.ones((2, 2))}
        >>> model = ewsg.networks.posterior(apply, params, data, likelihood="categorical")
        >>> kernel = ewsg.sghmc(model.posterior, 1e-2, friction=1.0, batch_size=3)
        >>> samples = ewsg.sample(
        ...     jax.random.key(0),
        ...     kernel,
        ...     model.position,
        ...     data,
        ...     200,
        ...     num_chains=2,
        ...     keep=None,
        ...     moments=ewsg.networks.running_predictive(model, data["x"]),
        ... )
        >>> ewsg.networks.predictive_of(samples.moments).probabilities.shape
        (6, 2)
    """
    checks.instance("model", model, NetworkModel, "what ewsg_jax.networks.posterior returns")
    if model.takes_key:
        raise ValueError(
            "model must be of a network without a key to be averaged along a run; got one that "
            "takes a key: keep its draws and give samples.predict a key"
        )
    check_predicts(model.likelihood)
    return moments(_PredictionsAt(model, checked_inputs(model, x)), steps=steps)


def predictive_of(averages: Moments) -> NetworkPrediction:
    """Return the prediction of all chains and steps that running moments averaged.

    Its mean and probabilities are averages over draws; its sd is that of a new observation, with
    variance E sd² + Var mean: what the draws say and how they differ.

    Args:
        averages: `samples.moments` of a run with `networks.running_predictive`.

    Raises:
        TypeError, ValueError: they are other moments.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = {"x": jnp.arange(8.0)[:, None] / 8, "y": jnp.arange(8.0) / 8}
        >>> model = ewsg.networks.posterior(
        ...     lambda params, x: x @ params,
        ...     jnp.ones(1),
        ...     data,
        ...     likelihood=ewsg.networks.normal(scale=0.1),
        ... )
        >>> samples = ewsg.sample(
        ...     jax.random.key(0),
        ...     ewsg.uld(model.posterior, 0.02, friction=20.0),
        ...     model.position,
        ...     data,
        ...     500,
        ...     num_chains=2,
        ...     keep=None,
        ...     moments=ewsg.networks.running_predictive(model, jnp.array([[0.5]])),
        ... )
        >>> ewsg.networks.predictive_of(samples.moments).mean.round(1)
        array([0.5])
    """
    checks.instance("averages", averages, Moments, "samples.moments of a run")
    if not isinstance(averages.mean, _Averaged) or averages.variance is None:
        raise ValueError(
            "averages must be moments of networks.running_predictive(model, x); got others"
        )
    pooled: Any = averages.pooled()
    mean, squared_sd, probabilities = pooled.mean
    sd = None if squared_sd is None else np.sqrt(squared_sd + pooled.variance.mean)
    return NetworkPrediction(mean, sd, probabilities)
