"""The kernel Stein discrepancy between draws and the target, from gradients at the draws, and a
choice of few draws that makes it small.

The kernel is the inverse multiquadric, in coordinates in which a metric is I. With k(u, v) = q^−½,
q = c² + ‖u − v‖², and h the gradient of V/T, the Stein operator in both arguments gives

    κ(u, v) = d q^−³ᐟ² − 3 ‖u − v‖² q^−⁵ᐟ² − (u − v)·(h(u) − h(v)) q^−³ᐟ² + h(u)·h(v) q^−½,

whose mean over either argument is zero under exp(−V/T), and under no other distribution (Gorham &
Mackey 2017).
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import numpy as np

from ewsg_jax.answers.check import settings as check_settings
from ewsg_jax.answers.check.affine import metric_of, root_of
from ewsg_jax.answers.check.basis import White
from ewsg_jax.answers.check.crossfit import TINY, groups, jackknife
from ewsg_jax.answers.check.draws import Draws, draws_of, target_temperature, tree_of
from ewsg_jax.answers.check.gradients import FreshGradients, fresh_gradients
from ewsg_jax.answers.check.stein import blocks_of
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base import checks, limits, numeric
from ewsg_jax.base import rng as random_module
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.typing import Data, Key, PyTree
from ewsg_jax.model_checks.edges import cut_off
from ewsg_jax.model_checks.support_structure import can_end
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._named import Rows
from ewsg_jax.run.samples import Samples


def scored(
    key: Key,
    samples: Samples | PyTree,
    posterior: Posterior,
    data: Data,
    mode: Mode | None,
    temperature: float | None,
    max_draws: int,
    batch_size: int | None,
    rows: Rows | None,
    shared_minibatch: bool | None,
) -> tuple[Draws, FreshGradients, White]:
    """Check the shared arguments; return the used draws, ∇V/T at them, and both whitened."""
    checks.key(key)
    check_posterior(posterior)
    data = numeric.native(data)
    n = checks.data(data)
    judged_at = target_temperature(samples, temperature)
    checks.integer("max_draws", max_draws, minimum=64)
    if batch_size is not None:
        checks.integer("batch_size", batch_size, minimum=2)
    if shared_minibatch is not None:
        checks.boolean("shared_minibatch", shared_minibatch)
    draws = draws_of(samples, None, max_draws, shared_minibatch)
    if mode is not None:
        draws.check_mode(mode)
    data = jax.tree.map(jax.numpy.asarray, data)
    fresh = fresh_gradients(key, posterior, draws, data, batch_size or n, rows, judged_at)
    fresh.check()
    ends = can_end(posterior, draws.layout.tree(draws.flat[0]), data)
    # 0.05 is the tolerance of `check`.
    edges = cut_off(posterior, draws.layout, draws.flat, data, ends, 0.05) if any(ends) else []
    if edges:
        raise ValueError(
            "posterior must have a density that falls to 0 at the edges that draws reach, or "
            f"Stein's identities do not hold; got one for which {edges[0]}"
        )
    return draws, fresh, whitened(draws, fresh, mode, judged_at)


def whitened(draws: Draws, fresh: FreshGradients, mode: Mode | None, temperature: float) -> White:
    """Return draws and gradients in coordinates in which their, or a mode's, covariance is I.

    Each coordinate is scaled separately if draws are too few, or coordinates too many, for a
    matrix.
    """
    flat = draws.flat
    if mode is not None:
        center, root = metric_of(mode, temperature)
    else:
        center = flat.mean(0)
        is_dense = draws.size <= min(
            limits.MAX_DENSE_DIMENSION, len(flat) // check_settings.DRAWS_PER_FUNCTION - 1
        )
        off = flat - center
        root = root_of(off.T @ off / len(flat)) if is_dense else np.maximum(flat.std(0), TINY)
    if root.ndim == 1:
        u, first = (flat - center) / root, fresh.first * root
        return White(u, first, first if fresh.first is fresh.second else fresh.second * root)
    first = fresh.first @ root
    again = first if fresh.first is fresh.second else fresh.second @ root
    return White(np.linalg.solve(root, (flat - center).T).T, first, again)


TILE = 256
"""Draws whose κ with all others is in memory at once, if that is no more than
`limits.NUMBERS_AT_ONCE`; set by hand."""


class SteinKernel(NamedTuple):
    """κ between draws.

    Attributes:
        u: whitened draws, shape (m, d).
        h: gradients at them, shape (m, d): the mean over both batches. Noise is independent between
            draws, as κ needs.
        scale: c, in units of the metric.
    """

    u: np.ndarray
    h: np.ndarray
    scale: float

    def between(self, one: slice, other: slice) -> np.ndarray:
        """Return κ between some draws and others, a matrix."""
        u, v, g, h = self.u[one], self.u[other], self.h[one], self.h[other]
        apart = np.sum(u**2, 1)[:, None] + np.sum(v**2, 1) - 2 * (u @ v.T)
        apart = np.maximum(apart, 0.0)
        pull = np.sum(u * g, 1)[:, None] + np.sum(v * h, 1) - u @ h.T - g @ v.T
        inverse = 1 / (self.scale**2 + apart)
        return np.sqrt(inverse) * (g @ h.T + inverse * (u.shape[1] - pull - 3 * apart * inverse))

    @property
    def diagonal(self) -> np.ndarray:
        """κ of each draw with itself, shape (m,), which noise of gradients increases."""
        return self.u.shape[1] / self.scale**3 + np.sum(self.h**2, 1) / self.scale

    def sums(self, parts: list[slice]) -> np.ndarray:
        """Return sums of κ over pairs of different draws, one for each pair of successive parts."""
        starts, total = [part.start for part in parts], np.zeros((len(parts), len(parts)))
        for number, part in enumerate(parts):
            height = max(1, min(TILE, limits.NUMBERS_AT_ONCE // (len(self.u) - part.start)))
            for start in range(part.start, part.stop, height):
                rows = np.arange(start, min(start + height, part.stop))
                # The kernel is symmetric: later parts only; their mirror image is added below.
                values = self.between(slice(rows[0], rows[-1] + 1), slice(part.start, None))
                values[rows - start, rows - part.start] = 0.0
                ends = np.array(starts[number:]) - part.start
                total[number, number:] += np.add.reduceat(values.sum(0), ends)
        return total + np.triu(total, 1).T


NUM_SIGN_FLIPS = 4_999
"""Random signs of the blocks: the smallest p-value is then 1/5,000."""


@dataclass(frozen=True, eq=False)
class Discrepancy:
    """The kernel Stein discrepancy of draws.

    Attributes:
        squared: squared discrepancy, the mean of the Stein kernel over pairs of different draws;
            for independent draws of the target about 0, above or below.
        error: standard error of `squared` by the jackknife over blocks; too large for draws of the
            target.
        p_value: probability that draws of the target have a value as large, by random signs of
            blocks.
        num_draws: m, the number of draws that were used.
        num_blocks: number of blocks of successive draws.
        data_passes: cost of the gradients, in passes over the data.
    """

    squared: float
    error: float
    p_value: float
    num_draws: int
    num_blocks: int
    data_passes: float

    @property
    def value(self) -> float:
        """The root of `squared`; 0 if that is negative."""
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
    temperature: float | None = None,
    max_draws: int = 4_000,
    batch_size: int | None = 1_000,
    rows: Rows | None = None,
    shared_minibatch: bool | None = None,
) -> Discrepancy:
    """Return the kernel Stein discrepancy between draws and the target.

    The square is the mean of the Stein kernel of k(x, y) = (c² + (x − y)ᵀM⁻¹(x − y))^−½, in
    coordinates in which the metric M is I, over all m(m − 1) pairs of different draws: a
    U-statistic, which leaves the diagonal out (Liu, Lee & Jordan 2016; Gorham & Mackey 2017).
    Batches of different draws are independent, so noise of gradients does not bias it; on the
    diagonal it would. Correlation between successive draws makes it larger. The p-value allows for
    that: blocks of draws, each worth some ten independent ones, get random signs (Chwialkowski,
    Strathmann & Gretton 2016). It takes O(m²d) operations, tile by tile.

    Args:
        key: a typed PRNG key, for the batches and the signs.
        samples: what `ewsg_jax.sample` returned, or draws of positions, a pytree of arrays with the
            leading axes (chain, draw). Chains that are not finite are left out.
        posterior: the target.
        data: all n rows, a pytree of arrays.
        mode: what `find_mode` returned for the posterior; its covariance times T is the metric M.
            Default None: the covariance of the draws, or its diagonal if d > 1,000 or there are
            fewer than four draws per dimension.
        scale: c, in units of the metric. Default 1.
        temperature: T of the target exp(−V/T). Default: as in `ewsg_jax.check`.
        max_draws: largest number of draws of all chains together that are used, evenly spaced.
            Default 4,000.
        batch_size: number of rows per draw, in two batches; None: all rows. Default 1,000.
        rows: sampling scheme of these rows, as in `ewsg_jax.check`.
        shared_minibatch: whether the chains share their batches; a block is then a range of time in
            all chains. Default None: as recorded in samples of this library, False for other draws.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; there are fewer than eight
            draws of a chain, or none that is finite; a coordinate never moves; the gradient is not
            finite at a draw; draws lie at an edge at which the density is not 0.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model, data = ewsg.models.gaussian_location(), jnp.linspace(-1.0, 1.0, 40)[:, None]
        >>> right = (
        ...     jax.random.normal(jax.random.key(0), (4, 250, 1)) / 40**0.5
        ... )  # the posterior's sd
        >>> for draws in (right, 1.5 * right):
        ...     ksd = ewsg.diagnostics.kernel_stein_discrepancy(
        ...         jax.random.key(1), draws, model, data
        ...     )
        ...     print(ksd.p_value < 0.01, ksd.num_draws, ksd.data_passes)
        False 1000 1000.0
        True 1000 1000.0
    """
    checks.positive("scale", scale)
    for_batches, for_signs = jax.random.split(checks.key(key))
    options = temperature, max_draws, batch_size, rows, shared_minibatch
    draws, fresh, white = scored(for_batches, samples, posterior, data, mode, *options)
    count = blocks_of(draws.in_chains(white.u), draws.shared).number
    parts = groups(len(white.u), count)
    sums = SteinKernel(white.u, white.mean, float(scale)).sums(parts)
    sizes = np.array([part.stop - part.start for part in parts])
    squared, error, p_value = _jackknifed(sums, sizes, random_module.host_generator(for_signs))
    return Discrepancy(squared, error, p_value, len(white.u), len(parts), fresh.data_passes)


def _jackknifed(
    sums: np.ndarray, sizes: np.ndarray, rng: np.random.Generator
) -> tuple[float, float, float]:
    """Return the mean over pairs of draws, its jackknife error and its p-value by random signs.

    Args:
        sums: sums of κ over pairs of draws of two blocks, shape (blocks, blocks).
        sizes: number of draws of each block.
        rng: generator of the signs.
    """
    m, total = sizes.sum(), sums.sum()
    left = m - sizes
    without = (total - 2 * sums.sum(1) + np.diag(sums)) / (left * (left - 1))
    signs = rng.choice([-1.0, 1.0], (NUM_SIGN_FLIPS, len(sizes)))
    flipped = np.sum((signs @ sums) * signs, axis=1)
    p_value = (1 + np.sum(flipped >= total)) / (1 + NUM_SIGN_FLIPS)
    return float(total / (m * (m - 1))), float(jackknife(without)), float(p_value)


@dataclass(frozen=True, eq=False)
class Thinned:
    """Chosen draws in the order of their choice; one may be chosen more than once.

    Attributes:
        chain: chain numbers of the chosen draws in the samples, shape (count,).
        draw: their draw numbers in these chains, shape (count,).
        discrepancy: kernel Stein discrepancy of the first 1, 2, … chosen draws, with the pairs of a
            draw and itself, shape (count,).
        num_draws: number of draws that were used.
        data_passes: cost of the gradients, in passes over the data.
    """

    chain: np.ndarray
    draw: np.ndarray
    discrepancy: np.ndarray
    num_draws: int
    data_passes: float

    def __str__(self) -> str:
        return (
            f"{len(self.draw):,} of {self.num_draws:,} draws, kernel Stein discrepancy "
            f"{self.discrepancy[-1]:.3g} ({self.discrepancy[0]:.3g} of the first alone), "
            f"{self.data_passes:.3g} data passes"
        )

    def of(self, samples: Samples | PyTree) -> Any:
        """Return the chosen draws of the samples, a pytree of arrays with the leading axis count.

        Args:
            samples: the samples that were thinned, or others with the same chains and draws.

        Raises:
            TypeError, ValueError: `samples` are no samples, or have too few chains or draws.
        """
        tree = tree_of(samples)
        least = int(self.chain.max()) + 1, int(self.draw.max()) + 1
        if any(x.shape[0] < least[0] or x.shape[1] < least[1] for x in jax.tree.leaves(tree)):
            raise ValueError(
                f"samples must be those that were thinned, of at least {least[0]} chains and "
                f"{least[1]} draws; got {checks.listed('samples', checks.shapes(tree))}"
            )
        return jax.tree.map(lambda x: x[self.chain, self.draw], tree)


@reads_now("posterior")
def stein_thinning(
    key: Key,
    samples: Samples | PyTree,
    posterior: Posterior,
    data: Data,
    count: int,
    *,
    mode: Mode | None = None,
    scale: float = 1.0,
    temperature: float | None = None,
    max_draws: int = 4_000,
    batch_size: int | None = 1_000,
    rows: Rows | None = None,
) -> Thinned:
    """Choose draws greedily, each to minimise the kernel Stein discrepancy of those chosen so far.

    The algorithm is Stein thinning (Riabiz, Chen, Cockayne, Swietach, Niederer, Mackey & Oates
    2022), with the kernel of `kernel_stein_discrepancy`. It skips burn-in and draws too far out,
    and takes O(m·count·d) operations for m draws. Noise of gradients increases a draw's kernel with
    itself, so draws with little noise are slightly preferred; with `batch_size=None` there is no
    noise. In many dimensions few chosen draws lie too close to the centre: their means are better
    than those of as many evenly spaced draws, their sds are too small.

    Args:
        key: a typed PRNG key, for the batches.
        samples: what `ewsg_jax.sample` returned, or draws of positions, a pytree of arrays with the
            leading axes (chain, draw). Chains that are not finite are left out.
        posterior: the target.
        data: all n rows, a pytree of arrays.
        count: number of draws to choose; if it exceeds the number of draws, some are repeated.
        mode: what `find_mode` returned for the posterior; its covariance times T is the metric M.
            Default None: the covariance of the draws, or its diagonal if d > 1,000 or there are
            fewer than four draws per dimension.
        scale: c, in units of the metric. Default 1.
        temperature: T of the target exp(−V/T). Default: as in `ewsg_jax.check`.
        max_draws: largest number of draws of all chains together that are used, evenly spaced.
            Default 4,000.
        batch_size: number of rows per draw, in two batches; None: all rows. Default 1,000.
        rows: sampling scheme of these rows, as in `ewsg_jax.check`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; there are fewer than eight
            draws of a chain, or none that is finite; a coordinate never moves; the gradient is not
            finite at a draw; draws lie at an edge at which the density is not 0.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model, data = ewsg.models.gaussian_location(), jnp.linspace(-1.0, 1.0, 40)[:, None]
        >>> wide = jnp.linspace(-1.0, 1.0, 201)[None, :, None]  # the posterior's sd is 0.158
        >>> mode = ewsg.find_mode(jax.random.key(0), model, jnp.zeros(1), data)
        >>> few = ewsg.diagnostics.stein_thinning(
        ...     jax.random.key(1), wide, model, data, 20, mode=mode
        ... )
        >>> few.of(wide).shape, round(float(few.of(wide).std()), 2)
        ((20, 1), 0.15)
    """
    checks.positive("scale", scale)
    checks.integer("count", count)
    options = temperature, max_draws, batch_size, rows, None
    draws, fresh, white = scored(key, samples, posterior, data, mode, *options)
    chosen, discrepancy = _greedy(SteinKernel(white.u, white.mean, float(scale)), count)
    chains, times = np.meshgrid(draws.chains, draws.kept, indexing="ij")
    if draws.shared:
        chains, times = chains.T, times.T
    return Thinned(
        chains.ravel()[chosen], times.ravel()[chosen], discrepancy, len(white.u), fresh.data_passes
    )


def _greedy(kernel: SteinKernel, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the chosen draws, and the discrepancy after each choice."""
    alone = kernel.diagonal
    with_chosen, total = np.zeros(len(alone)), 0.0
    chosen, discrepancies = [], []
    for number in range(1, count + 1):
        best = int(np.argmin(alone / 2 + with_chosen))
        total += alone[best] + 2 * with_chosen[best]
        with_chosen += kernel.between(slice(None), slice(best, best + 1))[:, 0]
        chosen.append(best)
        discrepancies.append(max(total, 0.0) ** 0.5 / number)
    return np.array(chosen), np.array(discrepancies)
