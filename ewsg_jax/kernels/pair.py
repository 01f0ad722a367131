"""A kernel of two parts: a dynamics that asks an estimator for a gradient."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, limits, pytrees
from ewsg_jax.base.modules import module
from ewsg_jax.base.typing import Array, Data, Key, P, Scalar
from ewsg_jax.base.warn import warn
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.dynamics._protocol import Constant, needs_covariance
from ewsg_jax.gradients import Evaluations, GradientEstimator
from ewsg_jax.gradients._protocol import reports_covariance
from ewsg_jax.gradients._streamed import Streamed
from ewsg_jax.kernels import own_parts
from ewsg_jax.kernels.protocol import Info, Kernel, KernelState, Randomness, first_state
from ewsg_jax.rows._scheme import Order, is_ordered
from ewsg_jax.rows._view import all_rows


@module
class Pair(Kernel[P]):
    """A dynamics that asks an estimator for a gradient."""

    # None in addition to those of its parts.
    needs = frozenset()

    made_by = "kernel"

    dynamics: Dynamics
    estimator: GradientEstimator[P]

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        checks.key(key)
        position = pytrees.copy(checks.position(position))
        checks.finite("position", position)
        self.check(position, data)
        ordered = is_ordered(self.estimator)
        dynamics_key, memory_key, *order_key = jax.random.split(key, 3 if ordered else 2)
        first = self.dynamics.init(dynamics_key, position)
        memory = self.estimator.init(memory_key, position, data)
        # Here, and not in a step: once for a chain, and without any cost to the steps.
        own_parts.check_step(self.dynamics, self.estimator, first, memory, data)
        order = jax.random.bits(order_key[0], (4,), jnp.uint32) if ordered else ()
        return first_state(self, key, first, memory, data, order)

    def draw(self, key: Key, state: KernelState[P], data: Data) -> Randomness:
        batch, noise = jax.random.split(key)
        order = Order(state.order, state.dynamics.step)
        return Randomness(
            self.estimator.draw(batch, data, order), self.dynamics.draw(noise, state.dynamics)
        )

    def transition(
        self, randomness: Randomness, state: KernelState[P], data: Data
    ) -> tuple[KernelState[P], Info]:
        dynamics, estimator, current = self.dynamics, self.estimator, state.dynamics
        wanted = dynamics.evaluation_point(current)
        # First, so that all candidates of a step have one memory and one point. Option I of svrg
        # moves the chain here.
        memory, point, refreshed = estimator.refresh(
            randomness.batch, state.memory, current.step, wanted, data
        )
        # By identity: tracing does not show whether a point differs, but whether it was replaced.
        if point is not wanted:
            current = dynamics.with_evaluation_point(current, point)
        # Once a step: the weights of all candidates and the move share it.
        prepared = dynamics.prepare(current, estimator.posterior.prior_gradient, data)
        weight = functools.partial(dynamics.log_weight, prepared)
        estimate, update = estimator.propose(randomness.batch, memory, point, data, weight)
        moved = dynamics.apply(
            randomness.noise,
            prepared,
            estimate,
            lambda position: estimator.gradient_at(estimate, position, data),
        )
        # A cost that is known without running the step stays a NumPy number: a run need not sum it.
        spent = self.evaluations(data).per_step + refreshed
        info = Info(
            gradient_evaluations=spent if isinstance(spent, jax.Array) else np.int32(spent),
            is_finite=pytrees.is_finite(moved),
            step_size=jnp.asarray(dynamics.step_size(current.step)),
            index_acceptance=estimate.acceptance,
        )
        return state._replace(dynamics=moved, memory=estimator.commit(update, memory)), info

    @property
    def step_size(self) -> Callable[[Array], Scalar]:
        """The step size used at step number `step`."""
        return self.dynamics.step_size

    @property
    def temperature(self) -> Callable[[Array], Scalar]:
        """T at step number `step`; 1 for a dynamics without a field of that name."""
        return getattr(self.dynamics, "temperature", Constant(value=1.0))

    def evaluations(self, data: Data) -> Evaluations:
        cost = self.estimator.evaluations(data)
        return cost._replace(
            per_step=cost.per_step + self.dynamics.extra_gradients * cost.per_extra_gradient
        )

    def check(self, position: P, data: Data) -> None:
        self.dynamics.check(position)
        self.estimator.check(position, data)
        name = f"what evaluations of {type(self.estimator).__name__} returns"
        kind, made_by = Evaluations, "an ewsg_jax.gradients.Evaluations(…)"
        of_estimator = self.estimator.evaluations(data)
        checks.instance(name, of_estimator, kind, made_by)
        # Runs are cut into blocks, and passes into steps, by the cost of a step.
        checks.integer(f"per_step of {name}", of_estimator.per_step)
        cost = self.evaluations(data)
        most = cost.per_step + cost.per_refresh
        if most > limits.INT32_MAX:
            raise ValueError(
                f"data must have so few rows that a step has at most {limits.INT32_MAX:,} "
                f"evaluations, which are counted in 32 bits; got {all_rows(data):,} rows, and "
                f"{most:,} evaluations in a step"
            )


@module
class OnBatches(Pair[P]):
    """A dynamics with the estimator `streamed`, whose data are one batch that stands for all."""

    def viewed(self, data: Data) -> Data:
        assert isinstance(self.estimator, Streamed)
        return self.estimator.viewed(data)

    def init(self, key: Key, position: P, data: Data) -> KernelState[P]:
        return super().init(key, position, self.viewed(data))

    def step(self, key: Key, state: KernelState[P], data: Data) -> tuple[KernelState[P], Info]:
        return super().step(key, state, self.viewed(data))


def kernel(dynamics: Dynamics, estimator: GradientEstimator[P]) -> Kernel[P]:
    """Compose any dynamics with any estimator of the gradient.

    Args:
        dynamics: one of `ewsg_jax.dynamics`, or your own.
        estimator: one of `ewsg_jax.gradients`, or your own.

    Raises:
        TypeError: an argument has the wrong type or value; or a part of your own lacks a field or
            a method that a kernel needs.
        ValueError: the estimator asks for a frozen noise that the dynamics does not have, or does
            not report the covariance that the dynamics needs.

    Warns:
        UserWarning: chains restart at an earlier point (SVRG's option I) and keep their momentum,
            which biases the posterior.

    Example:
        >>> import jax, jax.numpy as jnp, ewsg_jax as ewsg
        >>> model = ewsg.models.gaussian_location()
        >>> weighted = ewsg.gradients.exponentially_weighted(
        ...     ewsg.gradients.uniform(model, batch_size=1)
        ... )
        >>> kernel = ewsg.kernel(ewsg.dynamics.splitting(1e-2, friction=1.0), weighted)
        >>> data = jnp.arange(10.0)[:, None]
        >>> state = kernel.init(jax.random.key(0), jnp.zeros(1), data)
        >>> state, info = kernel.step(jax.random.key(1), state, data)
        >>> int(info.gradient_evaluations)
        2
    """
    checks.instance("dynamics", dynamics, Dynamics, "one of ewsg_jax.dynamics")
    checks.instance("estimator", estimator, GradientEstimator, "one of ewsg_jax.gradients")
    own_parts.check_parts(dynamics, estimator)
    if needs_covariance(dynamics) and not reports_covariance(estimator):
        raise ValueError(
            "estimator must report the covariance of its gradient for this dynamics, as "
            "ewsg_jax.gradients.covariance_tracking does, alone or exponentially weighted; got "
            "one that does not"
        )
    if estimator.weight_noise is not None:
        if not dynamics.frozen_noise:
            raise ValueError(
                "dynamics must have a weight for an exponentially weighted estimator; got "
                f"{dynamics}"
            )
        checks.one_of(
            "frozen_noise of this dynamics", estimator.weight_noise, dynamics.frozen_noise
        )
    if estimator.restarts and hasattr(dynamics, "friction"):
        warn(
            "option='I' of svrg with a momentum does not keep the posterior: at every step size "
            "variances are about (K + 1)/(2K) of the right ones, K = refresh_every; take "
            "option='II'",
            UserWarning,
        )
    pair = OnBatches if isinstance(estimator, Streamed) else Pair
    return pair(dynamics=dynamics, estimator=estimator)
