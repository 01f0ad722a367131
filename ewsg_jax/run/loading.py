"""A run's samples out of a file: what was kept, and with the kernel the states too."""

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from ewsg_jax.base import checks, numeric
from ewsg_jax.base.files import path_of
from ewsg_jax.base.freshness import as_of_now
from ewsg_jax.base.typing import Data, P, PyTree
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.model_checks.finding import from_dictionaries
from ewsg_jax.run import archive, states
from ewsg_jax.run.archive import Contents
from ewsg_jax.run.data_digest import origin_of
from ewsg_jax.run.moments import Moments
from ewsg_jax.run.samples import FINDINGS, HOLDS_SAMPLES, HOLDS_STACK, PLAIN_FIELDS, Samples
from ewsg_jax.run.stacks.data import StackedData
from ewsg_jax.run.stacks.stack import over
from ewsg_jax.run.streams.stream import Stream

FILE_READERS = {HOLDS_SAMPLES: "ewsg_jax.load", HOLDS_STACK: "ewsg_jax.StackedSamples.load"}
"""The function that reads a file, by what the file holds."""


def load(
    path: str | os.PathLike[str],
    position: P | None = None,
    *,
    kernel: Kernel[P] | None = None,
    data: Data | StackedData | None = None,
) -> Samples[P]:
    """Read what `samples.save` wrote.

    Args:
        path: the file.
        position: a pytree of the structure of the run's position, such as its starting point;
            needed only if it is of other classes than dictionaries, lists and tuples. flax's
            parameters, dictionaries, need none; a named tuple, a `FrozenDict` of flax, and the
            parameters of an equinox network do: those of a new network of that shape, such as
            `eqx.filter(network, eqx.is_inexact_array)`.
        kernel: the kernel of the run, or one that differs by numbers alone, such as the step size.
            With it `samples.state` is read too, from which `sample(…, state=samples.state)`
            continues, and `samples.posterior` is known; without it everything else is.
        data: the data of the run, given with the kernel: together they give the structure of the
            states.

    Raises:
        TypeError, ValueError: the path is not a file path, the file is not one of samples or is
            damaged, or another argument is missing or is not that of the run.
        OSError: the file cannot be read.

    Example:
        >>> import tempfile, pathlib, jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
        >>> data = jnp.ones((5, 1))
        >>> samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), data, 10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     samples.save(pathlib.Path(folder) / "run.npz")
        ...     again = ewsg.load(pathlib.Path(folder) / "run.npz", kernel=kernel, data=data)
        >>> bool((again.position == samples.position).all()), int(again.state.step[0])
        (True, 10)
    """
    with reading(path, HOLDS_SAMPLES, kernel, data) as contents:
        return samples_of(contents, position, kernel, data)


@contextlib.contextmanager
def reading(
    path: str | os.PathLike[str], holds: str, kernel: Kernel | None, data: Any
) -> Iterator[Contents]:
    """Check arguments of `load` and read a file: states' arrays only if there is a kernel.

    Raises:
        TypeError, ValueError, OSError: an argument or the file is not as it must be.
    """
    file = path_of(path)
    if kernel is not None:
        what = "that of the run, ewsg_jax.kernel(…) or a named method, or None"
        checks.instance("kernel", kernel, Kernel, what)
    if (kernel is None) != (data is None):
        missing, other = ("kernel", "data") if kernel is None else ("data", "kernel")
        raise TypeError(f"{missing} must be given with {other}, those of the run; got None")
    try:
        contents = archive.read(
            file, *FILE_READERS, without=states.STATE if kernel is None else None
        )
        if contents.holds != holds:
            raise archive.UnreadableError(
                f"it holds {contents.holds}, which {FILE_READERS[contents.holds]} reads"
            )
        yield contents
    except archive.UnreadableError as error:
        raise ValueError(
            f"path must be a file that samples.save wrote; got {os.fspath(path)!r}, which is not "
            f"one: {error}"
        ) from error


def samples_of(contents: Contents, position: PyTree, kernel: Kernel | None, data: Any) -> Samples:
    """Return the samples in a file.

    Raises:
        UnreadableError: it does not make sense.
        TypeError, ValueError: another argument does not fit.
    """
    numbers, trees = contents.entry("numbers", dict), contents.entry("trees", dict)
    of_position = functools.partial(archive.position_shapes, contents.entry("position"), position)
    draws, moments = (
        contents.tree(name, archive.structure(trees.get(name), of_position))
        for name in ("draws", "moments")
    )
    # Files of earlier versions have no temperature.
    contents.arrays.setdefault("temperature", np.ones(len(contents.array("step"))))
    arrays = {name: contents.array(name) for name in PLAIN_FIELDS - {*numbers}}
    state: Any = states.StateNotLoaded(contents.entry("step", int), states.saved_rows(contents))
    if kernel is not None:
        # Data sets side by side are one kernel and its data.
        kernel, rows = over(kernel, numeric.native(data))
        if not isinstance(rows, Stream):
            checks.data(rows)
        origin = origin_of(kernel, rows)
        if not isinstance(rows, Stream):
            rows = checks.shapes(rows)
        with as_of_now(kernel):
            saved = states.saved(contents, position)
            state = states.restored(saved, kernel, rows, origin=origin)
    try:
        moments = None if moments is None else Moments(**moments)
        # Files of earlier versions have no findings.
        findings = from_dictionaries(contents.about.get(FINDINGS, ()))
        return Samples(
            **numbers,
            **arrays,
            draws=draws,
            moments=moments,
            state=state,
            findings=findings,
            kernel=kernel,
        )
    except TypeError as error:
        raise archive.UnreadableError(checks.reason(error)) from error
