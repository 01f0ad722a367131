"""The names of the things that flow through the library, for annotations only."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import jax
from jax.typing import ArrayLike

if TYPE_CHECKING:
    import typing_extensions  # which type checkers bring with them

Array = jax.Array
Key = jax.Array
"""A typed PRNG key, `jax.random.key(0)`."""

Scalar = jax.Array | float
"""A number or a scalar array, which may be traced."""

PyTree = Any
"""A pytree of arrays; a *position* is one whose leaves are all floating point."""

Position = Any
if TYPE_CHECKING:
    # The bound lets lambdas do with a position what they like. The default is for those who do not
    # annotate it.
    P = typing_extensions.TypeVar("P", bound=Any, default=Any)
else:
    P = TypeVar("P")  # which knows of defaults from Python 3.13 on
"""The type of a position, for classes and functions that are generic in it."""
Data = Any
"""A pytree of arrays that share their leading axis, the n rows."""


class HasPosition(Protocol):
    """The state of a dynamics: a NamedTuple with at least these two fields."""

    @property
    def position(self) -> Position:
        """The position θ."""
        ...

    @property
    def step(self) -> Array:
        """The number of steps made, int32."""
        ...

    def _replace(self, **changes: object) -> Self: ...


State = TypeVar("State", bound=HasPosition)
Memory = Any
"""What an estimator keeps between steps: a pytree of arrays, `()` if it keeps nothing."""

Schedule = Callable[[ArrayLike], ArrayLike]
"""A function of the step number, as in `optax.schedules`."""

Hyperparameter = ArrayLike | Schedule
"""A number, a traced scalar or a schedule of the step."""
