"""Batches that the caller drew, each of which stands for all rows of a data set."""

from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Array
from ewsg_jax.rows._view import Rows


@module
class Given(Rows):
    """One batch, or several of one size one after the other; each one's sum is scaled to N rows.

    Attributes:
        batch_size: b, the rows of each batch.
        total: N, the rows of the data set.
        first: the number of the step that the first batch is for, int32, shape (rows,), the same
            for each row; None for one batch, whatever the step.
    """

    batch_size: int = static()
    total: int = static()
    first: Array | None = None

    @property
    def in_all(self) -> int:
        return self.total

    @property
    def number(self) -> int:
        return self.total
