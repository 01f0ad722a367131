"""A mode of the posterior, for control variates and for chains to start at.

Newton's method, damped, in float64. L-BFGS comes before it if a Hessian costs much, and steps of an
optax optimiser on minibatches if they are asked for.
"""

import contextlib
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from ewsg_jax.answers.mode import newton, quasi_newton, settings
from ewsg_jax.answers.mode.curvature import Curvature, Shape
from ewsg_jax.answers.mode.hessian_products import HessianProducts
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.mode.newton import End
from ewsg_jax.answers.mode.potential import HostPotential, Point, is_newton_quick
from ewsg_jax.answers.mode.spectrum import curvature_of_many
from ewsg_jax.answers.mode.start import Start
from ewsg_jax.answers.mode.warm_up import warm_up
from ewsg_jax.base import checks, numeric, rng
from ewsg_jax.base.freshness import reads_now
from ewsg_jax.base.progress import Progress
from ewsg_jax.base.typing import Data, Key, P, Position
from ewsg_jax.base.warn import warn
from ewsg_jax.model_checks.ignored_arrays import unread
from ewsg_jax.model_checks.narrowing import narrowed
from ewsg_jax.model_checks.not_finite import not_finite
from ewsg_jax.model_checks.support import NONE, SUPPORT_CURE, Outside, outside
from ewsg_jax.model_checks.support_structure import can_end
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows import _spread as spread
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows
from ewsg_jax.run.data_digest import model_origin
from ewsg_jax.run.streams.stream import Stream
from ewsg_jax.vectors.layout import vector

if TYPE_CHECKING:
    import optax

OTHER_CAUSES = (
    "a density that grows without bound as a scale falls (groups in the centred form) ends so too, "
    "and a run needs no mode of it; so do a loss in place of log_likelihood (its sign), and "
    "a gradient that is not the density's (stop_gradient, custom_vjp: see "
    "jax.test_util.check_grads)"
)
"""What else ends a search at an edge or a kink, in words."""
NO_DISTANCE = (End.FALLS, End.NO_MINIMUM, End.RIDGE, End.KINK)
"""Ends of a search whose point is at no known distance from a mode."""


@reads_now("posterior", "optimizer")
def find_mode(
    key: Key,
    posterior: Posterior[P],
    position: P,
    data: Data,
    *,
    tolerance: float = 1e-2,
    max_steps: int = 500,
    batch_size: int | None = None,
    warm_up_passes: float = 5.0,
    optimizer: "optax.GradientTransformation | None" = None,
    chunk_size: int = CHUNK_SIZE,
    rank: int = 32,
    progress: bool = True,
    mesh: Mesh | None = None,
    check_data: bool = True,
) -> Mode[P]:
    """Find a mode of the posterior from a point. It runs a host loop over compiled steps.

    It takes steps of Newton's method, which do not depend on the units of the coordinates. Above 32
    dimensions (256 if rows enter through linear predictors) L-BFGS comes first, with at most half
    of the steps. All sums are in float64, with x64 enabled or not, if the model's functions can be
    traced so; otherwise they are in the dtypes of the position, and `distance` is as good as these.
    If JAX differentiates the functions only once, second derivatives are differences of gradients.
    No step ends at a density of 0; a point on the boundary of the support is not a mode.

    Args:
        key: a typed PRNG key, used for minibatches.
        posterior: the target.
        position: the start of the search, a pytree of floating-point arrays.
        data: all n rows, or a stream of them (`ewsg_jax.stream`), which each sum reads once.
        tolerance: the distance to the mode, in posterior standard deviations, at which the search
            ends. float32 has a relative precision of 6e-8, so a coordinate that lies 10⁶ posterior
            sds from zero is resolved only to 0.06 sd.
        max_steps: the largest number of steps.
        batch_size: rows of a minibatch, for an optimiser's steps before the search; None for none.
        warm_up_passes: passes over the data that these steps take.
        optimizer: the optimiser of these steps; by default `optax.adam` with a rate that falls from
            0.01 to 0.
        chunk_size: rows that a sum over all rows takes at once.
        rank: above 1,000 dimensions, the number of directions of large curvature that are
            separated from the others at the mode, by as many passes more; 0 for none, and the mode
            has no standard deviations.
        progress: show a bar if tqdm is installed.
        mesh: several devices, as for `ewsg_jax.sample`: each along `"data"` sums over its part of
            the rows. Not with a `batch_size`.
        check_data: look once for NaN and infinity in the data, and for labels that the model does
            not know; False if the likelihood masks what is missing.

    Returns:
        The point, with a report of convergence. A search that has not converged is warned of
        (RuntimeWarning).

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, or the potential is not
            finite at the position.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model, data = ewsg.models.gaussian_location(), jnp.array([[1.0], [3.0]])
        >>> mode = ewsg.find_mode(jax.random.key(0), model, jnp.zeros(1), data)
        >>> mode.converged, mode.position.round(3)
        (True, Array([2.], dtype=float32))
    """
    checks.on_host("find_mode", (key, position, data))
    checks.key(key)
    check_posterior(posterior)
    position = checks.position(position)
    checks.not_empty("position", position)
    checks.finite("position", position)
    stream = data if isinstance(data, Stream) else None
    if batch_size is not None and (mesh is not None or stream is not None):
        other = (
            "with mesh, whose devices take all rows" if stream is None else "if data are a stream"
        )
        raise ValueError(f"batch_size must be None {other}; got {batch_size}")
    if stream is not None and mesh is not None:
        raise ValueError(f"mesh must be None if data are a stream; got {mesh!r}")
    if optimizer is not None and batch_size is None:
        raise ValueError(
            "batch_size must be the rows of a minibatch if an optimizer is given, which makes no "
            "other steps; got None"
        )
    # A stream has no rows in memory, and sums over all of it are read in pieces: its first piece is
    # what is checked.
    if stream is not None:
        data_in_one_place = data = stream.first()
    else:
        data_in_one_place, data = _checked_rows(data, mesh, check_data)
    # Without the check of values only shapes are checked.
    posterior.check(position, data if check_data else checks.shapes(data))
    posterior.check_gradient(position, data)
    origin = model_origin(posterior, data_in_one_place if stream is None else stream)
    checks.positive("tolerance", tolerance)
    checks.integer("max_steps", max_steps)
    checks.integer("chunk_size", chunk_size)
    checks.integer("rank", rank, minimum=0)
    checks.boolean("progress", progress)

    warm_up_cost, begin = 0.0, position
    if batch_size is not None:
        checks.integer("batch_size", batch_size)
        checks.positive("warm_up_passes", warm_up_passes)
        # As many batches as make up the passes that were asked for.
        num_steps = max(1, int(warm_up_passes * num_rows(data) / batch_size))
        warm_up_cost = num_steps * batch_size / num_rows(data)
        position = warm_up(key, posterior, begin, data, batch_size, num_steps, optimizer, progress)

    with contextlib.nullcontext() if stream is None else stream.causes():
        lazy = not is_newton_quick(posterior, position, data)
        potential = HostPotential(posterior, position, data, chunk_size, lazy)
        bar = Progress(max_steps, progress)
        mode, ended = _search(
            potential, begin, position, data_in_one_place, tolerance, max_steps, rank, bar
        )
    mode = mode._replace(data_passes=mode.data_passes + warm_up_cost, origin=origin)
    if not mode.converged:
        complaint = _complaint(mode, *ended, tolerance, _farthest(begin, mode.position))
        cause = _cause_in_model(potential, begin, mode, data_in_one_place)
        warn(f"{cause}; {complaint}" if cause else complaint)
    return mode


def _checked_rows(data: Data, mesh: Mesh | None, check_data: bool) -> tuple[Data, Data]:
    """Return the rows in one place, and on the devices of a mesh: the same without one."""
    data = numeric.native(data)
    checks.data(data)
    if checks.boolean("check_data", check_data):
        checks.finite("data", data)
    on_devices = spread.over(mesh, data)
    if isinstance(on_devices, spread.Spread):
        return data, on_devices
    data = jax.tree.map(jnp.asarray, data)
    return data, data


def _cause_in_model(potential: HostPotential, begin: Position, mode: Mode, data: Data) -> str:
    """Return what in the model explains that no mode is found, in words; empty if nothing is known.

    The density is flat in an array that it does not read, and it may have no bound if its prior
    narrows on the way of the search.
    """
    posterior, layout = potential.of.posterior, potential.of.layout
    if ignored := unread(posterior, mode.position, data):
        return str(ignored[0])
    if potential.is_dense:
        return narrowed(posterior, layout, vector(begin), vector(mode.position))
    return ""


def _search(
    potential: HostPotential,
    begin: P,
    position: P,
    rows: Data,
    tolerance: float,
    max_steps: int,
    rank: int,
    bar: Progress,
) -> tuple[Mode[P], tuple[newton.Descent, str]]:
    """Return the mode, with how the search ended and what ends the support.

    Args:
        potential: the potential over all rows.
        begin: the user's own start, for the case that minibatches led out of the support.
        position: the start of the search.
        rows: rows in one place, some or all of them.
        tolerance: the distance to the mode, in standard deviations, that ends the search.
        max_steps: the largest number of steps.
        rank: the number of directions of large curvature, above 1,000 dimensions.
        bar: the progress bar.

    Raises:
        ValueError: the potential is not finite at the position.
    """
    posterior, layout, data = potential.of.posterior, potential.of.layout, potential.data
    start = potential.at(vector(position))
    # The warm-up may have led astray: then the user's own start is taken.
    if not start.is_finite() and position is not begin:
        position, start = begin, potential.at(vector(begin))
    if not start.is_finite():
        raise ValueError(
            "position must be a start at which the potential and its derivatives are finite; got "
            f"V = {start.value:.4g} and {np.sum(~np.isfinite(start.gradient))} of {potential.size} "
            "derivatives not finite: "
            f"{not_finite(potential.of, start.flat, data) or 'their sum overflows'}"
        )

    # L-BFGS comes first if a Hessian costs much.
    num_steps = 0
    product_units: np.ndarray | None = None
    if not is_newton_quick(posterior, position, data):
        # Units of each coordinate: L-BFGS is slow if scales differ.
        units = vector(quasi_newton.units_of(posterior, position, rows))
        lower, num_steps = quasi_newton.approach(
            potential, start, units, tolerance, max_steps // 2, lambda: bar.update(1)
        )
        # Its end is taken only if it is lower with the position rounded to its dtypes.
        nearer = potential.at(layout.rounded(lower.flat))
        if nearer.is_finite() and nearer.value <= start.value:
            start = nearer
        # In too many dimensions for a matrix the curvature is known by products with vectors, each
        # of which is a pass.
        if not potential.is_dense:
            product_units = units

    def curvature_at(point: Point) -> newton.AnyCurvature:
        if product_units is not None:
            return HessianProducts(potential, product_units, point)
        return Curvature.of(
            potential.hessian(point), potential.of.wide, by_differences=not potential.twice
        )

    def descend(start: Point) -> newton.Descent:
        left = max_steps - num_steps
        return newton.descend(
            potential, curvature_at, start, tolerance, left, lambda: bar.update(1)
        )

    descent = descend(start)
    if descent.end is End.NO_MINIMUM and potential.twice and potential.is_dense:
        # Second derivatives may be wrong without a word, such as through stop_gradient in a custom
        # rule.
        potential.take_differences()
        again = descend(descent.point)
        if again.end is End.CONVERGED:
            descent = again._replace(num_steps=descent.num_steps + again.num_steps)
    bar.close()

    # Standard deviations in many dimensions are those of the directions of largest curvature.
    curvature = descent.curvature if isinstance(descent.curvature, Curvature) else None
    if product_units is not None and rank and descent.step.shape is Shape.CONVEX:
        curvature = curvature_of_many(potential, product_units, descent.point, rank)
    mode = Mode(
        jax.device_put(layout.tree(descent.point.flat)),
        descent.end is End.CONVERGED,
        np.inf if descent.end in NO_DISTANCE else descent.step.distance,
        descent.point.value - float(posterior.constants(position, data)),
        float(np.linalg.norm(descent.point.gradient)),
        num_steps + descent.num_steps,
        potential.data_passes,
        curvature,
    )

    # The edge of the support may have ended the search: a point beyond it shows which function
    # ends.
    if descent.beyond is not None:
        beyond = layout.tree(descent.beyond)
        both = jax.tree.map(lambda *x: np.stack([np.asarray(y) for y in x]), mode.position, beyond)
        zero = outside(posterior, both, data, potential.of.chunk_size)
        # A rise with a density that is not 0 is a kink, or as good as one.
        ended = _ended_at_edge(descent, zero) if zero else (descent._replace(end=End.KINK), "")
        return mode._replace(distance=np.inf), ended
    # A mode on the edge has half of its neighbourhood beyond it.
    around = _around(potential, mode) if mode.converged else NONE
    if around.share >= settings.EDGE_SHARE:
        return mode._replace(converged=False, distance=np.inf), _ended_at_edge(descent, around)
    return mode, (descent, "")


def _ended_at_edge(descent: newton.Descent, zero: Outside) -> tuple[newton.Descent, str]:
    """Return that a search ended at the edge of the support, and what ends there, in words."""
    return descent._replace(end=End.SUPPORT_EDGE), zero.what


def _around(potential: HostPotential, mode: Mode) -> Outside:
    """Return the share of the neighbourhood of a mode that has density 0."""
    posterior, data = potential.of.posterior, potential.data
    if mode.curvature is None or not any(can_end(posterior, mode.position, data)):
        return NONE
    # A tenth of an sd around the mode.
    near = Start(mode.position, mode.inverse_mass, width=0.1).of_keys(
        rng.split(jax.random.key(0), 32)
    )
    # In pairs, of which a plane edge through the mode leaves one; on the host, as arithmetic on
    # each leaf would be a program.
    near, at = jax.tree.map(np.asarray, (near, mode.position))
    both = jax.tree.map(lambda x, at: np.concatenate([x, 2 * at - x]), near, at)
    return outside(posterior, both, data, potential.of.chunk_size)


def _farthest(begin: Position, end: Position) -> str:
    """Return which coordinate went farthest, relative to the size of its start, in words."""
    start, last = vector(begin), vector(end)
    k = int(np.argmax(np.abs(last - start) / np.maximum(1.0, np.abs(start))))
    # Its name is the path of its array, and its place in that.
    leaves = jax.tree_util.tree_flatten_with_path(end)[0]
    ends = np.cumsum([leaf.size for _, leaf in leaves])
    number = int(np.searchsorted(ends, k, side="right"))
    path, leaf = leaves[number]
    place = ",".join(map(str, np.unravel_index(k - ends[number] + leaf.size, leaf.shape)))
    name = jax.tree_util.keystr(path, simple=True, separator=".") or "position"
    at = f"{name}[{place}]" if place else name
    return f"{at} went farthest, from {start[k]:.3g} to {last[k]:.3g}"


def _complaint(
    mode: Mode, descent: newton.Descent, edge: str, tolerance: float, farthest: str
) -> str:
    """Return why the search has not converged, and what to do about it.

    Args:
        mode: the point at which the search ended.
        descent: how it ended.
        edge: what ends at the edge of the support, in words; empty if the search did not end there.
        tolerance: the distance to the mode, in standard deviations, that ends the search.
        farthest: which coordinate went farthest, in words.
    """
    count = f"after {mode.num_steps} steps (tolerance {tolerance})"
    if reason := _why_no_mode(descent, edge):
        return f"the search found no mode, {count}: {reason}"
    # There may be a mode, which the search has not reached.
    shape = descent.step.shape
    if shape is not Shape.CONVEX:
        return (
            f"the search ended at a point at which the potential is {shape.value}, {count}: take "
            "more steps or another start"
        )
    distance = f"{mode.distance:.2g} standard deviations from a mode, {count}"
    if descent.end is End.OUT_OF_STEPS:
        return f"the search ended {distance}: take more steps or another start"
    # So far from a mode, in sds, rounding is not the only cause.
    if mode.distance > 10.0:
        return (
            f"the search ended {distance}: {farthest}; is the sign of one of its terms wrong, or "
            "the density unbounded or flat there? Else take another start, or float64"
        )
    return (
        f"the search ended {distance}: rounding lets it come no nearer; take float64 or a "
        "larger tolerance"
    )


def _why_no_mode(descent: newton.Descent, edge: str) -> str:
    """Return why there is no mode near the end of a search, in words; empty if there may be one."""
    improper = (
        "the posterior may be improper: is the sign of log_likelihood right, and log_prior proper?"
    )
    if descent.end is End.SUPPORT_EDGE:
        return (
            f"it ended at the boundary of the support, beyond which {edge}; {SUPPORT_CURE}; "
            f"{OTHER_CAUSES}"
        )
    if descent.end is End.KINK:
        return (
            "it ended at a kink or a jump, at which the potential rises at once, though its "
            "gradient points down. A kink, as of an absolute value or a Laplace prior, may be the "
            f"mode, which then has no widths; {OTHER_CAUSES}"
        )
    if descent.end is End.FALLS:
        return f"the potential falls without bound; {improper}"
    if descent.end is End.NO_MINIMUM:
        return f"the potential falls ever more gently, to no parabola; {improper}"
    if descent.end is End.RIDGE:
        return f"it ended on a ridge, along which the potential is as good as level; {improper}"
    if descent.end is End.NOT_CONVEX and descent.step.shape is Shape.FLAT:
        return f"the potential is {descent.step.shape.value}; {improper}"
    return ""
