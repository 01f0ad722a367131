"""Wrong calls of what is made of draws and gradients at them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.checking import A_MODE, DRAWS, LEADING, NO_ROOT, TREE, norms
from tests.wrong_calls.standard import NUMBER, every
from tests.wrong_calls.table import (
    DATA,
    KEY,
    MODEL,
    NAN,
    WHOLE,
    T,
    V,
    of,
    row,
)

diagnostics = ewsg.diagnostics
MANY = jnp.tile(DATA, (9, 1))


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


of_draws = {"key": KEY, "samples": DRAWS, "posterior": MODEL, "data": DATA}
for build, more in (
    (diagnostics.kernel_stein_discrepancy, {}),
    (diagnostics.stein_thinning, {"count": 3}),
    (diagnostics.control_variates, {"function": jnp.sum}),
):
    right = functools.partial(build, **of_draws, **more)
    kinds = {"batch_size": None, "rows": None, "temperature": NUMBER}
    every(f"diagnostics.{build.__name__}", right, **kinds)
for entry, call in {
    "diagnostics.kernel_stein_discrepancy": discrepancy,
    "diagnostics.stein_thinning": thinned,
    "diagnostics.control_variates": controlled,
}.items():
    of(
        entry,
        row(T, f"samples | 'draws' (str) | {TREE}", lambda call=call: call("draws")),
        row(V, f"samples | (20,) | {LEADING}", lambda call=call: call(DRAWS[0, :, 0])),
        row(V, "samples | 2 of 3 | at least 8 draws", lambda call=call: call(DRAWS[:, :3])),
        row(V, "samples | none | stayed finite", lambda call=call: call(DRAWS * NAN)),
        row(V, "samples | something else | must hold positions", lambda call=call: call(norms())),
        row(
            T,
            "samples | traced | outside of jit",
            lambda call=call: jax.jit(call)(jnp.asarray(DRAWS)),
        ),
        row(V, "data | 0 | row", lambda call=call: call(data=DATA[:0])),
        row(
            V,
            "samples | draws where it has none | must lie where the potential has a gradient",
            lambda call=call: call(posterior=NO_ROOT),
        ),
        row(V, "max_draws | got 10 | at least 64", lambda call=call: call(max_draws=10)),
        row(V, "batch_size | got 1 | at least 2", lambda call=call: call(batch_size=1)),
        row(T, "batch_size | 'all' | whole number", lambda call=call: call(batch_size="all")),
        row(
            V,
            "rows | 'some' | 'random'",
            lambda call=call: call(rows="some", batch_size=2, data=MANY),
        ),
    )
for entry, call in {
    "diagnostics.kernel_stein_discrepancy": discrepancy,
    "diagnostics.stein_thinning": thinned,
}.items():
    of(
        entry,
        row(T, "mode | array | ewsg_jax.find_mode", lambda call=call: call(mode=jnp.zeros(2))),
        row(
            V,
            "mode | (2,) | of these positions",
            lambda call=call: call(DRAWS[..., :1], mode=A_MODE),
        ),
    )
for entry, call in {
    "diagnostics.kernel_stein_discrepancy": discrepancy,
    "diagnostics.control_variates": controlled,
}.items():
    of(
        entry,
        row(
            T,
            "shared_minibatch | 'yes' | True or False",
            lambda call=call: call(shared_minibatch="yes"),
        ),
    )
of(
    "diagnostics.stein_thinning",
    row(V, f"count | got 0 | {WHOLE}", lambda: thinned(count=0)),
    row(T, f"count | 0.1 (float) | {WHOLE}", lambda: thinned(count=0.1)),
)
WIDE = np.random.default_rng(1).normal(size=(2, 20, 5)).astype(np.float32)
of(
    "diagnostics.control_variates",
    row(V, "order | got 3 | from 1 to 2", lambda: controlled(order=3)),
    row(T, "order | 'second' | from 1 to 2", lambda: controlled(order="second")),
    row(T, "function | 3 (int) | (position)", lambda: controlled(function=3)),
    row(V, "function | TypeError | a position", lambda: controlled(function=lambda: 1.0)),
    row(V, "function | None | a tree of arrays", lambda: controlled(function=lambda w: None)),
    row(
        V,
        "order | 20 control variates, and 40 draws | 4 for each control variate",
        lambda: controlled(WIDE, order=2, data=np.ones((3, 5), np.float32)),
    ),
)
FEW = thinned()
of(
    "diagnostics.Thinned",
    row(T, f"samples | 'draws' (str) | {TREE}", lambda: FEW.of("draws")),
    row(V, "samples | (1, 1, 2) | that were thinned", lambda: FEW.of(DRAWS[:1, :1])),
)
