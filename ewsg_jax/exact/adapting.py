"""A step size that is brought to an acceptance while a chain burns in (Robbins & Monro 1951).

log s ← log s + (t + 1)^(−0.6) (α − α*) in the steps t = 0 … K − 1, α the probability with which the
proposal of step t was accepted, α* what is wanted; the step size is s times the given one. From
step K on s stays: the chain is then a Markov chain of one kernel. s follows from the chain's own
randomness, so the same key gives the same s.
"""

import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check
from ewsg_jax._types import Array

DECAY = 0.6
"""Between 1/2, where single acceptances' noise does not settle, and 1, which keeps the start."""


def adapted(log_scale: Array, step: Array, log_ratio: Array, target: float, steps: int) -> Array:
    """Return log s after a step.

    Args:
        log_scale: log s before it.
        step: its number t.
        log_ratio: the logarithm of Metropolis' ratio; a proposal without a density counts as
            rejected.
        target: α*.
        steps: K.
    """
    probability = jnp.nan_to_num(jnp.exp(jnp.minimum(log_ratio, 0)))
    gain = (step + 1).astype(log_scale.dtype) ** -DECAY
    return jnp.where(
        step < steps, log_scale + gain * (probability - target).astype(log_scale.dtype), log_scale
    )


def checked_target(value: object, steps: object) -> tuple[float | None, int]:
    """Check and return α* and K.

    Raises:
        TypeError, ValueError: α* is no number between 0 and 1, K no whole number, or one comes
            without the other.
    """
    if (value is None) != (steps is None):
        raise ValueError(
            "target_acceptance must be given together with adapt_steps, the steps of the burn-in "
            f"that adapt; got target_acceptance={value} and adapt_steps={steps}"
        )
    if value is None:
        return None, 0
    takes = "target_acceptance must be a number between 0 and 1"
    if isinstance(value, bool) or not isinstance(value, int | float | np.floating):
        raise TypeError(f"{takes}; got {_check.describe(value)}")
    if not 0 < value < 1:
        raise ValueError(f"{takes}; got {value}")
    return float(value), _check.integer("adapt_steps", steps)
