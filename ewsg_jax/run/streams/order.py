"""Which rows each window of a run holds: a function of a key and the window's number.

The N rows form a circle. An epoch cuts W·c pieces of k consecutive rows from it. It begins at the
row at which the last epoch ended, so that the rows it leaves out, fewer than W·c, are the first
ones of the next epoch. It takes each piece once, in a new order each time, and a window is the next
c pieces. The first epoch begins at a uniform row. So all windows have one length m = c·k, each row
is in each of them with probability m/N, and a batch from one, scaled to N rows, is unbiased. If no
row is left out, all epochs have the pieces that begin at row 0.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import rng
from ewsg_jax.base.typing import Key


class Cut(NamedTuple):
    """The cut of N rows into windows.

    Attributes:
        num_rows: N, the number of rows.
        num_windows: W, the windows of an epoch.
        pieces: c, the pieces of a window.
        length: k, the rows of a piece.
    """

    num_rows: int
    num_windows: int
    pieces: int
    length: int

    @property
    def size(self) -> int:
        """The rows of a window, m."""
        return self.pieces * self.length

    @property
    def left_out(self) -> int:
        """The rows that an epoch leaves out."""
        return self.num_rows - self.num_windows * self.size


def cut(num_rows: int, window: int, pieces: int) -> Cut:
    """Return how rows are cut into the fewest windows of at most `window`, of one length."""
    count = -(-num_rows // window)
    if count == 1:
        return Cut(num_rows, 1, 1, num_rows)
    return Cut(num_rows, count, pieces, num_rows // (count * pieces))


_permuted = jax.jit(rng.permuted, static_argnums=3)


def words_of(key: Key) -> np.ndarray:
    """Return what all windows of a run are made from, uint32, shape (4,)."""
    return np.asarray(jax.random.bits(key, (4,), jnp.uint32))


def runs_of(cut: Cut, words: np.ndarray, number: int) -> list[tuple[int, int]]:
    """Return a window's runs of consecutive rows: the first row and the length of each."""
    epoch, place = divmod(number, cut.num_windows)
    count, length = cut.num_windows * cut.pieces, cut.length
    first = 0
    if cut.left_out:
        # N may need more than 32 bits.
        word = int(words[2]) << 32 | int(words[3])
        first = (word * cut.num_rows >> 64) - epoch * cut.left_out
    places = np.arange(place * cut.pieces, (place + 1) * cut.pieces, dtype=np.int32)
    with jax.default_device(jax.devices("cpu")[0]):
        blocks = np.asarray(_permuted(jnp.asarray(words[:2]), np.int32(epoch), places, count))
    runs: list[tuple[int, int]] = []
    for block in blocks.tolist():
        start = (first + block * length) % cut.num_rows
        before = min(length, cut.num_rows - start)
        runs.append((start, before))
        if before < length:
            runs.append((0, length - before))
    return runs
