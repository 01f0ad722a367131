"""How many steps there are from one refresh to the next."""

from collections.abc import Callable

from ewsg_jax import _check

Period = int | Callable[[int], int] | None
"""A whole number K, a function of n that returns it, or None for ⌈n/b⌉."""


def period(refresh_every: Period, batch_size: int) -> Callable[[int], int]:
    """Return K as a function of n.

    Raises:
        TypeError, ValueError: `refresh_every` is no positive whole number; when called, that the function of n
            returns none.
    """
    if refresh_every is None:
        return lambda n: -(-n // batch_size)
    if not callable(refresh_every):
        every = _check.integer("refresh_every", refresh_every)
        return lambda n: every
    return lambda n: _check.integer("refresh_every(n)", refresh_every(n))
