"""Wrong calls of the adaptive dynamics, and of the methods made of them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import jax.numpy as jnp

import ewsg_jax as ewsg
from tests.wrong_calls.standard import Kind, refuses
from tests.wrong_calls.table import (
    DATA,
    KEY,
    MODEL,
    POINT,
    POSITIVE,
    UNIFORM,
    WRONG,
    T,
    V,
    failing,
)


def identity(position, data):
    """The inverse metric of plain Langevin."""
    return jnp.ones_like(position)


def preconditioned(step_size=0.1, **options):
    return ewsg.dynamics.preconditioned(step_size, **options)


def riemannian(step_size=0.1, **options):
    return ewsg.dynamics.riemannian(step_size, **({"inverse_metric": identity} | options))


def stepped(inverse_metric, position=POINT, **options):
    """One step in a metric."""
    kernel = ewsg.sgrld(MODEL, 0.1, inverse_metric=inverse_metric, batch_size=2, **options)
    return kernel.step(KEY, kernel.init(KEY, position, DATA), DATA)


WRONG["dynamics.preconditioned"] |= {
    "V damping | 0.0 (float) | damping must be a positive": lambda: preconditioned(damping=0.0),
    "V damping | None | correction=True": lambda: preconditioned(correction=True),
}
LIKE, SQUARE = "a pytree like the position", "or an array (2, 2)"
WRONG["dynamics.riemannian"] |= {
    "T inverse_metric | (2, 2) | a function (position": lambda: riemannian(
        inverse_metric=jnp.eye(2)
    ),
    "T divergence | True (bool) | a function (position": lambda: riemannian(divergence=True),
}
WRONG["sgrld"] |= {
    f"V inverse_metric | RuntimeError: the disk is full | {SQUARE}": lambda: stepped(failing),
    f"V inverse_metric | it: (3,) float32 | {LIKE}": lambda: stepped(lambda p, data: jnp.ones(3)),
    f"V inverse_metric | it: () float32 | {SQUARE}": lambda: stepped(lambda p, data: 1.0),
    "V inverse_metric | (2,) int32 | floating": lambda: stepped(lambda p, data: jnp.arange(2)),
    "V inverse_metric | it['x']: (2,) float32 | position: (2,) float32": lambda: stepped(
        lambda p, data: {"x": p}
    ),
    f"V inverse_metric | nothing | {LIKE}": lambda: stepped(lambda p, data: None),
    f"V divergence | (2, 2) | {LIKE}": lambda: stepped(
        identity, divergence=lambda p, data: jnp.eye(2)
    ),
}

WRONG["psgld"] |= {
    f"V damping | -1.0 (float) | {POSITIVE}": lambda: ewsg.psgld(
        MODEL, 0.1, batch_size=1, damping=-1.0
    ),
}

MEMORY = Kind(
    "must be a whole number, at least 2",
    ((V, 1, "got 1"), (T, 2.5, "2.5 (float)"), (T, True, "True (bool)")),
)
quasi_newton = functools.partial(ewsg.dynamics.quasi_newton, 0.1)
refuses("dynamics.quasi_newton", quasi_newton, memory_size=MEMORY)
refuses("hamcmc", functools.partial(ewsg.hamcmc, MODEL, 0.1, batch_size=2), memory_size=MEMORY)
WRONG["dynamics.quasi_newton"] |= {
    "V frozen_noise of this dynamics | 'rest' | one of 'momentum', 'zero', 'one'": lambda: (
        ewsg.kernel(
            quasi_newton(), ewsg.gradients.exponentially_weighted(UNIFORM, frozen_noise="rest")
        )
    ),
}
