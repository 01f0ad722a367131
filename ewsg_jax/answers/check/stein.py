"""Stein's identities on draws: E[g φ(u) − φ'(u)] = 0 for every smooth φ of one direction u,
whatever the target.

    φ = 1:            E g = 0            the mean is where the potential is level
    φ = u:            E[g u] = 1         the spread is what the potential's slope allows
    φ = u²:           E[g u²] = 2 E u    skewness
    φ = exp(−u²/2):                      what happens near the middle, as orbits that avoid it do

Directions must not come from the draws that they judge: the eigenvectors of a sample covariance are
where chance is largest. So they come from a mode's covariance, or half of the draws have those of
the other half.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ewsg_jax.answers.check.affine import root_of
from ewsg_jax.answers.check.crossfit import spread_of
from ewsg_jax.answers.check.mixing import least_ess
from ewsg_jax.base.optional import student_quantile

DRAWS_OF_BLOCK = 5
"""Least effective draws of a block: its mean is nearly independent of the next one's."""
MOST_BLOCKS, FEWEST_BLOCKS = 256, 8
UNSEEN = 3.0
"""Sds of a Stein function that its mean may be off unseen, above which nothing is known."""
LEAST_PART = 1e-6
"""Of a coordinate's standard deviation, below which a half of the draws stands still in it."""
FARTHEST = 1e6
"""Sds of a Stein function: of what is farther off nothing more is known."""
LEAST = 1e-100
"""Sd of a Stein function below which its squares are no numbers: it says nothing."""
AT_ONCE = 64
"""Directions whose identities are worked out together: a processor's cache has room for them."""


class Function(NamedTuple):
    """φ of a direction.

    Attributes:
        value: φ.
        slope: φ'.
        size: what a shift of a normal law's mean by 1 does to its identity; of u, what (variance
            ratio − 1) does.
    """

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    size: float


FUNCTIONS = {
    "1": Function(np.ones_like, np.zeros_like, 1.0),
    "u": Function(lambda u: u, np.ones_like, 1.0),
    "u²": Function(np.square, lambda u: 2 * u, 1.0),
    "exp(-u²/2)": Function(
        lambda u: np.exp(-(u**2) / 2), lambda u: -u * np.exp(-(u**2) / 2), 0.5**0.5
    ),
}


class Score(NamedTuple):
    """One function's identity, in the direction in which it is worst.

    Attributes:
        z: how many standard errors it is off 0, the largest over all directions and over their
            mean.
        effect: how far it is off there: of u the excess of the variance, of the others the shift of
            the mean (in standard deviations) that would do as much.
        resolution: what effect would have been seen there.
        response: of u, what E[g u] changes by where the draws get wider, relatively: 2 of a normal
            law, less of one with heavier tails.
    """

    z: float
    effect: float
    resolution: float
    response: float = 2.0


class Scores(NamedTuple):
    """All functions.

    Attributes:
        worst: by the function's name.
        bound: the z above which a right run is as rare as the error rate says.
        excess: E[g u] − 1, averaged over all directions: how much wider than the target the draws
            are.
        excess_error: its standard error.
        ess: effective draws of the direction that has fewest, for its mean or its variance.
        num_blocks: blocks from which errors come.
        distance: the least that the draws' law is off the target's: the largest effect that is no
            chance, in standard deviations of its function; where a few draws make these so large
            that not even 3 would be seen, what would be.
        hidden: what may be there unseen: half of the effect on a width that would be seen, in the
            median direction.
    """

    worst: dict[str, Score]
    bound: float
    excess: float
    excess_error: float
    ess: float
    num_blocks: int
    distance: float = 0.0
    hidden: float = 0.0


class Directions(NamedTuple):
    """Some draws along directions.

    Attributes:
        draws: u, shape (chain, draw, directions).
        gradients: g along the same directions, so that E[g u] = 1: of the same shape.
        apart: half of what the gradients of the two batches of a draw differ by, of the same shape;
            None where all rows are taken.
        whole: the first `whole` directions are orthogonal ones in which the target is of width 1,
            nearly.
    """

    draws: np.ndarray
    gradients: np.ndarray
    apart: np.ndarray | None
    whole: int


def by_root(
    values: np.ndarray,
    gradients: np.ndarray,
    apart: np.ndarray | None,
    center: np.ndarray,
    root: np.ndarray,
) -> Directions:
    """Return u = L⁻¹(θ − c) and Lᵀg of draws (chain, draw, d), and the same along coordinates.

    Coordinate j of θ is the direction of row j of L: (θ − c)ⱼ = Lⱼ u, and the slope along it Lⱼ
    Lᵀg.
    """
    norms = np.maximum(np.linalg.norm(root, axis=1), np.finfo(float).tiny)
    # Coordinate j of Lᵀg along row j of L is row j of L Lᵀ g: one product for both.
    both = np.concatenate([root, root @ root.T / norms], axis=1)
    off = values - center
    u = np.concatenate([off @ np.linalg.inv(root).T, off / norms], axis=-1)
    return Directions(u, gradients @ both, None if apart is None else apart @ both, len(root))


def by_halves(
    values: np.ndarray,
    gradients: np.ndarray,
    apart: np.ndarray | None,
    dense: bool,
    shared: bool = False,
) -> Directions:
    """Return each half of draws along directions of the other's covariance, or by coordinate.

    Halves are of the chains, or of time: of one chain's, and of chains that share their batches.
    Directions are those nearest to the coordinates, so that the two halves' are nearly the same.
    """
    axis = 0 if len(values) > 1 and not shared else 1
    noise = gradients if apart is None else apart
    halves = list(
        zip(*(np.array_split(x, 2, axis=axis) for x in (values, gradients, noise)), strict=True)
    )
    found = []
    # Of a half that stands still in a coordinate the other half would be beyond all numbers.
    least = LEAST_PART * values.std((0, 1))
    for (draws, slopes, off), (others, _, _) in (halves, halves[::-1]):
        off = None if apart is None else off
        flat = others.reshape(-1, others.shape[-1])
        center = flat.mean(0)
        if dense:
            covariance = (flat - center).T @ (flat - center) / len(flat)
            np.fill_diagonal(covariance, np.maximum(np.diag(covariance), least**2))
            root = root_of(covariance, symmetric=True)
            found.append(by_root(draws, slopes, off, center, root))
        else:
            scale = np.maximum(np.maximum(flat.std(0), least), np.finfo(float).tiny)
            off = None if off is None else off * scale
            found.append(
                Directions((draws - center) / scale, slopes * scale, off, values.shape[-1])
            )
    u, g = (np.concatenate([each[k] for each in found], axis=axis) for k in (0, 1))
    both = [each.apart for each in found if each.apart is not None]
    return Directions(u, g, np.concatenate(both, axis=axis) if both else None, found[0].whole)


def scores_of(directions: Directions, error_rate: float, shared: bool = False) -> Scores:
    """Return how far the draws are off the identities.

    Args:
        directions: of the draws.
        error_rate: how often a right run is to be above the bound.
        shared: whether chains share their batches: a block is then one of time, of all chains
            together.
    """
    ess, count, share = blocks_of(directions.draws, shared)
    size = directions.draws.shape[2]
    bound = -float(student_quantile(count - 1, error_rate / 2 / (len(FUNCTIONS) * (size + 1))))
    worst, excess, distance, hidden = {}, (0.0, 0.0), 0.0, 0.0
    for name, function in FUNCTIONS.items():
        parts = [slice(k, k + AT_ONCE) for k in range(0, size, AT_ONCE)]
        found = [_identity(function, directions, part, count, shared) for part in parts]
        means, sizes = (np.concatenate(each, axis=-1) for each in zip(*found, strict=True))
        average = slice(None, directions.whole)
        means = np.column_stack([means, means[:, average].mean(1)])
        # On average over directions an effect is as large as that in each of them.
        sizes = np.append(sizes, np.sqrt(np.mean(sizes[average] ** 2)))
        effect = means.mean(0)
        error = np.maximum(means.std(0, ddof=1) / np.sqrt(count * share), np.finfo(float).tiny)
        # The middle's function is 0 at all draws where halves are far apart: it says nothing.
        speaks = sizes > LEAST
        z = np.where(speaks, np.abs(effect) / error, 0.0)
        k = int(np.argmax(z))
        worst[name] = Score(float(z[k]), float(effect[k]), float(bound * error[k]))
        sizes = np.maximum(sizes, LEAST)
        unseen = np.where(speaks, np.minimum(bound * error / sizes, FARTHEST), FARTHEST)
        shown = np.minimum(np.abs(effect) / sizes, FARTHEST)
        off = np.where(z > bound, shown, np.where(unseen > UNSEEN, unseen, 0.0))
        distance = max(distance, float(off.max()))
        if name == "u":
            excess = (float(effect[-1]), float(error[-1]))
            hidden = float(np.median(unseen[:-1])) / 2
            # Of draws s times as wide as a normal target's E[g u] = s² and the variance is 2 s⁴.
            response = sizes[k] ** 2 / max(1 + effect[k], 0.1) ** 2
            worst[name] = worst[name]._replace(response=float(response))
    return Scores(worst, bound, *excess, ess, count, distance, hidden)


def _identity(
    function: Function, directions: Directions, part: slice, count: int, shared: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return means over blocks of g φ − φ', shape (count, directions), and their sds."""
    u, g = directions.draws[..., part], directions.gradients[..., part]
    value, noise = function.value(u) / function.size, 0.0
    at_draws = g * value
    at_draws -= function.slope(u) / function.size
    if directions.apart is not None:
        value *= directions.apart[..., part]
        noise = np.einsum("cnj,cnj->j", value, value) / (len(u) * u.shape[1])
    rows = at_draws.mean(0) if shared else at_draws.reshape(-1, u.shape[2])
    return of_blocks(rows, count), spread_of(at_draws.reshape(-1, u.shape[2]), noise)


class Blocks(NamedTuple):
    """Blocks of successive draws from which errors come.

    Attributes:
        ess: effective draws of the direction that has fewest.
        number: of blocks.
        share: the part of a mean's variance that differences of blocks show.
    """

    ess: float
    number: int
    share: float


def blocks_of(draws: np.ndarray, shared: bool = False) -> Blocks:
    """Return nearly independent blocks of draws (chain, draw, d); in time with shared batches."""
    ess, of_time = least_ess(draws, shared)
    # As many as are nearly independent, and as have two draws each.
    most = min(MOST_BLOCKS, draws.shape[1] * (1 if shared else len(draws)) // 2)
    count = int(np.clip(of_time / DRAWS_OF_BLOCK, FEWEST_BLOCKS, most))
    return Blocks(ess, count, _share(of_time / count))


def _share(draws: float) -> float:
    """Return the part of a mean's variance that blocks of `draws` effective draws show."""
    twice = 2 * max(draws, 1.0)
    return 1 + float(np.expm1(-twice)) / twice


def of_blocks(values: np.ndarray, count: int) -> np.ndarray:
    """Return the means of `count` blocks of successive rows, shape (count, d)."""
    ends = np.linspace(0, len(values), count + 1).astype(int)
    return np.add.reduceat(values, ends[:-1], axis=0) / np.diff(ends)[:, None]
