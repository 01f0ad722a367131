"""The data sets of `prepared`, one function each."""

from ewsg_jax.datasets.dataset import Dataset
from ewsg_jax.datasets.prepared import PREPARED


def airfoil() -> Dataset:
    """Return Airfoil self-noise.

    1,503 × 5, the sound pressure of airfoils in decibels (Brooks, Pope & Marcolini 1989); y is the sound pressure
    level in decibels.

    `airfoil.npz`, in the folder that EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not Airfoil self-noise, by its checksum.
    """
    return PREPARED["airfoil"].load()


def bike() -> Dataset:
    """Return Bike sharing.

    17,379 × 12, bikes rented in an hour (Fanaee-T & Gama 2013); y is the bikes rented in that hour.

    `bike.npz`, in the folder that EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not Bike sharing, by its checksum.
    """
    return PREPARED["bike"].load()


def concrete() -> Dataset:
    """Return Concrete.

    1,030 × 8, the compressive strength of concrete (Yeh 1998); y is the compressive strength in megapascal.

    `concrete.npz`, in the folder that EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not Concrete, by its checksum.
    """
    return PREPARED["concrete"].load()


def eeg() -> Dataset:
    """Return EEG eye state.

    14,980 × 14, a time series; some rows hold wild values, left as they are (Rösler 2013); y is 1 where the eyes
    are closed.

    `eeg.npz`, in the folder that EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not EEG eye state, by its checksum.
    """
    return PREPARED["eeg"].load()


def messidor() -> Dataset:
    """Return Messidor.

    1,151 × 19, diabetic retinopathy (Antal & Hajdu 2014); y is 1 where there are signs of the disease.

    `messidor.npz`, in the folder that EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not Messidor, by its checksum.
    """
    return PREPARED["messidor"].load()


def mnist() -> Dataset:
    """Return MNIST.

    70,000 × 784, digits; the first 60,000 rows are the training set (LeCun, Cortes & Burges); y is the digit.

    `mnist.npz`, in the folder that EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not MNIST, by its checksum.
    """
    return PREPARED["mnist"].load()


def parkinsons() -> Dataset:
    """Return Parkinsons.

    195 × 22, voices of 32 people (Little et al. 2008); y is 1 for Parkinson's disease.

    `parkinsons.npz`, in the folder that EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not Parkinsons, by its checksum.
    """
    return PREPARED["parkinsons"].load()


def parkinsons_updrs() -> Dataset:
    """Return Parkinsons telemonitoring.

    5,875 × 19, voices of 42 people (Tsanas et al. 2009); y is the total UPDRS score.

    `parkinsons_updrs.npz`, in the folder that EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not Parkinsons telemonitoring, by its checksum.
    """
    return PREPARED["parkinsons_updrs"].load()


def protein() -> Dataset:
    """Return Protein structure.

    45,730 × 9, decoys of CASP 5 to 9 (Rana 2013); y is the deviation (RMSD) from the native structure in ångström.

    `protein.npz`, in the folder that EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax.

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        ValueError: the file is not Protein structure, by its checksum.
    """
    return PREPARED["protein"].load()
