"""The normals of one step of h, made of those of two steps of h/2 that bring the same noise.

Without a force a step is z' = M z + F ξ in each coordinate, and two half steps bring the noise N
[ξ₁; ξ₂] with N = [M½F½, F½]. Rows of F and N are taken in the order of what lasts: first the
distance that noise leads to in the end, ℓᵀz with ℓᵀM = ℓᵀ, then the momentum. With F = L Q and N =
L' Q' (L lower triangular, the rows of Q orthonormal)

    Ξ = Qᵀ Q' [ξ₁; ξ₂]

are independent standard normals, whatever F and N are: the law of the step that takes them is
untouched. Where the step without a force is exact L = L', and the noise F Ξ is N [ξ₁; ξ₂] itself.
With one normal a coordinate it is (ξ₁ + ξ₂)/√2, summed increments.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax import _tree
from ewsg_jax._module import made_by
from ewsg_jax._types import PyTree
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.dynamics.mass import without_metric
from ewsg_jax.gradients import Estimate

Weights = tuple[tuple[float, ...], ...]
"""Of each normal of a step, by the normals of the first half and those of the second."""


def free_step(dynamics: Dynamics) -> tuple[np.ndarray, np.ndarray]:
    """Return M and F of a step of one coordinate without force, in unit mass, position first."""
    dynamics, _ = without_metric(dynamics)
    with jax.enable_x64(True):
        start = dynamics.init(jax.random.key(0), jnp.zeros(()))
        none = jax.tree.map(jnp.zeros_like, dynamics.draw(jax.random.key(0), start))
        if any(x.shape for x in jax.tree.leaves(none)):
            shapes = [x.shape for x in jax.tree.leaves(none)]
            raise ValueError(
                "kernel must have a dynamics whose draw returns standard normals shaped like the "
                f"position, or a tuple of such trees; got {made_by(dynamics)}, of shapes {shapes} "
                "for a position of shape ()"
            )
        names = ["position", *(name for name in start._fields if name not in ("position", "step"))]

        def moved(values: dict[str, PyTree], noise: PyTree) -> np.ndarray:
            state = start._replace(**values)
            end = dynamics.apply(
                noise, state, Estimate(jnp.zeros(()), ()), lambda position: position
            )
            return np.array([float(getattr(end, name)) for name in names])

        origin = moved({}, none)
        matrix = [moved({name: jnp.ones(())}, none) - origin for name in names]
        leaves, structure = jax.tree.flatten(none)
        units = np.eye(len(leaves))
        factor = [
            moved({}, structure.unflatten([jnp.asarray(x) for x in unit])) - origin
            for unit in units
        ]
    return np.array(matrix).T, np.array(factor).T


def shared(coarse: Dynamics, fine: Dynamics) -> Weights:
    """Return what makes the normals of a step of `coarse` from those of two steps of `fine`."""
    (matrix, factor), (half_matrix, half_factor) = free_step(coarse), free_step(fine)
    two = np.concatenate([half_matrix @ half_factor, half_factor], axis=1)
    count = factor.shape[1]
    own, of_two = (
        _directions(rows, count)
        for rows in (_lasting(matrix) @ factor, _lasting(half_matrix) @ two)
    )
    return tuple(tuple(float(x) for x in row) for row in own.T @ of_two)


def joined(weights: Weights, first: PyTree, second: PyTree, like: PyTree) -> PyTree:
    """Return the normals of a step from those of its halves, of positions shaped like `like`."""
    leaf = jax.tree.structure(like)

    def is_position(tree: PyTree) -> bool:
        # Of several normals a coordinate a noise is a tree of trees like the position.
        return jax.tree.structure(tree) == leaf

    parts, outer = jax.tree.flatten(first, is_leaf=is_position)
    parts = [*parts, *jax.tree.leaves(second, is_leaf=is_position)]
    return outer.unflatten([_tree.combine(*zip(row, parts, strict=True)) for row in weights])


def _lasting(matrix: np.ndarray) -> np.ndarray:
    """Return the map of z to where its position ends, and what else there is, the momentum."""
    rest = matrix[1:, 1:]
    reach = matrix[0, 1:] @ np.linalg.inv(np.eye(len(rest)) - rest)
    return np.block([[np.eye(1), reach[None]], [np.zeros((len(rest), 1)), np.eye(len(rest))]])


def _directions(rows: np.ndarray, count: int) -> np.ndarray:
    """Return `count` orthonormal rows of Q, rows = L Q with positive diagonal of L; then any."""
    q, r = np.linalg.qr(rows.T, mode="complete")
    signs = np.ones(q.shape[1])
    diagonal = np.diag(r)
    signs[: len(diagonal)] = np.where(diagonal < 0, -1.0, 1.0)
    return (q * signs).T[:count]
