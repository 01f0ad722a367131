"""Gaussian divergences in NumPy float64."""

import numpy as np


def kl_divergence(mean, covariance, other_mean, other_covariance) -> float:
    """KL(N(mean, covariance) ‖ N(other_mean, other_covariance))."""
    precision = np.linalg.inv(other_covariance)
    shift = other_mean - mean
    log_ratio = np.linalg.slogdet(other_covariance)[1] - np.linalg.slogdet(covariance)[1]
    return 0.5 * (
        np.trace(precision @ covariance) - len(mean) + shift @ precision @ shift + log_ratio
    )
