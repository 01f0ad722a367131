"""Above so many numbers that a covariance can be had, each coordinate by itself.

E[g (θⱼ − mⱼ)] = T for every target: the draws' variance over that is the target's, where coordinates are no
collinear ones, and the mean is off by that variance times the mean gradient, to first order.
"""

import numpy as np

from ewsg_jax.checking.correction import GROUPS, LEAST_VARIANCE, TINY, Moments, jackknife

MOST_DENSE = 1000
"""Numbers of a position up to which covariances are matrices."""


def moments(flat: np.ndarray, gradients: np.ndarray, num_groups: int = GROUPS) -> Moments:
    """Return the target's means and, instead of a covariance, variances (d,)."""
    center, sd = flat.mean(0), np.maximum(flat.std(0), TINY)
    ends = np.linspace(0, len(flat), min(num_groups, len(flat)) + 1).astype(int)[:-1]
    counts = np.diff(np.append(ends, len(flat)))[:, None]
    u, h = (flat - center) / sd, gradients * sd
    sums = [np.add.reduceat(x, ends, axis=0) for x in (u * u, h * u, h)]
    whole = [x.sum(0) / len(flat) for x in sums]
    without = [(x.sum(0) - x) / (len(flat) - counts) for x in sums]

    def found(squares: np.ndarray, crossed: np.ndarray, slope: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        variance = squares / np.maximum(crossed, LEAST_VARIANCE)
        return -variance * slope, np.log(variance) / 2

    (shift, width), (shifts, widths) = found(*whole), found(*without)
    return Moments(center + sd * shift, sd**2 * np.exp(2 * width), sd * jackknife(shifts), jackknife(widths))
