"""Stein's identities on draws: E[g φ(u) − φ'(u)] = 0 for every smooth φ of one direction u, whatever the target.

    φ = 1:            E g = 0            the mean is where the potential is level
    φ = u:            E[g u] = 1         the spread is what the potential's slope allows
    φ = u²:           E[g u²] = 2 E u    skewness
    φ = exp(−u²/2):                      what happens near the middle, as orbits that avoid it do

Directions must not come from the draws that they judge: the eigenvectors of a sample covariance are where chance is
largest. So they come from a mode's covariance, or half of the draws have those of the other half.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

from ewsg_jax.checking.affine import root_of
from ewsg_jax.sampling.convergence import array_statistics
from ewsg_jax.sampling.spaced import evenly

DRAWS_OF_BLOCK = 10
"""Effective draws, at least, of a block of successive ones: its mean is nearly independent of the next one's."""
MOST_BLOCKS, FEWEST_BLOCKS = 256, 8
MOST_ESS = 128
"""Directions, evenly spaced, whose effective draws are counted."""


class Function(NamedTuple):
    """φ of a direction.

    Attributes:
        value: φ.
        slope: φ'.
        size: what a shift of a normal law's mean by 1 does to its identity; of u, what (variance ratio − 1) does.
    """

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    size: float


FUNCTIONS = {
    "1": Function(np.ones_like, np.zeros_like, 1.0),
    "u": Function(lambda u: u, np.ones_like, 1.0),
    "u²": Function(np.square, lambda u: 2 * u, 1.0),
    "exp(-u²/2)": Function(lambda u: np.exp(-(u**2) / 2), lambda u: -u * np.exp(-(u**2) / 2), 0.5**0.5),
}


class Score(NamedTuple):
    """One function's identity, in the direction in which it is worst.

    Attributes:
        z: how many standard errors it is off 0, the largest over all directions and over their mean.
        effect: how far it is off there: of u the excess of the variance, of the others the shift of the mean (in
            standard deviations) that would do as much.
        resolution: what effect would have been seen there.
    """

    z: float
    effect: float
    resolution: float


class Scores(NamedTuple):
    """All functions.

    Attributes:
        worst: by the function's name.
        bound: the z above which a right run is as rare as the error rate says.
        excess: E[g u] − 1, averaged over all directions: how much hotter than the target the draws are.
        excess_error: its standard error.
        ess: effective draws of the direction that has fewest, for its mean or its variance.
        num_blocks: blocks from which errors come.
    """

    worst: dict[str, Score]
    bound: float
    excess: float
    excess_error: float
    ess: float
    num_blocks: int

    @property
    def distance(self) -> float:
        """How far the draws are from the target, in standard deviations: the largest effect, chance or not."""
        return max(_length(name, score) for name, score in self.worst.items())

    @property
    def sure_distance(self) -> float:
        """The same of effects that are no chance; 0 where there is none."""
        return max((_length(name, x) for name, x in self.worst.items() if x.z > self.bound), default=0.0)


def _length(name: str, score: Score) -> float:
    return abs(score.effect) / (2 if name == "u" else 1)


class Directions(NamedTuple):
    """Some draws along directions.

    Attributes:
        draws: u, shape (chain, draw, directions).
        gradients: g along the same directions, so that E[g u] = 1: of the same shape.
        whole: the first so many directions are orthogonal ones in which the target is of width 1, nearly.
    """

    draws: np.ndarray
    gradients: np.ndarray
    whole: int


def by_root(values: np.ndarray, gradients: np.ndarray, center: np.ndarray, root: np.ndarray) -> Directions:
    """Return u = L⁻¹(θ − c) and Lᵀg of draws (chain, draw, d), and the same along the coordinates of θ.

    Coordinate j of θ is the direction of row j of L: (θ − c)ⱼ = Lⱼ u, and the slope along it Lⱼ Lᵀg.
    """
    moved = np.linalg.solve(root, (values - center).reshape(-1, len(root)).T).T.reshape(values.shape)
    rows = (root / np.linalg.norm(root, axis=1, keepdims=True)).T
    slopes = gradients @ root
    along = np.concatenate([moved, moved @ rows], axis=-1)
    return Directions(along, np.concatenate([slopes, slopes @ rows], axis=-1), len(root))


def by_halves(values: np.ndarray, gradients: np.ndarray, dense: bool, shared: bool = False) -> Directions:
    """Return each half of the draws along the directions of the other half's covariance, or by coordinate.

    Halves are of the chains, or of time: of one chain's, and of chains that share their batches. Directions are
    those nearest to the coordinates, so that the two halves' are nearly the same.
    """
    axis = 0 if len(values) > 1 and not shared else 1
    halves = list(zip(*(np.array_split(x, 2, axis=axis) for x in (values, gradients)), strict=True))
    found = []
    for (draws, slopes), (others, _) in (halves, halves[::-1]):
        flat = others.reshape(-1, others.shape[-1])
        center = flat.mean(0)
        if dense:
            root = root_of((flat - center).T @ (flat - center) / len(flat), symmetric=True)
            found.append(by_root(draws, slopes, center, root))
        else:
            scale = np.maximum(flat.std(0), np.finfo(float).tiny)
            found.append(Directions((draws - center) / scale, slopes * scale, values.shape[-1]))
    draws, slopes = (np.concatenate([each[k] for each in found], axis=axis) for k in (0, 1))
    return Directions(draws, slopes, found[0].whole)


def scores_of(directions: Directions, error_rate: float, shared: bool = False) -> Scores:
    """Return how far the draws are off the identities.

    Args:
        directions: of the draws.
        error_rate: how often a right run is to be above the bound.
        shared: whether chains share their batches: a block is then one of time, of all chains together.
    """
    u, g = directions[:2]

    def rows(values: np.ndarray) -> np.ndarray:
        return values.mean(0) if shared else values.reshape(-1, values.shape[-1])

    ess, count, share = blocks_of(u, shared)
    bound = -float(stdtrit(count - 1, error_rate / 2 / (len(FUNCTIONS) * (u.shape[2] + 1))))
    worst, excess = {}, (0.0, 0.0)
    for name, function in FUNCTIONS.items():
        means = of_blocks(rows((g * function.value(u) - function.slope(u)) / function.size), count)
        means = np.column_stack([means, means[:, : directions.whole].mean(1)])
        effect = means.mean(0)
        error = np.maximum(means.std(0, ddof=1) / np.sqrt(count * share), np.finfo(float).tiny)
        k = int(np.argmax(np.abs(effect) / error))
        worst[name] = Score(float(abs(effect[k]) / error[k]), float(effect[k]), float(bound * error[k]))
        if name == "u":
            excess = float(effect[-1]), float(error[-1])
    return Scores(worst, bound, *excess, ess, count)


def least_ess(draws: np.ndarray, shared: bool = False) -> tuple[float, float]:
    """Return the effective number of draws (chain, draw, d) of the direction that has fewest; 0 where unknown.

    Of chains that share their batches: how many independent draws have a mean as sure as theirs, and how many
    independent times there are: the mean over chains forgets as fast as each of them. Of others the two are one.
    """
    draws = draws[..., evenly(draws.shape[2], MOST_ESS)]
    both = np.concatenate([draws, (draws - draws.mean((0, 1))) ** 2], axis=2)
    with np.errstate(all="ignore"):
        found: Any = array_statistics().ess(both, chain_axis=0, draw_axis=1, method="mean")
        known = np.minimum(np.nan_to_num(np.asarray(found, float), nan=0.0), draws.shape[0] * draws.shape[1])
        if not shared:
            return float(known.min()), float(known.min())
        times = known / len(draws)
        sure = times * both.var((0, 1)) / np.maximum(both.mean(0).var(0), np.finfo(float).tiny)
    return float(np.minimum(sure, known).min()), float(times.min())


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
    """Return what blocks of draws (chain, draw, d) are nearly independent; of time where chains share batches."""
    ess, of_time = least_ess(draws, shared)
    count = _num_blocks(of_time, draws.shape[1] * (1 if shared else len(draws)))
    return Blocks(ess, count, _share(of_time / count))


def _num_blocks(ess: float, count: int) -> int:
    """Return how many blocks of so many successive draws are nearly independent."""
    return int(np.clip(ess / DRAWS_OF_BLOCK, FEWEST_BLOCKS, min(MOST_BLOCKS, count // 2)))


def _share(draws: float) -> float:
    """Return the part of a mean's variance that blocks of so many effective draws show, of exponential memory."""
    twice = 2 * max(draws, 1.0)
    return 1 + float(np.expm1(-twice)) / twice


def of_blocks(values: np.ndarray, count: int) -> np.ndarray:
    """Return the means of so many blocks of successive rows, shape (count, d)."""
    ends = np.linspace(0, len(values), count + 1).astype(int)
    return np.add.reduceat(values, ends[:-1], axis=0) / np.diff(ends)[:, None]
