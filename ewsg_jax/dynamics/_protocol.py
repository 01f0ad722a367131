"""What a dynamics is, and what all of them share: numbers as functions of the step, and weights."""

import abc
import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol

from ewsg_jax.base import checks, pytrees, rng
from ewsg_jax.base.modules import Part, hashable, is_own, module, number, static, text
from ewsg_jax.base.rng import NOISE_KINDS, NoiseKind
from ewsg_jax.base.typing import Array, Data, Hyperparameter, Key, Position, PyTree, Scalar, State
from ewsg_jax.gradients._protocol import Estimate

Term = tuple[Scalar, PyTree]
"""A coefficient and a pytree, summed by `pytrees.combine`."""


class GradientAt(Protocol):
    """The gradient of the accepted batch at another point, shaped like the position."""

    def __call__(self, position: Position) -> Position: ...


PriorGradient = Callable[[Position], Position]
"""∇V₀ at a point, shaped like the position."""


def _in_arithmetic(self: Part, *_: object) -> Any:
    raise TypeError(
        "a hyperparameter is a function of the step: take its value, such as self.step_size(step); "
        f"got {self!r} itself in arithmetic"
    )


@module
class Constant(Part):
    """A number or a scalar array in the place of a schedule."""

    value: Scalar

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _in_arithmetic
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __neg__ = _in_arithmetic

    def __call__(self, step: Array) -> Scalar:
        """Return the number, whatever the step."""
        return self.value

    def __repr__(self) -> str:
        return text(self.value)


@module
class Schedule(Part):
    """A function of the step; the base class of schedules whose numbers a stack may differ by.

    Example:
        >>> import ewsg_jax as ewsg
        >>> @ewsg.module
        ... class Falling(ewsg.Schedule):
        ...     function: object = ewsg.static(default=None)
        ...     first: float
        ...
        ...     def __call__(self, step):
        ...         return self.first / (1.0 + step)
        >>> posterior = ewsg.models.gaussian_location()
        >>> kernels = [ewsg.sgld(posterior, Falling(first=h), batch_size=5) for h in (0.1, 0.2)]
        >>> ewsg.stack(kernels)[1].dynamics.step_size(3)
        0.05
    """

    may_be_zero: ClassVar[bool] = False
    """Whether a value of 0 is meant, as a temperature of 0 is in gradient descent."""

    function: Callable[[Array], Any] = static()

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _in_arithmetic
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = __neg__ = _in_arithmetic

    def __call__(self, step: Array) -> Scalar:
        """Return the value at a step."""
        return self.function(step)

    def __repr__(self) -> str:
        return text(self.function)


def hyperparameters(**named: Hyperparameter) -> dict[str, Constant | Schedule]:
    """Check that each is positive, and return them as what may stand in the fields of a part.

    Args:
        named: hyperparameters by their names: positive numbers, scalar arrays or schedules
            (functions of the step).

    Returns:
        A `Constant` or a `Schedule` by each name: its value at a step is `part.step_size(step)`.

    Raises:
        TypeError, ValueError: one is none of these, or not positive.

    Example:
        >>> import ewsg_jax as ewsg
        >>> ewsg.hyperparameters(step_size=0.1, friction=lambda step: 1.0)["step_size"](0)
        0.1
    """
    fields: dict[str, Constant | Schedule] = {}
    for name, value in named.items():
        if isinstance(value, Constant | Schedule):
            # A user's own is checked by its value, because it may hold numbers that are traced.
            if is_own(type(value)):
                checks.positive(name, lambda step, of=value: of(step), schedule=True)
            fields[name] = value
            continue
        checks.positive(name, value, schedule=True)
        fields[name] = (
            Schedule(function=hashable(value)) if callable(value) else Constant(value=number(value))
        )
    return fields


@module
class Dynamics(Part, abc.ABC, Generic[State]):
    """What a gradient and a noise do to the state. Write `init` and `apply`; the rest has a
    default.

    It has a field `step_size`: h, a number or a schedule of the step. With a `log_weight` it can be
    combined with exponential weights, and lists in `frozen_noise` which x it knows. A dynamics that
    reads the estimate's covariance says `needs_covariance = True`. `halve` reads `bias_order`, the
    order in h of the bias of the position's distribution with exact gradients.
    """

    translates: ClassVar[bool] = False
    """Whether the update is translation-invariant: a step depends on the position through gradients
    alone. Such a dynamics takes an inverse mass.
    """

    frozen_noise: ClassVar[tuple[str, ...]] = ()
    """The names of x that `log_weight` takes."""

    extra_gradients: ClassVar[int] = 0
    """How often `apply` calls `gradient_at`."""

    gaussian_momentum: ClassVar[bool] = False
    """Whether momenta are N(0, T I) under the target, with the kinetic energy ‖p‖²/2:
    `ewsg_jax.check(…, kernel=…)` compares them with that.
    """

    if TYPE_CHECKING:  # a field of each dynamics; in a metric, that of the inner dynamics
        step_size: Any = dataclasses.field(init=False)

    @abc.abstractmethod
    def init(self, key: Key, position: Position) -> State:
        """Return the first state of a chain.

        Args:
            key: a typed PRNG key, for a state that is random at the start, such as a momentum.
            position: the position that the chain starts at.
        """

    @abc.abstractmethod
    def apply(
        self, noise: PyTree, prepared: PyTree, estimate: Estimate, gradient_at: GradientAt
    ) -> State:
        """Return the state after a step.

        Args:
            noise: what `draw` returned; by default standard normals shaped like the position.
            prepared: what `prepare` returned; by default the state.
            estimate: the estimate at `evaluation_point(state)`, its gradient in
                `estimate.gradient`.
            gradient_at: the gradient of the same batch at another point; `apply` calls it
                `extra_gradients` times.
        """

    def draw(self, key: Key, state: State) -> PyTree:
        """Return the noise of a step, from shapes and the step counter alone.

        Args:
            key: a typed PRNG key, consumed.
            state: the state before the step; its values other than `step` may not be read, because
                the noise of many steps is drawn ahead.
        """
        return rng.noise(key, state.position, getattr(self, "noise", "gaussian"))

    def evaluation_point(self, state: State) -> Position:
        """Return the position at which the gradient is evaluated."""
        return state.position

    def prepare(self, state: State, prior_gradient: PriorGradient, data: Data) -> PyTree:
        """Return what `log_weight` and `apply` take, once a step and before any gradient.

        Args:
            state: the state before the step.
            prior_gradient: ∇V₀ as a function of the position.
            data: all rows, as the run has them.
        """
        return state

    def log_weight(
        self, prepared: PyTree, estimate: Estimate, frozen_noise: str = "momentum"
    ) -> Array:
        """Return ½‖x + a‖², a scalar: a is the estimate in units of the noise, x the frozen noise.

        Args:
            prepared: what `prepare` returned; by default the state.
            estimate: an estimate at `evaluation_point(state)`.
            frozen_noise: the name of x, one of the dynamics' `frozen_noise`.

        Raises:
            NotImplementedError: the dynamics has no weight.
        """
        raise NotImplementedError(f"{type(self).__name__} has no weight")

    def with_evaluation_point(self, state: State, point: Position) -> State:
        """Return the state with its evaluation point moved there, by as much as the position."""
        if type(self).evaluation_point is Dynamics.evaluation_point:
            return state._replace(position=point)
        shift = pytrees.combine((1, point), (-1, self.evaluation_point(state)))
        return state._replace(position=pytrees.combine((1, state.position), (1, shift)))

    def check(self, position: Position) -> None:
        """Raise ValueError if the dynamics does not fit a position."""


def needs_covariance(dynamics: Dynamics) -> bool:
    """Return whether a dynamics needs estimates with a covariance, by its `needs_covariance`."""
    return getattr(dynamics, "needs_covariance", False)


def check_noise(noise: NoiseKind) -> None:
    """Check the name of a kind of noise."""
    checks.one_of("noise", noise, NOISE_KINDS)


def half_squared_sum(frozen_noise: str, x: Term | None, scale: Scalar, g: PyTree) -> Array:
    """Return ½‖x + scale·g‖², the exponent of the weight of a gradient.

    Args:
        frozen_noise: the name of x. `"zero"` and `"one"` are these numbers at every state.
        x: the x of any other name, a coefficient and a pytree like the gradient; None for 0.
        scale: the coefficient of the gradient, which takes it to units of the noise.
        g: the gradient.
    """
    a = (scale, g)
    if frozen_noise == "one":
        total = pytrees.combine(a, (1, pytrees.ones_like(g)))
    elif frozen_noise == "zero" or x is None:
        total = pytrees.combine(a)
    else:
        total = pytrees.combine(a, x)
    return 0.5 * pytrees.squared_norm(total)
