"""The linear program of EWSG's Theorem 4.1, on the host: min Σ pₖ‖bₖ‖² over laws p with Σ pₖ bₖ = 0."""

import numpy as np


def least_variance_law(deviations: np.ndarray) -> np.ndarray:
    """Return p, shape (…, N), of deviations b, shape (…, N, d), whose mean over N is 0: one program for each.

    A vertex of the feasible set: at most d + 1 of the N are not 0. NaN where a deviation is not finite.
    """
    deviations = np.asarray(deviations)
    flat = deviations.reshape(-1, *deviations.shape[-2:])
    laws = np.array([_law(one.astype(np.float64)) for one in flat])
    return laws.reshape(deviations.shape[:-1]).astype(deviations.dtype)


def _law(b: np.ndarray) -> np.ndarray:
    from scipy.optimize import linprog  # it takes as long to import as this library

    count, d = b.shape
    if not np.isfinite(b).all():
        return np.full(count, np.nan)
    sizes = np.abs(b).max(axis=0)
    scaled = b / np.where(sizes > 0, sizes, 1)
    cost = np.sum((b / max(sizes.max(), np.finfo(float).tiny)) ** 2, axis=1)
    equations, right = np.vstack([np.ones(count), scaled.T]), np.append(1.0, np.zeros(d))
    # The dual simplex method ends at a vertex; an interior one would not.
    found = linprog(cost, A_eq=equations, b_eq=right, bounds=(0, None), method="highs-ds")
    if found.x is None:
        return np.full(count, np.nan)
    # The solver meets the equations to 1e-7: on the batches that it chose they are solved to rounding.
    support = np.sort(np.argsort(-found.x, kind="stable")[: d + 1])
    support = support[found.x[support] > 1e-12]
    exact = np.linalg.lstsq(equations[:, support], right, rcond=None)[0]
    law = np.zeros(count)
    law[support] = np.maximum(exact, 0)
    return law / law.sum()
