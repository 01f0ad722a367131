"""Where chains start: draws of a normal law."""

from dataclasses import dataclass
from typing import Any, Generic

import jax

from ewsg_jax._types import Key, P
from ewsg_jax.factors import factor_of


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

    def __call__(self, key: Key) -> P:
        """Return a draw, a tree like the center."""
        factor = factor_of(self.covariance, "covariance")
        leaves, structure = jax.tree.flatten(self.center)
        keys = jax.random.split(key, len(leaves))
        normal = [jax.random.normal(k, x.shape, x.dtype) for k, x in zip(keys, leaves, strict=True)]
        moved = factor.times(jax.tree.unflatten(structure, normal))
        return jax.tree.map(lambda x, v: (x + self.width * v).astype(x.dtype), self.center, moved)
