"""Of which order in the step size the bias of a kernel is."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.modules import is_own, made_by
from ewsg_jax.base.typing import Array, Data, Key, Position
from ewsg_jax.dynamics._exact import Exact
from ewsg_jax.dynamics._langevin import Langevin
from ewsg_jax.dynamics._mass import without_metric
from ewsg_jax.dynamics._protocol import Dynamics, Schedule
from ewsg_jax.gradients import GradientEstimator
from ewsg_jax.gradients._protocol import changes_memory, noise_model_of
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel

PURE = 0.2
"""Part of the difference for dynamics of order 1 whose batches are of that order."""
MOST_DRAWS, LEAST_DRAWS, MOST_DRAWN, AT_ONCE = 2**14, 2**9, 2**28, 2**22
"""Draws of a noise of one's own, and numbers of all of them, in all and at once."""
MOST_LOOKED_AT, SURE = 64, 8.0
"""Numbers of each of its leaves, and standard errors by which their moments may be off."""
MOMENTS = {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}
"""Of a standard normal, and the variance of its powers, by the power."""


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


def check_normal(kernel: Pair, position: Position) -> None:
    """Raise ValueError where a dynamics of one's own draws other numbers than standard normals.

    Of these alone the sum of two over √2 is the noise of one step. What is drawn is compared in
    four moments.
    """
    plain = without_metric(kernel.dynamics)[0]
    if type(plain).draw is Dynamics.draw or not is_own(type(plain)):
        return
    state = plain.init(jax.random.key(0), position)

    def numbers(key: Key) -> Array:
        flat = [jnp.ravel(x) for x in jax.tree.leaves(plain.draw(key, state))]
        return jnp.concatenate([x[:: max(1, -(-x.size // MOST_LOOKED_AT))] for x in flat])

    key = jax.random.key(1)
    size = 1 + sum(x.size for x in jax.tree.leaves(jax.eval_shape(plain.draw, key, state)))
    count = min(MOST_DRAWS, max(LEAST_DRAWS, MOST_DRAWN // size))
    keys, together = jax.random.split(key, count), min(count, max(1, AT_ONCE // size))
    drawn = np.asarray(jax.lax.map(numbers, keys, batch_size=together), float)
    for power, (moment, variance) in MOMENTS.items():
        off = np.abs(np.mean(drawn**power, axis=0) - moment)
        if not np.all(off <= SURE * (variance / count) ** 0.5):
            raise ValueError(
                "kernel must have a dynamics whose draw returns standard normals: the noise of a "
                "step is put together of those of its halves, (ξ₁ + ξ₂)/√2; got "
                f"{made_by(plain)}, whose numbers are others"
            )


def order_of_noise(estimator: GradientEstimator, data: Data) -> float | None:
    """Return the order in h of what an estimator's noise adds to the bias: ∞ without noise, None if
    it is unknown.
    """
    # Both chains of a pair share one memory, so no step may change it.
    if changes_memory(estimator):
        return None
    model = noise_model_of(estimator, data)
    return None if model.unknown else model.order


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
