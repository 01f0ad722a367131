"""Breast cancer Wisconsin (diagnostic): 569 × 30, bundled with scikit-learn."""

import numpy as np

from ewsg_jax import optional
from ewsg_jax.datasets.dataset import Dataset


def breast_cancer() -> Dataset:
    """Return the diagnostic breast-cancer data of Wolberg, Street & Mangasarian (1995); y = 1 is benign.

    No download: scikit-learn brings the file.

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
