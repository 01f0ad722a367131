"""What is evaluated at draws: losses, and what a step has to be small for.

Draws are pairs of positions, of step h and h/2. The functions compare by value, so that one
compiled program serves all calls.
"""

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from ewsg_jax.base import limits, pytrees
from ewsg_jax.base.power_iteration import power_iteration
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._view import gather, num_rows, sum_over_rows, view


@dataclass(frozen=True)
class LossChanges:
    """L(w) − L(w*), the mean over rows of several data sets, at both positions of a pair.

    Called as `(pair, (w*, data by name), key)`; returns arrays (2,) by name, at h and at h/2.

    Rows are compared one by one and summed afterwards: in float32 the sum over many rows has not
    the digits for the difference of two of them.

    Attributes:
        posterior: the posterior whose likelihood it is.
        batch_size: rows drawn for each draw, the same for w and w*; None: all rows.
    """

    posterior: Posterior
    batch_size: int | None

    def __call__(self, pair: tuple[Position, Position], inputs: PyTree, key: Key) -> PyTree:
        center, tables = inputs
        return {
            name: jnp.stack([self._change(position, center, data, key) for position in pair])
            for name, data in tables.items()
        }

    def _change(self, position: Position, center: Position, data: Data, key: Key) -> Array:
        n = num_rows(data)
        if self.batch_size is not None and self.batch_size < n:
            data = gather(data, view(data).draw(key, self.batch_size)).rows
            n = self.batch_size

        def change(rows: Data) -> Array:
            here, at_center = (self.posterior.log_likelihoods(w, rows) for w in (position, center))
            return jnp.sum(at_center - here)

        return sum_over_rows(change, data) / n


@dataclass(frozen=True)
class Stiffness:
    """The largest curvature of nL at the first position of a pair, and the noise of one row.

    Called as `(pair, (w*, data), key)`; returns scalars by the names "curvature" and "noise", the
    trace of the covariance over rows of ∇lᵢ(w) − ∇lᵢ(w*).

    Attributes:
        posterior: the likelihood.
        scale: how many rows each row of the data stands for.
        noise_rows: rows from which the noise is estimated; 0 if it is not asked for.
    """

    posterior: Posterior
    scale: float
    noise_rows: int

    def __call__(self, pair: tuple[Position, Position], inputs: PyTree, key: Key) -> PyTree:
        position, (center, data) = pair[0], inputs
        start_key, rows_key = jax.random.split(key)
        noise = jnp.float32(0)
        if self.noise_rows:
            rows = gather(data, view(data).draw(rows_key, self.noise_rows)).rows
            here, at_center = (
                self.posterior.flat_row_gradients(w, rows) for w in (position, center)
            )
            noise = jnp.sum(jnp.var(here - at_center, axis=0, ddof=1))
        curvature, _ = largest_curvature(self.posterior, position, data, self.scale, start_key)
        return {"curvature": curvature, "noise": noise}


def largest_curvature(
    posterior: Posterior, position: Position, data: Data, scale: float, key: Key
) -> tuple[Array, Position]:
    """Return the curvature of nL that is largest without its sign, with its sign, and its direction
    of length 1.

    Args:
        posterior: the posterior whose likelihood it is.
        position: the position at which the curvature is taken.
        data: some rows.
        scale: how many of the n rows each of these stands for.
        key: a typed PRNG key, of the first direction.
    """

    def gradient(w: Position) -> Position:
        over_rows = posterior.likelihood_gradient(w, data, widened=True)
        return jax.tree.map(lambda x: scale * x, over_rows)

    def product(v: Position) -> Position:
        return jax.jvp(gradient, (position,), (v,))[1]

    v, image = power_iteration(product, position, key)
    return pytrees.inner(v, image).astype(jnp.float32), v


@dataclass(frozen=True)
class AtWeights:
    """The largest curvature of nL at w*, and the mean square of row gradients in its direction.

    Attributes:
        posterior: the likelihood.
        scale: how many rows each row of the data stands for.
    """

    posterior: Posterior
    scale: float

    def __call__(self, center: Position, data: Data, key: Key) -> PyTree:
        curvature, v = largest_curvature(self.posterior, center, data, self.scale, key)
        _, of_rows = jax.jvp(lambda w: self.posterior.log_likelihoods(w, data), (center,), (v,))
        return {"curvature": curvature, "squared_gradient": jnp.mean(of_rows**2)}


@functools.partial(jax.jit, static_argnums=0)
def at_weights(of: AtWeights, center: Position, rows: Data, key: Key) -> PyTree:
    """Return what `AtWeights` returns, by one program for all weights."""
    return of(center, rows, key)


@functools.partial(jax.jit, static_argnums=0)
def total_loss(posterior: Posterior, center: Position, data: Data) -> Array:
    """Return nL."""
    return -sum_over_rows(lambda rows: jnp.sum(posterior.log_likelihoods(center, rows)), data)


@functools.partial(jax.jit, static_argnums=0)
def gradient_length(posterior: Posterior, center: Position, data: Data) -> Array:
    """Return the length of the gradient of nL."""
    gradient = posterior.likelihood_gradient(center, data, widened=True)
    return jnp.sqrt(pytrees.squared_norm(gradient))


def noise_rows(size: int) -> int:
    """Return the number of rows whose gradients show their noise: 4 to 64 by memory.

    Args:
        size: d, the numbers of a gradient.
    """
    return max(4, min(64, limits.NUMBERS_AT_ONCE // size))
