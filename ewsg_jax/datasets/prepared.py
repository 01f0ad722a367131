"""Data sets that lie ready as `NAME.npz`: arrays X and y, known by their sums, and the names of the features."""

import hashlib
import zipfile
from dataclasses import dataclass

import numpy as np

from ewsg_jax import _check
from ewsg_jax.datasets.dataset import Dataset
from ewsg_jax.datasets.folder import find


@dataclass(frozen=True)
class Prepared:
    """What is known of a data set before its file is read.

    Attributes:
        name: that of its file.
        title: what it is called.
        page: where its original is.
        shape: of X.
        kinds: the dtypes of X and of y.
        checksum: SHA-256 of the bytes of X and then of y, in these dtypes, row after row, the least byte first.
    """

    name: str
    title: str
    page: str
    shape: tuple[int, int]
    kinds: tuple[str, str]
    checksum: str

    def load(self) -> Dataset:
        """Return it.

        Raises:
            FileNotFoundError, NotADirectoryError, ValueError: as its function says.
        """
        origin = (
            f"{self.title} comes from {self.page}: put its features X, of shape {self.shape} and dtype "
            f"{self.kinds[0]}, and its responses y, {self.kinds[1]}, there as {self.name}.npz"
        )
        path = find((f"{self.name}.npz",), origin)
        try:
            with np.load(path) as arrays:
                x, y = arrays["X"], arrays["y"]
                named = arrays["feature_names"] if "feature_names" in arrays.files else range(x.shape[-1])
                names = tuple(str(name) for name in named)
        except (EOFError, KeyError, OSError, ValueError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} must hold {self.title}; it cannot be read: {_check.reason(error)}") from error
        if x.shape != self.shape or y.shape != self.shape[:1]:
            raise ValueError(
                f"{path} must hold {self.title}: X of shape {self.shape} and y of shape {self.shape[:1]}; got "
                f"{x.shape} and {y.shape}"
            )
        if (found := checksum(x, y, self.kinds)) != self.checksum:
            raise ValueError(
                f"{path} must hold {self.title}, whose checksum begins with {self.checksum[:12]}; got {found[:12]}"
                ": other rows, another order or another rounding"
            )
        source = f"{self.title}, {self.page}, from {path.name}"
        return Dataset(x=np.ascontiguousarray(x), y=y, feature_names=names, name=self.name, source=source)


def checksum(x: np.ndarray, y: np.ndarray, kinds: tuple[str, str]) -> str:
    """Return the SHA-256 of both arrays in these dtypes."""
    digest = hashlib.sha256()
    for array, kind in zip((x, y), kinds, strict=True):
        digest.update(np.ascontiguousarray(array, np.dtype(kind).newbyteorder("<")).tobytes())
    return digest.hexdigest()


PREPARED = {
    each.name: each
    for each in (
        Prepared(
            "airfoil",
            "Airfoil self-noise",
            "https://archive.ics.uci.edu/dataset/291/airfoil+self+noise",
            (1503, 5),
            ("float32", "float32"),
            "0e33e59247417c83f7e872dbd3bcdbedeed16599e52b779a6c0aacbd06f4304f",
        ),
        Prepared(
            "bike",
            "Bike sharing",
            "https://archive.ics.uci.edu/dataset/275/bike+sharing+dataset",
            (17379, 12),
            ("float32", "int16"),
            "de8067c4535ae864f13d643b88e49e3a5345353046c1ba541819353251f3f99f",
        ),
        Prepared(
            "concrete",
            "Concrete",
            "https://archive.ics.uci.edu/dataset/165/concrete+compressive+strength",
            (1030, 8),
            ("float32", "float32"),
            "5633c929b369441bdb224474ad75d090b888688e7ca8e9b224d408b700014cbf",
        ),
        Prepared(
            "eeg",
            "EEG eye state",
            "https://archive.ics.uci.edu/dataset/264/eeg+eye+state",
            (14980, 14),
            ("float32", "uint8"),
            "86958e3c75413fc01ad56c43e5cb112df72534dbbc4eef3b14ff03a1043c08fa",
        ),
        Prepared(
            "messidor",
            "Messidor",
            "https://archive.ics.uci.edu/dataset/329/diabetic+retinopathy+debrecen",
            (1151, 19),
            ("float32", "uint8"),
            "86aa8e10dff1aadbeada0a72f65fa2bd078d0670c295d6818e315808730796f6",
        ),
        Prepared(
            "mnist",
            "MNIST",
            "https://github.com/rasbt/mnist-pngs",
            (70000, 784),
            ("uint8", "uint8"),
            "c2069063c1105f2bf96266aef1ff68c6e13bdda7a54e37bf19c16f1db24efc83",
        ),
        Prepared(
            "parkinsons",
            "Parkinsons",
            "https://archive.ics.uci.edu/dataset/174/parkinsons",
            (195, 22),
            ("float32", "uint8"),
            "23fc07b34f10916a1af5be68deb2e0f0a86865cde02aaacfd602ac9a85904ab0",
        ),
        Prepared(
            "parkinsons_updrs",
            "Parkinsons telemonitoring",
            "https://archive.ics.uci.edu/dataset/189/parkinsons+telemonitoring",
            (5875, 19),
            ("float32", "float32"),
            "9651222f49dbd26d96b01bb243eb3a425403a8b7f53c307e8bfe12f01ffb28fd",
        ),
        Prepared(
            "protein",
            "Protein structure",
            "https://archive.ics.uci.edu/dataset/265/physicochemical+properties+of+protein+tertiary+structure",
            (45730, 9),
            ("float32", "float32"),
            "050b3b8bf9b8746b9b6df8133c383fbc890ad68a405530641b805a83fdc93616",
        ),
    )
}
