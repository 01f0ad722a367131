"""Data that are larger than memory: windows of rows, read from where they are."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, limits, pytrees
from ewsg_jax.base.typing import Data, PyTree
from ewsg_jax.rows._window import RowSource, Window
from ewsg_jax.run.streams import order, source
from ewsg_jax.run.streams.files import opened

WINDOW_BYTES = 2 * limits.BYTES_AT_ONCE
"""Bytes of a window by default: two of them fit in the memory of any machine. Set by hand."""


class Stream(RowSource):
    """Rows that are read in windows; made by `ewsg_jax.stream`.

    Attributes:
        num_rows: N, the number of rows.
        window: m, rows of a window.
        num_windows: windows of an epoch.
        passes: passes over the rows of a window before the next one.
        pieces: pieces of consecutive rows that make a window.
    """

    instead: ClassVar[str] = (
        "sample, resume and find_mode take it; others want rows in memory, such as "
        "stream.read(start, stop) gives"
    )
    """What to do if it is given in the place of arrays."""

    def __init__(
        self,
        source: object,
        window: int | None,
        passes: float,
        pieces: int,
        rows: Callable[[PyTree], PyTree] | None,
    ) -> None:
        self._source, self._rows = opened(source), rows
        self.num_rows, self.passes = self._source.num_rows, passes
        # As many rows as some bytes hold: rows of one data set may be a thousand times those of
        # another.
        if window is None:
            bytes_of_row = sum(
                int(np.prod(x.shape)) * x.dtype.itemsize for x in jax.tree.leaves(self._source.row)
            )
            window = max(1, WINDOW_BYTES // max(bytes_of_row, 1))
        if pieces > max(1, min(window, self.num_rows // -(-self.num_rows // window))):
            raise ValueError(
                f"pieces must be at most the rows of a window; got {pieces}, of {window:,} rows"
            )
        self.cut = order.cut(self.num_rows, window, pieces)
        self.window = self.cut.size
        self.num_windows = self.cut.num_windows
        self.pieces = self.cut.pieces
        if self.window > limits.INT32_MAX:
            raise ValueError(
                f"window must be at most {limits.INT32_MAX:,} rows; got {self.window:,}"
            )
        # The next piece of a sum, read by a thread while the program adds up the last one.
        self._ahead: tuple[Any, Future[Any]] | None = None
        self._reading = threading.Lock()
        self._kinds: PyTree = None
        self.error: Exception | None = None
        # Rows that are no data are refused here, not in the middle of a run.
        few = self.read(0, min(2, self.num_rows))
        checks.data(few)
        self._kinds = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), few)

    def __len__(self) -> int:
        return self.num_rows

    def __repr__(self) -> str:
        parts = f" of {self.pieces} pieces" if self.pieces > 1 else ""
        return (
            f"Stream({self.num_rows:,} rows, {self.num_windows} windows of {self.window:,}{parts})"
        )

    def read(self, start: int, stop: int) -> Data:
        """Return rows from `start` to below `stop`, NumPy arrays: some for `ewsg_jax.check`.

        Raises:
            TypeError, ValueError: there are no such rows.
            OSError, ValueError: they cannot be read, or are not what they were.
        """
        checks.integer("start", start, 0, self.num_rows - 1)
        checks.integer("stop", stop, start + 1, self.num_rows)
        return self.read_runs([(start, stop - start)])

    def room(self, length: int) -> list[np.ndarray]:
        """Return arrays that `length` rows are read into."""
        return [
            source.room((length, *leaf.shape), leaf.dtype)
            for leaf in jax.tree.leaves(self._source.row)
        ]

    def read_runs(self, runs: list[tuple[int, int]], room: list[np.ndarray] | None = None) -> Data:
        """Return runs of rows, each given by its first row and its length, one after the other.

        They are written over `room`, arrays for as many rows, where it is given.
        """
        length = sum(count for _, count in runs)
        out = self.room(length) if room is None else room
        done = 0
        # The windows of a run and the pieces of a sum are read by threads of their own.
        with self._reading:
            for start, count in runs:
                self._source.read(start, [x[done : done + count] for x in out])
                done += count
        tree = jax.tree.unflatten(jax.tree.structure(self._source.row), out)
        return tree if self._rows is None else self._changed(tree, length)

    def where(self, runs: list[tuple[int, int]], row: int) -> str:
        """Return the place of a row in runs of rows, for messages."""
        for start, count in runs:
            if row < count:
                return self._source.where(start + row)
            row -= count
        raise IndexError(row)

    def piece(self, number: int, length: int, size: int, like: Data) -> Data:
        """Return rows for a sum over all, the next ones being read meanwhile."""

        # Checked as they are read: a row that is not finite is named by its file.
        def read(number: int, size: int) -> list[np.ndarray]:
            runs = [(number * length, size)]
            rows = self.read_runs(runs)
            source.check_finite(rows, lambda row: self.where(runs, row))
            checks.held("data", rows)
            kinds = [x.dtype for x in jax.tree.leaves(like)]
            return [
                x.astype(kind, copy=False)
                for x, kind in zip(jax.tree.leaves(rows), kinds, strict=True)
            ]

        # What was read ahead may be of another sum: then it is read again.
        (ahead, self._ahead), leaves = (self._ahead, None), []
        try:
            if self.error is None:
                leaves = (
                    ahead[1].result()
                    if ahead and ahead[0] == (number, size)
                    else read(number, size)
                )
        # Inside a compiled program nothing can be raised: it is kept, and raised when that has
        # ended.
        except Exception as error:
            self.error = error
        if self.error is not None:
            return jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), like)
        following = (number + 1) * length
        if following < self.num_rows:
            size = min(length, self.num_rows - following)
            # Without waiting for it: a run that ends must not wait for a disk.
            pool = ThreadPoolExecutor(1, "ewsg_jax-stream")
            self._ahead = (number + 1, size), pool.submit(read, number + 1, size)
            pool.shutdown(wait=False)
        return jax.tree.unflatten(jax.tree.structure(like), leaves)

    def shapes(self) -> Window:
        """Return a window as shapes."""

        def of(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct((self.window, *leaf.shape), jnp.result_type(leaf))

        return Window(rows=jax.tree.map(of, self._kinds), source=self)

    def first(self) -> Window:
        """Return a window of the first rows, for sums over all."""
        rows = self.read(0, self.window)
        source.check_finite(rows, self._source.where)
        return Window(rows=self.on_device(rows), source=self)

    @property
    def is_changed(self) -> bool:
        """Whether a user-defined function makes the data of what is read."""
        return self._rows is not None

    def on_device(self, rows: Data) -> Data:
        """Return read rows as arrays of JAX, which must hold their numbers; on a CPU in the memory
        they were read into.
        """
        checks.held("data", rows)
        if self._rows is None:
            return jax.device_put(rows, may_alias=True)
        # A function of the user's may keep what it returns.
        return jax.tree.map(jnp.array, rows)

    def fingerprint(self) -> dict[str, str]:
        """Return the fingerprint of the rows and of their cut into windows."""
        rows = jax.tree.map(lambda x: (x.shape, x.dtype.name), self._source.row)
        kinds = (
            f"{self.num_rows} rows of {rows} in {self.num_windows} windows of {self.window} in "
            f"{self.pieces}"
        )
        # Of some rows, since all would take a pass to read.
        runs = [(int(row), 1) for row in np.linspace(0, self.num_rows - 1, min(16, self.num_rows))]
        return {
            "shapes": f"{kinds}, {self.passes} passes",
            "numbers": pytrees.digest(self.read_runs(runs)),
        }

    @contextlib.contextmanager
    def causes(self) -> Iterator[None]:
        """Raise, once a compiled program has ended, what was wrong with rows it asked for."""
        self.error = None
        try:
            yield
        finally:
            error, self.error = self.error, None
            if error is not None:
                raise error

    def _changed(self, tree: PyTree, length: int) -> Data:
        """Return what the function `rows` makes of rows, checked to be as many of one kind."""
        takes = (
            "rows must be a function of a pytree of arrays with a leading axis of rows that "
            "returns another"
        )
        assert self._rows is not None
        try:
            returned = self._rows(tree)
            arrays = jax.tree.map(np.asarray, returned)
        except Exception as error:
            raise ValueError(f"{takes}; it failed: {checks.reason(error)}") from error
        for leaf in jax.tree.leaves(returned):
            source.check_unmasked(leaf, "what rows(…) returned")
        if not jax.tree.leaves(arrays) or any(
            x.ndim == 0 or len(x) != length for x in jax.tree.leaves(arrays)
        ):
            raise ValueError(f"{takes}; of {length} rows it returned {checks.describe(arrays)}")
        # A program is compiled for one kind of rows: later ones must be of that.
        kinds = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), arrays)
        if self._kinds not in (None, kinds):
            raise ValueError(
                f"{takes}, always of one kind; it returned {kinds}, and before {self._kinds}"
            )
        return arrays


def stream(
    source: object,
    *,
    window: int | None = None,
    passes: float = 1.0,
    pieces: int = 1,
    rows: Callable[[PyTree], PyTree] | None = None,
) -> Stream:
    """Read data larger than memory in windows of rows, for `sample`, `resume`, `find_mode`.

    Batches are drawn within a window, and scaled to all rows. A thread reads the next window
    meanwhile. An epoch takes all windows once, in a new order each time, which is a function of the
    run's key. All chains have the same window. What windows add to the bias of a run is in
    docs/streams.md: with one pass over each, at most as much as the batches.

    Args:
        source: a pytree of arrays, of memory maps (`numpy.memmap`), or of paths of .npy files, a
            list of paths being their rows one after the other; paths of
            Parquet files, whose rows are dicts of columns (pyarrow); or anything with `__len__` and
            `__getitem__` of a row's number, such as a data source of grain or a data set of Hugging
            Face or PyTorch. Files must not change.
        window: rows of a window, at most; all windows have one length. Default: 128 MiB of rows.
            Two windows are in memory at a time, with `rows` more. If all rows are one window, the
            draws are those of data in memory.
        passes: average number of passes that the steps of a chain make over the rows of a window
            before the next one.
        pieces: the number of pieces of consecutive rows, from all over the data, that make a
            window: take more than 1 if neighbouring rows are alike.
        rows: a function of rows, NumPy arrays with a leading axis, that returns the data that the
            model takes. Default: the rows are the data.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value.
        OSError: a file cannot be read.
        ImportError: there are Parquet files, and no pyarrow.

    Example:
        >>> import tempfile, jax, jax.numpy as jnp, numpy as np, ewsg_jax as ewsg
        >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-4, batch_size=10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(f"{folder}/rows.npy", np.arange(1000.0)[:, None] % 7)
        ...     data = ewsg.stream(f"{folder}/rows.npy", window=250)
        ...     samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), data, 400)
        >>> data
        Stream(1,000 rows, 4 windows of 250)
        >>> samples.num_data, samples.data_passes
        (1000, 4.0)
    """
    if window is not None:
        checks.integer("window", window)
    checks.positive("passes", passes)
    checks.integer("pieces", pieces)
    if rows is not None:
        checks.function("rows", rows, "(pytree of arrays) -> pytree of arrays, or None")
    return Stream(source, window, float(passes), int(pieces), rows)
