"""Wrong calls of halving the step."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools
import warnings

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from tests.wrong_calls.checking import A_RATE
from tests.wrong_calls.standard import every
from tests.wrong_calls.table import (
    DATA,
    KERNEL,
    KEY,
    LANGEVIN,
    MODEL,
    NAN,
    POINT,
    UNIFORM,
    T,
    V,
    of,
    row,
)

ORDER = "whose bias has a known order in a constant step size"
A_KERNEL = "ewsg_jax.kernel(…) or a named method"


def halved(kernel=KERNEL, position=POINT, data=DATA, num_steps=100, **changes):
    """Halve with something wrong."""
    return ewsg.halve(
        changes.pop("key", KEY),
        kernel,
        position,
        data,
        num_steps,
        **({"progress": False} | changes),
    )


def of_estimator(make, **options):
    """Halve with an estimator of batches of 2."""
    return halved(ewsg.kernel(LANGEVIN, make(MODEL, batch_size=2, **options)))


def without_warnings(call):
    """That chains diverge is warned of, too."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def refused(got, call):
    """A kernel whose order is not known."""
    return row(V, f"kernel | {got} | {ORDER}", call)


right = functools.partial(
    ewsg.halve,
    key=KEY,
    kernel=KERNEL,
    position=POINT,
    data=DATA,
    num_steps=100,
    progress=False,
)
every("halve", right, num_chains=None)
of(
    "halve",
    row(T, f"kernel | langevin( | {A_KERNEL}", lambda: halved(LANGEVIN)),
    refused("svrg(", lambda: of_estimator(ewsg.gradients.svrg, refresh_every=3)),
    refused("saga(", lambda: of_estimator(ewsg.gradients.saga)),
    refused("rows='epochs'", lambda: of_estimator(ewsg.gradients.uniform, rows="epochs")),
    refused(
        "'block_epochs'",
        lambda: of_estimator(ewsg.gradients.uniform, rows="block_epochs"),
    ),
    refused(
        "'epochs'",
        lambda: of_estimator(ewsg.gradients.control_variate, rows="epochs"),
    ),
    refused("exponentially_weighted(", lambda: halved(ewsg.ewsg_ld(MODEL, 0.1, batch_size=2))),
    refused(
        "thermostat(",
        lambda: halved(ewsg.sgnht(MODEL, 0.1, friction=1.0, batch_size=2)),
    ),
    refused("preconditioned(", lambda: halved(ewsg.psgld(MODEL, 0.1, batch_size=2))),
    refused(
        "noise_corrected(",
        lambda: halved(ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=2)),
    ),
    refused(
        "noise='rademacher'",
        lambda: halved(ewsg.kernel(ewsg.dynamics.langevin(0.1, noise="rademacher"), UNIFORM)),
    ),
    refused(
        "step_size=<lambda>",
        lambda: halved(ewsg.sgld(MODEL, lambda t: 0.1, batch_size=2)),
    ),
    refused(
        "friction=<lambda>",
        lambda: halved(ewsg.sghmc(MODEL, 0.1, friction=lambda t: 1.0, batch_size=2)),
    ),
    refused(
        "random_walk_metropolis(",
        lambda: halved(ewsg.random_walk_metropolis(MODEL, 0.1)),
    ),
    refused(
        "stack of 2",
        lambda: halved(ewsg.stack([ewsg.sgld(MODEL, h, batch_size=2) for h in (0.1, 0.2)])),
    ),
    row(T, "data | several | one data set", lambda: halved(data=ewsg.stack_data([DATA, DATA]))),
    row(V, "data | 1 NaN | must be finite", lambda: halved(data=DATA.at[0, 0].set(NAN))),
    row(T, "halve | traced | on the host", lambda: jax.jit(halved)(KERNEL, POINT)),
    row(
        V,
        "num_steps | got 20 | at least burn_in + 16 = 31",
        lambda: halved(num_steps=20, burn_in=15),
    ),
    row(V, "num_chains | got 4 | at least 8", lambda: halved(num_chains=4)),
    row(V, f"tolerance | got 2 | {A_RATE}", lambda: halved(tolerance=2)),
    row(V, f"error_rate | got 1.5 | {A_RATE}", lambda: halved(error_rate=1.5)),
    row(V, "names | 1 | must be 2", lambda: halved(names=["a"])),
)
of(
    "halve",
    row(
        V,
        "kernel | 32 of 32 pairs | a step size at which chains stay finite",
        lambda: without_warnings(lambda: halved(ewsg.ld(MODEL, 1e10), jnp.ones(2))),
    ),
)
