"""What a law of rows is: how the b rows of each step are chosen."""

import abc
import functools
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks
from ewsg_jax.base.modules import Part, module, static
from ewsg_jax.base.needs import EVERYTHING, Need, parts_of
from ewsg_jax.base.typing import Array, Data, Key, PyTree
from ewsg_jax.rows._view import Batch, Block, view

KIND_OF_KEYS = "jax_default_prng_impl"
"""By which users say which keys `jax.random.key` makes."""


class Order(NamedTuple):
    """Where a chain is in its order through the rows: all that an epoch is a function of.

    Attributes:
        words: what the chain's permutations are made from, uint32, shape (4,): the chain keeps them
            from `init`.
        step: the number of the step, int32.
    """

    words: Array
    step: Array


@module
class RowLaw(Part, abc.ABC):
    """How the b rows of each step are chosen. Write `draw`.

    Each row stands for n/b rows in the mean, or for what the weights of the batch say.

    Attributes:
        batch_size: b.
    """

    needs: ClassVar[frozenset[Need]] = EVERYTHING
    """What it needs of the data; everything, for a law that does not say otherwise."""
    ordered: ClassVar[bool] = False
    """Whether batches follow the chain's own order through the rows, and so depend on others."""
    distinct: ClassVar[bool] = False
    """Whether no batch holds a row twice."""
    independent: ClassVar[bool] = False
    """Whether the rows of a batch are independent."""
    weighted: ClassVar[bool] = False
    """Whether rows stand for unlike numbers of rows."""
    batch_size: int = static()

    @abc.abstractmethod
    def draw(self, key: Key, data: Data, order: Order | None = None) -> Batch | Block:
        """Return which rows a batch has, as row numbers or as a block, from n alone.

        Args:
            key: consumed.
            data: rows, of which their number is read.
            order: where the chain is, for a law that is `ordered`; None for the others.
        """

    def check(self, data: Data) -> None:
        """Raise ValueError where the data do not go with the law."""

    def batches(self, data: Data) -> Batch | Block:
        """Return all equally probable batches on a leading axis."""
        raise NotImplementedError(f"the batches of {self!r} cannot be listed")


def laws_of(part: Part) -> list[RowLaw]:
    """Return the laws of rows in a part of a kernel."""
    return [each for each in parts_of(part) if isinstance(each, RowLaw)]


def is_ordered(part: Part) -> bool:
    """Return whether batches follow each chain's order, so cannot be exchanged nor shared."""
    return any(law.ordered for law in laws_of(part))


def lists_batches(estimator: Part) -> bool:
    """Return whether `batches` of an estimator can list them: those of its laws of rows.

    Example:
        >>> import ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> ewsg.rows.lists_batches(ewsg.gradients.uniform(model, batch_size=2))
        True
    """
    laws = laws_of(estimator)
    own = [part for part in parts_of(estimator) if hasattr(type(part), "batches")]
    return (
        bool(laws)
        and all(type(law).batches is not RowLaw.batches for law in laws)
        # Where a class has a `draw` of its own, what another class lists may be other batches.
        and all(_depth(part, "batches") <= _depth(part, "draw") for part in own)
    )


def _depth(part: Part, name: str) -> int:
    """Return how many classes a method of a part is inherited through."""
    return next(i for i, cls in enumerate(type(part).__mro__) if name in vars(cls))


def check_draw(law: RowLaw, data: Data) -> None:
    """Check that a law draws what it says, from shapes alone.

    Raises:
        TypeError, ValueError: it draws no batch; one with another number of rows than the law's
            share of a batch; or one with weights where the law does not say so, or the other way
            round.
    """
    drawn = _drawn.eval_shape(law, *_shapes(getattr(jax.config, KIND_OF_KEYS)), data)
    if not isinstance(drawn, Batch | Block):
        raise TypeError(
            f"draw of {law!r} must return an ewsg_jax.rows.Batch, of row numbers and perhaps "
            f"weights, or a Block; got {checks.describe(drawn)}"
        )
    size = view(data).share(law.batch_size)
    shape = (drawn.size,) if isinstance(drawn, Block) else drawn.indices.shape
    if shape != (size,):
        raise ValueError(
            f"draw of {law!r} must return {size} rows, shape ({size},); got shape {shape}"
        )
    if isinstance(drawn, Batch) and not jnp.issubdtype(drawn.indices.dtype, jnp.integer):
        raise TypeError(
            f"draw of {law!r} must return row numbers that are whole; got {drawn.indices.dtype}"
        )
    has_weights = isinstance(drawn, Batch) and drawn.weights is not None
    if has_weights != law.weighted:
        found = "a batch with weights" if has_weights else "a batch without weights"
        raise ValueError(
            f"weighted of {law!r} must say whether its batches have weights; got {law.weighted} "
            f"and {found}"
        )


@functools.cache
def _shapes(kind: str) -> tuple[Key, Order]:
    """Return the shapes of a key of a kind, and of an order.

    Nothing is computed, not even a key: that would be programs of their own.
    """
    dtype = jax.eval_shape(lambda: jax.random.key(0, impl=kind)).dtype
    shape: Any = jax.ShapeDtypeStruct
    return shape((), dtype), Order(shape((4,), jnp.uint32), shape((), jnp.int32))


@jax.jit
def _drawn(law: RowLaw, key: Key, order: Order, data: Data) -> PyTree:
    """What a law draws: asked for its shapes only, which are traced once for all equal laws."""
    return law.draw(key, data, order if law.ordered else None)


def check_fits(batch_size: int, data: Data, why: str) -> None:
    """Check that a batch without repeats is no larger than the data."""
    n = view(data).fewest
    if batch_size > n:
        raise ValueError(f"batch_size must be at most n = {n} when {why}; got {batch_size}")
