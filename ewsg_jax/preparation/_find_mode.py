"""A mode of the posterior, for control variates and for chains to start at.

L-BFGS on the full potential with a zoom line search (both of optax); before it, where asked for, steps of any optax
optimiser on minibatches.
"""

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax import _check, _random, _tree
from ewsg_jax._types import Array, Data, Key, Position
from ewsg_jax.posterior import Posterior
from ewsg_jax.progress import Progress
from ewsg_jax.rows.gathering import CHUNK_SIZE, num_rows

if TYPE_CHECKING:
    import optax

MEMORY_SIZE = 20
"""Pairs that L-BFGS keeps."""
MOST_TRIALS = 30
"""Trials of a line search."""
Dtypes = tuple[Any, ...]
STEPS_PER_CALL = 100
"""Steps on minibatches between two looks at the clock."""


class Mode(NamedTuple):
    """Where the search ended, and how.

    Attributes:
        position: the point, a tree like the start.
        converged: whether the distance was at most the tolerance.
        distance: √(gᵀ B g) with g = ∇V there and B the search's estimate of the inverse curvature: about how many
            posterior standard deviations (at temperature 1) the mode is away.
        potential: V there.
        gradient_norm: ‖∇V‖ there.
        num_steps: steps of L-BFGS.
        data_passes: passes over the data that the whole search cost.
    """

    position: Position
    converged: bool
    distance: float
    potential: float
    gradient_norm: float
    num_steps: int
    data_passes: float


class _Search(NamedTuple):
    """The state of L-BFGS: a point with its value and gradient at least in float32, and what optax keeps."""

    position: Position
    value: Array
    gradient: Position
    direction: Position
    distance: Array
    pairs: Any
    line: Any
    evaluations: Array


def find_mode(
    key: Key,
    posterior: Posterior,
    position: Position,
    data: Data,
    *,
    tolerance: float = 1e-2,
    max_steps: int = 500,
    batch_size: int | None = None,
    warm_up_passes: float = 5.0,
    optimizer: "optax.GradientTransformation | None" = None,
    chunk_size: int = CHUNK_SIZE,
    progress: bool = True,
) -> Mode:
    """Search for a mode of the posterior from a point, downhill; a host loop over compiled steps.

    Args:
        key: a typed PRNG key, used for minibatches.
        posterior: what is sampled.
        position: where to begin, a tree of floating-point arrays.
        data: all n rows.
        tolerance: the distance to the mode, in posterior standard deviations, at which the search ends. In float32
            and with many rows some 1e-3 are the least that rounding allows.
        max_steps: steps of L-BFGS at most.
        batch_size: begin with steps on minibatches of so many rows; None: with none.
        warm_up_passes: passes over the data that these take.
        optimizer: what makes them; default `optax.adam` with a rate that falls from 0.01 to 0.
        chunk_size: rows that a sum over all takes at once.
        progress: show a bar where tqdm is installed.

    Returns:
        The point, with a report of convergence; not to have converged is warned of (RuntimeWarning).

    Raises:
        TypeError, ValueError: an argument is of the wrong kind.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model, data = ewsg.models.gaussian_location(), jnp.array([[1.0], [3.0]])
        >>> mode = ewsg.find_mode(jax.random.key(0), model, jnp.zeros(1), data)
        >>> mode.converged, mode.position.round(3)
        (True, Array([2.], dtype=float32))
    """
    _check.key(key)
    _check.instance("posterior", posterior, Posterior, "ewsg_jax.Posterior(…) or one of ewsg_jax.models")
    position = _check.position(position)
    _check.finite("position", position)
    _check.data(data)
    _check.finite("data", data)
    data = jax.tree.map(jnp.asarray, data)
    posterior.check(position, data)
    _check.positive("tolerance", tolerance)
    _check.integer("max_steps", max_steps)
    _check.integer("chunk_size", chunk_size)
    _check.boolean("progress", progress)
    warm_up_cost = 0.0
    if batch_size is not None:
        _check.integer("batch_size", batch_size)
        _check.positive("warm_up_passes", warm_up_passes)
        num_steps = max(1, int(warm_up_passes * num_rows(data) / batch_size))
        warm_up_cost = num_steps * batch_size / num_rows(data)
        position = _warm_up(key, posterior, position, data, batch_size, num_steps, optimizer, progress)

    # Half precision holds no square of a gradient: the search is wider, and V is evaluated at rounded points.
    like = tuple(_tree.dtypes(position))
    search = _begin(posterior, _tree.widened(position), data, chunk_size, like)
    bar, num_steps = Progress(max_steps, progress), 0
    while num_steps < max_steps and float(search.distance) > tolerance:
        following = _improve(posterior, search, data, chunk_size, like)
        if not (following.value < search.value or following.distance < search.distance):
            break  # as low as rounding allows
        search, num_steps = following, num_steps + 1
        bar.update(1)
    bar.close()
    distance = float(search.distance)
    mode = Mode(
        _in_dtypes(like, search.position),
        distance <= tolerance,
        distance,
        float(search.value),
        float(jnp.sqrt(_tree.squared_norm(search.gradient))),
        num_steps,
        warm_up_cost + float(search.evaluations),
    )
    if not mode.converged:
        warnings.warn(
            f"the search ended {distance:.2g} standard deviations from a mode, after {num_steps} steps (tolerance "
            f"{tolerance}): take more steps, another start, or float64",
            RuntimeWarning,
            stacklevel=2,
        )
    return mode


def _in_dtypes(like: Dtypes, position: Position) -> Position:
    leaves, structure = jax.tree.flatten(position)
    return jax.tree.unflatten(structure, [x.astype(dtype) for x, dtype in zip(leaves, like, strict=True)])


def _potential(posterior: Posterior, data: Data, chunk_size: int, like: Dtypes) -> Any:
    """Return V at the position in some dtypes, a function whose derivative is the posterior's own."""

    @jax.custom_vjp
    def value(position: Position) -> Array:
        return posterior.potential(_in_dtypes(like, position), data, chunk_size)

    def backward(position: Position, cotangent: Array) -> tuple[Position]:
        gradient = posterior.gradient(_in_dtypes(like, position), data, chunk_size)
        return (_tree.combine((cotangent, _tree.in_dtypes_of(position, gradient))),)

    value.defvjp(lambda position: (value(position), position), backward)
    return value


def _parts() -> Any:
    import optax

    return optax.scale_by_lbfgs(MEMORY_SIZE), optax.scale_by_zoom_linesearch(MOST_TRIALS)


def _with_direction(search: _Search) -> _Search:
    """Return the search with its next direction, B g, and the distance that it tells of."""
    direction, pairs = _parts()[0].update(search.gradient, search.pairs, search.position)
    products = jax.tree.map(lambda g, d: jnp.sum(g * d), search.gradient, direction)
    distance = jnp.sqrt(jnp.maximum(sum(jax.tree.leaves(products)), 0.0))
    return search._replace(direction=direction, distance=distance, pairs=pairs)


@jax.jit(static_argnums=(0, 3, 4))
def _begin(posterior: Posterior, position: Position, data: Data, chunk_size: int, like: Dtypes) -> _Search:
    lbfgs, line_search = _parts()
    value, gradient = jax.value_and_grad(_potential(posterior, data, chunk_size, like))(position)
    none = jnp.zeros(())
    return _with_direction(
        _Search(
            position,
            value,
            gradient,
            gradient,
            none,
            lbfgs.init(position),
            line_search.init(position),
            jnp.float32(1.0),
        )
    )


@jax.jit(static_argnums=(0, 3, 4))
def _improve(posterior: Posterior, search: _Search, data: Data, chunk_size: int, like: Dtypes) -> _Search:
    """Go along the direction as far as the line search says."""
    updates, line = _parts()[1].update(
        _tree.combine((-1, search.direction)),
        search.line,
        search.position,
        value=search.value,
        grad=search.gradient,
        value_fn=_potential(posterior, data, chunk_size, like),
    )
    moved = search._replace(
        position=_tree.combine((1, search.position), (1, updates)),
        value=line.value,
        gradient=line.grad,
        line=line,
        evaluations=search.evaluations + line.info.num_linesearch_steps,
    )
    return _with_direction(moved)


def _warm_up(
    key: Key,
    posterior: Posterior,
    position: Position,
    data: Data,
    batch_size: int,
    num_steps: int,
    optimizer: Any,
    progress: bool,
) -> Position:
    """Make steps of an optimiser on minibatches."""
    import optax

    if optimizer is None:
        optimizer = optax.adam(optax.cosine_decay_schedule(1e-2, num_steps))
    elif not isinstance(optimizer, optax.GradientTransformation):
        raise TypeError(f"optimizer must be an optax.GradientTransformation; got {_check.describe(optimizer)}")

    @jax.jit
    def many(first: Array, count: Array, carry: Any, data: Data) -> Any:
        def one(i: Array, carry: Any) -> Any:
            position, state = carry
            rows = _random.rows(jax.random.fold_in(key, first + i), num_rows(data), batch_size)
            gradient = _tree.combine(
                (1, posterior.prior_gradient(position)),
                (1, posterior.batch_gradient(position, data, rows, widened=True)),
            )
            updates, state = optimizer.update(gradient, state, position)
            return _tree.combine((1, position), (1, updates)), state

        return jax.lax.fori_loop(0, count, one, carry)

    carry, bar = (position, optimizer.init(position)), Progress(num_steps, progress)
    for first in range(0, num_steps, STEPS_PER_CALL):
        count = min(STEPS_PER_CALL, num_steps - first)
        carry = jax.block_until_ready(many(jnp.int32(first), jnp.int32(count), carry, data))
        bar.update(count)
    bar.close()
    return carry[0]
