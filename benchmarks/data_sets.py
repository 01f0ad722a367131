"""Data sets that the papers' experiments and the benchmarks read, beside those of
`ewsg_jax.datasets`.

Each lies ready as an npz in the folder that EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax; an
error says where a missing one comes from.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.datasets import Dataset
from ewsg_jax.datasets._table import UCI, XY, FileSource, all_of, checksum, find, from_uci, names

SONGS = "YearPredictionMSD.txt"


@dataclass(frozen=True)
class Prepared(FileSource):
    """A data set whose npz is known by a checksum.

    Attributes:
        checksum: `checksum` of X and y as they lie in the file.
    """

    checksum: str = ""

    def load(self, name: str, path_given: Path | str | None = None) -> Dataset:
        """Return the data set, with its checksum compared."""
        data = super().load(name, path_given)
        if (actual := checksum(data.x, data.y, self.dtypes)) != self.checksum:
            raise ValueError(
                f"{find(self.files, self.origin, path_given)} must hold {self.title}, whose "
                f"checksum begins with {self.checksum[:12]}; got {actual[:12]}: other rows, "
                "another order or another rounding"
            )
        return data


def prepared(
    name: str,
    title: str,
    about: str,
    page: str,
    shape: tuple[int, int],
    dtypes: tuple[str, str],
    checksum: str,
) -> Prepared:
    """Return a data set that lies ready as `NAME.npz`, known by its checksum."""
    origin = (
        f"{title} comes from {page}: put its features X, of shape {shape} and dtype {dtypes[0]}, "
        f"and its responses y, {dtypes[1]}, there as {name}.npz"
    )
    return Prepared(
        title,
        about,
        origin,
        f"{title}, {page}",
        (f"{name}.npz",),
        shape,
        dtypes=dtypes,
        checksum=checksum,
    )


def response_first(path: Path) -> XY:
    """Read a text file whose first column is the response."""
    table = np.loadtxt(path, dtype=np.float32, delimiter=",", ndmin=2)
    return table[:, 1:], table[:, 0]


def ratings_from_text(path: Path) -> XY:
    """Person and film, and the rating; `ratings.csv` has a heading."""
    separator = {".dat": "::", ".data": "\t"}.get(path.suffix, ",")
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = [line.split(separator)[:3] for line in lines[path.suffix == ".csv" :] if line.strip()]
    table = np.array(rows, dtype=float)
    return table[:, :2].astype(np.int64), table[:, 2]


SOURCES: dict[str, FileSource] = {
    "airfoil": prepared(
        "airfoil",
        "Airfoil self-noise",
        "1,503 × 5, the sound pressure of airfoils in decibels (Brooks, Pope & Marcolini 1989); y "
        "is the sound pressure level in decibels",
        f"{UCI}/291/airfoil+self+noise",
        (1503, 5),
        ("float32", "float32"),
        "0e33e59247417c83f7e872dbd3bcdbedeed16599e52b779a6c0aacbd06f4304f",
    ),
    "bike": prepared(
        "bike",
        "Bike sharing",
        "17,379 × 12, bikes rented in an hour (Fanaee-T & Gama 2013); y is the bikes rented in "
        "that hour",
        f"{UCI}/275/bike+sharing+dataset",
        (17379, 12),
        ("float32", "int16"),
        "de8067c4535ae864f13d643b88e49e3a5345353046c1ba541819353251f3f99f",
    ),
    "concrete": prepared(
        "concrete",
        "Concrete",
        "1,030 × 8, the compressive strength of concrete (Yeh 1998); y is the compressive "
        "strength in megapascal",
        f"{UCI}/165/concrete+compressive+strength",
        (1030, 8),
        ("float32", "float32"),
        "5633c929b369441bdb224474ad75d090b888688e7ca8e9b224d408b700014cbf",
    ),
    "eeg": prepared(
        "eeg",
        "EEG eye state",
        "14,980 × 14, a time series; some rows hold wild values, left as they are (Rösler 2013); y "
        "is 1 where the eyes are closed",
        f"{UCI}/264/eeg+eye+state",
        (14980, 14),
        ("float32", "uint8"),
        "86958e3c75413fc01ad56c43e5cb112df72534dbbc4eef3b14ff03a1043c08fa",
    ),
    "messidor": prepared(
        "messidor",
        "Messidor",
        "1,151 × 19, diabetic retinopathy (Antal & Hajdu 2014); y is 1 where there are signs of "
        "the disease",
        f"{UCI}/329/diabetic+retinopathy+debrecen",
        (1151, 19),
        ("float32", "uint8"),
        "86aa8e10dff1aadbeada0a72f65fa2bd078d0670c295d6818e315808730796f6",
    ),
    "mnist": prepared(
        "mnist",
        "MNIST",
        "70,000 × 784, digits; the first 60,000 rows are the training set (LeCun, Cortes & "
        "Burges); y is the digit",
        "https://github.com/rasbt/mnist-pngs",
        (70000, 784),
        ("uint8", "uint8"),
        "c2069063c1105f2bf96266aef1ff68c6e13bdda7a54e37bf19c16f1db24efc83",
    ),
    "movielens": FileSource(
        "MovieLens",
        "ratings of films by people (Harper & Konstan 2015)",
        "MovieLens comes from https://grouplens.org/datasets/movielens: put the ratings.dat, "
        "ratings.csv or u.data of one of its sets there",
        "MovieLens (Harper & Konstan 2015)",
        ("movielens.npz", "ratings.dat", "ratings.csv", "u.data"),
        (None, 2),
        "a rating of at most 5 (a person, a film and a rating a row)",
        lambda y: bool(np.all((y > 0) & (y <= 5))),
        (None, "float32"),
        ("person", "film"),
        ratings_from_text,
    ),
    "parkinsons": prepared(
        "parkinsons",
        "Parkinsons",
        "195 × 22, voices of 32 people (Little et al. 2008); y is 1 for Parkinson's disease",
        f"{UCI}/174/parkinsons",
        (195, 22),
        ("float32", "uint8"),
        "23fc07b34f10916a1af5be68deb2e0f0a86865cde02aaacfd602ac9a85904ab0",
    ),
    "parkinsons_updrs": prepared(
        "parkinsons_updrs",
        "Parkinsons telemonitoring",
        "5,875 × 19, voices of 42 people (Tsanas et al. 2009); y is the total UPDRS score",
        f"{UCI}/189/parkinsons+telemonitoring",
        (5875, 19),
        ("float32", "float32"),
        "9651222f49dbd26d96b01bb243eb3a425403a8b7f53c307e8bfe12f01ffb28fd",
    ),
    "protein": prepared(
        "protein",
        "Protein structure",
        "45,730 × 9, decoys of CASP 5 to 9 (Rana 2013); y is the deviation (RMSD) from the native "
        "structure in ångström",
        f"{UCI}/265/physicochemical+properties+of+protein+tertiary+structure",
        (45730, 9),
        ("float32", "float32"),
        "050b3b8bf9b8746b9b6df8133c383fbc890ad68a405530641b805a83fdc93616",
    ),
    "susy": FileSource(
        "SUSY",
        "5,000,000 × 18, particle collisions with and without supersymmetric particles (Baldi et "
        "al. 2014)",
        from_uci("SUSY", f"{UCI}/279/susy", "SUSY.csv.gz"),
        "UCI SUSY (Baldi, Sadowski & Whiteson 2014)",
        ("susy.npz", "SUSY.csv.gz", "SUSY.csv"),
        (5_000_000, 18),
        "a 0 or 1",
        all_of(0, 1),
        ("float32", "int8"),
        names(
            "lepton_1_pt lepton_1_eta lepton_1_phi lepton_2_pt lepton_2_eta lepton_2_phi "
            "missing_energy_magnitude missing_energy_phi met_rel axial_met m_r m_tr_2 r mt2 s_r "
            "m_delta_r dphi_r_b cos_theta_r1"
        ),
        response_first,
    ),
    "year_prediction_msd": FileSource(
        "YearPredictionMSD",
        "515,345 × 90, the timbre of songs and the year of their release (Bertin-Mahieux et al. "
        "2011)",
        from_uci("YearPredictionMSD", f"{UCI}/203/yearpredictionmsd", SONGS),
        "UCI YearPredictionMSD (Bertin-Mahieux et al. 2011)",
        ("year_prediction_msd.npz", SONGS),
        (515_345, 90),
        "a year",
        dtypes=("float32", "float32"),
        feature_names=tuple(f"timbre_{number}" for number in range(1, 91)),
        read_text=response_first,
    ),
}
"""The data sets of this file, by name."""


def from_file(name: str, path: Path | str | None = None) -> Dataset:
    """Return a data set of `SOURCES`.

    Args:
        name: which one.
        path: the file; None for the file of that name in the folder of the data sets.
    """
    return SOURCES[name].load(name, path)


def movielens(path: Path | str | None = None) -> Dataset:
    """Return ratings y, with person and film of each, numbered from 0 in order.

    Args:
        path: `ratings.dat` (1M, 10M), `ratings.csv` (20M and later) or `u.data` (100K) as GroupLens
            gives it, or an npz with arrays `X`, of two columns, and `y`; None for the first of
            these in the folder of the data sets.
    """
    ratings = from_file("movielens", path)
    numbered = [np.unique(column, return_inverse=True)[1].ravel() for column in ratings.x.T]
    return dataclasses.replace(ratings, x=np.stack(numbered, axis=1).astype(np.int32))


DATA_SETS: dict[str, Callable[..., Dataset]] = (
    ewsg.datasets.DATASETS
    | {name: functools.partial(from_file, name) for name in SOURCES}
    | {"movielens": movielens}
)
"""All data sets by name, those of the library among them."""


def load(name: str) -> Dataset:
    """Return the data set of that name, one of `DATA_SETS`."""
    if name not in DATA_SETS:
        raise ValueError(f"a data set must be one of {', '.join(DATA_SETS)}; got {name!r}")
    return DATA_SETS[name]()
