"""What a map from unconstrained to constrained positions is."""

import abc
import functools
import operator
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.modules import Part, module
from ewsg_jax.base.typing import Array, Position


class Transform(Protocol):
    """What `Posterior.transformed` and `tree` ask for: any object with these two methods."""

    def forward(self, position: Position, /) -> Position:
        """Return the constrained position θ of the unconstrained position u."""
        ...

    def log_det(self, position: Position, /) -> Array:
        """Return log|det ∂θ/∂u| at the unconstrained position u, a floating-point scalar."""
        ...


@module
class Bijector(Part, abc.ABC):
    """A smooth one-to-one map from unconstrained positions u to constrained positions θ."""

    keeps_shapes: ClassVar[bool] = False
    """Whether u always has the shapes and dtypes of θ: a model is not checked again over u."""

    @abc.abstractmethod
    def forward(self, position: Position, /) -> Position:
        """Return θ."""

    @abc.abstractmethod
    def inverse(self, position: Position, /) -> Position:
        """Return u, from which a chain starts if it is to begin at θ."""

    @abc.abstractmethod
    def log_det(self, position: Position, /) -> Array:
        """Return log|det ∂θ/∂u| at u, a scalar, summed over the whole pytree."""


@module
class Leafwise(Bijector):
    """A bijector that maps each leaf of a position separately."""

    @abc.abstractmethod
    def forward_leaf(self, x: Array) -> Array:
        """Map one leaf, in its dtype."""

    @abc.abstractmethod
    def inverse_leaf(self, y: Array) -> Array:
        """Map one leaf back."""

    @abc.abstractmethod
    def log_det_parts(self, x: Array) -> Array:
        """Return parts of a leaf's log determinant, of any shape, summed in float32 at least."""

    def forward(self, position: Position, /) -> Position:
        return jax.tree.map(self.forward_leaf, checks.position(position))

    def inverse(self, position: Position, /) -> Position:
        return jax.tree.map(self.inverse_leaf, checks.position(position))

    def log_det(self, position: Position, /) -> Array:
        leaves = jax.tree.leaves(checks.position(position))
        parts = [jnp.sum(self.log_det_parts(x), dtype=pytrees.wide(x.dtype)) for x in leaves]
        return functools.reduce(operator.add, parts)


def is_transform(value: object) -> bool:
    """Return whether a value has the two methods of a `Transform`."""
    return not isinstance(value, type) and all(
        callable(getattr(value, n, None)) for n in ("forward", "log_det")
    )


def transform(name: str, value: Any) -> Transform:
    """Check and return an object with `forward` and `log_det`."""
    if not is_transform(value):
        raise TypeError(
            f"{name} must be an object with the methods forward(position) and log_det(position), "
            f"as ewsg_jax.bijectors makes them; got {checks.describe(value)}"
        )
    return value


def lies_inside(takes: str, inside: Array) -> None:
    """Check that a concrete constrained position lies inside its constraint."""
    if not checks.is_traced(inside) and not bool(jnp.all(inside)):
        raise ValueError(
            f"position must be {takes}; {int(jnp.sum(~inside))} of {inside.size} numbers are not"
        )


def has_last_axis(name: str, leaf: Array, least: int) -> None:
    """Check that a leaf has a last axis, of a length of at least `least`."""
    if leaf.ndim == 0 or leaf.shape[-1] < least:
        raise ValueError(
            f"position must be arrays whose last axis is at least {least} long, for {name}; "
            f"got {checks.describe(leaf)}"
        )
