"""How much the choice of a minibatch moves a chain: the noise of an estimated gradient, in units of
the posterior.
"""

from typing import NamedTuple

import jax
import numpy as np

from ewsg_jax.answers.check.gradients import estimates
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base.typing import Data
from ewsg_jax.gradients._protocol import GradientEstimator
from ewsg_jax.vectors.layout import vector


class MinibatchNoise(NamedTuple):
    """The variance of C g over the posterior's, for a batch of one row; C is the covariance and g
    the estimated gradient.

    A batch of b rows has this divided by b. In these units a gradient changes by 1 over one
    standard deviation.

    Attributes:
        coordinates: for each coordinate, shape (d,).
        largest: in the direction with the most noise; the coordinate with the most if there are
            too many dimensions for the number of positions.
    """

    coordinates: np.ndarray
    largest: float


def measure_noise(
    estimator: GradientEstimator,
    batch_size: int,
    whitening: Whitening,
    places: np.ndarray,
    data: Data,
) -> MinibatchNoise:
    """Return the noise of an estimator.

    Args:
        estimator: takes batches of `batch_size` rows.
        batch_size: b, in rows.
        whitening: the units of the posterior.
        places: positions less the center, shape (places, d); two batches are compared at each.
        data: all n rows.
    """
    positions = vector(whitening.center) + places
    first, second = estimates(
        jax.random.key(2),
        estimator,
        whitening.layout,
        whitening.center,
        positions,
        data,
        2,
        batch_size,
    )
    differences = first - second
    scaled = whitening.scaled_gradients(differences)
    coordinates = batch_size * np.mean(scaled**2, axis=0) / 2
    largest, (count, d) = float(coordinates.max()), differences.shape
    if d <= count // 4:
        whitened = whitening.whiten_gradients(differences)
        top = batch_size * np.linalg.eigvalsh(whitened.T @ whitened / count)[-1] / 2
        # The largest eigenvalue of a sample covariance is too large: by (1 + √(d/count))² if all
        # directions have the same noise.
        largest = max(largest, float(top) / (1 + np.sqrt(d / count)) ** 2)
    return MinibatchNoise(coordinates, largest)
