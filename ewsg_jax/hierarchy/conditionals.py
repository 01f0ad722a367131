"""Conditional means and widths of effects in the prior, by its gradients alone.

Given all that is not normal the log prior f is quadratic in the effects, so differences of
gradients give its second derivatives, without error but rounding.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base.typing import Array
from ewsg_jax.vectors.layout import Layout

Level = tuple[int, ...]
"""The coordinates of effects that are independent of each other given all others."""


@dataclass(frozen=True)
class VectorPrior:
    """The log prior of a position that is given as a vector (d,); equal if its parts are.

    Attributes:
        log_prior: the log prior of a position.
        layout: how d numbers are a position.
    """

    log_prior: Callable[[Any], Array | float]
    layout: Layout

    def __call__(self, flat: Array) -> Array:
        """Return the log prior at a vector."""
        return jnp.asarray(self.log_prior(self.layout.tree(flat)), flat.dtype)


class Hierarchy(NamedTuple):
    """A prior with its effects; hashable.

    Attributes:
        prior: the log prior of a vector.
        levels: the coordinates of the effects of each level, the lowest first.
    """

    prior: VectorPrior
    levels: tuple[Level, ...]


class Conditional(NamedTuple):
    """The normal distribution of the effects of a level, in the prior.

    Attributes:
        mean: their means, shape (effects,).
        width: their standard deviations, shape (effects,).
    """

    mean: Array
    width: Array


def conditional(
    hierarchy: Hierarchy, number: int, flat: Array, center: Array, width: Array
) -> Conditional:
    """Return the distribution of the effects of a level given the coordinates above, in the prior.

    Those below are integrated out: with a normal distribution the gradient of the logarithm of a
    marginal density is that of the joint one at the conditional mean of what is integrated out.

    Args:
        hierarchy: the prior and its levels.
        number: the number of the level, 0 for the lowest.
        flat: a vector (d,), of which the effects of this level and of those below are not used.
        center: values that effects may have, shape (d,).
        width: widths that they may have, shape (d,): gradients are evaluated at center − width and
            at center + width.
    """
    places = jnp.asarray(hierarchy.levels[number])
    center_here, width_here = center[places], width[places]

    def gradient(at: Array) -> Array:
        """Return the gradient of the marginal log prior at values of these effects."""
        at_rest = flat.at[places].set(at)
        for below in reversed(range(number)):
            mean = conditional(hierarchy, below, at_rest, center, width).mean
            at_rest = at_rest.at[jnp.asarray(hierarchy.levels[below])].set(mean)
        return jax.grad(hierarchy.prior)(at_rest)[places]

    low, high = jax.vmap(gradient)(jnp.stack([center_here - width_here, center_here + width_here]))
    variance = 2 * width_here / (low - high)
    return Conditional(center_here + variance * (low + high) / 2, jnp.sqrt(variance))
