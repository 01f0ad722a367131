"""Starts of chains: draws of a normal distribution, or some of the draws of other chains."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic

import jax
import numpy as np

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.compiling import QUICK, UNOPTIMISED
from ewsg_jax.base.factors import Factor, factor_of
from ewsg_jax.base.typing import Array, Key, P


@dataclass(frozen=True)
class Start(Generic[P]):
    """Draws of N(center, width² C), a function of a key, as `sample` takes it for a position.

    Attributes:
        center: a pytree of floating-point arrays.
        covariance: C, as `inverse_mass=` of a kernel takes it.
        width: standard deviations of a draw over those of C: above 1, so that R-hat shows chains
            that do not mix.
    """

    center: P
    covariance: Any
    width: float = 1.5

    def __call__(self, key: Key, width: float | None = None) -> P:
        """Return a draw, a pytree like the center.

        Args:
            key: a typed PRNG key.
            width: standard deviations over those of C, instead of the start's own.

        Raises:
            TypeError, ValueError: an argument has the wrong type or value.
        """
        checks.key(key)
        if width is not None:
            checks.positive("width", width)
        factor = factor_of(self.covariance, "covariance")
        return _draw(self.center, factor, self.width if width is None else width, key)

    def of_keys(self, keys: Array) -> P:
        """Return a draw for each key of an array, whose axes come first, by one program."""
        numbers = keys.size * pytrees.size(self.center)
        # For few numbers a program with fewer optimisations takes less time, compiling included.
        draws = _few_draws if numbers <= 2**20 else _draws
        return draws(self.center, factor_of(self.covariance, "covariance"), self.width, keys)


@dataclass(frozen=True)
class Among(Generic[P]):
    """One of some draws, a function of a key, as `sample` takes it for a position.

    A normal distribution as wide as a curved posterior has draws at which the density of that is
    next to nothing and the gradient huge: from there chains diverge at steps that are stable
    everywhere else.

    Attributes:
        draws: a pytree of arrays whose leading axis counts draws.
    """

    draws: P

    def __call__(self, key: Key) -> P:
        """Return a draw.

        Raises:
            TypeError, ValueError: the key is not one typed key.
        """
        return _one_of(self.draws, checks.key(key))

    def of_keys(self, keys: Array) -> P:
        """Return a draw for each key of an array, whose axes come first, by one program."""
        return _some_of(self.draws, keys)

    def subset(self, key: Key, count: int) -> P:
        """Return `count` draws on a leading axis, none twice if there are enough."""
        number = jax.tree.leaves(self.draws)[0].shape[0]
        places = rng.host_generator(key).choice(number, count, replace=count > number)
        return jax.tree.map(lambda x: np.asarray(x)[places], self.draws)


def _one_of(draws: P, key: Key) -> P:
    place = jax.random.randint(key, (), 0, jax.tree.leaves(draws)[0].shape[0])
    return jax.tree.map(lambda x: x[place], draws)


@functools.partial(jax.jit, compiler_options=QUICK)
def _some_of(draws: object, keys: Array) -> Any:
    return _of_each(functools.partial(_one_of, draws), keys)


def _of_each(draw: Callable[[Key], P], keys: Array) -> P:
    """Return a draw for each key of an array, whose axes come first."""
    for _ in keys.shape:
        draw = jax.vmap(draw)
    return draw(keys)


def _draw(center: P, factor: Factor, width: object, key: Key) -> P:
    moved = factor.times(rng.noise(key, center))
    return jax.tree.map(lambda x, v: (x + width * v).astype(x.dtype), center, moved)


def _of_keys(center: object, factor: Factor, width: object, keys: Array) -> Any:
    return _of_each(functools.partial(_draw, center, factor, width), keys)


_few_draws, _draws = (jax.jit(_of_keys, compiler_options=o) for o in (UNOPTIMISED, QUICK))
