"""The index chain of exponentially weighted gradients (EWSG Algorithm 1, eq. 4) as a transition
matrix.

NumPy in float64, importing nothing of ewsg_jax. `w` are the log weights of the N equally probable
batches.
"""

import numpy as np


def log_weights(gradients, momentum, step_size, friction, temperature, frozen_noise):
    """Return ½‖x + √h g/σ‖² for each row g of `gradients`, σ² = 2γT: EWSG section 4.2.

    `frozen_noise` is one of the four x of Fig. 1b, "momentum", "zero", "one" and "rest", or x
    itself.
    """
    h, sigma = step_size, np.sqrt(2 * friction * temperature)
    if not isinstance(frozen_noise, str):
        x = frozen_noise
    elif frozen_noise == "momentum":
        x = np.sqrt(h) * friction * momentum / sigma
    elif frozen_noise == "rest":
        x = (-1 + h * friction) * momentum / (sigma * np.sqrt(h))
    else:
        x = {"zero": 0.0, "one": 1.0}[frozen_noise] * np.ones_like(momentum)
    return np.array([0.5 * np.sum((x + np.sqrt(h) / sigma * g) ** 2) for g in gradients])


def acceptance(w):
    """Return min(1, exp(w_j − w_i)) at (i, j)."""
    return np.exp(np.minimum(0, w[None, :] - w[:, None]))


def transition_matrix(w):
    """Return P of one visit: propose any of the N batches uniformly, accept or stay."""
    n = len(w)
    p = acceptance(w) / n
    np.fill_diagonal(p, 0)
    return p + np.diag(1 - p.sum(axis=1))


def law(w, chain_length):
    """Return the law of the batch after a uniform start and M visits."""
    uniform = np.full(len(w), 1 / len(w))
    return uniform @ np.linalg.matrix_power(transition_matrix(w), chain_length)


def exact_law(w):
    """Return eq. 4: p ∝ exp(w)."""
    p = np.exp(w - w.max())
    return p / p.sum()
