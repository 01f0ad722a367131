"""The names of the things that flow through the library, for annotations only."""

from collections.abc import Callable
from typing import Any

import jax
from jax.typing import ArrayLike

Array = jax.Array
Key = jax.Array
"""A typed PRNG key, `jax.random.key(0)`."""

PyTree = Any
"""A tree of arrays; a *position* is one whose leaves are all floating point."""

Position = Any
Data = Any
"""A tree of arrays that share their leading axis, the n rows."""

Schedule = Callable[[ArrayLike], ArrayLike]
"""A function of the step number, as in `optax.schedules`."""

Hyperparameter = ArrayLike | Schedule
"""A number, a traced scalar or a schedule of the step."""
