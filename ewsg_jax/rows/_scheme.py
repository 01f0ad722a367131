"""What a minibatch sampling scheme is: how the b rows of each step are chosen."""

import abc
import functools
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checked_arrays, checks
from ewsg_jax.base.modules import Part, module, static
from ewsg_jax.base.needs import EVERYTHING, Need, parts_of
from ewsg_jax.base.typing import Array, Data, Key, PyTree
from ewsg_jax.rows._view import Batch, Block, view

KIND_OF_KEYS = "jax_default_prng_impl"
"""The setting of JAX by which users choose the kind of `jax.random.key`."""


class Order(NamedTuple):
    """A chain's place in its order of the rows: an epoch is a function of this alone.

    Attributes:
        words: the seed of the chain's permutations, uint32, shape (4,), drawn by `init`.
        step: the number of the step, int32.
    """

    words: Array
    step: Array


@module
class SamplingScheme(Part, abc.ABC):
    """How the b rows of each step are chosen. Write `draw`.

    Each row stands for n/b rows in the mean, or for what the weights of the batch say.

    Attributes:
        batch_size: b.
    """

    needs: ClassVar[frozenset[Need]] = EVERYTHING
    """What it needs of the data; everything, unless a scheme says otherwise."""
    ordered: ClassVar[bool] = False
    """Whether batches follow the chain's own order through the rows, and so depend on others."""
    distinct: ClassVar[bool] = False
    """Whether no batch holds a row twice."""
    independent: ClassVar[bool] = False
    """Whether the rows of a batch are independent."""
    weighted: ClassVar[bool] = False
    """Whether rows stand for different numbers of rows."""
    batch_size: int = static()

    @abc.abstractmethod
    def draw(self, key: Key, data: Data, order: Order | None = None) -> Batch | Block:
        """Return which rows a batch has, as row numbers or as a block, from n alone.

        Args:
            key: a PRNG key, consumed.
            data: the rows; only their number n is read.
            order: the chain's place in its order, for a scheme that is `ordered`; None for others.
        """

    def check(self, data: Data) -> None:
        """Raise ValueError if the scheme cannot draw batches of these data."""

    def batches(self, data: Data) -> Batch | Block:
        """Return all equally probable batches on a leading axis."""
        raise NotImplementedError(f"the batches of {self!r} cannot be listed")


def schemes_of(part: Part) -> list[SamplingScheme]:
    """Return the sampling schemes in a part of a kernel."""
    return [inner for inner in parts_of(part) if isinstance(inner, SamplingScheme)]


def is_ordered(part: Part) -> bool:
    """Return whether batches follow each chain's order: they cannot be exchanged or shared."""
    return any(scheme.ordered for scheme in schemes_of(part))


def lists_batches(estimator: Part) -> bool:
    """Return whether `batches` of an estimator can list them all, by its sampling schemes.

    Example:
        >>> import ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> ewsg.rows.lists_batches(ewsg.gradients.uniform(model, batch_size=2))
        True
    """
    schemes = schemes_of(estimator)
    listing = [part for part in parts_of(estimator) if hasattr(type(part), "batches")]
    return (
        bool(schemes)
        and all(type(scheme).batches is not SamplingScheme.batches for scheme in schemes)
        # If a class has a `draw` of its own, what another class lists may be other batches.
        and all(_depth(part, "batches") <= _depth(part, "draw") for part in listing)
    )


def _depth(part: Part, name: str) -> int:
    """Return how many classes a method of a part is inherited through."""
    return next(i for i, cls in enumerate(type(part).__mro__) if name in vars(cls))


def check_draw(scheme: SamplingScheme, data: Data) -> None:
    """Check that a scheme draws what it says, from shapes alone.

    Raises:
        TypeError, ValueError: it does not draw a batch; the batch has another number of rows than
            `batch_size` (or this part's share of it); or it has weights although the scheme is not
            `weighted`, or none although it is.
    """
    kind = getattr(jax.config, KIND_OF_KEYS)
    # Asking JAX again for the same scheme and rows is a twentieth of a short run's call.
    look = functools.partial(_drawn.eval_shape, scheme, *_shapes(kind), data)
    question = "drawn", kind, jax.tree.structure(data)
    drawn = checked_arrays.remembered(question, look, data, scheme)
    if not isinstance(drawn, Batch | Block):
        raise TypeError(
            f"draw of {scheme!r} must return an ewsg_jax.rows.Batch, of row numbers and perhaps "
            f"weights, or a Block; got {checks.describe(drawn)}"
        )
    size = view(data).share(scheme.batch_size)
    shape = (drawn.size,) if isinstance(drawn, Block) else drawn.indices.shape
    if shape != (size,):
        raise ValueError(
            f"draw of {scheme!r} must return {size} rows, shape ({size},); got shape {shape}"
        )
    if isinstance(drawn, Batch) and not jnp.issubdtype(drawn.indices.dtype, jnp.integer):
        raise TypeError(
            f"draw of {scheme!r} must return row numbers that are whole; got {drawn.indices.dtype}"
        )
    has_weights = isinstance(drawn, Batch) and drawn.weights is not None
    if has_weights != scheme.weighted:
        batch = "a batch with weights" if has_weights else "a batch without weights"
        raise ValueError(
            f"weighted of {scheme!r} must say whether its batches have weights; got "
            f"{scheme.weighted} and {batch}"
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
def _drawn(scheme: SamplingScheme, key: Key, order: Order, data: Data) -> PyTree:
    """What a scheme draws: asked for its shapes only, which are traced once for equal schemes."""
    return scheme.draw(key, data, order if scheme.ordered else None)


def check_fits(batch_size: int, data: Data, why: str) -> None:
    """Check that a batch without repeats is no larger than the data."""
    n = view(data).fewest
    if batch_size > n:
        raise ValueError(f"batch_size must be at most n = {n} when {why}; got {batch_size}")
