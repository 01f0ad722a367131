"""The index chain of exponential weights (EWSG, Algorithm 1): Metropolis steps among batches, and
draws from their stationary distribution.

A batch I is replaced by the next one, J, with probability min(1, exp(w(J) − w(I))).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import pytrees
from ewsg_jax.base.typing import Array, PyTree
from ewsg_jax.gradients._protocol import Estimate

Proposal = tuple[Estimate, PyTree]
"""The estimate that a batch gives, and the update that commits it."""
Propose = Callable[[PyTree], Proposal]
"""Makes the proposal of a batch."""
LogWeight = Callable[[Estimate], Array]
"""The log weight w of an estimate."""
Visit = tuple[tuple[Array, Array], Array]
"""Number of the current batch, its log weight, and how many proposals were accepted so far."""


class ChainDraw(NamedTuple):
    """Randomness of the index chain: M+1 batches and the logs of M uniform numbers.

    With a carried index M batches, because the chain begins with the last step's; a refresh then
    gets the first of them. For full weights one batch, which only a refresh of the wrapped
    estimator uses, and one uniform number.
    """

    batches: PyTree
    log_uniforms: Array


def together(propose: Propose, log_weight: LogWeight, drawn: ChainDraw) -> Proposal:
    """Return the proposal at which the chain ends; all M + 1 estimates are made at once."""
    length = drawn.log_uniforms.shape[0]
    # The first of them is the current batch.
    proposals = jax.vmap(propose)(drawn.batches)
    log_weights = jax.vmap(log_weight)(proposals[0])

    def step(carry: Visit, proposal: tuple[Array, Array, Array]) -> tuple[Visit, None]:
        current, accepted = carry
        number, log_weight, log_uniform = proposal
        # In logarithms, since weights overflow: exp(½|x + a|²) is huge for large gradients.
        accept = log_uniform <= log_weight - current[1]
        state = (
            jnp.where(accept, number, current[0]),
            jnp.where(accept, log_weight, current[1]),
        )
        return (state, accepted + accept.astype(jnp.int32)), None

    proposed = (jnp.arange(1, length + 1, dtype=jnp.int32), log_weights[1:], drawn.log_uniforms)
    # Short chains are unrolled: a step is a few comparisons.
    # A few proposals are compiled without a loop.
    unroll = max(1, min(length, 16))
    first = ((jnp.int32(0), log_weights[0]), jnp.int32(0))
    ((chosen, at_end), accepted), _ = jax.lax.scan(step, first, proposed, unroll=unroll)
    # Only now is a whole estimate copied: the chain itself carries a number.
    estimate, update = pytrees.take(proposals, chosen)
    # Without proposals the only batch is the chosen one, whatever its weight.
    if not length:
        return estimate._replace(acceptance=np.float32(1.0)), update
    acceptance = accepted.astype(jnp.float32) / length
    return _of_finite_weight(estimate, at_end)._replace(acceptance=acceptance), update


def exactly(
    propose: Propose, log_weight: LogWeight, batches: PyTree, log_uniform: Array
) -> Proposal:
    """Return a draw from the chain's stationary distribution over all batches."""
    proposals = jax.vmap(propose)(batches)
    log_weights = jax.vmap(log_weight)(proposals[0])
    # Less the largest, so that the largest weight is 1 and none overflows.
    cumulative = jnp.cumsum(jnp.exp(log_weights - jnp.max(log_weights)))
    # By inversion: one uniform number for all batches.
    chosen = jnp.searchsorted(cumulative, jnp.exp(log_uniform) * cumulative[-1])
    estimate, update = pytrees.take(proposals, jnp.minimum(chosen, cumulative.shape[0] - 1))
    return _of_finite_weight(estimate, cumulative[-1]), update


def _of_finite_weight(estimate: Estimate, weight: Array) -> Estimate:
    """Return the estimate, NaN if its weight is not finite: the chain then counts as diverged."""
    is_finite = jnp.isfinite(weight)
    return estimate._replace(
        gradient=jax.tree.map(lambda g: jnp.where(is_finite, g, jnp.nan), estimate.gradient)
    )
