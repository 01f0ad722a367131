"""What is right, from draws that are not: moments of the target, by Stein's identities.

In coordinates u in which the draws have mean 0 and covariance I, with h the gradient of V/T there:

    covariance     C = K⁻¹, K = E[h uᵀ]                       exact where draws and target are normal
    any f          the intercept of a regression of f on Stein functions Δφ − h·∇φ of polynomials φ

Stein functions have mean zero under the target, whatever law the draws have; what they leave of f need not
(semi-exact control functionals: South, Karvonen, Nemeth, Girolami & Oates 2022). The intercept is a weighted sum of
the draws' own f, with weights that do not depend on f. Two estimates of h with independent noise, whose cross
products make the Gram matrix, undo the attenuation by their noise.

Errors come from how groups of successive draws differ, and from what the regression leaves of f times how far the
draws are from the target.
"""

import itertools
from typing import NamedTuple

import numpy as np
import scipy.linalg

from ewsg_jax.checking.basis import Basis, White, candidates, spread, symmetric

GROUPS = 32
"""Groups of successive draws, nearly independent of each other."""
LEAST_VARIANCE, MOST_VARIANCE, MOST_SHIFT = 0.04, 4.0, 2.0
"""Of the target over the draws', in a direction, and of its mean in their sds: how far it is moved at once."""
TINY = np.finfo(float).tiny


class Moments(NamedTuple):
    """Of the target.

    Attributes:
        mean: shape (d,).
        covariance: shape (d, d).
        mean_error: standard errors of the means, shape (d,).
        sd_error: relative ones of the standard deviations, shape (d,).
    """

    mean: np.ndarray
    covariance: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray

    def change_from(self, other: "Moments") -> float:
        """Return the largest difference of a mean, in standard deviations, or of the log of one of these."""
        return max(float(np.max(part)) for part in self._apart(other))

    def between(self, other: "Moments") -> "Moments":
        """Return the middle of two reckonings, with what they differ by, there and on average, among the errors."""
        means, logs = self._apart(other)
        covariance = (self.covariance + other.covariance) / 2
        return Moments(
            (self.mean + other.mean) / 2,
            covariance,
            np.sqrt(np.diag(covariance)) * _with_doubt(self.mean_error / np.sqrt(np.diag(self.covariance)), means),
            _with_doubt(self.sd_error, logs),
        )

    def _apart(self, other: "Moments") -> tuple[np.ndarray, np.ndarray]:
        mine, theirs = np.diag(self.covariance), np.diag(other.covariance)
        return np.abs(self.mean - other.mean) / np.sqrt(mine), np.abs(np.log(theirs / mine)) / 2


def _with_doubt(error: np.ndarray, apart: np.ndarray) -> np.ndarray:
    return np.sqrt(error**2 + apart**2 + np.mean(apart**2))


class Fit(NamedTuple):
    """What a regression says of functions, shape (functions,) each.

    Attributes:
        expectation: under the target.
        error: its standard error, by chance alone.
        left: the standard deviation of what Stein functions leave.
    """

    expectation: np.ndarray
    error: np.ndarray
    left: np.ndarray


class Regression:
    """On Stein functions.

    Attributes:
        basis: which.
        weights: those that make a sum over draws an expectation under the target, shape (draws,).
    """

    def __init__(self, basis: Basis, white: White) -> None:
        self.basis = basis
        self._first = basis.values(white.u, white.first)
        same = white.first is white.second
        self._second = self._first if same else basis.values(white.u, white.second)
        self._parts = groups(len(white.u))
        halves = [np.zeros((basis.size, basis.size)) for _ in range(2)]
        for number, part in enumerate(self._parts):
            halves[number % 2] += symmetric(self._first[part].T @ self._second[part])
        self._halves = halves
        self._whole = _factored(halves[0] + halves[1])
        one = np.zeros(basis.size)
        one[0] = 1.0
        row = scipy.linalg.lu_solve(self._whole, one)
        self.weights = (self._first @ row + self._second @ row) / 2

    def left_elsewhere(self, targets: np.ndarray) -> float:
        """Return the mean square of what a fit to every second group leaves of functions in the others."""
        sides = [sum(self._side(part, targets) for part in self._parts[half::2]) for half in (0, 1)]
        squares = 0.0
        for half in (0, 1):
            found = scipy.linalg.lu_solve(_factored(self._halves[half]), sides[half])
            for part in self._parts[1 - half :: 2]:
                first, second = self._left(part, targets, found)
                squares += float(np.sum(first * second))
        return squares / targets.size

    def fit(self, targets: np.ndarray) -> Fit:
        """Return expectations of functions, known at the draws, shape (draws, q)."""
        whole = slice(None)
        found = scipy.linalg.lu_solve(self._whole, self._side(whole, targets))
        first, second = self._left(whole, targets, found)
        freedom = max(1, len(targets) - self.basis.size)
        pull = self.weights[:, None] * (first + second) / 2
        sums = np.stack([pull[part].sum(0) for part in self._parts])
        error = np.sqrt(np.sum(sums**2, axis=0)) * len(targets) / freedom
        return Fit(found[0], error, np.sqrt(np.maximum(np.sum(first * second, axis=0), 0.0) / freedom))

    def _side(self, part: slice, targets: np.ndarray) -> np.ndarray:
        return (self._first[part] + self._second[part]).T @ targets[part] / 2

    def _left(self, part: slice, targets: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first = targets[part] - self._first[part] @ found
        return first, first if self._second is self._first else targets[part] - self._second[part] @ found


class Correction:
    """Draws, corrected.

    Args:
        flat: shape (draws, d).
        first, second: gradients of V/T on one batch and on another, which may be the same.
        distance: of the draws' law from the target's, the largest effect that a score sees.
    """

    def __init__(self, flat: np.ndarray, first: np.ndarray, second: np.ndarray, distance: float) -> None:
        self._center = flat.mean(0)
        self._moved = flat - self._center
        self._sd = np.maximum(self._moved.std(0), TINY)
        self._distance = min(distance, 1.0)
        values, vectors = np.linalg.eigh(self._moved.T @ self._moved / len(flat))
        sizes = np.sqrt(np.maximum(values, 1e-12 * values[-1]))
        self._root = vectors * sizes
        slopes = first @ self._root
        again = slopes if first is second else second @ self._root
        self._white = White(self._moved @ (vectors / sizes), slopes, again)
        scaled = self._moved / self._sd
        tried = [Regression(basis, self._white) for basis in candidates(self._white)]
        self._regression = min(tried, key=lambda each: each.left_elsewhere(scaled))

    @property
    def by(self) -> str:
        """Which Stein functions."""
        return self._regression.basis.name

    def expectation(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the target's expectations of functions, known at the draws (draws, q), and their errors."""
        level = values.mean(0)
        size = np.maximum(values.std(0), TINY)
        found = self._regression.fit((values - level) / size)
        return level + size * found.expectation, size * np.hypot(found.error, self._distance * found.left)

    def moments(self) -> Moments:
        """Return means and covariance."""
        mean, mean_error = self.expectation(self._moved)
        mean = np.clip(mean, -MOST_SHIFT * self._sd, MOST_SHIFT * self._sd)
        if self._regression.basis.is_whole:
            u, weights = self._white.u, self._regression.weights
            off = weights @ u
            inner = _bounded((u * weights[:, None]).T @ u - np.outer(off, off))
            variance = self._widths(inner) ** 2
            squares = self._regression.fit((self._moved / self._sd) ** 2)
            error = np.hypot(squares.error, self._distance * squares.left) / 2 / np.minimum(variance, 1.0)
        else:
            inner, error = self._by_spread()
        return Moments(self._center + mean, self._root @ inner @ self._root.T, mean_error, error)

    def _by_spread(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariance of the target in u as K⁻¹, and relative errors of the standard deviations of θ."""
        parts = groups(len(self._white.u))
        squares = [self._white.u[part].T @ self._white.u[part] for part in parts]
        crossed = [spread(White(*(x[part] for x in self._white))) * len(self._white.u[part]) for part in parts]
        total, whole = np.sum(squares, axis=0), np.sum(crossed, axis=0)
        inner = _ratio(total, whole)
        without = [self._widths(_ratio(total - s, whole - k)) for s, k in zip(squares, crossed, strict=True)]
        chance = jackknife(np.log(np.array(without)))
        return inner, np.hypot(chance, self._distance * np.abs(np.log(self._widths(inner))))

    def _widths(self, inner: np.ndarray) -> np.ndarray:
        """Return the sds of θ over the draws', of a covariance of u."""
        rows = self._root / self._sd[:, None]
        return np.sqrt(np.sum((rows @ inner) * rows, axis=1))


def jackknife(without: np.ndarray) -> np.ndarray:
    """Return standard errors from values that lack a group each, shape (groups, …)."""
    count = len(without)
    return np.sqrt((count - 1) / count * np.sum((without - without.mean(0)) ** 2, axis=0))


def groups(count: int) -> list[slice]:
    """Return groups of successive draws."""
    ends = np.linspace(0, count, min(GROUPS, count) + 1).astype(int).tolist()
    return [slice(i, j) for i, j in itertools.pairwise(ends)]


def _ratio(squares: np.ndarray, crossed: np.ndarray) -> np.ndarray:
    """Return S K⁻¹, symmetrised."""
    return _bounded(symmetric(np.linalg.lstsq(crossed.T, squares.T, rcond=None)[0].T))


def _bounded(covariance: np.ndarray) -> np.ndarray:
    """Return a covariance of u, as far off as a correction goes."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.clip(values, LEAST_VARIANCE, MOST_VARIANCE)) @ vectors.T


def _factored(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # A direction in which nothing is known gets no part.
    ridge = 1e-12 * np.trace(np.abs(gram)) / len(gram)
    return scipy.linalg.lu_factor(gram + ridge * np.eye(len(gram)))
