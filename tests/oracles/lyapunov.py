"""Stationary laws of linear recursions, in NumPy float64 alone.

The state is z = (θ, p), or θ alone for Langevin. The gradient is affine, g(θ) = Hθ − k; for the
potential V = ½(θ − μ)ᵀΛ(θ − μ) it is H = Λ, k = Λμ, and a minibatch has an H and a k of its own.
Everything here is typed from the equations of the methods, nothing is computed with the library.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


class Step(NamedTuple):
    """z' = matrix z + shift + noise of this covariance."""

    matrix: Matrix
    shift: Matrix
    noise: Matrix


def stationary(steps: Sequence[Step]) -> tuple[Matrix, Matrix]:
    """Return the stationary mean and covariance when each step is one of `steps`, all equally
    probable.

    With m the mean and dᵢ = Aᵢm + cᵢ − m, whose average is 0, the deviation z − m goes to
    Aᵢ(z − m) + dᵢ + noise, so P = E[Aᵢ P Aᵢᵀ] + E[dᵢdᵢᵀ + Qᵢ]. One step gives P = A P Aᵀ + Q.
    """
    matrices, shifts, noises = (
        np.stack(part).astype(np.float64) for part in zip(*steps, strict=True)
    )
    size = matrices.shape[-1]
    # Row by row, A P Aᵀ is (A ⊗ A) P.
    second = np.mean([np.kron(a, a) for a in matrices], axis=0)
    radius = np.max(np.abs(np.linalg.eigvals(second)))
    assert radius < 1, f"no stationary law: the spectral radius is {radius}"
    mean = np.linalg.solve(np.eye(size) - matrices.mean(0), shifts.mean(0))
    deviations = matrices @ mean + shifts - mean
    source = np.mean(deviations[:, :, None] * deviations[:, None, :] + noises, axis=0)
    covariance = np.linalg.solve(np.eye(size**2) - second, source.ravel()).reshape(size, size)
    return mean, covariance


def langevin(H: Matrix, k: Matrix, h: float, T: float) -> Step:
    """θ' = θ − h g + √(2hT) ξ."""
    eye = np.eye(len(k))
    return Step(eye - h * H, h * k, 2 * h * T * eye)


def euler(H: Matrix, k: Matrix, h: float, gamma: float, T: float) -> Step:
    """θ' = θ + h p;  p' = p − h (g(θ) + γp) + √(2γTh) ξ."""
    eye = np.eye(len(k))
    matrix = np.block([[eye, h * eye], [-h * H, (1 - gamma * h) * eye]])
    shift = np.concatenate([0 * k, h * k])
    return Step(matrix, shift, np.kron([[0, 0], [0, 2 * gamma * T * h]], eye))


def semi_implicit(H: Matrix, k: Matrix, h: float, gamma: float, T: float) -> Step:
    """p' = (1 − γh) p − h g(θ) + √(2γTh) ξ;  θ' = θ + h p'."""
    eye = np.eye(len(k))
    matrix = np.block(
        [[eye - h * h * H, h * (1 - gamma * h) * eye], [-h * H, (1 - gamma * h) * eye]]
    )
    shift = np.concatenate([h * h * k, h * k])
    return Step(matrix, shift, 2 * gamma * T * h * np.kron([[h * h, h], [h, 1]], eye))


def splitting(H: Matrix, k: Matrix, h: float, gamma: float, T: float) -> Step:
    """p' = e (e p − h g(θ + h/2 p) + √(2γTh) ξ), e = exp(−γh/2);  θ' = θ + h/2 (p + p')."""
    eye, e = np.eye(len(k)), np.exp(-gamma * h / 2)
    from_position, from_momentum = -h * e * H, e * e * eye - h * h / 2 * e * H
    matrix = np.block(
        [
            [eye + h / 2 * from_position, h / 2 * (eye + from_momentum)],
            [from_position, from_momentum],
        ]
    )
    shift = np.concatenate([h * h / 2 * e * k, h * e * k])
    return Step(
        matrix, shift, 2 * gamma * T * h * e * e * np.kron([[h * h / 4, h / 2], [h / 2, 1]], eye)
    )


def exact(H: Matrix, k: Matrix, h: float, gamma: float, T: float, u: float = 1.0) -> Step:
    """The step of dθ = v dt, dv = −(γv + u g) dt + √(2γuT) dW over h with g frozen."""
    eye, e = np.eye(len(k)), np.exp(-gamma * h)
    to_position, to_velocity = u / gamma * (h - (1 - e) / gamma), u / gamma * (1 - e)
    matrix = np.block([[eye - to_position * H, (1 - e) / gamma * eye], [-to_velocity * H, e * eye]])
    shift = np.concatenate([to_position * k, to_velocity * k])
    position = u / gamma**2 * (2 * gamma * h - 3 + 4 * e - e**2)
    cross = u / gamma * (1 - e) ** 2
    return Step(matrix, shift, T * np.kron([[position, cross], [cross, u * (1 - e**2)]], eye))


def letter(name: str, H: Matrix, k: Matrix, t: float, gamma: float, T: float) -> Step:
    """A: θ' = θ + t p;  B: p' = p − t g(θ);  O: p' = e p + √(T(1 − e²)) ξ, e = exp(−γt).

    U: `exact` without g.
    """
    eye, e = np.eye(len(k)), np.exp(-gamma * t)
    zero, still = np.zeros(2 * len(k)), np.zeros((2 * len(k), 2 * len(k)))
    if name == "A":
        return Step(np.kron([[1, t], [0, 1]], eye), zero, still)
    if name == "B":
        return Step(
            np.block([[eye, 0 * eye], [-t * H, eye]]), np.concatenate([0 * k, t * k]), still
        )
    if name == "O":
        return Step(
            np.kron([[1, 0], [0, e]], eye), zero, np.kron([[0, 0], [0, T * (1 - e**2)]], eye)
        )
    return exact(0 * H, 0 * k, t, gamma, T)


def letters(word: str, H: Matrix, k: Matrix, h: float, gamma: float, T: float) -> Step:
    """One letter after the other, each for h over how often it occurs."""
    matrix = np.eye(2 * len(k))
    shift = np.zeros(2 * len(k))
    noise = np.zeros((2 * len(k), 2 * len(k)))
    for name in word:
        each = letter(name, H, k, h / word.count(name), gamma, T)
        matrix, shift = each.matrix @ matrix, each.matrix @ shift + each.shift
        noise = each.matrix @ noise @ each.matrix.T + each.noise
    return Step(matrix, shift, noise)


UPDATES: dict[str, Callable[..., Step]] = {
    "langevin": langevin,
    "euler": euler,
    "semi_implicit": semi_implicit,
    "splitting": splitting,
    "exact": exact,
    "ABOBA": functools.partial(letters, "ABOBA"),
    "BAOAB": functools.partial(letters, "BBAOA"),
}
"""`(H, k, h, γ, T) -> Step`; Langevin takes no γ."""


# Closed forms on V = λθ²/2: Var θ, Cov(θ, p) and Var p. Each solves the three equations of P = A P
# Aᵀ + Q for the matrices above; they were solved by computer algebra (SymPy) and simplified by
# hand.


def langevin_variances(lam: float, h: float, T: float) -> Matrix:
    """P = (1 − hλ)² P + 2hT, the published T / (λ (1 − hλ/2))."""
    return np.array([[T / (lam * (1 - h * lam / 2))]])


def euler_variances(lam: float, h: float, gamma: float, T: float) -> Matrix:
    """θ's line gives 2 Cov = −h Var p; two lines follow. Stable: hλ < γ, 2γh < 4 + h²λ."""
    common = 2 * T * gamma / ((gamma - h * lam) * (4 - 2 * gamma * h + h * h * lam))
    cross = -h * common
    return np.array([[(2 - gamma * h + h * h * lam) / lam * common, cross], [cross, 2 * common]])


def semi_implicit_variances(lam: float, h: float, gamma: float, T: float) -> Matrix:
    """θ' − θ = h p' gives 2 Cov = h Var p; the other two lines follow. Stable for h²λ < 4 − 2γh."""
    common = 2 * T / (4 - 2 * gamma * h - h * h * lam)
    cross = h * common
    return np.array([[(2 - gamma * h) / lam * common, cross], [cross, 2 * common]])


def splitting_variances(lam: float, h: float, gamma: float, T: float) -> Matrix:
    """The step is symmetric in time, so Cov = 0; with x = γh/2, Var θ = (T/λ) x / sinh x."""
    x = gamma * h / 2
    position = T / lam * x / np.sinh(x)
    momentum = 4 * T * x / (np.sinh(x) * (4 * np.cosh(x) - h * h * lam))
    return np.array([[position, 0], [0, momentum]])


CLOSED_FORMS: dict[str, Callable[..., Matrix]] = {
    "langevin": langevin_variances,
    "euler": euler_variances,
    "semi_implicit": semi_implicit_variances,
    "splitting": splitting_variances,
}
"""`(λ, h, γ, T) -> [[Var θ, Cov], [Cov, Var p]]`; Langevin takes no γ and has no momentum."""


def rotated(closed_form: Callable[[float], Matrix], precision: Matrix) -> Matrix:
    """Return the covariance of z for V = ½θᵀΛθ: the closed form along each eigenvector of Λ."""
    lams, vectors = np.linalg.eigh(precision)
    return sum(
        np.kron(closed_form(lam), np.outer(v, v)) for lam, v in zip(lams, vectors.T, strict=True)
    )


def exact_by_fine_steps(
    h: float, gamma: float, T: float, u: float = 1.0, doublings: int = 17
) -> tuple[Matrix, ...]:
    """Return (θ', v') by (θ, v), (θ', v') by g, and the covariance of (θ', v'), without the
    integrated formulas.

    The step of `exact` in 2^doublings steps δ of Euler and Maruyama, θ += δ v and v += −δ(γv + u g)
    + √(2γuTδ) ξ, whose moments are composed by doubling. They differ from the limit by a series in
    δ, of which three numbers of steps remove the first two terms.
    """

    def composed(count: int) -> tuple[Matrix, ...]:
        step = h / 2**count
        matrix = np.array([[1, step], [0, 1 - gamma * step]])
        by_gradient = np.array([[0], [-u * step]])
        noise = np.array([[0, 0], [0, 2 * gamma * u * T * step]])
        for _ in range(count):
            noise = matrix @ noise @ matrix.T + noise
            by_gradient = matrix @ by_gradient + by_gradient
            matrix = matrix @ matrix
        return matrix, by_gradient, noise

    levels = [composed(count) for count in (doublings - 2, doublings - 1, doublings)]
    return tuple((a - 6 * b + 8 * c) / 3 for a, b, c in zip(*levels, strict=True))


def friction_matrix(covariance: Matrix, h: float, gamma: float, T: float) -> Matrix:
    """Γ = (σ² I + h Cov)/(2T), σ² = 2γT."""
    return (2 * gamma * T * np.eye(len(covariance)) + h * covariance) / (2 * T)


def corrected(
    name: str, H: Matrix, k: Matrix, h: float, gamma: float, T: float, covariance: Matrix
) -> Step:
    """p' = p − h (g(θ) + Γ p) + √(2γTh) ξ;  θ' = θ + h p' (semi_implicit) or θ + h p (euler)."""
    eye = np.eye(len(k))
    zero = 0 * eye
    kick = np.block([[eye, zero], [-h * H, eye - h * friction_matrix(covariance, h, gamma, T)]])
    shift = np.concatenate([0 * k, h * k])
    noise = np.diag(np.repeat([0, 2 * gamma * T * h], len(k)))
    drift = np.block([[eye, h * eye], [zero, eye]])
    if name == "euler":
        return Step(kick + drift - np.eye(2 * len(k)), shift, noise)
    return Step(drift @ kick, drift @ shift, drift @ noise @ drift.T)


def corrected_variances(
    name: str, lam: float, h: float, gamma: float, T: float, covariance: Matrix
) -> Matrix:
    """The law of `corrected` on V = λ‖θ‖²/2 where the gradient's covariance is this one everywhere.

    Each step adds noise of variance 2γTh + h² Cov = 2hTΓ: the law is that of the full gradient with
    the friction Γ, along each eigenvector of Cov.
    """
    values, vectors = np.linalg.eigh(friction_matrix(covariance, h, gamma, T))
    parts = [
        np.kron(CLOSED_FORMS[name](lam, h, g, T), np.outer(v, v))
        for g, v in zip(values, vectors.T, strict=True)
    ]
    return np.sum(parts, axis=0)


def reduced(
    name: str, H: Matrix, k: Matrix, h: float, gamma: float, T: float, covariance: Matrix
) -> Step:
    """p' = p − h (g(θ) + Γ p) + √h Σ ξ, along each eigenvector of Cov, of eigenvalue λ, and with σ²
    = 2γT:

    Σ² = σ² − hλ and Γ = γ where hλ ≤ σ², else Σ = 0 and 2TΓ = hλ;  θ' = θ + h p' or θ + h p.
    """
    values, vectors = np.linalg.eigh(covariance)
    sigma2 = 2 * gamma * T
    enough = h * values <= sigma2
    along = lambda x: (vectors * x) @ vectors.T
    noise = along(np.where(enough, sigma2 - h * values, 0))
    friction = along(np.where(enough, gamma, h * values / (2 * T)))
    eye, zero = np.eye(len(k)), np.zeros((len(k), len(k)))
    kick = np.block([[eye, zero], [-h * H, eye - h * friction]])
    shift = np.concatenate([0 * k, h * k])
    injected = np.block([[zero, zero], [zero, h * noise]])
    drift = np.block([[eye, h * eye], [zero, eye]])
    if name == "euler":
        return Step(kick + drift - np.eye(2 * len(k)), shift, injected)
    return Step(drift @ kick, drift @ shift, drift @ injected @ drift.T)
