"""Stationary laws of linear recursions whose gradient has a memory, in NumPy float64 alone.

The state is s = (z, m): z = (θ, p), or θ alone for Langevin, and the memory m of the estimator.
Each step is an affine map of s chosen by its batch. Everything here is typed from the equations of
the methods, nothing is computed with the library.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.oracles import lyapunov
from tests.oracles.lyapunov import Matrix, Step

Batches = Iterable[Iterable[int]]


class Rows(NamedTuple):
    """Rows with ∇Vᵢ = Bᵢ aᵢ(θ), aᵢ(θ) = Fᵢ θ − fᵢ, and ∇V₀ = prior θ.

    aᵢ is what a table keeps of a row: of a linear model its derivative by the predictor, else ∇Vᵢ
    itself.
    """

    basis: Matrix  # B, (n, d, q)
    slope: Matrix  # F, (n, q, d)
    offset: Matrix  # f, (n, q)
    prior: Matrix  # (d, d)

    @property
    def hessians(self) -> Matrix:
        """Hᵢ = BᵢFᵢ, (n, d, d)."""
        return self.basis @ self.slope

    @property
    def constants(self) -> Matrix:
        """kᵢ = Bᵢfᵢ, (n, d): ∇Vᵢ = Hᵢθ − kᵢ."""
        return np.einsum("ndq,nq->nd", self.basis, self.offset)

    @property
    def precision(self) -> Matrix:
        """The Hessian of V."""
        return self.prior + self.hessians.sum(0)

    @property
    def mean(self) -> Matrix:
        """The mean of the posterior, where ∇V = 0."""
        return np.linalg.solve(self.precision, self.constants.sum(0))


def linear_regression(x: Matrix, y: Matrix, noise_scale: float, prior_scale: float) -> Rows:
    """Vᵢ = (xᵢᵀθ − yᵢ)²/2s²: its derivative by the predictor is (xᵢᵀθ − yᵢ)/s²."""
    slope = x[:, None, :] / noise_scale**2
    return Rows(
        x[:, :, None], slope, y[:, None] / noise_scale**2, np.eye(x.shape[1]) / prior_scale**2
    )


def gaussian_location(x: Matrix, noise_scale: float) -> Rows:
    """Vᵢ = ‖θ − xᵢ‖²/2s², a flat prior: all rows have one curvature."""
    n, d = x.shape
    eyes = np.tile(np.eye(d), (n, 1, 1))
    return Rows(eyes, eyes / noise_scale**2, x / noise_scale**2, np.zeros((d, d)))


class Drift(NamedTuple):
    """A dynamics with any gradient: z' = free z − pull g + noise, g at the position point z."""

    free: Matrix
    pull: Matrix
    point: Matrix
    noise: Matrix


def drift(name: str, d: int, *numbers: float) -> Drift:
    """Take a linear dynamics apart; `numbers` as in `lyapunov.UPDATES`: (h, γ, T), or (h, T) for
    Langevin.

    With H = 0 the gradient of those updates is −k, whatever the state.
    """
    zero = np.zeros((d, d))
    update = lambda k: lyapunov.UPDATES[name](zero, k, *numbers)
    free = update(np.zeros(d))
    ahead = [[1.0, numbers[0] / 2]]
    point = {"langevin": [[1.0]], "splitting": ahead, "ABOBA": ahead}.get(name, [[1.0, 0.0]])
    pull = np.stack([update(k).shift for k in np.eye(d)], axis=1)
    return Drift(free.matrix, pull, np.asarray(np.kron(point, np.eye(d)), np.float64), free.noise)


def _step(
    of: Drift, gradient: Matrix, constant: Matrix, memory: Matrix, memory_shift: Matrix
) -> Step:
    """One step from g = gradient s − constant and m' = memory s + memory_shift."""
    dynamics = -of.pull @ gradient
    dynamics[:, : len(of.free)] += of.free
    noise = np.zeros((gradient.shape[1],) * 2)
    noise[: len(of.free), : len(of.free)] = of.noise
    return Step(
        np.concatenate([dynamics, memory]),
        np.concatenate([of.pull @ constant, memory_shift]),
        noise,
    )


def stratified(
    of: Drift, rows: Rows, strata: Sequence[Sequence[int]], seats: Sequence[int]
) -> list[Step]:
    """g = ∇V₀ + Σ_c (n_c/b_c) Σ_{i∈I_c} ∇Vᵢ, I_c any b_c rows of the stratum: all such batches, s =
    z.

    The last seat's row changes fastest.
    """
    places = [
        (row, len(rows_of) / b)
        for rows_of, b in zip(strata, seats, strict=True)
        for row in [rows_of] * b
    ]
    grid = np.meshgrid(*[row for row, _ in places], indexing="ij")
    weights = [weight for _, weight in places]
    steps = []
    for batch in np.stack([x.ravel() for x in grid], axis=1):
        H = rows.prior + np.tensordot(weights, rows.hessians[batch], 1)
        k = np.tensordot(weights, rows.constants[batch], 1)
        steps.append(_step(of, H @ of.point, k, np.zeros((0, len(of.free))), np.zeros(0)))
    return steps


def anchored(of: Drift, rows: Rows, batches: Batches, refresh: bool = False) -> list[Step]:
    """g = ∇V₀(θ) + (n/b) Σ_I (∇Vᵢ(θ) − ∇Vᵢ(w)) + G, s = (z, w, G): control variates, and SVRG
    between refreshes.

    With `refresh`, w ← θ and G ← Σᵢ ∇Vᵢ(w) come first (SVRG's option II).
    """
    n, d, size = len(rows.basis), len(rows.prior), len(of.free)
    eye, zero = np.eye(d), np.zeros((d, d))
    point = np.hstack([of.point, zero, zero])
    anchor = point if refresh else np.hstack([np.zeros((d, size)), eye, zero])
    total = rows.hessians.sum(0) @ point if refresh else np.hstack([np.zeros((d, size)), zero, eye])
    total_constant = rows.constants.sum(0) if refresh else np.zeros(d)
    memory, shift = np.concatenate([anchor, total]), np.concatenate([np.zeros(d), -total_constant])
    steps = []
    for batch in batches:
        H = n * np.mean([rows.hessians[i] for i in batch], axis=0)
        gradient = rows.prior @ point + H @ (point - anchor) + total
        steps.append(_step(of, gradient, total_constant, memory, shift))
    return steps


def saga(of: Drift, rows: Rows, batches: Batches) -> list[Step]:
    """g = ∇V₀(θ) + (n/b) Σ_I (∇Vᵢ(θ) − Bᵢαᵢ) + G; αᵢ ← aᵢ(θ), G too; s = (z, α₁, …, αₙ, G)."""
    (n, d, q), size = rows.basis.shape, len(of.free)
    eye = np.eye(size + n * q + d)
    point = of.point @ eye[:size]
    table, total = eye[size:-d].reshape(n, q, -1), eye[-d:]
    steps = []
    for batch in batches:
        batch = list(batch)
        # aᵢ(θ) − αᵢ = by[i] s − fᵢ.
        by = rows.slope @ point - table
        gradient = (
            rows.prior @ point + total + n * np.mean([rows.basis[i] @ by[i] for i in batch], axis=0)
        )
        constant = n * np.mean([rows.constants[i] for i in batch], axis=0)
        new_table = table.copy()
        table_shift = np.zeros((n, q))
        new_total = total.copy()
        total_shift = np.zeros(d)
        for i in set(batch):
            new_table[i], table_shift[i] = rows.slope[i] @ point, -rows.offset[i]
            new_total = new_total + rows.basis[i] @ by[i]
            total_shift = total_shift - rows.constants[i]
        memory = np.concatenate([new_table.reshape(n * q, -1), new_total])
        steps.append(
            _step(
                of, gradient, constant, memory, np.concatenate([table_shift.ravel(), total_shift])
            )
        )
    return steps


def substituted(steps: Sequence[Step], embedding: Matrix, offset: Matrix, size: int) -> list[Step]:
    """Return the steps of u, the first `size` numbers of s = embedding u + offset always."""
    return [
        Step((a @ embedding)[:size], (a @ offset + c)[:size], noise[:size, :size])
        for a, c, noise in steps
    ]


def with_fixed_anchor(steps: Sequence[Step], rows: Rows, size: int, center: Matrix) -> list[Step]:
    """Return the steps of z, of `size` numbers, at a centre c with G = Σᵢ ∇Vᵢ(c)."""
    total = rows.hessians.sum(0) @ center - rows.constants.sum(0)
    offset = np.concatenate([np.zeros(size), center, total])
    return substituted(steps, np.eye(len(offset), size), offset, size)


def with_sum_of_table(steps: Sequence[Step], rows: Rows, size: int) -> list[Step]:
    """Return the steps of (z, α), z of `size` numbers, with G = Σ Bᵢαᵢ."""
    n, d, q = rows.basis.shape
    total = np.hstack([np.zeros((d, size)), rows.basis.swapaxes(0, 1).reshape(d, n * q)])
    embedding = np.concatenate([np.eye(size + n * q), total])
    return substituted(steps, embedding, np.zeros(len(embedding)), size + n * q)


def periodic(cycle: Sequence[Sequence[Step]]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return mean and covariance before each stage of a cycle that repeats for ever.

    At each stage the step is one of its own list, all equally probable. As in
    `lyapunov.stationary`: with m and m' the means before and after, P' = E[Aᵢ P Aᵢᵀ] + E[dᵢdᵢᵀ +
    Qᵢ], dᵢ = Aᵢm + cᵢ − m'. The law before the first stage is the fixed point of the whole cycle.
    """
    stages = [[np.stack(part) for part in zip(*steps, strict=True)] for steps in cycle]
    size = stages[0][0].shape[-1]
    matrix, shift = np.eye(size), np.zeros(size)
    for matrices, shifts, _ in stages:
        matrix, shift = matrices.mean(0) @ matrix, matrices.mean(0) @ shift + shifts.mean(0)
    means = [np.linalg.solve(np.eye(size) - matrix, shift)]
    for matrices, shifts, _ in stages:
        means.append(matrices.mean(0) @ means[-1] + shifts.mean(0))

    def source(stage: int) -> Matrix:
        matrices, shifts, noises = stages[stage]
        deviations = matrices @ means[stage] + shifts - means[stage + 1]
        return np.mean(deviations[:, :, None] * deviations[:, None, :] + noises, axis=0)

    whole, constant = np.eye(size**2), np.zeros(size**2)
    for stage, (matrices, _, _) in enumerate(stages):
        second = np.mean([np.kron(a, a) for a in matrices], axis=0)
        whole, constant = second @ whole, second @ constant + source(stage).ravel()
    radius = np.max(np.abs(np.linalg.eigvals(whole)))
    assert radius < 1, f"no stationary law: the spectral radius is {radius}"
    covariances = [np.linalg.solve(np.eye(size**2) - whole, constant).reshape(size, size)]
    for stage, (matrices, _, _) in enumerate(stages[:-1]):
        moved = np.mean(matrices @ covariances[-1] @ matrices.swapaxes(1, 2), axis=0)
        covariances.append(moved + source(stage))
    return list(zip(means[:-1], covariances, strict=True))


# Closed forms in one dimension.


def control_variate_variances(
    name: str, lam: float, spread: float, distance: float, h: float, *gamma_and_T: float
) -> NDArray[np.float64]:
    """Return the covariance of z with control variates around a centre at `distance` from the
    posterior's mean.

    With curvatures λᵢ that sum to λ (a prior's not counted: its gradient is exact) the estimate's
    variance at θ is N (θ − c)², N = `spread` = (n²/b) Var λᵢ, times (n − b)/(n − 1) for subsets. It
    enters where ξ does: with P the closed form of the full gradient at T = 1, the law is P times a
    temperature that solves

        τ = T + (h/2γ) N (τ P_point + distance²),   P_point the variance where the gradient is taken

    with γ = 1 in it for Langevin.
    """
    *gamma, T = gamma_and_T
    at_one = lyapunov.CLOSED_FORMS[name](lam, h, *gamma, 1.0)
    where = np.array({"langevin": [1.0], "splitting": [1.0, h / 2]}.get(name, [1.0, 0.0]))
    heat = h * spread / (2 * (gamma[0] if gamma else 1.0))
    return (T + heat * distance**2) / (1 - heat * where @ at_one @ where) * at_one


def saga_location_variance(n: int, lam: float, h: float, T: float) -> float:
    """Return Var θ of Langevin with SAGA, b = 1, on rows of one curvature λ/n, along each axis.

    Row i was last seen at φᵢ: g = λ (θ + φ̄ − φ_I − x̄), so the table's ages leave noise although
    all curvatures are equal. Var φᵢ = Var θ = V, Cov(φᵢ, φⱼ) = Cov(θ, φᵢ) = V − D, s = hλ and c = 1
    − 1/n give

        V = (1 − s)² V + s² c D + 2hT,   D = s V / (1/n + c² s)
    """
    s, c = h * lam, 1 - 1 / n
    return 2 * T / lam / (2 - s - s**2 * c / (1 / n + c**2 * s))


# What the batches add to Var θ, relative to the law of the full gradient, to leading order in h:
# (constant, order).
#
# An estimate's noise of variance h² N D enters each step beside 2hT (Langevin) or 2γhT. D, the mean
# square of how far θ is from where a row was last seen, grows with the age a of that sight: 2hT a
# for Langevin, T (ha)² for the underdamped dynamics. λᵢ are the curvatures of the rows (one
# dimension).


def control_variate_excess(
    curvatures: Matrix, distance: float, gamma: float | None
) -> tuple[float, int]:
    """The distance does not shrink with h; `distance` is E(θ − c)²/T under the target."""
    spread = len(curvatures) ** 2 * curvatures.var()
    return spread * distance / (2 * (gamma or 1.0)), 1


def svrg_excess(curvatures: Matrix, K: int, gamma: float | None) -> tuple[float, int]:
    """All rows have the age of the anchor, 0 … K − 1."""
    spread = len(curvatures) ** 2 * curvatures.var()
    if gamma is None:
        return spread * (K - 1) / 2, 2
    return spread * (K - 1) * (2 * K - 1) / 6 / (2 * gamma), 3


def saga_excess(curvatures: Matrix, gamma: float | None) -> tuple[float, int]:
    """b = 1: ages are geometric, E a = n, E a² = n(2n − 1); of two rows E min(a, a') = n/2, E aa' =
    n(2n − 1)/2.

    n² Var_I λ_I(θ − φ_I) = n Σ λᵢ² E(θ − φᵢ)² − Σᵢⱼ λᵢλⱼ E(θ − φᵢ)(θ − φⱼ).
    """
    n, squares = len(curvatures), np.sum(curvatures**2)
    own = (n - 1) * squares - (curvatures.sum() ** 2 - squares) / 2
    return (own * n, 2) if gamma is None else (own * n * (2 * n - 1) / (2 * gamma), 3)
