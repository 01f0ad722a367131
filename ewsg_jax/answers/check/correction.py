"""Moments of the target from biased draws, by Stein's identities.

With g the gradient of V/T, for any target and every constant vector c

    E[c·g] = 0        E[(θⱼ − a) c·g] = cⱼ        E[(θ − a)·g] = d

By how much draws violate these says by how much their moments are off: a regression of f on such
functions has the target's expectation of f as its intercept. The intercept is exact, whatever the
draws, if the target is normal, f is θⱼ or its square, and c is column j of the target's covariance.
c comes from a regression of θⱼ on g at other draws (`crossfit`); if there are too few for that, it
is the axis j. Two estimates of g with independent noise, whose cross products make the Gram
matrices, undo the attenuation by their noise.

Errors have two parts. Monte Carlo error comes from how groups of successive draws differ. The other
part is unknown if the target is not normal: the regression leaves residuals r of f, and the mean of
r at the draws is not its mean under the target. By Cauchy and Schwarz these differ by at most the
standard deviation of r times the distance of the two distributions, and means of Stein functions,
in their standard deviations, are a lower bound of that distance. The standard error is half of the
product.
"""

import copy
import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.basis import linear, most_functions, quadratic
from ewsg_jax.answers.check.crossfit import (
    TINY,
    CrossFit,
    Fit,
    TwoBatches,
    fitted,
    groups,
    halved,
    mapped,
    standardised,
)
from ewsg_jax.base import limits

BY: dict[Callable[[np.ndarray, np.ndarray], np.ndarray], str] = {
    linear: "linear ones",
    quadratic: "all polynomials of degree two",
}
"""Their names in `report.corrected.by`."""


class TargetMoments(NamedTuple):
    """Moments of the target.

    Attributes:
        mean: means, shape (d,).
        sd: standard deviations, shape (d,).
        mean_error: standard errors of the means, shape (d,).
        sd_error: relative standard errors of the standard deviations, shape (d,).
        covariance: the covariance matrix, shape (d, d); None if there are too few draws for it, or
            too many parameters.
    """

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    covariance: np.ndarray | None

    def differs(self, other: "TargetMoments") -> tuple[float, float]:
        """Return the largest difference from other moments, and the root mean square: of means in
        sds, of sds relatively.
        """
        means, logs = self._apart(other)
        return float(np.maximum(means, logs).max()), float(np.sqrt(np.mean(means**2 + logs**2)))

    def with_chains_apart(self, apart: np.ndarray, num_chains: int) -> "TargetMoments":
        """Return the moments with larger errors: those of chains that disagree.

        Args:
            apart: the sd between chains of corrected means and of squares (`Correction.apart`), in
                sds, shape (2, d).
            num_chains: the number of chains.
        """
        mean, square = apart / np.sqrt(num_chains)
        return self._replace(
            mean_error=np.hypot(self.mean_error, self.sd * mean),
            sd_error=np.hypot(self.sd_error, square / np.sqrt(2)),
        )

    def with_doubt_of(self, other: "TargetMoments") -> "TargetMoments":
        """Return the moments with errors that contain the difference from others, for each moment
        and on average, and a part of the others' errors.
        """
        means, logs = self._apart(other)
        return self._replace(
            mean_error=self.sd
            * _with_doubt(self.mean_error / self.sd, other.mean_error / other.sd, means),
            sd_error=_with_doubt(self.sd_error, other.sd_error, logs),
        )

    def _apart(self, other: "TargetMoments") -> tuple[np.ndarray, np.ndarray]:
        return np.abs(self.mean - other.mean) / self.sd, np.abs(np.log(other.sd / self.sd))


def _with_doubt(error: np.ndarray, other: np.ndarray, apart: np.ndarray) -> np.ndarray:
    doubt = apart**2 + np.mean(apart**2) + (settings.UNMOVED_ERROR_SHARE * other) ** 2
    return _clipped(np.sqrt(error**2 + doubt))


def _clipped(error: np.ndarray) -> np.ndarray:
    """Return errors, in sds or relatively, that are no smaller than rounding and no overflow."""
    return np.clip(error, settings.MIN_ERROR, settings.MAX_SDS)


class Correction:
    """The regression that gives the target's moments and expectations.

    Inside, x and g are draws and gradients in units of the draws: x of mean 0 and sd 1.

    Attributes:
        by: the name of the Stein functions that moments are computed with.

    Args:
        flat: draws, shape (draws, d).
        first, second: gradients of V/T at them on one minibatch and on another, shape (draws, d),
            which may be the same array.
        distance: the distance of the draws' distribution from the target, in sds of Stein
            functions: what their means show, or may hide (`stein.Scores`).
        num_groups: the number of groups of successive draws, nearly independent of each other.
            Default: 32.
    """

    def __init__(
        self,
        flat: np.ndarray,
        first: np.ndarray,
        second: np.ndarray,
        distance: float,
        num_groups: int | None = None,
    ) -> None:
        self._num_groups = settings.ERROR_GROUPS if num_groups is None else num_groups
        self._distance = distance
        self._center, self._sd = flat.mean(0), np.maximum(flat.std(0), TINY)
        self._x = (flat - self._center) / self._sd
        scaled = first * self._sd
        self._g: TwoBatches = (scaled, scaled if first is second else second * self._sd)
        self._bases = _bases(*flat.shape)
        self.by = BY[self._bases[-1]] if self._bases else "each coordinate's own"
        if self._bases:
            values, vectors = np.linalg.eigh(self._x.T @ self._x / len(flat))
            # x = L u, with u of covariance I.
            self._sizes, self._axes = np.sqrt(np.maximum(values, 1e-12 * values[-1])), vectors

    def with_distance(self, distance: float) -> "Correction":
        """Return the correction of draws that are at this distance from the target, in sds of a
        function, in addition to the distance that identities show.
        """
        other = copy.copy(self)
        other._distance = float(np.hypot(self._distance, distance))
        vars(other).pop("moments", None)
        return other

    @functools.cached_property
    def moments(self) -> TargetMoments:
        """Moments of the target, with errors."""
        moments = self._moments()
        self._forget()
        return moments

    def expectation(
        self, values: np.ndarray, coordinates: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the target's expectations of functions, and standard errors, shape (q,) both.

        Args:
            values: the functions at the draws, shape (draws, q).
            coordinates: the number of a coordinate for each function, whose own Stein functions are
                taken if there are too few draws for those of all, shape (q,). Default: none are.
        """
        level, size = values.mean(0), np.maximum(values.std(0), TINY)
        scaled = (values - level) / size
        if self._fits:
            shown = [fit.predicted(fit.coefficients(scaled)) for fit in self._fits]
            functions, distance = [*shown, self._scale_for(scaled)], self._scale_distance
        elif coordinates is not None:
            x, gradients = self._x[:, coordinates], mapped(lambda g: g[:, coordinates], self._g)
            functions = shown = [gradients, mapped(lambda g: x * g - 1, gradients)]
            distance = np.zeros(len(coordinates))
        else:
            # A function may depend on all d directions as their sum does.
            functions = shown = [self._scale_for(scaled)]
            distance = _distance(self._of_scale)
        distance = functools.reduce(np.maximum, map(_distance, shown), distance)
        fit, error = self._fit(scaled, functions, distance)
        self._forget()
        return level + size * fit.expectation, size * np.minimum(error, settings.MAX_SDS)

    def explained(self, values: np.ndarray) -> np.ndarray:
        """Return the part of the variance of functions that Stein functions of the coordinates
        explain, at draws that coefficients do not come from, shape (q,); 0 without regressions.

        Args:
            values: the functions at the draws, shape (draws, q).
        """
        scaled = (values - values.mean(0)) / np.maximum(values.std(0), TINY)
        parts = [scaled - halved(fit.predicted(fit.coefficients(scaled)))[0] for fit in self._fits]
        self._forget()
        return np.max([1 - part.var(0) for part in parts] + [np.zeros(values.shape[1])], axis=0)

    def apart(self, in_chains: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return the sd between chains of corrected means of coordinates and of their squares.

        In sds of the draws, shape (2, d). No Stein function explains it, as between two modes.

        Args:
            in_chains: gives an array with a row for each draw the axes (chain, draw, …).
        """
        targets = np.concatenate([self._x, (self._x**2 - 1) / np.sqrt(2)], axis=1)
        if self._fits:
            fit = self._fits[-1]
            targets = targets - halved(fit.predicted(fit.coefficients(targets)))[0]
        self._forget()
        chains = in_chains(targets)
        # Less the Monte Carlo error of chains with few draws, were these independent.
        # Up to three standard errors the means of chains count as equal.
        monte_carlo = 9 * chains.var(1).mean(0) / chains.shape[1]
        excess = chains.mean(1).var(0, ddof=1) - monte_carlo
        return np.sqrt(np.maximum(excess, 0.0)).reshape(2, -1)

    def _moments(self) -> TargetMoments:
        x, fits = self._x, self._fits
        # c of every coordinate and fold, and c·g at the draws.
        linear_ones = fits[0].coefficients(x) if fits else []
        along = fits[0].predicted(linear_ones) if fits else None
        # E[θⱼ c·g] = cⱼ, with the c of each fold.
        levels = [
            -np.einsum("ij,ji->i", self._axes * self._sizes, coefficients)
            for coefficients in linear_ones
        ]
        width = settings.COLUMNS_AT_ONCE
        parts = [slice(k, k + width) for k in range(0, x.shape[1], width)]
        of_parts = [
            self._of_coordinates(part, along, [level[part] for level in levels]) for part in parts
        ]
        shift, mean_error, variance, error = (
            np.concatenate(numbers) for numbers in zip(*of_parts, strict=True)
        )
        sd = np.sqrt(variance)
        covariance = None
        if along is not None:
            # What the regression explains, and the covariance of its residuals.
            inner = self._axes * self._sizes @ -np.mean(linear_ones, axis=0)
            left = x - shift - halved(along)[0]
            covariance = (
                self._bounded(inner + (x - shift).T @ left / len(x), sd)
                * self._sd
                * self._sd[:, None]
            )
        return TargetMoments(
            mean=self._center + self._sd * shift,
            sd=self._sd * sd,
            mean_error=self._sd * _clipped(mean_error),
            sd_error=_clipped(error / 2 / np.minimum(variance, 1.0)),
            covariance=covariance,
        )

    def _of_coordinates(
        self, part: slice, along: TwoBatches | None, levels: list[np.ndarray]
    ) -> tuple[np.ndarray, ...]:
        """Return shifts of the mean of some coordinates of x, errors, variances, and errors.

        Args:
            part: the coordinates.
            along: c·g for every coordinate, from regressions on linear functions; None if there are
                too few draws.
            levels: cⱼ of these coordinates, for each fold.
        """
        x, g = self._x[:, part], mapped(lambda g: g[:, part], self._g)
        predicted = [] if along is None else [mapped(lambda p: p[:, part], along)]
        lengths = [fold.stop - fold.start for fold in groups(len(x), settings.FOLDS)]
        level = np.repeat(levels, lengths, axis=0) if predicted else None
        always = functools.reduce(np.maximum, map(_distance, [g, *predicted]), self._scale_distance)

        def expectation(targets: np.ndarray, off: np.ndarray) -> tuple[Fit, np.ndarray]:
            others = [fit.predicted(fit.coefficients(targets)) for fit in self._fits[1:]]
            products = [
                mapped(lambda g: off * g - 1, g),
                *(mapped(lambda p: off * p - level, p) for p in predicted),
            ]
            distance = functools.reduce(np.maximum, map(_distance, [*others, *products]), always)
            functions = [*predicted, *others, g, *products, self._scale_for(targets)]
            return self._fit(targets, functions, distance)

        means, mean_error = expectation(x, x)
        most = settings.MAX_MEAN_SHIFT
        shift = np.clip(means.expectation, -most, most)
        mean_error = mean_error + np.abs(means.expectation - shift)
        squares, error = expectation((x - shift) ** 2, x - shift)
        variance = np.clip(
            squares.expectation, settings.MIN_VARIANCE_RATIO, settings.MAX_VARIANCE_RATIO
        )
        with np.errstate(over="ignore"):
            # If draws fell out of the posterior an error may have any size: if it is infinite the
            # moment is unknown.
            error = np.hypot(error, mean_error**2) + np.abs(squares.expectation - variance)
        return shift, mean_error, variance, error

    def _fit(
        self, targets: np.ndarray, functions: list[TwoBatches], distance: np.ndarray
    ) -> tuple[Fit, np.ndarray]:
        """Return the expectations of functions under the target, and their standard errors.

        Args:
            targets: the functions at the draws, shape (draws, q).
            functions: Stein functions for each target, shape (draws, q) each; first those that the
                regressions of `_fits` predict.
            distance: the distance of the draws from the target that these show, shape (q,).
        """
        fit = fitted(targets, functions, self._num_groups)
        # Coefficients are uncertain: it matters as far as the functions' means are off zero.
        stretch = np.zeros(targets.shape[1])
        # The standard error times √m: above the sd of the residuals if successive draws are alike.
        of_one = np.maximum(fit.error * np.sqrt(len(targets)), fit.noisy_residual)
        for k, regression in enumerate(self._fits):
            share = np.minimum(np.abs(fit.coefficients[:, k]), 1.0)
            stretch = np.maximum(stretch, share**2 * regression.stretch)
        monte_carlo = np.hypot(fit.error, of_one * np.sqrt(stretch / len(targets)))
        bias = settings.BIAS_SHARE * np.hypot(self._distance, distance) * fit.residual
        return fit, np.hypot(monte_carlo, bias)

    @functools.cached_property
    def _fits(self) -> list[CrossFit]:
        """The regressions on Stein functions of polynomials, those of degree one first."""
        if not self._bases:
            return []
        # Linear functions are those of the gradients alone.
        u = (self._x @ self._axes) / self._sizes if self._bases[1:] else self._x
        root = self._axes * self._sizes
        turned = mapped(lambda g: g @ root, self._g)
        return [
            CrossFit(*mapped(lambda h, basis=basis: basis(u, h), turned)) for basis in self._bases
        ]

    @functools.cached_property
    def _of_scale(self) -> TwoBatches:
        """1 − (θ − a)·g/d: the identity of a change of scale, shape (draws,)."""
        x, total = self._x, self._x.sum(0)
        # With the mean of all draws for a it would be biased by d over their number; with that of
        # the other folds it is not.
        parts = [x[fold] for fold in groups(len(x), settings.FOLDS)]
        off = np.concatenate(
            [part - (total - part.sum(0)) / (len(x) - len(part)) for part in parts]
        )
        return mapped(lambda g: 1 - np.einsum("nj,nj->n", off, g) / g.shape[1], self._g)

    @property
    def _scale_distance(self) -> np.ndarray:
        """The distance that the identity of the scale shows for one of the d directions that it
        sums: 1/√d of its own.
        """
        return _distance(self._of_scale) / np.sqrt(self._x.shape[1])

    def _scale_for(self, targets: np.ndarray) -> TwoBatches:
        """Return the function of the scale for each target, shape (draws, q)."""
        return mapped(
            lambda values: np.broadcast_to(values[:, None], targets.shape), self._of_scale
        )

    def _forget(self) -> None:
        """Free the memory of what can be computed again."""
        for name in ("_fits", "_of_scale"):
            vars(self).pop(name, None)

    def _bounded(self, covariance: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """Return a covariance of x, bounded by how far one correction goes, with these sds.

        Args:
            covariance: the covariance by the regression, shape (d, d).
            sd: the standard deviations of x that the result has, shape (d,).
        """
        turned = (
            self._axes.T
            @ ((covariance + covariance.T) / 2)
            @ self._axes
            / self._sizes
            / self._sizes[:, None]
        )
        values, vectors = np.linalg.eigh(turned)
        bounds = settings.MIN_VARIANCE_RATIO, settings.MAX_VARIANCE_RATIO
        root = (self._axes * self._sizes) @ (vectors * np.sqrt(np.clip(values, *bounds)))
        root *= (sd / np.linalg.norm(root, axis=1))[:, None]
        return root @ root.T


def _distance(functions: TwoBatches) -> np.ndarray:
    """Return the distance of the means of Stein functions (draws, q) from 0, in their sds."""
    return np.abs(standardised(*functions))


def _bases(count: int, d: int) -> list[Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    """Return the kinds of Stein functions that `count` draws in d dimensions are enough for."""
    if d > limits.MAX_DENSE_DIMENSION or not CrossFit.has_room(count, d):
        return []
    return [linear, quadratic] if most_functions(count, d) > 1 + d else [linear]
