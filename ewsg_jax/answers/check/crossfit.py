"""Regressions on Stein functions with coefficients from other draws than they are used at.

A Stein function has mean zero under the target whatever its coefficients are, as long as they do
not depend on the draws that it is averaged over. Coefficients of a regression with p functions on
the same m draws do: its intercept is biased by about p/m, and its residuals look too small. So the
draws are cut into folds, and each fold has the coefficients of the others (Chernozhukov et al.
2018; control functionals: Oates, Girolami & Chopin 2017). Only a handful of numbers is fitted to
all draws: the coefficient of each predicted function.
"""

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.base import limits
from ewsg_jax.base.optional import lu_factor, lu_solve

TINY = np.finfo(float).tiny
"""The smallest positive normal number in float64."""
TwoBatches = tuple[np.ndarray, np.ndarray]
"""A function on one minibatch and on another, shape (draws, …); one array twice without noise."""


class Fit(NamedTuple):
    """Expectations of functions by regressions on Stein functions; of each function a number.

    Attributes:
        expectation: the expectation under the target, shape (functions,).
        error: its standard error, of Monte Carlo error alone, shape (functions,).
        residual: the standard deviation of the residuals, shape (functions,).
        noisy_residual: the same with the noise of minibatches, shape (functions,).
        coefficients: those of the Stein functions, shape (functions, Stein functions).
    """

    expectation: np.ndarray
    error: np.ndarray
    residual: np.ndarray
    noisy_residual: np.ndarray
    coefficients: np.ndarray


class CrossFit:
    """A regression on Stein functions, with coefficients for each fold from the other folds.

    Attributes:
        stretch: the squared distance of the functions' mean from zero, in the metric of their
            covariance, times the number of draws: the variance that uncertain coefficients add to
            an expectation, over that of the regression.

    Args:
        first, second: Stein functions on one minibatch and on another, shape (draws, p).
    """

    def __init__(self, first: np.ndarray, second: np.ndarray) -> None:
        self._scale = 1 / np.append(1.0, _or_one(largest(first)))
        mean, noise = halved((first, second))
        self._mean = _scaled(mean, 1.0, self._scale)
        self._noise = None if noise is None else _scaled(noise, 0.0, self._scale)
        count = len(first)
        self._folds = groups(count, settings.FOLDS)
        parts = [self._gram(fold) for fold in self._folds]
        total = np.sum(parts, axis=0)
        self._factors = [_factored(total - part) for part in parts]
        # The weight of each draw in the intercept: 1/m each if all functions have mean 0.
        weights = self._mean @ lu_solve(_factored(total), np.eye(len(total))[0])
        self.stretch = max(0.0, count * float(weights @ weights) - 1)

    @staticmethod
    def has_room(count: int, size: int) -> bool:
        """Return whether `count` draws are enough for `size` functions."""
        folds = settings.FOLDS
        others = count - -(-count // folds)
        return others > settings.DRAWS_PER_COEFFICIENT * (1 + size) + folds / 2

    def coefficients(self, targets: np.ndarray) -> list[np.ndarray]:
        """Return the coefficients in each fold for functions (draws, q), shape (p, q) each."""
        sides = [self._mean[fold].T @ targets[fold] for fold in self._folds]
        total = np.sum(sides, axis=0)
        return [
            (self._scale[:, None] * lu_solve(factor, total - side))[1:]
            for factor, side in zip(self._factors, sides, strict=True)
        ]

    def predicted(self, coefficients: list[np.ndarray]) -> TwoBatches:
        """Return Stein functions with these coefficients in each fold, shape (draws, q)."""
        scaled = [fold_part / self._scale[1:, None] for fold_part in coefficients]

        def of(values: np.ndarray) -> np.ndarray:
            products = np.empty((len(values), scaled[0].shape[1]))
            for fold, fold_part in zip(self._folds, scaled, strict=True):
                np.matmul(values[fold, 1:], fold_part, out=products[fold])
            return products

        mean = of(self._mean)
        if self._noise is None:
            return mean, mean
        noise = of(self._noise)
        return mean + noise, mean - noise

    def _gram(self, fold: slice) -> np.ndarray:
        mean = self._mean[fold]
        if self._noise is None:
            return mean.T @ mean
        noise = self._noise[fold]
        # The product of the two minibatches, which has no noise: that of their means less that of
        # their half differences. As much of the noise stays as may be taken away too much by Monte
        # Carlo error: else functions that it hides get large coefficients.
        kept = min(1.0, 2 * (self._mean.shape[1] / len(self._mean)) ** 0.5)
        return mean.T @ mean - (1 - 2 * kept) * (noise.T @ noise)


def fitted(targets: np.ndarray, functions: list[TwoBatches], num_groups: int) -> Fit:
    """Return expectations of functions by a small regression of each on Stein functions of its own.

    Args:
        targets: the functions at the draws, shape (draws, q).
        functions: Stein functions, one for each target in an array, shape (draws, q).
        num_groups: the number of groups of successive draws, nearly independent of each other, from
            which standard errors come.
    """
    width = max(1, limits.NUMBERS_AT_ONCE // (len(targets) * (1 + len(functions))))
    parts = [slice(k, k + width) for k in range(0, targets.shape[1], width)]
    fits = []
    for part in parts:
        columns = [mapped(lambda values, part=part: values[:, part], pair) for pair in functions]
        fits.append(_fitted(targets[:, part], columns, num_groups))
    return Fit(*(np.concatenate([getattr(fit, name) for fit in fits]) for name in Fit._fields))


def mapped(function: Callable[[np.ndarray], np.ndarray], pair: TwoBatches) -> TwoBatches:
    """Return a function of both arrays of a pair; the same array twice if they are the same."""
    first = function(pair[0])
    return first, first if pair[0] is pair[1] else function(pair[1])


def _fitted(targets: np.ndarray, functions: list[TwoBatches], num_groups: int) -> Fit:
    """Return the same for targets whose arrays fit in memory together."""
    count = len(targets)
    pairs = [halved(pair) for pair in functions]
    # A Gram matrix for each target, of a constant and its Stein functions.
    means = [np.broadcast_to(1.0, targets.shape), *(mean for mean, _ in pairs)]
    gram, noise = _gram(means) / count, None
    if any(half_difference is not None for _, half_difference in pairs):
        zero = np.broadcast_to(0.0, targets.shape)
        noises = [zero, *(zero if half is None else half for _, half in pairs)]
        noise = _gram(noises) / count
    if not np.isfinite(gram).all():
        # Squares overflow: take functions in units of their largest values.
        sizes = [
            _or_one(np.maximum(largest(first), largest(second))) for first, second in functions
        ]
        smaller = [
            mapped(lambda values, size=size: values / size, pair)
            for pair, size in zip(functions, sizes, strict=True)
        ]
        fit = _fitted(targets, smaller, num_groups)
        return fit._replace(coefficients=fit.coefficients / np.stack(sizes, axis=-1))
    # In units of their sizes: functions with a mean square of 1.
    scale = 1 / _or_one(np.sqrt(np.einsum("qkk->qk", gram if noise is None else gram + noise)))
    gram *= scale[:, :, None] * scale[:, None]
    if noise is not None:
        noise *= scale[:, :, None] * scale[:, None]
        gram -= noise
    inverse = _inverse(gram, noise, count)
    side = scale * np.stack([_dots(mean, targets) for mean in means], axis=-1) / count
    scaled = (inverse @ side[..., None])[..., 0]
    coefficients = scaled * scale
    # The influence of a draw on the expectation, which is linear: that of a group is the sum.
    weights = inverse[:, :, 0] * scale / max(1, count - len(means))
    influence = np.broadcast_to(weights[:, 0], targets.shape).copy()
    residuals = targets - coefficients[:, 0]
    for k, mean in enumerate(means[1:], 1):
        residuals -= mean * coefficients[:, k]
        influence += mean * weights[:, k]
    influence *= residuals
    starts = [group.start for group in groups(count, num_groups)]
    of_groups = np.add.reduceat(influence, starts, axis=0)
    square = _dots(residuals, residuals) / count
    # Residuals on one minibatch times those on the other have no noise.
    exact = square
    if noise is not None:
        exact = square - np.einsum("qk,qkl,ql->q", scaled, noise, scaled)
    return Fit(
        expectation=coefficients[:, 0],
        error=np.sqrt(np.sum(of_groups**2, axis=0)),
        residual=np.sqrt(np.maximum(exact, 0.0)),
        noisy_residual=np.sqrt(square),
        coefficients=coefficients[:, 1:],
    )


def _inverse(gram: np.ndarray, noise: np.ndarray | None, count: int) -> np.ndarray:
    """Return pseudo-inverses of Gram matrices, shape (q, k, k).

    Functions that are the same share their coefficient: directions that are rounding, or may be the
    Monte Carlo error of the noise, have none.

    Args:
        gram: Gram matrices without noise, shape (q, k, k).
        noise: those of the noise of minibatches, the same shape; None if there is none.
        count: the number of draws.
    """
    size, axes = np.linalg.eigh(gram)
    # Functions are taken to be the same below this eigenvalue over the largest: by rounding, and
    # with the noise of minibatches.
    rank = 1e-10 if noise is None else 1e-3
    least = rank * np.abs(size).max(1, keepdims=True)
    if noise is not None:
        hidden = np.einsum("qki,qkl,qli->qi", axes, noise, axes)
        least = np.maximum(least, settings.NOISE_ERRORS * 2 * hidden / count**0.5)
    size = np.where(size > least, size, np.inf)
    return (axes / size[:, None]) @ axes.swapaxes(1, 2)


def _dots(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return Σ over draws of products of functions (draws, q), shape (q,)."""
    return np.einsum("n...,n...->...", one, other)


def _gram(functions: list[np.ndarray]) -> np.ndarray:
    """Return the Gram matrices of k functions (draws, q) for each of q targets, shape (q, k, k)."""
    gram = np.empty((functions[0].shape[1], len(functions), len(functions)))
    for k, one in enumerate(functions):
        for other in range(k + 1):
            gram[:, k, other] = gram[:, other, k] = _dots(one, functions[other])
    return gram


def halved(pair: TwoBatches) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the mean over the two minibatches and half their difference, None without noise."""
    first, second = pair
    return (first, None) if first is second else ((first + second) / 2, (first - second) / 2)


def largest(values: np.ndarray) -> np.ndarray:
    """Return the largest absolute value of each function (draws, q)."""
    return np.maximum(values.max(0), -values.min(0))


def standardised(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return means of functions (draws, q) in their sds, without the noise of minibatches."""
    mean, half = halved((first, second))
    noise = 0.0 if half is None else _dots(half, half) / len(half)
    return mean.mean(0) / spread_of(mean, noise)


def spread_of(values: np.ndarray, noise: np.ndarray | float = 0.0) -> np.ndarray:
    """Return sds of functions (draws, q), without the noise of minibatches and without outliers.

    A standard deviation that a few draws make would hide any mean.

    Args:
        values: the functions at the draws, shape (draws, q).
        noise: the variance of the noise of minibatches, shape (q,), or 0.
    """
    # Sorted in rows: a tenth of what NumPy's quantiles of columns take.
    every = max(1, len(values) // settings.QUANTILE_DRAWS)
    ordered = np.sort(np.ascontiguousarray(values[::every].T), axis=-1)
    quarter = ordered.shape[-1] // 4
    low, high = ordered[..., quarter], ordered[..., -1 - quarter]
    mean = values.mean(0)
    off = values - mean
    variance = _dots(off, off) / len(off)
    # At least a quarter of the sd with noise, and more than rounding: else a mean in sds overflows.
    least = np.maximum(variance / 16, 1e-12 * _or_one(variance + mean**2))
    sd = np.sqrt(np.maximum(variance - noise, least))
    # The quartiles of a normal distribution are 1.349 sds apart. If more than half of all draws
    # are one value there is no robust sd.
    # A larger sd is that of a few draws, and would hide any mean.
    robust = 10.0 * (high - low) / 1.349
    return np.where(high > low, np.minimum(sd, robust), sd)


def jackknife(without: np.ndarray) -> np.ndarray:
    """Return jackknife errors from values that leave out one group each, shape (groups, …)."""
    count = len(without)
    return np.sqrt((count - 1) / count * np.sum((without - without.mean(0)) ** 2, axis=0))


def averages(values: np.ndarray, num_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return means over draws (draws, q) and their standard errors, from groups of draws."""
    means = np.stack([values[group].mean(0) for group in groups(len(values), num_groups)])
    return values.mean(0), means.std(0, ddof=1) / np.sqrt(len(means))


def groups(count: int, number: int) -> list[slice]:
    """Return `number` groups of successive draws, of `count` in all."""
    ends = np.linspace(0, count, min(number, count) + 1).astype(int).tolist()
    return [slice(i, j) for i, j in itertools.pairwise(ends)]


def _or_one(scale: np.ndarray) -> np.ndarray:
    """Return scales, and 1 for those that are 0."""
    return np.where(scale > TINY, scale, 1.0)


def _scaled(functions: np.ndarray, one: float, scale: np.ndarray) -> np.ndarray:
    """Return functions (draws, p) after a constant column, times scales, shape (draws, 1 + p)."""
    columns = np.empty((len(functions), len(scale)))
    columns[:, 0] = one
    np.multiply(functions, scale[1:], out=columns[:, 1:])
    return columns


def _factored(gram: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # A direction in which nothing is known gets no coefficient.
    ridge = 1e-12 * np.trace(np.abs(gram)) / len(gram)
    return lu_factor(gram + ridge * np.eye(len(gram)))
