"""Of which order in the step size the bias of a kernel is."""

import math
from typing import Any

import jax

from ewsg_jax._base._module import is_own
from ewsg_jax._base._types import Data
from ewsg_jax.dynamics._exact import Exact
from ewsg_jax.dynamics._langevin import Langevin
from ewsg_jax.dynamics.mass import without_metric
from ewsg_jax.dynamics.protocol import Schedule
from ewsg_jax.gradients import GradientEstimator
from ewsg_jax.gradients._control_variate import ControlVariate
from ewsg_jax.gradients._full import Full
from ewsg_jax.gradients._stratified import Stratified
from ewsg_jax.gradients._uniform import Uniform
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.rows.view import view

PURE = 0.2
"""Part of the difference for dynamics of order 1 whose batches are of that order."""


def order_of(kernel: Kernel, data: Data) -> int:
    """Return the order in h of the bias of a kernel's law of the position.

    Raises:
        ValueError: it is not known, or the noise is none that is shared.
    """
    unknown: object = kernel
    if isinstance(kernel, Pair):
        order, of_noise = _order(kernel.dynamics), order_of_noise(kernel.estimator, data)
        if order is not None and of_noise is not None:
            return int(min(order, of_noise))
        unknown = kernel.dynamics if order is None else kernel.estimator
    raise ValueError(
        "kernel must be one whose bias has a known order in a constant step size: full gradients, "
        "or independent unbiased batches (uniform, control_variate, stratified), under langevin, "
        "euler, semi_implicit, splitting, exact, palindrome or a dynamics of your own that has its "
        f"bias_order, with Gaussian noise; got {unknown!r:.120}"
    )


def _order(dynamics: Any) -> int | None:
    """Return that with full gradients, None where unknown."""
    parts = jax.tree.leaves(dynamics, is_leaf=lambda part: isinstance(part, Schedule))
    changes = any(isinstance(part, Schedule) for part in parts)
    is_gaussian = getattr(dynamics, "noise", "gaussian") == "gaussian"
    return getattr(dynamics, "bias_order", None) if is_gaussian and not changes else None


def order_of_noise(estimator: GradientEstimator, data: Data) -> float | None:
    """Return that of an estimator's noise: ∞ without any, None where unknown."""
    if is_own(type(estimator)):
        return None  # derived from the library's, it may estimate anything else
    if isinstance(estimator, Full):
        return math.inf
    if isinstance(estimator, Stratified):
        return 1
    # Independent of earlier batches, and unbiased whatever the memory.
    if not isinstance(estimator, Uniform | ControlVariate) or estimator.law.ordered:
        return None
    law = estimator.law
    return math.inf if law.distinct and law.batch_size >= view(data).fewest else 1


def share_beyond(kernel: Pair, order: int) -> float:
    """Return which part of the difference of two laws what is of another order may be.

    That by which an extrapolation of order p differs from one of order p + 1. So it is where a
    dynamics of order 2 has batches, of order 1, that may add little; where terms in γh count; and
    of dynamics of one's own. For `langevin` and `exact`, of order 1 like their batches, no more
    than 0.2 is left on a normal posterior (tests/halving/test_order.py).
    """
    plain = without_metric(kernel.dynamics)[0]
    if isinstance(plain, Langevin | Exact) and not is_own(type(plain)):
        return PURE
    return 1 / (2**order - 1) - 1 / (2 ** (order + 1) - 1)
