"""Custom parts, checked once: that they fit together, and return what a step takes from them.

What a part returns is known by tracing it, from shapes alone. Only the number of the step has a
value: the next state must have one more. The library's own parts have tests for this, and are not
traced.
"""

import dataclasses
import numbers
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, jaxprs
from ewsg_jax.base.modules import is_own
from ewsg_jax.base.needs import parts_of
from ewsg_jax.base.rng import NOISE_KINDS
from ewsg_jax.base.typing import Array, Data, Key, Position, PyTree
from ewsg_jax.dynamics._mass import without_metric
from ewsg_jax.dynamics._protocol import Dynamics
from ewsg_jax.gradients._protocol import Estimate, GradientEstimator, no_weight
from ewsg_jax.rows._scheme import Order

TRACED_STEP = np.int32(7)
"""The number of the step in a check; any number would do."""
BRANCHES = frozenset({"scan", "while", "cond"})
"""Primitives of JAX whose body is traced once and may run another number of times."""


class _WrongPartError(Exception):
    """What is wrong, found while tracing.

    Attributes:
        kind: the error to raise for it.
    """

    def __init__(self, kind: type[Exception], message: str) -> None:
        super().__init__(message)
        self.kind = kind


def check_parts(dynamics: Dynamics, estimator: GradientEstimator) -> None:
    """Raise TypeError if custom parts lack a field or a method, before there are data."""
    plain, _ = without_metric(dynamics)
    if is_own(type(plain)):
        for name in ("step_size", "temperature"):
            value = getattr(plain, name, None)
            if not callable(value) and (value is not None or name == "step_size"):
                got = "none" if value is None else checks.describe(value)
                raise TypeError(
                    f"{name} of {_name(plain)} must be a field that is a function of the step, as "
                    f"ewsg_jax.hyperparameters({name}=…) makes; got {got}"
                )
        noise = getattr(plain, "noise", NOISE_KINDS[0])
        is_kind = isinstance(noise, str) and noise in NOISE_KINDS
        if type(plain).draw is Dynamics.draw and not is_kind:
            raise TypeError(
                f"noise of {_name(plain)} must be the distribution that draw returns, one of "
                f"{', '.join(map(repr, NOISE_KINDS))}, or be called otherwise; got "
                f"{checks.describe(noise)}"
            )
        order = getattr(plain, "bias_order", 1)
        if isinstance(order, bool) or not isinstance(order, numbers.Integral) or order < 1:
            raise TypeError(
                f"bias_order of {_name(plain)} must be a whole number, at least 1; got "
                f"{checks.describe(order)}"
            )
    for part in [plain, *parts_of(estimator)]:
        if is_own(type(part)):
            _check_fields(part)
    base = GradientEstimator
    for part in _own_estimators(estimator):
        if type(part).commit is not base.commit and type(part).init is base.init:
            raise TypeError(
                f"{_name(part)} must have an init that returns the first memory, for its commit "
                "returns the next; got one without"
            )


def check_step(
    dynamics: Dynamics,
    estimator: GradientEstimator,
    state: Any,
    memory: PyTree,
    data: Data,
) -> None:
    """Check what custom parts return in a step, from shapes alone: types, structures, shapes and
    dtypes, and the number of the next step.

    Args:
        dynamics: the dynamics.
        estimator: the estimator.
        state: what `init` of the dynamics returned.
        memory: what `init` of the estimator returned.
        data: all rows.

    Raises:
        TypeError, ValueError: a custom part returns something else than a step takes; the message
            names the part and the method.
    """
    plain, _ = without_metric(dynamics)
    if is_own(type(plain)):
        missing = {"position", "step"} - set(getattr(state, "_fields", ()))
        if missing:
            raise TypeError(
                f"init of {_name(plain)} must return a NamedTuple with at least position and step; "
                f"got {type(state).__name__} without {' and '.join(sorted(missing))}"
            )
    if is_own(type(plain)) or next(_own_estimators(estimator), None) is not None:
        try:
            _traced.eval_shape(dynamics, estimator, jax.random.key(0), state, memory, data)
        except _WrongPartError as wrong:
            # Raised here, not inside JAX, which adds notes; an error of JAX keeps the user's line.
            raise wrong.kind(str(wrong)) from wrong.__cause__


def _check_fields(part: Any) -> None:
    """Check that all leaves of a part are numbers: anything else must be static."""
    for field in dataclasses.fields(part):
        if field.metadata.get("static"):
            continue
        for path, leaf in jax.tree_util.tree_leaves_with_path(getattr(part, field.name)):
            if not isinstance(leaf, numbers.Number) and not hasattr(leaf, "dtype"):
                at = f"{field.name}{jax.tree_util.keystr(path)}"
                raise TypeError(
                    f"{at} of {_name(part)} must be a number or an array, or a field that shapes "
                    "the program, ewsg_jax.static(); got "
                    f"{checks.describe(leaf)}"
                )


def _name(part: Any) -> str:
    return type(part).__name__


def _called(what: str, method: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a method returns for traced arrays; raise if it needs their values."""
    try:
        return method(*arguments)
    except jax.errors.JAXTypeError as error:
        kind = type(error).__name__
        raise _WrongPartError(
            TypeError,
            f"{what} must take arrays whose values are not known yet, the number of the step among "
            "them: jnp.where or jax.lax.cond in the place of if, jax.numpy in that of NumPy; it "
            f"raised {kind}",
        ) from error


def _own_estimators(estimator: GradientEstimator) -> Iterator[GradientEstimator]:
    for part in parts_of(estimator):
        if isinstance(part, GradientEstimator) and is_own(type(part)):
            yield part


@jax.jit
def _traced(
    dynamics: Dynamics,
    estimator: GradientEstimator,
    key: Key,
    state: Any,
    memory: PyTree,
    data: Data,
) -> tuple[()]:
    """Return nothing: asked for its shapes only, it is traced once for equal parts and shapes."""
    point, first = dynamics.evaluation_point(state), jax.random.split(key, 2)[0]
    order = Order(jnp.zeros(4, jnp.uint32), jnp.zeros((), jnp.int32))
    for part in _own_estimators(estimator):
        _check_estimator(part, first, state.position, point, order, data)
    if is_own(type(without_metric(dynamics)[0])):
        estimate, _ = estimator.propose(
            estimator.draw(first, data, order), memory, point, data, no_weight
        )
        _check_dynamics(dynamics, first, state, estimate, estimator, data)
    return ()


def _check_estimator(
    part: GradientEstimator,
    key: Key,
    position: Position,
    point: Position,
    order: Order,
    data: Data,
) -> None:
    """Raise what is wrong with what an estimator returns."""
    name, memory = _name(part), part.init(key, position, data)
    randomness = _called(f"draw of {name}", part.draw, key, data, order)
    returned = _called(
        f"refresh of {name}", part.refresh, randomness, memory, order.step, point, data
    )
    if not (isinstance(returned, tuple) and len(returned) == 3):
        raise _WrongPartError(
            TypeError,
            f"refresh of {name} must return three: the memory, the point and how many evaluations "
            f"it took; got {_described(returned)}",
        )
    refreshed, point, _ = returned
    as_first = "must be like that of init, in structure, shapes and dtypes"
    _same(f"the memory that refresh of {name} returns", as_first, refreshed, memory, dtypes=True)
    proposed = _called(
        f"propose of {name}", part.propose, randomness, memory, point, data, no_weight
    )
    is_pair = type(proposed) is not Estimate and isinstance(proposed, tuple) and len(proposed) == 2
    if not (is_pair and isinstance(proposed[0], Estimate)):
        raise _WrongPartError(
            TypeError,
            f"propose of {name} must return a pair, an Estimate and the update that commit gets "
            f"(() for none); got {_described(proposed)}",
        )
    estimate, update = proposed[0], proposed[1]
    shaped = "must be shaped like the position"
    _same(f"the gradient that propose of {name} returns", shaped, estimate.gradient, position)
    _same(
        f"what gradient_at of {name} returns",
        shaped,
        _called(f"gradient_at of {name}", part.gradient_at, estimate, position, data),
        position,
    )
    if type(part).commit is GradientEstimator.commit and jax.tree.leaves(update):
        raise _WrongPartError(
            TypeError,
            f"{name} must have a commit that makes the next memory of the update that propose "
            "returns; got one without: the memory never changes",
        )
    committed = _called(f"commit of {name}", part.commit, update, memory)
    _same(f"the memory that commit of {name} returns", as_first, committed, memory, dtypes=True)


def _check_dynamics(
    dynamics: Dynamics,
    key: Key,
    state: Any,
    estimate: Estimate,
    estimator: GradientEstimator,
    data: Data,
) -> None:
    """Raise what is wrong with what a dynamics returns."""
    name, position = _name(without_metric(dynamics)[0]), state.position
    num_calls, steps = 0, []

    def gradient_at(point: Position) -> Position:
        nonlocal num_calls
        num_calls += 1
        what = f"the argument of gradient_at in apply of {name}"
        _same(what, "must be a position", point, position)
        return jax.tree.map(jnp.zeros_like, estimate.gradient)

    def make_step(noise: PyTree, current: Any) -> Any:
        prior_gradient = estimator.posterior.prior_gradient
        prepared = _called(f"prepare of {name}", dynamics.prepare, current, prior_gradient, data)
        for frozen_noise in dynamics.frozen_noise:
            weight = _called(
                f"log_weight of {name}", dynamics.log_weight, prepared, estimate, frozen_noise
            )
            if jnp.shape(weight) != ():
                raise _WrongPartError(
                    ValueError,
                    f"log_weight of {name} must return a scalar; got {checks.describe(weight)}",
                )
        return _called(f"apply of {name}", dynamics.apply, noise, prepared, estimate, gradient_at)

    def make_known_step(noise: PyTree, current: Any) -> Any:
        moved = make_step(noise, current._replace(step=TRACED_STEP))
        steps.append(getattr(moved, "step", None))
        return moved

    noise = _called(f"draw of {name}", dynamics.draw, key, state)
    # First as in a run, where the number of the step is not known: what needs it fails here.
    jax.eval_shape(make_step, noise, state)
    # Then with a known number: the next one is known too, if it is made by arithmetic.
    num_calls = 0
    program, moved = jax.make_jaxpr(make_known_step, return_shape=True)(noise, state)
    _same(
        f"the state that apply of {name} returns",
        "must be like that of init, in structure, shapes and dtypes",
        moved,
        state,
        dtypes=True,
    )
    _check_next_step(name, steps[-1])
    _check_num_calls(name, dynamics.extra_gradients, num_calls, program)


def _check_next_step(name: str, step: Any) -> None:
    """Raise that the step after `TRACED_STEP` has another number, if its number is known."""
    if isinstance(step, int | np.integer | np.ndarray) and int(step) != TRACED_STEP + 1:
        raise _WrongPartError(
            ValueError,
            f"apply of {name} must return a state whose step is one more than before; got step "
            f"{int(step)} after {TRACED_STEP}",
        )


def _check_num_calls(name: str, extra_gradients: int, num_calls: int, program: Any) -> None:
    """Raise that a dynamics calls `gradient_at` another number of times than it says.

    Args:
        name: the name of the dynamics.
        extra_gradients: the calls of a step that it says.
        num_calls: calls while one step was traced.
        program: what was traced, a jaxpr.
    """
    agrees = num_calls == extra_gradients
    # A loop is traced once, however often it runs, and of two branches one runs: then only none
    # and some can be distinguished.
    if any(line.primitive.name in BRANCHES for line in jaxprs.equations(program)):
        agrees = bool(num_calls) == bool(extra_gradients)
    if not agrees:
        raise _WrongPartError(
            ValueError,
            f"extra_gradients of {name} must be how often its apply calls gradient_at in a step; "
            f"got {extra_gradients}, and {num_calls} calls",
        )


def _same(what: str, takes: str, value: PyTree, like: PyTree, dtypes: bool = False) -> None:
    """Raise if a pytree has not the structure, shapes and (with `dtypes`) dtypes of another."""
    if jax.tree.structure(value) != jax.tree.structure(like):
        raise _WrongPartError(
            ValueError, f"{what} {takes}; got {_described(value)}, not {_described(like)}"
        )
    for one, other in zip(jax.tree.leaves(value), jax.tree.leaves(like), strict=True):
        wrong = jnp.shape(one) != jnp.shape(other)
        # A loop of JAX promotes leaves that were made from Python's numbers.
        exact = dtypes and not getattr(other, "weak_type", False)
        if wrong or (exact and jnp.result_type(one) != jnp.result_type(other)):
            raise _WrongPartError(
                ValueError, f"{what} {takes}; got {_text(one)}, not {_text(other)}"
            )


def _text(leaf: Any) -> str:
    return f"shape {jnp.shape(leaf)} {jnp.result_type(leaf)}"


def _described(tree: PyTree) -> str:
    """Return a description of a pytree: its class, and the shapes of its leaves."""
    leaves: list[Array] = jax.tree.leaves(tree)
    return f"{type(tree).__name__} of {', '.join(map(_text, leaves)) or 'no arrays'}"
