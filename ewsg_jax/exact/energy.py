"""V with the digits that differences of it need, and ∇V, in one pass over the rows.

A float32 sum over 10⁶ rows is known to some 0.1, which an acceptance would feel. Here each chunk of rows is summed as
ever, to some 10⁻⁴, and the chunks' sums are added with their rounding errors: V is a pair of numbers, the rounded sum
and what it is too small by. Differences of two such pairs have the digits of the chunks, √(n / chunk size) 10⁻⁴.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax import _tree
from ewsg_jax._types import Array, Data, P, Position, PyTree
from ewsg_jax.posterior import Posterior
from ewsg_jax.rows.gathering import fold_over_rows
from ewsg_jax.rows.view import view


class Potential(NamedTuple):
    """V at a position, up to a constant.

    Attributes:
        value: rounded.
        error: what it is too small by.
    """

    value: Array
    error: Array

    def above(self, other: "Potential") -> Array:
        """Return by how much it is above another."""
        return (self.value - other.value) + (self.error - other.error)

    def raised(self, rise: Array) -> "Potential":
        """Return a potential that is above this one by so much."""
        return Potential(*_tree.add_with_error(self.value, self.error, rise))


def potential_and_gradient(
    posterior: Posterior[P], position: P, data: Data, chunk_size: int
) -> tuple[Potential, Position]:
    """Return V, and ∇V shaped like the position, of all rows, which lie on one device.

    Args:
        posterior: the target; what its densities are multiplied by is left out.
        position: where; floating-point numbers of 32 or 64 bits.
        data: all n rows.
        chunk_size: rows taken at once, which bounds the memory.
    """
    posterior = posterior.varying

    def add(total: PyTree, rows: Data, before: Array | int) -> PyTree:
        potential, gradient = total
        of_rows, gradient_of_rows = _of_rows(posterior, position, rows)
        return potential.raised(of_rows), _tree.combine((1, gradient), (1, gradient_of_rows))

    zero = jnp.zeros((), jnp.result_type(jnp.float32, *_tree.dtypes(position)))
    nothing = Potential(zero, zero), _tree.zeros_like(position)
    potential, gradient = fold_over_rows(add, nothing, view(data).cut, chunk_size)
    of_prior = -jnp.asarray(posterior.log_prior(position))
    return potential.raised(of_prior), posterior.total(position, data, gradient)


def _of_rows(posterior: Posterior[P], position: P, rows: Data) -> tuple[Array, Position]:
    """Return ΣVᵢ and Σ∇Vᵢ of some rows."""
    if posterior.predictor is None:
        return jax.value_and_grad(lambda p: -jnp.sum(posterior.log_likelihoods(p, rows)))(position)
    potential = -jnp.sum(posterior.log_likelihoods(position, rows))
    return potential, posterior.sum_of_rows(posterior.row_gradients(position, rows), rows)
