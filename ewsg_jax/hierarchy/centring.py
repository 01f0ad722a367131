"""Coordinates in which the effects of a hierarchy do not depend on their scale.

With m and s the mean and the width of an effect a in the prior, given the rest, and rows that say
of it what one normal observation does, of precision I and with b = I · (its value), the effect has
in the posterior, given the rest, the mean m̃ = k (m + s² b) and the variance k s², with k = 1/(1 +
I s²) the prior's share of the precision. Its coordinate is u = (a − m̃)/(s √k). Without rows that
is the not centred form, u = (a − m)/s, and with many the centred one, up to constants; forms
between them, a = m + s^c u, are tangents to it (Papaspiliopoulos, Roberts & Sköld 2007).
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.compiling import QUICK, UNOPTIMISED
from ewsg_jax.base.modules import module, static
from ewsg_jax.base.typing import Array, Position
from ewsg_jax.bijectors._protocol import Bijector
from ewsg_jax.hierarchy.conditionals import Conditional, Hierarchy, Level, VectorPrior, conditional
from ewsg_jax.hierarchy.effects import levels_of
from ewsg_jax.hierarchy.linear import LinearConditionals, linear_functions
from ewsg_jax.posterior.posterior import Posterior

Places = slice | Array
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

    keeps_shapes = True

    hierarchy: Hierarchy = static()
    linear: tuple[LinearConditionals, ...] | None = None
    information: Array
    pull: Array
    center: Array
    width: Array

    def forward(self, position: Position, /) -> Position:
        """Return the position θ."""
        return _compiled(_forward, self, position)

    def inverse(self, position: Position, /) -> Position:
        """Return u."""
        return _compiled(_inverse, self, position)

    def log_det(self, position: Position, /) -> Array:
        """Return log|det ∂θ/∂u| at u."""
        return self.position_of(ravel_pytree(checks.position(position))[0])[1]

    @jax.jit
    def position_of(self, coordinates: Array) -> tuple[Array, Array]:
        """Return θ of a vector u, shape (d,), and log|det ∂θ/∂u|."""
        flat = coordinates
        log_det = jnp.zeros((), pytrees.wide(flat.dtype))
        # The highest level first: those below are given it.
        for number, places in reversed(self._levels()):
            mean, width = self._given_rest(number, places, flat)
            flat = _with(flat, places, mean + width * flat[places])
            log_det += jnp.sum(jnp.log(width))
        return flat, log_det

    @jax.jit
    def coordinates_of(self, flat: Array) -> Array:
        """Return u of a vector θ, shape (d,)."""
        coordinates = flat
        for number, places in self._levels():
            mean, width = self._given_rest(number, places, flat)
            coordinates = _with(coordinates, places, (flat[places] - mean) / width)
        return coordinates

    @jax.jit
    def conditionals(self, flat: Array) -> Array:
        """Return means and widths of effects in the prior given the coordinates above, at a vector
        θ, shape (2, d); those of other coordinates are 0 and 1.
        """
        means, widths = jnp.zeros_like(flat), jnp.ones_like(flat)
        for number, places in self._levels():
            mean, width = self._in_prior(number, flat)
            means, widths = _with(means, places, mean), _with(widths, places, width)
        return jnp.stack([means, widths])

    def scales(self, flat: np.ndarray) -> np.ndarray:
        """Return the coordinates that set the widths of effects in the prior.

        Args:
            flat: a vector θ at which widths are differentiated, shape (d,).
        """
        # A random combination: no two widths cancel.
        weights = np.random.default_rng(0).uniform(0.5, 1.5, len(flat)).astype(self.width.dtype)
        of_scales = np.array(_of_widths(self, weights, np.asarray(flat, self.width.dtype)))
        of_scales[self.effects] = 0.0
        return np.flatnonzero(np.abs(of_scales) > LEAST_CHANGE)

    def __repr__(self) -> str:
        return f"centring({len(self.effects)} effects)"

    @property
    def effects(self) -> np.ndarray:
        """The coordinates of all effects."""
        return np.concatenate([np.array(level) for level in self.hierarchy.levels])

    def _levels(self) -> list[tuple[int, Places]]:
        return [(n, _places(level)) for n, level in enumerate(self.hierarchy.levels)]

    def _in_prior(self, number: int, flat: Array) -> Conditional:
        """Return the distribution of a level in the prior, given the coordinates above it."""
        if self.linear is not None:
            return self.linear[number](flat)
        center, width = (jnp.asarray(x, flat.dtype) for x in (self.center, self.width))
        return conditional(self.hierarchy, number, flat, center, width)

    def _given_rest(self, number: int, places: Places, flat: Array) -> tuple[Array, Array]:
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
    # In their dtype before they are on the device, where a change of dtype is a program of its own.
    zero, *of_effects = (
        jnp.asarray(np.asarray(x, dtype)) for x in (np.zeros(len(center)), center, width)
    )
    centring = Centring(
        hierarchy=Hierarchy(prior, levels),
        information=zero,
        pull=zero,
        center=of_effects[0],
        width=of_effects[1],
    )
    return dataclasses.replace(centring, linear=_linear(centring, points))


def _linear(centring: Centring, points: np.ndarray) -> tuple[LinearConditionals, ...] | None:
    """Return the conditionals of all levels as linear functions; None if they are not."""
    steps, dtype = np.asarray(centring.width, np.float64), centring.width.dtype
    # Each place, and one step along each coordinate.
    away = np.concatenate([np.zeros((1, len(steps))), np.diag(steps)])
    places = (points[:, None] + away).astype(dtype)
    values = np.asarray(_over_places(centring, places), np.float64)
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


@functools.partial(jax.jit, compiler_options=QUICK)
def _over_places(centring: Centring, places: Array | np.ndarray) -> Array:
    """Return conditionals at vectors (…, …, d), shape (…, …, 2, d)."""
    return jax.lax.map(jax.vmap(centring.conditionals), places)


def centring_of(posterior: Posterior) -> Centring | None:
    """Return the map by which a posterior is expressed in such coordinates; None if by none."""
    # A posterior holds functions in a wrapper of its own.
    log_prior = getattr(posterior.log_prior, "function", posterior.log_prior)
    bijector = getattr(log_prior, "bijector", None)
    return bijector if isinstance(bijector, Centring) else None


def _places(level: Level) -> Places:
    """Return coordinates as a slice if they follow each other: no step gathers and scatters then,
    which compile in more time.
    """
    first, last = level[0], level[-1]
    is_range = level == tuple(range(first, last + 1))
    return slice(first, last + 1) if is_range else jnp.asarray(level)


def _with(flat: Array, places: Places, values: Array) -> Array:
    """Return a vector with other values at some places."""
    if not isinstance(places, slice):
        return flat.at[places].set(values)
    return jnp.concatenate([flat[: places.start], values, flat[places.stop :]])


def _compiled(program: Callable[..., Any], centring: Centring, position: Position) -> Position:
    """Return what a program makes of a position, by one compiled program outside of others."""
    position = checks.position(position)
    if any(map(checks.is_traced, jax.tree.leaves((centring, position)))):
        return program(centring, position)
    return _quickly(program, centring, position)


@functools.partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def _quickly(program: Callable[..., Any], centring: Centring, position: Position) -> Position:
    return program(centring, position)


def _forward(centring: Centring, position: Position) -> Position:
    flat, _ = centring.position_of(ravel_pytree(position)[0])
    return centring.hierarchy.prior.layout.tree(flat)


def _inverse(centring: Centring, position: Position) -> Position:
    coordinates = centring.coordinates_of(ravel_pytree(position)[0])
    return centring.hierarchy.prior.layout.tree(coordinates)


@functools.partial(jax.jit, compiler_options=UNOPTIMISED)
def _of_widths(centring: Centring, weights: Array | np.ndarray, flat: Array | np.ndarray) -> Array:
    """Return the gradient of a combination of log widths in the prior."""
    return jax.grad(lambda x: jnp.dot(weights, jnp.log(centring.conditionals(x)[1])))(flat)
