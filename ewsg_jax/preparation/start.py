"""Where chains start: draws of a normal law."""

import functools
from dataclasses import dataclass
from typing import Any, Generic

import jax

from ewsg_jax import _check
from ewsg_jax._types import Array, Key, P
from ewsg_jax.compiling import QUICK
from ewsg_jax.factors import Factor, factor_of


@dataclass(frozen=True)
class Start(Generic[P]):
    """Draws of N(center, width² C): a function of a key, as `ewsg_jax.sample` takes it for a position.

    Attributes:
        center: a tree of floating-point arrays.
        covariance: C, as `inverse_mass=` of a kernel takes it.
        width: standard deviations of a draw, in those of C: above 1, so that chains that do not mix show it.
    """

    center: P
    covariance: Any
    width: float = 1.5

    def __call__(self, key: Key, width: float | None = None) -> P:
        """Return a draw, a tree like the center.

        Args:
            key: a typed PRNG key.
            width: in the place of the start's own.

        Raises:
            TypeError, ValueError: an argument has the wrong type or value.
        """
        _check.key(key)
        if width is not None:
            _check.positive("width", width)
        factor = factor_of(self.covariance, "covariance")
        return _draw(self.center, factor, self.width if width is None else width, key)

    def of_keys(self, keys: Array) -> P:
        """Return a draw for each key of an array, whose axes come first: by one program."""
        return _draws(self.center, factor_of(self.covariance, "covariance"), self.width, keys)


def _draw(center: P, factor: Factor, width: Any, key: Key) -> P:
    leaves, structure = jax.tree.flatten(center)
    keys = jax.random.split(key, len(leaves))
    normal = [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
    moved = factor.times(jax.tree.unflatten(structure, normal))
    return jax.tree.map(lambda x, v: (x + width * v).astype(x.dtype), center, moved)


@functools.partial(jax.jit, compiler_options=QUICK)
def _draws(center: Any, factor: Factor, width: Any, keys: Array) -> Any:
    draw = functools.partial(_draw, center, factor, width)
    for _ in keys.shape:
        draw = jax.vmap(draw)
    return draw(keys)


@dataclass(frozen=True, eq=False)
class Among(Generic[P]):
    """One of some positions, as probable as the others: a function of a key, as `Start`.

    Attributes:
        positions: a tree of arrays with a leading axis.
    """

    positions: P

    def __call__(self, key: Key) -> P:
        """Return one of the positions.

        Raises:
            TypeError: it is no key.
        """
        _check.key(key)
        return _one_of(self.positions, key)

    def of_keys(self, keys: Array) -> P:
        """Return one for each key of an array, whose axes come first: by one program."""
        return _some_of(self.positions, keys)


def _one_of(positions: P, key: Key) -> P:
    chosen = jax.random.randint(key, (), 0, jax.tree.leaves(positions)[0].shape[0])
    return jax.tree.map(lambda x: x[chosen], positions)


@functools.partial(jax.jit, compiler_options=QUICK)
def _some_of(positions: Any, keys: Array) -> Any:
    choose = functools.partial(_one_of, positions)
    for _ in keys.shape:
        choose = jax.vmap(choose)
    return choose(keys)
