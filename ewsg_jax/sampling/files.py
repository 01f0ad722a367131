"""Samples from a file."""

import os
from typing import TypeVar

from ewsg_jax._types import P, Position
from ewsg_jax.files import path_of
from ewsg_jax.sampling import archive
from ewsg_jax.sampling.samples import NAME, Samples

Kind = TypeVar("Kind")


def load(path: str | os.PathLike[str], position: P | None = None) -> Samples[P]:
    """Read what `samples.save` wrote.

    Args:
        path: of the file.
        position: a tree of the structure of the run's position, such as its starting point; needed only where it
            is none of dictionaries, lists, tuples, arrays and classes that `ewsg_jax.sampling.saved_as` decorates.
            flax's parameters, dictionaries, need none; those of an equinox network, and a `FrozenDict` of flax, do:
            the parameters of a new network of that shape, such as `eqx.filter(network, eqx.is_inexact_array)`.

    Raises:
        TypeError, ValueError: the path is none, the file is not one of samples or is damaged, or `position` is
            missing or does not fit.
        OSError: the file cannot be read.

    Example:
        >>> import tempfile, pathlib, jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-2, batch_size=2)
        >>> samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(1), jnp.ones((5, 1)), 10)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     samples.save(pathlib.Path(folder) / "run.npz")
        ...     again = ewsg.load(pathlib.Path(folder) / "run.npz")
        >>> bool((again.position == samples.position).all()), int(again.state.step[0])
        (True, 10)
    """
    return read_as(Samples, path, position, "samples")


def read_as(kind: type[Kind], path: str | os.PathLike[str], position: Position | None, what: str) -> Kind:
    """Return what a file holds, of a class.

    Raises:
        TypeError, ValueError, OSError: as of `load`.
    """
    try:
        found = archive.read(path_of(path), NAME, position)
        if not isinstance(found, kind):
            raise archive.UnreadableError(f"it holds {found!r}, no {what}")
    except archive.UnreadableError as error:
        raise ValueError(
            f"path must be a file that samples.save wrote; got {os.fspath(path)!r}, which is none: {error}"
        ) from error
    return found
