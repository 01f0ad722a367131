"""What an estimator of ∇V is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from ewsg_jax._types import Array, Data, Key, Position, PyTree

MemoryOf = Literal["chain", "start", "data"]
Memory = Any
"""What an estimator keeps between steps: a tree of arrays, `()` where it keeps nothing."""


class Estimate(NamedTuple):
    """An estimate of ∇V, a tree of arrays so that one candidate can be selected by its index.

    Attributes:
        gradient: shaped like the position.
        batch: what identifies the batch and what `probe` needs beside it, `()` for the full data.
        acceptance: the share of index-chain proposals accepted; 1 where there is no index chain.
        covariance: of the gradient, given the position, as one of `ewsg_jax.gradients.Covariance`; `()` where the
            estimator does not report it.
    """

    gradient: Position
    batch: PyTree
    acceptance: Array | np.float32 = np.float32(1.0)
    covariance: Any = ()


class Weight(Protocol):
    """The exponent of the exponential weight of an estimate, up to a constant, at the current state."""

    def __call__(self, estimate: Estimate, frozen_noise: str | PyTree = "momentum") -> Array: ...


class Evaluations(NamedTuple):
    """How many ∇Vᵢ are evaluated: Python integers, known before anything runs.

    Attributes:
        per_step: in every step.
        per_probe: by a probe of the accepted batch at another point.
        at_init: once, by `init`.
        per_refresh: besides, in the steps 0, K, 2K, …
        refresh_every: K.
        counted: whether steps say themselves what they evaluated (`Info.gradient_evaluations`) and `per_step` is
            not known.
    """

    per_step: int
    per_probe: int
    at_init: int = 0
    per_refresh: int = 0
    refresh_every: int = 1
    counted: bool = False

    def of_steps(self, first: Any, count: Any) -> Any:
        """Return the evaluations of `count` steps, the first of them number `first`; whole numbers or arrays."""
        refreshes = -(-(first + count) // self.refresh_every) + (-first // self.refresh_every)
        return count * self.per_step + refreshes * self.per_refresh


def _no_memory(key: Key, position: Position, data: Data) -> Memory:
    return ()


def _no_refresh(
    randomness: PyTree, memory: Memory, step: Array, point: Position, data: Data
) -> tuple[Memory, Position, int]:
    return memory, point, 0


def _nothing_ahead(randomness: PyTree, data: Data) -> PyTree:
    return randomness


def _no_commit(receipt: PyTree, memory: Memory) -> Memory:
    return memory


@dataclass(frozen=True, eq=False)
class GradientEstimator:
    """An estimator of ∇V: pure functions, composed with any dynamics by `ewsg_jax.kernel`.

    Attributes:
        draw: `draw(key, data) -> randomness`, from the configuration and n alone.
        propose: `propose(randomness, memory, point, data, weight) -> (estimate, receipt)`.
        probe: `probe(estimate, position, data) -> gradient`: the estimate's own batch at another position.
        prior_gradient: `prior_gradient(position) -> ∇V₀`, the part of every estimate that is no estimate.
        evaluations: `evaluations(data) -> Evaluations`: how many ∇Vᵢ are evaluated.
        check: `check(position, data)`: raises what is wrong with them, by type, shape and dtype.
        gather: `gather(randomness, data) -> randomness`: the same with its rows of the data gathered, which may
            be done for many steps at once; `propose` takes either.
        init: `init(key, position, data) -> memory`.
        refresh: `refresh(randomness, memory, step, point, data) -> (memory, point, evaluations)`. A point
            that differs from the one given restarts the chain there.
        commit: `commit(receipt, memory) -> memory`, once a step, with the accepted batch's receipt.
        batches: `batches(data) -> randomness` with all equally probable batches on a leading axis, or
            None where they cannot be listed.
        frozen_noise: the x of an exponential weight, None for an estimator that does not ask for one.
        uses_batches: whether steps differ by the rows they see.
        exchangeable: whether batches of one step may be exchanged, as exponential weights and batches shared
            between chains need: not so for reshuffled epochs.
        memory_of: whose the memory is: each "chain"'s; or never changed, and a function of the "start" and the data
            or of the "data" alone, so that chains may share it.
        memory_limit: bytes that the memory of all chains may take, None for any.
        reports_covariance: whether estimates hold their covariance.
    """

    draw: Callable[[Key, Data], PyTree]
    propose: Callable[[PyTree, Memory, Position, Data, Weight], tuple[Estimate, PyTree]]
    probe: Callable[[Estimate, Position, Data], Position]
    prior_gradient: Callable[[Position], Position]
    evaluations: Callable[[Data], Evaluations]
    check: Callable[[Position, Data], None]
    gather: Callable[[PyTree, Data], PyTree] = _nothing_ahead
    init: Callable[[Key, Position, Data], Memory] = _no_memory
    refresh: Callable[[PyTree, Memory, Array, Position, Data], tuple[Memory, Position, Any]] = _no_refresh
    commit: Callable[[PyTree, Memory], Memory] = _no_commit
    batches: Callable[[Data], PyTree] | None = None
    frozen_noise: str | PyTree | None = None
    uses_batches: bool = True
    exchangeable: bool = True
    memory_of: MemoryOf = "chain"
    memory_limit: int | None = None
    reports_covariance: bool = False
