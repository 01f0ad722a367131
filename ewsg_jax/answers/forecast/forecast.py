"""Predictions of a kernel before it runs: bias, autocorrelation and stability, for a posterior that
is near normal.

    z' = A z + noise,   P = A P Aᵀ + Q,   Q = G S Gᵀ + B Bᵀ

z is the position (and momentum) less the mode. A, G and B are Jacobians of the dynamics' own step,
S the covariance of estimates on drawn batches, averaged over N(mode, P) itself: at the mode alone a
control variate has no noise.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from ewsg_jax.answers.forecast import stationary
from ewsg_jax.answers.forecast.batch_noise import source_of_noise
from ewsg_jax.answers.forecast.dynamics_step import HELD, MOVING
from ewsg_jax.answers.forecast.linearised import LinearisedKernel
from ewsg_jax.answers.forecast.result import Forecast
from ewsg_jax.answers.mode.curvature import Curvature
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.mode.spectrum import CurvatureOfMany
from ewsg_jax.base import checks, limits, numeric
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.modules import is_own, made_by
from ewsg_jax.base.needs import Need, parts_of
from ewsg_jax.base.typing import Data
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.dynamics._mass import without_metric
from ewsg_jax.gradients._stratified import Stratified
from ewsg_jax.kernels.in_coordinates import target_of
from ewsg_jax.kernels.pair import Pair
from ewsg_jax.kernels.protocol import Kernel
from ewsg_jax.posterior.random import NO_VALUES
from ewsg_jax.rows import _spread as spread
from ewsg_jax.rows._view import num_rows
from ewsg_jax.run.data_digest import origin_of

INSTEAD = "Run the kernel for some steps and check the draws (ewsg_jax.check) instead"


@reads_now("kernel")
def forecast(
    kernel: Kernel,
    mode: Mode,
    data: Data,
    *,
    step: int = 0,
    mesh: Mesh | None = None,
    check_data: bool = True,
) -> Forecast:
    """Predict the bias, the autocorrelation and the largest stable step of a kernel near a mode.

    It does not run the kernel: it computes the stationary distribution of the kernel's linearised
    step with the noise of its batches, for a posterior that is near normal. It costs some passes
    over the data (up to a million gradients of rows a round, in two to six rounds), and in d
    dimensions some multiples of d³ operations.

    Args:
        kernel: a kernel made by a method, or by `ewsg_jax.kernel`.
        mode: what `find_mode` returned for the kernel's posterior and these data.
        data: all n rows.
        step: the number of the step at which schedules are read.
        mesh: several devices, as for `ewsg_jax.sample`: along `"data"` each has a part of the rows
            and sums over it. Batches are those of one device, whose rows the devices that have them
            give to all. Not for `stratified`, which reads the labels of all rows.
        check_data: look once for NaN and infinity in the data, and for labels that the model does
            not know; False if the likelihood masks what is missing.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; the mode is not a `Mode`, is
            that of other rows or of another likelihood, or has more than 1,000 coordinates; the
            gradient is not finite at a draw as far from the mode as the posterior or chains; the
            kernel is exact, or has a dynamics that has no forecast (preconditioned, quasi_newton,
            your own) or an estimator whose noise is unknown (epochs, SVRG's option I, full weights
            of too many batches, your own without a `noise_model`).

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model, data = ewsg.models.gaussian_location(), jnp.array([[1.0], [3.0], [4.0], [0.0]])
        >>> mode = ewsg.find_mode(jax.random.key(0), model, jnp.zeros(1), data)
        >>> kernel = ewsg.ld(model, 0.1, inverse_mass=mode.inverse_mass)
        >>> predicted = ewsg.forecast(kernel, mode, data)
        >>> predicted.variance_ratio.round(4), round(predicted.largest_step, 4)  # 1/(1 − h/2), 2
        (Array([1.0526], dtype=float32), 2.0)
    """
    pair, curvature = _checked(kernel, mode, data, checks.boolean("check_data", check_data))
    if checks.integer("step", step, minimum=0) >= 2**31:
        raise ValueError(f"step must be below 2³¹, for steps are counted in 32 bits; got {step}")
    data = spread.over(mesh, numeric.native(data))
    if isinstance(data, spread.Spread):
        _check_over_devices(pair)
    else:
        data = jax.tree.map(jnp.asarray, data)
    return _predicted(LinearisedKernel(pair, mode, curvature, data, step))


def _checked(kernel: Kernel, mode: Mode, data: Data, check_data: bool) -> tuple[Pair, Curvature]:
    """Return the kernel and the curvature at the mode, of which there is a forecast.

    Raises:
        TypeError, ValueError: as `forecast`.
    """
    checks.instance("kernel", kernel, Kernel, "a method or ewsg_jax.kernel(…)")
    if not isinstance(kernel, Pair):
        raise ValueError(
            f"kernel must be a dynamics with an estimator for a forecast; got {kernel}, an exact "
            "one"
        )
    if target_of(kernel) is None:
        raise ValueError(NO_VALUES)
    checks.instance("mode", mode, Mode, "made by ewsg_jax.find_mode")
    checks.on_host("forecast", (kernel, mode.position, data))
    dynamics, _ = without_metric(kernel.dynamics)
    fields = jax.eval_shape(dynamics.init, jax.random.key(0), mode.position)._fields
    has_memory = bool(set(fields) - {*MOVING, *HELD})
    if is_own(type(dynamics)) or has_memory or dynamics.extra_gradients:
        raise ValueError(
            "kernel must have one of the library's dynamics, with no more in its state than a "
            f"momentum and a thermostat, for a forecast; got {made_by(dynamics)}. {INSTEAD}"
        )
    if isinstance(mode.curvature, CurvatureOfMany):
        raise ValueError(
            f"mode must have at most {limits.MAX_DENSE_DIMENSION:,} coordinates for a "
            f"forecast; got {len(mode.curvature.unit):,}. {INSTEAD}"
        )
    _ = mode.covariance  # raises if the curvature is unknown or not positive
    assert isinstance(mode.curvature, Curvature)
    checks.data(numeric.native(data))
    if check_data:
        checks.finite("data", data)
    kernel.check(mode.position, data if check_data else checks.shapes(data))
    mode.check_origin(origin_of(kernel, numeric.native(data)))
    return kernel, mode.curvature


def _check_over_devices(kernel: Pair) -> None:
    """Check that no part of a kernel needs all rows in one place.

    Raises:
        ValueError: one does.
    """
    for part in parts_of(kernel):
        sees_data = isinstance(part, Dynamics) and Need.ONE_PLACE in part.needs
        if sees_data or isinstance(part, Stratified):
            raise ValueError(
                "mesh must have no axis 'data', or one of length 1, for a kernel that needs all "
                "rows in one place, for a metric or for labels of its own; got "
                f"{made_by(part)}"
            )


def _predicted(linear: LinearisedKernel) -> Forecast:
    """Return the forecast of a linearised kernel, from its coordinates to those of the position."""
    covariance, matrix, noise, is_settled = linear.settled()
    evaluations = linear.kernel.evaluations(linear.data)
    target, n, d = linear.target, num_rows(linear.data), linear.d
    # Without a stationary distribution variances and times are infinite, and shifts unknown.
    of_position, times = np.full((d, d), np.inf), np.full(d, np.inf)
    shift, directions = np.full(d, np.nan), (np.inf, np.inf)
    if covariance is not None:
        relative, widths = linear.against_target(covariance), stationary.root(target.covariance)
        values = np.linalg.eigvalsh(relative)
        of_position, directions = widths @ relative @ widths, (float(values[0]), float(values[-1]))
        times = stationary.autocorrelation_times(matrix, covariance, d)
        shift = linear.mean_shift(covariance, matrix, noise)
    sd = np.sqrt(np.diag(target.covariance))
    by_coordinate = {
        "variance_ratio": np.diag(of_position) / sd**2,
        "mean_shift": shift / sd,
        "autocorrelation_time": times,
    }
    return Forecast(
        **{
            name: jax.tree.map(jnp.asarray, linear.layout.tree(values))
            for name, values in by_coordinate.items()
        },
        covariance=of_position / linear.unit / linear.unit[:, None],
        target=target.covariance / linear.unit / linear.unit[:, None],
        direction_ratios=directions,
        curvature_seen=(1 + target.change_range[0], 1 + target.change_range[1]),
        step_size=linear.step_size,
        largest_step=linear.largest_step(noise),
        passes_per_step=evaluations.on_average / n,
        passes_at_start=evaluations.at_init / n,
        by=source_of_noise(linear.noise_model),
        is_settled=is_settled,
        kernel=linear.kernel,
    )
