"""Every minibatch of a small data set, and gradients typed by hand.

NumPy in float64, importing nothing of ewsg_jax: a test that compares with it shares no code with the library.
V = V₀ + Σᵢ Vᵢ with V₀ = −log prior and Vᵢ = −log likelihood of datum i. Per-datum gradients come back as
an array (n, d) whose row i is ∇Vᵢ, flattened.
"""

import itertools
import math

import numpy as np


def batches(n, batch_size, replace):
    """Return all batches (N, b), each as probable as the others, and their probabilities (N,).

    With replacement these are all ordered tuples, without replacement all subsets.
    """
    if replace:
        listed = list(itertools.product(range(n), repeat=batch_size))
        assert len(listed) == n**batch_size
    else:
        listed = list(itertools.combinations(range(n), batch_size))
        assert len(listed) == math.comb(n, batch_size)
    return np.array(listed), np.full(len(listed), 1 / len(listed))


def stochastic_gradients(per_datum, prior, listed):
    """Return ∇V₀ + (n/b) Σ_{i∈I} ∇Vᵢ for every batch I listed, (N, d)."""
    return prior + len(per_datum) * per_datum[listed].mean(axis=1)


def full_gradient(per_datum, prior):
    """Return ∇V₀ + Σᵢ ∇Vᵢ, (d,)."""
    return prior + per_datum.sum(axis=0)


def batch_covariance(per_datum, batch_size, replace):
    """Return the covariance (d, d) of the plain stochastic gradient by its closed form.

    (n²/b) S with replacement, (n²/b) S (n − b)/(n − 1) without; S divides by n.
    """
    n = len(per_datum)
    centred = per_datum - per_datum.mean(axis=0)
    covariance = n**2 / batch_size * (centred.T @ centred) / n
    return covariance if replace else covariance * (n - batch_size) / (n - 1)


def mean_and_covariance(values, probabilities):
    """Return the mean (d,) and covariance (d, d) of a law on finitely many values (N, d)."""
    mean = probabilities @ values
    centred = values - mean
    return mean, centred.T @ (probabilities[:, None] * centred)


def normal_prior(position, scale):
    """∇V₀ of N(0, scale² I), flattened; zero for an infinite scale."""
    return np.ravel(position) / scale**2


def gaussian_location(mean, x, noise_scale):
    """Vᵢ = ‖xᵢ − m‖²/2s²."""
    return (mean - x) / noise_scale**2


def linear_regression(w, x, y, noise_scale):
    """Vᵢ = (yᵢ − xᵢᵀw)²/2s²."""
    return np.stack([-(y_i - x_i @ w) * x_i / noise_scale**2 for x_i, y_i in zip(x, y, strict=True)])


def logistic_regression(w, x, y):
    """Vᵢ = log(1 + exp(−s)) with s = xᵢᵀw for label 1 and −xᵢᵀw for label 0."""
    gradients = []
    for x_i, y_i in zip(x, y, strict=True):
        probability = 1 / (1 + math.exp(-(x_i @ w)))
        gradients.append((probability - y_i) * x_i)
    return np.stack(gradients)


def softmax_regression(w, x, y):
    """Vᵢ = log Σ_k exp(xᵢᵀw_k) − xᵢᵀw_{yᵢ}, w of shape (d, k)."""
    gradients = []
    for x_i, y_i in zip(x, y, strict=True):
        probabilities = np.exp(x_i @ w) / np.exp(x_i @ w).sum()
        probabilities[y_i] -= 1
        gradients.append(np.outer(x_i, probabilities).ravel())
    return np.stack(gradients)


def normal_with_unknown_scale(log_scale, mean, x):
    """Vᵢ = d·s + exp(−2s)‖xᵢ − m‖²/2 in (s, m), s first."""
    by_scale = x.shape[1] - math.exp(-2 * log_scale) * np.sum((x - mean) ** 2, axis=1)
    return np.column_stack([by_scale, math.exp(-2 * log_scale) * (mean - x)])
