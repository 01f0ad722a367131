"""Wrong calls of halving the step."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools
import warnings

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from tests.wrong_calls.checking import A_RATE
from tests.wrong_calls.standard import Kind, every, refuses
from tests.wrong_calls.table import (
    DATA,
    KERNEL,
    KEY,
    LANGEVIN,
    MODEL,
    NAN,
    POINT,
    UNIFORM,
    WRONG,
    V,
)

A_KERNEL = "ewsg_jax.kernel(…) or a named method"


def halved(kernel=KERNEL, position=POINT, data=DATA, num_steps=100, **changes):
    """Halve with something wrong."""
    return ewsg.halve(changes.pop("key", KEY), kernel, position, data, num_steps, **changes)


def of_estimator(make, **options):
    """Langevin dynamics on an estimator of batches of 2."""
    return ewsg.kernel(LANGEVIN, make(MODEL, batch_size=2, **options))


def without_warnings(call):
    """That chains diverge is warned of, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


right = functools.partial(
    ewsg.halve, key=KEY, kernel=KERNEL, position=POINT, data=DATA, num_steps=100
)
every("halve", right, num_chains=None)
G = ewsg.gradients
TWO_STEPS = ewsg.stack([ewsg.sgld(MODEL, h, batch_size=2) for h in (0.1, 0.2)])
BY_SIGNS = ewsg.dynamics.langevin(0.1, noise="rademacher")
refuses(
    "halve",
    halved,
    kernel=Kind(
        "whose bias has a known order in a constant step size",
        (
            (V, of_estimator(G.svrg, refresh_every=3), "svrg("),
            (V, of_estimator(G.saga), "saga("),
            (V, of_estimator(G.uniform, rows="epochs"), "rows='epochs'"),
            (V, of_estimator(G.uniform, rows="block_epochs"), "'block_epochs'"),
            (V, of_estimator(G.control_variate, rows="epochs"), "'epochs'"),
            (V, ewsg.ewsg_ld(MODEL, 0.1, batch_size=2), "exponentially_weighted("),
            (V, ewsg.sgnht(MODEL, 0.1, friction=1.0, batch_size=2), "thermostat("),
            (V, ewsg.psgld(MODEL, 0.1, batch_size=2), "preconditioned("),
            (V, ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=2), "noise_corrected("),
            (V, ewsg.kernel(BY_SIGNS, UNIFORM), "noise='rademacher'"),
            (V, ewsg.sgld(MODEL, lambda t: 0.1, batch_size=2), "step_size=<lambda>"),
            (V, ewsg.sghmc(MODEL, 0.1, friction=lambda t: 1.0, batch_size=2), "friction=<lambda>"),
            (V, ewsg.random_walk_metropolis(MODEL, 0.1), "random_walk_metropolis("),
            (V, TWO_STEPS, "stack of 2"),
        ),
    ),
)
WRONG["halve"] |= {
    f"T kernel | langevin( | {A_KERNEL}": lambda: halved(LANGEVIN),
    "T data | several | one data set": lambda: halved(data=ewsg.stack_data([DATA, DATA])),
    "V position | got bfloat16 | at least of float32": lambda: halved(
        position=jnp.zeros(POINT.shape, jnp.bfloat16)
    ),
    "V data | 1 NaN | must be finite": lambda: halved(data=DATA.at[0, 0].set(NAN)),
    "T halve | traced | on the host": lambda: jax.jit(halved)(KERNEL, POINT),
    "V num_steps | got 20 | at least burn_in + 16 = 31": lambda: halved(num_steps=20, burn_in=15),
    "V num_chains | got 4 | at least 8": lambda: halved(num_chains=4),
    f"V tolerance | got 2 | {A_RATE}": lambda: halved(tolerance=2),
    f"V error_rate | got 1.5 | {A_RATE}": lambda: halved(error_rate=1.5),
    "V names | 1 | must be 2": lambda: halved(names=["a"]),
    "V kernel | 32 of 32 pairs | a step size at which chains stay finite": lambda: without_warnings(
        lambda: halved(ewsg.ld(MODEL, 1e10), jnp.ones(2))
    ),
}
