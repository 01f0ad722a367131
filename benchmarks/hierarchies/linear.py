"""Hierarchies that are normal given their scales: a grid of the scales, and all else in closed
form.

Given scales h, the coefficients x have log density Σ_c w_c(h) (vᵀ_c x − xᵀ M_c x / 2 − q_c / 2) and
a normaliser, so that the marginal of h is closed and x given h is normal.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.hierarchies.model import Draws
from benchmarks.hierarchies.scales import Grid, Hyper, draw_hypers, log_prior, on_grid

AT_ONCE, CORNER = 1_000, 1e40
"""Factors of matrices that are in memory together; a number beside which their last row is small.
"""


@dataclass(frozen=True)
class Term:
    """Squares of some rows r = T x − c that have a common precision w.

    Attributes:
        weight: w, from hyperparameters by name.
        matrix, vector, constant: TᵀT, Tᵀc and cᵀc.
        count: how many factors w^½ the density has.
    """

    weight: Callable[[Mapping[str, Any]], Any]
    matrix: np.ndarray
    vector: np.ndarray
    constant: float
    count: int


class Given(NamedTuple):
    """Coefficients given hyperparameters.

    Attributes:
        factor: L of the precision of those that stay, the others integrated out, shape (count, m,
            m).
        turned: L⁻¹ times their linear term.
        scaled: rows of the precision of those that are eliminated, over their own precisions; the
            last is their linear term. Shape (count, m + 1, r).
        own: their precisions.
        log_marginal: of the hyperparameters.
    """

    factor: np.ndarray
    turned: np.ndarray
    scaled: np.ndarray
    own: np.ndarray
    log_marginal: np.ndarray


def squares(
    weight: Callable[[Mapping[str, Any]], Any], rows: np.ndarray, offsets: Any = 0.0
) -> Term:
    """Return the term of rows, shape (r, k), and offsets of shape (r,) or 0."""
    c = np.broadcast_to(np.asarray(offsets, np.float64), len(rows))
    return Term(weight, rows.T @ rows, rows.T @ c, float(c @ c), len(rows))


@dataclass(frozen=True)
class Linear:
    """A hierarchy that is normal given its hyperparameters.

    Attributes:
        hypers: the hyperparameters with their priors and ranges.
        terms: of the density of the coefficients.
        leaves: name and shape of each leaf of coefficients, in their order.
        more: further log normaliser, of the hyperparameters.
    """

    hypers: Mapping[str, Hyper]
    terms: Sequence[Term]
    leaves: Mapping[str, tuple[int, ...]]
    more: Callable[[Mapping[str, Any]], Any] = lambda h: 0.0

    @functools.cached_property
    def parts(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of coefficients that stay and of those that are eliminated: no two of these meet
        in a matrix, as effects of groups that share no row.
        """
        meets = np.any([term.matrix != 0 for term in self.terms], axis=0)
        gone: list[int] = []
        for i in reversed(range(len(meets))):
            if not any(meets[i, j] for j in gone):
                gone.append(i)
        stay = [i for i in range(len(meets)) if i not in gone]
        return np.array(stay, int), np.array(sorted(gone), int)

    def _given(self, h: Mapping[str, np.ndarray]) -> Given:
        """Return what is known of coefficients given hyperparameters, and the log marginal."""
        size, (stay, gone) = len(next(iter(h.values()))), self.parts
        m, r = len(stay), len(gone)
        # The linear term is one more row of the matrix that is factorised.
        matrix, across = np.zeros((size, m + 1, m + 1)), np.zeros((size, m + 1, r))
        own, of_own = np.zeros((size, r)), np.zeros((size, r))
        value = np.asarray(self.more(h) + log_prior(self.hypers, h), float)
        for term in self.terms:
            w = np.broadcast_to(np.asarray(term.weight(h), float), size)
            dense = w[:, None, None]
            matrix[:, :m, :m] += dense * term.matrix[np.ix_(stay, stay)]
            matrix[:, m, :m] += w[:, None] * term.vector[stay]
            across[:, :m] += dense * term.matrix[np.ix_(stay, gone)]
            own += w[:, None] * np.diagonal(term.matrix)[gone]
            of_own += w[:, None] * term.vector[gone]
            if term.count:
                value = value + 0.5 * term.count * np.log(w) - 0.5 * w * term.constant
        across[:, m] = of_own
        scaled = across / own[:, None]
        matrix -= scaled @ np.swapaxes(across, 1, 2)
        matrix[:, :m, m] = matrix[:, m, :m]
        matrix[:, m, m] = CORNER
        factor = np.linalg.cholesky(matrix)
        turned, factor = factor[:, m, :m], factor[:, :m, :m]
        log_det = np.sum(np.log(np.diagonal(factor, axis1=1, axis2=2)), axis=1)
        log_det += 0.5 * np.sum(np.log(own), axis=1)
        squared = np.sum(turned**2, axis=1) + np.sum(of_own**2 / own, axis=1)
        return Given(factor, turned, scaled, own, value + 0.5 * squared - log_det)

    def log_marginal(self, h: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the log density of hyperparameters, shape (count,), all else integrated out."""
        return np.concatenate([self._given(part).log_marginal for part in in_parts(h)])

    @functools.cached_property
    def grid(self) -> Grid:
        """The marginal of the hyperparameters."""
        return on_grid(self.hypers, self.log_marginal)

    def draw(self, rng: np.random.Generator, count: int) -> Draws:
        """Return exact draws, (count, …)."""
        h = draw_hypers(rng, count, self.grid, self.log_marginal)
        parts, (stay, gone) = [], self.parts
        for part in in_parts(h):
            factor, turned, scaled, own, _ = self._given(part)
            noisy = turned + rng.standard_normal(turned.shape)
            x = np.zeros((len(own), len(stay) + len(gone)))
            if len(stay):
                found = np.linalg.solve(np.swapaxes(factor, 1, 2), noisy[..., None])
                x[:, stay] = found[..., 0]
            mean = scaled[:, -1] - np.einsum("nm,nmr->nr", x[:, stay], scaled[:, :-1])
            x[:, gone] = mean + rng.standard_normal(own.shape) / np.sqrt(own)
            parts.append(x)
        return self.split(np.concatenate(parts)) | h

    def split(self, x: np.ndarray) -> Draws:
        """Return coefficients, shape (count, k), by leaf."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.leaves.values()])
        pieces = np.split(x, ends[:-1], axis=1)
        return {
            name: piece.reshape(len(x), *shape)
            for (name, shape), piece in zip(self.leaves.items(), pieces, strict=True)
        }

    def precision(self, draws: Draws) -> Draws:
        """Return the conditional precision of each coefficient given all else, by leaf."""
        size = len(next(iter(draws.values())))
        total = np.zeros((size, int(sum(np.prod(shape) for shape in self.leaves.values()))))
        for term in self.terms:
            w = np.broadcast_to(np.asarray(term.weight(draws), float), size)
            total += w[:, None] * np.diagonal(term.matrix)
        return self.split(total)


def in_parts(h: Mapping[str, np.ndarray], at_once: int = AT_ONCE) -> list[dict[str, np.ndarray]]:
    """Return hyperparameters in parts of at most so many."""
    size = len(next(iter(h.values())))
    return [{name: x[i : i + at_once] for name, x in h.items()} for i in range(0, size, at_once)]
