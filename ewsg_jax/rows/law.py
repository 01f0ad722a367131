"""What a law of rows is: how the b rows of each step are chosen."""

import abc
import math
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ewsg_jax._module import Part, module, static
from ewsg_jax._types import Array, Data, Key, PyTree
from ewsg_jax.needs import EVERYTHING, Need, parts_of
from ewsg_jax.rows.gathering import Batch
from ewsg_jax.rows.padded import fewest

RowMemory = TypeVar("RowMemory")


@module
class RowLaw(Part, abc.ABC, Generic[RowMemory]):
    """How the b rows of each step are chosen. Write `draw` and `batch`.

    Each row stands for n/b rows in the mean, or for what `weights` says.

    Attributes:
        batch_size: b.
    """

    needs: ClassVar[frozenset[Need]] = EVERYTHING
    """What it needs of the data; everything, for a law that does not say otherwise."""
    exchangeable: ClassVar[bool] = True
    """Whether the batches drawn for one step may be exchanged."""
    distinct: ClassVar[bool] = False
    """Whether no batch holds a row twice."""
    independent: ClassVar[bool] = False
    """Whether the rows of a batch are independent."""
    lists_batches: ClassVar[bool] = False
    """Whether `batches` can list them."""
    batch_size: int = static()

    @property
    def has_memory(self) -> bool:
        """Whether a chain's batches depend on its earlier ones."""
        return type(self).init is not RowLaw.init

    def bias_order(self, data: Data) -> float | None:
        """Return of which order in h the heat of unbiased batches is; None where they depend on earlier ones."""
        if self.has_memory:
            return None
        return math.inf if self.distinct and self.batch_size >= fewest(data) else 1

    @property
    def name(self) -> str:
        """What chooses it, as in `rows='epochs'`."""
        return f"rows={self.named().get('rows', 'random')!r}"

    @abc.abstractmethod
    def draw(self, key: Key, data: Data) -> PyTree:
        """Return what chooses a batch, from n alone."""

    @abc.abstractmethod
    def batch(self, randomness: PyTree, memory: RowMemory, data: Data) -> Batch:
        """Return the rows, of what `draw`, `ahead` or `gather` returned."""

    def ahead(self, randomness: PyTree, memory: RowMemory, steps: np.ndarray, data: Data) -> PyTree:
        """Return what chooses the batches of later steps, where that is known before they are made.

        Args:
            randomness: what `draw` returned for each of them, on a leading axis.
            memory: of a chain, or of several on a leading axis, which then follows that of steps.
            steps: how many steps after the memory each of them is, shape (steps,).
            data: the data.
        """
        return randomness

    def gather(self, randomness: PyTree, data: Data) -> PyTree:
        """Return the randomness with its rows, which may be done ahead."""
        return randomness

    def weights(self, indices: Array) -> Array | None:
        """Return what each row of a batch stands for, shape (b,); None for n/b rows each."""
        return None

    def weights_here(self, indices: Array, data: Data) -> Array | None:
        """Return the same of rows of these data, which may be a part of all."""
        return self.weights(indices)

    @property
    def has_weights(self) -> bool:
        """Whether rows stand for unlike numbers of rows."""
        return type(self).weights is not RowLaw.weights

    def check(self, data: Data) -> None:
        """Raise ValueError where the data do not go with the law."""

    def init(self, key: Key) -> Any:
        """Return the law's memory."""
        return ()

    def advance(self, memory: RowMemory, data: Data) -> Any:
        """Return the memory after a step."""
        return memory

    def batches(self, data: Data) -> PyTree:
        """Return all equally probable randomness on a leading axis."""
        raise NotImplementedError(f"the batches of {self!r} cannot be listed")

    def named(self) -> dict[str, Any]:
        """Return what chooses this law in the call of an estimator, but for `batch_size`."""
        return {"rows": self}


def laws_of(part: Any) -> list[RowLaw]:
    """Return the laws of rows in a part of a kernel."""
    return [each for each in parts_of(part) if isinstance(each, RowLaw)]


def are_exchangeable(part: Any) -> bool:
    """Return whether the batches drawn for one step may be exchanged: one may then serve several chains."""
    return all(law.exchangeable for law in laws_of(part))


def lists_batches(estimator: Any) -> bool:
    """Return whether `batches` of an estimator can list them: those of its laws of rows."""
    laws = laws_of(estimator)
    return bool(laws) and all(law.lists_batches for law in laws)


def check_fits(batch_size: int, data: Data, why: str) -> None:
    """Check that a batch without repeats is no larger than the data."""
    n = fewest(data)
    if batch_size > n:
        raise ValueError(f"batch_size must be at most n = {n} when {why}; got {batch_size}")
