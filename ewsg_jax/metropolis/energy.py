"""V precise enough for its differences, and ∇V, in one pass over the rows.

A float32 sum over 10⁶ rows has an error of about 0.1, which changes acceptance probabilities. Here
the Vᵢ of a chunk of rows are split in two parts: multiples of one number, whose sums are exact in
any order, and the remainders, whose sum is small (Rump, Ogita & Oishi, Accurate floating-point
summation, SIAM Journal on Scientific Computing 31, 2008). Sums of chunks are added with their
rounding errors. V is a pair: a rounded sum and its error. The rounding of each Vᵢ remains, which is
random in sign.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Array, Data, P, Position, PyTree
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import fold_over_rows, view


class CompensatedPotential(NamedTuple):
    """V at a position, up to a constant.

    Attributes:
        value: V, rounded.
        error: V − value.
    """

    value: Array
    error: Array

    def above(self, other: "CompensatedPotential") -> Array:
        """Return the difference to another potential."""
        return (self.value - other.value) + (self.error - other.error)

    def raised(self, rise: Array) -> "CompensatedPotential":
        """Return this potential plus a number."""
        total, lost = pytrees.add_with_error(self.value, jnp.zeros_like(self.value), rise)
        # An infinite sum has no meaningful error.
        lost = jnp.where(jnp.isfinite(total), lost + self.error, 0)
        value = total + lost
        return CompensatedPotential(
            value, jnp.where(jnp.isfinite(value), lost - (value - total), 0)
        )


def is_lost(noise: float, temperature: float) -> bool:
    """Return whether rounding of V, of this standard deviation, lowers acceptance by a tenth."""
    return noise > 0.3 * temperature


def potential_and_gradient(
    posterior: Posterior[P], position: P, data: Data, chunk_size: int
) -> tuple[CompensatedPotential, Position]:
    """Return V, up to a constant, and ∇V shaped like the position, over all rows on one device.

    The position has 32 or 64 bits; `chunk_size` rows are taken at once, which bounds the memory.
    """
    # Constants would only cost digits.
    posterior = posterior.varying

    def add(total: PyTree, rows: Data, before: Array | int) -> PyTree:
        # V is kept as two numbers: the rounding of n terms in one would decide what is accepted.
        potential, gradient = total
        (high, low), gradient_of_rows = _of_rows(posterior, position, rows)
        return potential.raised(high).raised(low), pytrees.combine(
            (1, gradient), (1, gradient_of_rows)
        )

    zero = jnp.zeros((), jnp.result_type(jnp.float32, *pytrees.dtypes(position)))
    start = CompensatedPotential(zero, zero), pytrees.zeros_like(position)
    potential, gradient = fold_over_rows(add, start, view(data).cut, chunk_size)
    of_prior = -jnp.asarray(posterior.log_prior(position))
    return potential.raised(of_prior), posterior.total(position, data, gradient)


@functools.partial(jax.jit, static_argnums=(0, 4))
def rounding_noise(
    posterior: Posterior[P], position: P, moves: Position, data: Data, chunk_size: int
) -> Array:
    """Return the standard deviation of the rounding error in differences of V.

    It is measured as the standard deviation of the part of a difference of V that the gradient does
    not explain, over moves (pytrees like the position, leading axis move) as long as a step of the
    chain, or over an eighth of these moves if that is less: what is unexplained because moves are
    too long falls with their third power.
    """
    flat, as_tree = ravel_pytree(position)
    along = jax.vmap(lambda move: ravel_pytree(move)[0])(moves)
    # Points at two distances: rounding is what does not shrink with the distance.
    points = flat + jnp.concatenate([0 * along[:1], along, along / 8])

    def energy(point: Array) -> tuple[CompensatedPotential, Array]:
        potential, gradient = potential_and_gradient(posterior, as_tree(point), data, chunk_size)
        return potential, ravel_pytree(gradient)[0]

    # One program for all points: it is compiled once.
    potentials, gradients = jax.lax.map(energy, points)
    rises = potentials.above(pytrees.take(potentials, 0))
    # The trapezoid rule leaves third orders of the smooth part, and the rounding.
    unexplained = rises - jnp.sum((gradients + gradients[0]) / 2 * (points - flat), axis=1)
    return jnp.min(jnp.std(unexplained[1:].reshape(2, -1), axis=1))


def _of_rows(
    posterior: Posterior[P], position: P, rows: Data
) -> tuple[tuple[Array, Array], Position]:
    """Return Σ Vᵢ over some rows, as two sums, and Σ ∇Vᵢ."""
    if posterior.predictor is not None:
        gradient = posterior.sum_of_rows(posterior.row_gradients(position, rows), rows)
        return _in_two_sums(-posterior.log_likelihoods(position, rows)), gradient

    def total(position: P) -> tuple[Array, Array]:
        values = -posterior.log_likelihoods(position, rows)
        return jnp.sum(values), values

    (_, values), gradient = jax.value_and_grad(total, has_aux=True)(position)
    return _in_two_sums(values), gradient


def _in_two_sums(values: Array) -> tuple[Array, Array]:
    """Return two numbers that add up to the sum of the values, up to rounding of the second."""
    # Adding and subtracting a large number rounds all values to one grid, on which they add up
    # exactly.
    large = 4 * values.size * jnp.max(jnp.abs(values))
    large = jnp.where(jnp.isfinite(large), large, 0)
    high = (large + values) - large
    return jnp.sum(high), jnp.sum(values - high)
