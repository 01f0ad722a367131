"""Positions where the density is 0: log_prior, or the log likelihood of a row, is −inf or NaN.

A gradient does not show it: that of `jnp.where(inside, …, -jnp.inf)` is 0 outside, as at a mode,
and chains that follow gradients leave the support without a sign. So densities themselves are
evaluated: at draws on some rows (`outside_by_batches`, for a check), or on all rows if the density
can be 0 by its structure (`outside`, for a mode and a plan).
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import limits
from ewsg_jax.base.compiling import QUICK, run
from ewsg_jax.base.typing import Array, Data, Key, Position
from ewsg_jax.model_checks.densities import log_likelihoods, log_priors
from ewsg_jax.model_checks.finding import Finding
from ewsg_jax.model_checks.support_structure import ZERO_DENSITY_GAP, can_end
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._spread import Spread
from ewsg_jax.rows._view import CHUNK_SIZE, all_rows, gather, num_rows
from ewsg_jax.vectors.layout import Layout

SUPPORT_CURE = (
    "give bounded parameters a bijector (posterior.transformed(ewsg_jax.bijectors.positive()), "
    "interval, simplex, ordered), which takes their support to all numbers; if the data bound "
    "it, one that begins at their largest or least value"
)
"""What helps if draws lie outside."""
TOLERATED_OUTSIDE = 0.1
"""Share of draws that may lie outside, as a part of the tolerance: at a tolerance of 5 %, 0.5 %. A
normal distribution without 0.5 % of one tail has an sd that is 2 % smaller."""


class Outside(NamedTuple):
    """Which share of positions lies where the density is 0 or not a number.

    Attributes:
        prior: the share by log_prior, of all positions evaluated.
        likelihood: the share by log_likelihood, of those at which it was evaluated.
        share: the larger of the share by either function if both are known, and of `prior`.
        data_passes: evaluations of the likelihood over all rows; 0 if some rows stand for all.
    """

    prior: float = 0.0
    likelihood: float = 0.0
    share: float = 0.0
    data_passes: float = 0.0

    @classmethod
    def of(
        cls,
        prior: np.ndarray,
        likelihood: np.ndarray,
        at: np.ndarray | None = None,
        data_passes: float = 0.0,
    ) -> "Outside":
        """Return the shares, from whether positions are outside by log_prior, shape (p,), and
        whether some of them, those numbered `at` (m,) or the first, are by log_likelihood, (m,).
        """
        either = likelihood | prior[slice(len(likelihood)) if at is None else at]
        of_prior, of_likelihood, of_either = (
            float(x.mean()) if x.size else 0.0 for x in (prior, likelihood, either)
        )
        return cls(of_prior, of_likelihood, max(of_prior, of_either), data_passes)

    def __bool__(self) -> bool:
        """Return whether any position is outside."""
        return self.prior > 0 or self.likelihood > 0

    def matters(self, tolerance: float) -> bool:
        """Return whether enough lies outside to move sds by a part of the tolerance."""
        return self.share > TOLERATED_OUTSIDE * tolerance

    @property
    def what(self) -> str:
        """Which function ends the support, in words; values as good as -inf count too."""
        if self.prior >= self.likelihood:
            return "log_prior is -inf, or as good as" if self.prior else "the density is 0"
        return "log_likelihood is -inf or NaN for some rows, or as good as -inf"

    @property
    def in_short(self) -> str:
        """How much is outside and why, to continue from "of draws"."""
        return f"{100 * self.share:.3g} % lie where {self.what}"

    def __str__(self) -> str:
        parts = ((self.prior, "log_prior is"), (self.likelihood, "log_likelihood of a row is"))
        return "; ".join(
            f"{100 * share:.3g} % of draws where {what} -inf or NaN"
            for share, what in parts
            if share
        )

    @property
    def findings(self) -> list[Finding]:
        """One finding if any draw is outside."""
        return [Finding("support", "error", str(self), SUPPORT_CURE)] * bool(self)


NONE = Outside()


def is_outside(log_densities: np.ndarray) -> np.ndarray:
    """Return which log densities are infinite or NaN, or as good as, compared with the best."""
    best = log_densities[np.isfinite(log_densities)].max(initial=-np.inf)
    return ~np.isfinite(log_densities) | (log_densities <= best - ZERO_DENSITY_GAP)


def outside(
    posterior: Posterior, positions: Position, data: Data, chunk_size: int = CHUNK_SIZE
) -> Outside:
    """Return how many positions lie where the density is 0, by all rows.

    Args:
        posterior: the model, of which only what can be 0 by its structure is evaluated.
        positions: a pytree like the position with one leading axis.
        data: all rows, in one place or over several devices.
        chunk_size: the number of rows that are evaluated at once.
    """
    one = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), positions)
    prior_ends, likelihood_ends = can_end(posterior, one, data)
    count, none = jax.tree.leaves(positions)[0].shape[0], np.zeros(0, bool)
    prior = is_outside(log_priors(posterior, positions)) if prior_ends else np.zeros(count, bool)
    if not likelihood_ends:
        return Outside.of(prior, none)
    # With many rows few positions, so that this costs no more than some gradients.
    # So many evaluations of log_likelihood take some seconds.
    most = max(64, min(count, 2**24 // all_rows(data)))
    at = np.unique(np.linspace(0, count - 1, most).astype(int))
    chosen = jax.tree.map(lambda x: np.asarray(x)[at], positions)
    values = log_likelihoods(posterior, chosen, data, chunk_size)
    return Outside.of(prior, is_outside(values), at, float(len(at)))


def outside_by_batches(
    key: Key, posterior: Posterior, layout: Layout, flat: np.ndarray, data: Data, batch_size: int
) -> Outside:
    """Return which share of positions has no density: by the prior at each, and by the likelihood
    at each on some rows.

    Groups of successive positions share their rows: all rows if there are no more than
    `batch_size`, else other ones for each group, such that all rows are used by some group if
    there are positions enough.

    Args:
        key: a typed PRNG key; another one pairs positions with other rows.
        posterior: the model.
        layout: how d numbers are a position.
        flat: positions, shape (p, d).
        data: all n rows.
        batch_size: rows of a group.
    """
    n = num_rows(data)
    count = min(n, batch_size)
    if isinstance(data, Spread):
        # One batch for all positions: rows are on devices of their own.
        data = gather(data, jax.random.choice(key, n, (count,), replace=False)).rows
        n = count
    # Rows cost more to fetch than to evaluate: a group has the same ones, and is so small that
    # groups see all rows. Powers of two, in whole blocks: one program serves any number of
    # positions.
    block = limits.POSITIONS_AT_ONCE
    most = min(block, limits.ROWS_AT_ONCE // count, len(flat) * count // n)
    together = 2 ** int(math.log2(max(1, most)))
    blocks = -(-len(flat) // block)
    places = np.resize(flat, (blocks, block // together, together, flat.shape[1]))
    places = places.astype(jnp.result_type(float, *layout.dtypes))
    # Without replacement over all groups, so that together they see every row.
    numbers = [None] * blocks
    if count < n:
        num_groups = blocks * block // together
        numbers = _spread_out(n, num_groups * count).reshape(blocks, -1, count)
    finite = np.concatenate(
        [
            np.asarray(run(_are_finite, posterior, layout, key, *block, data))
            for block in zip(places, numbers, strict=True)
        ]
    )[: len(flat)]
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
    posterior: Posterior, layout: Layout, key: Key, places: Array, numbers: Array | None, data: Data
) -> Array:
    """Return whether prior and likelihood are finite at places (groups, together, d), for each
    group on its rows (groups, rows), counted from one that the key says; None: on all.
    """
    n = num_rows(data)
    first = jax.random.randint(key, (), 0, n)

    def of_group(group: tuple[Array, Array | None]) -> Array:
        positions, at = group
        rows = data if at is None else jax.tree.map(lambda x: x[(at - (n - first)) % n], data)

        def are_finite(place: Array) -> Array:
            position = layout.tree(place)
            likelihood = jnp.all(jnp.isfinite(posterior.log_likelihoods(position, rows)))
            return jnp.stack([jnp.all(jnp.isfinite(posterior.log_prior(position))), likelihood])

        return jax.vmap(are_finite)(positions)

    return jax.lax.map(of_group, (places, numbers)).reshape(-1, 2)
