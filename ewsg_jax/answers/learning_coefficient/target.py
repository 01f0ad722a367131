"""The localized, tempered target: exp(−nβL(w) − γ/2‖w − w*‖²) over the leaves that are sampled.

A kernel of temperature T = 1/β targets exp(−V/T), so V = nL + Tγ/2‖w − w*‖²: the likelihood stays
as given, and the prior's gradient is added to any estimate of the likelihood's.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax

from ewsg_jax.base import checks, leaves, pytrees
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.gradients._protocol import Estimate, Evaluations, GradientEstimator, Weight
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.rows._scheme import Order


class LocalTarget(NamedTuple):
    """What is sampled, and from where.

    Attributes:
        posterior: the user's likelihood of the leaves that are sampled, with a flat prior.
        center: w*, of these leaves, at least in float32.
        strength: Tγ, the curvature of the localizing prior.
    """

    posterior: Posterior
    center: Position
    strength: float


@module
class Localized(GradientEstimator):
    """An estimator of the gradient of a likelihood, plus Tγ(w − w*).

    The center is an argument of compiled programs: one serves all weights of one shape.

    Attributes:
        inner: the estimator.
        center: w*.
        strength: Tγ.
    """

    needs = frozenset()

    inner: GradientEstimator
    center: Position
    strength: float

    def draw(self, key: Key, data: Data, order: Order | None = None) -> PyTree:
        return self.inner.draw(key, data, order)

    def init(self, key: Key, position: Position, data: Data) -> PyTree:
        return self.inner.init(key, position, data)

    def propose(
        self, randomness: PyTree, memory: PyTree, point: Position, data: Data, weight: Weight
    ) -> tuple[Estimate, PyTree]:
        estimate, update = self.inner.propose(randomness, memory, point, data, weight)
        return estimate._replace(gradient=self._plus_prior(estimate.gradient, point)), update

    def gradient_at(self, estimate: Estimate, position: Position, data: Data) -> Position:
        return self._plus_prior(self.inner.gradient_at(estimate, position, data), position)

    def evaluations(self, data: Data) -> Evaluations:
        return self.inner.evaluations(data)

    def check(self, position: Position, data: Data) -> None:
        self.inner.check(position, data)

    def _plus_prior(self, gradient: Position, point: Position) -> Position:
        strength = self.strength
        return pytrees.combine((1, gradient), (strength, point), (-strength, self.center))


def target_of(
    posterior: Posterior, weights: PyTree, chosen: leaves.Filter | None, strength: float
) -> LocalTarget:
    """Return the target over all leaves of the weights, or over those that a filter chooses.

    Args:
        posterior: the user's likelihood, with any prior, which is left out.
        weights: w*, checked.
        chosen: the filter; None for all leaves.
        strength: Tγ.
    """
    # Steps are smaller than what half precision resolves.
    center = pytrees.widened(weights)
    if chosen is not None:
        named = leaves.named_leaves(center)
        is_chosen = leaves.chosen("sampled", chosen, named, "weights")
        if not any(is_chosen):
            raise ValueError(
                "sampled must choose at least one leaf of weights, which are "
                f"{leaves.shown([name for name, _ in named])}; got {checks.describe(chosen)}, "
                "which chooses none"
            )
        free = {name: leaf for (name, leaf), one in zip(named, is_chosen, strict=True) if one}
        if len(free) < len(named):
            posterior, center = _restricted(posterior, weights, list(free)), free
    posterior = dataclasses.replace(posterior, log_prior=flat, bound=None)
    return LocalTarget(posterior, center, strength)


def flat(position: Position) -> float:
    """Return the log density of a flat prior: one function, so that programs are shared."""
    return 0.0


def _restricted(posterior: Posterior, weights: PyTree, names: list[str]) -> Posterior:
    """Return the likelihood of some leaves, the others being those of the weights."""
    fixed, structure = jax.tree.flatten(weights)
    places = [k for k, (name, _) in enumerate(leaves.named_leaves(weights)) if name in names]

    def assembled(free: dict[str, Array]) -> PyTree:
        all_leaves = list(fixed)
        for place, name in zip(places, names, strict=True):
            all_leaves[place] = free[name]
        return jax.tree.unflatten(structure, all_leaves)

    def of(function: Callable[[PyTree, Data], Array]) -> Callable[[PyTree, Data], Array]:
        return lambda free, rows: function(assembled(free), rows)

    check, batched = posterior.check_values, posterior.batched_log_likelihood
    return Posterior(
        of(posterior.log_likelihood),
        flat,
        check_values=None if check is None else lambda free, data: check(assembled(free), data),
        batched_log_likelihood=None if batched is None else of(batched),
    )
