"""Draws that are wrong in the ways that integrators and chains make them wrong, from exact ones.

A way weighs exact draws of the centred form by a function of the scale, and draws are taken by
rejection, so that all else stays exact given the scale. `scheme` is what `semi_implicit` makes of
a slow scale and fast effects at a step size h, in units of the effects' sds: each effect has
1 / (1 − h² λ / 4) times its conditional variance, λ its conditional precision, and the scale feels
the mean force of such effects, which weighs its density by ∏ (1 − h² λ / 4)^½. `weighed` has the
weights alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.hierarchies.model import Draws, HierarchyModel

STEP_SQUARED = 0.2
"""h² of a step whose bias of an sd is 2.5 %, half the tolerance of a plan, at curvature 1."""
LEFT_OUT = 0.2
"""Share of the scale's values that draws lack, the smallest or the largest."""
CAPPED = 0.999
"""Quantile of unbounded weights beyond which they count as equal."""


class Way(NamedTuple):
    """A way to be wrong.

    Attributes:
        weight: the logarithm of weights, from the standardised scale, shape (count,); None if they
            come from precisions of effects.
        is_wider: whether effects are wider as `scheme` makes them.
    """

    weight: Callable[[np.ndarray], np.ndarray] | None
    is_wider: bool = False


def _within(is_kept: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda u: np.where(is_kept(u), 0.0, -np.inf)


WAYS = {
    "exact": Way(np.zeros_like),
    "scheme": Way(None, is_wider=True),
    "weighed": Way(None),
    "lacks_small": Way(_within(lambda u: u > np.quantile(u, LEFT_OUT))),
    "lacks_large": Way(_within(lambda u: u < np.quantile(u, 1 - LEFT_OUT))),
    "shifted": Way(lambda u: 0.3 * u),
    "narrow": Way(lambda u: -0.4 * u**2),
    "shifted_little": Way(lambda u: 0.06 * u),
}
"""Ways by name; `shifted_little` is within the tolerance, and may be called right."""


def make(model: HierarchyModel, pool: Draws, way: str, rng: np.random.Generator) -> Draws | None:
    """Return draws of a way in the centred form, from a pool of exact ones; None if the model has
    no closed conditionals for it.

    Args:
        model: either form of the hierarchy.
        pool: exact draws in the centred form.
        way: a name in `WAYS`.
        rng: for the rejection.
    """
    weight, is_wider = WAYS[way]
    scale = pool[model.scales[0]]
    factors: Draws = {}
    if weight is None:
        factors = {
            name: 1 - STEP_SQUARED * _in_sds(precision, pool[name]) / 4
            for name, precision in model.of_pair.precision(pool).items()
        }
        if not factors:
            return None
        with np.errstate(divide="ignore", invalid="ignore"):
            log_weight = np.asarray(
                sum(0.5 * np.sum(np.log(np.maximum(x, 0.0)), axis=1) for x in factors.values())
            )
    else:
        log_weight = weight((scale - scale.mean()) / scale.std())
    finite = log_weight[np.isfinite(log_weight)]
    if len(finite) == 0:
        return None
    is_kept = np.log(rng.random(len(scale))) < log_weight - np.quantile(finite, CAPPED)
    kept = {name: leaf[is_kept] for name, leaf in pool.items()}
    if is_wider and is_kept.any():
        kept |= _wider(model, kept, {name: x[is_kept] for name, x in factors.items()})
    return kept


def _in_sds(precision: np.ndarray, leaf: np.ndarray) -> np.ndarray:
    """Return precisions in units of the sds of their coordinates over the pool."""
    return precision * leaf.var(0)


def _wider(model: HierarchyModel, draws: Draws, factors: Draws) -> Draws:
    """Return effects, moved from their conditional means: a + gradient / precision."""
    pair = model.of_pair
    posterior, _ = pair.centred
    with jax.enable_x64(True):
        data = jax.tree.map(
            lambda x: jnp.asarray(x, float if np.asarray(x).dtype.kind == "f" else None), pair.data
        )

        def log_density(p: Any) -> Any:
            rows = jax.vmap(posterior.log_likelihood, (None, 0))(p, data)
            return posterior.log_prior(p) + jnp.sum(rows)

        at = {name: jnp.asarray(x) for name, x in draws.items()}
        gradients = jax.jit(lambda p: jax.lax.map(jax.grad(log_density), p, batch_size=200))(at)
    precisions = pair.precision(draws)
    moved = {}
    for name, factor in factors.items():
        from_centre = -np.asarray(gradients[name]) / precisions[name]
        moved[name] = draws[name] + from_centre * (factor**-0.5 - 1)
    return moved
