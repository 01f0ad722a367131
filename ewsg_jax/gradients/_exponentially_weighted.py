"""Exponentially weighted estimates (EWSG, Algorithm 1 and eq. 4), around any estimator.

Draw a batch I from the wrapped estimator; M times draw another, J, and replace I by J with
probability min(1, exp(w(J) − w(I))), w the dynamics' log weight ½‖x + a‖² of the *estimate* a batch
gives (a: the estimate in units of the dynamics' noise, x: that noise frozen). As M → ∞ the batch
has the law p_I ∝ exp(w(I)); M = 0 is the wrapped estimator. Only the accepted batch moves the
memory.

Algorithm 1 draws I in every step; section 4.4 speaks of one index chain that lives across steps.
With `carry_index` I is the batch that the last step accepted, with a weight where the chain now is:
as many evaluations, and for small h the law of the batch is that of full weights whatever M, where
Algorithm 1 has it to first order in h from M = 1 on. Batches of successive steps are then
dependent: a batch that outweighs the others stays.

Without noise (T = 0 or γ = 0, which a schedule may reach) there are no weights: as σ → 0 the
longest gradient always wins, whose mean is not ∇V, so that the limit is no optimiser of V. A chain
whose weight is not finite gets NaN for a gradient, and is reported as diverged at that step. M = 0
asks for no weight.

M = 1 tilts the mean of the estimate by (h/σ²)[S(γp + ∇V) + ½E‖δ‖²δ] to first order in h (S its
covariance, δ its centred value): extra friction that damps the noise of minibatches, plus a bias
from the skewness. A larger M adds second order and more of the bias, so it is not better in
general. Evaluations: those that the wrapped estimator takes to propose, (M+1) times; to commit,
once.
"""

import math
from typing import Any

import jax

from ewsg_jax import _check, _random, _tree
from ewsg_jax._module import made_by, module, static, written
from ewsg_jax._types import Array, Data, Key, Memory, P, Position, PyTree
from ewsg_jax.gradients.index_chain import ChainDraw, Proposal, exactly, together
from ewsg_jax.gradients.protocol import (
    Estimate,
    Evaluations,
    GradientEstimator,
    Sharing,
    Weight,
    reports_covariance,
    sharing_of,
    uses_batches,
)
from ewsg_jax.gradients.remembering import Remembering
from ewsg_jax.needs import Need
from ewsg_jax.rows.law import Order, laws_of, lists_batches
from ewsg_jax.rows.named import name_of
from ewsg_jax.rows.view import AsDrawn

FROZEN_NOISE = ("momentum", "zero", "one", "rest")
"""The names of x."""


@module
class ExponentiallyWeighted(GradientEstimator[P]):
    """The estimator of `exponentially_weighted`.

    Attributes:
        estimator: the wrapped one, whose posterior and memory are this one's; one that remembers
            where the index is carried.
        chain_length: M, or infinity for full weights.
        frozen_noise: the name of x.
    """

    estimator: GradientEstimator[P]
    chain_length: int | float = static(default=1)
    frozen_noise: str = static(default="momentum")

    @property
    def is_exact(self) -> bool:
        """Whether the weights are those of all batches."""
        return self.chain_length == math.inf

    @property
    def carries_index(self) -> bool:
        """Whether a step's index chain begins with the batch that the last step accepted."""
        return isinstance(self.estimator, Remembering)

    @property
    def needs(self) -> frozenset[Need]:  # pyright: ignore[reportIncompatibleVariableOverride]
        # The weights of all batches need them all listed.
        return frozenset({Need.ONE_N, Need.ONE_PLACE}) if self.is_exact else frozenset()

    @property
    def reports_covariance(self) -> bool:
        """Whether candidates hold their covariance."""
        return reports_covariance(self.estimator)

    @property
    def sharing(self) -> Sharing:
        """Whose the memory of the wrapped one is."""
        return sharing_of(self.estimator)

    def check(self, position: Position, data: Data) -> None:
        self.estimator.check(position, data)
        if self.is_exact:
            self.estimator.batches(data)

    def draw(self, key: Key, data: Data, order: Order | None = None) -> ChainDraw:
        batch_key, chain_key = jax.random.split(key)
        length = 0 if self.is_exact else int(self.chain_length)
        fresh = length if self.carries_index else length + 1
        batches = jax.vmap(lambda k: self.estimator.draw(k, data, order))(
            jax.random.split(batch_key, fresh)
        )
        if self.is_exact:
            # A refresh alone sees it, and no rows.
            batches = AsDrawn(batches)
        return ChainDraw(batches, _random.log_uniform(chain_key, (1 if self.is_exact else length,)))

    def init(self, key: Key, position: Position, data: Data) -> Memory:
        return self.estimator.init(key, position, data)

    def refresh(
        self, randomness: ChainDraw, memory: Memory, step: Array, point: Position, data: Data
    ) -> tuple[Memory, Position, Array | int]:
        drawn = randomness.batches.randomness if self.is_exact else randomness.batches
        return self.estimator.refresh(_tree.take(drawn, 0), memory, step, point, data)

    def propose(
        self, randomness: ChainDraw, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> Proposal:
        def of_batch(batch: PyTree) -> Proposal:
            return self.estimator.propose(batch, memory, point, data, weight)

        def log_weight(estimate: Estimate) -> Array:
            return weight(estimate, self.frozen_noise)

        if self.is_exact:
            return exactly(
                of_batch, log_weight, self.estimator.batches(data), randomness.log_uniforms[0]
            )
        # The batch that the last step accepted is the first of the chain, as if it had been drawn.
        if isinstance(self.estimator, Remembering):
            behind = self.estimator.behind_last(randomness.batches, memory, data)
            randomness = randomness._replace(batches=behind)
        return together(of_batch, log_weight, randomness)

    def gradient_at(self, estimate: Estimate, position: Position, data: Data) -> Position:
        return self.estimator.gradient_at(estimate, position, data)

    def commit(self, update: PyTree, memory: Memory) -> Memory:
        return self.estimator.commit(update, memory)

    def evaluations(self, data: Data) -> Evaluations:
        if self.is_exact:
            count = jax.tree.leaves(self.estimator.batches(data))[0].shape[0]
        else:
            count = int(self.chain_length) + 1
        return self.estimator.evaluations(data).of_candidates(count)

    def __repr__(self) -> str:
        inner = self.estimator
        named: dict[str, Any] = {
            "estimator": inner.estimator if isinstance(inner, Remembering) else inner,
            "chain_length": self.chain_length,
        }
        if self.frozen_noise != "momentum":
            named["frozen_noise"] = self.frozen_noise
        if self.carries_index:
            named["carry_index"] = True
        return written(made_by(self), named)


def exponentially_weighted(
    estimator: GradientEstimator[P],
    *,
    chain_length: int | float = 1,
    frozen_noise: str = "momentum",
    carry_index: bool = False,
) -> ExponentiallyWeighted[P]:
    """Choose among M+1 batches by a Metropolis chain on their exponential weights.

    Weights divide by the noise: where a schedule takes the temperature or the friction to 0 a chain
    diverges, and the run says so. End an annealing at a T > 0, or with the wrapped estimator alone.

    Args:
        estimator: the wrapped estimator; its batches must be exchangeable.
        chain_length: M ≥ 0, proposals per step. `math.inf` uses full weights, those of all batches
            (small n; all n rows for batch_size=1).
        frozen_noise: the x of the weight (EWSG Fig. 1b): `"momentum"`, its most likely value (no
            change of momentum); `"zero"`; `"one"`, all ones; `"rest"`, the noise that brings the
            momentum to rest.
        carry_index: begin each step's index chain with the batch that the last step accepted (EWSG
            section 4.4), or (False) with a new one (Algorithm 1). Each chain then keeps a batch's
            row numbers.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> weighted = ewsg.gradients.exponentially_weighted(
        ...     ewsg.gradients.uniform(model, batch_size=1), chain_length=1
        ... )
        >>> kernel = ewsg.kernel(ewsg.dynamics.euler(5e-2, friction=10.0), weighted)
    """
    _check.instance("estimator", estimator, GradientEstimator, "one of ewsg_jax.gradients")
    if not uses_batches(estimator):
        raise ValueError("estimator must draw batches to be weighted; got the full gradient")
    if laws := [law for law in laws_of(estimator) if law.ordered]:
        raise ValueError(
            f"estimator must draw exchangeable batches to be weighted; got {name_of(laws[0])}, "
            "where choosing among the next rows of an epoch would change which rows are left; take "
            "rows='random' or 'blocks'"
        )
    if isinstance(estimator, ExponentiallyWeighted):
        raise ValueError(
            "estimator must not be exponentially weighted already; got one with the frozen noise "
            f"{_check.describe(estimator.frozen_noise)}"
        )
    is_exact = isinstance(chain_length, float) and chain_length == math.inf
    if not is_exact:
        _check.integer("chain_length", chain_length, minimum=0)
    elif not lists_batches(estimator):
        raise ValueError(
            "chain_length must be finite for an estimator whose batches cannot be listed; got inf"
        )
    _check.one_of("frozen_noise", frozen_noise, FROZEN_NOISE)
    _check.boolean("carry_index", carry_index)
    if carry_index and (is_exact or chain_length == 0):
        raise ValueError(
            f"carry_index must be False for chain_length={chain_length}, "
            + (
                "whose weights need no index chain"
                if is_exact
                else "which would keep one batch for ever"
            )
            + "; got True"
        )
    return ExponentiallyWeighted(
        posterior=estimator.posterior,
        estimator=Remembering(posterior=estimator.posterior, estimator=estimator)
        if carry_index
        else estimator,
        chain_length=math.inf if is_exact else int(chain_length),
        frozen_noise=frozen_noise,
    )
