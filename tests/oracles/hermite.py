"""The stationary law of a chain near a Gaussian, in Hermite polynomials; NumPy float64, nothing of
ewsg_jax.

With ψ_i the polynomials orthonormal under the Gaussian π₀ and the density ρ = π₀ Σ cᵢψᵢ,
stationarity says Σᵢ cᵢ (E_π₀[ψᵢ Pψ_j] − δᵢⱼ) = 0 for every j, P the chain's expectation over one
step. Expectations are Gauss–Hermite sums; what is cut off is the polynomials above a degree.
"""

import itertools
import math

import numpy as np
from numpy.polynomial import hermite_e


def rule(nodes):
    """Return nodes and weights of expectations under N(0, 1)."""
    x, weights = hermite_e.hermegauss(nodes)
    return x, weights / weights.sum()


def exponents(dimension, degree):
    """Every tuple of `dimension` exponents that add up to `degree` or less, the zeros first."""
    listed = itertools.product(range(degree + 1), repeat=dimension)
    return sorted((e for e in listed if sum(e) <= degree), key=lambda e: (sum(e), e))


def polynomials(z, listed):
    """Values of the orthonormal polynomials at standardised points, (points, polynomials)."""
    degree = max(map(max, listed))
    one = [hermite_e.hermevander(z[:, k], degree) for k in range(z.shape[1])]
    scale = np.sqrt([math.factorial(k) for k in range(degree + 1)])
    return np.stack(
        [
            np.prod([one[k][:, e] / scale[e] for k, e in enumerate(exponent)], axis=0)
            for exponent in listed
        ],
        axis=1,
    )


def stationary(steps, mean, deviation, degree, nodes, noise_nodes):
    """Return `expectation(f)` under the stationary law of z' = step(z, ξ), ξ ~ N(0, 1), one of the
    steps by chance.

    Args:
        steps: equally probable; each maps points (N, k) and noises (N,) to points (N, k).
        mean: of the Gaussian that the law is near, (k,).
        deviation: its standard deviations, (k,).
        degree: of the polynomials.
        nodes: of the expectations over each coordinate.
        noise_nodes: of those over ξ.
    """
    mean, deviation = np.asarray(mean), np.asarray(deviation)
    x, w = rule(nodes)
    standard = np.stack([g.ravel() for g in np.meshgrid(*[x] * len(mean), indexing="ij")], axis=1)
    weights = np.prod(
        np.stack([g.ravel() for g in np.meshgrid(*[w] * len(mean), indexing="ij")]), axis=0
    )
    points = mean + deviation * standard
    listed = exponents(len(mean), degree)
    before = polynomials(standard, listed)
    after = sum(
        weight
        / len(steps)
        * polynomials((step(points, np.full(len(points), xi)) - mean) / deviation, listed)
        for xi, weight in zip(*rule(noise_nodes), strict=True)
        for step in steps
    )
    matrix = (before * weights[:, None]).T @ after - np.eye(len(listed))
    # The first equation, j = 0, says nothing: P1 = 1.
    rest = np.linalg.lstsq(matrix[1:, 1:].T, -matrix[0, 1:], rcond=None)[0]
    density = before @ np.append(1.0, rest)
    return lambda f: float(np.sum(weights * density * f(points)))
