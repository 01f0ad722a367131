"""Whole numbers that may depend on n, such as the steps from one refresh to the next."""

from collections.abc import Callable
from dataclasses import dataclass

from ewsg_jax import _check
from ewsg_jax._module import hashable, module, static
from ewsg_jax._types import Data, P
from ewsg_jax.gradients.protocol import OfRows
from ewsg_jax.rows.view import all_rows

Period = int | Callable[[int], int] | None
"""A whole number, a function of n that returns it, or None for the default, such as ⌈n/b⌉."""


def checked_period(name: str, value: Period) -> Period:
    """Check and return it, as what may stand in a static field.

    Raises:
        TypeError, ValueError: `value` is no positive whole number.
    """
    if value is None:
        return None
    return hashable(value) if callable(value) else _check.integer(name, value)


def period_at(name: str, value: Period, default: Callable[[int], int], n: int) -> int:
    """Return it for n rows.

    Raises:
        TypeError, ValueError: the function of n returns no positive whole number.
    """
    if value is None:
        return default(n)
    return _check.integer(f"{name}(n)", value(n)) if callable(value) else value


@dataclass(frozen=True)
class Epoch:
    """⌈n/b⌉ as a function of n: the steps of a pass over the data, b rows a step."""

    batch_size: int

    def __call__(self, n: int) -> int:
        """Return it for n rows."""
        return -(-n // self.batch_size)


def epoch(batch_size: int) -> Epoch:
    """Return ⌈n/b⌉ as a function of n."""
    return Epoch(batch_size)


@module
class Refreshed(OfRows[P]):
    """An estimator whose memory is made again every K steps, the first included.

    Attributes:
        refresh_every: K, as it was given; None for ⌈n/b⌉.
    """

    refresh_every: Period = static(default=None)

    def period(self, data: Data) -> int:
        """Return K."""
        return period_at(
            "refresh_every", self.refresh_every, epoch(self.batch_size), all_rows(data)
        )

    def check(self, position: P, data: Data) -> None:
        super().check(position, data)
        self.period(data)
