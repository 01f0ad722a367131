"""An estimator that remembers the accepted batch, where the next step's index chain may begin."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax._module import module
from ewsg_jax._types import Array, Data, Key, Memory, P, Position, PyTree
from ewsg_jax.gradients.protocol import (
    Estimate,
    Evaluations,
    GradientEstimator,
    Sharing,
    Weight,
    reports_covariance,
    sharing_of,
)
from ewsg_jax.needs import Need
from ewsg_jax.rows.law import Order
from ewsg_jax.rows.view import AsDrawn, fetch


class Remembered(NamedTuple):
    """A memory, and beside it the last accepted batch as it was drawn: row numbers, not rows."""

    memory: Memory
    last: PyTree


class Draw(NamedTuple):
    """A batch, perhaps with its rows, and the same as it was drawn."""

    batch: PyTree
    drawn: AsDrawn


@module
class Remembering(GradientEstimator[P]):
    """The estimates of another one, whose memory holds the accepted batch beside its own.

    Attributes:
        estimator: the other one.
    """

    needs = frozenset({Need.ALL_ROWS})  # a row number means nothing in the next window

    estimator: GradientEstimator[P]

    @property
    def reports_covariance(self) -> bool:
        """Whether those of the other one hold their covariance."""
        return reports_covariance(self.estimator)

    @property
    def sharing(self) -> Sharing:
        """Whose the memory is."""
        # Each chain accepts a batch of its own, so its memory cannot be shared.
        return sharing_of(self.estimator)._replace(of="chain")

    def check(self, position: P, data: Data) -> None:
        self.estimator.check(position, data)

    def draw(self, key: Key, data: Data, order: Order | None = None) -> Draw:
        drawn = self.estimator.draw(key, data, order)
        # Twice: once to be fetched with its rows, once to be remembered without.
        return Draw(drawn, AsDrawn(drawn))

    def init(self, key: Key, position: Position, data: Data) -> Remembered:
        own, first = jax.random.split(key)
        return Remembered(
            # The first batch is as good as any: the index chain forgets it.
            self.estimator.init(own, position, data),
            self.estimator.draw(first, data),
        )

    def behind_last(self, candidates: Draw, memory: Remembered, data: Data) -> Draw:
        """Return candidates, on a leading axis, behind the batch that was accepted last."""
        last = Draw(memory.last, AsDrawn(memory.last))
        if jax.tree.structure(candidates.batch) != jax.tree.structure(last.batch):
            last = fetch(last, data)  # as those were, ahead of the step
        return jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), last, candidates)

    def refresh(
        self, randomness: Draw, memory: Remembered, step: Array, point: Position, data: Data
    ) -> tuple[Remembered, Position, Array | int]:
        own, point, evaluations = self.estimator.refresh(
            randomness.batch, memory.memory, step, point, data
        )
        return memory._replace(memory=own), point, evaluations

    def propose(
        self, randomness: Draw, memory: Remembered, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        estimate, update = self.estimator.propose(
            randomness.batch, memory.memory, point, data, weight
        )
        return estimate, (update, randomness.drawn.randomness)

    def gradient_at(self, estimate: Estimate, position: Position, data: Data) -> Position:
        return self.estimator.gradient_at(estimate, position, data)

    def commit(self, update: PyTree, memory: Remembered) -> Remembered:
        of_batch, drawn = update
        return Remembered(self.estimator.commit(of_batch, memory.memory), drawn)

    def evaluations(self, data: Data) -> Evaluations:
        return self.estimator.evaluations(data)
