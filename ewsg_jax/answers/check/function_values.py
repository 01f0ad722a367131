"""The values of a function of the position at draws."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.base import limits, tracing
from ewsg_jax.base.freshness import as_of_now
from ewsg_jax.base.typing import Position, PyTree


class FunctionValues(NamedTuple):
    """The values of a function that returns a pytree.

    Attributes:
        leaves: the leaves of the pytree, each of shape (draws, q), float64.
        shapes: shapes and dtypes of the pytree at one draw.
    """

    leaves: list[np.ndarray]
    shapes: PyTree

    def as_tree(self, numbers: list[np.ndarray]) -> PyTree:
        """Return a pytree of the same shapes, of NumPy arrays in float64.

        Args:
            numbers: the numbers of each leaf, shape (q,).
        """
        shapes, structure = jax.tree.flatten(self.shapes)
        return jax.tree.unflatten(
            structure,
            [
                np.asarray(x, np.float64).reshape(like.shape)
                for x, like in zip(numbers, shapes, strict=True)
            ],
        )


def values_at(draws: Draws, function: Callable[[Position], PyTree]) -> FunctionValues:
    """Return the values of a function of the position at draws, in the order of `draws.flat`.

    Raises:
        TypeError, ValueError: it is not a function of the position that returns arrays.
    """
    layout = draws.layout
    places = jnp.asarray(draws.flat, jnp.result_type(float, *layout.dtypes))
    with as_of_now(function):
        shapes = tracing.outputs("function", function, "a position", layout.tree(places[0]))
        values = jax.jit(
            lambda x: jax.lax.map(
                lambda flat: function(layout.tree(flat)),
                x,
                batch_size=limits.POSITIONS_AT_ONCE,
            )
        )(places)
    return FunctionValues(
        [np.asarray(x, np.float64).reshape(len(places), -1) for x in jax.tree.leaves(values)],
        shapes,
    )
