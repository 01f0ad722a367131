"""The centre of a method: a tree that its user gives, or the position where chains start."""

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.typing import Position


def given(center: Position | None) -> Position | None:
    """Check and return the argument `center`, with jax arrays as leaves."""
    if center is None:
        return None
    center = checks.position(center, "center")
    checks.finite("center", center)
    return center


def check_fits(center: Position | None, position: Position) -> None:
    """Check that a centre that is given has the shapes of the position."""
    if center is not None:
        checks.same_tree(
            "center must be a tree like the position", "center", center, position, dtypes=False
        )


def or_start(center: Position | None, position: Position) -> Position:
    """Return the centre in the position's dtypes, in memory of its own."""
    if center is None:
        return pytrees.copy(position)
    return jax.tree.map(lambda c, p: jnp.array(c, p.dtype), center, position)
