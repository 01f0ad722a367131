"""A plan in coordinates in which the effects of a hierarchy do not depend on their scale.

A centred hierarchy has no mode if its scale may be small, and a step that fits its narrow part is
far too small for the rest. In the coordinates of `Centring` it is near normal. There the kernel
moves; positions, draws and starts stay in the coordinates that the model is written in.
"""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.mode.start import Among, Start
from ewsg_jax.answers.plan.result import Plan
from ewsg_jax.base import rng
from ewsg_jax.base.compiling import QUICK
from ewsg_jax.base.typing import Array, Key, Position
from ewsg_jax.hierarchy.centring import Centring, centring_of, not_centred
from ewsg_jax.hierarchy.conditionals import VectorPrior
from ewsg_jax.hierarchy.effects import NUM_POINTS
from ewsg_jax.kernels.in_coordinates import InCoordinates
from ewsg_jax.posterior.posterior import Posterior
from ewsg_jax.vectors.layout import Layout, vector


@dataclass(frozen=True)
class MappedStart:
    """Starts of chains, mapped to the position.

    Attributes:
        start: starts u, functions of a key.
        bijector: the map from u to the position.
    """

    start: Start | Among
    bijector: Centring

    def __call__(self, key: Key) -> Position:
        """Return the start of a chain."""
        return self.bijector.forward(self.start(key))

    def of_keys(self, keys: Array) -> Position:
        """Return a start for each key of an array, whose axes come first."""
        return _mapped(self.bijector, self.start.of_keys(keys))


def hierarchy_of(posterior: Posterior, position: Position) -> Centring | None:
    """Return the not centred form of a hierarchy; None if the prior is none that is recognised.

    Args:
        posterior: the target. One whose data enter through linear predictors would lose them.
        position: a position, around which the prior is differentiated.
    """
    layout = Layout.of(position)
    if centring_of(posterior) is not None or posterior.predictor is not None:
        return None
    if min(dtype.itemsize for dtype in layout.dtypes) < 4:
        return None
    flat, generator = vector(position), np.random.default_rng(0)
    # So far apart that differences show, in each coordinate; by hand.
    points = flat + 0.3 * generator.normal(size=(NUM_POINTS, len(flat)))
    prior = VectorPrior(posterior.log_prior, layout)
    return not_centred(prior, points, flat, np.ones(len(flat)))


def plan_in_coordinates(
    key: Key,
    posterior: Posterior,
    position: Position,
    centring: Centring,
    mode_of: Callable[[Key, Posterior, Position], Mode],
    plan_of: Callable[[Key, Posterior, Position], Plan],
) -> Plan:
    """Return a plan of a hierarchy, made in coordinates that fit what rows say of its effects.

    Args:
        key: a typed PRNG key.
        posterior: the target.
        position: the position at which searches begin.
        centring: the not centred form.
        mode_of: searches for the mode of a posterior from a position.
        plan_of: makes the plan of a posterior from a position.
    """
    for_mode, for_plan = rng.keys_of(key, 2)
    standard, start = posterior.transformed(centring), centring.inverse(position)
    with warnings.catch_warnings():
        # The search in the final coordinates says what is wrong with the model.
        warnings.simplefilter("ignore", RuntimeWarning)
        mode = mode_of(for_mode, standard, start)
    fitted = informed(centring, mode)
    at_mode = fitted.inverse(centring.forward(mode.position)) if fitted is not centring else start
    plan = plan_of(for_plan, posterior.transformed(fitted), at_mode)
    passes = plan.data_passes_spent + mode.data_passes
    return of_position(dataclasses.replace(plan, data_passes_spent=passes), fitted, posterior)


def informed(centring: Centring, mode: Mode) -> Centring:
    """Return the coordinates that fit what rows say of each effect, by a mode in the not centred
    form; that form if there is no mode.

    There an effect's second derivative is 1 + I s², and its gradient is 0.
    """
    try:
        precision = np.diag(np.linalg.inv(np.asarray(mode.covariance)))
    except ValueError:
        return centring
    coordinates = vector(mode.position).astype(centring.width.dtype)
    flat, width = (np.asarray(x, np.float64) for x in _at_mode(centring, coordinates))
    information = np.maximum(precision - 1, 0.0) / width**2
    pull = information * flat + coordinates / width
    if not (np.isfinite(information).all() and np.isfinite(pull).all()):
        return centring
    dtype = centring.width.dtype
    information, pull, center, width = (
        jnp.asarray(x.astype(dtype)) for x in (information, pull, flat, width)
    )
    return dataclasses.replace(
        centring, information=information, pull=pull, center=center, width=width
    )


def of_position(plan: Plan, centring: Centring, posterior: Posterior) -> Plan:
    """Return a plan in other coordinates as one of the position, whose target is the posterior."""
    number = len(centring.effects)
    note = (
        f"the prior is a hierarchy of {number} effects: the kernel moves in coordinates in which "
        "these do not depend on their scale, and returns draws in yours"
    )
    return dataclasses.replace(
        plan,
        kernel=InCoordinates(kernel=plan.kernel, posterior=posterior, bijector=centring),
        start=MappedStart(plan.start, centring),
        mode=plan.mode._replace(
            position=centring.forward(plan.mode.position), converged=False, curvature=None
        ),
        gaussian=None,
        notes=(note, *plan.notes),
    )


@functools.partial(jax.jit, compiler_options=QUICK)
def _at_mode(centring: Centring, coordinates: Array | np.ndarray) -> tuple[Array, Array]:
    """Return the position of a vector u, and widths of effects in the prior there."""
    flat = centring.position_of(coordinates)[0]
    return flat, centring.conditionals(flat)[1]


@functools.partial(jax.jit, compiler_options=QUICK)
def _mapped(centring: Centring, coordinates: Position) -> Position:
    """Return the positions of many u, whose axes come first."""
    return jax.vmap(centring.forward)(coordinates)
