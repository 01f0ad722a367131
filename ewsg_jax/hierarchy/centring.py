"""Coordinates in which the effects of a hierarchy do not depend on their scale.

With m and s the mean and the width of an effect a in the prior, given the rest, and rows that say
of it what one normal observation does, of precision I and with b = I · (its value), the effect has
in the posterior, given the rest, the mean m̃ = k (m + s² b) and the variance k s², with k = 1/(1 +
I s²) the prior's share of the precision. Its coordinate is u = (a − m̃)/(s √k). Without rows that
is the not centred form, u = (a − m)/s, and with many the centred one, up to constants; forms
between them, a = m + s^c u, are tangents to it (Papaspiliopoulos, Roberts & Sköld 2007).
"""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Array, Position
from ewsg_jax.bijectors._protocol import Bijector
from ewsg_jax.hierarchy.conditionals import Conditional, Hierarchy, VectorPrior, conditional
from ewsg_jax.hierarchy.effects import levels_of
from ewsg_jax.hierarchy.linear import LinearConditionals, linear_functions
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.vectors.layout import Layout

LEAST_CHANGE = 1e-3
"""Change of all log widths together by a coordinate, below which it is rounding of float32."""


@module
class Centring(Bijector):
    """The map from u to the position, whose coordinates that are no effects stay as they are.

    Attributes:
        hierarchy: the prior and its levels of effects.
        linear: means and widths of each level in the prior, if they are such functions; None: by
            derivatives of the prior.
        information: I of each coordinate, shape (d,); only those of effects are used.
        pull: b of each coordinate, shape (d,).
        center: values that effects may have, shape (d,).
        width: widths that they may have, shape (d,), at which the prior is differentiated.
    """

    hierarchy: Hierarchy = static()
    linear: tuple[LinearConditionals, ...] | None = None
    information: Array
    pull: Array
    center: Array
    width: Array

    def forward(self, position: Position, /) -> Position:
        """Return the position θ."""
        return self._layout.tree(self.position_of(_flat(position))[0])

    def inverse(self, position: Position, /) -> Position:
        """Return u."""
        return self._layout.tree(self.coordinates_of(_flat(position)))

    def log_det(self, position: Position, /) -> Array:
        """Return log|det ∂θ/∂u| at u."""
        return self.position_of(_flat(position))[1]

    @jax.jit
    def position_of(self, coordinates: Array) -> tuple[Array, Array]:
        """Return θ of a vector u, shape (d,), and log|det ∂θ/∂u|."""
        flat = coordinates
        log_det = jnp.zeros((), pytrees.wide(flat.dtype))
        # The highest level first: those below are given it.
        for number, places in reversed(self._levels()):
            mean, width = self._given_rest(number, places, flat)
            flat = flat.at[places].set(mean + width * flat[places])
            log_det += jnp.sum(jnp.log(width))
        return flat, log_det

    @jax.jit
    def coordinates_of(self, flat: Array) -> Array:
        """Return u of a vector θ, shape (d,)."""
        coordinates = flat
        for number, places in self._levels():
            mean, width = self._given_rest(number, places, flat)
            coordinates = coordinates.at[places].set((flat[places] - mean) / width)
        return coordinates

    @jax.jit
    def conditionals(self, flat: Array) -> Array:
        """Return means and widths of effects in the prior given the coordinates above, at a vector
        θ, shape (2, d); those of other coordinates are 0 and 1.
        """
        result = jnp.stack([jnp.zeros_like(flat), jnp.ones_like(flat)])
        for number, places in self._levels():
            result = result.at[:, places].set(jnp.stack(self._in_prior(number, flat)))
        return result

    def scales(self, flat: np.ndarray) -> np.ndarray:
        """Return the coordinates that set the widths of effects in the prior.

        Args:
            flat: a vector θ at which widths are differentiated, shape (d,).
        """
        # A random combination: no two widths cancel.
        weights = jnp.asarray(np.random.default_rng(0).uniform(0.5, 1.5, len(flat)))

        def widths(flat: Array) -> Array:
            return jnp.dot(weights, jnp.log(self.conditionals(flat)[1]))

        of_scales = np.array(jax.grad(widths)(jnp.asarray(flat, self.width.dtype)))
        of_scales[self.effects] = 0.0
        return np.flatnonzero(np.abs(of_scales) > LEAST_CHANGE)

    def __repr__(self) -> str:
        return f"centring({len(self.effects)} effects)"

    @property
    def effects(self) -> np.ndarray:
        """The coordinates of all effects."""
        return np.concatenate([np.array(level) for level in self.hierarchy.levels])

    @property
    def _layout(self) -> Layout:
        return self.hierarchy.prior.layout

    def _levels(self) -> list[tuple[int, Array]]:
        return [(n, jnp.asarray(level)) for n, level in enumerate(self.hierarchy.levels)]

    def _in_prior(self, number: int, flat: Array) -> Conditional:
        """Return the distribution of a level in the prior, given the coordinates above it."""
        if self.linear is not None:
            return self.linear[number](flat)
        center, width = (jnp.asarray(x, flat.dtype) for x in (self.center, self.width))
        return conditional(self.hierarchy, number, flat, center, width)

    def _given_rest(self, number: int, places: Array, flat: Array) -> tuple[Array, Array]:
        """Return m̃ and s √k of a level, given the coordinates above it."""
        mean, width = self._in_prior(number, flat)
        information, pull = (
            jnp.asarray(x, flat.dtype)[places] for x in (self.information, self.pull)
        )
        share = 1 / (1 + information * width**2)
        return share * (mean + width**2 * pull), width * jnp.sqrt(share)


def not_centred(
    prior: VectorPrior, points: np.ndarray, center: np.ndarray, width: np.ndarray
) -> Centring | None:
    """Return the not centred form of a hierarchy; None if a prior is none that is recognised.

    Args:
        prior: the log prior of a vector.
        points: places at which it is differentiated, shape (places, d).
        center: values that effects may have, shape (d,).
        width: widths that they may have, and other coordinates, shape (d,).
    """
    levels = levels_of(prior, points)
    if not levels:
        return None
    dtype = jnp.result_type(float, *prior.layout.dtypes)
    zero = jnp.zeros(len(center), dtype)
    centring = Centring(
        hierarchy=Hierarchy(prior, levels),
        information=zero,
        pull=zero,
        center=jnp.asarray(center, dtype),
        width=jnp.asarray(width, dtype),
    )
    return dataclasses.replace(centring, linear=_linear(centring, points))


def _linear(centring: Centring, points: np.ndarray) -> tuple[LinearConditionals, ...] | None:
    """Return the conditionals of all levels as linear functions; None if they are not."""
    steps, dtype = np.asarray(centring.width, np.float64), centring.width.dtype
    # Each place, and one step along each coordinate.
    away = np.concatenate([np.zeros((1, len(steps))), np.diag(steps)])
    values = np.asarray(
        _over_places(centring, jnp.asarray(points[:, None] + away, dtype)), np.float64
    )
    levels = []
    for level in centring.hierarchy.levels:
        mean, width = np.moveaxis(values[..., list(level)], 2, 0)
        parts = [
            linear_functions(points, part[:, 0], part[:, 1:], steps, units, dtype)
            for part, units in ((mean, steps[list(level)]), (np.log(width), np.ones(len(level))))
        ]
        if parts[0] is None or parts[1] is None:
            return None
        levels.append(LinearConditionals(parts[0], parts[1]))
    return tuple(levels)


@jax.jit
def _over_places(centring: Centring, places: Array) -> Array:
    """Return conditionals at vectors (…, …, d), shape (…, …, 2, d)."""
    return jax.lax.map(jax.vmap(centring.conditionals), places)


def centring_of(posterior: Posterior) -> Centring | None:
    """Return the map by which a posterior is expressed in such coordinates; None if by none."""
    # A posterior holds functions in a wrapper of its own.
    log_prior = getattr(posterior.log_prior, "function", posterior.log_prior)
    bijector = getattr(log_prior, "bijector", None)
    return bijector if isinstance(bijector, Centring) else None


def _flat(position: Position) -> Array:
    return ravel_pytree(checks.position(position))[0]
