"""SWAG: a normal distribution fitted to the path of an optimiser (Maddox et al. 2019).

    mean θ̄ = (1/T) Σ θₜ,   covariance ½ diag(s²) + D Dᵀ/(2 (K − 1))
    s² = (1/T) Σ θₜ² − θ̄²,   the columns of D are θₜ − θ̄ₜ for the last K of the T iterates

θ̄ₜ is the mean of the first t iterates. The covariance has rank K and a diagonal, and is kept as a
`LowRank`: D^½ (I + U(Λ − I)Uᵀ) D^½ by a singular value decomposition of (d, K) numbers.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.mode.start import Start
from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.factors import LowRank
from ewsg_jax.base.typing import P
from ewsg_jax.networks._normal_approximation import NormalApproximation
from ewsg_jax.run.samples import Samples
from ewsg_jax.vectors.layout import Layout


def swag(iterates: P | Samples[P], *, rank: int = 20) -> NormalApproximation[P]:
    """Fit a normal distribution to the iterates of an optimiser (SWAG), or one to each chain.

    Take iterates at a constant rate, after training, one an epoch. The distribution is that of the
    optimiser, whose noise and rate set its width, not the posterior's: `ewsg_jax.check(key,
    swag(iterates).draws(key, 1_000).draws, posterior, data)` judges it.

    Args:
        iterates: a pytree whose leading axis counts iterates, at least two, such as what
            `jax.lax.scan` stacks; or the samples of a run, of which each chain that did not
            diverge gets a part of its own (multi-SWAG).
        rank: K, how many of the last iterates make the low-rank part, at least 2; with fewer
            iterates, all but the first, which has no deviation. 0 for none: the covariance is then
            diag(s²). Default 20.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, iterates are not finite, or
            too few.

    References:
        W. J. Maddox, T. Garipov, P. Izmailov, D. Vetrov and A. G. Wilson, A simple baseline for
            Bayesian uncertainty in deep learning, NeurIPS 2019.
        A. G. Wilson and P. Izmailov, Bayesian deep learning and a probabilistic perspective of
            generalization, NeurIPS 2020 (several chains).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from ewsg_jax import networks
        >>> path = {"w": jnp.array([[1.0, 0.0], [3.0, 0.5], [2.0, 1.0]])}
        >>> fitted = networks.swag(path)
        >>> fitted.mean["w"].tolist()
        [[2.0, 0.5]]
        >>> fitted.draws(jax.random.key(0), 10)
        Ensemble(num_chains=1, num_draws=10)
    """
    if checks.integer("rank", rank, minimum=0) == 1:
        raise ValueError("rank must be 0 or at least 2, for one deviation has no variance; got 1")
    # Paths of one optimiser or of each chain, leaves with the leading axis iterate.
    takes = "iterates must be a pytree of arrays with one leading axis, of two iterates at least"
    if isinstance(iterates, Samples):
        chains = iterates.finite_draws
        paths = [jax.tree.map(lambda x, c=c: x[c], chains) for c in range(iterates.is_finite.sum())]
        if not paths or not iterates.keeps_positions:
            raise ValueError(
                f"{takes}; got {iterates!r}, without positions of a chain that did not diverge"
            )
    else:
        paths = [jax.tree.map(np.asarray, iterates)]
    # All chains have the same shapes: the first one is checked.
    leaves = jax.tree.leaves(paths[0])
    shapes = [np.shape(x) for x in leaves]
    if not leaves or len({shape[:1] for shape in shapes}) > 1 or not shapes[0] or shapes[0][0] < 2:
        raise ValueError(f"{takes}; got leaves of shapes {shapes}")
    for path, leaf in jax.tree_util.tree_leaves_with_path(paths[0]):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise TypeError(
                f"iterates must hold floating-point arrays; iterates{jax.tree_util.keystr(path)} "
                f"is {checks.describe(leaf)}: leave out what is not trained"
            )
    checks.finite("iterates", paths)
    return NormalApproximation(tuple(_fitted(path, rank) for path in paths))


def _fitted(path: P, rank: int) -> Start[P]:
    """Return the normal distribution of one path."""
    one = jax.tree.map(lambda x: x[0], path)
    layout, count = Layout.of(one), len(jax.tree.leaves(path)[0])
    flat = np.concatenate([np.reshape(x, (count, -1)) for x in jax.tree.leaves(path)], axis=1)
    flat = flat.astype(np.float64)
    mean, variance = flat.mean(0), flat.var(0)
    # The first iterate is its own mean, a column of 0.
    running = np.cumsum(flat, axis=0) / np.arange(1, count + 1)[:, None]
    columns = (flat - running)[max(1, count - rank) :].T
    # Without other columns the diagonal is all of the covariance.
    share = 0.5 if columns.shape[1] > 1 else 1.0
    tiny = float(np.finfo(np.float32).tiny)
    # A number that never moved has next to no variance.
    diagonal = np.maximum(share * variance, tiny)
    basis, values = np.zeros((len(mean), 0)), np.zeros(0)
    if columns.shape[1] > 1:
        scaled = columns / np.sqrt(2 * (columns.shape[1] - 1) * diagonal)[:, None]
        basis, sizes, _ = np.linalg.svd(
            np.where(variance[:, None] > 0, scaled, 0), full_matrices=False
        )
        values = sizes**2
    dtype = jnp.result_type(jnp.float32, *layout.dtypes)
    covariance: Any = LowRank(*pytrees.placed((diagonal, basis, 1 + values), dtype))
    return Start(jax.device_put(layout.tree(mean)), covariance, width=1.0)
