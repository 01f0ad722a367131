"""θ = low + (high − low)/(1 + exp(−u)): numbers between two bounds."""

import math
import numbers
import sys

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Array
from ewsg_jax.bijectors._protocol import Bijector, Leafwise, lies_inside


@module
class Interval(Leafwise):
    """The bijector of `interval`."""

    low: float = static()
    high: float = static()

    def forward_leaf(self, x: Array) -> Array:
        # The distance from the nearer bound, so that small ones keep their digits; not by |x|,
        # which has a kink.
        first, last = _innermost(self.low, self.high, x.dtype)
        width = np.asarray(self.high, x.dtype) - np.asarray(self.low, x.dtype)
        from_bound = width * jax.nn.sigmoid(jnp.where(x < 0, x, -x))
        return jnp.clip(
            jnp.where(x < 0, self.low + from_bound, self.high - from_bound), first, last
        )

    def inverse_leaf(self, y: Array) -> Array:
        lies_inside(f"between {self.low} and {self.high}", (y > self.low) & (y < self.high))
        return jnp.log(y - self.low) - jnp.log(self.high - y)

    def log_det_parts(self, x: Array) -> Array:
        return math.log(self.high - self.low) - jax.nn.softplus(x) - jax.nn.softplus(-x)


def interval(low: float, high: float) -> Bijector:
    """Return the map θ = low + (high − low)/(1 + exp(−u)) of each number, low < θ < high.

    θ never reaches the bounds: it stops at the numbers of its dtype next to them, so that log(θ −
    low) and log(high − θ) are finite.

    Args:
        low: the lower bound, a finite number.
        high: the upper bound, a finite number.

    Returns:
        A bijector of pytrees of any shapes. `inverse` raises ValueError for numbers not between the
        bounds.

    Raises:
        TypeError, ValueError: a bound is not finite or low is not below high; when used, that
            the position's dtype has no number between them.

    Example:
        >>> import jax.numpy as jnp, ewsg_jax as ewsg
        >>> correlation = ewsg.bijectors.interval(-1.0, 1.0)
        >>> correlation.forward(jnp.array([0.0, 2.0]))
        Array([0.       , 0.7615942], dtype=float32)
        >>> correlation.log_det(jnp.array([0.0]))  # log(1/2)
        Array(-0.6931472, dtype=float32)
    """
    for name, bound in (("low", low), ("high", high)):
        if isinstance(bound, bool) or not isinstance(bound, numbers.Real):
            raise TypeError(f"{name} must be a finite number; got {checks.describe(bound)}")
        # A whole number or a fraction may be beyond all floats.
        if not abs(bound) <= sys.float_info.max:
            raise ValueError(f"{name} must be a finite number; got {checks.describe(bound)}")
    low, high = float(low), float(high)
    if not low < high:
        raise ValueError(f"low must be less than high; got low={low}, high={high}")
    return Interval(low=low, high=high)


def _innermost(low: float, high: float, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest normal number of a dtype that lie between the bounds."""
    bottom, top = np.asarray(low, dtype), np.asarray(high, dtype)
    first, last = np.nextafter(bottom, top), np.nextafter(top, bottom)
    tiny = np.asarray(jnp.finfo(dtype).tiny, dtype)
    first = tiny if abs(first) < tiny else first
    last = -tiny if abs(last) < tiny else last
    if not (bottom < first <= last < top and np.isfinite(top - bottom)):
        raise ValueError(
            f"low and high must have {dtype} numbers between them and a finite distance; got "
            f"{low}, {high}"
        )
    return first, last
