"""A kernel near a mode of many numbers, coordinate by coordinate: what a matrix (d, d) is too large
for.

In the coordinates of its inverse mass, y = L⁻¹(θ − mode), each number is taken to move by itself,
in a curvature that is the inverse of its own variance under the normal approximation. With
`mode.inverse_mass` for the mass all of these are 1, and nothing is lost but what the low rank
leaves out.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.answers.forecast import batches, stability, stationary
from ewsg_jax.answers.forecast.batches import anchor_ages, known, source_of_noise
from ewsg_jax.answers.forecast.result import Forecast
from ewsg_jax.answers.forecast.step import Each, at_rest, stationary_each, step_of
from ewsg_jax.answers.forecast.target import PLACES
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.base.factors import Diagonal, Factor, Number, factor_of
from ewsg_jax.base.modules import is_own, made_by
from ewsg_jax.base.typing import Data, Position
from ewsg_jax.dynamics._mass import without_metric
from ewsg_jax.dynamics._protocol import Constant, needs_covariance
from ewsg_jax.gradients._protocol import GradientEstimator
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.potential import PotentialSpec

NUM_POINTS, ROUNDS = 64, 3
"""Points at which two batches are compared, and rounds of noise and law."""


def of_many(kernel: Pair, mode: Mode, data: Data, step: int) -> Forecast:
    """Return the forecast, coordinate by coordinate, or raise ValueError that there is none in this
    many dimensions.
    """
    dynamics, mass = without_metric(kernel.dynamics)
    model, layout = known(kernel.estimator, data), Layout.of(mode.position)
    # What would need a matrix (d, d) has no forecast by coordinates.
    has_matrix = needs_covariance(dynamics) or getattr(dynamics, "covariance", None) is not None
    is_alone = dynamics.translates and not is_own(type(dynamics))
    if not is_alone or has_matrix or "thermostat" in at_rest(dynamics, step)._fields:
        raise _too_many(f"the dynamics {made_by(dynamics)}")
    if anchor_ages(model) is not None or model.chain_length is not None:
        raise _too_many(f"the estimator {made_by(kernel.estimator)}")
    # In coordinates in which curvature is a diagonal: those of the mass, or of the mode.
    factor, curvature = _coordinates(kernel, mode)
    temperature = float(getattr(dynamics, "temperature", Constant(value=1.0))(jnp.int32(step)))
    alone = step_of(dynamics, step)
    variance = temperature / curvature

    def law_of(variance: np.ndarray) -> Each:
        heat = np.zeros_like(curvature)
        if model.measured_on is not None and np.isfinite(variance).all():
            heat = _heat(kernel, model.measured_on, mode, step, factor, variance, data)
        return stationary_each(alone, curvature, heat)

    # Noise at points of the law, whose width depends on the noise: in turn.
    each = law_of(variance)
    for _ in range(ROUNDS - 1):
        each = law_of(each.variance)
    ratio = each.variance * curvature / temperature

    tree = functools.partial(_on_device, layout)
    # Stability by the largest curvature met at places of one and more widths.
    wide = factor_of(mode.inverse_mass, "covariance")
    half = temperature**0.5 * stationary.normal(17, 2, len(curvature))
    places = np.stack(
        [vector(wide.times(tree(place))) for width in PLACES for place in width * half]
    )
    of = PotentialSpec(kernel.estimator.posterior, layout, CHUNK_SIZE, False)
    steepest = stability.largest_curvature(of, mass, mode.position, places, data)
    evaluations, n = kernel.evaluations(data), num_rows(data)
    return Forecast(
        variance_ratio=tree(ratio),
        mean_shift=tree(np.full_like(ratio, np.nan)),
        autocorrelation_time=tree(each.time),
        covariance=None,
        target=None,
        direction_ratios=(float(ratio.min()), float(ratio.max())),
        curvature_seen=(np.nan, np.nan),
        step_size=float(dynamics.step_size(jnp.int32(step))),
        largest_step=stability.largest_step(dynamics, step, steepest, 0.0),
        passes_per_step=evaluations.per_step / n,
        passes_at_start=evaluations.at_init / n,
        by=f"{source_of_noise(model)}, coordinate by coordinate",
        is_settled=True,
        kernel=kernel,
    )


def _coordinates(kernel: Pair, mode: Mode) -> tuple[Factor, np.ndarray]:
    """Return L, and the curvature of each coordinate of y."""
    (_, mass), sd = without_metric(kernel.dynamics), vector(mode.sd)
    factor = Number(root=1.0) if mass is None else mass.factor
    if isinstance(factor, Number):
        return factor, (float(factor.root) / sd) ** 2
    if isinstance(factor, Diagonal):
        return factor, (vector(factor.root) / sd) ** 2
    own = factor_of(mode.inverse_mass, "covariance")
    if factor != own:
        raise _too_many("another inverse_mass that is no diagonal")
    return factor, np.ones_like(sd)


def _heat(
    kernel: Pair,
    estimator: GradientEstimator,
    mode: Mode,
    step: int,
    factor: Factor,
    variance: np.ndarray,
    data: Data,
) -> np.ndarray:
    """Return the variance of each coordinate of Lᵀg, over batches, averaged over the law."""
    position = mode.position
    tree = functools.partial(_on_device, Layout.of(position))
    wide = factor_of(mode.inverse_mass, "covariance")

    def moved(draw: np.ndarray) -> np.ndarray:
        # As the normal approximation has it, directions that are narrow across coordinates too.
        if factor == wide:
            return vector(wide.times(tree(draw * np.sqrt(variance))))
        spread = np.sqrt(variance) * vector(factor.times(jax.tree.map(jnp.ones_like, position)))
        return vector(wide.times(tree(draw))) * spread / vector(mode.sd)

    places = np.stack([moved(draw) for draw in stationary.normal(11, NUM_POINTS, len(variance))])
    differences = np.asarray(
        batches.differences(estimator, position, jnp.asarray(places, jnp.float32), data)
    )
    turned = [vector(factor.transposed(tree(row))) for row in differences]
    return np.mean(np.square(turned), axis=0) / 2


def _on_device(layout: Layout, flat: np.ndarray) -> Position:
    """Return the position of a vector, with arrays of JAX as leaves."""
    return jax.tree.map(jnp.asarray, layout.tree(flat))


def _too_many(what: str) -> ValueError:
    return ValueError(
        "kernel must be of a dynamics of the library's without a thermostat or a matrix friction, "
        "a diagonal mass or mode.inverse_mass, and the estimator full, uniform, stratified or "
        f"control_variate, for a forecast of more than 1,000 numbers; got {what}"
    )
