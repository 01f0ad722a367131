"""Data sets with their origin, in NumPy, and what is done to them before a model sees them.

load: a data set by its name.
breast_cancer: benign or malignant; comes with scikit-learn.
covertype: one kind of forest against the rest.
heart: heart disease.
letter: some letters of the alphabet.
pima: diabetes within five years.
susy: collisions with and without supersymmetric particles.
movielens: ratings of films.
year_prediction_msd: the year of songs.
airfoil, bike, concrete, eeg, messidor, mnist, parkinsons, parkinsons_updrs, protein: data sets of
    the UCI archive and MNIST, as they lie ready in a file.
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
from ewsg_jax.datasets._loading import airfoil as airfoil
from ewsg_jax.datasets._loading import bike as bike
from ewsg_jax.datasets._loading import breast_cancer as breast_cancer
from ewsg_jax.datasets._loading import concrete as concrete
from ewsg_jax.datasets._loading import covertype as covertype
from ewsg_jax.datasets._loading import eeg as eeg
from ewsg_jax.datasets._loading import heart as heart
from ewsg_jax.datasets._loading import letter as letter
from ewsg_jax.datasets._loading import load as load
from ewsg_jax.datasets._loading import messidor as messidor
from ewsg_jax.datasets._loading import mnist as mnist
from ewsg_jax.datasets._loading import movielens as movielens
from ewsg_jax.datasets._loading import parkinsons as parkinsons
from ewsg_jax.datasets._loading import parkinsons_updrs as parkinsons_updrs
from ewsg_jax.datasets._loading import pima as pima
from ewsg_jax.datasets._loading import protein as protein
from ewsg_jax.datasets._loading import susy as susy
from ewsg_jax.datasets._loading import year_prediction_msd as year_prediction_msd
from ewsg_jax.datasets._scaling import Standardisation as Standardisation
from ewsg_jax.datasets._scaling import Whitened as Whitened
from ewsg_jax.datasets._scaling import standardisation as standardisation
from ewsg_jax.datasets._scaling import standardise as standardise
from ewsg_jax.datasets._scaling import whiten as whiten
