"""What is right, from draws that are not: moments of the target, by Stein's identities.

With g the gradient of V/T, for any target and every constant vector c

    E[c·g] = 0        E[(θⱼ − a) c·g] = cⱼ        E[(θ − a)·g] = d

What draws miss of these says by how much their own moments are off: a regression of f on such
functions has the target's expectation of f as its intercept. It is exact, whatever the draws, where
the target is normal, f is θⱼ or its square and c the column j of the target's covariance. c comes
from a regression of θⱼ on g at other draws (`crossfit`); where there are too few for it, it is the
axis j. Two estimates of g with independent noise, whose cross products make the Gram matrices, undo
the attenuation by their noise.

Errors are of two kinds. Chance: how groups of successive draws differ. And what nobody knows off
normal: Stein functions leave r of f, and the mean of r at the draws is not its mean under the
target. By Cauchy and Schwarz these differ by at most the standard deviation of r times the distance
of the two laws, of which means of Stein functions, in their standard deviations, show a part. The
standard error is half of that: two of them are the bound.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.check.basis import linear, most_functions, quadratic
from ewsg_jax.answers.check.crossfit import (
    FOLDS,
    GROUPS,
    TINY,
    CrossFit,
    Fit,
    Pair,
    fitted,
    groups,
    halved,
    mapped,
    standardised,
)

MOST_DENSE = 1000
"""Dimension up to which covariances are matrices."""
LEAST_VARIANCE, MOST_VARIANCE, MOST_SHIFT = 0.04, 4.0, 2.0
"""How far draws are moved at once: ratio of variances in a direction, and means in their sds."""
SURELY = 3.0
"""Standard errors of chains' means, beyond which these are apart."""
LEAST_ERROR, MOST_ERROR = 1e-4, 1e6
"""Of a mean in sds, and of an sd relatively: less is rounding, and of more nothing is known."""

BY: dict[Callable[[np.ndarray, np.ndarray], np.ndarray], str] = {
    linear: "linear ones",
    quadratic: "all polynomials of degree two",
}
"""How they are called."""
AT_ONCE = 64
"""Coordinates that are worked on together: a processor's cache has room for their functions."""
BOUND = 0.5
"""Part of the largest bias that a distance allows, for one standard error."""
MOST_SLOW = 10.0
"""Times by which successive draws that are alike make an error larger, at most."""
DOUBTED = 3 / 4
"""Part of the error of draws as they are that stays when they are moved: their shape stays, in
which they may differ where no identity that is evaluated shows it.
"""


class Moments(NamedTuple):
    """Of the target.

    Attributes:
        mean: shape (d,).
        sd: standard deviations, shape (d,).
        mean_error: standard errors of the means, shape (d,).
        sd_error: relative ones of the standard deviations, shape (d,).
        covariance: shape (d, d); None where draws are too few for it, or numbers too many.
    """

    mean: np.ndarray
    sd: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    covariance: np.ndarray | None

    def differs(self, other: "Moments") -> tuple[float, float]:
        """Return how far another estimate is, in sds or relatively: the farthest and the mean."""
        means, logs = self._apart(other)
        return float(np.maximum(means, logs).max()), float(np.sqrt(np.mean(means**2 + logs**2)))

    def of_chains(self, apart: np.ndarray, num_chains: int) -> "Moments":
        """Return these with errors from how far the means of chains are apart, as of `apart`."""
        mean, square = apart / np.sqrt(num_chains)
        return self._replace(
            mean_error=np.hypot(self.mean_error, self.sd * mean),
            sd_error=np.hypot(self.sd_error, square / np.sqrt(2)),
        )

    def beside(self, other: "Moments") -> "Moments":
        """Return these with the farthest and mean difference of others and part of their errors."""
        means, logs = self._apart(other)
        return self._replace(
            mean_error=self.sd
            * _with_doubt(self.mean_error / self.sd, other.mean_error / other.sd, means),
            sd_error=_with_doubt(self.sd_error, other.sd_error, logs),
        )

    def _apart(self, other: "Moments") -> tuple[np.ndarray, np.ndarray]:
        return np.abs(self.mean - other.mean) / self.sd, np.abs(np.log(other.sd / self.sd))


def _with_doubt(error: np.ndarray, other: np.ndarray, apart: np.ndarray) -> np.ndarray:
    doubt = apart**2 + np.mean(apart**2) + (DOUBTED * other) ** 2
    return np.clip(np.sqrt(error**2 + doubt), LEAST_ERROR, MOST_ERROR)


class Correction:
    """Draws, corrected.

    Attributes:
        by: the name of the Stein functions that moments are found with.

    Args:
        flat: shape (draws, d).
        first, second: gradients of V/T on one batch and on another, which may be the same.
        distance: of the draws' law from the target's, in standard deviations of Stein functions:
            what their means show, or would hide (`stein.Scores`).
        num_groups: groups of successive draws, nearly independent of each other.
    """

    def __init__(
        self,
        flat: np.ndarray,
        first: np.ndarray,
        second: np.ndarray,
        distance: float,
        num_groups: int = GROUPS,
    ) -> None:
        self._num_groups, self._distance = num_groups, distance
        self._center, self._sd = flat.mean(0), np.maximum(flat.std(0), TINY)
        self._x = (flat - self._center) / self._sd
        slopes = first * self._sd
        self._g: Pair = (slopes, slopes if first is second else second * self._sd)
        self._bases = _bases(*flat.shape)
        self.by = BY[self._bases[-1]] if self._bases else "each coordinate's own"
        if self._bases:
            values, vectors = np.linalg.eigh(self._x.T @ self._x / len(flat))
            # x = L u, with u of covariance I.
            self._sizes, self._axes = np.sqrt(np.maximum(values, 1e-12 * values[-1])), vectors

    @functools.cached_property
    def moments(self) -> Moments:
        """Of the target."""
        found = self._moments()
        self._forget()
        return found

    def expectation(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the target's expectations of functions known at the draws, (draws, q), errors."""
        level, size = values.mean(0), np.maximum(values.std(0), TINY)
        scaled = (values - level) / size
        predicted = [fit.predicted(fit.coefficients(scaled)) for fit in self._fits]
        distance = functools.reduce(
            np.maximum, map(_distance, predicted), np.zeros(values.shape[1])
        )
        found, error = self._found(scaled, predicted, distance)
        self._forget()
        return level + size * found.expectation, size * np.minimum(error, MOST_ERROR)

    def apart(self, in_chains: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return how far chains' means of coordinates and of their squares are apart when each is
        corrected, in sds, shape (2, d): what no Stein function explains, as between two modes.

        Args:
            in_chains: gives functions of the draws the axes (chain, draw, …).
        """
        targets = np.concatenate([self._x, (self._x**2 - 1) / np.sqrt(2)], axis=1)
        if self._fits:
            fit = self._fits[-1]
            targets = targets - halved(fit.predicted(fit.coefficients(targets)))[0]
        self._forget()
        chains = in_chains(targets)
        # Less what few draws may make of independent ones.
        chance = SURELY**2 * chains.var(1).mean(0) / chains.shape[1]
        excess = chains.mean(1).var(0, ddof=1) - chance
        return np.sqrt(np.maximum(excess, 0.0)).reshape(2, -1)

    def _moments(self) -> Moments:
        x, fits = self._x, self._fits
        linear_ones = fits[0].coefficients(x) if fits else []
        along = fits[0].predicted(linear_ones) if fits else None
        # What E[θⱼ c·g] is: cⱼ of the fold.
        levels = [-np.einsum("ij,ji->i", self._axes * self._sizes, each) for each in linear_ones]
        parts = [slice(k, k + AT_ONCE) for k in range(0, x.shape[1], AT_ONCE)]
        each = [
            self._of_coordinates(part, along, [level[part] for level in levels]) for part in parts
        ]
        shift, mean_error, variance, error = (
            np.concatenate(numbers) for numbers in zip(*each, strict=True)
        )
        sd = np.sqrt(variance)
        covariance = None
        if along is not None:
            inner = self._axes * self._sizes @ -np.mean(linear_ones, axis=0)
            left = x - shift - halved(along)[0]
            covariance = (
                self._bounded(inner + (x - shift).T @ left / len(x), sd)
                * self._sd
                * self._sd[:, None]
            )
        return Moments(
            self._center + self._sd * shift,
            self._sd * sd,
            self._sd * np.clip(mean_error, LEAST_ERROR, MOST_ERROR),
            np.clip(error / 2 / np.minimum(variance, 1.0), LEAST_ERROR, MOST_ERROR),
            covariance,
        )

    def _of_coordinates(
        self, part: slice, along: Pair | None, levels: list[np.ndarray]
    ) -> tuple[np.ndarray, ...]:
        """Return moved means of some coordinates of x, their variances, and errors of both."""
        x, g = self._x[:, part], mapped(lambda g: g[:, part], self._g)
        predicted = [] if along is None else [mapped(lambda p: p[:, part], along)]
        lengths = [fold.stop - fold.start for fold in groups(len(x), FOLDS)]
        level = np.repeat(levels, lengths, axis=0) if predicted else None
        always = functools.reduce(np.maximum, map(_distance, [g, *predicted]))

        def of(targets: np.ndarray, off: np.ndarray) -> tuple[Fit, np.ndarray]:
            others = [fit.predicted(fit.coefficients(targets)) for fit in self._fits[1:]]
            own = [
                mapped(lambda g: off * g - 1, g),
                *(mapped(lambda p: off * p - level, p) for p in predicted),
            ]
            distance = functools.reduce(np.maximum, map(_distance, [*others, *own]), always)
            return self._found(targets, [*predicted, *others, g, *own], distance)

        means, mean_error = of(x, x)
        shift = np.clip(means.expectation, -MOST_SHIFT, MOST_SHIFT)
        mean_error = mean_error + np.abs(means.expectation - shift)
        squares, error = of((x - shift) ** 2, x - shift)
        variance = np.clip(squares.expectation, LEAST_VARIANCE, MOST_VARIANCE)
        with np.errstate(over="ignore"):
            # Of draws that fell out of the posterior an error may be of any size: infinite ones are
            # not known.
            error = np.hypot(error, mean_error**2) + np.abs(squares.expectation - variance)
        return shift, mean_error, variance, error

    def _found(
        self, targets: np.ndarray, functions: list[Pair], distance: np.ndarray
    ) -> tuple[Fit, np.ndarray]:
        """Return what Stein functions say of functions, and the errors.

        Args:
            targets: functions, shape (draws, q).
            functions: Stein functions of each, those that were predicted by the regressions first.
            distance: of the draws from the target, as these show it, shape (q,).
        """
        count = targets.shape[1]
        of_scale = mapped(
            lambda each: np.broadcast_to(each[:, None], targets.shape), self._of_scale
        )
        found = fitted(targets, [*functions, of_scale], self._num_groups)
        # That of the scale sees all directions: one of them is a part of its distance.
        own_distance = np.maximum(distance, _distance(self._of_scale) / np.sqrt(self._x.shape[1]))
        # Coefficients are uncertain: it matters as far as the functions' means are off zero.
        stretch = np.zeros(count)
        of_one = np.maximum(found.error * np.sqrt(len(targets)), found.noisy)
        slow = of_one / np.maximum(np.maximum(found.noisy, of_one / MOST_SLOW), TINY)
        for k, fit in enumerate(self._fits):
            stretch = np.maximum(
                stretch, np.minimum(np.abs(found.taken[:, k]), 1.0) ** 2 * fit.stretch
            )
        chance = np.hypot(found.error, found.noisy * np.sqrt(stretch / len(targets)) * slow)
        return found, np.hypot(chance, BOUND * np.hypot(self._distance, own_distance) * found.left)

    @functools.cached_property
    def _fits(self) -> list[CrossFit]:
        """Regressions on Stein functions of polynomials, the linear ones first."""
        if not self._bases:
            return []
        # Linear functions are those of the gradients alone.
        u = (self._x @ self._axes) / self._sizes if self._bases[1:] else self._x
        root = self._axes * self._sizes
        slopes = mapped(lambda g: g @ root, self._g)
        return [CrossFit(*mapped(lambda h, one=one: one(u, h), slopes)) for one in self._bases]

    @functools.cached_property
    def _of_scale(self) -> Pair:
        """1 − (θ − a)·g/d: the identity of a change of scale, shape (draws,)."""
        x, total = self._x, self._x.sum(0)
        # With the mean of all draws as a it would be biased by d over their number: that of other
        # folds is not.
        parts = [x[fold] for fold in groups(len(x), FOLDS)]
        off = np.concatenate(
            [part - (total - part.sum(0)) / (len(x) - len(part)) for part in parts]
        )
        return mapped(lambda g: 1 - np.einsum("nj,nj->n", off, g) / g.shape[1], self._g)

    def _forget(self) -> None:
        """Give back the memory of what can be worked out again."""
        for name in ("_fits", "_of_scale"):
            vars(self).pop(name, None)

    def _bounded(self, covariance: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """Return a covariance of x as far off as a correction goes, with these sds."""
        turned = (
            self._axes.T
            @ ((covariance + covariance.T) / 2)
            @ self._axes
            / self._sizes
            / self._sizes[:, None]
        )
        values, vectors = np.linalg.eigh(turned)
        root = (self._axes * self._sizes) @ (
            vectors * np.sqrt(np.clip(values, LEAST_VARIANCE, MOST_VARIANCE))
        )
        root *= (sd / np.linalg.norm(root, axis=1))[:, None]
        return root @ root.T


def _distance(functions: Pair) -> np.ndarray:
    """Return how far the means of Stein functions (draws, q) are from 0, in their sds."""
    return np.abs(standardised(*functions))


def _bases(count: int, d: int) -> list[Callable[[np.ndarray, np.ndarray], np.ndarray]]:
    """Return the Stein functions that `count` draws are enough for."""
    if d > MOST_DENSE or not CrossFit.has_room(count, d):
        return []
    return [linear, quadratic] if most_functions(count, d) > 1 + d else [linear]
