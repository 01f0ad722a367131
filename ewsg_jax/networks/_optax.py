"""A dynamics as a transformation of gradients, for training loops of optax."""

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp

from ewsg_jax.base import checks, pytrees
from ewsg_jax.base.leaves import named_leaves
from ewsg_jax.base.typing import Key, Position, PyTree
from ewsg_jax.dynamics import Dynamics
from ewsg_jax.dynamics._adaptive_mass import AdaptiveMass
from ewsg_jax.dynamics._mass import InMetric
from ewsg_jax.dynamics._protocol import needs_covariance
from ewsg_jax.gradients import Estimate
from ewsg_jax.networks._priors import Prior, log_prior_of, priors_of

if TYPE_CHECKING:
    import optax

_ONE_GRADIENT = (
    "dynamics must take one gradient a step, at the position, because an optax loop gives that "
    "alone, as langevin, semi_implicit, euler, thermostat and preconditioned without correction "
    "do, and adaptive_mass of these; got {}, which {}: make ewsg_jax.kernel(dynamics, …) and run "
    "it by ewsg_jax.sample"
)


class OptaxState(NamedTuple):
    """The state of a chain in an optax loop.

    Attributes:
        dynamics: the state of the dynamics, its position included.
        key: the key of which each step has one, `jax.random.fold_in(key, step)`.
    """

    dynamics: Any
    key: Key


def as_gradient_transformation(
    dynamics: Dynamics, n: int, key: Key, *, prior: Prior | None = None
) -> "optax.GradientTransformation":
    """Return a dynamics as an `optax.GradientTransformation`: a training loop becomes a chain.

    `update(gradients, state, params)` returns the updates of one step of the dynamics with ∇V = n
    times the gradient of a loss that is a mean over a batch, −log likelihood per row. The target is
    exp(−V/T), with the temperature T of the dynamics. It is the step of `kernel.step`: with `first,
    steps = jax.random.split(key)` the momentum is that of `kernel.init(first, …)` and the noise of
    step t that of `kernel.step(jax.random.fold_in(steps, t), …)`. For several chains call it under
    `jax.vmap` over their keys.

    It is the last transformation of a chain: what follows it would scale the noise too.

    Args:
        dynamics: one of `ewsg_jax.dynamics` that takes one gradient a step, at the position.
        n: the number of rows of the whole data set.
        key: a typed PRNG key.
        prior: the prior of the parameters, as `networks.posterior` takes it; its gradient is added.
            Default None: the loss has it already, −(log prior)/n.

    Raises:
        TypeError, ValueError: an argument has the wrong type or value; the dynamics needs more
            than one gradient, or another point; later, `update` is called without `params`, or its
            gradients are not like these.

    Example:
        >>> import jax, jax.numpy as jnp, optax, ewsg_jax as ewsg
        >>> data = jnp.arange(100.0)
        >>> def loss(mean, batch):
        ...     return jnp.mean(0.5 * (batch - mean) ** 2)
        >>> chain = ewsg.networks.as_gradient_transformation(
        ...     ewsg.dynamics.semi_implicit(1e-3, friction=10.0), 100, jax.random.key(0), prior=10.0
        ... )
        >>> mean = jnp.zeros(())
        >>> state = chain.init(mean)
        >>> updates, state = chain.update(jax.grad(loss)(mean, data[:10]), state, mean)
        >>> optax.apply_updates(mean, updates).shape
        ()
    """
    import optax

    checks.instance("dynamics", dynamics, Dynamics, "one of ewsg_jax.dynamics")
    checks.integer("n", n)
    checks.key(key)
    if dynamics.extra_gradients:
        raise ValueError(_ONE_GRADIENT.format(dynamics, "asks for another one"))
    if needs_covariance(dynamics):
        raise ValueError(_ONE_GRADIENT.format(dynamics, "needs the covariance of gradients"))
    # In a metric the evaluation point of the dynamics inside is asked for.
    inner = dynamics
    while isinstance(inner, InMetric | AdaptiveMass):
        inner = inner.dynamics
    # The shape of n rows: all that a dynamics may ask of the data is their number.
    rows = jax.ShapeDtypeStruct((n,), jnp.bool_)

    def init(params: Position) -> OptaxState:
        params = checks.position(params, "params")
        first, steps = jax.random.split(key)
        dynamics.check(params)
        state = dynamics.init(jax.random.split(first)[0], params)
        # By identity, as in a kernel's step: tracing does not show whether a point differs.
        if inner.evaluation_point(state) is not state.position:
            raise ValueError(_ONE_GRADIENT.format(dynamics, "takes it at another point"))
        return OptaxState(state, steps)

    def prior_gradient(params: Position) -> Position:
        if prior is None:
            return pytrees.zeros_like(params)
        # Values of the prior are checked, which are known, whatever is traced.
        with jax.ensure_compile_time_eval():
            log_prior = log_prior_of(priors_of(prior, named_leaves(checks.shapes(params))))
        return jax.grad(lambda position: -log_prior(position))(params)

    def update(
        updates: PyTree, state: OptaxState, params: Position | None = None
    ) -> tuple[PyTree, OptaxState]:
        if params is None:
            raise ValueError(
                "params must be given to update(gradients, state, params), which moves them as a "
                "chain; got None"
            )
        checks.same_tree("gradients must be like params", "gradients", updates, params, False)
        # The keys of `Pair.draw`: the second half of a step's key is that of the noise.
        current = state.dynamics._replace(position=params)
        noise = dynamics.draw(
            jax.random.split(jax.random.fold_in(state.key, current.step))[1], current
        )
        gradient = pytrees.combine((n, pytrees.widened(updates)), (1, prior_gradient(params)))
        estimate = Estimate(pytrees.in_dtypes_of(params, gradient), ())
        prepared = dynamics.prepare(current, prior_gradient, rows)
        new = dynamics.apply(noise, prepared, estimate, _no_other_gradient)
        change = pytrees.combine((1, new.position), (-1, params))
        return change, OptaxState(new, state.key)

    return optax.GradientTransformation(init, update)  # pyright: ignore[reportArgumentType]


def _no_other_gradient(position: Position) -> Position:
    raise ValueError(_ONE_GRADIENT.format("one", "asks for another one"))
