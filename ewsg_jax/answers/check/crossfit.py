"""Regressions on Stein functions with coefficients from other draws than they are used at.

A Stein function has mean zero under the target whatever its coefficients are, as long as they do
not depend on the draws that it is averaged over. Coefficients of a regression with p functions on
the same m draws do: its intercept is biased by about p/m, and what it leaves looks too small. So
draws are cut into folds, and each fold has the coefficients of the others (Chernozhukov et al.
2018; control functionals: Oates, Girolami & Chopin 2017). What is fitted to all draws is a handful
of numbers: how much of each predicted function is taken.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ewsg_jax.base.optional import lu_factor, lu_solve

GROUPS = 32
"""Groups of successive draws of chains of their own, nearly independent of each other."""
FOLDS = 8
"""Parts of successive draws, each of which has the coefficients of the others."""
ROOM = 1.1
"""Least draws of the other folds for each function: with fewer a regression predicts nothing."""
AT_ONCE = 2**21
"""Numbers of a predicted function that are worked on together."""
SURE = 10.0
"""Standard errors of the size of a function, by the noise of batches, above which it is there."""
TINY = np.finfo(float).tiny
OUTLIERS = 10.0
"""Robust standard deviations that a standard deviation may be: beyond, a few draws make it."""

Pair = tuple[np.ndarray, np.ndarray]
"""A function on one batch and on another, shape (draws, …); one array twice without noise."""


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
        stretch: the squared distance of their mean from zero, in the metric of their own
            covariance: what uncertain coefficients add to the variance of an expectation, in parts
            of the regression's own.

    Args:
        first, second: Stein functions on one batch and on another, shape (draws, p).
    """

    def __init__(self, first: np.ndarray, second: np.ndarray) -> None:
        self._scale = 1 / np.append(1.0, _or_one(largest(first)))
        mean, apart = halved((first, second))
        self._mean = _scaled(mean, 1.0, self._scale)
        self._apart = None if apart is None else _scaled(apart, 0.0, self._scale)
        count = len(first)
        self._folds = groups(count, FOLDS)
        parts = [self._gram(fold) for fold in self._folds]
        whole = np.sum(parts, axis=0)
        self._factors = [_factored(whole - part) for part in parts]
        pull = self._mean @ lu_solve(_factored(whole), np.eye(len(whole))[0])
        self.stretch = max(0.0, count * float(pull @ pull) - 1)

    @staticmethod
    def has_room(count: int, size: int) -> bool:
        """Return whether `count` draws are enough for `size` functions."""
        return count - -(-count // FOLDS) > ROOM * (1 + size) + FOLDS / 2

    def coefficients(self, targets: np.ndarray) -> list[np.ndarray]:
        """Return each fold's coefficients of functions (draws, q), shape (p, q) each."""
        sides = [self._mean[fold].T @ targets[fold] for fold in self._folds]
        whole = np.sum(sides, axis=0)
        return [
            (self._scale[:, None] * lu_solve(factor, whole - side))[1:]
            for factor, side in zip(self._factors, sides, strict=True)
        ]

    def predicted(self, coefficients: list[np.ndarray]) -> Pair:
        """Return Stein functions with these coefficients in each fold, shape (draws, q)."""
        scaled = [own / self._scale[1:, None] for own in coefficients]

        def of(values: np.ndarray) -> np.ndarray:
            found = np.empty((len(values), scaled[0].shape[1]))
            for fold, own in zip(self._folds, scaled, strict=True):
                np.matmul(values[fold, 1:], own, out=found[fold])
            return found

        mean = of(self._mean)
        if self._apart is None:
            return mean, mean
        apart = of(self._apart)
        return mean + apart, mean - apart

    def _gram(self, fold: slice) -> np.ndarray:
        mean = self._mean[fold]
        if self._apart is None:
            return mean.T @ mean
        apart = self._apart[fold]
        # The product of the two batches, without noise: that of their means less that of their half
        # differences. As much of the noise stays as chance may take away too much: else functions
        # that it hides get large parts.
        kept = min(1.0, 2 * (self._mean.shape[1] / len(self._mean)) ** 0.5)
        return mean.T @ mean - (1 - 2 * kept) * (apart.T @ apart)


def fitted(targets: np.ndarray, functions: list[Pair], num_groups: int) -> Fit:
    """Return expectations of functions by the Stein functions that were predicted for each.

    Args:
        targets: functions at the draws, shape (draws, q).
        functions: Stein functions for each of them, shape (draws, q).
        num_groups: groups of successive draws, nearly independent of each other, that errors come
            from.
    """
    width = max(1, AT_ONCE // (len(targets) * (1 + len(functions))))
    parts = [slice(k, k + width) for k in range(0, targets.shape[1], width)]
    found = []
    for part in parts:
        columns = [mapped(lambda values, part=part: values[:, part], each) for each in functions]
        found.append(_fitted(targets[:, part], columns, num_groups))
    return Fit(*(np.concatenate([getattr(each, name) for each in found]) for name in Fit._fields))


def mapped(function: Callable[[np.ndarray], np.ndarray], pair: Pair) -> Pair:
    """Return a function of functions on each batch, the same array where that is the same."""
    first = function(pair[0])
    return first, first if pair[0] is pair[1] else function(pair[1])


def _fitted(targets: np.ndarray, functions: list[Pair], num_groups: int) -> Fit:
    """Return the same by a small regression for each target, with a Gram matrix of its own."""
    count = len(targets)
    pairs = [halved(each) for each in functions]
    means = [np.broadcast_to(1.0, targets.shape), *(mean for mean, _ in pairs)]
    gram, noise = _gram(means) / count, None
    if any(apart is not None for _, apart in pairs):
        nothing = np.broadcast_to(0.0, targets.shape)
        noise = (
            _gram([nothing, *(nothing if apart is None else apart for _, apart in pairs)]) / count
        )
    if not np.isfinite(gram).all():
        # Squares that overflow: functions in units of their largest values.
        sizes = [
            _or_one(np.maximum(largest(first), largest(second))) for first, second in functions
        ]
        smaller = [
            mapped(lambda f, size=size: f / size, e)
            for e, size in zip(functions, sizes, strict=True)
        ]
        found = _fitted(targets, smaller, num_groups)
        return found._replace(taken=found.taken / np.stack(sizes, axis=-1))
    # In units of their sizes: functions of a mean square of 1.
    scale = 1 / _or_one(np.sqrt(np.einsum("qkk->qk", gram if noise is None else gram + noise)))
    gram *= scale[:, :, None] * scale[:, None]
    if noise is not None:
        noise *= scale[:, :, None] * scale[:, None]
        gram -= noise
    size, axes = np.linalg.eigh(gram)
    # Functions that say the same share their part: what is rounding, or may be the chance of noise,
    # takes none.
    least = (1e-10 if noise is None else 1e-3) * np.abs(size).max(1, keepdims=True)
    if noise is not None:
        hidden = np.einsum("qki,qkl,qli->qi", axes, noise, axes)
        least = np.maximum(least, SURE * 2 * hidden / count**0.5)
    size = np.where(size > least, size, np.inf)
    inverse = (axes / size[:, None]) @ axes.swapaxes(1, 2)
    side = scale * np.stack([_dots(each, targets) for each in means], axis=-1) / count
    parts = (inverse @ side[..., None])[..., 0]
    taken = parts * scale
    # How much a draw pulls the expectation: its influence, linear in draws as in groups of them.
    weights = inverse[:, :, 0] * scale / max(1, count - len(means))
    noisy, pull = targets - taken[:, 0], np.broadcast_to(weights[:, 0], targets.shape).copy()
    for k, each in enumerate(means[1:], 1):
        noisy -= each * taken[:, k]
        pull += each * weights[:, k]
    pull *= noisy
    sums = np.add.reduceat(pull, [group.start for group in groups(count, num_groups)], axis=0)
    square = _dots(noisy, noisy) / count
    # What is left on one batch times what is left on the other.
    left = square if noise is None else square - np.einsum("qk,qkl,ql->q", parts, noise, parts)
    return Fit(
        taken[:, 0],
        np.sqrt(np.sum(sums**2, axis=0)),
        np.sqrt(np.maximum(left, 0.0)),
        np.sqrt(square),
        taken[:, 1:],
    )


def _dots(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return Σ over draws of products of functions (draws, q), shape (q,)."""
    return np.einsum("n...,n...->...", one, other)


def _gram(functions: list[np.ndarray]) -> np.ndarray:
    """Return the pairwise products of functions (draws, q) for each q, shape (q, k, k)."""
    found = np.empty((functions[0].shape[1], len(functions), len(functions)))
    for k, one in enumerate(functions):
        for other in range(k + 1):
            found[:, k, other] = found[:, other, k] = _dots(one, functions[other])
    return found


def halved(pair: Pair) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the mean over the two batches and half their difference, None without noise."""
    first, second = pair
    return (first, None) if first is second else ((first + second) / 2, (first - second) / 2)


def largest(values: np.ndarray) -> np.ndarray:
    """Return the largest absolute value of each function (draws, q)."""
    return np.maximum(values.max(0), -values.min(0))


def standardised(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return means of functions (draws, q) in their sds, without the noise of batches."""
    both, apart = halved((first, second))
    noise = 0.0 if apart is None else _dots(apart, apart) / len(apart)
    return both.mean(0) / spread_of(both, noise)


def spread_of(values: np.ndarray, noise: np.ndarray | float = 0.0) -> np.ndarray:
    """Return sds of functions (draws, q), without noise of this variance and without outliers.

    Of functions of which a few draws make the standard deviation it would hide any mean.
    """
    # Sorted in rows: a tenth of what NumPy's quantiles of columns take.
    some = np.sort(np.ascontiguousarray(values[:: max(1, len(values) // 512)].T), axis=-1)
    low, high = some[..., some.shape[-1] // 4], some[..., -1 - some.shape[-1] // 4]
    mean = values.mean(0)
    off = values - mean
    whole = _dots(off, off) / len(off)
    # What varies by rounding alone has a spread for all that: its mean is not beyond all bounds.
    least = np.maximum(whole / 16, 1e-12 * _or_one(whole + mean**2))
    inner = np.sqrt(np.maximum(whole - noise, least))
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
    """Return `number` groups of successive draws."""
    ends = np.linspace(0, count, min(number, count) + 1).astype(int).tolist()
    return [slice(i, j) for i, j in itertools.pairwise(ends)]


def _or_one(scale: np.ndarray) -> np.ndarray:
    """Return scales, 1 for those of nothing."""
    return np.where(scale > TINY, scale, 1.0)


def _scaled(functions: np.ndarray, one: float, scale: np.ndarray) -> np.ndarray:
    """Return a column of this number beside functions (draws, p), times scales (1 + p,)."""
    found = np.empty((len(functions), len(scale)))
    found[:, 0] = one
    np.multiply(functions, scale[1:], out=found[:, 1:])
    return found


def _factored(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # A direction in which nothing is known gets no part.
    ridge = 1e-12 * np.trace(np.abs(gram)) / len(gram)
    return lu_factor(gram + ridge * np.eye(len(gram)))
