"""The order in the step size of the bias of a kernel."""

from typing import Any

import jax

from ewsg_jax.answers.halve import settings
from ewsg_jax.base.modules import is_own
from ewsg_jax.base.typing import Data
from ewsg_jax.dynamics._mass import without_metric
from ewsg_jax.dynamics._protocol import Schedule
from ewsg_jax.gradients import GradientEstimator
from ewsg_jax.gradients._protocol import changes_memory, noise_model_of
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel


def order_of(kernel: Kernel, data: Data) -> int:
    """Return the order in h of the bias of a kernel's position.

    Raises:
        ValueError: the order is unknown, or the noise cannot be shared by two step sizes.
    """
    unknown: object = kernel
    if isinstance(kernel, Pair):
        order, of_noise = _order(kernel.dynamics), order_of_noise(kernel.estimator, data)
        if order is not None and of_noise is not None:
            return int(min(order, of_noise))
        unknown = kernel.dynamics if order is None else kernel.estimator
    raise ValueError(
        "kernel must be one whose bias has a known order in a constant step size: full gradients, "
        "or independent unbiased batches (uniform, control_variate, stratified, or an estimator of "
        "your own whose noise_model has an order), under langevin, euler, semi_implicit, "
        "splitting, exact, palindrome, microcanonical or a dynamics of your own that has its "
        f"bias_order, with Gaussian noise; got {unknown!r:.120}"
    )


def _order(dynamics: Any) -> int | None:
    """Return the order with full gradients; None if it is unknown."""
    parts = jax.tree.leaves(dynamics, is_leaf=lambda part: isinstance(part, Schedule))
    changes = any(isinstance(part, Schedule) for part in parts)
    is_gaussian = getattr(dynamics, "noise", "gaussian") == "gaussian"
    return getattr(dynamics, "bias_order", None) if is_gaussian and not changes else None


def order_of_noise(estimator: GradientEstimator, data: Data) -> float | None:
    """Return the order of what minibatch noise adds: ∞ without noise, None if it is unknown."""
    # Both chains of a pair share one memory, so no step may change it.
    if changes_memory(estimator):
        return None
    model = noise_model_of(estimator, data)
    return None if model.unknown else model.order


def remainder_share(kernel: Pair, order: int) -> float:
    """Return which part of the difference of two moments the bias beyond the leading order may be.

    It is the difference between extrapolations of orders p and p + 1, which two step sizes do not
    distinguish: a dynamics of order 2 may have batches that add little, and one of your own may be
    better than it says. A dynamics of order 1 like that of its batches leaves less.
    """
    plain = without_metric(kernel.dynamics)[0]
    if _order(plain) == order == 1 and not is_own(type(plain)):
        return settings.REMAINDER_SHARE
    return 1 / (2**order - 1) - 1 / (2 ** (order + 1) - 1)
