"""Whole numbers that may depend on how many data there are, such as the steps from one refresh to the next."""

from collections.abc import Callable

from ewsg_jax import _check

Period = int | Callable[[int], int] | None
"""A whole number, a function of n that returns it, or None for the default, such as ⌈n/b⌉."""


def period(name: str, value: Period, default: Callable[[int], int]) -> Callable[[int], int]:
    """Return it as a function of n.

    Raises:
        TypeError, ValueError: `value` is no positive whole number; when called, the function of n returns none.
    """
    if value is None:
        return default
    if not callable(value):
        fixed = _check.integer(name, value)
        return lambda n: fixed
    return lambda n: _check.integer(f"{name}(n)", value(n))


def epoch(batch_size: int) -> Callable[[int], int]:
    """Return ⌈n/b⌉ as a function of n: the steps of a pass over the data."""
    return lambda n: -(-n // batch_size)
