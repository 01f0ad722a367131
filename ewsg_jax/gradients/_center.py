"""The argument `center`, a reference point: a pytree, or by default the start of the chain."""

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.typing import Position


def checked_center(center: Position | None) -> Position | None:
    """Check and return the argument `center`, with jax arrays as leaves."""
    if center is None:
        return None
    center = checks.position(center, "center")
    checks.finite("center", center)
    return center


def check_fits(center: Position | None, position: Position) -> None:
    """Check that a reference point, if there is one, has the shapes of the position."""
    if center is not None:
        checks.same_tree(
            "center must be a pytree like the position", "center", center, position, dtypes=False
        )


def center_or_start(center: Position | None, position: Position) -> Position:
    """Return the reference point, or the start, as a copy with the position's dtypes."""
    if center is None:
        return pytrees.copy(position)
    return jax.tree.map(lambda c, p: jnp.array(c, p.dtype), center, position)
