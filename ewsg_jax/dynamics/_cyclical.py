"""Steps that fall from large to small and start again: cyclical SG-MCMC (Zhang, Li, Zhang, Chen &
Wilson 2020).

    h_k = (h₀/2) (cos(π (k mod P)/P) + 1),   k = 0, 1, … the steps made so far, P the period

A cycle has two phases. In the first one, while k mod P < βP, the temperature is 0: an optimiser
that leaves the last mode with large steps and descends to another. The rest samples around it with
small ones, and draws are kept there. The paper numbers steps from 1.

The draws of a cycle are those of a short chain with a falling step, from the point at which its
descent arrived. Their weights between modes are those of the descents, not of the
posterior: R-hat over chains of several cycles says how far they agree.
"""

import functools
import math
from typing import Any, ClassVar

import jax.numpy as jnp
from jax.typing import ArrayLike

from ewsg_jax.base import checks
from ewsg_jax.base.modules import Part, module, number, static
from ewsg_jax.base.typing import Array, Scalar
from ewsg_jax.dynamics._protocol import Schedule


@module
class Cyclical(Schedule):
    """The schedule of `cyclical`; called with the number of steps made, it returns h.

    Attributes:
        step_size: h₀.
        period: P, the steps of a cycle.
        exploration: β, the part of a cycle without noise and draws.
        snapshots: draws that are kept of a cycle, None for all of its last phase.
    """

    function: Any = static(default=None)
    step_size: Scalar
    period: int = static()
    exploration: float = static(default=0.8)
    snapshots: int | None = static(default=None)

    def __call__(self, step: ArrayLike) -> Scalar:
        """Return h after `step` steps."""
        # (cos(π − 2x) + 1)/2 = sin² x, which keeps its digits where the step is small.
        left = self.period - jnp.asarray(step) % self.period
        return self.step_size * jnp.sin(jnp.pi / 2 * left / self.period) ** 2

    @property
    def first_sampling_step(self) -> int:
        """How many steps of a cycle explore: ⌈βP⌉."""
        return _exploring(self.exploration, self.period)

    @property
    def temperature(self) -> "CyclicalTemperature":
        """The schedule of the temperature: 0 while a cycle explores, then 1."""
        return CyclicalTemperature(cycle=self)

    @property
    def keep_when(self) -> "KeptOfCycle":
        """Which steps `sample(…, keep_when=…)` keeps: those of each last phase, or `snapshots` of
        them, evenly spaced up to the cycle's last step.
        """
        return KeptOfCycle(cycle=self)

    __repr__ = Part.__repr__


@module
class CyclicalTemperature(Schedule):
    """0 while a cycle explores, then 1."""

    may_be_zero: ClassVar = True

    function: Any = static(default=None)
    cycle: Cyclical

    def __call__(self, step: ArrayLike) -> Scalar:
        """Return T after `step` steps."""
        samples = jnp.asarray(step) % self.cycle.period >= self.cycle.first_sampling_step
        return jnp.where(samples, 1.0, 0.0)

    def __repr__(self) -> str:
        return f"{self.cycle!r}.temperature"


@module
class KeptOfCycle(Part):
    """A function of a step's number, which counts the step itself: whether it is kept."""

    cycle: Cyclical

    def __call__(self, step: ArrayLike) -> Array:
        """Return whether a step is kept."""
        cycle = self.cycle
        # Steps from this one to the cycle's last one.
        left = cycle.period - 1 - (jnp.asarray(step) - 1) % cycle.period
        sampled = cycle.period - cycle.first_sampling_step
        if cycle.snapshots is None:
            return jnp.asarray(left < sampled)
        every = sampled // cycle.snapshots
        return jnp.asarray((left % every == 0) & (left < every * cycle.snapshots))

    def __repr__(self) -> str:
        return f"{self.cycle!r}.keep_when"


def cyclical(
    step_size: Scalar, period: int, *, exploration: float = 0.8, snapshots: int | None = None
) -> Cyclical:
    """Make a schedule of step sizes that falls to almost 0 in each period and starts again.

    It is given as a step size. Its `temperature` switches the noise off while a cycle explores, and
    with its `keep_when` `sample` keeps the draws of last phases; a run resumes with it bit for bit.
    Within a cycle the step falls, so `samples.step_size` are weights of the draws. Cycles find
    several modes, and do not weigh them as the posterior does: judge predictions.

    Args:
        step_size: h₀ > 0, the step at the start of each cycle, a number or a scalar array. At the
            default end of the exploration it is a tenth of that.
        period: the steps of a cycle, at least 2: for M cycles of a run of K steps ⌈K/M⌉.
        exploration: β in (0, 1), the part of each cycle that explores, without noise; default 0.8.
        snapshots: how many draws to keep of each cycle, evenly spaced over its last phase up to
            its last step. Default: every step of that phase, of which `thin` keeps some.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value, no step of a cycle is left
            to sample, or fewer than there are snapshots.

    References:
        R. Zhang, C. Li, J. Zhang, C. Chen and A. G. Wilson, Cyclical stochastic gradient MCMC for
            Bayesian deep learning, ICLR 2020.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> cycle = ewsg.dynamics.cyclical(1e-2, period=100, snapshots=3)
        >>> kernel = ewsg.sgld(
        ...     ewsg.models.gaussian_location(),
        ...     cycle,
        ...     batch_size=2,
        ...     temperature=cycle.temperature,
        ... )
        >>> samples = ewsg.sample(
        ...     jax.random.key(0),
        ...     kernel,
        ...     jnp.zeros(1),
        ...     jnp.arange(6.0)[:, None],
        ...     200,
        ...     keep_when=cycle.keep_when,
        ... )
        >>> samples.step.tolist()
        [88, 94, 100, 188, 194, 200]
    """
    checks.positive("step_size", step_size)
    checks.integer("period", period, minimum=2)
    checks.fraction("exploration", exploration)
    if not isinstance(exploration, int | float):
        exploration = float(exploration)
    sampled = int(period) - _exploring(exploration, int(period))
    if sampled < 1:
        raise ValueError(
            f"exploration must leave a step of {period} to sample, at most 1 − 1/{period}; got "
            f"{exploration}"
        )
    if snapshots is not None:
        snapshots = checks.integer("snapshots", snapshots, maximum=sampled)
    return Cyclical(
        step_size=number(step_size),
        period=int(period),
        exploration=exploration,
        snapshots=snapshots,
    )


@functools.cache
def _exploring(exploration: float, period: int) -> int:
    # Rounded first: 0.7 · 10 is a little more than 7.
    return math.ceil(round(exploration * period, 9))
