"""Every minibatch of a small data set, and gradients typed by hand.

NumPy in float64, importing nothing of ewsg_jax: a test that compares with it shares no code with
the library. V = V₀ + Σᵢ Vᵢ with V₀ = −log prior and Vᵢ = −log likelihood of datum i. Per-datum
gradients come back as an array (n, d) whose row i is ∇Vᵢ, flattened.
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
    return np.stack(
        [-(y_i - x_i @ w) * x_i / noise_scale**2 for x_i, y_i in zip(x, y, strict=True)]
    )


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


def two_layer_network(first, second, x, y):
    """Vᵢ = (tanh(xᵢᵀA)·c − yᵢ)²/2 in (A, c), A first."""
    gradients = []
    for x_i, y_i in zip(x, y, strict=True):
        hidden = np.tanh(x_i @ first)
        residual = hidden @ second - y_i
        by_first = residual * np.outer(x_i, second * (1 - hidden**2))
        gradients.append(np.concatenate([by_first.ravel(), residual * hidden]))
    return np.stack(gradients)


# Variance reduction: gradients by their difference to references α, one row of an array (n, d) for
# each datum.


def reduced_gradients(per_datum, references, prior, listed):
    """Return ∇V₀ + (n/b) Σ_{i∈I} (∇Vᵢ − αᵢ) + Σᵢ αᵢ for every batch I listed, (N, d)."""
    return (
        prior
        + len(per_datum) * (per_datum - references)[listed].mean(axis=1)
        + references.sum(axis=0)
    )


# Blocks.


def blocks(n, batch_size):
    """Return the n blocks of b consecutive rows, the first row following on the last, (n, b)."""
    return np.array([[(start + k) % n for k in range(batch_size)] for start in range(n)])


def block_covariance(per_datum, batch_size):
    """Return the covariance of (n/b) Σ ∇Vᵢ over a block: (n²/b) Σ_{|m|<b} (1 − |m|/b) C_m.

    C_m is the circular autocovariance, the mean of δᵢ δᵢ₊ₘᵀ with δ the centred gradients.
    """
    n, b = len(per_datum), batch_size
    centred = per_datum - per_datum.mean(axis=0)
    terms = [
        (1 - abs(m) / b) * centred.T @ np.roll(centred, -m, axis=0) / n for m in range(1 - b, b)
    ]
    return n**2 / b * sum(terms)


# Strata.


def stratified_batches(labels, seats):
    """Return all batches of seats[c] rows a stratum, with replacement, (N, b), and strata."""
    strata = np.repeat(np.arange(len(seats)), seats)
    return np.array(list(itertools.product(*[np.flatnonzero(labels == c) for c in strata]))), strata


def stratified_covariance(per_datum, labels, seats):
    """Return Σ_c (n_c²/b_c) S_c, S_c the covariance within the stratum (divided by n_c)."""
    total = 0.0
    for c in np.unique(labels):
        rows = per_datum[labels == c]
        centred = rows - rows.mean(axis=0)
        total = total + len(rows) ** 2 / seats[c] * (centred.T @ centred) / len(rows)
    return total


def one_each_then_greedy(sizes, num_seats):
    """Return seats: one to each stratum that is not empty, then one by one to the one furthest
    below its quota.

    In whole numbers: n times what is lacking of the quota b·n_c/n.
    """
    n, seats = sum(sizes), [int(size > 0) for size in sizes]
    while sum(seats) < num_seats:
        lacking = [
            num_seats * size - n * seat if size else -math.inf
            for size, seat in zip(sizes, seats, strict=True)
        ]
        seats[lacking.index(max(lacking))] += 1
    return seats


def largest_remainder(sizes, num_seats):
    """Return seats by the largest remainder (Hamilton), the first of equal ones first."""
    n = sum(sizes)
    seats = [num_seats * size // n for size in sizes]
    by_remainder = sorted(range(len(sizes)), key=lambda c: (-(num_seats * sizes[c] % n), c))
    for c in by_remainder[: num_seats - sum(seats)]:
        seats[c] += 1
    return seats


# Tracked covariance: EWSG-VR, Algorithm 2, with the `else` of its listing taken out and ω ← θ put
# in.


def moments(per_datum):
    """Return m₁ = E[n∇V_I] = Σ∇Vᵢ, (d,), and m₂ = E[n²∇V_I∇V_Iᵀ] = nΣ∇Vᵢ∇Vᵢᵀ, (d, d)."""
    return per_datum.sum(axis=0), len(per_datum) * per_datum.T @ per_datum


def moved_moments(first, second, here, there, rows):
    """Return both after a batch's rows: lines 16, 17, `here` ∇Vᵢ(θ), `there` ∇Vᵢ(ω) of all."""
    n = len(here)
    for i in rows:
        first = first + here[i] - there[i]
        second = second + n * np.outer(here[i], here[i]) - n * np.outer(there[i], there[i])
    return first, second


def covariance_of_moments(first, second, n, batch_size, replace):
    """Return (m₂ − m₁m₁ᵀ)/b, times (n − b)/(n − 1) for subsets: line 18 for batches."""
    covariance = (second - np.outer(first, first)) / batch_size
    return covariance if replace else covariance * (n - batch_size) / (n - 1)


def without_negative_part(matrix):
    """Return the nearest matrix without negative eigenvalues."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0)) @ vectors.T
