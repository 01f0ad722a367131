"""The covariance of a minibatch's gradient at a point, from a pass over the data."""

import functools

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, products
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.typing import Array, Data, Position
from ewsg_jax.gradients._covariance import STRUCTURES, Covariance, Structure, clipped
from ewsg_jax.gradients._spread import like_row, share, some_basis, spread, turned
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._named import sampling_scheme
from ewsg_jax.rows._scheme import SamplingScheme
from ewsg_jax.rows._view import CHUNK_SIZE, view


def exact_covariance(
    posterior: Posterior,
    scheme: SamplingScheme,
    point: Position,
    data: Data,
    structure: Structure,
    basis: Array | None,
    chunk_size: int,
) -> Covariance:
    """Return the covariance of (n/b) Σ_{i∈I} ∇Vᵢ at a point, positive; a pass over the data.

    Dense or within a basis it comes as eigenvalues and vectors.
    """
    _, second = spread(posterior, point, data, chunk_size, structure, basis)
    matrix = view(data).across(share(scheme, data, second.dtype) * second)
    # A full pass has no rounding of an old sum, so whatever is negative is dropped.
    covariance, _ = clipped(matrix, jnp.zeros((), matrix.dtype))
    if basis is None or covariance.basis is None:
        return covariance
    return Covariance(covariance.matrix, products.matmul(basis, covariance.basis))


@functools.partial(
    jax.jit, static_argnames=("posterior", "scheme", "structure", "rank", "passes", "chunk_size")
)
def _covariance(
    position: Position,
    data: Data,
    posterior: Posterior,
    scheme: SamplingScheme,
    structure: Structure,
    rank: int,
    passes: int,
    chunk_size: int,
) -> Covariance:
    basis = None
    if structure == "low_rank":
        basis = some_basis(jax.random.key(0), rank, like_row(posterior, position, data))
        # Each pass is a step of orthogonal iteration; the last one is for the covariance itself.
        basis = jax.lax.fori_loop(
            0,
            passes - 1,
            lambda _, basis: turned(posterior, position, data, chunk_size, basis),
            basis,
        )
    return exact_covariance(posterior, scheme, position, data, structure, basis, chunk_size)


@reads_now("posterior")
def covariance_at(
    posterior: Posterior,
    position: Position,
    data: Data,
    *,
    batch_size: int,
    structure: Structure = "dense",
    rank: int = 10,
    passes: int = 5,
    replace: bool = True,
    chunk_size: int = CHUNK_SIZE,
) -> Covariance:
    """Return the covariance of `uniform`'s gradient at a position, over all batches of b rows.

    It is what `ewsg_jax.dynamics.noise_corrected(covariance=…)` takes: one matrix for all chains.

    Args:
        posterior: the target.
        position: the point at which gradients are taken; a pytree of floating-point arrays, d
            numbers in all.
        data: all rows; a pytree of arrays with n rows on the leading axis.
        batch_size: b, the number of rows in a batch.
        structure: form of the covariance: `"dense"` (default), `"diagonal"`, or `"low_rank"`: its r
            leading directions.
        rank: r, the rank with `"low_rank"`; at most d are used. Default 10.
        passes: number of passes over the data with `"low_rank"` (other structures take one): all
            but the last turn a basis towards the leading directions, each time closer by the ratio
            of the eigenvalues r + 1 and r. Default 5.
        replace: rows with replacement (default), or (False) a uniform subset.
        chunk_size: number of rows whose gradients are in memory at once, d numbers each; with
            `"low_rank"` no gradient of a row is made, and memory is that of r gradients of the sum
            of these rows.

    Returns:
        The covariance, in units of ∇V squared: eigenvalues and vectors, or the diagonal.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or does not fit the
            posterior.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> data = jnp.array([[0.0], [2.0]])
        >>> covariance = ewsg.gradients.covariance_at(model, jnp.zeros(1), data, batch_size=1)
        >>> covariance.times(jnp.ones(1))
        Array([4.], dtype=float32)
    """
    check_posterior(posterior)
    position = checks.position(position)
    checks.finite("position", position)
    scheme = sampling_scheme(batch_size, replace, "random")
    checks.one_of("structure", structure, STRUCTURES)
    rank, passes = checks.integer("rank", rank), checks.integer("passes", passes)
    chunk_size = checks.integer("chunk_size", chunk_size)
    posterior.check(position, data)
    scheme.check(data)
    return _covariance(position, data, posterior, scheme, structure, rank, passes, chunk_size)
