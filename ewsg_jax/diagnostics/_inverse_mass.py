"""An inverse mass from a pilot run, if the curvature at the mode does not fit the posterior.

In coordinates in which the covariance C is I, even draws of N(0, I) have a sample covariance with
eigenvalues other than 1: for n draws in d dimensions they range from about (1 − √(d/n))² to
(1 + √(d/n))². With probability 1 − α all lie within

    (1 ± (√(d/n) + √(2 log(2/α)/n)))²

for independent Gaussian draws (Davidson & Szarek 2001). C is corrected along a direction u only if
its eigenvalue lies outside this range and the chains agree; n is then the number of independent
draws with the same errors of mean and variance along u. The variance along u is not the eigenvalue
λ, which is too extreme, but the ℓ with λ = ℓ + (d/n) ℓ/(ℓ − 1) (a spiked covariance, Johnstone
2001).
"""

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.factors import HostFactor, LowRank, factor_of, is_number
from ewsg_jax.base.typing import Array
from ewsg_jax.diagnostics._coordinates import coordinates
from ewsg_jax.diagnostics._summary import check_size
from ewsg_jax.draws.convergence import FEWEST_CHAIN_DRAWS, ess, mcse
from ewsg_jax.dynamics._mass import InverseMass
from ewsg_jax.run.samples import Samples


def inverse_mass(
    samples: Samples, covariance: InverseMass, *, error_rate: float = 0.01
) -> Array | LowRank:
    """Return a covariance, corrected along directions in which draws differ significantly from it.

    Few correlated draws leave it unchanged; the bare covariance of the draws is never returned. The
    result is as good as the draws: a pilot run that is too wide or has not reached everything gives
    a mass for what it sampled. The sampled distribution does not depend on the mass; the largest
    stable step and the number of steps do.

    Args:
        samples: what `ewsg_jax.sample` returned, with whole positions, preferably several chains.
            Chains that diverged are left out.
        covariance: an estimate of the posterior's covariance: `ewsg_jax.find_mode(…).covariance`,
            or anything that `inverse_mass=` takes but a bare number.
        error_rate: α in (0, 1), the probability that a correct covariance is changed. Default
            0.01.

    Returns:
        `covariance` itself if no direction differs; else a matrix (d, d) if `covariance` is one,
        and otherwise a `dynamics.LowRank`. Both are for `inverse_mass=`, in the position's
        precision.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, draws are not finite, there
            are fewer than four of a chain, or every chain diverged.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> data = jax.random.normal(jax.random.key(0), (50, 2))
        >>> kernel = ewsg.uld(ewsg.models.gaussian_location(), 5e-2, friction=10.0)
        >>> pilot = ewsg.sample(
        ...     jax.random.key(1), kernel, jnp.zeros(2), data, 2_000, num_chains=4, burn_in=200
        ... )
        >>> guess = jnp.diag(jnp.array([1 / 50, 1.0]))  # the second is 1/50 too
        >>> corrected = ewsg.diagnostics.inverse_mass(pilot, guess)
        >>> print(jnp.diag(corrected).round(2))
        [0.02 0.02]
    """
    check_size(samples)
    checks.positive("error_rate", error_rate)
    checks.decay("error_rate", error_rate)
    if is_number(covariance):
        raise TypeError(
            "covariance must be a pytree like the position, a matrix (d, d) or a LowRank; got "
            f"{checks.describe(covariance)}"
        )
    position = (
        jax.tree.map(lambda leaf: jnp.asarray(leaf[0, 0]), samples.draws)
        if samples.num_draws
        else None
    )
    draws, _ = coordinates(samples)
    if not len(draws):
        raise ValueError("samples must have a chain that did not diverge; got none")
    if draws.shape[1] < FEWEST_CHAIN_DRAWS:
        raise ValueError(
            f"samples must have at least {FEWEST_CHAIN_DRAWS} draws of each chain; got "
            f"{draws.shape[1]}"
        )
    if not np.isfinite(draws).all():
        raise ValueError(
            f"samples must be finite; got {np.sum(~np.isfinite(draws)):,} numbers that are not"
        )
    factor_of(covariance, "covariance").check("covariance", position)
    known = _known(covariance)
    white = HostFactor(known).solved(draws - draws.mean((0, 1)))
    directions, values = _different_directions(white, float(error_rate))
    corrected = _corrected(known, directions, values) if len(values) else covariance
    dtype = jnp.result_type(float, *(leaf.dtype for leaf in jax.tree.leaves(position)))
    return jax.tree.map(lambda x: jnp.asarray(x, dtype), corrected)


def _known(covariance: object) -> np.ndarray | LowRank:
    """Return a checked covariance in float64, a diagonal as a low rank without directions."""
    if isinstance(covariance, LowRank):
        return LowRank(*(np.asarray(part, np.float64) for part in covariance))
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(covariance)]
    if (
        isinstance(covariance, jax.Array | np.ndarray)
        and leaves[0].ndim == 2
        and len(set(leaves[0].shape)) == 1
    ):
        return leaves[0]
    diagonal = np.concatenate([leaf.ravel() for leaf in leaves])
    return LowRank(diagonal, np.zeros((len(diagonal), 0)), np.zeros(0))


def _corrected(
    covariance: np.ndarray | LowRank, directions: np.ndarray, values: np.ndarray
) -> np.ndarray | LowRank:
    """Return L (I + U (Λ − I) Uᵀ) Lᵀ of a covariance L Lᵀ, U the directions and Λ the values."""
    moved = HostFactor(covariance).times(directions.T).T
    if not isinstance(covariance, LowRank):
        return covariance + (moved * (values - 1)) @ moved.T
    # All directions lie within those of the low rank and L U, each over the root of the diagonal.
    diagonal, basis, sizes = covariance
    moved /= np.sqrt(diagonal)[:, None]
    span, _ = np.linalg.qr(np.column_stack([basis, moved]))
    both = [(span.T @ vectors, size) for vectors, size in ((basis, sizes), (moved, values))]
    within = np.eye(span.shape[1]) + sum((v * (size - 1)) @ v.T for v, size in both)
    sizes, axes = np.linalg.eigh(within)
    return LowRank(diagonal, span @ axes, sizes)


def _different_directions(white: np.ndarray, error_rate: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the directions (d, r) along which the variance is not 1, and their variances.

    The draws have shape (chain, draw, d), mean zero and, along all other directions, covariance I.
    """
    flat = white.reshape(-1, white.shape[-1])
    (count, d), log_rate = flat.shape, 2 * np.log(2 / error_rate)
    values, vectors = _eigen(flat)
    suspects = [k for k, value in enumerate(values) if _is_beyond(value, d, count, log_rate)]
    # The smallest sample variance is along a direction without slow modes, whose ESS looks large.
    slowest = _ess(white).min() if any(values[k] < 1 for k in suspects) else np.inf
    directions, variances = [], []
    for k in suspects:
        along = white @ vectors[:, k]
        n = min(
            count, float(_ess(along)[0]), _draws_of(along), slowest if values[k] < 1 else np.inf
        )
        # Chains that disagree have one effective draw or fewer.
        if n >= 10 * len(white) and _is_beyond(values[k], d, n, log_rate):
            directions.append(vectors[:, k])
            variances.append(_population_variance(values[k], d / n))
    return np.array(directions).reshape(-1, d).T, np.array(variances)


def _ess(draws: np.ndarray) -> np.ndarray:
    """Return the effective number of draws (chain, draw, …); 0 if it is undefined."""
    return np.nan_to_num(ess(draws.reshape(*draws.shape[:2], -1)), nan=0.0)


def _eigen(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues and eigenvectors of the draws' covariance; if d > count, nonzero ones."""
    count, d = flat.shape
    if d <= count:
        values, vectors = np.linalg.eigh(flat.T @ flat / count)
        return values, vectors
    values, left = np.linalg.eigh(flat @ flat.T / count)
    values, left = values[values > 1e-10 * values[-1]], left[:, values > 1e-10 * values[-1]]
    return values, flat.T @ left / np.sqrt(count * values)


def _is_beyond(value: float, d: int, n: float, log_rate: float) -> bool:
    """Return whether an eigenvalue is outside the range of n draws of N(0, I)."""
    reach = (np.sqrt(d) + np.sqrt(log_rate)) / np.sqrt(n)
    return np.sqrt(value) > 1 + reach or np.sqrt(value) < 1 - reach


def _draws_of(along: np.ndarray) -> float:
    """Return how many independent Gaussian draws have the same error of the variance."""
    error = float(mcse(along[..., None] ** 2)[0])
    return 2 * float(np.mean(along**2)) ** 2 / error**2 if error > 0 else 0.0


def _population_variance(value: float, ratio: float) -> float:
    """Return ℓ of the sample eigenvalue λ, with `ratio` = d/n."""
    middle = value + 1 - ratio
    apart = np.sqrt(max(middle**2 - 4 * value, 0.0))
    return (middle + apart if value > 1 else middle - apart) / 2
