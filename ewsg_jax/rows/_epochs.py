"""Reshuffled epochs: every row at most once in each ⌊n/b⌋ steps, in a new order each time.

An epoch is a function of the words that a chain keeps and of the number of the step: it is known
before any step is made. The n mod b rows that it leaves out are others in each epoch, all as
probable: estimates are unbiased.
"""

import jax.numpy as jnp

from ewsg_jax.base import rng
from ewsg_jax.base.modules import module
from ewsg_jax.base.needs import Need
from ewsg_jax.base.typing import Array, Data, Key
from ewsg_jax.rows._scheme import Order, SamplingScheme, check_fits
from ewsg_jax.rows._view import Batch, num_rows


@module
class Epochs(SamplingScheme):
    """The next b rows of an epoch."""

    needs = frozenset({Need.ONE_N, Need.ONE_PLACE})
    ordered = True
    distinct = True

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Batch:
        assert order is not None
        n, b = num_rows(data), self.batch_size
        epoch, place = place_in_epoch(order, n // b)
        places = place * b + jnp.arange(b, dtype=jnp.int32)
        return Batch(rng.permuted(order.words[:2], epoch, places, n))

    def check(self, data: Data) -> None:
        check_fits(self.batch_size, data, "rows='epochs'")


def place_in_epoch(order: Order, num_batches: int) -> tuple[Array, Array]:
    """Return the number of a step's epoch and how many steps of it came before, int32."""
    # A step number beyond 2³¹ has become negative: as a word without a sign it goes on to 2³².
    step = order.step.astype(jnp.uint32)
    return (step // num_batches).astype(jnp.int32), (step % num_batches).astype(jnp.int32)
