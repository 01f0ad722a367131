"""Data sets by name: what stands in the table, read and made the rows of a model."""

import dataclasses
import string
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ewsg_jax.base import checks, optional
from ewsg_jax.datasets._dataset import Dataset
from ewsg_jax.datasets._table import SOURCES


def breast_cancer() -> Dataset:
    """Return the breast-cancer data of Wolberg, Street & Mangasarian (1995); y = 1 is benign.

    569 × 30. No download: scikit-learn brings the file.

    Raises:
        ImportError: scikit-learn is not installed.

    Example:
        >>> import ewsg_jax as ewsg
        >>> ewsg.datasets.breast_cancer().x.shape
        (569, 30)
    """
    bundle = optional.module("sklearn.datasets", "breast_cancer").load_breast_cancer()
    return Dataset(
        x=np.asarray(bundle.data, np.float64),
        y=np.asarray(bundle.target, np.int8),
        feature_names=tuple(name.replace(" ", "_") for name in bundle.feature_names),
        name="breast_cancer",
        source="UCI breast cancer Wisconsin (diagnostic), as bundled with scikit-learn",
    )


def covertype(*, positive_class: int = 2) -> Dataset:
    """Return Covertype as one class against the rest: y = 1 for cover type `positive_class`.

    581,012 × 54, seven forest cover types (Blackard & Dean 1999). The EWSG paper says neither how
    it made the seven classes two nor how it scaled the features; class 2 (lodgepole pine, 283,301
    rows) against the rest is the usual choice.

    The file lies in the folder that the environment variable EWSG_JAX_DATA names, else in
    ~/.cache/ewsg_jax: `covertype.npz` (arrays `X`, integers, and `y`, 1 to 7), or `covtype.data.gz`
    as the UCI archive gives it.

    Args:
        positive_class: the cover type, 1 to 7, that counts as 1.

    Raises:
        FileNotFoundError, NotADirectoryError: the file is not there, or EWSG_JAX_DATA is no folder.
        ValueError: the file is not Covertype, or `positive_class` is not a whole number from 1 to
            7.
    """
    checks.integer("positive_class", positive_class, minimum=1, maximum=7)
    kinds = SOURCES["covertype"].load("covertype")
    source = kinds.source.replace(", from", f", class {positive_class} against the rest, from")
    return dataclasses.replace(kinds, y=(kinds.y == positive_class).astype(np.int8), source=source)


def letter(*, letters: str = string.ascii_uppercase) -> Dataset:
    """Return rows of these letters: sixteen measurements, y the letter's place in `letters`.

    20,000 × 16, printed capital letters (Frey & Slate 1991).

    The file lies in the folder that the environment variable EWSG_JAX_DATA names, else in
    ~/.cache/ewsg_jax: `letter.npz` (arrays `X` and `y`, 0 for A to 25 for Z), or
    `letter-recognition.data` as the UCI archive gives it.

    Args:
        letters: which capital letters, each once; default all 26.

    Raises:
        FileNotFoundError, NotADirectoryError: the file is not there, or EWSG_JAX_DATA is no folder.
        TypeError, ValueError: the file is not letter recognition, or `letters` are not different
            capital letters.
    """
    takes = "letters must be a string of different capital letters from A to Z, at least one"
    if not isinstance(letters, str):
        raise TypeError(f"{takes}; got {checks.describe(letters)}")
    if (
        not letters
        or len(set(letters)) < len(letters)
        or not set(letters) <= set(string.ascii_uppercase)
    ):
        raise ValueError(f"{takes}; got {letters!r}")
    all_letters = SOURCES["letter"].load("letter")
    places = np.full(26, -1)
    places[[string.ascii_uppercase.index(one) for one in letters]] = np.arange(len(letters))
    place = places[all_letters.y.astype(int)]
    source = all_letters.source.replace(", from", f", the letters {letters}, from")
    return dataclasses.replace(
        all_letters, x=all_letters.x[place >= 0], y=place[place >= 0].astype(np.int8), source=source
    )


def _from_table(name: str) -> Callable[..., Dataset]:
    """Return the function of a data set as it lies in its file: `heart()` reads `heart.npz`."""
    known = SOURCES[name]

    def load_it(path: Path | str | None = None) -> Dataset:
        return SOURCES[name].load(name, path)

    load_it.__name__ = load_it.__qualname__ = name
    load_it.__doc__ = f"""Return {known.title}.

    {known.about}.

    Args:
        path: the file. Default: `{"` or `".join(known.files)}`, in the folder that the environment
            variable EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax.

    Raises:
        FileNotFoundError, NotADirectoryError: the file is not there, or EWSG_JAX_DATA is no folder.
        TypeError: `path` is not a path.
        ValueError: the file is not {known.title}.
    """
    return load_it


heart = _from_table("heart")
pima = _from_table("pima")

DATASETS: dict[str, Callable[[], Dataset]] = {
    name: globals()[name] for name in sorted(["breast_cancer", *SOURCES])
}
"""Every data set by its name."""


def load(name: str) -> Dataset:
    """Return the data set of that name.

    Args:
        name: one of `DATASETS`.

    Raises:
        ValueError: there is no data set of that name.
        ImportError, OSError: what the data set needs is not there; the message says what, and how
            to get it.

    Example:
        >>> import ewsg_jax as ewsg
        >>> ewsg.datasets.load("breast_cancer").num_rows
        569
    """
    checks.one_of("name", name, DATASETS)
    return DATASETS[name]()
