"""Firefly Monte Carlo (Maclaurin & Adams 2015): exact, with the likelihoods of a few data a step.

    p(θ, z) ∝ p₀(θ)^(1/T) Πᵢ bᵢ^(1−zᵢ) (lᵢ − bᵢ)^zᵢ,   lᵢ = Lᵢ(θ)^(1/T),   bᵢ = Bᵢ(θ)^(1/T)

with zᵢ = 1 for bright data and 0 for dark ones, and 0 < Bᵢ ≤ Lᵢ. A bound stays one to the power
1/T, so any temperature will do: the sum over z is p₀^(1/T) Πᵢ lᵢ = exp(−V/T).

A step is a random-walk Metropolis step for θ given z, θ* = θ + h ξ with

    log p(θ, z) = (log p₀ + Σᵢ log Bᵢ)/T + Σ_{i bright} log(lᵢ/bᵢ − 1),

whose sum over all data is a closed form of sums taken once, then a move of z (`bright_set`,
explicitly). h may be brought to an acceptance α* while the chain burns in (Robbins & Monro 1951),

    log s ← log s + (t + 1)^(−0.6) (α − α*)   in the steps t = 0 … K − 1,

with α the probability with which the proposal of step t was accepted; the step size is s h. From
step K on s stays: the chain is then a Markov chain of one kernel. s follows from the chain's own
randomness, so the same key gives the same s.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.modules import arguments, module, static, written
from ewsg_jax.base.typing import Array, Data, Hyperparameter, Key, P, Position, PyTree
from ewsg_jax.bounds import Bound
from ewsg_jax.bounds._protocol import check_bound
from ewsg_jax.dynamics._protocol import Constant, Schedule, hyperparameters
from ewsg_jax.gradients import Evaluations
from ewsg_jax.gradients import _center as centers
from ewsg_jax.gradients._period import Period, checked_period, period_at
from ewsg_jax.gradients._protocol import Sharing
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness, first_state
from ewsg_jax.kernels.record import method
from ewsg_jax.metropolis.bright_set import (
    BrightSet,
    Redrawing,
    Resampling,
    check_probability,
    choose,
    default_max_selected,
    first_bright,
    log_odds,
    redraw,
    resample,
    select,
    uniforms_per_skip,
)
from ewsg_jax.metropolis.energy import CompensatedPotential
from ewsg_jax.metropolis.random_walk_metropolis import RandomWalkNoise, random_walk_metropolis
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._view import CHUNK_SIZE, fetched, gather, num_rows


class FireflyState(NamedTuple):
    """The state of a chain of FlyMC.

    Attributes:
        position: θ.
        step: the number of steps made.
        log_dark: log p₀ + Σ log Bᵢ at θ, up to a constant.
        bright: the bright data.
        overflow: whether more data were bright at the start than fit, until the first step.
        log_scale: log s, the factor of the step size, a scalar; `()` if it is not adapted.
    """

    position: Position
    step: Array
    log_dark: Array
    bright: BrightSet
    overflow: Array
    log_scale: Any = ()


class FireflyMemory(NamedTuple):
    """The reference point of the bound, and its sums over all data."""

    center: Position
    summary: PyTree


class FireflyNoise(NamedTuple):
    """Randomness of the step of θ, and of the move of z apart from the selected data."""

    walk: RandomWalkNoise
    resampling: Resampling | Redrawing


@module
class FireflyMonteCarlo(Kernel[P]):
    """The kernel of `flymc`."""

    made_by = "flymc"

    posterior: Posterior[P] = static()
    step_size: Constant | Schedule  # pyright: ignore[reportIncompatibleMethodOverride]
    capacity: int = static()
    resample_probability: float = static(default=0.01)
    proposal_capacity: Period = static(default=None)
    num_resampled: Period = static(default=None)
    target_acceptance: float | None = static(default=None)
    adapt_steps: int = static(default=0)
    bound: Bound = static()
    center: Position | None = None
    temperature: Constant | Schedule
    chunk_size: int = static(default=CHUNK_SIZE)

    def __repr__(self) -> str:
        named = arguments(self)
        # The call that makes it does not name the bound if it is the posterior's.
        if self.bound == self.posterior.bound:
            del named["bound"]
        return written(self.made_by, named)

    def max_selected(self, n: int) -> int:
        """Return the largest number of data that a step selects."""
        if self.num_resampled is not None:
            return period_at("num_resampled", self.num_resampled, lambda n: n, n)
        default = default_max_selected(self.resample_probability)
        return period_at("proposal_capacity", self.proposal_capacity, default, n)

    def log_dark(self, position: P, memory: FireflyMemory) -> Array:
        """Return log p₀ + Σ log Bᵢ, up to a constant."""
        # The bounds of all rows; in a transition the bright rows' odds correct for theirs.
        total = self.bound.total(position, memory.center, memory.summary)
        return pytrees.widened(self.posterior.varying.log_prior(position) + total)

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        checks.key(key)
        position = pytrees.copy(checks.position(position))
        checks.finite("position", position)
        self.check(position, data)
        check_bound(self.bound, position, data)
        # The bound equals the likelihood at the reference point: the closer that is, the fewer rows
        # are bright.
        center = centers.center_or_start(self.center, position)
        memory = FireflyMemory(center, self.bound.summarize(center, data, self.chunk_size))
        # Only here all rows are evaluated, in no step.
        bright, count = first_bright(
            key,
            lambda rows: self.bound.gaps(position, center, rows),
            data,
            self.capacity,
            self.temperature(jnp.int32(0)),
            self.chunk_size,
        )
        # Under a trace nobody can raise: the first step then reports the overflow.
        if not checks.is_traced(count) and count > self.capacity:
            raise ValueError(
                f"capacity must be at least {count}, the number of data that are bright at the "
                f"start; got {self.capacity}: a start and a center near the mode make fewer bright"
            )
        dark, overflowed = self.log_dark(position, memory), count > self.capacity
        scale = () if self.target_acceptance is None else jnp.zeros_like(dark)
        first = FireflyState(position, jnp.int32(0), dark, bright, overflowed, scale)
        return first_state(self, key, first, memory, data)

    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        # The number of rows that a step may evaluate is fixed, so that its arrays have one length.
        n, limit = num_rows(data), self.max_selected(num_rows(data))
        direction_key, uniform_key = jax.random.split(key)
        if self.num_resampled is not None:
            redraw_key, choice_key = jax.random.split(uniform_key)
            uniforms = rng.log_uniform(redraw_key, (1 + limit,))
            walk = RandomWalkNoise(rng.noise(direction_key, state.position), uniforms[0])
            return Randomness(
                choose(choice_key, limit, n), FireflyNoise(walk, Redrawing(uniforms[1:]))
            )
        # One draw for all: many small ones cost more.
        lengths = (
            1,
            (limit + 1) * uniforms_per_skip(self.resample_probability),
            self.capacity,
            limit,
        )
        uniforms = rng.log_uniform(uniform_key, (sum(lengths),))
        decide, skips, darken, brighten = jnp.split(
            uniforms, list(itertools.accumulate(lengths))[:-1]
        )
        walk = RandomWalkNoise(rng.noise(direction_key, state.position), decide[0])
        selected = select(skips, self.resample_probability, n)
        return Randomness(selected, FireflyNoise(walk, Resampling(darken, brighten)))

    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        (position, step, dark, bright, overflowed, log_scale), memory = state.dynamics, state.memory
        walk, resampling = randomness.noise
        h, temperature = self.step_size(step), self.temperature(step)
        if self.target_acceptance is not None:
            h = h * jnp.exp(log_scale)

        # The position moves first, given the brightness of all rows: a Metropolis step on
        # p₀ ΠBᵢ times the odds Lᵢ/Bᵢ − 1 of the bright rows, so only these are evaluated.
        proposed = pytrees.combine((1, position), (h, walk.direction))
        # Free places hold a negative number: they gather some row, which does not count.
        is_bright = bright.rows >= 0
        bright_rows = gather(data, jnp.maximum(bright.rows, 0)).rows
        gaps = self.bound.gaps(proposed, memory.center, bright_rows)
        gaps = jnp.where(is_bright, gaps, 0).astype(bright.gaps.dtype)
        change = log_odds(gaps / temperature) - log_odds(bright.gaps / temperature)
        there = self.log_dark(proposed, memory)
        log_ratio = (there - dark) / temperature + jnp.sum(jnp.where(is_bright, change, 0))
        accepted = walk.log_uniform <= log_ratio
        if self.target_acceptance is not None:
            log_scale = adapted(
                log_scale, step, log_ratio, self.target_acceptance, self.adapt_steps
            )
        position, dark, gaps = pytrees.where(
            accepted, (proposed, there, gaps), (position, dark, bright.gaps)
        )

        # Then the brightness of some rows is redrawn, at the new position.
        selected = randomness.batch
        proposal_gaps = self.bound.gaps(position, memory.center, fetched(selected.rows, data).rows)
        current = BrightSet(bright.rows, gaps)
        if isinstance(resampling, Redrawing):
            moved, num_dark, fits = redraw(
                current, selected, proposal_gaps, resampling, temperature
            )
        else:
            q = self.resample_probability
            moved, num_dark, fits = resample(
                current, selected, proposal_gaps, resampling, q, temperature
            )
        # This step reports an earlier overflow, so the flag is reset.
        following = FireflyState(
            position, step + 1, dark, moved, jnp.zeros_like(overflowed), log_scale
        )
        # Bright rows at the proposal and dark rows that were selected: one evaluation each.
        info = Info(
            gradient_evaluations=jnp.sum(is_bright, dtype=jnp.int32) + num_dark,
            is_finite=pytrees.is_finite(following),
            step_size=jnp.asarray(h),
            acceptance=accepted.astype(jnp.float32),
            overflow=overflowed | ~fits,
        )
        return state._replace(dynamics=following), info

    def compared(self, position: P, start: P, data: Data) -> CompensatedPotential:
        """Return what a step compares for all dark rows, up to a constant; the bright ones are few.

        Args:
            position: the position.
            start: the first position of the chain, the reference point of the bound if the kernel
                has none.
            data: all rows.
        """
        center = centers.center_or_start(self.center, start)
        summary = self.bound.summarize(center, data, self.chunk_size)
        dark = -self.log_dark(position, FireflyMemory(center, summary))
        return CompensatedPotential(dark, jnp.zeros_like(dark))

    def evaluations(self, data: Data) -> Evaluations:
        n = num_rows(data)
        return Evaluations(self.capacity + self.max_selected(n), 0, at_init=2 * n, counted=True)

    def check(self, position: P, data: Data) -> None:
        self.posterior.check(position, data)
        centers.check_fits(self.center, position)
        n = num_rows(data)
        if self.num_resampled is not None and self.max_selected(n) > n:
            raise ValueError(
                f"num_resampled must be at most n = {n:,}, the rows of data; got "
                f"{self.max_selected(n):,}"
            )

    @property
    def sharing(self) -> Sharing:
        """Which chains share the memory."""
        return Sharing("start" if self.center is None else "data")


@method(
    title="Firefly Monte Carlo",
    dynamics=(),
    estimator="none",
    bias="none",
    evaluations="bright data and nq, of Vᵢ",
    memory="bright data; for all chains 2d and the bound's sums",
    source="Maclaurin & Adams 2015",
    hazard="needs a bound and a reference point; slow if much is bright; overflow (reported)",
    example={"capacity": 7, "resample_probability": 0.3, "proposal_capacity": 7},
    like=(random_walk_metropolis,),
)
def flymc(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    capacity: int,
    resample_probability: float = 0.01,
    proposal_capacity: Period = None,
    num_resampled: Period = None,
    target_acceptance: float | None = None,
    adapt_steps: int | None = None,
    bound: Bound | None = None,
    center: Position | None = None,
    temperature: Hyperparameter = 1.0,
    chunk_size: int = CHUNK_SIZE,
) -> Kernel[P]:
    """Firefly Monte Carlo (FlyMC): exact random-walk Metropolis that evaluates bright data.

    Update: a random-walk Metropolis step θ* = θ + h ξ for θ given z, then an update of z, with
        zᵢ = 1 for bright data; the density of both is p₀(θ)^(1/T) Πᵢ bᵢ^(1−zᵢ) (lᵢ − bᵢ)^zᵢ, lᵢ =
        Lᵢ(θ)^(1/T), bᵢ = Bᵢ(θ)^(1/T) its bound.
    Target: exp(−V/T) exactly, whatever the step size, as long as no step reports `overflow`. A step
        that does keeps its bright set, which makes it exact for another distribution: θ and z given
        that at most `capacity` data are bright, in which θ has a density ∝ exp(−V/T) P(at most
        `capacity` bright | θ). While `target_acceptance` adapts the step size a chain has no fixed
        distribution: keep only the draws after `adapt_steps`.
    Cost: a step evaluates the bright data and the selected dark ones, about nq of these; 2n
        evaluations at the start. Each chain keeps twice `capacity` numbers.
    When: many data and a posterior that is narrow around a reference point, in few dimensions. It
        is slow if the bound is loose, so that a good part of the data is bright, or without the
        mode as `center` (`ewsg_jax.find_mode`). A chain forgets more slowly than one of
        `random_walk_metropolis`: θ moves given z, and z by some data a step.

    Args:
        capacity: the largest number of bright data. Every step takes the time of that many; the
            error that `init` raises if they are too few reports how many there are.
        resample_probability: q, the probability with which a dark datum is selected to become
            bright, in (0, 1). Default 0.01.
        proposal_capacity: the largest number of data selected in a step, an integer or a function
            of n. Default: nq + 6√(nq) + 8, which about one step in 10⁹ exceeds.
        num_resampled: r, an integer or a function of n: each step redraws the brightness of r
            uniform data instead of selecting each with probability q. Default None: by
            `resample_probability`.
        target_acceptance: adapt the step size to this share of accepted proposals, in (0, 1), while
            the chain burns in, starting from `step_size`. Default None: `step_size` as it is.
        adapt_steps: K ≥ 1, the first steps of a chain, which adapt; burn in for at least as many.
            Default None, with `target_acceptance` alone.
        bound: lower bound of the likelihood. Default: `posterior.bound`.
        center: reference point at which the bound is tight, a pytree like the position. None
            (default): the position given to `init`; chains with different starts then each keep a
            point and its sums.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; the posterior has no bound
            and none is given; at `init`, a `center` that is not shaped like the position, a bound
            for another position, or more bright data than `capacity`. If `init` is traced, as in
            `sample`, the first step reports that as an overflow; `sample` counts overflows
            (`samples.overflow`) and warns of them at its end.

    Example: for about 20 rows of unit scale; with more rows, take shorter steps.
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> kernel = ewsg.flymc(
        ...     ewsg.models.logistic_regression(), 1.0, capacity=4, resample_probability=0.5
        ... )
        >>> rows = {"x": jnp.ones((20, 1)), "y": jnp.ones(20)}
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(1), rows)
        >>> state, info = kernel.step(jax.random.key(1), state, rows)
        >>> int(info.gradient_evaluations) < 20, bool(info.overflow)
        (True, False)
    """
    check_posterior(posterior)
    schedules = hyperparameters(step_size=step_size, temperature=temperature)
    checks.integer("capacity", capacity)
    probability = check_probability("resample_probability", resample_probability)
    limit = checked_period("proposal_capacity", proposal_capacity)
    redrawn = checked_period("num_resampled", num_resampled)
    # Two ways to choose rows: by probability, or a fixed number of them.
    if redrawn is not None and (limit is not None or probability != 0.01):
        raise ValueError(
            "num_resampled must be None if resample_probability or proposal_capacity is given: "
            f"it takes their place; got {checks.describe(num_resampled)}"
        )
    target, steps = checked_target(target_acceptance, adapt_steps)
    lower = posterior.bound if bound is None else bound
    if lower is None:
        raise ValueError(
            "bound must be a Bound (one of ewsg_jax.bounds) for a posterior that has none; got "
            "None. Those of ewsg_jax.models.logistic_regression, softmax_regression and normal "
            "have one"
        )
    checks.instance("bound", lower, Bound, "one of ewsg_jax.bounds")
    checks.integer("chunk_size", chunk_size)
    return FireflyMonteCarlo(
        posterior=posterior,
        **schedules,
        capacity=int(capacity),
        resample_probability=probability,
        proposal_capacity=limit,
        num_resampled=redrawn,
        target_acceptance=target,
        adapt_steps=steps,
        bound=lower,
        center=centers.checked_center(center),
        chunk_size=int(chunk_size),
    )


def adapted(log_scale: Array, step: Array, log_ratio: Array, target: float, steps: int) -> Array:
    """Return log s after step t of the K steps that adapt it, from the log of Metropolis' ratio.

    A proposal without a density counts as rejected.
    """
    probability = jnp.nan_to_num(jnp.exp(jnp.minimum(log_ratio, 0)))
    # The exponent is above 1/2, so that the noise of acceptances averages out, and below 1, so
    # that the start is forgotten.
    gain = (step + 1).astype(log_scale.dtype) ** -0.6
    return jnp.where(
        step < steps, log_scale + gain * (probability - target).astype(log_scale.dtype), log_scale
    )


def checked_target(value: object, steps: object) -> tuple[float | None, int]:
    """Check and return α* and K, which come together."""
    if (value is None) != (steps is None):
        raise ValueError(
            "target_acceptance must be given together with adapt_steps, the steps of the burn-in "
            f"that adapt; got target_acceptance={value} and adapt_steps={steps}"
        )
    if value is None:
        return None, 0
    target = check_probability("target_acceptance", value)
    return target, checks.integer("adapt_steps", steps)
