"""Products of matrices and vectors in the precision of their dtype.

JAX's default lets an accelerator see float32 numbers through 8 or 11 bits (bfloat16 passes on TPUs,
TF32 on GPUs): a position at a relative spacing of 2⁻¹⁰, as wide as the posterior of 10⁷ rows. A CPU
has one precision. So a user's functions are traced with the precision of the dtype too, unless the
user has set `jax_default_matmul_precision`.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.constants import Split, constant_part, varying_part
from ewsg_jax.base.typing import Array

einsum = functools.partial(jnp.einsum, precision=jax.lax.Precision.HIGHEST)
tensordot = functools.partial(jnp.tensordot, precision=jax.lax.Precision.HIGHEST)


def matmul(x: Array, y: Array) -> Array:
    """Return x @ y, of any two dtypes."""
    return jnp.matmul(*pytrees.promoted(x, y), precision=jax.lax.Precision.HIGHEST)


def sum_of_outer(x: Array, y: Array) -> Array:
    """Return Σᵢ xᵢ ⊗ yᵢ over the leading axis, at least in float32."""
    x, y = pytrees.promoted(x, y)
    # Not x.T @ y, which XLA may carry out with a transposed copy of x.
    return tensordot(x, y, axes=(0, 0), preferred_element_type=pytrees.wide(x.dtype))


SETTING = "jax_default_matmul_precision"
"""The setting of JAX by which users choose the precision of products; None by default."""


class InFull(Split):
    """A user's function, whose products and their derivatives have the precision of their dtype.

    A precision that the function asks for itself, or that the user has set for JAX, comes first.
    Two are equal if their functions are.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        # By which errors and texts name it.
        self.__name__ = getattr(function, "__name__", type(function).__name__)
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)

    def __call__(self, *arguments: Any) -> Any:
        """Return what the function does."""
        if getattr(jax.config, SETTING) is not None:
            return self.function(*arguments)
        with jax.default_matmul_precision("highest"):
            return self.function(*arguments)

    @property
    def varying(self) -> Callable[..., Any]:
        varying = varying_part(self.function)
        return self if varying is self.function else in_full(varying)

    def constant(self, *arguments: Any) -> Array | float:
        return constant_part(self.function, *arguments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InFull) and is_equal(self.function, other.function)

    def __hash__(self) -> int:
        return hash_of(self.function)


def in_full(function: Callable[..., Any]) -> InFull:
    """Return a user's function as `InFull`, once."""
    return function if isinstance(function, InFull) else InFull(function)


def hash_of(value: object) -> int:
    """Return the hash of a value, or its identity if it has no hash."""
    try:
        return hash(value)
    except TypeError:
        return id(value)


def is_equal(mine: object, other: object) -> bool:
    """Return whether two functions are one, or equal by values that have a hash."""
    if mine is other or type(mine) is not type(other):
        return mine is other
    try:
        return hash(mine) == hash(other) and bool(mine == other)
    except TypeError:
        return False
