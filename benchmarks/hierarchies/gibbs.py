"""Draws of a regression under a horseshoe, by many Gibbs chains whose conditionals are closed.

A half Cauchy number has an inverse-gamma square given an inverse-gamma number of its own, so that
all conditionals are inverse gamma or normal (Makalic & Schmidt 2016, A simple sampler for the
horseshoe estimator).
"""

import numpy as np

from benchmarks.hierarchies.model import Draws

CHAINS, BURN_IN, EVERY = 400, 500, 25
"""Chains; steps before the first draw, and from one draw to the next."""


def horseshoe_regression_draws(
    rng: np.random.Generator, count: int, x: np.ndarray, y: np.ndarray, width: float
) -> Draws:
    """Return draws of y ~ N(x b, 1), b ~ N(0, (tau lambda)²), lambda ~ C⁺(1), tau ~ C⁺(width)."""
    design = np.asarray(x, float)
    d = design.shape[1]
    gram, linear = design.T @ design, design.T @ np.asarray(y, float)
    local, shared = np.ones((CHAINS, d)), np.full(CHAINS, width**2)
    kept = []
    num_draws = -(-count // CHAINS)
    for step in range(BURN_IN + EVERY * num_draws):
        scale = shared[:, None] * local
        precision = gram + np.einsum("ci,ij->cij", 1 / scale, np.eye(d))
        factor = np.linalg.cholesky(precision)
        mean = np.linalg.solve(precision, np.broadcast_to(linear[:, None], (CHAINS, d, 1)))[..., 0]
        noise = rng.standard_normal((CHAINS, d, 1))
        b = mean + np.linalg.solve(np.swapaxes(factor, 1, 2), noise)[..., 0]
        auxiliary = rng.gamma(1.0, 1 / (1 + 1 / local))
        local = 1 / rng.gamma(1.0, 1 / (auxiliary + 0.5 * b**2 / shared[:, None]))
        of_shared = rng.gamma(1.0, 1 / (1 / width**2 + 1 / shared))
        rate = of_shared + 0.5 * np.sum(b**2 / local, axis=1)
        shared = 1 / rng.gamma((d + 1) / 2, 1 / rate)
        if step >= BURN_IN and (step - BURN_IN) % EVERY == EVERY - 1:
            kept.append(
                {"b": b, "log_lambda": 0.5 * np.log(local), "log_tau": 0.5 * np.log(shared)}
            )
    draws = {name: np.concatenate([each[name] for each in kept]) for name in kept[0]}
    order = rng.permutation(len(draws["b"]))[:count]
    return {name: leaf[order] for name, leaf in draws.items()}
