"""Exact draws of a Rasch model: items and scale by rejection, abilities given them on a grid."""

import functools
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import expon, multivariate_t

from benchmarks.hierarchies.local import on_points
from benchmarks.hierarchies.model import Draws

Z = np.linspace(-8, 8, 161)
DEGREES, WIDER, LOW, AT_ONCE = 7, 1.05, 0.3, 500
"""Degrees of freedom of the proposal; how much wider than the posterior at its mode it is; share of
proposals whose log tau is below the mode by an exponential distribution; how many are weighed
together.
"""

STUDENT: Any = multivariate_t
"""It takes arrays, which its stubs do not say."""


class Proposal(NamedTuple):
    """A Student t distribution: its location, and a root of its scale matrix."""

    centre: np.ndarray
    root: np.ndarray


class Rasch:
    """Persons who answer items: logit P(yes) = theta − b, theta ~ N(0, tau), b ~ N(0, of_items),
    tau ~ N⁺(0, width). The answers of a person enter through their number of yes alone.
    """

    def __init__(self, answers: np.ndarray, width: float, of_items: float) -> None:
        """Take answers, shape (persons, items)."""
        self.scores, self.of_item = answers.sum(1), answers.sum(0)
        self.num_items, self.width, self.of_items = answers.shape[1], width, of_items
        self.counts = np.bincount(self.scores, minlength=self.num_items + 1)

    def _of_scores(self, h: np.ndarray) -> np.ndarray:
        """Return the log density of z for each score, shape (count, items + 1, m)."""
        theta = np.exp(h[:, -1:]) * Z
        either = np.logaddexp(0, theta[:, None] - h[:, :-1, None]).sum(1)
        scores = np.arange(self.num_items + 1)[:, None]
        return scores * theta[:, None] - either[:, None] - 0.5 * Z**2

    def log_marginal(self, h: np.ndarray) -> np.ndarray:
        """Return the log density of items and log tau, shape (count, items + 1)."""
        parts = []
        for i in range(0, len(h), AT_ONCE):
            part = h[i : i + AT_ONCE]
            items, log_tau = part[:, :-1], part[:, -1]
            of_persons = np.asarray(logsumexp(self._of_scores(part), axis=2)) @ self.counts
            of_items = -items @ self.of_item - 0.5 * np.sum(items**2, axis=1) / self.of_items**2
            of_scale = log_tau - 0.5 * np.exp(2 * log_tau) / self.width**2
            parts.append(of_persons + of_items + of_scale)
        return np.concatenate(parts)

    @functools.cached_property
    def proposal(self) -> Proposal:
        """A Student t distribution at the mode with its curvature, by central differences."""
        d, step = self.num_items + 1, 1e-3
        start = np.append(np.zeros(d - 1), -0.3)
        mode = minimize(lambda h: -self.log_marginal(h[None])[0], start, method="L-BFGS-B").x
        moves = step * np.eye(d)
        corners = [
            mode + a * moves[i] + b * moves[j]
            for i in range(d)
            for j in range(d)
            for a in (1, -1)
            for b in (1, -1)
        ]
        values = self.log_marginal(np.array(corners)).reshape(d, d, 4)
        hessian = (values[..., 0] - values[..., 1] - values[..., 2] + values[..., 3]) / 4 / step**2
        covariance = np.linalg.inv(-0.5 * (hessian + hessian.T))
        return Proposal(mode, WIDER * np.linalg.cholesky(covariance))

    def propose(self, rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return proposals, and the logarithms of their importance weights."""
        # As tau falls its density falls like tau alone: no Student t at the mode reaches so far.
        centre, root = self.proposal
        d = len(centre)
        normal = rng.standard_normal((count, d))
        stretch = rng.chisquare(DEGREES, count) / DEGREES
        h = centre + normal / np.sqrt(stretch)[:, None] @ root.T
        below = centre[-1] - rng.exponential(size=count)
        h[:, -1] = np.where(rng.random(count) < LOW, below, h[:, -1])
        items = STUDENT(centre[:-1], (root @ root.T)[:-1, :-1], DEGREES)
        with np.errstate(divide="ignore"):
            low = np.log(LOW * expon.pdf(centre[-1] - h[:, -1])) + items.logpdf(h[:, :-1])
        around = np.log(1 - LOW) + STUDENT(centre, root @ root.T, DEGREES).logpdf(h)
        return h, self.log_marginal(h) - np.logaddexp(low, around)

    def draw(self, rng: np.random.Generator, count: int) -> Draws:
        """Return draws by rejection, with the largest weight of the first proposals for a bound."""
        h, log_weights = self.propose(rng, 2_000)
        bound = log_weights.max()
        kept = [h[np.log(rng.random(len(h))) < log_weights - bound]]
        while sum(map(len, kept)) < count:
            h, log_weights = self.propose(rng, 2_000)
            kept.append(h[np.log(rng.random(len(h))) < log_weights - bound])
        h = np.concatenate(kept)[:count]
        z = np.concatenate(
            [
                on_points(rng, Z, self._of_scores(h[i : i + AT_ONCE])[:, self.scores])
                for i in range(0, count, AT_ONCE)
            ]
        )
        return {"b": h[:, :-1], "log_tau": h[:, -1], "theta": np.exp(h[:, -1:]) * z}
