"""Why chains may have diverged: looked for once, when they have."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import tags
from ewsg_jax._kernel import Kernel
from ewsg_jax._module import Schedule
from ewsg_jax._types import Array, Data, Position

ENORMOUS = 1e3
"""How much the potential must fall, in units of what it was at the start, to be said to fall without bound."""


def of_schedules(kernel: Kernel, step: int) -> str:
    """Return which schedules are not positive and finite after so many steps, as a text; none where all are."""
    found = []
    for part in filter(dataclasses.is_dataclass, (kernel, getattr(kernel, "dynamics", None))):
        for name, schedule in tags.fields(part).items():
            value = float(schedule(jnp.int32(step))) if isinstance(schedule, Schedule) else 1.0
            if not 0 < value < np.inf:
                found.append(f"{name} was {value:g}")
    return f"there {', '.join(found)}, by its schedule" if found else ""


def falls(kernel: Kernel, start: Position, end: Position, data: Data) -> bool:
    """Return whether the potential falls enormously from a chain's start towards its last finite position.

    There its terms may be too large for numbers: then it is looked at on the way, at the farthest point where it
    is finite. A step that is too large for a potential that is bounded leads upwards.
    """
    posterior = getattr(getattr(kernel, "estimator", kernel), "posterior", None)
    if posterior is None:
        return False

    @jax.jit
    def potential(share: Array, start: Position, end: Position, data: Data) -> Array:
        point = jax.tree.map(lambda a, b: (a + share * (b - a)).astype(a.dtype), start, end)
        return posterior.potential(point, data)

    first = float(potential(jnp.float32(0), start, end, data))
    for exponent in range(0, 38, 2):
        value = float(potential(jnp.float32(10.0**-exponent), start, end, data))
        if math.isfinite(value):
            return first - value > ENORMOUS * (1 + abs(first))
    return False
