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

import functools
import itertools
from typing import NamedTuple

import numpy as np
import scipy.linalg

from ewsg_jax.checking.basis import Basis, White, candidates, spread, symmetric

GROUPS = 32
"""Groups of successive draws of chains of their own, nearly independent of each other."""
LEAST_VARIANCE, MOST_VARIANCE, MOST_SHIFT = 0.04, 4.0, 2.0
"""Of the target over the draws', in a direction, and of its mean in their sds: how far it is moved at once."""
SURE = 3.5
"""Standard errors within which two numbers are the same, each of some hundreds."""
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

    def is_like(self, other: "Moments", least: float) -> bool:
        """Return whether no mean, in standard deviations, and no log of one of these differs by more than chance.

        Args:
            other: moments.
            least: what does not matter.
        """
        means, logs = self._apart(other)
        sd, its = (np.sqrt(np.diag(x.covariance)) for x in (self, other))
        chance = np.hypot(self.mean_error / sd, other.mean_error / its), np.hypot(self.sd_error, other.sd_error)
        return all(
            bool((apart <= np.maximum(least, SURE * error)).all())
            for apart, error in zip((means, logs), chance, strict=True)
        )

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

    def __init__(self, basis: Basis, white: White, num_groups: int) -> None:
        self.basis, self._num_groups = basis, num_groups
        self._white = white
        cut = len(white.u) // 2
        self._halves = slice(0, cut), slice(cut, len(white.u))
        first, second = self._functions
        grams = [symmetric(first[half].T @ second[half]) for half in self._halves]
        self._factors = [_factored(gram) for gram in (*grams, grams[0] + grams[1])]
        one = np.zeros(basis.size)
        one[0] = 1.0
        row = scipy.linalg.lu_solve(self._factors[2], one)
        self.weights = (first @ row + second @ row) / 2

    @functools.cached_property
    def _functions(self) -> tuple[np.ndarray, np.ndarray]:
        """Stein functions at the draws, on both batches, shape (draws, size)."""
        white = self._white
        first = self.basis.values(white.u, white.first)
        return first, first if white.first is white.second else self.basis.values(white.u, white.second)

    def forget(self) -> None:
        """Give back the memory of what can be worked out again."""
        vars(self).pop("_functions", None)

    def left_elsewhere(self, targets: np.ndarray) -> np.ndarray:
        """Return the mean squares of what fits to one half of the draws leave of functions in the other, (q,)."""
        total = np.zeros(targets.shape[1])
        for number, (mine, other) in enumerate((self._halves, self._halves[::-1])):
            first, second = self._left(other, targets, self._fitted(number, mine, targets))
            total += np.sum(first * second, axis=0)
        return total / len(targets)

    def fit(self, targets: np.ndarray) -> Fit:
        """Return expectations of functions, known at the draws, shape (draws, q)."""
        whole = slice(None)
        found = self._fitted(2, whole, targets)
        first, second = self._left(whole, targets, found)
        freedom = max(1, len(targets) - self.basis.size)
        pull = self.weights[:, None] * (first + second) / 2
        sums = np.stack([pull[group].sum(0) for group in groups(len(pull), self._num_groups)])
        error = np.sqrt(np.sum(sums**2, axis=0)) * len(targets) / freedom
        return Fit(found[0], error, np.sqrt(np.maximum(np.sum(first * second, axis=0), 0.0) / freedom))

    def _fitted(self, number: int, part: slice, targets: np.ndarray) -> np.ndarray:
        first, second = self._functions
        side = first[part].T @ targets[part]
        if second is not first:
            side = (side + second[part].T @ targets[part]) / 2
        return scipy.linalg.lu_solve(self._factors[number], side)

    def _left(self, part: slice, targets: np.ndarray, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        one, other = self._functions
        first = targets[part] - one[part] @ found
        return first, first if other is one else targets[part] - other[part] @ found


class Correction:
    """Draws, corrected.

    Attributes:
        is_whole: whether its second moments are a regression's, so that any function's expectation may be.
        moments: of the target.
        by: the name of the Stein functions that its means were found with.

    Args:
        flat: shape (draws, d).
        first, second: gradients of V/T on one batch and on another, which may be the same.
        distance: of the draws' law from the target's, the largest effect that a score sees.
        num_groups: groups of successive draws, nearly independent of each other.
    """

    def __init__(
        self, flat: np.ndarray, first: np.ndarray, second: np.ndarray, distance: float, num_groups: int = GROUPS
    ) -> None:
        self._num_groups = num_groups
        # Every second group of successive draws first: the halves then see all of the run.
        order = [np.arange(len(flat))[group] for group in groups(len(flat), num_groups)]
        self._order = np.concatenate(order[::2] + order[1::2])
        self._center = flat.mean(0)
        self._moved = (flat - self._center)[self._order]
        self._sd = np.maximum(self._moved.std(0), TINY)
        self._distance = min(distance, 1.0)
        values, vectors = np.linalg.eigh(self._moved.T @ self._moved / len(flat))
        sizes = np.sqrt(np.maximum(values, 1e-12 * values[-1]))
        self._root = vectors * sizes
        slopes = (first @ self._root)[self._order]
        again = slopes if first is second else (second @ self._root)[self._order]
        self._white = White(self._moved @ (vectors / sizes), slopes, again)
        self._regressions = [Regression(basis, self._white, num_groups) for basis in candidates(self._white)]
        self.is_whole, self.by, self.moments = self._moments()
        for each in self._regressions:
            each.forget()

    def expectation(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the target's expectations of functions, known at the draws (draws, q), and their errors."""
        level = values.mean(0)
        size = np.maximum(values.std(0), TINY)
        scaled = ((values - level) / size)[self._order]
        best = min(self._regressions, key=lambda each: each.left_elsewhere(scaled).mean())
        found = best.fit(scaled)
        for each in self._regressions:
            each.forget()
        return level + size * found.expectation, size * self._error(found)

    def _error(self, found: Fit) -> np.ndarray:
        return np.hypot(found.error, self._distance * found.left)

    def _moments(self) -> tuple[bool, str, Moments]:
        """Return whether second moments are a regression's, the means' Stein functions, and the moments."""
        d, scaled = len(self._sd), self._moved / self._sd
        both = np.concatenate([scaled, scaled**2], axis=1)
        left = [each.left_elsewhere(both) for each in self._regressions]
        best, most = (
            self._regressions[int(np.argmin([each[part].mean() for each in left]))]
            for part in (slice(None, d), slice(d, None))
        )
        found = best.fit(scaled)
        if most.basis.is_whole:
            u, weights = self._white.u, most.weights
            off = weights @ u
            inner = _bounded((u * weights[:, None]).T @ u - np.outer(off, off))
            variance = self._widths(inner) ** 2
            error = self._error(most.fit(scaled**2)) / 2 / np.minimum(variance, 1.0)
        else:
            inner, error = self._by_spread()
        mean = self._sd * np.clip(found.expectation, -MOST_SHIFT, MOST_SHIFT)
        covariance = self._root @ inner @ self._root.T
        moments = Moments(self._center + mean, covariance, self._sd * self._error(found), error)
        return most.basis.is_whole, best.basis.name, moments

    def _by_spread(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the covariance of the target in u as K⁻¹, and relative errors of the standard deviations of θ."""
        parts = groups(len(self._white.u), self._num_groups)
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


def averages(values: np.ndarray, num_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return means over draws (draws, q) and their standard errors, from groups."""
    means = np.stack([values[group].mean(0) for group in groups(len(values), num_groups)])
    return values.mean(0), means.std(0, ddof=1) / np.sqrt(len(means))


def jackknife(without: np.ndarray) -> np.ndarray:
    """Return standard errors from values that lack a group each, shape (groups, …)."""
    count = len(without)
    return np.sqrt((count - 1) / count * np.sum((without - without.mean(0)) ** 2, axis=0))


def groups(count: int, number: int) -> list[slice]:
    """Return so many groups of successive draws."""
    ends = np.linspace(0, count, min(number, count) + 1).astype(int).tolist()
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
