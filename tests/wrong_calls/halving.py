"""Wrong calls of halving the step."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import warnings

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from tests.wrong_calls.checking import A_RATE
from tests.wrong_calls.table import (
    A_KEY,
    A_TREE,
    DATA,
    KERNEL,
    KEY,
    LANGEVIN,
    MODEL,
    NAMES,
    NAN,
    OLD_KEY,
    POINT,
    POSITIVE,
    ROWS_SHARED,
    UNIFORM,
    WHOLE,
    WHOLE_0,
    T,
    V,
    of,
)

ORDER, A_KERNEL = (
    "whose bias has a known order in a constant step size",
    "ewsg_jax.kernel(…) or a named method",
)


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


def refused(what, got, call):
    """A kernel whose order is not known."""
    return what, V, "kernel", got, ORDER, call


of(
    "halve",
    ("legacy key", T, "key", "uint32", A_KEY, lambda: halved(key=OLD_KEY)),
    ("a dynamics", T, "kernel", "langevin(", A_KERNEL, lambda: halved(LANGEVIN)),
    refused("anchors", "svrg(", lambda: of_estimator(ewsg.gradients.svrg, refresh_every=3)),
    refused("tables", "saga(", lambda: of_estimator(ewsg.gradients.saga)),
    refused("epochs", "rows='epochs'", lambda: of_estimator(ewsg.gradients.uniform, rows="epochs")),
    refused(
        "blocks' epochs",
        "'block_epochs'",
        lambda: of_estimator(ewsg.gradients.uniform, rows="block_epochs"),
    ),
    refused(
        "a centre and epochs",
        "'epochs'",
        lambda: of_estimator(ewsg.gradients.control_variate, rows="epochs"),
    ),
    refused(
        "weights", "exponentially_weighted(", lambda: halved(ewsg.ewsg_ld(MODEL, 0.1, batch_size=2))
    ),
    refused(
        "a thermostat",
        "thermostat(",
        lambda: halved(ewsg.sgnht(MODEL, 0.1, friction=1.0, batch_size=2)),
    ),
    refused(
        "a preconditioner", "preconditioned(", lambda: halved(ewsg.psgld(MODEL, 0.1, batch_size=2))
    ),
    refused(
        "friction against heat",
        "noise_corrected(",
        lambda: halved(ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=2)),
    ),
    refused(
        "noise of signs",
        "noise='rademacher'",
        lambda: halved(ewsg.kernel(ewsg.dynamics.langevin(0.1, noise="rademacher"), UNIFORM)),
    ),
    refused(
        "a schedule",
        "got a schedule",
        lambda: halved(ewsg.sgld(MODEL, lambda t: 0.1, batch_size=2)),
    ),
    refused(
        "a schedule of the friction",
        "got a schedule",
        lambda: halved(ewsg.sghmc(MODEL, 0.1, friction=lambda t: 1.0, batch_size=2)),
    ),
    refused(
        "Metropolis",
        "random_walk_metropolis(",
        lambda: halved(ewsg.random_walk_metropolis(MODEL, 0.1)),
    ),
    refused(
        "a stack",
        "stack of 2",
        lambda: halved(ewsg.stack([ewsg.sgld(MODEL, h, batch_size=2) for h in (0.1, 0.2)])),
    ),
    (
        "several data sets",
        T,
        "data",
        "several",
        "one data set",
        lambda: halved(data=ewsg.stack_data([DATA, DATA])),
    ),
    (
        "data of two lengths",
        V,
        "data",
        "5",
        ROWS_SHARED,
        lambda: halved(data={"a": DATA, "b": DATA[:5]}),
    ),
    (
        "data that are not finite",
        V,
        "data",
        "1 NaN",
        "must be finite",
        lambda: halved(data=DATA.at[0, 0].set(NAN)),
    ),
    ("position as text", T, "position", "'zero'", A_TREE, lambda: halved(position="zero")),
    (
        "a position of a jitted function",
        T,
        "halve",
        "traced",
        "on the host",
        lambda: jax.jit(halved)(KERNEL, POINT),
    ),
    ("num_steps", V, "num_steps", "got 0", WHOLE, lambda: halved(num_steps=0)),
    ("num_steps, a fraction", T, "num_steps", "10.5", WHOLE, lambda: halved(num_steps=10.5)),
    (
        "few steps",
        V,
        "num_steps",
        "got 20",
        "at least burn_in + 16 = 31",
        lambda: halved(num_steps=20, burn_in=15),
    ),
    ("burn_in", V, "burn_in", "-1", WHOLE_0, lambda: halved(burn_in=-1)),
    ("few pairs", V, "num_chains", "got 4", "at least 8", lambda: halved(num_chains=4)),
    ("tolerance", V, "tolerance", "-0.1", POSITIVE, lambda: halved(tolerance=-0.1)),
    ("a tolerance of all", V, "tolerance", "got 2", A_RATE, lambda: halved(tolerance=2)),
    ("error rate", V, "error_rate", "got 1.5", A_RATE, lambda: halved(error_rate=1.5)),
    ("names", V, "names", "1", "must be 2", lambda: halved(names=["a"])),
    ("names as one text", T, "names", "'ab'", NAMES, lambda: halved(names="ab")),
)
of(
    "halve",
    (
        "a kernel of large steps",
        V,
        "kernel",
        "32 of 32 pairs",
        "a step size at which chains stay finite",
        lambda: without_warnings(lambda: halved(ewsg.ld(MODEL, 1e10), jnp.ones(2))),
    ),
)
