"""Where a run's kept draws go in the host's memory."""

from collections.abc import Callable

import jax
import numpy as np

from ewsg_jax._types import PyTree


class Room:
    """Room for all kept draws where their number is known, and else room that doubles as it fills.

    Attributes:
        draws: leading axes (chain, draw).
    """

    def __init__(self, one_draw: PyTree, size: int, most: int, check: Callable[[int, int], None]) -> None:
        """Make room for `size` draws of each chain.

        Args:
            one_draw: shapes of one draw of all chains, leading axis chain.
            size: draws that there is room for at first.
            most: draws that there can be.
            check: `check(size, larger)` raises where larger room does not fit in memory beside what there is.
        """
        self._size, self._most, self._check = size, most, check
        self.draws = jax.tree.map(lambda x: np.empty((x.shape[0], size, *x.shape[1:]), x.dtype), one_draw)

    def make(self, num_draws: int) -> None:
        """Make room for so many draws.

        Raises:
            MemoryError: there is none.
        """
        if num_draws <= self._size:
            return
        larger = min(self._most, max(num_draws, 2 * self._size))
        self._check(self._size, larger)

        def moved(draws: np.ndarray) -> np.ndarray:
            room = np.empty((draws.shape[0], larger, *draws.shape[2:]), draws.dtype)
            room[:, : draws.shape[1]] = draws
            return room

        self.draws = jax.tree.map(moved, self.draws)
        self._size = larger
