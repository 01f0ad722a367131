"""The joint law of FlyMC (Maclaurin & Adams 2015, eq. 2), its bounds, and quadrature of its
marginal.

NumPy in float64, importing nothing of ewsg_jax. Every model is `(log_likelihoods(θ), log_bounds(θ,
c))`, arrays (n,), as functions of a position alone.
"""

import itertools

import numpy as np


def logistic_regression(x, y):
    """P(y) with labels t = ±1 and the bound of Jaakkola & Jordan (1997) at s = t xᵀθ."""
    t = 2 * np.asarray(y, float) - 1

    def log_sigmoid(s):
        return -np.logaddexp(0, -s)

    def log_likelihoods(theta):
        return log_sigmoid(t * (x @ theta))

    def log_bounds(theta, center):
        s, zeta = t * (x @ theta), t * (x @ center)
        safe = np.where(zeta == 0, 1, zeta)
        curvature = np.where(zeta == 0, 1 / 8, np.tanh(safe / 2) / (4 * safe))
        return log_sigmoid(zeta) + (s - zeta) / 2 - curvature * (s**2 - zeta**2)

    return log_likelihoods, log_bounds


def softmax_regression(x, y):
    """P(y) ∝ exp(xᵀw_y), θ (d, K), and Böhning's bound (1992) with A = ½(I − 11ᵀ/K)."""
    rows = np.arange(len(y))

    def log_normaliser(logits):
        top = logits.max(axis=1)
        return top + np.log(np.exp(logits - top[:, None]).sum(axis=1))

    def log_likelihoods(theta):
        return (x @ theta)[rows, y] - log_normaliser(x @ theta)

    def log_bounds(theta, center):
        k = theta.shape[1]
        a = 0.5 * (np.eye(k) - np.ones((k, k)) / k)
        psi, delta = x @ center, x @ (theta - center)
        p = np.exp(psi - log_normaliser(psi)[:, None])
        upper = (
            log_normaliser(psi)
            + np.sum(p * delta, axis=1)
            + 0.5 * np.einsum("ik,kl,il->i", delta, a, delta)
        )
        return (x @ theta)[rows, y] - upper

    return log_likelihoods, log_bounds


def normal(x):
    """N(μ, σ²) at θ = (μ, log σ), up to a constant, and its second Taylor polynomial at c.

    The polynomial is no bound: that is it less a bound of the remainder.
    """

    def log_likelihoods(theta):
        return -theta[1] - 0.5 * (x - theta[0]) ** 2 * np.exp(-2 * theta[1])

    def taylor(theta, center):
        a, b = theta - center
        r, w = x - center[0], np.exp(-2 * center[1])
        gradient = a * r * w + b * (r**2 * w - 1)
        hessian = -w * a**2 - 4 * r * w * a * b - 2 * r**2 * w * b**2
        return log_likelihoods(center) + gradient + hessian / 2

    return log_likelihoods, taylor


def odds(model, theta, center, temperature=1.0):
    """Return (Lᵢ/Bᵢ)^(1/T) − 1, the odds of being bright."""
    log_likelihoods, log_bounds = model
    return np.expm1((log_likelihoods(theta) - log_bounds(theta, center)) / temperature)


def log_joint(model, log_prior, theta, z, center, temperature=1.0):
    """Return log p(θ, z) up to a constant: p₀ Π Bᵢ^(1−zᵢ) (Lᵢ − Bᵢ)^zᵢ, each to 1/T."""
    log_likelihoods, log_bounds = model
    likelihoods = np.exp(log_likelihoods(theta) / temperature)
    bounds = np.exp(log_bounds(theta, center) / temperature)
    factors = np.where(z, likelihoods - bounds, bounds)
    return log_prior(theta) / temperature + np.sum(np.log(factors))


def sets(n):
    """Return all 2ⁿ bright sets as rows of booleans."""
    return np.array(list(itertools.product([False, True], repeat=n)))


def at_most(probabilities, capacity):
    """Return P(at most `capacity` successes) of independent trials with these probabilities."""
    law = np.zeros(capacity + 1)
    law[0] = 1
    for p in probabilities:
        law[1:] = law[1:] * (1 - p) + law[:-1] * p
        law[0] *= 1 - p
    return law.sum()


def on_grid(axes, log_density):
    """Return the points of a grid and the density's weights there, by the trapezoidal rule."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    values = np.array([log_density(point) for point in points])
    weights = np.exp(values - values.max())
    return points, weights / weights.sum()


def moments(points, weights):
    """Return mean and covariance of weighted points."""
    mean = weights @ points
    return mean, (points - mean).T @ (weights[:, None] * (points - mean))
