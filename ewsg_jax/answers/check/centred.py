"""Draws of a hierarchy in coordinates in which identities see its scales.

In the coordinates in which a hierarchy is written, the gradient of a scale at fixed effects has a
standard deviation of √(2J) for J effects. That noise says nothing of the scale and hides its bias.
In coordinates in which the effects do not depend on the scale it is gone. Stein's identities hold
in any coordinates, so draws and gradients are mapped and judged there.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.check import settings
from ewsg_jax.answers.check.beyond_draws import Missing, beyond_draws, usual_share_beyond
from ewsg_jax.answers.check.correction import TargetMoments
from ewsg_jax.answers.check.crossfit import TINY
from ewsg_jax.answers.check.draws import Draws
from ewsg_jax.answers.check.gradients import FreshGradients
from ewsg_jax.answers.check.marginals import Beyond, Marginal, marginal_of
from ewsg_jax.answers.check.moved_draws import Analysis
from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array
from ewsg_jax.hierarchy.centring import Centring, centring_of, not_centred
from ewsg_jax.hierarchy.conditionals import VectorPrior
from ewsg_jax.hierarchy.effects import NUM_POINTS
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.vectors.row_subsets import evenly

Program = Callable[..., Array]


def in_centred(
    posterior: Posterior, draws: Draws, fresh: FreshGradients, temperature: float
) -> tuple[Draws, FreshGradients]:
    """Return draws and gradients in coordinates that fit a hierarchy; as they are without one.

    Args:
        posterior: the target, whose prior shows which coordinates are effects.
        draws: the draws, in the coordinates of the position.
        fresh: gradients at them.
        temperature: T of the target exp(−V/T).
    """
    # A plan in such coordinates checks its pilot runs there.
    made_so = centring_of(posterior) is not None
    centring = None if made_so else _centring(posterior, draws, fresh, temperature)
    if centring is None:
        return draws, fresh
    moved = _in(centring, draws)
    pulled = pulled_back(moved, fresh)
    is_finite = np.isfinite(moved.values).all() and pulled.is_finite
    return (moved, pulled) if is_finite else (draws, fresh)


def in_coordinates_of(others: Draws, draws: Draws) -> Draws:
    """Return draws, in the coordinates of the position, in those of others."""
    return draws if others.centring is None else _in(others.centring, draws)


def in_position(draws: Draws) -> Draws:
    """Return draws in the coordinates of the position."""
    if draws.centring is None:
        return draws
    values = _over_chains(_position_of, draws.centring, draws.values)
    return draws._replace(values=values, centring=None)


def pulled_back(draws: Draws, fresh: FreshGradients) -> FreshGradients:
    """Return gradients by the position, at draws in other coordinates, as gradients by these."""
    if draws.centring is None:
        return fresh
    dtype = jnp.result_type(float, *draws.layout.dtypes)
    flat = draws.flat.astype(dtype)

    def pulled(gradients: np.ndarray) -> np.ndarray:
        at_draws = _pulled_back(draws.centring, flat, gradients.astype(dtype))
        return np.asarray(at_draws, np.float64)

    first = pulled(fresh.first)
    second = first if fresh.first is fresh.second else pulled(fresh.second)
    return fresh._replace(first=first, second=second)


def moments_of_position(analysis: Analysis) -> TargetMoments:
    """Return moments of the target in the coordinates of the position, with errors.

    Those of effects are expectations of functions of the other coordinates. No covariance is known.
    """
    moments, draws = analysis.correction.moments, analysis.draws
    if draws.centring is None:
        return moments
    effects = draws.centring.effects
    values = in_position(draws).flat[:, effects]
    mean, mean_error = analysis.correction.expectation(values, effects)
    square, square_error = analysis.correction.expectation((values - mean) ** 2, effects)
    # How far one correction goes, as for coordinates.
    variance = np.maximum(values.var(0), TINY**2)
    low, high = settings.MIN_VARIANCE_RATIO * variance, settings.MAX_VARIANCE_RATIO * variance
    bounded = np.clip(square, low, high)
    error = np.hypot(square_error, mean_error**2) + np.abs(square - bounded)
    most = settings.MAX_SDS
    relative = np.clip(error / 2 / np.minimum(bounded, variance), settings.MIN_ERROR, most)
    sd = np.sqrt(bounded)
    replaced = []
    for of_all, of_effects in zip(
        moments[:4],
        (mean, sd, np.clip(mean_error, settings.MIN_ERROR * sd, most * sd), relative),
        strict=True,
    ):
        replaced.append(of_all.copy())
        replaced[-1][effects] = of_effects
    return TargetMoments(*replaced, covariance=None)


class ScaleMarginals(NamedTuple):
    """The scales of a hierarchy, by their mean gradients.

    Attributes:
        coordinates: their numbers, shape (k,).
        marginals: the marginal of each.
        passes: passes over the data that these took.
    """

    coordinates: np.ndarray
    marginals: tuple[Marginal, ...]
    passes: float

    def missing(self, count: int) -> Missing:
        """Return what `count` draws lack of the target by these marginals, which are known beyond
        them; nothing that exact draws lack too.
        """
        shares = [one.share - usual_share_beyond(count) for one in self.marginals]
        distances = [one.distance for one in self.marginals]
        return Missing(max([0.0, *shares]), distance=max(distances, default=0.0))

    def replaced(self, moments: TargetMoments) -> TargetMoments:
        """Return moments of the target with those of these marginals.

        If another scale is off, so is what its draws have at each value of this one: the marginal
        is then as uncertain as it differs from a regression on all coordinates.
        """
        mean, sd, mean_error, sd_error = (array.copy() for array in moments[:4])
        far = np.array([np.hypot(one.distance, one.share**0.5) for one in self.marginals])
        for place, (k, marginal) in enumerate(zip(self.coordinates, self.marginals, strict=True)):
            by_regression = mean[k], sd[k]
            if np.isfinite(marginal.sd):
                mean[k], sd[k] = marginal.mean, marginal.sd
            of_mean, of_sd = marginal.mean_error / sd[k], marginal.sd_error
            if np.delete(far, place).max(initial=0.0) > settings.NEAR_TARGET:
                of_mean = np.hypot(of_mean, (mean[k] - by_regression[0]) / sd[k])
                of_sd = np.hypot(of_sd, np.log(sd[k] / by_regression[1]))
            least, most = settings.MIN_ERROR, settings.MAX_SDS
            mean_error[k] = sd[k] * np.clip(of_mean, least, most)
            sd_error[k] = np.clip(of_sd, least, most)
        return TargetMoments(mean, sd, mean_error, sd_error, moments.covariance)


def scales_of(
    analysis: Analysis, posterior: Posterior, gradients_at: Callable[[Draws], FreshGradients]
) -> ScaleMarginals:
    """Return the marginals of the scales of a hierarchy; of none without one.

    Args:
        analysis: draws that were not moved, and gradients at them.
        posterior: the target.
        gradients_at: evaluates gradients at draws.
    """
    draws, gradients = analysis.draws, analysis.gradients
    # A plan's pilot runs are in such coordinates by themselves.
    centring, at = draws.centring or centring_of(posterior), draws.flat[:1]
    if centring is None:
        return ScaleMarginals(np.zeros(0, int), (), 0.0)
    coordinates = centring.scales(_over_chains(_position_of, centring, at[None])[0, 0])
    beyond: Sequence[Beyond | None] = [None] * len(coordinates)
    passes = 0.0
    if len(coordinates) <= settings.MAX_SCALES:
        beyond, _, passes = beyond_draws(draws, coordinates, centring.effects, gradients_at)
    marginals = [
        marginal_of(draws.flat[:, k], gradients[:, k], draws.num_groups, there)
        for k, there in zip(coordinates, beyond, strict=True)
    ]
    return ScaleMarginals(coordinates, tuple(marginals), passes)


def _in(centring: Centring, draws: Draws) -> Draws:
    values = _over_chains(_to_coordinates, centring, draws.values)
    return draws._replace(values=values, centring=centring)


def _centring(
    posterior: Posterior, draws: Draws, fresh: FreshGradients, temperature: float
) -> Centring | None:
    """Return the coordinates in which effects depend least on their scales; None without any."""
    layout, flat = draws.layout, draws.flat
    # The weights of linear predictors have no scale among them.
    if posterior.predictor is not None or min(dtype.itemsize for dtype in layout.dtypes) < 4:
        return None
    points = flat[evenly(len(flat), NUM_POINTS)]
    widths = np.maximum(flat.std(0), TINY)
    prior = VectorPrior(posterior.log_prior, layout)
    centring = not_centred(prior, points, flat.mean(0), widths)
    if centring is None:
        return None
    dtype = centring.width.dtype
    in_prior = _over_chains(_conditionals, centring, draws.values).reshape(-1, 2, draws.size)
    mean, width = in_prior[:, 0], in_prior[:, 1] * temperature**0.5
    # What else pulls at an effect, by a regression of its gradient without the prior's.
    others = fresh.mean - (flat - mean) / width**2
    off = flat - flat.mean(0)
    information = (off * others).mean(0) / np.maximum((off**2).mean(0), TINY**2)
    information = np.maximum(information, 0.0)
    pull = information * flat.mean(0) - others.mean(0)
    share = (1 / (1 + information * width**2)).mean(0)[centring.effects]
    # Effects of whose precision rows have nine tenths hardly depend on their scale; by hand.
    if not np.isfinite(pull).all() or not share.max() > 0.1:
        return None
    # In units of the prior at temperature 1, whose widths the map takes.
    return dataclasses.replace(
        centring,
        information=jnp.asarray((temperature * information).astype(dtype)),
        pull=jnp.asarray((temperature * pull).astype(dtype)),
    )


def _over_chains(program: Program, centring: Centring, values: np.ndarray) -> np.ndarray:
    """Return what a program gives at draws (chain, draw, d), float64."""
    dtype = jnp.result_type(float, *centring.hierarchy.prior.layout.dtypes)
    flat = values.reshape(-1, values.shape[-1]).astype(dtype)
    result = np.asarray(program(centring, flat), np.float64)
    return result.reshape(*values.shape[:2], *result.shape[1:])


def _program(function: Program) -> Program:
    """Return a compiled program that maps a function of a centring and vectors over many."""

    def over_draws(centring: Centring, *vectors: Array) -> Array:
        return jax.vmap(functools.partial(function, centring))(*vectors)

    return jax.jit(over_draws, compiler_options=QUICK)


def _position(centring: Centring, flat: Array) -> Array:
    return centring.position_of(flat)[0]


@_program
def _pulled_back(centring: Centring, flat: Array, gradient: Array) -> Array:
    """Return Jᵀg − ∇ log|det J| at a vector u, with J = ∂θ/∂u."""
    # Both by one backward pass.
    (_, log_det), pull = jax.vjp(centring.position_of, flat)
    return pull((gradient, -jnp.ones_like(log_det)))[0]


_position_of, _to_coordinates, _conditionals = map(
    _program, (_position, Centring.coordinates_of, Centring.conditionals)
)
