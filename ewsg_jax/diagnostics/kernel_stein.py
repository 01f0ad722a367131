"""How far draws are from the target, by the model's gradients: the kernel Stein discrepancy."""

from dataclasses import dataclass

import jax
import numpy as np

from ewsg_jax import _check, _random
from ewsg_jax._types import Data, Key, PyTree
from ewsg_jax.checking.crossfit import groups, jackknife
from ewsg_jax.checking.stein import blocks_of
from ewsg_jax.diagnostics.scored import scored, whitened
from ewsg_jax.diagnostics.stein_kernel import SteinKernel
from ewsg_jax.freshness import reads_now
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation import Mode
from ewsg_jax.rows.named import Rows
from ewsg_jax.sampling import Samples

FLIPS = 4_999
"""Signs of all blocks that are tried."""


@dataclass(frozen=True, eq=False)
class Discrepancy:
    """The kernel Stein discrepancy of draws.

    Attributes:
        squared: its square, the mean of the Stein kernel over pairs of different draws; about 0,
            above or below, of independent draws of the target.
        error: the standard error of `squared`, from leaving out one block of draws after the other;
            too large of draws of the target.
        p_value: how often draws of the target have one as large, by signs of blocks.
        num_draws: m, draws that were used.
        num_blocks: blocks of successive draws.
        data_passes: what the gradients cost.
    """

    squared: float
    error: float
    p_value: float
    num_draws: int
    num_blocks: int
    data_passes: float

    @property
    def value(self) -> float:
        """The root of `squared`; 0 where that is negative."""
        return max(self.squared, 0.0) ** 0.5

    def __str__(self) -> str:
        return (
            f"kernel Stein discrepancy {self.value:.3g} (squared {self.squared:.3g} ± "
            f"{self.error:.2g}, p = {self.p_value:.2g}) of {self.num_draws:,} draws, "
            f"{self.data_passes:.3g} data passes"
        )


@reads_now("posterior")
def kernel_stein_discrepancy(
    key: Key,
    samples: Samples | PyTree,
    posterior: Posterior,
    data: Data,
    *,
    mode: Mode | None = None,
    scale: float = 1.0,
    temperature: float = 1.0,
    max_draws: int = 4_000,
    batch_size: int | None = 1_000,
    rows: Rows | None = None,
    shared_minibatch: bool | None = None,
) -> Discrepancy:
    """Return how far draws are from the target in the kernel Stein discrepancy.

    The square is the mean of the Stein kernel of k(x, y) = (c² + (x − y)ᵀM⁻¹(x − y))^−½, in
    coordinates in which the metric M is I, over all m(m − 1) pairs of different draws: a
    U-statistic, which leaves the diagonal out (Liu, Lee & Jordan 2016; Gorham & Mackey 2017).
    Batches of different draws are independent, so that noise of gradients does not bias it; on the
    diagonal it would. Successive draws that are alike make it larger. The p-value allows for that:
    blocks of draws, each worth some ten independent ones, get random signs (Chwialkowski,
    Strathmann & Gretton 2016). It takes O(m²d) operations, tile by tile.

    Args:
        key: a typed PRNG key, for the batches and the signs.
        samples: what `ewsg_jax.sample` returned, or draws of positions, a tree of arrays with the
            leading axes (chain, draw). Chains that are not finite are left out.
        posterior: what should have been sampled.
        data: all n rows.
        mode: what `find_mode` returned for it, whose covariance times T is the metric M. Default:
            the draws' own covariance; its diagonal above 1,000 numbers, or with fewer than four
            draws for each.
        scale: c, in units of the metric.
        temperature: T of the target exp(−V/T).
        max_draws: draws of all chains together that are used, evenly spaced.
        batch_size: rows for each draw, in two batches; None: all.
        rows: how they are drawn, as in `ewsg_jax.check`.
        shared_minibatch: whether the chains share their batches: blocks are then of time. Default:
            what samples of this library say of themselves, and False of other draws.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; there are fewer than eight
            draws of a chain, or none that is finite; a coordinate never moves; the gradient is not
            finite at a draw.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model, data = ewsg.models.gaussian_location(), jnp.linspace(-1.0, 1.0, 40)[:, None]
        >>> right = (
        ...     jax.random.normal(jax.random.key(0), (4, 250, 1)) / 40**0.5
        ... )  # the posterior's sd
        >>> for draws in (right, 1.5 * right):
        ...     found = ewsg.diagnostics.kernel_stein_discrepancy(
        ...         jax.random.key(1), draws, model, data
        ...     )
        ...     print(found.p_value < 0.01, found.num_draws, found.data_passes)
        False 1000 1000.0
        True 1000 1000.0
    """
    _check.positive("scale", scale)
    for_batches, for_signs = jax.random.split(_check.key(key))
    draws, fresh = scored(
        for_batches,
        samples,
        posterior,
        data,
        temperature=temperature,
        max_draws=max_draws,
        batch_size=batch_size,
        rows=rows,
        shared_minibatch=shared_minibatch,
        mode=mode,
    )
    white = whitened(draws, fresh, mode, float(temperature))
    count = blocks_of(draws.in_chains(white.u), draws.shared).number
    parts = groups(len(white.u), count)
    sums = SteinKernel.of(white, float(scale)).sums(parts)
    sizes = np.array([part.stop - part.start for part in parts])
    squared, error, p_value = _judged(sums, sizes, _random.host_generator(for_signs))
    return Discrepancy(squared, error, p_value, len(white.u), len(parts), fresh.data_passes)


def _judged(
    sums: np.ndarray, sizes: np.ndarray, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return the mean over pairs of draws, its error and p-value, of sums over pairs of blocks.

    Args:
        sums: shape (blocks, blocks).
        sizes: draws of each block.
        rng: of the signs.
    """
    m, total = sizes.sum(), sums.sum()
    left = m - sizes
    without = (total - 2 * sums.sum(1) + np.diag(sums)) / (left * (left - 1))
    signs = rng.choice([-1.0, 1.0], (FLIPS, len(sizes)))
    flipped = np.sum((signs @ sums) * signs, axis=1)
    p_value = (1 + np.sum(flipped >= total)) / (1 + FLIPS)
    return float(total / (m * (m - 1))), float(jackknife(without)), float(p_value)
