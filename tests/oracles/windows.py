"""The law of SGLD on a normal mean, its data seen through windows: NumPy, no sampling.

Rows x₁ … x_N of variance 1 around θ, a flat prior: V = ½ Σ (θ − xᵢ)², of which the posterior is
N(x̄, 1/N). A step is θ' = ρ θ + (1 − ρ) (mean of a batch) + √(2h) ξ with ρ = 1 − hN. Over a window
with mean u the drift is towards u for s steps, W windows are an epoch of T = Ws steps, and each
epoch has its own uniform order. Added up over a run:

    variance = (2h + (hN)² S/b) / (1 − ρ²)  +  the mean over an epoch's steps of Var(μ_t)

S being the mean variance of rows within windows and μ_t = (1 − ρ) Σ_k ρᵏ u(t − 1 − k), a linear
function of the orders: windows of one epoch have the covariance −τ²/(W − 1), of two epochs none, τ²
the variance of their means.
"""

import numpy as np


def of_order(weights: np.ndarray) -> np.ndarray:
    """The variance of Σⱼ cⱼ u_π(j) over uniform orders π of W numbers of variance 1."""
    count = weights.shape[-1]
    if count == 1:
        return np.zeros(weights.shape[:-1])
    return (
        (np.sum(weights**2, axis=-1) - np.sum(weights, axis=-1) ** 2 / count) * count / (count - 1)
    )


def response(rho: float, count: int, held: int) -> np.ndarray:
    """What each window of an epoch adds to μ after t = 1 … T steps of it, shape (T, W)."""
    steps = np.arange(1, count * held + 1)[:, None]
    first = np.arange(count) * held
    ended = np.clip(steps - first - held, 0, None)
    # Σ of (1 − ρ) ρ^age over the steps since the window began, but for those after it ended
    return np.where(steps > first, rho**ended - rho ** np.clip(steps - first, 0, None), 0.0)


def added(rho: float, count: int, held: int) -> float:
    """What windows add to the variance, on average over a run, in units of τ²."""
    weights = response(rho, count, held)
    times = np.arange(1, count * held + 1)
    start = of_order(weights[-1]) / (1 - rho ** (2 * count * held))
    return float(np.mean(rho ** (2 * times) * start + of_order(weights)))


def variance(
    rho: float, num_rows: int, batch_size: int, count: int, held: int, within: float, between: float
) -> float:
    """The variance of θ over a run: rows with `within` windows, whose means have `between`."""
    h = (1 - rho) / num_rows
    return (2 * h + (1 - rho) ** 2 * within / batch_size) / (1 - rho**2) + added(
        rho, count, held
    ) * between


def share_added(heat: float, count: int, passes: float, most: int = 1_000) -> float:
    """What windows add to the variance over the posterior's, where small steps on batches add
    `heat`.

    N/b rows make a heat of hN²/2b; the windows' means have the variance (1/m − 1/N) of random rows,
    and are held for `passes` · m/b steps. Steps are taken together where there are more than `most`
    in a window.
    """
    relaxations = 2 * heat * passes / count
    held = int(np.clip(relaxations * 100, 50, most))
    return added(float(np.exp(-relaxations / held)), count, held) * (count - 1)
