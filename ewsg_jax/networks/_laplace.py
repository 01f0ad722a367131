"""Laplace approximations of networks: normal distributions by the curvature at trained weights.

In units of the prior, W = diag(p)^(−½) with p the curvature of −log prior, the curvature of the
likelihood is M = W ∇²L W, L the negative log likelihood, and

    covariance  W (I + M₊)⁻¹ W = W (I + U (Λ − I) Uᵀ) W,   Λ = 1/(1 + μ)

with U and μ the eigenvectors and eigenvalues of M that are positive. A network that is trained, and
not at a minimum of its potential, has negative ones too: along these the likelihood is taken not to
bend, and the prior alone sets the width. For a model that is linear in its weights, with normal
noise and prior, it is the posterior's covariance.
"""

import functools
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.mode import settings
from ewsg_jax.answers.mode.lanczos import lanczos
from ewsg_jax.answers.mode.potential import HostPotential, Point
from ewsg_jax.answers.mode.start import Start
from ewsg_jax.base import checks, limits, numeric, pytrees
from ewsg_jax.base.factors import MOST_ASYMMETRY, LowRank
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.typing import Array, Data, P
from ewsg_jax.networks._normal_approximation import NormalApproximation
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._view import CHUNK_SIZE
from ewsg_jax.vectors.layout import vector
from ewsg_jax.vectors.potential import HESSIAN_BLOCK, PotentialSpec, product_with


@reads_now("posterior")
def laplace(
    posterior: Posterior[P],
    position: P,
    data: Data,
    *,
    structure: Literal["low_rank", "diagonal", "dense"] = "low_rank",
    rank: int = 32,
    chunk_size: int = CHUNK_SIZE,
) -> NormalApproximation[P]:
    """Approximate the posterior around trained weights by a normal distribution.

    Its mean is the position, which should be near a maximum of the posterior, its curvature that of
    the exact Hessian there, without its negative part. For the last layer alone take a posterior
    whose position is that layer, with the others fixed (`networks.posterior(…, sampled=…)`):
    `"dense"` then costs little. `ewsg_jax.find_mode(…)` finds a mode and its full curvature.

    Args:
        posterior: the target, with a prior that is independent between numbers and bends, such as a
            normal one.
        position: the trained weights, a pytree of floating-point arrays.
        data: all n rows.
        structure: `"low_rank"`, the directions in which the rows say most, the others as wide as
            the prior; `"diagonal"`, each number by its own curvature, as if the others were known;
            or `"dense"`, up to 1,000 numbers.
        rank: of `"low_rank"`, the number of directions. Default 32.
        chunk_size: rows that a sum over all rows takes at once. Default 4,096.

    Returns:
        The approximation; its `notes` have what it leaves out. Above 1,000 numbers `"low_rank"`
        costs 2·rank passes over the data and `"diagonal"` one for each number; below, one for each.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; the prior has no curvature
            there, or bends between numbers; there are more than 1,000 numbers for `"dense"`.

    References:
        D. J. C. MacKay, A practical Bayesian framework for backpropagation networks, Neural
            Computation 1992.
        E. Daxberger, A. Kristiadi, A. Immer, R. Eschenhagen, M. Bauer and P. Hennig, Laplace redux:
            effortless Bayesian deep learning, NeurIPS 2021.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=1.0)
        >>> data = {"x": jnp.array([[1.0], [1.0], [1.0]]), "y": jnp.array([1.0, 2.0, 1.0])}
        >>> fitted = ewsg.networks.laplace(model, jnp.array([1.0]), data)
        >>> float(fitted.sd[0, 0])  # of the posterior, 1/√(1 + 3)
        0.5
    """
    check_posterior(posterior)
    position = checks.position(position)
    checks.not_empty("position", position)
    checks.finite("position", position)
    checks.one_of("structure", structure, ("low_rank", "diagonal", "dense"))
    checks.integer("rank", rank)
    checks.integer("chunk_size", chunk_size)
    data = numeric.native(data)
    checks.data(data)
    checks.finite("data", data)
    data = jax.tree.map(jnp.asarray, data)
    posterior.check(position, data)

    # V, its gradient and products with its Hessian, on the host in float64.
    potential = HostPotential(posterior, position, data, chunk_size, lazy=True)
    if structure == "dense" and not potential.is_dense:
        raise ValueError(
            f"structure must be 'low_rank' or 'diagonal' above {limits.MAX_DENSE_DIMENSION:,} "
            f"numbers; got 'dense' for {potential.size:,}: sample the last layer alone"
        )
    point = potential.at(vector(position))
    if not point.is_finite():
        raise ValueError(
            "position must have a finite potential and gradient; got V = "
            f"{point.value:.4g} and {np.sum(~np.isfinite(point.gradient))} derivatives not finite"
        )
    with potential.of.precision():
        dtype = np.float64 if potential.of.wide else np.float32
        prior = _prior_curvature(potential.of, np.asarray(point.flat, dtype))
    if structure == "diagonal":
        covariance, notes = _by_diagonal(potential, point, prior, data)
    else:
        covariance, notes = _by_directions(potential, point, prior, structure, rank)
    # As factors: the matrix itself may lose its smallest eigenvalues to rounding in float32.
    dtype = jnp.result_type(jnp.float32, *pytrees.dtypes(position))
    covariance = pytrees.placed(covariance, dtype)
    return NormalApproximation((Start(position, covariance, width=1.0),), notes)


def _by_diagonal(
    potential: HostPotential, point: Point, prior: np.ndarray, data: Data
) -> tuple[LowRank, tuple[str, ...]]:
    """Return the covariance by each number's own curvature, float64, and what it leaves out.

    Args:
        potential: V.
        point: V and its gradient at the trained weights.
        prior: the curvature of −log prior of each number, shape (d,).
        data: all n rows, on the device.
    """
    if potential.is_dense:
        diagonal = np.diag(potential.hessian(point))
    else:
        with potential.of.precision():
            diagonal = np.asarray(_diagonal(potential.of, point.flat, data), np.float64)
    likelihood = diagonal - prior
    variances = 1 / (prior + np.maximum(likelihood, 0))
    without_directions = LowRank(variances, np.zeros((len(variances), 0)), np.zeros(0))
    return without_directions, _negative(likelihood, potential.of.wide)


def _by_directions(
    potential: HostPotential,
    point: Point,
    prior: np.ndarray,
    structure: Literal["low_rank", "dense"],
    rank: int,
) -> tuple[LowRank, tuple[str, ...]]:
    """Return the covariance by the eigenvectors of M, float64, and what it leaves out.

    Args:
        potential: V.
        point: V and its gradient at the trained weights.
        prior: the curvature of −log prior of each number, shape (d,).
        structure: `"low_rank"` for the first `rank` eigenvectors alone.
        rank: how many these are.
    """
    # M in units of the prior: all of it, or products with it.
    unit = 1 / np.sqrt(prior)
    if potential.is_dense:
        curvature = potential.hessian(point) - np.diag(prior)
        values, vectors = np.linalg.eigh(unit[:, None] * curvature * unit)
        values, vectors = values[::-1], vectors[:, ::-1]
        beyond = values[rank] if len(values) > rank else 0.0
    else:
        # Twice as many products as directions, for the last ones have not converged.
        spectrum = lanczos(
            lambda v: unit * (potential.product(point, unit * v) - prior * (unit * v)),
            len(unit),
            2 * rank,
        )
        values, vectors = spectrum.values, spectrum.directions
        beyond = values[rank] if len(values) > rank else max(values.min(initial=0.0), 0.0)
    notes = _negative(values, potential.of.wide)
    if structure == "low_rank":
        chosen = values[:rank] > 0
        values, vectors = values[:rank][chosen], vectors[:, :rank][:, chosen]
        # The largest eigenvalue that is left out says how much too wide its direction is.
        if beyond > 0:
            notes = (
                f"directions beyond the first {len(values)} are as wide as the prior, up to "
                f"{np.sqrt(1 + beyond):.3g} times too wide",
                *notes,
            )
    return LowRank(unit**2, vectors, 1 / (1 + np.maximum(values, 0))), notes


def _negative(curvatures: np.ndarray, wide: bool) -> tuple[str, ...]:
    """Return the note on negative curvatures of the likelihood, if there are some.

    Args:
        curvatures: eigenvalues of M, or the diagonal of the likelihood's Hessian.
        wide: whether they were computed in float64; in float32 more of them is rounding.
    """
    rounding = settings.CURVATURE_ROUNDING[wide] * len(curvatures)
    count = int(np.sum(curvatures < -rounding * np.abs(curvatures).max(initial=0.0)))
    if not count:
        return ()
    return (
        f"the likelihood has a negative curvature along {count} directions, which are as wide as "
        "the prior: the position is not at a mode",
    )


def _prior_curvature(of: PotentialSpec, flat: np.ndarray) -> np.ndarray:
    """Return the curvature of −log prior of each number, shape (d,).

    By two products with the Hessian: if it is diagonal, the one with random signs is the one with
    ones, but for these signs.

    Raises:
        ValueError: a curvature is not positive, or numbers depend on each other.
    """
    signs = np.where(np.random.default_rng(0).random(len(flat)) < 0.5, -1, 1).astype(flat.dtype)
    along = [jax.vjp(of.prior_gradient, flat)[1](v)[0] for v in (np.ones_like(flat), signs)]
    diagonal, signed = (np.asarray(x, np.float64) for x in along)
    takes = "posterior must have a prior that is independent between numbers and bends, as a normal"
    if not (np.isfinite(diagonal).all() and (diagonal > 0).all()):
        raise ValueError(
            f"{takes} one does; got one without curvature in {np.sum(~(diagonal > 0))} of "
            f"{len(flat)} numbers"
        )
    if np.any(np.abs(signed * signs - diagonal) > MOST_ASYMMETRY * diagonal.max()):
        raise ValueError(f"{takes} one does; got one whose numbers depend on each other")
    return diagonal


@functools.partial(jax.jit, static_argnums=0)
def _diagonal(of: PotentialSpec, flat: Array, data: Data) -> Array:
    """Return the diagonal of ∇²V, shape (d,), by its columns, `HESSIAN_BLOCK` at once."""
    product, size = product_with(of, flat, data), flat.shape[0]
    blocks = jnp.arange(-(-size // HESSIAN_BLOCK) * HESSIAN_BLOCK).reshape(-1, HESSIAN_BLOCK)

    def of_block(places: Array) -> Array:
        columns = jax.vmap(product)(jax.nn.one_hot(places, size, dtype=flat.dtype))
        return columns[jnp.arange(HESSIAN_BLOCK), places % size]

    return jax.lax.map(of_block, blocks).ravel()[:size]
