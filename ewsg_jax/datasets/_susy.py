"""SUSY: 5,000,000 × 18, particle collisions with and without supersymmetric particles (Baldi et al. 2014)."""

from pathlib import Path

import numpy as np

from ewsg_jax import _check, optional
from ewsg_jax.datasets.dataset import Dataset
from ewsg_jax.datasets.folder import XY, find, read

NUM_ROWS, NUM_FEATURES = 5_000_000, 18
ORIGIN = (
    "SUSY comes from the UCI archive, https://archive.ics.uci.edu/dataset/279/susy: put its SUSY.csv.gz there, or "
    "call ewsg_jax.datasets.susy(download=True), which takes it from OpenML"
)
NAMES = (
    "lepton_1_pt",
    "lepton_1_eta",
    "lepton_1_phi",
    "lepton_2_pt",
    "lepton_2_eta",
    "lepton_2_phi",
    "missing_energy_magnitude",
    "missing_energy_phi",
    "met_rel",
    "axial_met",
    "m_r",
    "m_tr_2",
    "r",
    "mt2",
    "s_r",
    "m_delta_r",
    "dphi_r_b",
    "cos_theta_r1",
)


def susy(path: Path | str | None = None, *, download: bool = False) -> Dataset:
    """Return SUSY: eight measurements and ten functions of them, and y = 1 for a supersymmetric process.

    Args:
        path: `SUSY.csv.gz` or `SUSY.csv` as the UCI archive gives it, or an npz with arrays `X` and `y`. Default:
            the first of `susy.npz`, `SUSY.csv.gz` and `SUSY.csv` in the folder that the environment variable
            EWSG_JAX_DATA names, else in ~/.cache/ewsg_jax.
        download: take it from OpenML by scikit-learn, which keeps it (2.4 GB as text).

    Raises:
        FileNotFoundError: the file is not there; the message says where it looked and where to get it.
        ImportError: scikit-learn is not installed, for a download.
        NotADirectoryError: EWSG_JAX_DATA is set to something that is no folder.
        TypeError: `path` is no path.
        ValueError: it is not SUSY.
    """
    _check.boolean("download", download)
    if download:
        where, (x, y) = "OpenML", _downloaded()
    else:
        found = find(("susy.npz", "SUSY.csv.gz", "SUSY.csv"), ORIGIN, path)
        where, (x, y) = found.name, read(found, "SUSY", _read_text)
    if x.shape != (NUM_ROWS, NUM_FEATURES) or y.shape != (NUM_ROWS,) or not set(np.unique(y)) <= {0, 1}:
        raise ValueError(
            f"{where} must hold SUSY: {NUM_ROWS} rows of {NUM_FEATURES} features and a 0 or 1; got X of shape "
            f"{x.shape} and y of shape {y.shape}"
        )
    return Dataset(
        x=np.ascontiguousarray(x, np.float32),
        y=y.astype(np.int8),
        feature_names=NAMES,
        name="susy",
        source=f"UCI SUSY (Baldi, Sadowski & Whiteson 2014), from {where}",
    )


def _read_text(path: Path) -> XY:
    """The class comes first."""
    table = np.loadtxt(path, dtype=np.float32, delimiter=",", ndmin=2)
    return table[:, 1:], table[:, 0]


def _downloaded() -> XY:
    bundle = optional.module("sklearn.datasets", "a download of SUSY").fetch_openml(
        "SUSY", version=1, as_frame=False
    )
    return np.asarray(bundle.data, np.float32), np.asarray(bundle.target, float)
