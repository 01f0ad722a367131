"""What a dynamics is, and the parts that all of them share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp

from ewsg_jax import _check, _tree
from ewsg_jax._random import NOISE_LAWS, NoiseLaw
from ewsg_jax._types import Array, Data, Hyperparameter, Key, Position, PyTree
from ewsg_jax.gradients._protocol import Estimate

State = Any
"""A NamedTuple with at least `position` and `step` (int32, the number of moves made)."""


Term = tuple[Any, PyTree]
"""A coefficient and a tree, summed by `_tree.combine`."""


class Probe(Protocol):
    """The gradient on the accepted batch at another point."""

    def __call__(self, position: Position) -> Position: ...


PriorGradient = Callable[[Position], Position]
"""∇V₀ at a point, shaped like the position."""


def as_it_is(state: State, prior_gradient: PriorGradient, data: Data) -> State:
    """Return the state: what most dynamics need to know before a gradient is estimated."""
    return state


@dataclass(frozen=True, eq=False)
class Dynamics:
    """What a gradient and a noise do to the state: pure functions.

    Attributes:
        init: `init(key, position) -> state`.
        draw: `draw(key, state) -> noise`, from shapes and the step counter alone.
        point: `point(state) -> position`: where the gradient is wanted.
        weight: `weight(prepared, estimate, frozen_noise) -> log weight`, ½‖x + a‖² (methods with exponential
            weights): a is the estimate in units of the noise, x the frozen noise.
        move: `move(noise, prepared, estimate, probe) -> state`.
        restart: `restart(state, point) -> state`: the state with its evaluation point moved there.
        step_size: `step_size(step) -> number`.
        frozen_noise: the names of x that `weight` takes.
        needs_covariance: whether it asks for estimates with their covariance.
        prepare: `prepare(state, prior_gradient, data) -> prepared`: what is worked out once a step, before any
            gradient is estimated; the state itself unless said.
        probes: how often `move` calls `probe`.
    """

    init: Callable[[Key, Position], State]
    draw: Callable[[Key, State], PyTree]
    point: Callable[[State], Position]
    weight: Callable[..., Array]
    move: Callable[[PyTree, Any, Estimate, Probe], State]
    restart: Callable[[State, Position], State]
    step_size: Callable[[Array], Any]
    frozen_noise: tuple[str, ...]
    needs_covariance: bool = False
    prepare: Callable[[State, PriorGradient, Data], Any] = as_it_is
    probes: int = 0


def value_at(hyperparameter: Hyperparameter, step: Array) -> Any:
    """Return the value of a number, a traced scalar or a schedule at a step."""
    return hyperparameter(step) if callable(hyperparameter) else hyperparameter


def check_hyperparameters(**named: Hyperparameter) -> None:
    """Check that each is a positive number, a scalar array or a schedule."""
    for name, value in named.items():
        _check.positive(name, value, schedule=True)


def check_noise(noise: NoiseLaw) -> None:
    """Check the name of a noise law."""
    _check.one_of("noise", noise, NOISE_LAWS)


def half_squared_sum(frozen_noise: str | PyTree, named: dict[str, Term], scale: Any, g: PyTree) -> Array:
    """Return ½‖x + scale·g‖² for x named or given.

    Args:
        frozen_noise: a name, or a tree shaped like the position.
        named: for each state-dependent name, x as a `(coefficient, tree)` term.
        scale: the coefficient of the gradient, √h/σ.
        g: the gradient.
    """
    a = (scale, g)
    if not isinstance(frozen_noise, str):
        x = jax.tree.map(lambda leaf, like: jnp.asarray(leaf, like.dtype), frozen_noise, g)
        total = _tree.combine(a, (1, x))
    elif frozen_noise == "zero":
        total = _tree.combine(a)
    elif frozen_noise == "one":
        total = _tree.combine(a, (1, _tree.ones_like(g)))
    else:
        total = _tree.combine(a, named[frozen_noise])
    return 0.5 * _tree.squared_norm(total)
