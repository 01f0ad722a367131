"""Rows of a data set asked for singly or together: grain, Hugging Face, PyTorch, one's own."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from ewsg_jax import _check
from ewsg_jax._types import PyTree
from ewsg_jax.streams.source import Source, check_alike, unreadable


class Items(Source):
    """Rows of anything with `__len__` and `__getitem__`.

    Several at once are asked for by a slice where that gives them, as of Hugging Face, by
    `__getitems__` where there is one, as of PyTorch, and else one by one.
    """

    def __init__(self, items: Any) -> None:
        """Read the first row, and find out how several are asked for.

        Raises:
            OSError: it cannot be read.
            ValueError: it is no tree of numbers.
        """
        self._items, self.num_rows = items, len(items)
        first = self._one(0)
        self._structure = jax.tree.structure(first)
        self.row = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), first)
        self._some = self._way(first)

    def read(self, start: int, out: list[np.ndarray]) -> None:
        stop = start + len(out[0])
        if self._some is not None:
            try:
                found = self._some(start, stop)
            except Exception as error:
                raise unreadable(f"rows {start:,} to {stop - 1:,}", error) from error
            self._put(found, out, f"rows {start:,} to {stop - 1:,}")
            return
        for row in range(start, stop):
            one = jax.tree.map(lambda x: x[None], self._one(row))
            self._put(one, [x[row - start : row - start + 1] for x in out], self.where(row))

    def _put(self, found: PyTree, out: list[np.ndarray], where: str) -> None:
        if jax.tree.structure(found) != self._structure:
            raise ValueError(
                f"data must have rows like the first one, {self._structure}; {where}: another tree"
            )
        for room, leaf in zip(out, jax.tree.leaves(found), strict=True):
            check_alike(leaf, room, where)
            room[...] = leaf

    def _one(self, row: int) -> PyTree:
        try:
            return _arrays(self._items[row], f"row {row:,}")
        except ValueError:
            raise
        except Exception as error:
            raise unreadable(f"row {row:,}", error) from error

    def _way(self, first: PyTree) -> Callable[[int, int], PyTree] | None:
        """Return how rows are asked for from one to below another; None where they are not."""

        def by_slice(start: int, stop: int) -> PyTree:
            return _arrays(
                self._items[start:stop], f"rows {start:,} to {stop - 1:,}", of_rows=self._structure
            )

        def by_list(start: int, stop: int) -> PyTree:
            found = self._items.__getitems__(list(range(start, stop)))
            return jax.tree.map(lambda *x: np.stack(x), *[_arrays(row, "a row") for row in found])

        for way in (by_slice, by_list):
            if way is by_list and not hasattr(self._items, "__getitems__"):
                continue
            try:
                found = way(0, min(2, self.num_rows))
                same = jax.tree.map(
                    lambda x, y: x.dtype == y.dtype and np.array_equal(x[0], y), found, first
                )
                if all(jax.tree.leaves(same)) and len(jax.tree.leaves(found)[0]) == min(
                    2, self.num_rows
                ):
                    return way
            except Exception:  # Whatever it answers to what it does not take.
                continue
        return None


def _arrays(tree: PyTree, where: str, of_rows: Any = None) -> PyTree:
    """Return a row, or (of a structure) several, with NumPy arrays as leaves.

    Raises:
        ValueError: it holds what is no number.
    """
    if of_rows is None:
        # A list is an array that was written out, as by Hugging Face.
        leaves, structure = jax.tree.flatten(tree, is_leaf=lambda part: isinstance(part, list))
    else:
        leaves, structure = of_rows.flatten_up_to(tree), of_rows
    found = [np.asarray(leaf) for leaf in leaves]
    if not found:
        raise ValueError(
            f"data must have rows that are trees of numbers; {where} is {_check.describe(tree)}"
        )
    for leaf, array in zip(leaves, found, strict=True):
        if not (np.issubdtype(array.dtype, np.number) or array.dtype == bool):
            raise ValueError(
                f"data must have rows that are trees of numbers; {where} holds "
                f"{_check.describe(leaf)}"
            )
    return jax.tree.unflatten(structure, found)
