"""Stein's identities at draws: E[g φ(u) − φ'(u)] = 0 for every smooth φ of a direction u.

Here g is the gradient of V/T along u, and the expectation is that of the target exp(−V/T).

    φ = 1:            E g = 0            the mean gradient is 0 at the right mean
    φ = u:            E[g u] = 1         draws are as wide as the gradient of the potential allows
    φ = u²:           E[g u²] = 2 E u    skewness
    φ = exp(−u²/2):                      draws near the middle, which chains that orbit it lack

Directions must not come from the draws that they test: along the eigenvectors of a sample
covariance Monte Carlo error is largest. So they come from the covariance of a mode, or each half of
the draws has the directions of the other half.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.affine import root_of
from ewsg_jax.answers.check.crossfit import spread_of
from ewsg_jax.answers.check.mixing import least_ess
from ewsg_jax.base.optional import student_quantile


class SteinFunction(NamedTuple):
    """A function φ of a direction.

    Attributes:
        value: φ.
        derivative: φ'.
        size: the change of its identity by a shift of 1 of a normal distribution's mean; for φ = u,
            the change by (variance ratio − 1).
    """

    value: Callable[[np.ndarray], np.ndarray]
    derivative: Callable[[np.ndarray], np.ndarray]
    size: float


STEIN_FUNCTIONS = {
    "1": SteinFunction(np.ones_like, np.zeros_like, 1.0),
    "u": SteinFunction(lambda u: u, np.ones_like, 1.0),
    "u²": SteinFunction(np.square, lambda u: 2 * u, 1.0),
    "exp(-u²/2)": SteinFunction(
        lambda u: np.exp(-(u**2) / 2), lambda u: -u * np.exp(-(u**2) / 2), 0.5**0.5
    ),
}


class Score(NamedTuple):
    """The identity of one function, in the direction in which it is most violated.

    Attributes:
        z: its distance from 0 in standard errors, the largest over all directions and over their
            mean.
        effect: its distance from 0 there: for φ = u the excess of the variance, for the others the
            shift of the mean (in standard deviations) that has the same effect.
        resolution: the effect that would have been detected there.
        response: for φ = u, the relative change of E[g u] when draws get wider: 2 for a normal
            distribution, less for heavier tails.
    """

    z: float
    effect: float
    resolution: float
    response: float = 2.0


class Scores(NamedTuple):
    """The identities of all functions.

    Attributes:
        worst: the score of each function, by its name.
        bound: the z above which an identity is violated; a right run is above it with the error
            rate's probability.
        excess: E[g u] − 1, averaged over all directions: the relative excess of the variance.
        excess_error: its standard error.
        ess: effective draws of the direction that has the fewest, for its mean or its variance.
        num_blocks: the number of blocks that standard errors come from.
        distance: a lower bound on the distance of the draws' distribution from the target: the
            largest effect beyond Monte Carlo error, in sds of its function; if a few draws make
            these so large that not even 3 would be detected, the effect that would be.
        hidden: the distance that may be hidden: half of the effect on a variance that would be
            detected, in the median direction.
    """

    worst: dict[str, Score]
    bound: float
    excess: float
    excess_error: float
    ess: float
    num_blocks: int
    distance: float = 0.0
    hidden: float = 0.0


class Identities(Protocol):
    """Identities of coordinates, directions or functions of the position, a column each.

    Attributes:
        draws: the values of these at the draws, shape (chain, draw, columns).
        names: names of the Stein functions φ that are tested.
        num_orthogonal: how many of the columns, the first ones, have a common average.
    """

    @property
    def draws(self) -> np.ndarray: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def num_orthogonal(self) -> int: ...

    def at_draws(self, name: str, part: slice) -> tuple[np.ndarray, np.ndarray | None]:
        """Return what has the mean 0 under the target, and half of its difference between two
        minibatches, None if all rows are taken; shape (chain, draw, columns) both.

        Args:
            name: the name of the Stein function φ.
            part: the columns.
        """
        ...


class Directions(NamedTuple):
    """Draws and gradients along directions.

    Attributes:
        draws: u, shape (chain, draw, directions).
        gradients: g along the same directions, so that E[g u] = 1, the same shape.
        noise: half of the difference between the gradients of a draw's two minibatches, the same
            shape; None if all rows are taken.
        num_orthogonal: how many of the directions, the first ones, are orthogonal directions in
            which the target has an sd of nearly 1.
    """

    draws: np.ndarray
    gradients: np.ndarray
    noise: np.ndarray | None
    num_orthogonal: int

    @property
    def names(self) -> tuple[str, ...]:
        """All of them: a position's distribution is judged."""
        return tuple(STEIN_FUNCTIONS)

    def at_draws(self, name: str, part: slice) -> tuple[np.ndarray, np.ndarray | None]:
        """Return g φ − φ' at the draws, and half of its difference between two minibatches."""
        function, u = STEIN_FUNCTIONS[name], self.draws[..., part]
        value = function.value(u) / function.size
        at_draws = self.gradients[..., part] * value
        at_draws -= function.derivative(u) / function.size
        return at_draws, None if self.noise is None else value * self.noise[..., part]


def by_root(
    values: np.ndarray,
    gradients: np.ndarray,
    noise: np.ndarray | None,
    center: np.ndarray,
    root: np.ndarray,
) -> Directions:
    """Return draws along u = L⁻¹(θ − c), gradients along Lᵀg, and both along the coordinates.

    Coordinate j of θ is the direction of row j of L: (θ − c)ⱼ = Lⱼ u, and the gradient along it is
    Lⱼ Lᵀg.

    Args:
        values: draws, shape (chain, draw, d).
        gradients: gradients at them, the same shape.
        noise: half of the difference between gradients on two minibatches, the same shape, or None.
        center: c, shape (d,).
        root: L, a root of a covariance, shape (d, d).
    """
    norms = np.maximum(np.linalg.norm(root, axis=1), np.finfo(float).tiny)
    # Coordinate j of Lᵀg along row j of L is row j of L Lᵀ g: one product for both.
    both = np.concatenate([root, root @ root.T / norms], axis=1)
    off = values - center
    u = np.concatenate([off @ np.linalg.inv(root).T, off / norms], axis=-1)
    return Directions(u, gradients @ both, None if noise is None else noise @ both, len(root))


def by_halves(
    values: np.ndarray,
    gradients: np.ndarray,
    noise: np.ndarray | None,
    dense: bool,
    shared: bool = False,
) -> Directions:
    """Return each half of the draws along directions from the other half.

    Halves are of the chains, or of time: for one chain, and for chains that share their
    minibatches. Directions are those of a symmetric root, nearest to the coordinates, so that the
    directions of the two halves are nearly the same.

    Args:
        values: draws, shape (chain, draw, d).
        gradients: gradients at them, the same shape.
        noise: half of the difference between gradients on two minibatches, the same shape, or None.
        dense: whether directions come from covariance matrices; else they are the coordinates, in
            units of their sds.
        shared: whether chains share their minibatches.
    """
    axis = 0 if len(values) > 1 and not shared else 1
    arrays = (values, gradients, gradients if noise is None else noise)
    halves = list(zip(*(np.array_split(x, 2, axis=axis) for x in arrays), strict=True))
    # A half that never moves in a coordinate has sd 0; bound it, or the other half overflows.
    least = values.std((0, 1)) / settings.MAX_SDS
    parts = []
    for (draws, half_gradients, half_noise), (others, _, _) in (halves, halves[::-1]):
        half_noise = None if noise is None else half_noise
        flat = others.reshape(-1, others.shape[-1])
        center = flat.mean(0)
        if dense:
            covariance = (flat - center).T @ (flat - center) / len(flat)
            np.fill_diagonal(covariance, np.maximum(np.diag(covariance), least**2))
            root = root_of(covariance, symmetric=True)
            parts.append(by_root(draws, half_gradients, half_noise, center, root))
        else:
            scale = np.maximum(np.maximum(flat.std(0), least), np.finfo(float).tiny)
            half_noise = None if half_noise is None else half_noise * scale
            scaled = (draws - center) / scale, half_gradients * scale
            parts.append(Directions(*scaled, half_noise, values.shape[-1]))
    noises = [part.noise for part in parts if part.noise is not None]
    return Directions(
        np.concatenate([part.draws for part in parts], axis=axis),
        np.concatenate([part.gradients for part in parts], axis=axis),
        np.concatenate(noises, axis=axis) if noises else None,
        parts[0].num_orthogonal,
    )


def scores_of(identities: Identities, error_rate: float, shared: bool = False) -> Scores:
    """Return by how much draws violate the identities.

    Args:
        identities: those of directions, or of functions of the position.
        error_rate: the probability that a right run is above the bound.
        shared: whether chains share their minibatches: a block is then one of time, of all chains
            together.
    """
    ess, count, share = blocks_of(identities.draws, shared)
    size = identities.draws.shape[2]
    # All functions, directions, and their mean, are tested together.
    rare = error_rate / 2 / (len(identities.names) * (size + 1))
    bound = -float(student_quantile(count - 1, rare))
    worst, excess, distance, hidden = {}, (0.0, 0.0), 0.0, 0.0
    for name in identities.names:
        means, sizes = _all_identities(name, identities, count, shared)
        effect = means.mean(0)
        error = np.maximum(means.std(0, ddof=1) / np.sqrt(count * share), np.finfo(float).tiny)
        # The function of the middle is 0 at all draws if halves are far apart: it says nothing.
        smallest = 1 / settings.MAX_SQUARABLE
        is_known = sizes > smallest
        z = np.where(is_known, np.abs(effect) / error, 0.0)
        k = int(np.argmax(z))
        worst[name] = Score(float(z[k]), float(effect[k]), float(bound * error[k]))
        sizes = np.maximum(sizes, smallest)
        most = settings.MAX_SDS
        unseen = np.where(is_known, np.minimum(bound * error / sizes, most), most)
        shown = np.minimum(np.abs(effect) / sizes, most)
        is_blind = unseen > settings.NOTHING_KNOWN_SDS
        off = np.where(z > bound, shown, np.where(is_blind, unseen, 0.0))
        distance = max(distance, float(off.max()))
        if name == "u":
            excess = (float(effect[-1]), float(error[-1]))
            hidden = float(np.median(unseen[:-1])) / 2
            # Of draws s times as wide as a normal target E[g u] = s², and the variance is 2 s⁴.
            response = sizes[k] ** 2 / max(1 + effect[k], 0.1) ** 2
            worst[name] = worst[name]._replace(response=float(response))
    return Scores(worst, bound, *excess, ess, count, distance, hidden)


def _all_identities(
    name: str, identities: Identities, count: int, shared: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return means over blocks of an identity in each column and on average over them, shape
    (count, columns + 1), and standard deviations of the function, shape (columns + 1,).
    """
    width = settings.COLUMNS_AT_ONCE
    parts = [slice(k, k + width) for k in range(0, identities.draws.shape[2], width)]
    of_parts = [_identity(*identities.at_draws(name, part), count, shared) for part in parts]
    means, sizes = (np.concatenate(arrays, axis=-1) for arrays in zip(*of_parts, strict=True))
    average = slice(None, identities.num_orthogonal)
    means = np.column_stack([means, means[:, average].mean(1)])
    # On average over directions an effect is as large as that in each of them.
    return means, np.append(sizes, np.sqrt(np.mean(sizes[average] ** 2)))


def _identity(
    at_draws: np.ndarray, half: np.ndarray | None, count: int, shared: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the same for some of the columns, without their average."""
    chains, draws, columns = at_draws.shape
    noise = 0.0 if half is None else np.einsum("cnj,cnj->j", half, half) / (chains * draws)
    rows = at_draws.mean(0) if shared else at_draws.reshape(-1, columns)
    return block_means(rows, count), spread_of(at_draws.reshape(-1, columns), noise)


class IndependentBlocks(NamedTuple):
    """Blocks of successive draws from which standard errors come.

    Attributes:
        ess: effective draws of the direction that has the fewest.
        number: the number of blocks.
        share: the part of a mean's variance that differences between blocks show.
    """

    ess: float
    number: int
    share: float


def blocks_of(draws: np.ndarray, shared: bool = False) -> IndependentBlocks:
    """Return nearly independent blocks of draws.

    Args:
        draws: draws, shape (chain, draw, d).
        shared: whether chains share their minibatches: blocks are then of time.
    """
    ess, of_time = least_ess(draws, shared)
    # As many blocks as are nearly independent, and as have two draws each.
    most = min(256, draws.shape[1] * (1 if shared else len(draws)) // 2)
    # The variance of fewer than eight blocks is not known well.
    count = int(np.clip(of_time / settings.ESS_PER_BLOCK, 8, most))
    return IndependentBlocks(ess, count, _share(of_time / count))


def _share(ess: float) -> float:
    """Return the part of a mean's variance that blocks of this many effective draws show."""
    twice = 2 * max(ess, 1.0)
    return 1 + float(np.expm1(-twice)) / twice


def block_means(values: np.ndarray, count: int) -> np.ndarray:
    """Return the means of `count` blocks of successive rows, shape (count, d)."""
    ends = np.linspace(0, len(values), count + 1).astype(int)
    return np.add.reduceat(values, ends[:-1], axis=0) / np.diff(ends)[:, None]
