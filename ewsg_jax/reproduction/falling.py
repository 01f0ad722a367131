"""Steps that fall as the cube root of time."""

from typing import Any

from ewsg_jax._module import Schedule, module
from ewsg_jax._types import Array


@module
class Falling(Schedule):
    """h (1 + t/s)^(−1/3) at step t: kernels of several h and s make a stack; s infinite is a constant step."""

    first: Any
    over: Any

    def __call__(self, step: Array) -> Any:
        """Return the step size of a step."""
        return self.first / (1 + step / self.over) ** (1 / 3)


def falling(first: float, over: float) -> Falling:
    """Return h (1 + t/s)^(−1/3), the first step h and the number of steps s in which it begins to fall."""
    return Falling(function=None, first=float(first), over=float(over))  # type: ignore[arg-type]
