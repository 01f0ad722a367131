"""Functions that JAX differentiates once only, or not at all, for tests."""

import jax


@jax.custom_jvp
def opaque(x):
    """Return x, of which no derivative is known."""
    return x


@opaque.defjvp
def _(primals, tangents):
    raise NotImplementedError("Differentiation rule for 'opaque' not implemented")


def once(function):
    """Return the function with its gradient and no second derivative, which raises."""
    return _with_rule(function, lambda x: x, opaque)


def silently_once(function):
    """Return the function with its gradient, whose derivatives are 0 without a word."""
    return _with_rule(function, jax.lax.stop_gradient, jax.lax.stop_gradient)


def _with_rule(function, kept, made):
    @jax.custom_vjp
    def value(*arguments):
        return function(*arguments)

    def forward(*arguments):
        return value(*arguments), jax.tree.map(kept, arguments)

    def backward(arguments, cotangent):
        return jax.tree.map(made, jax.vjp(function, *arguments)[1](cotangent))

    value.defvjp(forward, backward)
    return value
