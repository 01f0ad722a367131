"""Data sets by name."""

from collections.abc import Callable

from ewsg_jax import _check
from ewsg_jax.datasets import ready
from ewsg_jax.datasets._breast_cancer import breast_cancer
from ewsg_jax.datasets._covertype import covertype
from ewsg_jax.datasets._heart import heart
from ewsg_jax.datasets._letter import letter
from ewsg_jax.datasets._movielens import movielens
from ewsg_jax.datasets._pima import pima
from ewsg_jax.datasets._susy import susy
from ewsg_jax.datasets._year_prediction_msd import year_prediction_msd
from ewsg_jax.datasets.dataset import Dataset

DATASETS: dict[str, Callable[[], Dataset]] = {
    "airfoil": ready.airfoil,
    "bike": ready.bike,
    "breast_cancer": breast_cancer,
    "concrete": ready.concrete,
    "covertype": covertype,
    "eeg": ready.eeg,
    "heart": heart,
    "letter": letter,
    "messidor": ready.messidor,
    "mnist": ready.mnist,
    "movielens": movielens,
    "parkinsons": ready.parkinsons,
    "parkinsons_updrs": ready.parkinsons_updrs,
    "pima": pima,
    "protein": ready.protein,
    "susy": susy,
    "year_prediction_msd": year_prediction_msd,
}
"""Every data set by its name."""


def load(name: str) -> Dataset:
    """Return the data set of that name.

    Args:
        name: one of `DATASETS`.

    Raises:
        ValueError: there is no data set of that name.
        ImportError, OSError: what the data set needs is not there; the message says what and where to get it.

    Example:
        >>> import ewsg_jax as ewsg
        >>> ewsg.datasets.load("breast_cancer").num_rows
        569
    """
    _check.one_of("name", name, DATASETS)
    return DATASETS[name]()
