"""The no-U-turn sampler (Hoffman & Gelman 2014) on all data, made of BlackJAX's building blocks.

A step draws a momentum p ~ N(0, I) and doubles a path of leapfrog steps,

    p' = p − (h/2T) Lᵀ∇V(θ);   θ' = θ + h L p';   p'' = p' − (h/2T) Lᵀ∇V(θ'),

with C = L Lᵀ the inverse mass, forward or backward, until it turns back on itself or has
2^max_depth − 1 steps. It goes to one of the path's points, drawn by exp(−H), H = V/T + |p|²/2. p is
the momentum of the coordinates L⁻¹θ, in which the mass is 1, so any inverse mass with a factor will
do. How paths grow, end and are drawn from is BlackJAX's; V, ∇V and L are ours.

Which point is drawn rests on differences of V (`energy`), which BlackJAX sees relative to the start
of the path.

The energy of a path errs by an amount of standard deviation σ ∝ h² (to leading order, on any smooth
target), and where errors are normal a share α = 2Φ(−σ/2) is accepted (Beskos, Pillai, Roberts,
Sanz-Serna & Stuart, Optimal tuning of the hybrid Monte Carlo algorithm, Bernoulli 19, 2013). So
h' = h √(σ(α*)/σ(α)) is found at once, where stochastic approximation takes many windows; what is
left is the noise of the window.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.base import checked_arrays, checks, optional, pytrees, rng
from ewsg_jax.base.factors import Factor, factor_of
from ewsg_jax.base.modules import arguments, made_by, module, static, written
from ewsg_jax.base.needs import Need
from ewsg_jax.base.typing import Array, Data, Hyperparameter, Key, P, Position, Scalar
from ewsg_jax.base.warn import warn
from ewsg_jax.dynamics._mass import InverseMass, Mass, is_one
from ewsg_jax.dynamics._protocol import Constant, Schedule, hyperparameters
from ewsg_jax.gradients import Evaluations
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness, first_state
from ewsg_jax.metropolis.energy import Potential, potential_and_gradient, rounding_noise
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows

DIVERGENCE = 1000.0
"""How far the energy may rise before a path is cut off, as in Stan: such points are not drawn."""
COUNTED = 2**31
"""Evaluations of a step are counted in 32 bits."""
MANY_ROWS = 10_000
"""Rows from which on a run measures roundings of V, which matter where a row's V is thousands."""
NEIGHBOURS = 8
"""At which they are measured."""
NOISE = 0.3
"""Of V/T, from which on a tenth and more of what should be accepted is not."""
MOST_TIMES_SHORTER, MOST_TIMES_LONGER = 8.0, 4.0
"""In one go: shares near 0 and 1 say in which direction, not how far."""


class NutsState(NamedTuple):
    """What a chain of NUTS is.

    Attributes:
        position: θ.
        step: the number of steps made.
        potential: V(θ), up to a constant.
        gradient: ∇V(θ), shaped like the position: a path begins with it.
    """

    position: Position
    step: Array
    potential: Potential
    gradient: Position


@module
class Nuts(Kernel[P]):
    """The kernel of `nuts`."""

    made_by = "nuts"
    # The rounding errors of V are not carried from one device to another.
    needs = frozenset({Need.ONE_PLACE, Need.ALL_ROWS})

    posterior: Posterior[P] = static()
    step_size: Constant | Schedule  # pyright: ignore[reportIncompatibleMethodOverride]
    mass: Mass
    max_depth: int = static(default=10)
    temperature: Constant | Schedule
    chunk_size: int = static(default=CHUNK_SIZE)
    passes_per_step: Any = None

    def __repr__(self) -> str:
        named = arguments(self)
        mass = named.pop("mass")
        if self.passes_per_step is None:
            named.pop("passes_per_step", None)
        return written(
            made_by(self), named if is_one(mass.given) else named | {"inverse_mass": mass.given}
        )

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        checks.key(key)
        position = pytrees.copy(checks.position(position))
        checks.finite("position", position)
        self.check(position, data)
        potential, gradient = potential_and_gradient(
            self.posterior, position, data, self.chunk_size
        )
        # Later states are accepted ones, and so finite: only the first one can be outside.
        if not checks.is_traced(potential.value):
            if not np.isfinite(potential.value):
                raise ValueError(
                    "position must be where the posterior's potential is finite; it is "
                    f"{potential.value} there"
                )
            if not pytrees.is_finite(gradient):
                raise ValueError(
                    "position must be where the posterior's gradient is finite; it is not there"
                )
        return first_state(
            self, key, NutsState(position, jnp.int32(0), potential, gradient), (), data
        )

    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        # Words, which a run keeps by the block as it does other numbers: how long the path is
        # nobody knows yet.
        return Randomness((), jax.random.bits(key, (2,), jnp.uint32))

    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        current: NutsState = state.dynamics
        h, temperature = self.step_size(current.step), self.temperature(current.step)
        hmc, nuts = _blackjax("hmc"), _blackjax("nuts")

        # BlackJAX walks along vectors, whatever tree a position is.
        vectors = _Vectors(current.position)

        def log_density(position: Array) -> tuple[Array, Array]:
            """Return −V/T, which is 0 where the path begins, and −∇V."""
            at = vectors.tree(position)
            potential, gradient = potential_and_gradient(self.posterior, at, data, self.chunk_size)
            density = -potential.above(current.potential) / temperature
            return density.astype(vectors.dtype), -vectors.flat(gradient)

        # BlackJAX's own leapfrog has a mass of its own too; in these coordinates it is 1.
        step = nuts.build_kernel(
            functools.partial(_leapfrog, self.mass.factor, temperature, vectors), DIVERGENCE
        )
        here = vectors.flat(current.position)
        start = hmc.HMCState(here, jnp.zeros_like(here[0]), -vectors.flat(current.gradient))
        key = jax.random.wrap_key_data(randomness.noise, impl="threefry2x32")
        end, path = step(
            key, start, log_density, jnp.asarray(h, here.dtype), jnp.ones_like(here), self.max_depth
        )

        moved = NutsState(
            vectors.tree(end.position),
            current.step + 1,
            current.potential.raised(-temperature * end.logdensity),
            vectors.tree(-end.logdensity_grad),
        )
        info = Info(
            gradient_evaluations=(path.num_integration_steps * num_rows(data)).astype(jnp.int32),
            is_finite=pytrees.is_finite(moved),
            step_size=jnp.asarray(h),
            acceptance=path.acceptance_rate.astype(jnp.float32),
        )
        return state._replace(dynamics=moved), info

    def evaluations(self, data: Data) -> Evaluations:
        n = num_rows(data)
        most = (2**self.max_depth - 1) * n
        return Evaluations(
            most,
            0,
            at_init=n,
            counted=True,
            expected=0.0 if self.passes_per_step is None else self.passes_per_step * n,
        )

    def check(self, position: P, data: Data) -> None:
        self.posterior.check(position, data)
        self.posterior.check_gradient(position, data)
        self.mass.factor.check("inverse_mass", position)
        narrow = [str(dtype) for dtype in pytrees.dtypes(position) if jnp.finfo(dtype).bits < 32]
        if narrow:
            raise ValueError(
                "position must be of float32 or float64 for nuts, which goes by differences of "
                f"densities; got {narrow[0]}"
            )
        n = num_rows(data)
        most = (COUNTED // n + 1).bit_length() - 1
        if self.max_depth > most:
            raise ValueError(
                f"max_depth must be at most {most} for n = {n:,}, whose evaluations of a step are "
                f"counted in 32 bits; got {self.max_depth}"
            )
        is_narrow = jnp.result_type(*pytrees.dtypes(position)) == jnp.float32
        if n >= MANY_ROWS and is_narrow and checks.are_known((position, data, self)):
            temperature = float(self.temperature(jnp.int32(0)))
            look = functools.partial(self._check_rounding, position, data, temperature)
            checked_arrays.remembered((self.posterior, "rounding", temperature), look, data)

    def _check_rounding(self, position: P, data: Data, temperature: float) -> None:
        """Warn where float32 does not know differences of V/T as an acceptance needs them."""
        like = jax.tree.map(
            lambda x: jnp.zeros((NEIGHBOURS, *jnp.shape(x)), jnp.asarray(x).dtype), position
        )
        directions = jax.vmap(self.mass.factor.times)(rng.noise(jax.random.key(0), like))
        moves = pytrees.combine((self.step_size(jnp.int32(0)) / 2, directions))
        noise = float(rounding_noise(self.posterior, position, moves, data, self.chunk_size))
        if noise > NOISE * temperature:
            beside = "" if temperature == 1 else f" beside a temperature of {temperature:.3g}"
            warn(
                f"float32 knows the potential of these {num_rows(data):,} rows to {noise:.2g} "
                f"only{beside}, so nuts accepts less than its step size would have it: it needs a "
                "position and data of float64 (jax.config.update('jax_enable_x64', True)), or a "
                "log_likelihood that is smaller by a constant"
            )


def nuts(
    posterior: Posterior[P],
    step_size: Hyperparameter,
    *,
    inverse_mass: InverseMass = 1.0,
    max_depth: int = 10,
    temperature: Hyperparameter = 1.0,
    chunk_size: int = CHUNK_SIZE,
    passes_per_step: float | None = None,
) -> Kernel[P]:
    """The no-U-turn sampler (NUTS): Hamiltonian paths on all data, as long as they lead away from
    their start.

    Update: a momentum is drawn, and a path of leapfrog steps of length h doubled forward or
        backward until it turns back or has 2^`max_depth` − 1 steps. θ' is a point of the path,
        drawn by exp(−V/T − |p|²/2), and rather a far one. BlackJAX does it (`pip install
        'ewsg_jax[nuts]'`); V and its gradient are this library's.
    Target: exp(−V/T) exactly, whatever the step size. V is summed with its rounding errors: at 10⁶
        rows in float32 the energy is right to some 10⁻³.
    Cost: n evaluations for each leapfrog step and n at the start: 3 to 31 data passes a step where
        the inverse mass is near the posterior's covariance, up to 1,023 where it is not. Steps
        report what they took. Memory of 2 `max_depth` + 20 positions a chain. Chains side by side
        make the steps of the longest path of all, which is little more in such a metric, and read
        each row once.
    When: few data (below some 10⁴ rows) and a posterior far from normal, where minibatches gain
        little and their noise costs most. Not with many data: a step of a minibatch method takes a
        thousandth of one of these. `step_size` is in units of the inverse mass: 0.3 to 1 where that
        is near the covariance, such that `samples.acceptance` is about 0.8.
    Source: M. D. Hoffman and A. Gelman, The No-U-Turn Sampler, JMLR 15, 2014; M. Betancourt, A
        conceptual introduction to Hamiltonian Monte Carlo, arXiv:1701.02434, 2017, for how a point
        is drawn; A. Cabezas et al., BlackJAX: composable Bayesian inference in JAX,
        arXiv:2402.10797, 2024.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0 of a leapfrog step; a number, a traced scalar or a schedule.
        inverse_mass: C > 0: number, tree, matrix or `LowRank`, as in `ewsg_jax.dynamics.langevin`.
            Default 1.
        max_depth: how often a path is doubled at the most. Default 10.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior
            itself.
        chunk_size: rows that a sum over all data takes at once, which bounds its memory. Default
            4,096.
        passes_per_step: data passes of a step on average, as they were measured, by which
            `data_passes=` of `ewsg_jax.sample` goes. Default: not known; a run is then given
            `num_steps`.

    Raises:
        ImportError: BlackJAX is not installed.
        TypeError, ValueError: an argument has the wrong type or value; at `init`, a start where the
            density is 0, an inverse mass that does not fit the position, or more evaluations a step
            than 32 bits count.

    Example: for about 20 rows of unit scale; with more rows, take shorter steps.
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> kernel = ewsg.nuts(ewsg.models.gaussian_location(), 0.3, max_depth=5)
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(1), jnp.ones((20, 1)))
        >>> state, info = kernel.step(jax.random.key(1), state, jnp.ones((20, 1)))
        >>> int(info.gradient_evaluations) % 20, bool(info.acceptance > 0.5)
        (0, True)
    """
    _blackjax("nuts")
    if passes_per_step is not None:
        checks.positive("passes_per_step", passes_per_step)
    check_posterior(posterior)
    return Nuts(
        posterior=posterior,
        **hyperparameters(step_size=step_size, temperature=temperature),
        mass=Mass(given=inverse_mass, factor=factor_of(inverse_mass, "inverse_mass")),
        max_depth=checks.integer("max_depth", max_depth),
        chunk_size=checks.integer("chunk_size", chunk_size),
        passes_per_step=None if passes_per_step is None else float(passes_per_step),
    )


class _Vectors:
    """Trees like a position as vectors, for smaller programs of BlackJAX, in their own dtype."""

    def __init__(self, position: Position) -> None:
        vector, self._unravel = ravel_pytree(position)
        self._narrow = vector.dtype
        self.dtype = jnp.promote_types(jnp.result_type(float), vector.dtype)

    def flat(self, tree: Position) -> Array:
        return ravel_pytree(tree)[0].astype(self.dtype)

    def tree(self, vector: Array) -> Position:
        return self._unravel(vector.astype(self._narrow))


def _leapfrog(
    factor: Factor, temperature: Scalar, vectors: _Vectors, log_density: Any, kinetic_energy: Any
) -> Callable[[Any, Array], Any]:
    """Return one step along a path, in BlackJAX's form, in the coordinates L⁻¹θ, where
    `log_density` returns −V/T and −∇V.
    """
    integrators = _blackjax("integrators")

    def kicked(momentum: Array, force: Array, time: Array) -> Array:
        whitened = vectors.flat(factor.transposed(vectors.tree(force)))
        return momentum + (time / (2 * temperature)).astype(momentum.dtype) * whitened

    def one_step(point: Any, time: Array) -> Any:
        halfway = kicked(point.momentum, point.logdensity_grad, time)
        position = point.position + time * vectors.flat(factor.times(vectors.tree(halfway)))
        value, force = log_density(position)
        return integrators.IntegratorState(position, kicked(halfway, force, time), value, force)

    return one_step


def _blackjax(module: str) -> Any:
    """Return a module of BlackJAX's samplers, which may not be installed."""
    return optional.module(f"blackjax.mcmc.{module}", "ewsg_jax.nuts")


def next_step_size(
    step_size: Array | float, acceptance: Array | float, target: float = 0.8
) -> Array:
    """Return the step size of acceptance α*, from the mean acceptance of a window at another one.

    Pure, for the host and for compiled loops; a mean of NaN counts as 0.
    """
    share = jnp.clip(jnp.nan_to_num(jnp.asarray(acceptance, float)), 1e-6, 1 - 1e-6)
    errors = jax.scipy.special.ndtri(target / 2) / jax.scipy.special.ndtri(share / 2)
    return step_size * jnp.clip(jnp.sqrt(errors), 1 / MOST_TIMES_SHORTER, MOST_TIMES_LONGER)
