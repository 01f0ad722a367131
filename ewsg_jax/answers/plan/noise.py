"""How much the rows of a batch move a chain: the noise of an estimate, in the posterior's own
units.
"""

from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax.answers.check.gradients import estimates
from ewsg_jax.answers.plan.whitening import Frame
from ewsg_jax.base.typing import Data
from ewsg_jax.gradients._protocol import GradientEstimator
from ewsg_jax.vectors.layout import vector


class Noise(NamedTuple):
    """The variance of C g over that of the posterior, of a batch of one row.

    A batch of b rows has this over b: it adds so much noise to each gradient as 1 is its slope over
    a standard deviation.

    Attributes:
        coordinates: of each coordinate, shape (d,).
        largest: of the direction that has most, which may be no coordinate's; of the coordinate
            that has most where there are too many dimensions.
    """

    coordinates: np.ndarray
    largest: float


def noise_of(
    estimator: GradientEstimator, batch_size: int, frame: Frame, places: np.ndarray, data: Data
) -> Noise:
    """Return the noise of an estimate.

    Args:
        estimator: of batches of `batch_size` rows.
        batch_size: b.
        frame: the posterior's units.
        places: of the posterior, less the center, at each of which two batches are compared, shape
            (places, d).
        data: the rows.
    """
    at = vector(frame.center) + places
    first, second = estimates(
        jax.random.key(2), estimator, frame.layout, frame.center, at, data, 2, batch_size
    )
    differences = first - second
    coordinates = batch_size * np.mean(frame.weighed(differences) ** 2, axis=0) / 2
    largest, (count, d) = float(coordinates.max()), differences.shape
    if d <= count // 4:
        turned = frame.whitened(differences)
        top = batch_size * np.linalg.eigvalsh(turned.T @ turned / count)[-1] / 2
        # The largest eigenvalue of so few draws is too large, by so much where all directions have
        # the same.
        largest = max(largest, float(top) / (1 + np.sqrt(d / count)) ** 2)
    return Noise(coordinates, largest)
