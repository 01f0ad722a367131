"""Some rows of a data set larger than memory: those in memory, which stand for all."""

import abc
from collections.abc import Callable

import jax
import jax.numpy as jnp

from ewsg_jax.base import pytrees
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Array, Data, PyTree
from ewsg_jax.rows._view import Rows, sum_in_chunks


class RowSource(abc.ABC):
    """All rows of a data set that stays on disk, read on demand. Two are equal only if they are the
    same object.

    Attributes:
        num_rows: N, how many there are.
    """

    num_rows: int

    @abc.abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """Return what stands for the rows."""

    @abc.abstractmethod
    def piece(self, number: int, length: int, size: int, like: Data) -> Data:
        """Return `size` rows from row `number · length` on, NumPy arrays of the dtypes of `like`.

        A compiled program asks for them, and must end by itself: rows that cannot be read are
        zeros, and the error is kept and raised after the program.
        """


@module
class Window(Rows):
    """A window of m rows, from which batches are drawn; a batch's sum is scaled to all N rows.

    Sums over all rows read all of them.

    Attributes:
        source: all rows of the data set.
    """

    source: RowSource = static()

    @property
    def in_all(self) -> int:
        return self.source.num_rows

    @property
    def number(self) -> int:
        return self.in_all

    def sum(self, function: Callable[[Data], PyTree], chunk_size: int) -> PyTree:
        """Return the sum over all rows of the stream, as many of them at a time as a window has.

        They are read by a callback on the host, once for all chains.
        """
        size = self.length
        # The window is all there is: nothing is to be read.
        if self.source.num_rows == size:
            return sum_in_chunks(function, self.rows, chunk_size)

        def of_piece(number: Array | int, length: int) -> PyTree:
            like = jax.tree.map(
                lambda x: jax.ShapeDtypeStruct((length, *x.shape[1:]), x.dtype), self.rows
            )
            words = jax.tree.map(lambda x: jax.eval_shape(_in_words, x), like)

            def read(number: Array) -> PyTree:
                return jax.tree.map(
                    lambda x, y: x if x.dtype == y.dtype else x[..., None].view(y.dtype),
                    self.source.piece(int(number), size, length, like),
                    words,
                )

            rows = jax.tree.map(
                lambda x, y: x if x.dtype == y.dtype else jax.lax.bitcast_convert_type(x, y.dtype),
                jax.pure_callback(read, words, jnp.asarray(number, jnp.int32)),
                like,
            )
            return sum_in_chunks(function, rows, chunk_size)

        def add(number: Array | int, total: PyTree) -> PyTree:
            return pytrees.combine((1, total), (1, of_piece(number, size)))

        # The last piece is shorter, and so a program of its own.
        pieces, rest = divmod(self.source.num_rows, size)
        shape = jax.eval_shape(lambda: sum_in_chunks(function, self.rows, chunk_size))
        total = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shape)
        total = jax.lax.fori_loop(0, pieces, add, total)
        return pytrees.combine((1, total), (1, of_piece(pieces, rest))) if rest else total


def _in_words(x: Array) -> Array:
    """Return 64-bit numbers as two words each: the callback's thread may lack x64."""
    return jax.lax.bitcast_convert_type(x, jnp.uint32) if x.dtype.itemsize == 8 else x
