"""Few draws that stand for all: those that together are nearest to the target."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ewsg_jax import _check
from ewsg_jax._types import Data, Key, PyTree
from ewsg_jax.checking.draws import TAKES
from ewsg_jax.diagnostics.scored import scored, whitened
from ewsg_jax.diagnostics.stein_kernel import SteinKernel
from ewsg_jax.freshness import reads_now
from ewsg_jax.posterior import Posterior
from ewsg_jax.preparation import Mode
from ewsg_jax.rows.named import Rows
from ewsg_jax.sampling import Samples


@dataclass(frozen=True, eq=False)
class Thinned:
    """Draws that were chosen, in the order of their choice; one may be there more than once.

    Attributes:
        chain: numbers of their chains in the samples, shape (count,).
        draw: their numbers in these, shape (count,).
        discrepancy: the kernel Stein discrepancy of the first 1, 2, … of them, pairs of a draw with
            itself included, shape (count,).
        num_draws: draws that were used.
        data_passes: what the gradients cost.
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
        """Return the chosen draws of the samples, a tree of arrays with the leading axis count.

        Args:
            samples: those that were thinned, or what else has their chains and draws.

        Raises:
            TypeError, ValueError: they are none.
        """
        tree = samples.draws if isinstance(samples, Samples) else samples
        leaves = jax.tree.leaves(tree)
        if not leaves or not all(isinstance(x, jax.Array | np.ndarray) for x in leaves):
            raise TypeError(f"{TAKES}; got {_check.describe(samples)}")
        least = int(self.chain.max()) + 1, int(self.draw.max()) + 1
        if any(x.ndim < 2 or x.shape[0] < least[0] or x.shape[1] < least[1] for x in leaves):
            raise ValueError(
                f"samples must be those that were thinned, of at least {least[0]} chains and "
                f"{least[1]} draws; got {_check.listed('samples', _check.shapes(tree))}"
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
    temperature: float = 1.0,
    max_draws: int = 4_000,
    batch_size: int | None = 1_000,
    rows: Rows | None = None,
) -> Thinned:
    """Choose draws one by one that make the kernel Stein discrepancy of those chosen least.

    Greedily (Riabiz, Chen, Cockayne, Swietach, Niederer, Mackey & Oates 2022), with the kernel of
    `kernel_stein_discrepancy`. Draws from before a run had arrived, and draws too far out, are
    passed over. It takes O(m·count·d) operations of m draws. Noise of gradients adds to a draw's
    kernel with itself, so that draws with little noise are preferred a little: with
    `batch_size=None` there is none. Of many numbers few draws are chosen too near the middle: means
    are better than those of as many draws evenly spaced, widths too small.

    Args:
        key: a typed PRNG key, for the batches.
        samples: what `ewsg_jax.sample` returned, or draws of positions, a tree of arrays with the
            leading axes (chain, draw). Chains that are not finite are left out.
        posterior: what should have been sampled.
        data: all n rows.
        count: draws to choose; more than there are repeats some.
        mode: what `find_mode` returned for it, whose covariance times T is the metric M. Default:
            the draws' own covariance; its diagonal above 1,000 numbers, or with fewer than four
            draws for each.
        scale: c, in units of the metric.
        temperature: T of the target exp(−V/T).
        max_draws: draws of all chains together that are used, evenly spaced.
        batch_size: rows for each draw, in two batches; None: all.
        rows: how they are drawn, as in `ewsg_jax.check`.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; there are fewer than eight
            draws of a chain, or none that is finite; a coordinate never moves; the gradient is not
            finite at a draw.

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
    _check.positive("scale", scale)
    _check.integer("count", count)
    draws, fresh = scored(
        key,
        samples,
        posterior,
        data,
        temperature=temperature,
        max_draws=max_draws,
        batch_size=batch_size,
        rows=rows,
        shared_minibatch=None,
        mode=mode,
    )
    white = whitened(draws, fresh, mode, float(temperature))
    chosen, discrepancy = _greedy(SteinKernel.of(white, float(scale)), count)
    chains, times = np.meshgrid(draws.chains, draws.kept, indexing="ij")
    if draws.shared:
        chains, times = chains.T, times.T
    return Thinned(
        chains.ravel()[chosen], times.ravel()[chosen], discrepancy, len(white.u), fresh.data_passes
    )


def _greedy(kernel: SteinKernel, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return which draws are chosen, and the discrepancy after each."""
    alone = kernel.diagonal
    with_chosen, total = np.zeros(len(alone)), 0.0
    chosen, found = [], []
    for number in range(1, count + 1):
        best = int(np.argmin(alone / 2 + with_chosen))
        total += alone[best] + 2 * with_chosen[best]
        with_chosen += kernel.between(slice(None), slice(best, best + 1))[:, 0]
        chosen.append(best)
        found.append(max(total, 0.0) ** 0.5 / number)
    return np.array(chosen), np.array(found)
