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

from ewsg_jax.datasets._breast_cancer import breast_cancer as breast_cancer
from ewsg_jax.datasets._covertype import covertype as covertype
from ewsg_jax.datasets._heart import heart as heart
from ewsg_jax.datasets._letter import letter as letter
from ewsg_jax.datasets._load import DATASETS as DATASETS
from ewsg_jax.datasets._load import load as load
from ewsg_jax.datasets._pima import pima as pima
from ewsg_jax.datasets._split import split as split
from ewsg_jax.datasets._standardise import Standardisation as Standardisation
from ewsg_jax.datasets._standardise import standardisation as standardisation
from ewsg_jax.datasets._standardise import standardise as standardise
from ewsg_jax.datasets._whiten import Whitened as Whitened
from ewsg_jax.datasets._whiten import whiten as whiten
from ewsg_jax.datasets.dataset import Dataset as Dataset
