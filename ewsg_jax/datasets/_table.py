"""What is known of each data set before its file is read, one table; and the folder of their files,
EWSG_JAX_DATA, else a cache folder in the home folder.
"""

import hashlib
import os
import string
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ewsg_jax.base import checks
from ewsg_jax.base.files import path_of
from ewsg_jax.datasets._dataset import Dataset

XY = tuple[np.ndarray, np.ndarray]

VARIABLE = "EWSG_JAX_DATA"


def data_folder() -> Path:
    """Return the folder of the data sets; it is never created.

    Raises:
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
    """
    named = os.environ.get(VARIABLE)
    if named is None:
        return Path.home() / ".cache" / "ewsg_jax"
    if not Path(named).is_dir():
        raise NotADirectoryError(
            f"{VARIABLE} must name a folder; got {named!r}, which is not a folder"
        )
    return Path(named)


def find(names: tuple[str, ...], origin: str, path_given: Path | str | None = None) -> Path:
    """Return the first of these files that is there, best first; or the one that the caller has
    named.

    If there is none, the error names the folder, and says how to get the file: `origin`.
    """
    if path_given is not None:
        path = path_of(path_given)
        if not path.is_file():
            raise FileNotFoundError(f"found no file {path}. {origin}")
        return path
    folder = data_folder()
    for name in names:
        if (folder / name).is_file():
            return folder / name
    set_by = (
        f"the folder that {VARIABLE} names"
        if VARIABLE in os.environ
        else f"as {VARIABLE} is not set"
    )
    raise FileNotFoundError(f"found no {' or '.join(names)} in {folder} ({set_by}). {origin}")


def read(
    path: Path, what: str, read_text: Callable[[Path], XY] | None = None
) -> dict[str, np.ndarray]:
    """Return the arrays X and y, and feature_names if an npz file has them.

    `read_text` reads X and y from a file that is no npz. If the file cannot be read, the error says
    what it should be.
    """
    try:
        if path.suffix != ".npz" and read_text is not None:
            return dict(zip(("X", "y"), read_text(path), strict=True))
        with np.load(path) as arrays:
            if not {"X", "y"} <= set(arrays.files):
                raise ValueError(f"{path} must hold arrays X and y; it holds {arrays.files}")
            contents = {
                name: arrays[name] for name in ("X", "y", "feature_names") if name in arrays.files
            }
        for name in ("X", "y"):
            if contents[name].dtype.kind not in "biuf":
                raise ValueError(f"{name} must be of numbers; it is of {contents[name].dtype}")
        return contents
    except (EOFError, IndexError, OSError, ValueError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(
            f"{path} must hold {what}; it cannot be read: {checks.reason(error)}"
        ) from error


UCI = "https://archive.ics.uci.edu/dataset"


@dataclass(frozen=True)
class FileSource:
    """One data set.

    Attributes:
        title: what it is called.
        about: what its rows and responses are, for the documentation.
        origin: how to get its file, for the error message of a missing one.
        source: what `Dataset.source` says, before the name of the file.
        files: names of its file, best first.
        shape: (n, d) of X; n is None if any number of rows will do.
        response: what y holds, for the error message.
        holds: whether values y are that.
        dtypes: of X and y in a `Dataset`; None: as they lie in the file.
        feature_names: d names; None: as the file has them, else numbers.
        read_text: reads X and y from a file that is no npz.
    """

    title: str
    about: str
    origin: str
    source: str
    files: tuple[str, ...]
    shape: tuple[int | None, int]
    response: str = "a response"
    holds: Callable[[np.ndarray], bool] = lambda y: True
    dtypes: tuple[str | None, str | None] = (None, None)
    feature_names: tuple[str, ...] | None = None
    read_text: Callable[[Path], XY] | None = None

    def load(self, name: str, path_given: Path | str | None = None) -> Dataset:
        """Return it, checked, from the file given or from the folder of the data sets."""
        path = find(self.files, self.origin, path_given)
        arrays = read(path, self.title, self.read_text)
        x, y = arrays["X"], arrays["y"]
        num_rows, num_features = self.shape
        fits = x.ndim == 2 and x.shape[1] == num_features and y.shape == x.shape[:1]
        if not fits or num_rows not in (None, len(x)) or not self.holds(y):
            rows = "rows" if num_rows is None else f"{num_rows} rows"
            raise ValueError(
                f"{path} must hold {self.title}: {rows} of {num_features} features and "
                f"{self.response}; got X of shape {x.shape} and y of shape {y.shape} with values "
                f"{np.unique(y)[:10].tolist()}"
            )
        kind_x, kind_y = self.dtypes
        names = self.feature_names or arrays.get("feature_names", range(num_features))
        return Dataset(
            x=np.ascontiguousarray(x, kind_x),
            y=np.asarray(y, kind_y),
            feature_names=tuple(map(str, names)),
            name=name,
            source=f"{self.source}, from {path.name}",
        )


def checksum(x: np.ndarray, y: np.ndarray, dtypes: tuple[str | None, str | None]) -> str:
    """Return the SHA-256 of X and then y in these dtypes, by rows, least byte first."""
    digest = hashlib.sha256()
    for array, kind in zip((x, y), dtypes, strict=True):
        digest.update(
            np.ascontiguousarray(array, np.dtype(kind or array.dtype).newbyteorder("<")).tobytes()
        )
    return digest.hexdigest()


def all_of(*values: int) -> Callable[[np.ndarray], bool]:
    """Return whether a response takes these values, each of them and no other."""
    return lambda y: set(np.unique(y).tolist()) == set(values)


def from_uci(title: str, page: str, file: str) -> str:
    """Say where a file of the UCI archive comes from, for the error message."""
    return f"{title} comes from the UCI archive, {page}: put its {file} there"


def from_text(
    dtype: type = float, delimiter: str | None = ",", least: int = 0
) -> Callable[[Path], XY]:
    """Return a reader of numeric columns; the last is the response, counted from `least`."""

    def read_text(path: Path) -> XY:
        table = np.loadtxt(path, dtype=dtype, delimiter=delimiter, ndmin=2)
        return table[:, :-1], table[:, -1] - dtype(least)

    return read_text


def letters_from_text(path: Path) -> XY:
    """The letter comes first: 0 for A to 25 for Z."""
    table = np.loadtxt(path, dtype=str, delimiter=",", ndmin=2)
    return table[:, 1:].astype(np.int16), np.array(
        [string.ascii_uppercase.index(one) for one in table[:, 0]]
    )


def names(text: str) -> tuple[str, ...]:
    """Return the names of features, from words."""
    return tuple(text.split())


SOURCES = {
    "covertype": FileSource(
        "Covertype",
        "581,012 × 54, seven kinds of forest (Blackard & Dean 1999)",
        from_uci("Covertype", f"{UCI}/31/covertype", "covtype.data.gz"),
        "UCI Covertype (Blackard & Dean)",
        ("covertype.npz", "covtype.data.gz", "covtype.data"),
        (581_012, 54),
        "a class from 1 to 7",
        all_of(1, 2, 3, 4, 5, 6, 7),
        feature_names=(
            *names(
                "Elevation Aspect Slope Horizontal_Distance_To_Hydrology "
                "Vertical_Distance_To_Hydrology Horizontal_Distance_To_Roadways Hillshade_9am "
                "Hillshade_Noon Hillshade_3pm Horizontal_Distance_To_Fire_Points"
            ),
            *(f"Wilderness_Area{i}" for i in range(1, 5)),
            *(f"Soil_Type{i}" for i in range(1, 41)),
        ),
        read_text=from_text(np.int16),
    ),
    "heart": FileSource(
        "Statlog heart",
        "270 × 13, heart disease among patients sent for angiography (Detrano et al. 1989); y is 1 "
        "for heart disease. Categories (`chest_pain`, `resting_ecg`, `thal`) are the numbers that "
        "the file codes them with. `heart.dat` has classes 1 and 2, `heart.npz` 0 and 1",
        from_uci("Statlog heart", f"{UCI}/145/statlog+heart", "heart.dat"),
        "UCI Statlog heart (Detrano et al. 1989)",
        ("heart.npz", "heart.dat"),
        (270, 13),
        "a response of two classes",
        all_of(0, 1),
        (None, "int8"),
        names(
            "age sex chest_pain resting_blood_pressure cholesterol fasting_blood_sugar resting_ecg "
            "max_heart_rate exercise_angina st_depression st_slope major_vessels thal"
        ),
        from_text(delimiter=None, least=1),
    ),
    "letter": FileSource(
        "letter recognition",
        "20,000 × 16, printed capital letters (Frey & Slate 1991)",
        from_uci("Letter recognition", f"{UCI}/59/letter+recognition", "letter-recognition.data"),
        "UCI letter recognition (Frey & Slate 1991)",
        ("letter.npz", "letter-recognition.data"),
        (20_000, 16),
        "a letter, 0 to 25",
        lambda y: set(np.unique(y).tolist()) <= set(range(26)),
        feature_names=names(
            "x_box y_box width height on_pixels x_mean y_mean x_variance y_variance xy_correlation "
            "xxy_correlation xyy_correlation x_edges x_edges_y_correlation y_edges "
            "y_edges_x_correlation"
        ),
        read_text=letters_from_text,
    ),
    "pima": FileSource(
        "Pima",
        "768 × 8, diabetes among women of the Pima (Smith et al. 1988); y is 1 for diabetes within "
        "five years. Zeros of glucose, blood pressure, skin thickness, insulin and body mass index "
        "stand for values that are missing; they are left as they are",
        "Pima comes from the NIDDK by way of the UCI archive, which withdrew it; copies are called "
        "pima-indians-diabetes.csv: put one there",
        "Pima Indians diabetes (NIDDK; Smith et al. 1988)",
        ("pima.npz", "pima-indians-diabetes.csv"),
        (768, 8),
        "a response of two classes",
        all_of(0, 1),
        (None, "int8"),
        names(
            "pregnancies glucose blood_pressure skin_thickness insulin body_mass_index pedigree age"
        ),
        from_text(),
    ),
}
"""Every data set that is read from a file, by its name."""
