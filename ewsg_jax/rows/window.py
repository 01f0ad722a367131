"""Some rows of a data set that is larger than memory: those that are in memory, which stand for all of them."""

import abc
from typing import Any

import jax
from jax.tree_util import GetAttrKey

from ewsg_jax._types import Data


class Whole(abc.ABC):
    """All rows of a data set, read from where they are when they are asked for. Two are equal where they are one.

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

        A compiled program asks for them, which is to end by itself: where they cannot be read they are zeros, and
        why is kept to be raised after it.
        """


@jax.tree_util.register_pytree_with_keys_class
class Window:
    """A window of rows, a tree like any other data: gathered and cut row by row.

    Batches are drawn from it, and a batch's sum is scaled to all N rows. Sums over all rows read all of them.

    Attributes:
        rows: the m rows of the window.
        whole: all rows; static.
    """

    def __init__(self, rows: Data, whole: Whole) -> None:
        self.rows, self.whole = rows, whole

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Data]], Whole]:
        """Return the rows, and what is static."""
        return [(GetAttrKey("rows"), self.rows)], self.whole

    @classmethod
    def tree_unflatten(cls, whole: Whole, children: Any) -> "Window":
        """Return a window of these rows."""
        return cls(children[0], whole)
