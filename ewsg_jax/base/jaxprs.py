"""The one walk through a program of JAX (a jaxpr): all that is asked of a user's function without
running it stands on it.

A question is a rule for one equation: what stands for its results, if such values stand for its
arguments. Values may be sets of inputs, signs, or arrays. The walk enters calls, whose results are
those of the program inside; a loop or a branch is one equation for the rule.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

V = TypeVar("V")
Program = Any
"""A `Jaxpr` or a `ClosedJaxpr`: JAX has no public name of either."""
Equation = Any
"""A `JaxprEqn`."""
CALLS = frozenset({"jit", "closed_call", "remat2", "custom_jvp_call", "custom_vjp_call"})
"""Primitives whose results are those of the program inside, for the same arguments."""


def interpret(
    program: Program,
    arguments: list[V],
    rule: Callable[[Equation, list[V]], list[V]],
    of_constant: Callable[[Any], V],
    calls: Collection[str] = CALLS,
) -> list[V]:
    """Return what stands for the results of a program, if such values stand for its arguments.

    Args:
        program: a jaxpr.
        arguments: one value for each of its inputs.
        rule: `rule(equation, values)` returns one value for each result of an equation.
        of_constant: the value of an array that the program holds, or of a literal.
        calls: names of primitives that are entered; for all others the rule is asked.
    """
    jaxpr = getattr(program, "jaxpr", program)
    known = dict(zip(jaxpr.invars, arguments, strict=True))
    constants = map(of_constant, getattr(program, "consts", ()))
    known |= dict(zip(jaxpr.constvars, constants, strict=True))

    def value(atom: Any) -> V:
        return of_constant(atom.val) if is_literal(atom) else known[atom]

    for equation in jaxpr.eqns:
        values = [value(atom) for atom in equation.invars]
        inner = equation.params.get("jaxpr", equation.params.get("call_jaxpr"))
        if equation.primitive.name in calls and inner is not None:
            results = interpret(inner, values, rule, of_constant, calls)
        else:
            results = rule(equation, values)
        known |= dict(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def computed_from(program: Program) -> frozenset[int]:
    """Return the numbers of the inputs that the results of a program are computed from.

    A loop or a branch is taken to need all of its arguments.
    """

    def union(equation: Equation, values: list[frozenset[int]]) -> list[frozenset[int]]:
        return [frozenset().union(*values)] * len(equation.outvars)

    inputs = [frozenset([i]) for i in range(len(getattr(program, "jaxpr", program).invars))]
    return frozenset().union(*interpret(program, inputs, union, lambda constant: frozenset()))


class _Terms(NamedTuple):
    """What a number in a program is computed from.

    Attributes:
        alone: inputs in terms that others are added to.
        together: inputs whose terms the others enter.
        has_others: whether it is computed from others.
    """

    alone: frozenset[int] = frozenset()
    together: frozenset[int] = frozenset()
    has_others: bool = False


SUMS = (
    "add sub neg add_any reduce_sum convert_element_type reshape broadcast_in_dim squeeze "
    "expand_dims transpose copy concatenate slice"
)
"""Primitives whose result is a sum of their arguments, or of numbers in them."""


def multiplied_with(program: Program, count: int) -> frozenset[int]:
    """Return which of the first `count` inputs meet the others in another way than in a sum: a
    result f(first) + g(others) is a sum, and f(first + others) is none.
    """

    def rule(equation: Equation, values: list[_Terms]) -> list[_Terms]:
        alone = frozenset().union(*(x.alone for x in values))
        together = frozenset().union(*(x.together for x in values))
        has_others, name = any(x.has_others for x in values), equation.primitive.name
        # A multiple of a sum is a sum.
        is_multiple = name in ("mul", "div") and _Terms() in values
        if has_others and not (is_multiple or name in SUMS.split()):
            alone, together = frozenset(), alone | together
        return [_Terms(alone, together, has_others)] * len(equation.outvars)

    inputs = [
        _Terms(frozenset([i])) if i < count else _Terms(has_others=True)
        for i in range(len(getattr(program, "jaxpr", program).invars))
    ]
    results = interpret(program, inputs, rule, lambda constant: _Terms())
    return frozenset().union(*(x.together for x in results))


def draws_of_its_own(program: Program) -> bool:
    """Return whether a program draws from a key that none of its inputs is."""

    def is_random(name: str) -> bool:
        return name.startswith(("random_", "threefry", "rng_"))

    draws = False

    def rule(equation: Equation, depends: list[bool]) -> list[bool]:
        nonlocal draws
        inner = (one.primitive.name for one in equations_within(equation))
        draws |= not any(depends) and any(map(is_random, (equation.primitive.name, *inner)))
        return [any(depends)] * len(equation.outvars)

    inputs = [True] * len(getattr(program, "jaxpr", program).invars)
    interpret(program, inputs, rule, lambda constant: False)
    return draws


def digest(program: Program) -> bytes:
    """Return what stands for a program: another one for other operations or other constants."""
    page = hashlib.blake2b(digest_size=16)
    _write(page, program)
    return page.digest()


def _write(page: Any, program: Program) -> None:
    jaxpr = getattr(program, "jaxpr", program)
    numbers = {atom: place for place, atom in enumerate((*jaxpr.invars, *jaxpr.constvars))}

    def write(value: Any) -> None:
        is_array = isinstance(value, jax.Array | np.ndarray | np.generic)
        if is_array and not isinstance(value, Tracer):
            if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
                value = jax.random.key_data(value)
            page.update(f"{value.dtype}{value.shape}".encode() + np.asarray(value).tobytes())
        elif isinstance(value, bool | int | float | complex | str | bytes | np.dtype | type):
            page.update(repr(value).encode())
        else:
            # Functions and places of devices are no part of what is computed.
            page.update(type(value).__name__.encode())

    for constant in getattr(program, "consts", ()):
        write(constant)
    for equation in jaxpr.eqns:
        write(equation.primitive.name)
        for atom in equation.invars:
            write(atom.val if is_literal(atom) else numbers[atom])
        for atom in equation.outvars:
            numbers[atom] = len(numbers)
            write(str(atom.aval))
        for name, value in sorted(equation.params.items()):
            write(name)
            for leaf in jax.tree.leaves(value):
                if hasattr(getattr(leaf, "jaxpr", leaf), "eqns"):
                    _write(page, leaf)
                else:
                    write(leaf)
    for atom in jaxpr.outvars:
        write(atom.val if is_literal(atom) else numbers[atom])


def programs_in(equation: Equation) -> list[Program]:
    """Return the programs inside an equation: of a call, a loop or the branches."""
    parameters = jax.tree.leaves(equation.params)
    return [x for x in parameters if hasattr(getattr(x, "jaxpr", x), "eqns")]


def equations(program: Program) -> Iterator[Equation]:
    """Yield the equations of a program and of those inside it."""
    for equation in getattr(program, "jaxpr", program).eqns:
        yield equation
        yield from equations_within(equation)


def equations_within(equation: Equation) -> Iterator[Equation]:
    """Yield the equations of the programs inside an equation."""
    for inner in programs_in(equation):
        yield from equations(inner)


def constants(program: Program) -> Iterator[Any]:
    """Yield the arrays that a program and those inside it hold, and their literals."""
    yield from getattr(program, "consts", ())
    for equation in equations(program):
        yield from (atom.val for atom in equation.invars if is_literal(atom))
        for inner in programs_in(equation):
            yield from getattr(inner, "consts", ())


def is_literal(atom: Any) -> bool:
    """Return whether an atom is a literal, which has a value, and no variable."""
    return hasattr(atom, "val")


def carried_out(equation: Equation, values: list[Any]) -> list[Any]:
    """Return the results of an equation for these arrays."""
    options = equation.primitive.get_bind_params(equation.params)
    # JAX 0.10 returns functions apart, later versions all by name.
    functions, options = options if isinstance(options, tuple) else ((), options)
    results = equation.primitive.bind(*functions, *values, **options)
    return list(results) if equation.primitive.multiple_results else [results]
