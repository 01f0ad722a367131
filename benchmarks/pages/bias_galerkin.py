"""Stationary laws of steps that are not affine, by Galerkin's method, for `benchmarks.pages.bias`.

With π the law and P the step, π(P f) = π(f). For f the Hermite polynomials φ_l orthonormal under a
Gaussian ρ near π, P φ_l ≈ Σ_k A_kl φ_k with A_kl = ∫ φ_k P φ_l dρ, so that the moments m_l = π(φ_l)
solve m = Aᵀ m, m₀ = 1. ∫ dρ is a sum over a grid; P φ_l one over all batches with their
probabilities, and over Gauss's points for the noise.
"""

import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.pages.bias_laws import Case, Law, listed_batches, one_step

REACH = 8.5
"""Standard deviations that the grid covers."""


def hermite(y: Any, degree: int) -> Any:
    """Return the orthonormal Hermite polynomials 0 … degree on a new last axis."""
    values = [jnp.ones_like(y), y]
    for n in range(1, degree):
        values.append((y * values[n] - math.sqrt(n) * values[n - 1]) / math.sqrt(n + 1))
    return jnp.stack(values, axis=-1)


def gauss(count: int, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss's points (count^dimension, dimension) and weights for N(0, I)."""
    x, w = np.polynomial.hermite_e.hermegauss(count)
    points = np.array(list(itertools.product(x, repeat=dimension)))
    return points, np.prod(np.array(list(itertools.product(w / w.sum(), repeat=dimension))), axis=1)


class Galerkin:
    """The laws of a case at any h: polynomials up to a total degree, a grid of a spacing in
    standard deviations.
    """

    def __init__(self, case: Case, degree: int, spacing: float) -> None:
        self.case, (self.batches, self.probabilities) = case, listed_batches(case)
        self.first = np.asarray(one_step(case, 0.1, False).first)
        self.size, self.degree = len(self.first), degree
        every = itertools.product(range(degree + 1), repeat=self.size)
        self.index = np.array(
            sorted((k for k in every if sum(k) <= degree), key=lambda k: (sum(k), k))
        )
        half = round(REACH / spacing)
        grid = np.array(list(itertools.product(range(-half, half + 1), repeat=self.size)))
        self.grid = grid[np.sum(grid**2, axis=1) * spacing**2 <= REACH**2]
        self.y, self.spacing = self.grid * spacing, spacing
        self.is_additive = self._is_additive()
        self._images = jax.jit(self._all_images)

    def _around(self, h: float, guess: Law) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return where the points of the grid go, with the mean and the root of the covariance that
        place them.
        """
        center, root = guess.mean, np.linalg.cholesky(guess.covariance)
        return np.asarray(self._images(h, center, root)), center, root

    def law(self, h: float, guess: Law, rounds: int = 2) -> Law:
        """Return the law at h. The polynomials are made for the guess, then for what is found with
        them.
        """
        around = self._around(h, guess)
        for _ in range(rounds - 1):
            around = self._around(h, self._solved(*around, self.degree, slice(None)))
        found = self._solved(*around, self.degree, slice(None))
        others = [self._solved(*around, self.degree - 2, slice(None))]
        if self.size < 3:  # with half of three numbers' points nothing is left
            others.append(self._solved(*around, self.degree, np.all(self.grid % 2 == 0, axis=1)))
        return found._replace(
            error=max(abs(float(x.covariance[0, 0] / found.covariance[0, 0] - 1)) for x in others)
        )

    def _basis(self, y: Any) -> Any:
        table = hermite(y, self.degree)
        return math.prod(table[..., j, self.index[:, j]] for j in range(self.size))

    def _is_additive(self) -> bool:
        """Whether the noise adds the same to every state, whatever the batch."""
        step, _, noises = one_step(self.case, 0.4, False)
        drawn = np.random.default_rng(0).normal(size=(4, max(self.size, noises)))
        (z, other), (xi, more) = drawn[:2, : self.size], drawn[2:, :noises]

        def part(z: Any, xi: Any) -> Any:
            return jax.vmap(lambda batch: step(z, xi, batch, 0) - step(z, 0 * xi, batch, 0))(
                self.batches
            )

        if not jax.tree.leaves(self.batches):
            return False
        one, two, both = part(z, xi), part(other, more), part(self.first, xi + more)
        return bool(np.abs(both - one[:1] - two[:1]).max() < 1e-9)

    def _all_images(self, h: Any, center: Any, root: Any) -> Any:
        step, _, noises = one_step(self.case, h, False)
        xi, w = (jnp.asarray(x) for x in gauss(self.degree // 2 + 1, noises))

        def unit(z: Any) -> Any:
            return jax.scipy.linalg.solve_triangular(root, (z - center).T, lower=True).T

        def image(y: Any) -> Any:
            z, p = center + root @ y, jnp.asarray(self.probabilities)
            if self.case.batch_law is not None:
                p = self.case.batch_law(h, z, p)

            def of_batch(number: Any) -> Any:
                batch = jax.tree.map(lambda x: jnp.asarray(x)[number], self.batches)
                if self.is_additive:
                    return self._basis(unit(step(z, jnp.zeros(noises), batch, 0)))
                moved = jax.vmap(lambda noise: step(z, noise, batch, 0))(xi)
                return w @ self._basis(unit(moved))

            return p @ jax.lax.map(of_batch, jnp.arange(len(self.probabilities)), batch_size=16)

        images = jax.lax.map(image, jnp.asarray(self.y), batch_size=32)
        if not self.is_additive:
            return images
        # E φ_l(y + F ξ) in the polynomials of y.
        batch = jax.tree.map(lambda x: jnp.asarray(x)[0], self.batches)
        moved = jax.vmap(lambda noise: step(center, noise, batch, 0))(xi) - step(
            center, 0 * xi[0], batch, 0
        )
        y, of_y = (jnp.asarray(x) for x in gauss(self.degree + 1, self.size))
        spread = unit(center + moved)
        expected = jax.lax.map(lambda at: w @ self._basis(at + spread), y)
        return images @ ((self._basis(y) * of_y[:, None]).T @ expected)

    def _solved(self, images: Any, center: Any, root: Any, degree: int, chosen: Any) -> Law:
        index = self.index[self.index.sum(1) <= degree]
        place = {tuple(k): i for i, k in enumerate(index)}
        basis = np.asarray(self._basis(jnp.asarray(self.y)))[chosen, : len(index)]
        w = np.exp(-np.sum(self.y[chosen] ** 2, axis=1) / 2)
        a = (basis * (w / w.sum())[:, None]).T @ images[chosen, : len(index)]
        rest = (np.eye(len(index)) - a)[1:, 1:]
        moments = np.ones(len(index))
        moments[1:] = np.linalg.solve(rest.T, a[0, 1:])
        unit = np.eye(self.size, dtype=int)

        def times(j: int, k: Any) -> float:
            """π(y_j φ_k); what is above the degree counts as 0."""
            above, below = tuple(k + unit[j]), tuple(k - unit[j])
            return math.sqrt(k[j] + 1) * (moments[place[above]] if above in place else 0.0) + (
                math.sqrt(k[j]) * moments[place[below]] if k[j] else 0.0
            )

        mean = np.array([moments[place[tuple(e)]] for e in unit])
        covariance = np.array([[times(j, e) for e in unit] for j in range(self.size)]) - np.outer(
            mean, mean
        )
        # Σ_t Pᵗ (y₁ − mean), up to a constant; the position is the first number, made of y₁ alone.
        right = np.zeros(len(index))
        right[place[tuple(unit[0])]] = 1.0
        summed = np.linalg.solve(rest, right[1:])
        covaried = np.array(
            [times(0, k) - mean[0] * m for k, m in zip(index, moments, strict=True)]
        )
        autocorrelation = 2 * (covaried[1:] @ summed) / covariance[0, 0] - 1
        return Law(center + root @ mean, root @ covariance @ root.T, np.array([autocorrelation]))


def laws(case: Case, hs: list[float], guess: Law, degree: int, spacing: float) -> list[Law | None]:
    """Return the law at each h, from the smallest on: each is the guess for the next; None where
    none was found.
    """
    galerkin = Galerkin(case, degree, spacing)
    found: dict[float, Law] = {}
    for h in sorted(hs):
        try:
            guess = found[h] = galerkin.law(h, guess)
        except (
            np.linalg.LinAlgError
        ):  # a covariance that is none: the polynomials do not hold the law
            break
    return [found.get(h) for h in hs]
