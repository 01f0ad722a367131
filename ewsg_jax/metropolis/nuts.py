"""The no-U-turn sampler (Hoffman & Gelman 2014) on all data, from BlackJAX's building blocks.

A step draws a momentum p ~ N(0, I) and doubles a path of leapfrog steps,

    p' = p − (h/2T) Lᵀ∇V(θ);   θ' = θ + h L p';   p'' = p' − (h/2T) Lᵀ∇V(θ'),

with C = L Lᵀ the inverse mass, forward or backward, until it turns back on itself or has
2^max_depth − 1 steps. The new state is one of the path's points, drawn with probability ∝ exp(−H),
H = V/T + |p|²/2. p is the momentum of the coordinates L⁻¹θ, in which the mass is 1, so any inverse
mass with a factor will do. BlackJAX grows the path, ends it and draws from it; V, ∇V and L are this
library's.

The point that is drawn depends on differences of V (`energy`), which BlackJAX gets relative to the
start of the path.

The energy error along a path has a standard deviation σ ∝ h² (to leading order, on any smooth
target), and if errors are normal a share α = 2Φ(−σ/2) is accepted (Beskos, Pillai, Roberts,
Sanz-Serna & Stuart, Optimal tuning of the hybrid Monte Carlo algorithm, Bernoulli 19, 2013). So
h' = h √(σ(α*)/σ(α)) has the acceptance α* after one window, up to the window's noise; stochastic
approximation takes many windows.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from ewsg_jax.base import checked_arrays, checks, limits, numeric, optional, pytrees, rng
from ewsg_jax.base.factors import Factor, factor_of
from ewsg_jax.base.modules import arguments, made_by, module, static, written
from ewsg_jax.base.needs import Need
from ewsg_jax.base.typing import Array, Data, Hyperparameter, Key, P, Position, Scalar
from ewsg_jax.base.warn import warn
from ewsg_jax.dynamics._mass import InverseMass, Mass, is_one
from ewsg_jax.dynamics._protocol import Constant, Schedule, hyperparameters
from ewsg_jax.gradients import Evaluations
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness, first_state
from ewsg_jax.metropolis.energy import (
    CompensatedPotential,
    is_lost,
    potential_and_gradient,
    rounding_noise,
)
from ewsg_jax.posterior.posterior import Posterior, check_posterior
from ewsg_jax.rows._view import CHUNK_SIZE, num_rows


class NutsState(NamedTuple):
    """The state of a chain of NUTS.

    Attributes:
        position: θ.
        step: the number of steps made.
        potential: V(θ), up to a constant.
        gradient: ∇V(θ), shaped like the position; the next path begins with it.
    """

    position: Position
    step: Array
    potential: CompensatedPotential
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
        # Later states were accepted, so they are finite: only the first may not be.
        if not checks.is_traced(potential.value):
            if not np.isfinite(potential.value):
                raise ValueError(
                    "position must have a finite potential; the posterior's is "
                    f"{potential.value} there"
                )
            if not pytrees.is_finite(gradient):
                raise ValueError(
                    "position must have a finite gradient; the posterior's is not finite there"
                )
        return first_state(
            self, key, NutsState(position, jnp.int32(0), potential, gradient), (), data
        )

    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        # A key's words, which a run keeps in blocks as other random numbers: the length of the path
        # is not known yet.
        return Randomness((), jax.random.bits(key, (2,), jnp.uint32))

    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        current: NutsState = state.dynamics
        h, temperature = self.step_size(current.step), self.temperature(current.step)
        hmc, nuts = _blackjax("hmc"), _blackjax("nuts")

        # BlackJAX works on vectors, whatever pytree a position is.
        vectors = _Vectors(current.position)

        def log_density(position: Array) -> tuple[Array, Array]:
            """Return −V/T, which is 0 at the start of the path, and −∇V."""
            point = vectors.tree(position)
            potential, gradient = potential_and_gradient(
                self.posterior, point, data, self.chunk_size
            )
            density = -potential.above(current.potential) / temperature
            return density.astype(vectors.dtype), -vectors.flat(gradient)

        # In these coordinates the mass is 1, so BlackJAX's leapfrog, which has one, is replaced.
        # A path ends where H has risen by 1,000 T, as in Stan; such points are not drawn.
        step = nuts.build_kernel(
            functools.partial(_leapfrog, self.mass.factor, temperature, vectors), 1000.0
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

    def measures_rounding(self, data: Data) -> bool:
        """Return whether the rounding of V is measured before the first step, for there are many
        rows, and not only at the end of a run.
        """
        return num_rows(data) >= 10_000

    def compared(self, position: P, start: P, data: Data) -> CompensatedPotential:
        """Return V as a step compares it, up to a constant."""
        return potential_and_gradient(self.posterior, position, data, self.chunk_size)[0]

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
        most = (limits.INT32_MAX // n + 1).bit_length() - 1
        if self.max_depth > most:
            raise ValueError(
                f"max_depth must be at most {most} for n = {n:,}, whose evaluations of a step are "
                f"counted in 32 bits; got {self.max_depth}"
            )
        is_narrow = jnp.result_type(*pytrees.dtypes(position)) == jnp.float32
        if self.measures_rounding(data) and is_narrow and checks.are_known((position, data, self)):
            temperature = float(self.temperature(jnp.int32(0)))
            look = functools.partial(self._check_rounding, position, data, temperature)
            checked_arrays.remembered((self.posterior, "rounding", temperature), look, data)

    def _check_rounding(self, position: P, data: Data, temperature: float) -> None:
        """Warn if rounding in float32 makes differences of V/T too inaccurate for acceptance."""
        like = jax.tree.map(
            lambda x: jnp.zeros((8, *jnp.shape(x)), jnp.asarray(x).dtype),
            position,
        )
        directions = jax.vmap(self.mass.factor.times)(rng.noise(jax.random.key(0), like))
        moves = pytrees.combine((self.step_size(jnp.int32(0)) / 2, directions))
        noise = float(rounding_noise(self.posterior, position, moves, data, self.chunk_size))
        if is_lost(noise, temperature):
            relative = "" if temperature == 1 else f" at a temperature of {temperature:.3g}"
            warn(
                f"float32 knows the potential of these {num_rows(data):,} rows to {noise:.2g} "
                f"only{relative}, so nuts accepts less than its step size would have it: it needs "
                "a position and data of float64 (jax.config.update('jax_enable_x64', True)), or a "
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
    """The no-U-turn sampler (NUTS): Hamiltonian paths on all data that end when they turn back.

    Update: a momentum is drawn, and a path of leapfrog steps of length h is doubled forward or
        backward until it turns back or has 2^`max_depth` − 1 steps. θ' is a point of the path,
        drawn with weights exp(−V/T − |p|²/2) that prefer far points. BlackJAX does it (`pip
        install 'ewsg_jax[nuts]'`); V and its gradient are this library's.
    Target: exp(−V/T) exactly, whatever the step size. V is summed with its rounding errors: for 10⁶
        rows in float32 the energy has an error of about 10⁻³.
    Cost: n evaluations for each leapfrog step and n at the start: 3 to 31 data passes a step if the
        inverse mass is close to the posterior's covariance, up to 1,023 if it is not. Steps report
        their evaluations. Memory of 2 `max_depth` + 20 positions a chain. Chains under `vmap` all
        make as many steps as the longest path, which is little more with such an inverse mass, and
        read each row once.
    When: few data (below some 10⁴ rows) and a posterior far from normal: there minibatches gain
        little and their noise costs most. With many data a step of a minibatch method takes a
        thousandth of the time. `step_size` is in units of the inverse mass: 0.3 to 1 if that is
        close to the covariance, such that `samples.acceptance` is about 0.8.
    Source: M. D. Hoffman and A. Gelman, The No-U-Turn Sampler, JMLR 15, 2014; M. Betancourt, A
        conceptual introduction to Hamiltonian Monte Carlo, arXiv:1701.02434, 2017, for how a point
        is drawn; A. Cabezas et al., BlackJAX: composable Bayesian inference in JAX,
        arXiv:2402.10797, 2024.

    Args:
        posterior: the target: an `ewsg_jax.Posterior`, or one of `ewsg_jax.models`.
        step_size: h > 0, the length of a leapfrog step; a number, a traced scalar or a schedule.
        inverse_mass: C > 0: number, pytree, matrix or `LowRank`, as in
            `ewsg_jax.dynamics.langevin`. Default 1.
        max_depth: the largest number of doublings of a path. Default 10.
        temperature: T > 0; a number, a traced scalar or a schedule. Default 1: the posterior
            itself.
        chunk_size: rows that a sum over all data takes at once, which bounds its memory. Default
            4,096.
        passes_per_step: measured mean number of data passes per step, which `data_passes=` of
            `ewsg_jax.sample` needs. Default None: not known; a run then takes `num_steps`.

    Raises:
        ImportError: BlackJAX is not installed.
        TypeError, ValueError: an argument has the wrong type or value; at `init`, a start at which
            the density is 0, an inverse mass that does not fit the position, or more evaluations a
            step than 32 bits count.

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
    inverse_mass = numeric.native(inverse_mass)
    return Nuts(
        posterior=posterior,
        **hyperparameters(step_size=step_size, temperature=temperature),
        mass=Mass(given=inverse_mass, factor=factor_of(inverse_mass, "inverse_mass")),
        max_depth=checks.integer("max_depth", max_depth),
        chunk_size=checks.integer("chunk_size", chunk_size),
        passes_per_step=None if passes_per_step is None else float(passes_per_step),
    )


class _Vectors:
    """Pytrees like a position as vectors of one dtype, which makes BlackJAX's programs smaller."""

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
    """Return a leapfrog step in BlackJAX's form, in the coordinates L⁻¹θ; `log_density` returns
    −V/T and −∇V.
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
    """Return the step size whose acceptance is α*, from the mean acceptance at another step size.

    It is pure, for the host and for compiled loops; an acceptance of NaN counts as 0.
    """
    share = jnp.clip(jnp.nan_to_num(jnp.asarray(acceptance, float)), 1e-6, 1 - 1e-6)
    errors = jax.scipy.special.ndtri(target / 2) / jax.scipy.special.ndtri(share / 2)
    # Acceptances near 0 and 1 show only the direction, so that h changes within bounds.
    return step_size * jnp.clip(jnp.sqrt(errors), 1 / 8, 4)
