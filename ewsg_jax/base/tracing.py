"""What a user-defined function makes of known shapes, and its gradient: traced, never run."""

import contextlib
import weakref
from collections.abc import Callable, Hashable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ewsg_jax.base import checks, freshness, jaxprs
from ewsg_jax.base.typing import Array, PyTree

OUTSIDE = "make what is fixed outside of the function"
"""What to do with what is drawn, and is no randomness."""
_SAME: dict[Hashable, tuple[weakref.ref[Any], bool]] = {}
"""Functions that made the same program twice, by what they read then, and whether they depend on
their arguments.
"""


def outputs(
    name: str,
    function: Callable[..., Any],
    of: str,
    *arguments: PyTree,
    key: str = "add such noise to what samples.predict(…, key=…) returns",
) -> PyTree:
    """Check that a user's function of `of` returns a pytree of arrays, and draws nothing but from a
    key that it is given; return their shapes.

    Args:
        name: what the function is called in messages.
        function: the function.
        of: what it is a function of, in words.
        arguments: shapes or values of its arguments.
        key: how it is given a key, in words.
    """
    takes = f"{name} must be a function of {of} that returns a pytree of arrays"
    try:
        returned = jax.eval_shape(function, *arguments)
    except Exception as error:
        raise ValueError(f"{takes}; it failed: {checks.reason(error)}") from error
    if not jax.tree.leaves(returned):
        raise ValueError(f"{takes}; it returned {checks.describe(returned)}")
    check_same(name, function, *arguments, key=key)
    return returned


def program_of(function: Callable[..., Any], *arguments: PyTree) -> Any:
    """Return the program of a function, traced again; a number that it returns is an array."""
    # JAX remembers what it traced by the function, and this one is new.
    return jax.make_jaxpr(lambda *a: jax.tree.map(jnp.asarray, function(*a)))(*arguments)


def check_same(
    name: str,
    function: Callable[..., Any],
    *arguments: PyTree,
    key: str | None = None,
    program: Any = None,
) -> bool:
    """Return whether what a function returns depends on its arguments; check that it is the same
    program whenever it is traced, and with `key`, which says in words how it is given a key, that
    it draws from no other one. Once for what a function reads.

    Args:
        name: what the function is called in messages.
        function: the function.
        arguments: shapes or values of its arguments.
        key: how it is given a key, in words; None: it may draw from any.
        program: what `scalar` returned for it, or None.

    Raises:
        ValueError: it is another program, such as with NumPy's randomness in it; or it makes a key,
            or holds one.
    """
    known = id(function), freshness.now(), key is None
    if known in _SAME and _SAME[known][0]() is function:
        return _SAME[known][1]
    program = program or program_of(function, *arguments)
    # Programs that JAX remembers inside, as of a user's own `jit`, are traced again.
    with freshness.once_more():
        again = program_of(function, *arguments)
    draw, expected = key or "draw with jax.random from a key", jaxprs.digest(again)
    if jaxprs.digest(program) != expected:
        # What a function does at its first call alone, such as to fill a cache, is no change.
        program = program_of(function, *arguments)
        if jaxprs.digest(program) != expected:
            raise ValueError(
                f"{name} must return the same for the same arguments; it reads randomness of "
                "Python or NumPy, a clock or something else that changes, which a compiled program "
                f"would keep as it was once: {draw}, or {OUTSIDE}"
            )
    if key is not None and jaxprs.draws_of_its_own(program):
        raise ValueError(
            f"{name} must draw from a key that it is given, because one that it makes or holds "
            f"gives the same numbers for all chains and draws: {draw}, or {OUTSIDE}"
        )
    depends = bool(jaxprs.computed_from(program))
    with contextlib.suppress(TypeError):  # not all can be referred to weakly
        _SAME[known] = weakref.ref(function, lambda _: _SAME.pop(known, None)), depends
    return depends


def scalar(
    name: str,
    of_what: str,
    function: Callable[..., Array | float],
    *arguments: PyTree,
    names: tuple[str, str] = ("position", "datum"),
) -> Any:
    """Check that a function of these shapes returns one floating-point scalar; return its program,
    in which a number is an array. The first arguments have the names in messages.
    """
    try:
        program, shape = jax.make_jaxpr(lambda *a: jnp.asarray(function(*a)), return_shape=True)(
            *arguments
        )
    except Exception as error:
        named = zip(names, arguments, strict=False)
        shapes = ", ".join(checks.listed(argument, tree) for argument, tree in named)
        raise ValueError(
            f"{name} must return a scalar for {of_what}; it failed on them: {checks.reason(error)} "
            f"({shapes}){_way_out(error, arguments[0])}"
        ) from error
    if shape.shape != () or not jnp.issubdtype(shape.dtype, jnp.floating):
        raise ValueError(
            f"{name} must return a floating-point scalar for {of_what}; it returned "
            f"{checks.describe(shape)}"
        )
    return program


def _way_out(error: Exception, position: PyTree) -> str:
    """Return what may help with a function that fails on a position; nothing if unknown."""
    if "Cannot mutate" in str(error):
        return ": a network in training mode writes its statistics; call its eval() first"
    if isinstance(error, jax.errors.UnexpectedTracerError):
        return (
            ": it holds a number that was made under jit, vmap or grad and has left it, such as a "
            "prior_scale; make a model for each number outside"
        )
    lengths = [x.shape[:1] for x in jax.tree.leaves(position)]
    if len(lengths) > 1 and len(set(lengths)) == 1 and lengths[0] not in ((), (1,)):
        return f": if the leading axis, {lengths[0][0]} of each array, counts chains, stacked=True"
    return ""


def differentiable(
    name: str,
    function: Callable[..., Array | float],
    position: PyTree,
    *others: PyTree,
    may_be_flat: bool = False,
) -> None:
    """Raise ValueError if a function of these shapes has no gradient by the position, or depends on
    it through whole numbers and comparisons alone.

    With `may_be_flat` the gradient may be 0 by its structure, as that of a uniform prior is.
    """
    takes = f"{name} must be differentiable by jax.grad, for a method that goes by gradients"

    def value(position: PyTree, *others: PyTree) -> Array:
        return jnp.asarray(function(position, *others))

    try:
        gradient = jax.make_jaxpr(jax.grad(value))(position, *others)
    except Exception as error:
        raise ValueError(
            f"{takes}; got {checks.reason(error)} (for a while_loop take lax.scan or a fori_loop "
            "with static bounds; give a callback of the host or a loop its derivative by "
            "jax.custom_vjp or jax.custom_jvp; without any take ewsg_jax.random_walk_metropolis)"
        ) from error
    if may_be_flat:
        return
    shapes = jax.tree.leaves((position, others))
    zeros = jaxprs.interpret(gradient, [False] * len(shapes), _are_zeros, _is_zero)
    if all(zeros):
        inputs = jaxprs.computed_from(jax.make_jaxpr(value)(position, *others))
        if any(i < len(jax.tree.leaves(position)) for i in inputs):
            raise ValueError(
                f"{takes}; got a function whose gradient is 0 everywhere: it depends on the "
                "position through comparisons, an order (argmax, argsort), rounding or "
                "stop_gradient alone (make it smooth, such as by jax.nn.sigmoid for a comparison; "
                "without a gradient take ewsg_jax.random_walk_metropolis)"
            )


def _are_zeros(equation: jaxprs.Equation, are_zero: list[bool]) -> list[bool]:
    """Return whether the results of an equation are zeros that were filled in."""
    is_filled = equation.primitive.name == "broadcast_in_dim" and are_zero[0]
    return [is_filled] * len(equation.outvars)


def _is_zero(constant: Any) -> bool:
    """Return whether a constant of a program is the number 0."""
    is_number = not checks.is_traced(constant) and np.shape(constant) == ()
    return is_number and jnp.issubdtype(jnp.result_type(constant), jnp.number) and not constant
