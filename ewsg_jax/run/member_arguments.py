"""The arguments of `sample` for a stack, made from those for each of its members."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.modules import text
from ewsg_jax.base.typing import Array, Key, Position, PyTree
from ewsg_jax.run.moments import MomentPlan, Sums, positions
from ewsg_jax.run.request import Request, Stacked
from ewsg_jax.run.stacks.data import StackedData
from ewsg_jax.run.stacks.kernels import Stack
from ewsg_jax.run.stacks.stack import over
from ewsg_jax.run.starts import is_function

BY_KEYS = (
    "for a start of each chain and member give stacked='members' and a function of a key that "
    "returns one for each member; it is called with a key for each chain"
)


@dataclass(frozen=True)
class SameForMembers:
    """A function of a key that returns a position, for all members."""

    stack: Stack
    position: Callable[[Key], Position]

    def __call__(self, key: Key) -> Position:
        """Return the position of each member."""
        return self.stack.spread(self.position(key))


@dataclass(frozen=True)
class OnEachMember:
    """A function of a position, applied to that of each member."""

    function: Callable[[Position], PyTree]

    def __repr__(self) -> str:
        return f"{text(self.function)} of each"

    def __call__(self, position: Position) -> PyTree:
        """Return what it makes of each."""
        return jax.vmap(self.function)(position)


@dataclass(frozen=True)
class MomentsByMember(MomentPlan):
    """Running moments of each member by itself."""

    plan: MomentPlan

    @classmethod
    def by(cls, plan: MomentPlan) -> "MomentsByMember":
        """Return those that a plan keeps."""
        of = plan.of if plan.of is positions else OnEachMember(plan.of)
        return cls(of, plan.covariance, plan.weights, plan.steps, plan)

    def start(self, position: Position) -> Sums:
        """Return empty sums of one chain's members."""
        return jax.vmap(self.plan.start)(position)

    def add(self, sums: Sums, weight: Array, position: Position) -> Sums:
        """Add the positions of one chain's members, of one weight or a weight each."""
        return jax.vmap(self.plan.add, in_axes=(0, 0 if weight.ndim else None, 0))(
            sums, weight, position
        )


def of_members(request: Request) -> Request:
    """Return the request of a stack, from that of each member; that of one kernel as it is.

    Raises:
        TypeError, ValueError: there is no kernel for each data set, or positions have not the axes
            that are said.
    """
    data_sets = request.data if isinstance(request.data, StackedData) else None
    stack, data = over(request.kernel, request.data)
    if not isinstance(stack, Stack):
        return request
    position, stacked = _starts(stack, request)
    keep, moments = request.keep, request.moments
    return request._replace(
        kernel=stack,
        data=data,
        data_sets=data_sets,
        position=position,
        stacked=stacked,
        keep=keep if keep is positions or not callable(keep) else OnEachMember(keep),
        moments=MomentsByMember.by(moments) if isinstance(moments, MomentPlan) else moments,
    )


def _starts(stack: Stack, request: Request) -> tuple[Any, Stacked]:
    """Return the starts of members, with their axis, and whether there is one of chains before it.

    Raises:
        TypeError, ValueError: positions have not the axes that are said.
    """
    position: PyTree = request.position
    stacked = request.stacked
    is_one = callable(position) and is_function(position)
    # A position for each member is checked and left as it is.
    if isinstance(stacked, str):
        if stacked != "members":
            raise ValueError(
                f"stacked must be True, False or 'members'; got {stacked!r}: {BY_KEYS}"
            )
        if request.state is not None:
            raise ValueError(f"stacked must be False with state; got {stacked!r}")
        if not is_one and position is not None:
            position = checks.position(position)
            _check_axis(stack, position)
        return position, False
    # One function of a key serves all members of a chain, unless it returns one start for each.
    if is_one:
        return position if isinstance(position, type) else SameForMembers(stack, position), stacked
    if position is None:
        return None, stacked
    position = checks.position(position)
    has_axes = stacked is True and all(np.ndim(x) for x in jax.tree.leaves(position))
    return (jax.vmap(stack.spread) if has_axes else stack.spread)(position), stacked


def _check_axis(stack: Stack, position: Position) -> None:
    """Check that every array of a position has a leading axis of members."""
    for shape in map(np.shape, jax.tree.leaves(position)):
        if shape[:1] != (len(stack),):
            raise ValueError(
                f"position must have a leading axis of the {len(stack)} members when "
                "stacked='members', as `jax.tree.map(lambda *x: jnp.stack(x), *positions)` makes "
                f"of one for each; got an array of shape {shape}"
            )
