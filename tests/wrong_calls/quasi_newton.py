"""Wrong calls of the quasi-Newton dynamics and of the method made of it."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import ewsg_jax as ewsg
from tests.wrong_calls.table import MODEL, T, V, of, row


def dynamics(step_size=0.1, **options):
    return ewsg.dynamics.quasi_newton(step_size, **options)


def hamcmc(step_size=0.1, **options):
    return ewsg.hamcmc(MODEL, step_size, **({"batch_size": 2} | options))


SIZE = "must be a whole number, at least 2"

of(
    "dynamics.quasi_newton",
    row(V, f"memory_size | got 1 | {SIZE}", lambda: dynamics(memory_size=1)),
    row(T, f"memory_size | 2.5 (float) | {SIZE}", lambda: dynamics(memory_size=2.5)),
    row(T, f"memory_size | True (bool) | {SIZE}", lambda: dynamics(memory_size=True)),
    row(V, "noise | 'gausian' | did you mean 'gaussian'?", lambda: dynamics(noise="gausian")),
    row(
        V,
        "frozen_noise of this dynamics | 'rest' | one of 'momentum', 'zero', 'one'",
        lambda: ewsg.kernel(
            dynamics(),
            ewsg.gradients.exponentially_weighted(
                ewsg.gradients.uniform(MODEL, batch_size=1), frozen_noise="rest"
            ),
        ),
    ),
)
of("hamcmc", row(V, f"memory_size | got 1 | {SIZE}", lambda: hamcmc(memory_size=1)))
