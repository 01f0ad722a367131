"""The prior that the ready models share."""

import math
from collections.abc import Callable

import jax.numpy as jnp

from ewsg_jax import _check, _tree
from ewsg_jax._types import Array, Position


def normal_prior(prior_scale: float) -> Callable[[Position], Array]:
    """Return the log density of N(0, prior_scale² I) up to a constant; flat for `math.inf`."""
    if isinstance(prior_scale, float) and prior_scale == math.inf:
        return lambda position: jnp.float32(0.0)
    _check.positive("prior_scale", prior_scale)
    precision = prior_scale**-2
    return lambda position: -0.5 * precision * _tree.squared_norm(position)
