"""Exponentially weighted estimates (EWSG, Algorithm 1 and eq. 4), around any estimator.

Draw a batch I from the wrapped estimator; M times draw another, J, and replace I by J with probability
min(1, exp(w(J) − w(I))), w the dynamics' log weight ½‖x + a‖² of the *estimate* a batch gives (a: the
estimate in units of the dynamics' noise, x: that noise frozen). As M → ∞ the batch has the law
p_I ∝ exp(w(I)); M = 0 is the wrapped estimator. Only the accepted batch moves the memory.

Algorithm 1 draws I anew in every step; section 4.4 speaks of one index chain that lives across steps. With
`carry_index` I is the batch that the last step accepted, weighed anew where the chain now is: as many evaluations,
and for small h the law of the batch is that of exact weights whatever M, where Algorithm 1 has it to first order in
h from M = 1 on. Batches of successive steps are then dependent: a batch that outweighs the others stays.

Without noise (T = 0 or γ = 0, which a schedule may reach) there are no weights: as σ → 0 the longest gradient
always wins, whose mean is not ∇V, so that the limit is no optimiser of V. A chain whose weight is not finite
gets NaN for a gradient, and is reported as diverged at that step. M = 0 asks for no weight.

M = 1 tilts the mean of the estimate by (h/σ²)[S(γp + ∇V) + ½E‖δ‖²δ] to first order in h (S its covariance,
δ its centred value): extra friction that damps the minibatch's heat, plus a bias from the skewness. A larger
M adds second order and more of the bias, so it is not better in general. Evaluations: those that the wrapped
estimator takes to propose, (M+1) times; to commit, once.
"""

import dataclasses
import math
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _check, _random, _tree
from ewsg_jax._module import module, static
from ewsg_jax._types import Array, Data, Key, Memory, P, Position, PyTree
from ewsg_jax.gradients.protocol import Estimate, Evaluations, GradientEstimator, OfRows, Sharing, Weight
from ewsg_jax.gradients.remembering import Remembering

FROZEN_NOISE = ("momentum", "zero", "one", "rest")
CANDIDATES = ("together", "one_by_one")

MOST_UNROLLED = 16
"""Visits of the index chain that are compiled without a loop."""


class ChainDraw(NamedTuple):
    """Randomness of the index chain: M+1 batches and the logs of M uniform numbers.

    M batches where the chain begins with that of the last step; a refresh then sees the first of these. For exact
    weights one batch, which only a refresh of the wrapped estimator sees, and one uniform number.
    """

    batches: PyTree
    log_uniforms: Array


@module
class ExponentiallyWeighted(GradientEstimator[P]):
    """The estimator of `exponentially_weighted`.

    Attributes:
        estimator: the wrapped one, whose posterior and memory are this one's; one that remembers where the index
            is carried.
        chain_length: M, or infinity for exact weights.
        frozen: the frozen noise as a tree, None where it has a name.
        name: that name, None where it is a tree.
    """

    estimator: GradientEstimator[P]
    chain_length: int | float = static(default=1)
    frozen: PyTree = None
    name: str | None = static(default="momentum")
    candidates: str = static(default="together")

    @property
    def is_exact(self) -> bool:
        """Whether the weights are those of all batches."""
        return self.chain_length == math.inf

    @property
    def carries_index(self) -> bool:
        """Whether a step's index chain begins with the batch that the last step accepted."""
        return isinstance(self.estimator, Remembering)

    @property
    def frozen_noise(self) -> str | PyTree:
        return self.frozen if self.name is None else self.name

    @property
    def refuses_windows(self) -> str | None:
        return self.estimator.refuses_windows

    @property
    def takes_padded(self) -> bool:
        return self.estimator.takes_padded and not self.is_exact

    @property
    def takes_shards(self) -> bool:
        return self.estimator.takes_shards and not self.is_exact

    def over_parts(self, parts: int) -> "ExponentiallyWeighted[P]":
        return dataclasses.replace(self, estimator=self.estimator.over_parts(parts))

    @property
    def reports_covariance(self) -> bool:
        return self.estimator.reports_covariance

    @property
    def sharing(self) -> Sharing:
        return self.estimator.sharing

    def check(self, position: Position, data: Data) -> None:
        self.estimator.check(position, data)
        if self.is_exact:
            self.estimator.batches(data)
        if self.name is None:
            _check_shapes(self.frozen, position)

    def draw(self, key: Key, data: Data) -> ChainDraw:
        batch_key, chain_key = jax.random.split(key)
        length = 0 if self.is_exact else int(self.chain_length)
        fresh = length if self.carries_index else length + 1
        batches = jax.vmap(lambda k: self.estimator.draw(k, data))(jax.random.split(batch_key, fresh))
        return ChainDraw(batches, _random.log_uniform(chain_key, (1 if self.is_exact else length,)))

    def gather(self, randomness: ChainDraw, data: Data) -> ChainDraw:
        if self.is_exact:
            return randomness
        return randomness._replace(batches=self.estimator.gather(randomness.batches, data))

    def init(self, key: Key, position: Position, data: Data) -> Memory:
        return self.estimator.init(key, position, data)

    def refresh(
        self, randomness: ChainDraw, memory: Memory, step: Array, point: Position, data: Data
    ) -> tuple[Memory, Position, Any]:
        return self.estimator.refresh(_tree.take(randomness.batches, 0), memory, step, point, data)

    def propose(
        self, randomness: ChainDraw, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        if self.is_exact:
            return self._propose_exactly(randomness, memory, point, data, weight)
        if isinstance(self.estimator, Remembering):
            behind = self.estimator.behind_last(randomness.batches, memory, data)
            randomness = randomness._replace(batches=behind)
        if self.candidates == "together":
            return self._propose_together(randomness, memory, point, data, weight)
        return self._propose_one_by_one(randomness, memory, point, data, weight)

    def probe(self, estimate: Estimate, position: Position, data: Data) -> Position:
        return self.estimator.probe(estimate, position, data)

    def commit(self, receipt: PyTree, memory: Memory) -> Memory:
        return self.estimator.commit(receipt, memory)

    def evaluations(self, data: Data) -> Evaluations:
        if self.is_exact:
            count = jax.tree.leaves(self.estimator.batches(data))[0].shape[0]
        else:
            count = int(self.chain_length) + 1
        return self.estimator.evaluations(data).of_candidates(count)

    def arguments(self) -> dict[str, Any]:
        inner = self.estimator
        named = {
            "estimator": inner.estimator if isinstance(inner, Remembering) else inner,
            "chain_length": self.chain_length,
        }
        if self.frozen_noise != "momentum":
            named["frozen_noise"] = self.frozen_noise
        if self.candidates != "together":
            named["candidates"] = self.candidates
        if self.carries_index:
            named["carry_index"] = True
        return named

    def _weigh(
        self, batches: PyTree, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[tuple[Estimate, PyTree], Array]:
        """Return the estimates of many batches with their receipts, and their log weights."""
        propose = self.estimator.propose
        proposals = jax.vmap(lambda batch: propose(batch, memory, point, data, weight))(batches)
        return proposals, jax.vmap(lambda estimate: weight(estimate, self.frozen_noise))(proposals[0])

    def _propose_together(
        self, randomness: ChainDraw, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        length = int(self.chain_length)
        proposals, log_weights = self._weigh(randomness.batches, memory, point, data, weight)

        def visit(carry: Any, proposal: tuple[Array, Array, Array]) -> tuple[Any, None]:
            current, accepted = carry
            number, log_weight, log_uniform = proposal
            accept = log_uniform <= log_weight - current[1]
            return (_tree.where(accept, (number, log_weight), current), accepted + accept), None

        proposed = (jnp.arange(1, length + 1, dtype=jnp.int32), log_weights[1:], randomness.log_uniforms)
        unroll = max(1, min(length, MOST_UNROLLED))
        first = ((jnp.int32(0), log_weights[0]), jnp.int32(0))
        ((chosen, log_weight), accepted), _ = jax.lax.scan(visit, first, proposed, unroll=unroll)
        estimate, receipt = _tree.take(proposals, chosen)
        return _accounted(estimate, log_weight, accepted, length), receipt

    def _propose_one_by_one(
        self, randomness: ChainDraw, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        def evaluate(batch: PyTree) -> tuple[tuple[Estimate, PyTree], Array]:
            proposal = self.estimator.propose(batch, memory, point, data, weight)
            return proposal, weight(proposal[0], self.frozen_noise)

        def visit(carry: Any, proposal: tuple[PyTree, Array]) -> tuple[Any, None]:
            current, accepted = carry
            batch, log_uniform = proposal
            candidate = evaluate(batch)
            accept = log_uniform <= candidate[1] - current[1]
            return (_tree.where(accept, candidate, current), accepted + accept), None

        first = evaluate(jax.tree.map(lambda x: x[0], randomness.batches))
        rest = jax.tree.map(lambda x: x[1:], randomness.batches)
        visits = (rest, randomness.log_uniforms)
        (((estimate, receipt), log_weight), accepted), _ = jax.lax.scan(visit, (first, jnp.int32(0)), visits)
        return _accounted(estimate, log_weight, accepted, int(self.chain_length)), receipt

    def _propose_exactly(
        self, randomness: ChainDraw, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        proposals, log_weights = self._weigh(self.estimator.batches(data), memory, point, data, weight)
        cumulative = jnp.cumsum(jnp.exp(log_weights - jnp.max(log_weights)))
        chosen = jnp.searchsorted(cumulative, jnp.exp(randomness.log_uniforms[0]) * cumulative[-1])
        estimate, receipt = _tree.take(proposals, jnp.minimum(chosen, cumulative.shape[0] - 1))
        return _of_finite_weight(estimate, cumulative[-1]), receipt


def exponentially_weighted(
    estimator: GradientEstimator[P],
    *,
    chain_length: int | float = 1,
    frozen_noise: str | PyTree = "momentum",
    candidates: Literal["together", "one_by_one"] = "together",
    carry_index: bool = False,
) -> ExponentiallyWeighted[P]:
    """Choose among M+1 batches by a Metropolis chain on their exponential weights.

    Weights divide by the noise: where a schedule takes the temperature or the friction to 0 a chain diverges, and
    the run says so. End an annealing at a T > 0, or with the wrapped estimator alone.

    Args:
        estimator: the wrapped estimator; its batches must be exchangeable.
        chain_length: M ≥ 0, proposals per step. `math.inf` uses the exact weights of all batches instead
            (small n; all n rows for batch_size=1).
        frozen_noise: the x of the weight (EWSG Fig. 1b): `"momentum"`, its most likely value (no change of
            momentum); `"zero"`; `"one"`, all ones; `"rest"`, the noise that brings the momentum to rest; or a
            tree shaped like the position.
        candidates: `"together"` evaluates the M+1 estimates at once, `"one_by_one"` in a scan that keeps two
            of them in memory; the same draws, equal to rounding.
        carry_index: begin each step's index chain with the batch that the last step accepted (EWSG section 4.4),
            or (False) with a new one (Algorithm 1). Each chain then keeps a batch's row numbers.

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
    if not estimator.exchangeable:
        named = estimator.law.name if isinstance(estimator, OfRows) else "one that does not"
        raise ValueError(
            f"estimator must draw exchangeable batches to be weighted; got {named}, where choosing among the "
            "next rows of an epoch would change which rows are left; take rows='random' or 'blocks'"
        )
    if estimator.frozen_noise is not None:
        raise ValueError(
            "estimator must not be exponentially weighted already; got one with the frozen noise "
            f"{_check.describe(estimator.frozen_noise)}"
        )
    is_exact = isinstance(chain_length, float) and chain_length == math.inf
    if not is_exact:
        _check.integer("chain_length", chain_length, minimum=0)
    elif not estimator.lists_batches:
        raise ValueError("chain_length must be finite for an estimator whose batches cannot be listed; got inf")
    is_named = frozen_noise is None or isinstance(frozen_noise, str)
    if is_named:
        _check.one_of("frozen_noise", frozen_noise, FROZEN_NOISE)
    else:
        _check_tree(frozen_noise)
    _check.one_of("candidates", candidates, CANDIDATES)
    _check.boolean("carry_index", carry_index)
    if carry_index and (is_exact or chain_length == 0):
        raise ValueError(
            f"carry_index must be False for chain_length={chain_length}, "
            + ("whose weights need no index chain" if is_exact else "which would keep one batch for ever")
            + "; got True"
        )
    return ExponentiallyWeighted(
        posterior=estimator.posterior,
        estimator=Remembering(posterior=estimator.posterior, estimator=estimator) if carry_index else estimator,
        chain_length=math.inf if is_exact else int(chain_length),
        frozen=None if is_named else frozen_noise,
        name=frozen_noise if is_named else None,
        candidates=candidates,
    )


def _check_tree(frozen_noise: PyTree) -> None:
    """Check a frozen noise given as a tree; whether it is shaped like the position shows at `init`."""
    takes = "frozen_noise must be a name or a tree of floating-point arrays shaped like the position"
    for leaf in jax.tree.leaves(frozen_noise):
        if not isinstance(leaf, int | float | np.ndarray | np.generic | jax.Array):
            raise TypeError(f"{takes}; got {_check.describe(leaf)} in it")
        if isinstance(leaf, jax.Array | np.ndarray):
            _check.finite("frozen_noise", leaf)


def _check_shapes(frozen_noise: PyTree, position: Position) -> None:
    """Check that a frozen noise is shaped like the position."""
    given, needed = ([jnp.shape(x) for x in jax.tree.leaves(t)] for t in (frozen_noise, position))
    same_tree = jax.tree.structure(frozen_noise) == jax.tree.structure(position)
    is_float = all(jnp.issubdtype(jnp.result_type(x), jnp.floating) for x in jax.tree.leaves(frozen_noise))
    if not same_tree or given != needed or not is_float:
        x, like = _check.shapes(frozen_noise), _check.shapes(position)
        raise ValueError(
            "frozen_noise must be a name or a tree of floating-point arrays shaped like the position "
            f"({_check.listed('position', like)}); got {_check.listed('frozen_noise', x)}"
        )


def _accounted(estimate: Estimate, log_weight: Array, accepted: Array, length: int) -> Estimate:
    """The chosen estimate with the share accepted, 1 where nothing was proposed and no weight was asked for."""
    if not length:
        return estimate._replace(acceptance=np.float32(1.0))
    acceptance = accepted.astype(jnp.float32) / length
    return _of_finite_weight(estimate, log_weight)._replace(acceptance=acceptance)


def _of_finite_weight(estimate: Estimate, weight: Array) -> Estimate:
    """The estimate, NaN where its weight is not finite: the chain then counts as diverged at this step."""
    is_finite = jnp.isfinite(weight)
    return estimate._replace(gradient=jax.tree.map(lambda g: jnp.where(is_finite, g, jnp.nan), estimate.gradient))
