"""The prior that the built-in models share."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.constants import LogDensity, log_scale_constant, size
from ewsg_jax.base.modules import number
from ewsg_jax.base.typing import Array, Position, Scalar


@dataclass(frozen=True)
class NormalPrior:
    """The log density of N(0, I/precision), up to its constant."""

    precision: Scalar

    def __call__(self, position: Position) -> Array:
        """Return it at a position."""
        return -0.5 * self.precision * pytrees.squared_norm(position)


def flat_prior(position: Position) -> Array:
    """Return 0: a flat prior is not a density and has no constant."""
    return jnp.float32(0.0)


def normal_prior(prior_scale: float) -> Callable[[Position], Array]:
    """Return the log density of N(0, prior_scale² I) with its constant; 0 for `math.inf`."""
    if isinstance(prior_scale, float) and prior_scale == math.inf:
        return flat_prior
    precision, constant = of_scale("prior_scale", prior_scale)
    return LogDensity(NormalPrior(precision), constant, size)


def of_scale(name: str, scale: Scalar) -> tuple[Scalar, Scalar]:
    """Check a standard deviation; return the precision and the constant of its normal density."""
    checks.positive(name, scale)
    known = number(scale)
    try:
        precision = known**-2
        if isinstance(precision, float) and precision > float(
            jnp.finfo(jnp.result_type(float)).max
        ):
            raise OverflowError
        return precision, log_scale_constant(known)
    except OverflowError:
        raise ValueError(
            f"{name} must be a positive number whose inverse square is a float; got {scale!r}"
        ) from None
