"""Effects that depend on each other in a way that no scale changes: random walks, fields.

The effects of a hierarchy may be jointly normal with one scale for all: the steps of a random walk,
a smooth curve, a Gaussian process with an amplitude. Then each has in the prior, given some others,
a mean that is linear in these with constant coefficients, however large the scale is. Less that
mean they are independent of each other: the increments of a walk. So the effects are found one by
one: one that has such a mean given all that is left is integrated out, which is algebra, and so on.
"""

import copy
import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ewsg_jax.base.typing import Array

Precisions = list[np.ndarray]
"""Precisions of the same jointly normal coordinates at some points, shape (k, k) each."""


class Increments:
    """The map from a vector θ to one whose effects are less their means given others; hashable.

    Attributes:
        effects: the coordinates that it changes.
        among: those and the ones that they depend on, shape (k,).
        forth: the matrix of the map among these, shape (k, k).
        back: its inverse.
        log_det: the logarithm of the absolute determinant of the inverse.

    Args:
        effects: the coordinates of effects.
        coefficients: what is added to each of them of all coordinates, shape (effects, d).
    """

    def __init__(self, effects: tuple[int, ...], coefficients: np.ndarray) -> None:
        self.effects = effects
        self.log_det = 0.0
        needed = np.any(coefficients != 0, axis=0)
        needed[list(effects)] = True
        self.among = np.flatnonzero(needed)
        self.forth = np.eye(len(self.among))
        self.forth[np.searchsorted(self.among, effects)] += coefficients[:, self.among]
        self.back = np.linalg.inv(self.forth)

    @functools.cached_property
    def _identity(self) -> tuple[bytes, bytes]:
        return self.among.tobytes(), self.forth.tobytes()

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Increments) and self._identity == other._identity

    def turned(self, matrix: np.ndarray) -> "Increments":
        """Return the map to other combinations of the increments.

        Args:
            matrix: gives them of the increments, in the order of `effects`, shape (effects,
                effects).
        """
        other, rows = copy.copy(self), np.searchsorted(self.among, self.effects)
        other.forth = self.forth.copy()
        other.forth[rows] = matrix @ self.forth[rows]
        other.back = np.linalg.inv(other.forth)
        other.log_det = -float(np.linalg.slogdet(other.forth)[1])
        vars(other).pop("_identity", None)
        return other

    def of_position(self, flat: Array) -> Array:
        """Return increments of a vector θ, shape (…, d) both."""
        return self._mapped(self.forth, flat)

    def position_of(self, flat: Array) -> Array:
        """Return θ of increments, shape (…, d) both."""
        return self._mapped(self.back, flat)

    def pulled_back(self, gradients: np.ndarray) -> np.ndarray:
        """Return gradients by increments of gradients by θ, shape (…, d) both."""
        pulled = gradients.copy()
        pulled[..., self.among] = gradients[..., self.among] @ self.back
        return pulled

    def _mapped(self, matrix: np.ndarray, flat: Array) -> Array:
        mapped = flat[..., self.among] @ jnp.asarray(matrix.T, flat.dtype)
        return flat.at[..., self.among].set(mapped)


class Regressions(NamedTuple):
    """Effects with their means in the prior given others.

    Attributes:
        effects: their places among the coordinates, in the order in which they are integrated out.
        coefficients: minus those of their means, shape (effects, k).
    """

    effects: list[int]
    coefficients: np.ndarray


def constant_regressions(precisions: Precisions, zero: float) -> Regressions:
    """Return effects whose means given others have the same coefficients at all points.

    Args:
        precisions: precision matrices of jointly normal coordinates at some points.
        zero: a relative difference that is rounding, and one of coefficients in units of widths.
    """
    stack = np.array(precisions)
    # In units of each coordinate's width at the first point.
    units = np.diag(stack[0]) ** -0.5
    stack *= units * units[:, None]
    left = np.ones(len(units), bool)
    number = (np.abs(stack[0]) > zero).sum(1)
    effects, rows = [], []

    def row(k: int) -> np.ndarray | None:
        """Return the coefficients of an effect; None if it is none, or if they change."""
        diagonal = stack[:, k, k]
        # Of a mean with a flat prior only rounding is left when its effects are integrated out.
        if not (diagonal > zero).all() or np.ptp(diagonal) <= zero * diagonal.max():
            return None
        at_points = np.where(left, stack[:, k] / diagonal[:, None], 0.0)
        return None if np.ptp(at_points, axis=0).max() > zero else at_points.mean(0)

    while True:
        # Those with the fewest others that they depend on first, as the last step of a walk.
        order = np.argsort(number, kind="stable")
        candidates = (int(k) for k in order if left[k])
        chosen = next(((k, r) for k in candidates if (r := row(k)) is not None), None)
        if chosen is None:
            return Regressions(effects, np.array(rows).reshape(len(effects), len(left)))
        k, coefficients = chosen
        coefficients[np.abs(coefficients) < zero] = 0.0
        coefficients[k] = 0.0
        left[k] = False
        effects.append(k)
        rows.append(coefficients * units[k] / units)
        touched = np.flatnonzero(coefficients)
        block = np.ix_(np.arange(len(stack)), touched, touched)
        diagonal = stack[:, k, k][:, None, None]
        stack[block] -= diagonal * coefficients[touched] * coefficients[touched][:, None]
        number[touched] = (np.abs(stack[0, touched]) > zero)[:, left].sum(1)
