"""The step size at which paths of leapfrog steps are accepted as often as wanted, from a window at
another one.

The energy of a leapfrog path errs by an amount of standard deviation σ ∝ h² (to leading order, on
any smooth target), and where errors are normal a share α = 2Φ(−σ/2) is accepted (Beskos, Pillai,
Roberts, Sanz-Serna & Stuart, Optimal tuning of the hybrid Monte Carlo algorithm, Bernoulli 19,
2013). So h' = h √(σ(α*)/σ(α)) is found at once, where stochastic approximation takes many windows;
what is left is the noise of the window.
"""

import jax
import jax.numpy as jnp

from ewsg_jax._types import Array

MOST_TIMES_SHORTER, MOST_TIMES_LONGER = 8.0, 4.0
"""In one go: shares near 0 and 1 say in which direction, not how far."""


def next_step_size(
    step_size: Array | float, acceptance: Array | float, target: float = 0.8
) -> Array:
    """Return the next step size; pure, for the host and for compiled loops.

    Args:
        step_size: h of the window.
        acceptance: α, the mean of `Info.acceptance` over the window's steps and all chains; NaN
            counts as 0.
        target: α*, in (0, 1). Default 0.8.
    """
    share = jnp.clip(jnp.nan_to_num(jnp.asarray(acceptance, float)), 1e-6, 1 - 1e-6)
    errors = jax.scipy.special.ndtri(target / 2) / jax.scipy.special.ndtri(share / 2)
    return step_size * jnp.clip(jnp.sqrt(errors), 1 / MOST_TIMES_SHORTER, MOST_TIMES_LONGER)
