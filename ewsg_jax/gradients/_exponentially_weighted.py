"""Exponentially weighted estimates (EWSG, Algorithm 1 and eq. 4), around any estimator.

Draw a batch I from the wrapped estimator; M times draw another, J, and replace I by J with
probability min(1, exp(w(J) − w(I))), w the dynamics' log weight ½‖x + a‖² of the *estimate* a batch
gives (a: the estimate in units of the dynamics' noise, x: that noise frozen). As M → ∞ the batch
has the distribution p_I ∝ exp(w(I)); M = 0 is the wrapped estimator. Only the accepted batch
updates the memory.

Algorithm 1 draws I in every step; section 4.4 describes one index chain that continues across
steps. With `carry_index` I is the batch that the last step accepted, with its weight at the current
position: the number of evaluations is the same, and for small h the batch has the distribution of
full weights whatever M; Algorithm 1 has it to first order in h for M ≥ 1. Batches of successive
steps are then dependent: a batch that outweighs the others stays.

Without noise (T = 0 or γ = 0, which a schedule may reach) there are no weights: as σ → 0 the
longest gradient always wins, whose mean is not ∇V, so that the limit does not optimise V. A chain
whose weight is not finite gets NaN for a gradient, and is reported as diverged at that step. M = 0
needs no weight.

M = 1 tilts the mean of the estimate by (h/σ²)[S(γp + ∇V) + ½E‖δ‖²δ] to first order in h (S its
covariance, δ its centred value): extra friction that damps the noise of minibatches, plus a bias
from the skewness. A larger M adds second-order terms and more of the bias, so it is not better in
general. Evaluations: (M+1) times what the wrapped estimator needs to propose, and once what it
needs to commit.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.needs import Need
from ewsg_jax.base.typing import Array, Data, Key, Memory, P, Position, PyTree
from ewsg_jax.gradients._index_chain import ChainDraw, Proposal, exactly, together
from ewsg_jax.gradients._protocol import (
    Estimate,
    Evaluations,
    GradientEstimator,
    NoiseModel,
    Sharing,
    Weight,
    noise_model_of,
    reports_covariance,
    sharing_of,
    uses_batches,
)
from ewsg_jax.gradients._streamed import Streamed
from ewsg_jax.rows._named import name_of
from ewsg_jax.rows._scheme import Order, lists_batches, schemes_of
from ewsg_jax.rows._view import AsDrawn, fetch

FROZEN_NOISE = ("momentum", "zero", "one", "rest")
"""The choices of x, the frozen noise."""


class CarriedDraw(NamedTuple):
    """A batch, which may be fetched with its rows, and the same batch as row numbers."""

    batch: PyTree
    drawn: AsDrawn


class CarriedMemory(NamedTuple):
    """The wrapped memory, and the batch that the last step accepted, as row numbers."""

    memory: Memory
    last: PyTree


@module
class ExponentiallyWeighted(GradientEstimator[P]):
    """The estimator of `exponentially_weighted`.

    Attributes:
        estimator: the wrapped estimator, whose posterior and memory this one uses.
        chain_length: M, the number of proposals; infinity for full weights.
        frozen_noise: the choice of x.
        carry_index: whether a step's index chain begins with the batch that the last step accepted;
            the memory then holds that batch, too.
    """

    estimator: GradientEstimator[P]
    chain_length: int | float = static()
    frozen_noise: str = static(default="momentum")
    carry_index: bool = static(default=False)

    @property
    def num_proposals(self) -> int | float:
        """M, by its main name; a saved run knows the field as `chain_length`."""
        return self.chain_length

    @property
    def is_exact(self) -> bool:
        """Whether a batch is drawn from the full weights of all batches."""
        return self.chain_length == math.inf

    @property
    def needs(self) -> frozenset[Need]:  # pyright: ignore[reportIncompatibleVariableOverride]
        if self.carry_index:
            # A row number means nothing in the next window.
            return frozenset({Need.ALL_ROWS})
        # The weights of all batches need them all listed.
        return frozenset({Need.ONE_N, Need.ONE_PLACE}) if self.is_exact else frozenset()

    @property
    def reports_covariance(self) -> bool:
        """Whether estimates hold their covariance."""
        return reports_covariance(self.estimator)

    @property
    def sharing(self) -> Sharing:
        """Which chains share the memory; with a carried index each chain has its own."""
        shared = sharing_of(self.estimator)
        return shared._replace(of="chain") if self.carry_index else shared

    def check(self, position: Position, data: Data) -> None:
        self.estimator.check(position, data)
        if self.is_exact:
            self.estimator.batches(data)

    def draw(self, key: Key, data: Data, order: Order | None = None) -> ChainDraw:
        batch_key, chain_key = jax.random.split(key)
        length = 0 if self.is_exact else int(self.chain_length)
        fresh = length if self.carry_index else length + 1
        batches = jax.vmap(lambda k: self.estimator.draw(k, data, order))(
            jax.random.split(batch_key, fresh)
        )
        if self.is_exact:
            # A refresh alone sees it, and no rows.
            batches = AsDrawn(batches)
        elif self.carry_index:
            # Twice: once to be fetched with its rows, once to be remembered without.
            batches = CarriedDraw(batches, AsDrawn(batches))
        return ChainDraw(batches, rng.log_uniform(chain_key, (1 if self.is_exact else length,)))

    def init(self, key: Key, position: Position, data: Data) -> Memory:
        if not self.carry_index:
            return self.estimator.init(key, position, data)
        memory_key, batch_key = jax.random.split(key)
        # Any first batch will do: the index chain forgets it.
        return CarriedMemory(
            self.estimator.init(memory_key, position, data), self.estimator.draw(batch_key, data)
        )

    def refresh(
        self, randomness: ChainDraw, memory: Memory, step: Array, point: Position, data: Data
    ) -> tuple[Memory, Position, Array | int]:
        drawn, wrapped = randomness.batches, memory.memory if self.carry_index else memory
        if self.is_exact:
            drawn = drawn.randomness
        elif self.carry_index:
            drawn = drawn.batch
        wrapped, point, evaluations = self.estimator.refresh(
            pytrees.take(drawn, 0), wrapped, step, point, data
        )
        return memory._replace(memory=wrapped) if self.carry_index else wrapped, point, evaluations

    def propose(
        self, randomness: ChainDraw, memory: Memory, point: Position, data: Data, weight: Weight
    ) -> Proposal:
        wrapped = memory.memory if self.carry_index else memory

        def of_batch(batch: PyTree) -> Proposal:
            if not self.carry_index:
                return self.estimator.propose(batch, wrapped, point, data, weight)
            estimate, update = self.estimator.propose(batch.batch, wrapped, point, data, weight)
            return estimate, (update, batch.drawn.randomness)

        log_weight = functools.partial(weight, frozen_noise=self.frozen_noise)
        if self.is_exact:
            return exactly(
                of_batch, log_weight, self.estimator.batches(data), randomness.log_uniforms[0]
            )
        # The batch that the last step accepted is the first of the chain, as if it had been drawn.
        if self.carry_index:
            behind = _behind(memory.last, randomness.batches, data)
            randomness = randomness._replace(batches=behind)
        return together(of_batch, log_weight, randomness)

    def gradient_at(self, estimate: Estimate, position: Position, data: Data) -> Position:
        return self.estimator.gradient_at(estimate, position, data)

    def commit(self, update: PyTree, memory: Memory) -> Memory:
        if not self.carry_index:
            return self.estimator.commit(update, memory)
        of_batch, last = update
        return CarriedMemory(self.estimator.commit(of_batch, memory.memory), last)

    def evaluations(self, data: Data) -> Evaluations:
        if self.is_exact:
            count = jax.tree.leaves(self.estimator.batches(data))[0].shape[0]
        else:
            count = int(self.chain_length) + 1
        return self.estimator.evaluations(data).of_candidates(count)

    def noise_model(self, data: Data) -> NoiseModel:
        # Weights choose among what the wrapped estimator draws.
        drawn = noise_model_of(self.estimator, data)
        unknown = drawn.unknown
        if self.carry_index:
            unknown = "carry_index=True, whose batches depend on each other"
        elif drawn.anchor in ("refreshed", "table"):
            unknown = "exponential weights around a memory"
        return drawn._replace(
            chain_length=self.chain_length,
            frozen_noise=self.frozen_noise,
            order=None,
            unknown=unknown,
        )

    @property
    def weight_noise(self) -> str:
        return self.frozen_noise

    @property
    def restarts(self) -> bool:
        return self.estimator.restarts


def exponentially_weighted(
    estimator: GradientEstimator[P],
    *,
    num_proposals: int | float | None = None,
    chain_length: int | float | None = None,
    frozen_noise: str = "momentum",
    carry_index: bool = False,
) -> ExponentiallyWeighted[P]:
    """Choose among M+1 batches by a Metropolis chain on their exponential weights.

    Weights divide by the noise: if a schedule takes the temperature or the friction to 0, chains
    diverge, and the run reports it. End an annealing at a T > 0, or with the wrapped estimator
    alone.

    Args:
        estimator: the wrapped estimator; its batches must be exchangeable.
        num_proposals: M ≥ 0, the number of proposals per step. `math.inf` uses full weights, the
            weights of all batches (small n; all n rows for batch_size=1). Default 1.
        chain_length: another name for `num_proposals`. Default None.
        frozen_noise: x, the noise in the weight (EWSG Fig. 1b): `"momentum"` (default), its most
            likely value (no change of momentum); `"zero"`; `"one"`, all ones; `"rest"`, the noise
            that brings the momentum to rest.
        carry_index: begin each step's index chain with the batch that the last step accepted (EWSG
            section 4.4); each chain then keeps a batch's row numbers. Default False: with a new
            batch (Algorithm 1).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.

    Example:
        >>> import ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> weighted = ewsg.gradients.exponentially_weighted(
        ...     ewsg.gradients.uniform(model, batch_size=1), num_proposals=1
        ... )
        >>> kernel = ewsg.kernel(ewsg.dynamics.euler(5e-2, friction=10.0), weighted)
    """
    checks.instance("estimator", estimator, GradientEstimator, "one of ewsg_jax.gradients")
    if not uses_batches(estimator):
        raise ValueError("estimator must draw batches to be weighted; got the full gradient")
    if isinstance(estimator, Streamed):
        raise ValueError(
            "estimator must draw its batches itself to be weighted, several a step; got streamed, "
            "which is given one a step"
        )
    if ordered := [scheme for scheme in schemes_of(estimator) if scheme.ordered]:
        raise ValueError(
            f"estimator must draw exchangeable batches to be weighted; got {name_of(ordered[0])}: "
            "choosing among the next rows of an epoch would change which rows are left; take "
            "rows='random' or 'blocks'"
        )
    if isinstance(estimator, ExponentiallyWeighted):
        raise ValueError(
            "estimator must not be exponentially weighted already; got one with the frozen noise "
            f"{checks.describe(estimator.frozen_noise)}"
        )
    argument, length = proposals_argument(num_proposals, chain_length)
    is_exact = isinstance(length, float) and length == math.inf
    if not is_exact:
        checks.integer(argument, length, minimum=0)
    elif not lists_batches(estimator):
        raise ValueError(
            f"{argument} must be finite for an estimator whose batches cannot be listed; got inf"
        )
    checks.one_of("frozen_noise", frozen_noise, FROZEN_NOISE)
    checks.boolean("carry_index", carry_index)
    if carry_index and (is_exact or length == 0):
        raise ValueError(
            f"carry_index must be False for {argument}={length}, "
            + (
                "whose weights need no index chain"
                if is_exact
                else "which would keep one batch for ever"
            )
            + "; got True"
        )
    return ExponentiallyWeighted(
        posterior=estimator.posterior,
        estimator=estimator,
        chain_length=math.inf if is_exact else int(length),
        frozen_noise=frozen_noise,
        carry_index=bool(carry_index),
    )


def proposals_argument(num_proposals: Any, chain_length: Any) -> tuple[str, Any]:
    """Return the name under which M was given, and M as it was given; 1 by default.

    Raises:
        ValueError: it was given under both names.
    """
    if chain_length is None:
        return "num_proposals", 1 if num_proposals is None else num_proposals
    if num_proposals is None:
        return "chain_length", chain_length
    raise ValueError(
        "num_proposals must be left out if chain_length, its other name, is given; got "
        f"num_proposals={checks.describe(num_proposals)} and "
        f"chain_length={checks.describe(chain_length)}"
    )


def _behind(last: PyTree, candidates: CarriedDraw, data: Data) -> CarriedDraw:
    """Return the batch that was accepted last, followed by the candidates, on a leading axis."""
    first = CarriedDraw(last, AsDrawn(last))
    if jax.tree.structure(candidates.batch) != jax.tree.structure(first.batch):
        first = fetch(first, data)  # as those were, ahead of the step
    return jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), first, candidates)
