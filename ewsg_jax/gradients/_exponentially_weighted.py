"""Exponentially weighted estimates (EWSG, Algorithm 1 and eq. 4), around any estimator.

Draw a batch I from the wrapped estimator; M times draw another, J, and replace I by J with probability
min(1, exp(w(J) − w(I))), w the dynamics' log weight ½‖x + a‖² of the *estimate* a batch gives (a: the
estimate in units of the dynamics' noise, x: that noise frozen). As M → ∞ the batch has the law
p_I ∝ exp(w(I)); M = 0 is the wrapped estimator. Only the accepted batch moves the memory.

M = 1 tilts the mean of the estimate by (h/σ²)[S(γp + ∇V) + ½E‖δ‖²δ] to first order in h (S its covariance,
δ its centred value): extra friction that damps the minibatch's heat, plus a bias from the skewness. A larger
M adds second order and more of the bias, so it is not better in general. Evaluations: (M+1) times those of
the wrapped estimator.
"""

import dataclasses
import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check, _random, _tree
from ewsg_jax._types import Array, Data, Key, Position, PyTree
from ewsg_jax.gradients._protocol import Estimate, Evaluations, GradientEstimator, Memory, Weight
from ewsg_jax.gradients._row_laws import refuse_unexchangeable

FROZEN_NOISE = ("momentum", "zero", "one", "rest")
CANDIDATES = ("together", "one_by_one")

MOST_UNROLLED = 16
"""Visits of the index chain that are compiled without a loop."""


class ChainDraw(NamedTuple):
    """Randomness of the index chain: M+1 batches and the logs of M uniform numbers.

    For exact weights one batch, which only a refresh of the wrapped estimator sees, and one uniform number.
    """

    batches: PyTree
    log_uniforms: Array


def exponentially_weighted(
    estimator: GradientEstimator,
    *,
    chain_length: int | float = 1,
    frozen_noise: str | PyTree = "momentum",
    candidates: Literal["together", "one_by_one"] = "together",
) -> GradientEstimator:
    """Choose among M+1 batches by a Metropolis chain on their exponential weights.

    Args:
        estimator: the wrapped estimator; its batches must be exchangeable.
        chain_length: M ≥ 0, proposals per step. `math.inf` uses the exact weights of all batches instead
            (small n; all n rows for batch_size=1).
        frozen_noise: the x of the weight (EWSG Fig. 1b): `"momentum"`, its most likely value (no change of
            momentum); `"zero"`; `"one"`, all ones; `"rest"`, the noise that brings the momentum to rest; or a
            tree shaped like the position.
        candidates: `"together"` evaluates the M+1 estimates at once, `"one_by_one"` in a scan that keeps two
            of them in memory; the same draws, equal to rounding.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> weighted = ewsg.gradients.exponentially_weighted(
        ...     ewsg.gradients.uniform(model, batch_size=1), chain_length=1
        ... )
        >>> kernel = ewsg.kernel(ewsg.dynamics.euler(5e-2, friction=10.0), weighted)
    """
    _check.instance("estimator", estimator, GradientEstimator, "one of ewsg_jax.gradients")
    if not estimator.uses_batches:
        raise ValueError("estimator must draw batches to be weighted; got the full gradient")
    refuse_unexchangeable(estimator)
    if estimator.frozen_noise is not None:
        raise ValueError(
            "estimator must not be exponentially weighted already; got one with the frozen noise "
            f"{_check.describe(estimator.frozen_noise)}"
        )
    exact = isinstance(chain_length, float) and chain_length == math.inf
    length = 0 if exact else _check.integer("chain_length", chain_length, minimum=0)
    if exact and estimator.batches is None:
        raise ValueError("chain_length must be finite for an estimator whose batches cannot be listed; got inf")
    if frozen_noise is None or isinstance(frozen_noise, str):
        _check.one_of("frozen_noise", frozen_noise, FROZEN_NOISE)
    else:
        _check_tree(frozen_noise)
    _check.one_of("candidates", candidates, CANDIDATES)

    def check(position: Position, data: Data) -> None:
        estimator.check(position, data)
        if exact:
            _all_batches(data)
        if not isinstance(frozen_noise, str):
            given, needed = ([jnp.shape(x) for x in jax.tree.leaves(t)] for t in (frozen_noise, position))
            same_tree = jax.tree.structure(frozen_noise) == jax.tree.structure(position)
            is_float = all(jnp.issubdtype(jnp.result_type(x), jnp.floating) for x in jax.tree.leaves(frozen_noise))
            if not same_tree or given != needed or not is_float:
                x, like = _check.shapes(frozen_noise), _check.shapes(position)
                raise ValueError(
                    "frozen_noise must be a name or a tree of floating-point arrays shaped like the position "
                    f"({_check.listed('position', like)}); got {_check.listed('frozen_noise', x)}"
                )

    def _all_batches(data: Data) -> PyTree:
        assert estimator.batches is not None
        return estimator.batches(data)

    def candidate_weights(
        batches: PyTree, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[tuple[Estimate, PyTree], Array]:
        proposals = jax.vmap(lambda batch: estimator.propose(batch, memory, point, data, weight))(batches)
        return proposals, jax.vmap(lambda estimate: weight(estimate, frozen_noise))(proposals[0])

    def draw(key: Key, data: Data) -> ChainDraw:
        batch_key, chain_key = jax.random.split(key)
        batches = jax.vmap(lambda k: estimator.draw(k, data))(jax.random.split(batch_key, length + 1))
        return ChainDraw(batches, _random.log_uniform(chain_key, (1 if exact else length,)))

    def gather(randomness: ChainDraw, data: Data) -> ChainDraw:
        return randomness if exact else randomness._replace(batches=estimator.gather(randomness.batches, data))

    def refresh(
        randomness: ChainDraw, memory: Memory, step: Array, point: Position, data: Data
    ) -> tuple[Memory, Position, Any]:
        return estimator.refresh(_tree.take(randomness.batches, 0), memory, step, point, data)

    def propose_together(
        randomness: ChainDraw, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        proposals, log_weights = candidate_weights(randomness.batches, memory, point, data, weight)

        def visit(carry: Any, proposal: tuple[Array, Array, Array]) -> tuple[Any, None]:
            current, accepted = carry
            number, log_weight, log_uniform = proposal
            accept = log_uniform <= log_weight - current[1]
            return (_tree.where(accept, (number, log_weight), current), accepted + accept), None

        proposed = (jnp.arange(1, length + 1, dtype=jnp.int32), log_weights[1:], randomness.log_uniforms)
        unroll = max(1, min(length, MOST_UNROLLED))
        first = ((jnp.int32(0), log_weights[0]), jnp.int32(0))
        ((chosen, _), accepted), _ = jax.lax.scan(visit, first, proposed, unroll=unroll)
        estimate, receipt = _tree.take(proposals, chosen)
        return estimate._replace(acceptance=_share(accepted, length)), receipt

    def propose_one_by_one(
        randomness: ChainDraw, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        def evaluate(batch: PyTree) -> tuple[tuple[Estimate, PyTree], Array]:
            proposal = estimator.propose(batch, memory, point, data, weight)
            return proposal, weight(proposal[0], frozen_noise)

        def visit(carry: Any, proposal: tuple[PyTree, Array]) -> tuple[Any, None]:
            current, accepted = carry
            batch, log_uniform = proposal
            candidate = evaluate(batch)
            accept = log_uniform <= candidate[1] - current[1]
            return (_tree.where(accept, candidate, current), accepted + accept), None

        first = evaluate(jax.tree.map(lambda x: x[0], randomness.batches))
        rest = jax.tree.map(lambda x: x[1:], randomness.batches)
        visits = (rest, randomness.log_uniforms)
        (((estimate, receipt), _), accepted), _ = jax.lax.scan(visit, (first, jnp.int32(0)), visits)
        return estimate._replace(acceptance=_share(accepted, length)), receipt

    def propose_exactly(
        randomness: ChainDraw, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        proposals, log_weights = candidate_weights(_all_batches(data), memory, point, data, weight)
        cumulative = jnp.cumsum(jnp.exp(log_weights - jnp.max(log_weights)))
        chosen = jnp.searchsorted(cumulative, jnp.exp(randomness.log_uniforms[0]) * cumulative[-1])
        return _tree.take(proposals, jnp.minimum(chosen, cumulative.shape[0] - 1))

    def evaluations(data: Data) -> Evaluations:
        count = jax.tree.leaves(_all_batches(data))[0].shape[0] if exact else length + 1
        inner = estimator.evaluations(data)
        return inner._replace(per_step=count * inner.per_step)

    propose = propose_together if candidates == "together" else propose_one_by_one
    return dataclasses.replace(
        estimator,
        draw=draw,
        gather=gather,
        propose=propose_exactly if exact else propose,
        refresh=refresh,
        check=check,
        evaluations=evaluations,
        batches=None,
        frozen_noise=frozen_noise,
    )


def _check_tree(frozen_noise: PyTree) -> None:
    """Check a frozen noise given as a tree; whether it is shaped like the position shows at `init`."""
    takes = "frozen_noise must be a name or a tree of floating-point arrays shaped like the position"
    for leaf in jax.tree.leaves(frozen_noise):
        if not isinstance(leaf, int | float | np.ndarray | np.generic | jax.Array):
            raise TypeError(f"{takes}; got {_check.describe(leaf)} in it")
        if isinstance(leaf, jax.Array | np.ndarray):
            _check.finite("frozen_noise", leaf)


def _share(accepted: Array, length: int) -> Array | np.float32:
    """The share accepted; 1 where nothing was proposed."""
    return accepted.astype(jnp.float32) / length if length else np.float32(1.0)
