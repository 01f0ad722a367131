"""Data sets with their origin, in NumPy, and what is done to them before a model sees them.

load: a data set by its name.
breast_cancer: benign or malignant; comes with scikit-learn.
covertype: one kind of forest against the rest.
heart: heart disease.
letter: some letters of the alphabet.
pima: diabetes within five years.
split: training rows and test rows.
standardise: features of mean 0 and standard deviation 1.
standardisation: the map that does it, with the way back for weights.
whiten: principal components of variance 1.
Dataset: rows with their origin.
Standardisation: what `standardisation` returns.
Whitened: what `whiten` returns.
DATASETS: all data sets by name.
"""

from ewsg_jax.datasets._dataset import Dataset as Dataset
from ewsg_jax.datasets._dataset import split as split
from ewsg_jax.datasets._loading import DATASETS as DATASETS
from ewsg_jax.datasets._loading import breast_cancer as breast_cancer
from ewsg_jax.datasets._loading import covertype as covertype
from ewsg_jax.datasets._loading import heart as heart
from ewsg_jax.datasets._loading import letter as letter
from ewsg_jax.datasets._loading import load as load
from ewsg_jax.datasets._loading import pima as pima
from ewsg_jax.datasets._scaling import Standardisation as Standardisation
from ewsg_jax.datasets._scaling import Whitened as Whitened
from ewsg_jax.datasets._scaling import standardisation as standardisation
from ewsg_jax.datasets._scaling import standardise as standardise
from ewsg_jax.datasets._scaling import whiten as whiten

_IN_BENCHMARKS = {
    *("airfoil", "bike", "concrete", "eeg", "messidor", "mnist", "movielens", "parkinsons"),
    *("parkinsons_updrs", "protein", "susy", "year_prediction_msd"),
}
"""Data sets of earlier versions that only the benchmarks read."""


def __getattr__(name: str) -> object:
    if name in _IN_BENCHMARKS:
        raise AttributeError(
            f"ewsg_jax.datasets has no {name} any more: benchmarks/data_sets.py in the repository "
            "reads its file"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
