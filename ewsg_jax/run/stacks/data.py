"""Data sets of one kind as one, made equally long: one program and one run serve them all."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, numeric
from ewsg_jax.base.typing import Array, Data, PyTree
from ewsg_jax.rows._padded import Padded
from ewsg_jax.rows._view import num_rows

DATA_SETS_TAKES = (
    "data_sets must be a list of pytrees of arrays, alike but for their numbers of rows"
)


@dataclass(frozen=True, eq=False, repr=False)
class StackedData:
    """What `stack_data` returns: `len(data)`, `data[i]`, and the labels of the data sets.

    Attributes:
        rows: the data with axes (row, data set, …); padded if they differ in length.
        labels: the labels of the data sets, shape (data set,).
        num_rows: n of each data set, int64, shape (data set,).
    """

    instead: ClassVar[str] = "give one of its data sets, such as data[0]"
    """What to give if it is given in the place of arrays."""

    rows: Data
    labels: np.ndarray
    num_rows: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, number: int) -> Data:
        number = checks.place("number", number, len(self))
        rows = self.rows.rows if isinstance(self.rows, Padded) else self.rows
        return jax.tree.map(lambda x: x[: self.num_rows[number], number], rows)

    def __repr__(self) -> str:
        least, most = self.num_rows.min(), self.num_rows.max()
        lengths = f"{least}" if least == most else f"{least} to {most}"
        return f"StackedData({len(self)} data sets of {lengths} rows)"


def stack_data(data_sets: Sequence[Data], *, labels: Sequence[Any] | None = None) -> StackedData:
    """Join several data sets, so that `sample` samples each one's posterior in one program.

    Shorter ones are made as long as the longest by copies of rows that do not count: no batch holds
    them, sums leave them out, and n is that of each data set. Copies take time and memory, so the
    data sets should have about one length.

    Args:
        data_sets: one after the other, each a pytree of arrays with a leading axis of its rows.
        labels: names of the data sets in `runs.values`, in pictures and in ArviZ. Default: their
            numbers.

    Returns:
        What `sample` takes as data; what it then returns is a `StackedSamples`, a run for each data
        set.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value: the data sets differ by more
            than their lengths, are empty, or the labels are not one for each.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> schools = ewsg.stack_data(
        ...     [jnp.full((n, 1), 1.0 * n) for n in (20, 45, 60)], labels=["A", "B", "C"]
        ... )
        >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-3, batch_size=10)
        >>> runs = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), schools, 200, num_chains=4)
        >>> runs.values["data_set"].tolist(), runs[2].num_data, runs[2].position.shape
        (['A', 'B', 'C'], 60, (4, 200, 1))
    """
    sets = _listed(data_sets)
    lengths = np.array([num_rows(one) for one in sets])
    try:
        names = np.arange(len(sets)) if labels is None else np.asarray(labels)
        distinct = np.unique(names)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"labels must be all numbers or all strings; got {checks.describe(labels)}"
        ) from error
    if names.shape != lengths.shape:
        raise ValueError(
            f"labels must be one for each of {len(sets)} data sets; got {checks.describe(labels)}"
        )
    if len(distinct) < len(names):
        raise ValueError(
            f"labels must differ between the data sets; got one twice, {checks.describe(labels)}"
        )
    # Shorter sets are repeated to the length of the longest: a copy counts as no row.
    places = np.arange(lengths.max())

    def stacked(*leaves: PyTree) -> Array:
        return jnp.asarray(
            np.stack([np.asarray(leaf)[places % len(leaf)] for leaf in leaves], axis=1)
        )

    rows = jax.tree.map(stacked, *sets)
    # Data sets of one length need no mask, and take any kernel.
    if (lengths == lengths[0]).all():
        return StackedData(rows, names, lengths)
    sizes = np.where(places[:, None] < lengths, lengths, 0).astype(np.int32)
    return StackedData(Padded(rows=rows, size=jnp.asarray(sizes)), names, lengths)


def _listed(data_sets: object) -> list[Data]:
    """Return data sets that are alike, or raise in what they differ."""
    if not isinstance(data_sets, list | tuple) or not data_sets:
        raise TypeError(f"{DATA_SETS_TAKES}; got {checks.describe(data_sets)}")
    if not jax.tree.leaves(data_sets[0]):
        raise ValueError(f"{DATA_SETS_TAKES}; got one without leaves")
    kinds, sets = [], [numeric.native(one) for one in data_sets]
    for number, one in enumerate(sets):
        try:
            checks.data(one)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{DATA_SETS_TAKES}; number {number} is not: {error}") from error
        # Compared by what JAX would make of them, dtypes too.
        shapes = jax.tree.map(lambda x: (x.shape[1:], jnp.result_type(x).name), one)
        kinds.append(shapes)
        if shapes != kinds[0]:
            raise ValueError(
                f"{DATA_SETS_TAKES}; got rows of {kinds[0]} and, as number {number}, of {shapes}"
            )
    return sets
