"""Wrong calls of what is made of draws and gradients at them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.checking import DRAWS, TREE, of_draws, of_mode
from tests.wrong_calls.standard import COUNT, NUMBER, every
from tests.wrong_calls.table import DATA, KEY, MODEL, WRONG

diagnostics = ewsg.diagnostics


def discrepancy(samples=DRAWS, **changes):
    """A discrepancy, with something wrong."""
    given = {"key": KEY, "posterior": MODEL, "data": DATA} | changes
    three = given.pop("key"), samples, given.pop("posterior"), given.pop("data")
    return diagnostics.kernel_stein_discrepancy(*three, **given)


def thinned(samples=DRAWS, **changes):
    """Draws to choose, with something wrong."""
    given = {"key": KEY, "posterior": MODEL, "data": DATA, "count": 3} | changes
    four = given.pop("key"), samples, given.pop("posterior"), given.pop("data"), given.pop("count")
    return diagnostics.stein_thinning(*four, **given)


def controlled(samples=DRAWS, **changes):
    """Control variates, with something wrong."""
    given = {"key": KEY, "posterior": MODEL, "data": DATA} | changes
    three = given.pop("key"), samples, given.pop("posterior"), given.pop("data")
    return diagnostics.control_variates(*three, **given)


arguments = {"key": KEY, "samples": DRAWS, "posterior": MODEL, "data": DATA}
for build, more in (
    (diagnostics.kernel_stein_discrepancy, {}),
    (diagnostics.stein_thinning, {"count": 3}),
    (diagnostics.control_variates, {"function": jnp.sum}),
):
    right = functools.partial(build, **arguments, **more)
    kinds = {"batch_size": None, "rows": None, "temperature": NUMBER}
    kinds |= {"count": COUNT} if more.get("count") else {}
    every(f"diagnostics.{build.__name__}", right, **kinds)
of_draws("diagnostics.kernel_stein_discrepancy", discrepancy)
of_draws("diagnostics.stein_thinning", thinned)
of_draws("diagnostics.control_variates", controlled)
of_mode("diagnostics.kernel_stein_discrepancy", discrepancy)
of_mode("diagnostics.stein_thinning", thinned)
WIDE = np.random.default_rng(1).normal(size=(2, 20, 5)).astype(np.float32)
WRONG["diagnostics.control_variates"] |= {
    "V order | got 3 | from 1 to 2": lambda: controlled(order=3),
    "T order | 'second' | from 1 to 2": lambda: controlled(order="second"),
    "T function | 3 (int) | (position)": lambda: controlled(function=3),
    "V function | TypeError | a position": lambda: controlled(function=lambda: 1.0),
    "V function | None | a pytree of arrays": lambda: controlled(function=lambda w: None),
    "V order | 20 control variates, and 40 draws | 4 for each control variate": lambda: controlled(
        WIDE, order=2, data=np.ones((3, 5), np.float32)
    ),
}
FEW = thinned()
WRONG["diagnostics.Thinned"] |= {
    f"T samples | 'draws' (str) | {TREE}": lambda: FEW.of("draws"),
    "V samples | (1, 1, 2) | that were thinned": lambda: FEW.of(DRAWS[:1, :1]),
}
