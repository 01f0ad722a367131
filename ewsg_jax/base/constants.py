"""Log densities whose constant is known apart from what varies with the position.

A density needs its constant, such as −log σ − log(2π)/2 of each of n rows: scales and models are
compared by it. A sum over the rows does not. Of 10⁶ rows it is as large as the sum itself, and a
float32 that holds both knows differences between positions less well. So sums are made of what
varies, and n times the constant is added last.
"""

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Array, PyTree, Scalar

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Split(abc.ABC):
    """A function whose value is `varying(…)` and `constant(…)` added up."""

    @property
    @abc.abstractmethod
    def varying(self) -> Callable[..., Any]:
        """The function without its constant, or itself if it has none."""

    @abc.abstractmethod
    def constant(self, *arguments: PyTree) -> Array | float:
        """Return the constant, which depends on the shapes of the arguments alone."""


def one(value: PyTree) -> int:
    """Return 1."""
    return 1


# Not `pytrees.size` itself: a saved run knows the functions of its model by their names.
def size(value: PyTree) -> int:
    """Return how many numbers a pytree holds."""
    return pytrees.size(value)


@dataclass(frozen=True)
class LogDensity(Split):
    """A log density: `function(x, …) + per_number · count(x)`.

    Attributes:
        function: the log density up to a constant.
        per_number: the constant of each of the numbers that are counted.
        count: how many there are in the first argument.
    """

    function: Callable[..., Array]
    per_number: Scalar
    count: Callable[[PyTree], int] = one

    def __call__(self, first: PyTree, *others: PyTree) -> Array:
        """Return it."""
        return self.function(first, *others) + self.constant(first)

    @property
    def varying(self) -> Callable[..., Array]:
        return self.function

    def constant(self, *arguments: PyTree) -> Array | float:
        return self.per_number * self.count(arguments[0])


def log_scale_constant(scale: Scalar) -> Scalar:
    """Return −log scale − log(2π)/2, the constant of a normal density with that scale."""
    log = math.log(scale) if isinstance(scale, int | float) else jnp.log(scale)
    return -log - HALF_LOG_2PI


def varying_part(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function without its constant; the function itself if none is known."""
    return function.varying if isinstance(function, Split) else function


def constant_part(function: Callable[..., Any], *arguments: PyTree) -> Array | float:
    """Return the constant of a function, 0 if none is known."""
    return function.constant(*arguments) if isinstance(function, Split) else 0.0
