"""Whole numbers that may depend on n, such as the steps from one refresh to the next."""

import abc
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp

from ewsg_jax.base import checks
from ewsg_jax.base.modules import hashable, module, static
from ewsg_jax.base.typing import Array, Data, Memory, P, PyTree
from ewsg_jax.gradients._batching import where_due
from ewsg_jax.gradients._protocol import Evaluations, OfRows
from ewsg_jax.rows._view import all_rows

Period = int | Callable[[int], int] | None
"""A whole number, a function of n that returns it, or None for the default, such as ⌈n/b⌉."""


def checked_period(name: str, value: Period) -> Period:
    """Check and return a period in a form that a static field may hold.

    Raises:
        TypeError, ValueError: `value` is not a positive whole number.
    """
    if value is None:
        return None
    return hashable(value) if callable(value) else checks.integer(name, value)


def period_at(name: str, value: Period, default: Callable[[int], int], n: int) -> int:
    """Return a period for n rows.

    Raises:
        TypeError, ValueError: the function of n does not return a positive whole number.
    """
    if value is None:
        return default(n)
    return checks.integer(f"{name}(n)", value(n)) if callable(value) else value


@dataclass(frozen=True)
class Epoch:
    """⌈n/b⌉ as a function of n: the steps of a pass over the data, b rows a step."""

    batch_size: int

    def __call__(self, n: int) -> int:
        """Return ⌈n/b⌉."""
        return -(-n // self.batch_size)


@module
class Refreshed(OfRows[P]):
    """An estimator whose memory is renewed every K steps, the first included. Write `renewed`.

    Attributes:
        refresh_every: K, as it was passed; None for ⌈n/b⌉.
    """

    refresh_every: Period = static(default=None)

    def period(self, data: Data) -> int:
        """Return K."""
        return period_at(
            "refresh_every", self.refresh_every, Epoch(self.batch_size), all_rows(data)
        )

    @property
    def passes(self) -> int:
        """How many passes over the data a refresh takes."""
        return 1

    @abc.abstractmethod
    def renewed(self, memory: Memory, point: P, data: Data) -> Memory:
        """Return the memory at a point; it may keep parts of the old memory."""

    def refresh(
        self, randomness: PyTree, memory: Memory, step: Array, point: P, data: Data
    ) -> tuple[Memory, P, Array | int]:
        due = step % self.period(data) == 0
        current = where_due(due, lambda: self.renewed(memory, point, data), memory)
        return current, point, jnp.where(due, self.passes * all_rows(data), 0)

    def evaluations(self, data: Data) -> Evaluations:
        of_step, per_refresh = super().evaluations(data), self.passes * all_rows(data)
        return of_step._replace(per_refresh=per_refresh, refresh_every=self.period(data))

    def check(self, position: P, data: Data) -> None:
        super().check(position, data)
        self.period(data)
