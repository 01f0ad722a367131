"""Exact stationary laws on a strongly convex quadratic: second moments of a coordinate under each
estimator.

Of n rows a random half know of a coordinate, Vᵢ = λ(θ − xᵢ)², xᵢ of variance 1/2λ and mean 0: the
posterior is N(0, 1/Λ), Λ = nλ, and curvatures of rows vary by as much as their mean. An estimate at
θ has the variance

    plain (n²/b)(λ + λ²θ²);  control variate at 0 (n²/b) λ²θ²;  SVRG (n²/b) λ²(θ − w)²

and SAGA's follows from the ages of rows. Second moments are closed under every step, x' = M x + k:
those of θ (and momentum), of an anchor, or of all distances to a table. Batches are drawn with
replacement.
"""

from typing import NamedTuple

import numpy as np

UNDERDAMPED_FRICTION = 2.0


class Law(NamedTuple):
    """What a method does at each step size.

    Attributes:
        variance: of θ, NaN where there is no stationary law.
        rate: −log of the factor by which a distance of means shrinks in a step.
    """

    variance: np.ndarray
    rate: np.ndarray


def _solved(matrix: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return the fixed points of x' = M x + k, shape (step, number), NaN where M is not a
    contraction.
    """
    finite = np.isfinite(matrix.sum((1, 2)) + source.sum(1))
    radius = np.abs(np.linalg.eigvals(np.nan_to_num(matrix))).max(-1)
    stable = np.flatnonzero(finite & (radius < 1))
    found = np.full(source.shape, np.nan)
    found[stable] = np.linalg.solve(
        np.eye(source.shape[1]) - matrix[stable], source[stable][..., None]
    )[..., 0]
    return found


def langevin(
    h: np.ndarray, n: int, lam: float, b: int | None, noise: float, has_center: bool
) -> Law:
    """Return that of θ' = θ − h g + √(2h) ξ.

    Args:
        h: steps, shape (step,).
        n: rows.
        lam: λ.
        b: rows in a batch, None for all.
        noise: 1 with batches, 0 without.
        has_center: whether the estimate is centred at 0.
    """
    s, spread = h * n * lam, noise * n**2 / (b or n)
    fixed = 0.0 if has_center else spread * lam
    matrix = (1 - s) ** 2 + h**2 * spread * lam**2
    source = 2 * h + h**2 * fixed
    return Law(_solved(matrix[:, None, None], source[:, None])[:, 0], -np.log(np.abs(1 - s)))


def underdamped(
    h: np.ndarray, n: int, lam: float, b: int | None, noise: float, has_center: bool
) -> Law:
    """Return that of the exact step for a frozen gradient, friction 2, inverse mass 1/n; as
    `langevin`.
    """
    gamma, u, one = UNDERDAMPED_FRICTION, 1 / n, np.ones_like(h)
    lost = -np.expm1(-gamma * h)
    pull = np.stack([u / gamma * (h - lost / gamma), u / gamma * lost], -1)
    moved = np.stack(
        [one - pull[:, 0] * n * lam, lost / gamma, -pull[:, 1] * n * lam, 1 - lost], -1
    ).reshape(-1, 2, 2)
    # 2γh − 3 + 4e − e², e = 1 − lost, loses digits where h is small.
    series = np.where(
        gamma * h < 1e-2,
        (gamma * h) ** 3 * (2 / 3 - gamma * h / 2),
        2 * (gamma * h - lost) - lost**2,
    )
    var, cross, speed = u / gamma**2 * series, u / gamma * lost**2, u * (1 - (1 - lost) ** 2)
    spread = noise * n**2 / (b or n)
    fixed = 0.0 if has_center else spread * lam
    kicks = np.einsum("hi,hj->hij", pull, pull).reshape(-1, 4)
    matrix = np.einsum("hij,hkl->hikjl", moved, moved).reshape(-1, 4, 4)
    matrix[:, :, 0] += kicks * spread * lam**2
    source = np.stack([var, cross, cross, speed], -1) + kicks * fixed
    radius = np.abs(np.linalg.eigvals(moved)).max(-1)
    return Law(_solved(matrix, source)[:, 0], -np.log(radius))


def svrg(h: np.ndarray, n: int, lam: float, b: int, period: int, option: str) -> Law:
    """Return that of Langevin with an anchor, over all K steps after it was set.

    Second moments are those of θθ, θw and ww. Option II sets w ← θ; option I takes both to one of K
    points.
    """
    s, zero, one = h * n * lam, np.zeros_like(h), np.ones_like(h)
    heat = h**2 * n**2 / b * lam**2
    step = [
        (1 - s) ** 2 + heat,
        -2 * heat,
        heat,
        2 * h,
        zero,
        1 - s,
        zero,
        zero,
        zero,
        zero,
        one,
        zero,
    ]
    step = np.stack([*step, zero, zero, zero, one], -1).reshape(-1, 4, 4)
    block = np.zeros((len(h), 8, 8))
    block[:, :4, :4], block[:, 4:, :4], block[:, 4:, 4:] = step, step, np.eye(4)
    with np.errstate(all="ignore"):
        power = np.linalg.matrix_power(block, period)
        end, mean = power[:, 0, :4], power[:, 4, :4] / period
        kept = mean if option == "I" else end
        start = _solved(kept[:, None, None, :3].sum(-1), kept[:, 3:])[:, 0]
        variance = mean[:, :3].sum(1) * start + mean[:, 3]
        # 1 − s over an epoch, or averaged over it.
        shrunk = (1 - s) * -np.expm1(period * np.log1p(-np.minimum(s, 1))) / (period * s)
        rate = -np.log(shrunk) / period if option == "I" else -np.log(np.abs(1 - s))
    return Law(variance, rate)


def saga(h: np.ndarray, n: int, lam: float, b: int) -> Law:
    """Return that of Langevin with a table of gradients.

    With δᵢ = θ − φᵢ for the m = n/2 rows that know of it, r = 2hλ, cᵢ how often a batch holds row
    i, k = (n/b) c:

        θ' = θ − r(mθ + Σ(kᵢ − 1)δᵢ) + ξ,   δᵢ' = [cᵢ = 0] δᵢ − r(mθ + Σ(kⱼ − 1)δⱼ) + ξ

    Second moments are E θ², E θδᵢ, E δᵢ² and E δᵢδⱼ, the same for all rows.
    """
    m, r, s = n // 2, 2 * h * lam, h * n * lam
    none, neither = (1 - 1 / n) ** b, (1 - 2 / n) ** b
    own, pair = n**2 / b**2 * (b / n) * (1 - 1 / n), -(n**2) / b**2 * b / n**2
    # E[(kᵢ − 1)[cⱼ = 0]], j = i and not.
    same, other = -none, (n / b) * none * b / (n - 1) - none
    zero, one = np.zeros_like(h), np.ones_like(h)
    batch = r[:, None] ** 2 * np.array([0, 0, m * own, m * (m - 1) * pair])
    mixed = -r[:, None] * np.array([0, 0, same, (m - 1) * other])
    rows = [
        np.stack([(1 - s) ** 2, zero, zero, zero], -1) + batch,
        np.stack([-(1 - s) * s, (1 - s) * none, zero, zero], -1) + batch + mixed,
        np.stack([s**2, -2 * s * none, none * one, zero], -1) + batch + 2 * mixed,
        np.stack([s**2, -2 * s * none, zero, neither * one], -1) + batch + 2 * mixed,
    ]
    found = _solved(np.stack(rows, 1), np.repeat(2 * h[:, None], 4, axis=1))
    return Law(found[:, 0], -np.log(np.abs(1 - s)))
