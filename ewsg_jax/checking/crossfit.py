"""Regressions on Stein functions whose coefficients come from other draws than those they are used at.

A Stein function has mean zero under the target whatever its coefficients are, as long as they do not depend on the
draws that it is averaged over. Coefficients of a regression with p functions on the same m draws do: its intercept
is biased by about p/m, and what it leaves looks too small. So draws are cut into folds, and each fold has the
coefficients of the others (Chernozhukov et al. 2018; control functionals: Oates, Girolami & Chopin 2017). What is
fitted to all draws is a handful of numbers: how much of each predicted function is taken.
"""

import itertools
from typing import NamedTuple

import numpy as np

from ewsg_jax.lazy_scipy import lu_factor, lu_solve

GROUPS = 32
"""Groups of successive draws of chains of their own, nearly independent of each other."""
FOLDS = 8
"""Parts of successive draws, each of which has the coefficients of the others."""
ROOM = 1.1
"""Draws of the other folds for each function, at least: with fewer a regression says nothing of other draws."""
AT_ONCE = 2**21
"""Numbers of a predicted function that are worked on together."""
SURE = 10.0
"""Standard errors of the size of a function, by the noise of batches, above which it is there."""
TINY = np.finfo(float).tiny
OUTLIERS = 10.0
"""Robust standard deviations that a standard deviation may be: beyond, a few draws make it."""

Pair = tuple[np.ndarray, np.ndarray]
"""A function on one batch and on another, shape (draws, …); the same array twice where there is no noise."""


class Fit(NamedTuple):
    """What a regression says of functions, shape (functions,) each.

    Attributes:
        expectation: under the target.
        error: its standard error, by chance alone.
        left: the standard deviation of what Stein functions leave.
        noisy: the same with the noise of batches.
        taken: how much of each Stein function was taken, shape (functions, Stein functions).
    """

    expectation: np.ndarray
    error: np.ndarray
    left: np.ndarray
    noisy: np.ndarray
    taken: np.ndarray


class CrossFit:
    """Stein functions, fitted out of fold.

    Attributes:
        stretch: the squared distance of their mean from zero, in the metric of their own covariance: what
            uncertain coefficients add to the variance of an expectation, in parts of the regression's own.

    Args:
        first, second: Stein functions on one batch and on another, shape (draws, p).
    """

    def __init__(self, first: np.ndarray, second: np.ndarray) -> None:
        self._first, self._second = _with_one(first), _with_one(second)
        if first is second:
            self._second = self._first
        self._scale = 1 / _or_one(np.abs(self._first).max(0))
        count = len(first)
        self._folds = groups(count, FOLDS)
        parts = [self._gram(fold) for fold in self._folds]
        whole = np.sum(parts, axis=0)
        self._factors = [_factored(whole - part) for part in parts]
        weights = lu_solve(_factored(whole), np.eye(len(whole))[0]) * self._scale
        pull = (self._first @ weights + self._second @ weights) / 2
        self.stretch = max(0.0, count * float(pull @ pull) - 1)

    @staticmethod
    def has_room(count: int, size: int) -> bool:
        """Return whether so many draws are enough for so many functions."""
        return count - -(-count // FOLDS) > ROOM * (1 + size) + FOLDS / 2

    def coefficients(self, targets: np.ndarray) -> list[np.ndarray]:
        """Return each fold's coefficients of functions (draws, q), shape (p, q) each."""
        sides = [self._side(fold, targets) for fold in self._folds]
        whole = np.sum(sides, axis=0)
        return [
            (self._scale[:, None] * lu_solve(factor, whole - side))[1:]
            for factor, side in zip(self._factors, sides, strict=True)
        ]

    def predicted(self, coefficients: list[np.ndarray]) -> Pair:
        """Return Stein functions with these coefficients in each fold, shape (draws, q)."""

        def of(values: np.ndarray) -> np.ndarray:
            folds = zip(self._folds, coefficients, strict=True)
            return np.concatenate([values[fold, 1:] @ own for fold, own in folds])

        first = of(self._first)
        return first, first if self._second is self._first else of(self._second)

    def _gram(self, fold: slice) -> np.ndarray:
        first = self._first[fold] * self._scale
        if self._second is self._first:
            return first.T @ first
        second = self._second[fold] * self._scale
        product, apart = first.T @ second, first - second
        # As much of the noise stays as chance may take away too much: else functions that it hides get large parts.
        kept = min(1.0, 2 * (self._first.shape[1] / len(self._first)) ** 0.5)
        return (product + product.T + kept * apart.T @ apart) / 2

    def _side(self, fold: slice, targets: np.ndarray) -> np.ndarray:
        side = self._first[fold].T @ targets[fold]
        if self._second is not self._first:
            side = (side + self._second[fold].T @ targets[fold]) / 2
        return side * self._scale[:, None]


def fitted(targets: np.ndarray, functions: list[Pair], num_groups: int) -> Fit:
    """Return expectations of functions by the Stein functions that were predicted for each.

    Args:
        targets: functions at the draws, shape (draws, q).
        functions: Stein functions for each of them, shape (draws, q).
        num_groups: groups of successive draws, nearly independent of each other, that errors come from.
    """
    width = max(1, AT_ONCE // (len(targets) * (1 + len(functions))))
    parts = [slice(k, k + width) for k in range(0, targets.shape[1], width)]
    found = [_fitted(targets[:, part], [_columns(each, part) for each in functions], num_groups) for part in parts]
    return Fit(*(np.concatenate([getattr(each, name) for each in found]) for name in Fit._fields))


def _columns(pair: Pair, part: slice) -> Pair:
    first = pair[0][:, part]
    return first, first if pair[1] is pair[0] else pair[1][:, part]


def _fitted(targets: np.ndarray, functions: list[Pair], num_groups: int) -> Fit:
    count = len(targets)
    # Of shape (q, draws, functions): a small regression for each target, all at once.
    first = np.stack([np.ones_like(targets), *(a for a, _ in functions)], axis=-1).swapaxes(0, 1)
    second = first
    if any(a is not b for a, b in functions):
        second = np.stack([np.ones_like(targets), *(b for _, b in functions)], axis=-1).swapaxes(0, 1)
    scale = 1 / _or_one(np.abs(first).max(1))[:, None]
    scale = scale / _or_one(np.sqrt(np.mean((first * scale) ** 2, axis=1)))[:, None]
    is_exact = second is first
    first = first * scale
    second = first if is_exact else second * scale
    both, values = (first + second) / 2, targets.T[..., None]
    gram = first.swapaxes(1, 2) @ second / count
    gram = (gram + gram.swapaxes(1, 2)) / 2
    size, axes = np.linalg.eigh(gram)
    # Functions that say the same share their part: what is rounding, or may be the chance of noise, takes none.
    least = (1e-10 if is_exact else 1e-3) * np.abs(size).max(1, keepdims=True)
    if not is_exact:
        apart = (first - second) @ axes
        least = np.maximum(least, SURE * np.mean(apart**2, axis=1) / 2 / count**0.5)
    size = np.where(size > least, size, np.inf)
    inverse = (axes / size[:, None]) @ axes.swapaxes(1, 2)
    taken = inverse @ (both.swapaxes(1, 2) @ values) / count
    left = values - first @ taken, values - second @ taken
    noisy = (left[0] + left[1]) / 2
    pull = (both @ inverse[:, :, :1]) * noisy / max(1, count - gram.shape[1])
    sums = np.stack([pull[:, group, 0].sum(1) for group in groups(count, num_groups)])
    return Fit(
        taken[:, 0, 0],
        np.sqrt(np.sum(sums**2, axis=0)),
        np.sqrt(np.maximum(np.mean(left[0] * left[1], axis=1)[:, 0], 0.0)),
        np.sqrt(np.mean(noisy**2, axis=1)[:, 0]),
        (taken[:, 1:, 0] * scale[:, 0, 1:]),
    )


def standardised(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return means of functions (draws, q) in their standard deviations, without the noise of batches."""
    both = first if first is second else (first + second) / 2
    noise = 0.0 if first is second else np.mean((first - second) ** 2, axis=0) / 4
    return both.mean(0) / spread_of(both, noise)


def spread_of(values: np.ndarray, noise: np.ndarray | float = 0.0) -> np.ndarray:
    """Return standard deviations of functions (draws, q), without noise of this variance and without outliers.

    Of functions of which a few draws make the standard deviation it would hide any mean.
    """
    some = values[:: max(1, len(values) // 512)]
    low, high = np.quantile(some, [0.25, 0.75], axis=0)
    scale = _or_one(np.abs(values).max(0))
    whole = np.var(values / scale, axis=0)
    # What varies by rounding alone has a spread for all that: its mean is not beyond all bounds.
    least = np.maximum(whole / 16, 1e-12)
    inner = np.sqrt(np.maximum(whole - (np.sqrt(noise) / scale) ** 2, least)) * scale
    # Of more than half of all draws the same value: no robust one.
    return np.where(high > low, np.minimum(inner, OUTLIERS * (high - low) / 1.349), inner)


def jackknife(without: np.ndarray) -> np.ndarray:
    """Return standard errors from values that lack a group each, shape (groups, …)."""
    count = len(without)
    return np.sqrt((count - 1) / count * np.sum((without - without.mean(0)) ** 2, axis=0))


def averages(values: np.ndarray, num_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return means over draws (draws, q) and their standard errors, from groups."""
    means = np.stack([values[group].mean(0) for group in groups(len(values), num_groups)])
    return values.mean(0), means.std(0, ddof=1) / np.sqrt(len(means))


def groups(count: int, number: int) -> list[slice]:
    """Return so many groups of successive draws."""
    ends = np.linspace(0, count, min(number, count) + 1).astype(int).tolist()
    return [slice(i, j) for i, j in itertools.pairwise(ends)]


def _or_one(scale: np.ndarray) -> np.ndarray:
    """Return scales, 1 for those of nothing."""
    return np.where(scale > TINY, scale, 1.0)


def _with_one(functions: np.ndarray) -> np.ndarray:
    return np.concatenate([np.ones((len(functions), 1)), functions], axis=1)


def _factored(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # A direction in which nothing is known gets no part.
    ridge = 1e-12 * np.trace(np.abs(gram)) / len(gram)
    return lu_factor(gram + ridge * np.eye(len(gram)))
