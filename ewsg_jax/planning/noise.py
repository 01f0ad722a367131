"""How much the rows of a batch move a chain: the noise of an estimate, in the posterior's own units."""

import numpy as np

from ewsg_jax._types import Array, Data
from ewsg_jax.forecasting import batches
from ewsg_jax.gradients.protocol import GradientEstimator
from ewsg_jax.planning.frame import Frame


def noise_of(estimator: GradientEstimator, batch_size: int, frame: Frame, places: Array, data: Data) -> np.ndarray:
    """Return the variance of C g in each coordinate, over the coordinate's own, times the batch's rows, shape (d,).

    A batch of b rows has this over b: it adds so much noise to each coordinate's gradient as 1 is its slope over a
    standard deviation.

    Args:
        estimator: of batches of `batch_size` rows.
        batch_size: b.
        frame: the posterior's units.
        places: of the posterior, less the center, at each of which two batches are compared, shape (places, d).
        data: the rows.
    """
    found = batches.estimates(estimator, frame.center, places, None, 2, data)
    differences = frame.weighed(found[:, 0] - found[:, 1])
    return batch_size * np.mean(differences**2, axis=0) / 2
