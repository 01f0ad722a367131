"""A data set made as long as others by rows that do not count: one program serves all."""

from collections.abc import Callable

import jax
import numpy as np

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array, Data, Key, PyTree
from ewsg_jax.rows._view import Rows


@module
class PartlyCounted(Rows):
    """Rows of which the first n count; the others are copies of some of these.

    Attributes:
        size: n for a row that counts, 0 for one that does not, int32, shape (rows,).
    """

    size: Array

    @property
    def cut(self) -> Data:
        return self

    @property
    def counted(self) -> Array:
        return self.size[0]

    @property
    def number(self) -> Array:
        return self.counted.astype(float)

    def draw(self, key: Key, batch_size: int, replace: bool = True) -> Array:
        return rng.rows(key, self.counted, batch_size, replace, most=self.length)

    def map_rows(self, function: Callable[..., PyTree], *shared: PyTree) -> PyTree:
        return self.only_counted(super().map_rows(function, *shared))

    def only_counted(self, of_rows: PyTree) -> PyTree:
        return pytrees.scaled_rows(of_rows, self.size > 0)


@module
class Padded(PartlyCounted):
    """A data set made as long as others. Under `vmap` each has an n of its own."""

    @property
    def fewest(self) -> int:
        if isinstance(self.size, jax.ShapeDtypeStruct) or checks.is_traced(self.size):
            return self.length
        sizes = np.asarray(self.size)
        return int(sizes[sizes > 0].min())
