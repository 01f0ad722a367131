"""The Stein kernel of the inverse multiquadric, in coordinates in which a metric is I.

With k(u, v) = q^−½, q = c² + ‖u − v‖², and h the gradient of V/T, the Stein operator in both
arguments gives

    κ(u, v) = d q^−³ᐟ² − 3 ‖u − v‖² q^−⁵ᐟ² − (u − v)·(h(u) − h(v)) q^−³ᐟ² + h(u)·h(v) q^−½,

whose mean over either argument is zero under exp(−V/T), and under no other law (Gorham & Mackey
2017).
"""

from typing import NamedTuple

import numpy as np

from ewsg_jax.checking.basis import White

TILE = 256
"""Draws of a tile: what is held of κ at once is a square of this size."""


class SteinKernel(NamedTuple):
    """κ between draws.

    Attributes:
        u: draws, shape (m, d).
        h: gradients, shape (m, d).
        scale: c.
    """

    u: np.ndarray
    h: np.ndarray
    scale: float

    @classmethod
    def of(cls, white: White, scale: float) -> "SteinKernel":
        """Return κ of both batches' mean: independent for two draws, as κ between them needs."""
        return cls(white.u, white.mean, scale)

    def between(self, one: slice, other: slice) -> np.ndarray:
        """Return κ between some draws and others, a matrix."""
        u, v, g, h = self.u[one], self.u[other], self.h[one], self.h[other]
        apart = np.sum(u**2, 1)[:, None] + np.sum(v**2, 1) - 2 * (u @ v.T)
        apart = np.maximum(apart, 0.0)
        pull = np.sum(u * g, 1)[:, None] + np.sum(v * h, 1) - u @ h.T - g @ v.T
        inverse = 1 / (self.scale**2 + apart)
        return np.sqrt(inverse) * (g @ h.T + inverse * (u.shape[1] - pull - 3 * apart * inverse))

    @property
    def diagonal(self) -> np.ndarray:
        """κ of each draw with itself, shape (m,); with what noise of gradients adds."""
        return self.u.shape[1] / self.scale**3 + np.sum(self.h**2, 1) / self.scale

    def sums(self, parts: list[slice]) -> np.ndarray:
        """Return sums of κ over pairs of different draws, one for each pair of successive parts."""
        labels = np.repeat(np.arange(len(parts)), [part.stop - part.start for part in parts])
        tiles = [
            slice(start, min(start + TILE, len(labels))) for start in range(0, len(labels), TILE)
        ]
        total = np.zeros((len(parts), len(parts)))
        for number, one in enumerate(tiles):
            for other in tiles[number:]:
                values = self.between(one, other)
                if one == other:
                    np.fill_diagonal(values, 0.0)
                (rows, starts), (columns, column_starts) = _runs(labels[one]), _runs(labels[other])
                summed = np.add.reduceat(
                    np.add.reduceat(values, starts, axis=0), column_starts, axis=1
                )
                total[np.ix_(rows, columns)] += summed
                if one != other:
                    total[np.ix_(columns, rows)] += summed.T
        return total


def _runs(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which labels there are, in order, and where each begins."""
    return np.unique(labels, return_index=True)
