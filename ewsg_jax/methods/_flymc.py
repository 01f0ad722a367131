"""Firefly Monte Carlo (Maclaurin & Adams 2015): exact, with the likelihoods of a few data a step.

    p(θ, z) ∝ p₀(θ)^(1/T) Πᵢ bᵢ^(1−zᵢ) (lᵢ − bᵢ)^zᵢ,   lᵢ = Lᵢ(θ)^(1/T),   bᵢ = Bᵢ(θ)^(1/T)

with zᵢ = 1 for bright data and 0 for dark ones, and 0 < Bᵢ ≤ Lᵢ. A bound stays one to the power 1/T, so any
temperature will do: the sum over z is p₀^(1/T) Πᵢ lᵢ = exp(−V/T).

A step is a random-walk Metropolis step for θ given z, θ* = θ + h ξ with

    log p(θ, z) = (log p₀ + Σᵢ log Bᵢ)/T + Σ_{i bright} log(lᵢ/bᵢ − 1),

whose sum over all data is a closed form of sums taken once, then a move of z (`_bright_set`).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax import _center, _check, _random, _rows, _tree
from ewsg_jax._kernel import Info, Kernel, KernelState, Randomness
from ewsg_jax._rows import CHUNK_SIZE, num_rows
from ewsg_jax._tags import saved_as
from ewsg_jax._types import Array, Data, Hyperparameter, Key, Position, PyTree
from ewsg_jax.bounds import Bound
from ewsg_jax.bounds._protocol import check_bound
from ewsg_jax.dynamics._protocol import check_hyperparameters, value_at
from ewsg_jax.gradients import Evaluations
from ewsg_jax.gradients._period import Period, period
from ewsg_jax.methods._bright_set import (
    BrightSet,
    Resampling,
    check_probability,
    default_room,
    first_bright,
    log_odds,
    resample,
    select,
)
from ewsg_jax.methods._metropolis import RandomWalkNoise
from ewsg_jax.posterior import Posterior


@saved_as("firefly_state")
class FireflyState(NamedTuple):
    """What a chain of FlyMC is.

    Attributes:
        position: θ.
        step: the number of steps made.
        log_dark: log p₀ + Σ log Bᵢ there, up to a constant.
        bright: the bright data.
        overflow: whether more data were bright at the start than there is room for, until the first step tells.
    """

    position: Position
    step: Array
    log_dark: Array
    bright: BrightSet
    overflow: Array


@saved_as("firefly_memory")
class FireflyMemory(NamedTuple):
    """The centre of the bound, and its sums over all data."""

    center: Position
    summary: PyTree


class FireflyNoise(NamedTuple):
    """What moves θ, and what moves z beside the selected data."""

    walk: RandomWalkNoise
    resampling: Resampling


def flymc(
    posterior: Posterior,
    step_size: Hyperparameter,
    *,
    capacity: int,
    resample_probability: float = 0.01,
    proposal_capacity: Period = None,
    bound: Bound | None = None,
    center: Position | None = None,
    temperature: Hyperparameter = 1.0,
    chunk_size: int = CHUNK_SIZE,
) -> Kernel:
    """Firefly Monte Carlo (Maclaurin & Adams 2015): random-walk Metropolis that looks at the bright data only.

    Targets exp(−V/T) exactly, whatever the step size, as long as no step reports `overflow`. A step that does keeps
    its bright set, which makes it exact for another law: that of θ and z given that at most `capacity` data are
    bright, in which θ has a density ∝ exp(−V/T) P(at most `capacity` bright | θ). As many evaluations a step, of
    Vᵢ, as there are bright data and selected dark ones, about nq of these; 2n at the start. Memory of two positions
    and of what the bound sums up for all chains, and twice `capacity` numbers for each.

    For many data and a posterior that is narrow around a centre, in few dimensions. Not where the bound is loose,
    so that a good part of the data is bright; and not without the mode for the centre (`ewsg_jax.find_mode`). A
    chain forgets more slowly than one of `random_walk_metropolis`: θ moves given z, and z by some data a step.

    Args:
        posterior: what is sampled.
        step_size: h, the standard deviation of a proposal in each coordinate; a number, a traced scalar or a
            schedule.
        capacity: how many data may be bright at once. Every step takes the time of so many; the error that `init`
            raises where they are too few says how many there are.
        resample_probability: q, with which a dark datum is selected to become bright, in (0, 1).
        proposal_capacity: how many data may be selected in a step; a whole number or a function of n. Default:
            nq + 6√(nq) + 8, which about one step in 10⁹ exceeds.
        bound: of the likelihood; default `posterior.bound`.
        center: where the bound is tight, a tree like the position; None: the position given to `init`, which costs
            a centre and its sums for each chain where each has a start of its own.
        temperature: T > 0; a number, a traced scalar or a schedule.
        chunk_size: rows that the start takes at once.

    Raises:
        TypeError, ValueError: an argument is of the wrong kind; the posterior has no bound and none is given; at
            `init`, a centre that is not shaped like the position, a bound for another position, or more bright data
            than `capacity`. Where `init` is traced, as in `sample`, the first step reports that as an overflow;
            `sample` counts overflows (`samples.overflow`) and warns of them at its end.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> kernel = ewsg.flymc(ewsg.models.logistic_regression(), 0.1, capacity=4, resample_probability=0.5)
        >>> rows = {"x": jnp.ones((20, 1)), "y": jnp.ones(20)}
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(1), rows)
        >>> state, info = kernel.step(jax.random.key(1), state, rows)
        >>> int(info.gradient_evaluations) < 20, bool(info.overflow)
        (True, False)
    """
    _check.instance("posterior", posterior, Posterior, "ewsg_jax.Posterior(…) or one of ewsg_jax.models")
    check_hyperparameters(step_size=step_size, temperature=temperature)
    _check.integer("capacity", capacity)
    probability = check_probability(resample_probability)
    room = period("proposal_capacity", proposal_capacity, default_room(probability))
    lower = posterior.bound if bound is None else bound
    if lower is None:
        raise ValueError(
            "bound must be a Bound (one of ewsg_jax.bounds) for a posterior that has none; got None. Those of "
            "ewsg_jax.models.logistic_regression, softmax_regression and normal have one"
        )
    _check.instance("bound", lower, Bound, "one of ewsg_jax.bounds")
    _check.integer("chunk_size", chunk_size)
    center = _center.given(center)

    def check(position: Position, data: Data) -> None:
        posterior.check(position, data)
        _center.check_fits(center, position)

    def log_dark(position: Position, memory: FireflyMemory) -> Array:
        return _tree.widened(posterior.log_prior(position) + lower.total(position, memory.center, memory.summary))

    def init(key: Key, position: Position, data: Data) -> KernelState:
        _check.key(key)
        position = _check.position(position)
        _check.finite("position", position)
        check(position, data)
        check_bound(lower, position, data)
        middle = _center.or_start(center, position)
        memory = FireflyMemory(middle, lower.summarize(middle, data, chunk_size))
        bright, count = first_bright(
            key,
            lambda rows: lower.gaps(position, middle, rows),
            data,
            capacity,
            value_at(temperature, jnp.int32(0)),
            chunk_size,
        )
        if not _check.is_traced(count) and count > capacity:
            raise ValueError(
                f"capacity must be at least {count}, the number of data that are bright at the start; got "
                f"{capacity}: a start and a centre near the mode make fewer bright"
            )
        state = FireflyState(position, jnp.int32(0), log_dark(position, memory), bright, count > capacity)
        return KernelState(state, memory)

    def draw(key: Key, state: KernelState, data: Data) -> Randomness:
        n, most = num_rows(data), room(num_rows(data))
        direction_key, uniform_key = jax.random.split(key)
        # In one draw, of which each part costs little.
        uniforms = _random.log_uniform(uniform_key, (1 + (most + 1) + capacity + most,))
        decide, skips, darken, brighten = jnp.split(uniforms, (1, most + 2, most + 2 + capacity))
        walk = RandomWalkNoise(_random.noise(direction_key, state.position), decide[0])
        return Randomness(select(skips, probability, n), FireflyNoise(walk, Resampling(darken, brighten)))

    def gather(randomness: Randomness, data: Data) -> Randomness:
        selected = randomness.batch
        return randomness._replace(batch=selected._replace(rows=_rows.gather(data, selected.rows)))

    def transition(randomness: Randomness, state: KernelState, data: Data) -> tuple[KernelState, Info]:
        (position, step, dark, bright, overflowed), memory = state
        walk, resampling = randomness.noise
        h, temperature_now = value_at(step_size, step), value_at(temperature, step)

        proposed = _tree.combine((1, position), (h, walk.direction))
        is_bright = bright.rows >= 0
        gaps = lower.gaps(proposed, memory.center, _rows.rows_of(jnp.maximum(bright.rows, 0), data))
        gaps = jnp.where(is_bright, gaps, 0).astype(bright.gaps.dtype)
        change = log_odds(gaps / temperature_now) - log_odds(bright.gaps / temperature_now)
        there = log_dark(proposed, memory)
        log_ratio = (there - dark) / temperature_now + jnp.sum(jnp.where(is_bright, change, 0))
        accepted = walk.log_uniform <= log_ratio
        position, dark, gaps = _tree.where(accepted, (proposed, there, gaps), (position, dark, bright.gaps))

        selected = randomness.batch
        proposal_gaps = lower.gaps(position, memory.center, _rows.rows_of(selected.rows, data))
        moved, num_dark, fits = resample(
            BrightSet(bright.rows, gaps), selected, proposal_gaps, resampling, probability, temperature_now
        )
        following = FireflyState(position, step + 1, dark, moved, jnp.zeros_like(overflowed))
        info = Info(
            gradient_evaluations=jnp.sum(is_bright, dtype=jnp.int32) + num_dark,
            is_finite=_tree.is_finite(following),
            step_size=jnp.asarray(h),
            acceptance=accepted.astype(jnp.float32),
            overflow=overflowed | ~fits,
        )
        return KernelState(following, memory), info

    def step_size_at(step: Array) -> Any:
        return value_at(step_size, step)

    def evaluations(data: Data) -> Evaluations:
        n = num_rows(data)
        return Evaluations(capacity + room(n), 0, at_init=2 * n, counted=True)

    return Kernel(
        init,
        draw,
        gather,
        transition,
        step_size_at,
        evaluations,
        uses_batches=False,
        check=check,
        memory_of="start" if center is None else "data",
    )
