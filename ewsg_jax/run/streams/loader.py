"""The batches of a caller's loader, in the place of the data of a run."""

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, numeric
from ewsg_jax.base.typing import Data, PyTree
from ewsg_jax.base.warn import warn
from ewsg_jax.gradients._streamed import Streamed, check_fits
from ewsg_jax.rows._given import Given
from ewsg_jax.run.streams import source

TAKES = (
    "batches must be a loader, or an iterator, of batches: pytrees of arrays with a leading axis "
    "of rows"
)


class Loader:
    """What `sample(…, batches=…)` runs on. Two are equal only if they are the same object.

    Attributes:
        num_rows: N, the rows of the data set.
        is_iterator: whether batches can be read once; others are read again and again.
        first: the first batch, NumPy arrays.
        batch_size: the rows of the first batch, or more if later ones have more.
    """

    instead: ClassVar[str] = "give it to sample as batches=…"

    def __init__(self, batches: Iterable[Any], estimator: Streamed) -> None:
        if isinstance(batches, dict | str) or not hasattr(batches, "__iter__"):
            raise TypeError(f"{TAKES}; got {checks.describe(batches)}")
        self._batches, self._estimator = batches, estimator
        self.num_rows = estimator.num_data
        self._check_length()
        iterator = _iterator(batches)
        self.is_iterator = iterator is batches
        self._epoch: Iterator[Any] = iterator
        self._in_epoch, self._num_read, self._kinds = 0, 0, None
        self._repeats = _Repeats(self.num_rows)
        self.first = self._read()
        self._kinds = _kinds(self.first)
        self.batch_size = len(jax.tree.leaves(self.first)[0])
        self._pending: Data | None = self.first
        self._num_read = 0

    def __repr__(self) -> str:
        return f"batches of {self.batch_size} of {self.num_rows:,} rows"

    @property
    def num_read(self) -> int:
        """The number of batches that were read, those of steps before included."""
        return self._num_read

    def skip(self, count: int) -> None:
        """Leave out the batches of steps that were made, unless an iterator is after them."""
        if not self.is_iterator:
            for _ in range(count):
                self.read()
        self._num_read = count

    def read(self) -> Data:
        """Return the next batch, NumPy arrays.

        Raises:
            OSError, ValueError: there is none left, it cannot be read, or is not like the first.
        """
        batch, self._pending = self._pending, None
        if batch is None:
            batch = self._read()
        self._num_read += 1
        return batch

    def shapes(self) -> Given:
        """Return the first batch as shapes."""

        def of(leaf: np.ndarray) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(leaf.shape, jnp.result_type(leaf))

        first = jax.ShapeDtypeStruct((self.batch_size,), jnp.int32)
        return self.view(jax.tree.map(of, self.first), self.batch_size, first)

    def view(self, rows: Data, batch_size: int, first: Any) -> Given:
        """Return batches of one size as some that stand for all rows."""
        return Given(rows=rows, batch_size=batch_size, total=self.num_rows, first=first)

    def _check_length(self) -> None:
        """Raise ValueError if a loader says of how many rows it is, and N is another number."""
        data_set = getattr(self._batches, "dataset", None)
        try:
            count = len(data_set)  # pyright: ignore[reportArgumentType]
        except Exception:
            return  # it does not say
        if count != self.num_rows:
            raise ValueError(
                f"num_data must be the rows of the whole data set; got {self.num_rows:,}, and "
                f"batches of {count:,} rows in all"
            )

    def _read(self) -> Data:
        where = f"the batch of step {self._num_read + 1:,}"
        while True:
            try:
                raw = next(self._epoch)
                break
            except StopIteration:
                self._begin_again()
            except Exception as error:
                raise source.unreadable(where, error) from error
        self._in_epoch += 1
        batch = self._checked(self._estimator.arrays(raw), where)
        self._repeats.add(batch)
        return batch

    def _begin_again(self) -> None:
        """Begin another epoch.

        Raises:
            ValueError: there is none.
        """
        if self.is_iterator or not self._in_epoch:
            count = f"after {self._num_read:,}" if self._num_read else "without one"
            raise ValueError(
                f"batches must hold one for each step; they ended {count}: give a loader, which "
                "begins again, or more batches"
            )
        self._repeats.end_epoch()
        self._epoch, self._in_epoch = _iterator(self._batches), 0

    def _checked(self, batch: Data, where: str) -> Data:
        """Return a batch as NumPy arrays of its own; raise if it is not like the first one."""
        try:
            count = checks.data(batch)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{TAKES}; {where}: {error}") from error
        check_fits(count, self.num_rows)
        # A loader may fill the same memory again.
        rows = jax.tree.map(lambda x: np.array(numeric.native(np.asarray(x))), batch)
        checks.held("batches", rows)
        if self._kinds is None:
            return rows
        if _kinds(rows) != self._kinds:
            raise ValueError(
                f"{TAKES}, all of one kind; {where} has {_shown(rows)}, and the first "
                f"{_shown(self.first)}"
            )
        # An iterator may be at the last batch of an epoch, a short one.
        self.batch_size = max(self.batch_size, count)
        return rows


class _Repeats:
    """Whether batches are all the same one, or each epoch's the same ones in one order.

    Batches are compared by checksums, until it is known.
    """

    def __init__(self, num_rows: int) -> None:
        # N; rows of all batches so far; the checksum of the first batch.
        self._num_rows, self._rows, self._first = num_rows, 0, 0
        # Whether all batches so far are the first one, and whether epochs are still compared.
        self._are_equal, self._is_watched = True, True
        # The checksums of this epoch and of the one before, and how many batches this one has.
        self._epoch, self._last_epoch, self._num_in_epoch = 0, None, 0

    def add(self, batch: Data) -> None:
        """Count a batch; warn if an epoch of them is one batch."""
        if not (self._are_equal or self._is_watched):
            return
        checksum, count = _checksum(batch), len(jax.tree.leaves(batch)[0])
        self._first = checksum if self._rows == 0 else self._first
        # With one batch that is all rows there is no other.
        self._are_equal &= checksum == self._first and count < self._num_rows
        self._epoch = zlib.crc32(checksum.to_bytes(4, "little"), self._epoch)
        self._rows, self._num_in_epoch = self._rows + count, self._num_in_epoch + 1
        if self._are_equal and self._rows > self._num_rows:
            self._are_equal = self._is_watched = False
            warn(
                f"batches must be other rows at each step; got the same {count} rows "
                f"{self._rows // count} times: draws are those of a posterior of these rows, each "
                f"counted {self._num_rows / count:.3g} times"
            )

    def end_epoch(self) -> None:
        """Warn if the first epoch has not N rows, or the second has its batches in its order."""
        if self._last_epoch is None:
            # A loader may leave out a last batch.
            of_batch = self._rows // self._num_in_epoch
            if not self._num_rows - of_batch < self._rows <= self._num_rows:
                warn(
                    f"num_data must be the rows of the whole data set; got {self._num_rows:,}, and "
                    f"an epoch of batches with {self._rows:,} rows: the likelihood counts "
                    f"{self._num_rows / self._rows:.3g} times"
                )
        if self._is_watched and self._last_epoch is not None:
            self._is_watched = False
            if self._epoch == self._last_epoch and self._num_in_epoch > 1:
                warn(
                    "batches must come in a new order in each epoch; got the same ones in the same "
                    "order twice, so that rows of a short last batch count for more, and rows that "
                    "a loader leaves out never count: shuffle"
                )
        self._last_epoch, self._epoch, self._num_in_epoch = self._epoch, 0, 0


def _checksum(batch: Data) -> int:
    """Return a checksum of the numbers of a batch."""
    checksum = 0
    for leaf in jax.tree.leaves(batch):
        values = np.ascontiguousarray(leaf).reshape(-1).view(np.uint8)
        checksum = zlib.crc32(values.data, checksum)
    return checksum


def _iterator(batches: Iterable[Any]) -> Iterator[Any]:
    try:
        return iter(batches)
    except Exception as error:
        raise TypeError(f"{TAKES}; got {checks.describe(batches)}") from error


def _kinds(batch: Data) -> PyTree:
    """Return the shape and dtype of a row in each leaf."""
    leaves, structure = jax.tree.flatten(batch)
    return structure, tuple((x.shape[1:], x.dtype.name) for x in leaves)


def _shown(batch: Data) -> str:
    kinds = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), batch)
    return checks.listed("batch", kinds)
