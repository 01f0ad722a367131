"""Whether positions lie where the posterior has a density: gradients alone do not say it.

Where a prior is flat between walls, or a likelihood is -inf for some rows, the gradient outside is
0 or that of the inside. Chains that follow gradients go there without a sign. So densities
themselves are evaluated.

outside: after a run, at some positions on some rows.
outside_by_batches: for a check, at every draw on rows of its own.
preparation.support.outside: before a run, on all rows, where by its structure a density can end.
Outside: what each of them returns.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.rows._view import gather, num_rows
from ewsg_jax.vectors.row_subsets import evenly, take_rows

POSITIONS, MOST_NUMBERS = 256, 2**22
"""Positions of which log_prior is evaluated, at the most, and numbers in all of them."""
LEVELS = ((4, 32), (16, 64), (32, 128))
"""Positions and rows of which log_likelihood is evaluated, at the most: a program for each."""
CURE = (
    "give bounded parameters a bijector (posterior.transformed(ewsg_jax.bijectors.positive()), "
    "interval, simplex, ordered), which takes their support to all numbers; where the data bound "
    "it, one that begins at their largest or least value"
)
"""What helps against draws outside."""
PART = 0.1
"""Of the tolerance, the share of draws that may lie outside: 0.5 % of a normal is 2 % of its sd."""
ROWS_AT_ONCE = 2**16
"""Rows whose densities are evaluated together, of batches."""
BLOCK = 256
"""Positions that one call of that program takes."""


class Densities(NamedTuple):
    """What was evaluated, NumPy arrays.

    Attributes:
        log_prior: of each position, shape (p,).
        log_likelihood: the mean over rows at the first positions, shape (m,), m ≤ p.
        rows_outside: of how many rows it is not finite there, shape (m,).
        num_rows: of how many it was evaluated.
    """

    log_prior: np.ndarray
    log_likelihood: np.ndarray
    rows_outside: np.ndarray
    num_rows: int

    @property
    def outside_prior(self) -> np.ndarray:
        """Whether log_prior of each position is -inf, infinite or NaN, shape (p,)."""
        return is_outside(self.log_prior)

    @property
    def outside_likelihood(self) -> np.ndarray:
        """Whether log_likelihood of a row is not finite at the first positions, shape (m,)."""
        return self.rows_outside > 0

    def potential(self, num_data: int) -> np.ndarray:
        """Return V at the first positions from these rows, scaled to all, shape (m,)."""
        return -self.log_prior[: len(self.log_likelihood)] - num_data * self.log_likelihood


class Outside(NamedTuple):
    """Which share of positions lie where the density is 0 or not a number.

    Attributes:
        prior: by log_prior, of all positions evaluated.
        likelihood: by log_likelihood, of those where it was evaluated.
        share: where either is.
        evaluated: positions at which the likelihood was evaluated.
        data_passes: evaluations of the likelihood over all rows; 0 where some rows stand for all.
    """

    prior: float = 0.0
    likelihood: float = 0.0
    share: float = 0.0
    evaluated: int = 0
    data_passes: float = 0.0

    @classmethod
    def of(
        cls,
        prior: np.ndarray,
        likelihood: np.ndarray,
        at: np.ndarray | None = None,
        data_passes: float = 0.0,
    ) -> "Outside":
        """Return the shares of what was found: whether positions are outside by log_prior, (p,),
        and whether some of them, those `at` numbers (m,) or the first, are by log_likelihood, (m,).
        """
        either = likelihood | prior[slice(len(likelihood)) if at is None else at]
        of_prior, of_likelihood, of_either = (
            float(each.mean()) if each.size else 0.0 for each in (prior, likelihood, either)
        )
        return cls(of_prior, of_likelihood, max(of_prior, of_either), len(likelihood), data_passes)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self.prior > 0 or self.likelihood > 0

    def matters(self, tolerance: float) -> bool:
        """Return whether enough lies outside to move sds by a part of the tolerance."""
        return self.share > PART * tolerance

    @property
    def what(self) -> str:
        """Which function ends the support, in words, where values as good as -inf count too."""
        if self.prior >= self.likelihood:
            return "log_prior is -inf, or as good as" if self.prior else "the density is 0"
        return "log_likelihood is -inf or NaN for some rows, or as good as -inf"

    @property
    def in_short(self) -> str:
        """How much is outside and why, to continue from "of draws"."""
        return f"{100 * self.share:.3g} % where {self.what}"

    def __str__(self) -> str:
        parts = ((self.prior, "log_prior is"), (self.likelihood, "log_likelihood of a row is"))
        return "; ".join(
            f"{100 * share:.3g} % of draws where {what} -inf or NaN"
            for share, what in parts
            if share
        )


NONE = Outside()


def is_outside(values: np.ndarray, far: float = np.inf) -> np.ndarray:
    """Return which log densities are not finite, or lie `far` below the best of them."""
    known = values[np.isfinite(values)]
    return ~np.isfinite(values) | (values <= known.max(initial=-np.inf) - far)


def outside(
    posterior: Posterior,
    positions: PyTree,
    data: Data,
    evaluations: int = LEVELS[-1][0] * LEVELS[-1][1],
) -> Outside:
    """Return which share of positions lie where the posterior has no density.

    Of positions with a leading axis at most 256 are evaluated, evenly spaced; of rows at most 128,
    at 32 of the positions, with at most about `evaluations` of log_likelihood.
    """
    # Spread over all positions, the first of which are evaluated with rows as well.
    most, few, _ = sizes(evaluations, positions)
    places = evenly(jax.tree.leaves(positions)[0].shape[0], most)
    first = places[evenly(len(places), few)]
    order = np.concatenate([first, np.setdiff1d(places, first)])
    chosen = jax.tree.map(lambda x: np.asarray(x)[order], positions)
    found = densities(posterior, chosen, some_rows(data), evaluations)
    return Outside.of(found.outside_prior, found.outside_likelihood)


def outside_by_batches(
    key: Key, posterior: Posterior, layout: Any, flat: np.ndarray, data: Data, batch_size: int
) -> Outside:
    """Return which share of positions (draws, d) have no density: the prior at each, the likelihood
    at each on some rows.

    These are at most `batch_size`: all rows where there are no more, else others for each group of
    successive positions, such that all rows are seen by some where positions are enough. The
    layout, which is hashable, says how d numbers are a position: by `tree` and `dtypes`.
    """
    # Of many rows a batch stands for all.
    n = num_rows(data)
    count = min(n, batch_size)
    if isinstance(data, Spread):
        # One batch for all positions: rows are on devices of their own.
        data = gather(data, jax.random.choice(key, n, (count,), replace=False)).rows
        n = count
    # Rows cost more to fetch than to evaluate: a group has the same ones, and is so small that
    # groups see all rows. Powers of two, in whole blocks: one program serves any number of
    # positions.
    together = 2 ** int(
        math.log2(max(1, min(BLOCK, ROWS_AT_ONCE // count, len(flat) * count // n)))
    )
    blocks = -(-len(flat) // BLOCK)
    places = np.resize(flat, (blocks, BLOCK // together, together, flat.shape[1]))
    places = places.astype(jnp.result_type(float, *layout.dtypes))
    # Without replacement over all groups, so that together they see every row.
    numbers = [None] * blocks
    if count < n:
        numbers = _spread_out(n, blocks * BLOCK // together * count).reshape(blocks, -1, count)
    found = [
        np.asarray(_are_finite(posterior, layout, key, *each, data))
        for each in zip(places, numbers, strict=True)
    ]
    finite = np.concatenate(found)[: len(flat)]
    return Outside.of(~finite[:, 0], ~finite[:, 1])


def _spread_out(n: int, count: int) -> np.ndarray:
    """Return `count` of 0, …, n − 1, each equally often, successive ones all over the range."""
    # The golden ratio, next to a number without a common divisor: it comes to each row once.
    step = int(n * (5**0.5 - 1) / 2)
    while math.gcd(step, n) > 1:
        step += 1
    return (step * np.arange(count, dtype=np.int64) % n).astype(np.int32)


@functools.partial(jax.jit, static_argnums=(0, 1), compiler_options=QUICK)
def _are_finite(
    posterior: Posterior, layout: Any, key: Key, places: Array, numbers: Array | None, data: Data
) -> Array:
    """Return whether prior and likelihood are finite at places (groups, together, d).

    Each group on rows (groups, rows) counted from one that the key says; None: on all.
    """
    # A random first row, so that another key sees other rows with a position.
    n = num_rows(data)
    first = jax.random.randint(key, (), 0, n)

    def of_group(group: tuple[Array, Array | None]) -> Array:
        positions, own = group
        rows = data if own is None else jax.tree.map(lambda x: x[(own - (n - first)) % n], data)

        def at(place: Array) -> Array:
            position = layout.tree(place)
            likelihood = jnp.all(jnp.isfinite(posterior.log_likelihoods(position, rows)))
            return jnp.stack([jnp.all(jnp.isfinite(posterior.log_prior(position))), likelihood])

        return jax.vmap(at)(positions)

    return jax.lax.map(of_group, (places, numbers)).reshape(-1, 2)


def some_rows(data: Data) -> Data:
    """Return the rows that are evaluated, at most 128."""
    return take_rows(data, evenly(jax.tree.leaves(data)[0].shape[0], LEVELS[-1][1]))


def sizes(evaluations: int, positions: PyTree) -> tuple[int, int, int]:
    """Return how many positions log_prior is evaluated at, and with how many rows how many
    log_likelihood, for at most `evaluations` of it.
    """
    numbers = max(1, sum(x[:1].size for x in jax.tree.leaves(positions)))
    fit = [
        one for one in LEVELS if one[0] * one[1] <= evaluations and one[0] * numbers <= MOST_NUMBERS
    ]
    # The largest level that the evaluations allow: each is a program of its own.
    few, rows = fit[-1] if fit else LEVELS[0]
    return max(few, min(POSITIONS, MOST_NUMBERS // numbers)), few, rows


def densities(posterior: Posterior, positions: PyTree, rows: Data, evaluations: int) -> Densities:
    """Return log_prior of the first positions, and log_likelihood of rows as `sizes` says.

    Numbers of positions and rows are made up to those of one program, which later calls share.
    """
    count, length = (jax.tree.leaves(tree)[0].shape[0] for tree in (positions, rows))
    most, few, rows_at_once = sizes(evaluations, positions)
    used = evenly(length, rows_at_once)
    # Filled up to the level's size, so that its program serves any number.
    places = np.minimum(np.arange(most), count - 1)
    chosen = jax.tree.map(lambda x: np.asarray(x)[places], positions)
    prior, likelihood = _evaluated(
        posterior, chosen, take_rows(rows, np.resize(used, rows_at_once)), few
    )
    values = np.asarray(likelihood)[: min(count, few), : len(used)]
    bad = ~np.isfinite(values)
    # A row that is not finite makes the position's density 0, however many others there are.
    means = np.where(bad, 0, values).mean(axis=1, dtype=np.float64)
    means[bad.any(axis=1)] = -np.inf
    return Densities(np.asarray(prior, np.float64)[:count], means, bad.sum(axis=1), len(used))


@functools.partial(jax.jit, static_argnums=(0, 3), compiler_options=QUICK)
def _evaluated(
    posterior: Posterior, positions: Position, rows: Data, few: int
) -> tuple[Array, Array]:
    prior = jax.vmap(lambda one: jnp.asarray(posterior.log_prior(one), float))(positions)
    first = jax.tree.map(lambda x: x[:few], positions)
    return prior, jax.vmap(lambda one: posterior.log_likelihoods(one, rows))(first)
