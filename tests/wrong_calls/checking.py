"""Wrong calls of the check of draws."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    A_KEY,
    A_POSTERIOR,
    DATA,
    KEY,
    MODEL,
    NAMES,
    NAN,
    OLD_KEY,
    POSITIVE,
    T,
    V,
    of,
)

DRAWS = np.random.default_rng(0).normal(size=(2, 20, 2)).astype(np.float32)
A_MODE = ewsg.find_mode(KEY, MODEL, jnp.zeros(2), DATA, progress=False)
TREE, LEADING = "a tree of arrays with leading axes (chain, draw)", "leading axes (chain, draw)"
A_RATE = "must be a number from 0 up to but not including 1"
NO_ROOT = ewsg.Posterior(lambda w, x: -jnp.sum((w - x) ** 2), lambda w: jnp.sum(jnp.sqrt(w)))


def checked(samples=DRAWS, **changes):
    """Check draws with something wrong."""
    arguments = {"key": KEY, "posterior": MODEL, "data": DATA} | changes
    return ewsg.check(
        arguments.pop("key"),
        samples,
        arguments.pop("posterior"),
        arguments.pop("data"),
        **arguments,
    )


def norms():
    """A run that keeps no positions."""
    kernel = ewsg.ld(MODEL, 0.01)
    return ewsg.sample(KEY, kernel, jnp.zeros(2), DATA, 20, keep=jnp.linalg.norm, progress=False)


def run(kernel, data=DATA):
    """A run of few draws."""
    return ewsg.sample(KEY, kernel, jnp.zeros(2), data, 20, num_chains=2, progress=False)


LANGEVIN, UNDERDAMPED = ewsg.ld(MODEL, 0.01), ewsg.uld(MODEL, 0.01, friction=1.0)
WITH_MOMENTUM = "of a dynamics with a momentum"

of(
    "check",
    (
        "a number of devices",
        T,
        "mesh",
        "2 (int)",
        "a jax.sharding.Mesh whose axes",
        lambda: checked(DRAWS, mesh=2),
    ),
    (
        "no kernel",
        T,
        "kernel",
        "'uld' (str)",
        WITH_MOMENTUM,
        lambda: checked(run(UNDERDAMPED), kernel="uld"),
    ),
    (
        "a kernel without momentum",
        V,
        "kernel",
        "langevin(",
        WITH_MOMENTUM,
        lambda: checked(run(LANGEVIN), kernel=LANGEVIN),
    ),
    (
        "a kernel and mere draws",
        T,
        "samples",
        "(2, 20, 2)",
        "where kernel is given",
        lambda: checked(kernel=UNDERDAMPED),
    ),
    (
        "another kernel",
        V,
        "state",
        "memory",
        "of this kernel",
        lambda: checked(
            run(UNDERDAMPED), kernel=ewsg.svrg_hmc(MODEL, 0.01, friction=1.0, batch_size=2)
        ),
    ),
    ("legacy key", T, "key", "uint32", A_KEY, lambda: checked(key=OLD_KEY)),
    (
        "a kernel",
        T,
        "posterior",
        "kernel(",
        A_POSTERIOR,
        lambda: checked(posterior=ewsg.ld(MODEL, 0.1)),
    ),
    ("a text", T, "samples", "'draws' (str)", TREE, lambda: checked("draws")),
    ("nothing", T, "samples", "None", TREE, lambda: checked(None)),
    (
        "whole numbers",
        V,
        "samples",
        "int32",
        "floating-point",
        lambda: checked(DRAWS.astype(np.int32)),
    ),
    ("one axis", V, "samples", "(20,)", LEADING, lambda: checked(DRAWS[0, :, 0])),
    (
        "leaves of other lengths",
        V,
        "samples",
        "(2, 19, 2)",
        "the same of all",
        lambda: checked({"a": DRAWS, "b": DRAWS[:, 1:]}),
    ),
    ("few draws", V, "samples", "2 of 3", "at least 8 draws", lambda: checked(DRAWS[:, :3])),
    ("no chain", V, "samples", "0 of 20", "must have a chain", lambda: checked(DRAWS[:0])),
    (
        "draws that never move",
        V,
        "samples",
        "position[1]",
        "must move in every",
        lambda: checked(DRAWS * [1, 0]),
    ),
    (
        "draws of a jitted function",
        T,
        "samples",
        "traced",
        "outside of jit",
        lambda: jax.jit(checked)(jnp.asarray(DRAWS)),
    ),
    ("no finite chain", V, "samples", "none", "stayed finite", lambda: checked(DRAWS * NAN)),
    (
        "no positions",
        V,
        "samples",
        "keep something else",
        "must hold positions",
        lambda: checked(norms()),
    ),
    (
        "another position",
        V,
        "shape",
        "(2,)",
        "(3,)",
        lambda: checked(np.concatenate([DRAWS, DRAWS[..., :1]], 2)),
    ),
    ("data of no rows", V, "data", "0", "row", lambda: checked(data=DATA[:0])),
    (
        "outside the support",
        V,
        "samples",
        "draws where it has none",
        "must lie where the potential has a gradient",
        lambda: checked(posterior=NO_ROOT),
    ),
    ("no mode", T, "mode", "array", "ewsg_jax.find_mode", lambda: checked(mode=jnp.zeros(2))),
    (
        "a mode of something else",
        V,
        "mode",
        "(2,)",
        "of these positions",
        lambda: checked(DRAWS[..., :1], mode=A_MODE),
    ),
    (
        "a mode without widths",
        V,
        "mode",
        "rank=0",
        "curvature",
        lambda: checked(mode=A_MODE._replace(curvature=None)),
    ),
    ("temperature", V, "temperature", "got 0", POSITIVE, lambda: checked(temperature=0)),
    ("tolerance", V, "tolerance", "-0.1", POSITIVE, lambda: checked(tolerance=-0.1)),
    ("a tolerance of all", V, "tolerance", "got 2", A_RATE, lambda: checked(tolerance=2)),
    ("error rate", V, "error_rate", "got 1.5", A_RATE, lambda: checked(error_rate=1.5)),
    (
        "shared as text",
        T,
        "shared_minibatch",
        "'yes'",
        "True or False",
        lambda: checked(shared_minibatch="yes"),
    ),
    ("error rate as text", T, "error_rate", "'2 %'", POSITIVE, lambda: checked(error_rate="2 %")),
    ("max_draws", V, "max_draws", "got 10", "at least 64", lambda: checked(max_draws=10)),
    (
        "max_draws, a fraction",
        T,
        "max_draws",
        "100.5",
        "whole number",
        lambda: checked(max_draws=100.5),
    ),
    ("batch_size", V, "batch_size", "got 1", "at least 2", lambda: checked(batch_size=1)),
    (
        "rows",
        V,
        "rows",
        "'some'",
        "'random'",
        lambda: checked(rows="some", batch_size=2, data=jnp.tile(DATA, (9, 1))),
    ),
    ("names", V, "names", "1", "must be 2", lambda: checked(names=["a"])),
    ("names as one text", T, "names", "'ab'", NAMES, lambda: checked(names="ab")),
)
REPORT = ewsg.check(KEY, DRAWS, MODEL, DATA)
FAR = "corrected moments have errors", "draws that can be corrected"
of(
    "Report.expectation",
    ("no function", T, "function", "3 (int)", "(position)", lambda: REPORT.expectation(3)),
    (
        "a function that fails",
        V,
        "function",
        "TypeError",
        "a position",
        lambda: REPORT.expectation(lambda: 1.0),
    ),
    (
        "nothing",
        V,
        "function",
        "None",
        "a tree of arrays",
        lambda: REPORT.expectation(lambda w: None),
    ),
)
of(
    "Report.expectation",
    (
        "far draws",
        V,
        "expectation",
        "corrected moments have errors",
        "draws that can be corrected",
        lambda: REPORT.expectation(jnp.sum),
    ),
)
of(
    "Report.correct",
    ("a text", T, "samples", "'draws' (str)", TREE, lambda: REPORT.correct("draws")),
    (
        "another position",
        V,
        "samples",
        "others",
        "that was checked",
        lambda: REPORT.correct(DRAWS[..., :1]),
    ),
    (
        "far draws",
        V,
        "correct",
        "corrected moments have errors",
        "draws that can be corrected",
        lambda: REPORT.correct(DRAWS),
    ),
)
