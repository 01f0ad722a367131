"""Rows at random: independent ones, or a uniform subset."""

import itertools
import math
from collections.abc import Iterable

import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Data, Key
from ewsg_jax.rows._scheme import Order, SamplingScheme, check_fits
from ewsg_jax.rows._view import Batch, Block, num_rows, view

MOST_LISTED_BATCHES = 100_000
"""Batches that `batches` lists at most: full weights evaluate them all in every step. Set by
hand."""


@module
class Independent(SamplingScheme):
    """b independent uniform rows."""

    needs = frozenset()
    independent = True

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Batch:
        return Batch(view(data).draw(key, self.batch_size))

    def batches(self, data: Data) -> Batch | Block:
        n, b = num_rows(data), self.batch_size
        return _listed(n**b, n, b, itertools.product(range(n), repeat=b))


@module
class Subset(Independent):
    """A uniform subset of b rows."""

    independent = False
    distinct = True

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Batch:
        return Batch(view(data).draw(key, self.batch_size, replace=False))

    def check(self, data: Data) -> None:
        check_fits(view(data).share(self.batch_size), data, "replace=False")

    def batches(self, data: Data) -> Batch | Block:
        n, b = num_rows(data), self.batch_size
        return _listed(math.comb(n, b), n, b, itertools.combinations(range(n), b))


def _listed(count: int, n: int, batch_size: int, batches: Iterable[tuple[int, ...]]) -> Batch:
    if count > MOST_LISTED_BATCHES:
        # Python refuses to write out numbers of thousands of digits.
        number = f"{count:,}" if count < 10**18 else f"about 10^{math.log10(count):.0f}"
        raise ValueError(
            f"full weights need every batch: n = {n} and batch_size = {batch_size} give {number} "
            f"of them, at most {MOST_LISTED_BATCHES:,} are listed; take batch_size=1 or a finite "
            "chain_length"
        )
    return Batch(jnp.asarray(np.array(list(batches), np.int32)))
