"""HAMCMC with a matrix for each block of a position: the supplement's Table 3 of Şimşekli et al.
2016.

H is block diagonal; the blocks are the leaves of the position. Each has pairs, a curvature test and
a matrix of its own, so that blocks may be worked out and moved in parallel. Each block is a
`quasi_newton` of its own, but that the gradient at its new point is that where all blocks are at
their new points.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from benchmarks.papers.annotations import Array, Data, Key, Position, PyTree
from ewsg_jax.dynamics import GradientAt, QuasiNewton, QuasiNewtonState
from ewsg_jax.gradients import Estimate


class BlockwiseState(NamedTuple):
    """The newest point, the state of each block, and the number of moves made."""

    position: Position
    blocks: tuple[QuasiNewtonState, ...]
    step: Array


def joined(like: Position, leaves: Sequence[Any]) -> Position:
    """Return leaves as a tree like a position."""
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


@ewsg.module
class Blockwise(QuasiNewton):
    """The dynamics of `blockwise`."""

    def init(self, key: Key, position: Position) -> Any:
        # Copied: no array may stand twice in a state whose memory is used again.
        of_block = super().init
        blocks = tuple(of_block(key, jnp.copy(leaf)) for leaf in jax.tree.leaves(position))
        return BlockwiseState(position, blocks, jnp.int32(0))

    def evaluation_point(self, state: Any) -> Position:
        return joined(state.position, [block.point for block in state.blocks])

    def prepare(self, state: Any, prior_gradient: Any, data: Data) -> Any:
        of_block = super().prepare
        return state, [
            of_block(block._replace(step=state.step), prior_gradient, data)
            for block in state.blocks
        ]

    def log_weight(
        self, prepared: Any, estimate: Estimate, frozen_noise: Any = "momentum"
    ) -> Array:
        of_block, (_, blocks) = super().log_weight, prepared
        gradients = jax.tree.leaves(estimate.gradient)
        parts = zip(blocks, gradients, strict=True)
        of_blocks = [
            of_block(block, estimate._replace(gradient=g), frozen_noise) for block, g in parts
        ]
        return jnp.sum(jnp.stack(of_blocks))

    def apply(
        self, noise: PyTree, prepared: Any, estimate: Estimate, gradient_at: GradientAt
    ) -> Any:
        of_block, (state, blocks) = super().apply, prepared
        estimates = [estimate._replace(gradient=g) for g in jax.tree.leaves(estimate.gradient)]
        parts = list(zip(jax.tree.leaves(noise), blocks, estimates, strict=True))
        # Where all blocks go is known before any gradient there; what else is worked out here is
        # not used.
        end = joined(
            state.position, [of_block(*part, lambda position: position).position for part in parts]
        )
        gradients = jax.tree.leaves(gradient_at(end))
        moved = [
            of_block(*part, lambda position, g=g: g)
            for part, g in zip(parts, gradients, strict=True)
        ]
        return BlockwiseState(end, tuple(moved), state.step + 1)

    def with_evaluation_point(self, state: Any, point: Position) -> Any:
        of_block, leaves = super().with_evaluation_point, jax.tree.leaves(point)
        return state._replace(blocks=tuple(map(of_block, state.blocks, leaves)))


def blockwise(dynamics: QuasiNewton) -> Blockwise:
    """Return a `quasi_newton` with a matrix for each leaf of the position, from that leaf's part of
    every pair.
    """
    return Blockwise(
        **{field.name: getattr(dynamics, field.name) for field in dataclasses.fields(dynamics)}
    )
