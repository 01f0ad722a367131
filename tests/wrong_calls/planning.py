"""Wrong calls of plans."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.checking import A_MODE, A_RATE, NO_ROOT, TREE
from tests.wrong_calls.table import (
    A_KEY,
    A_POSTERIOR,
    A_TREE,
    DATA,
    INF,
    KERNEL,
    KEY,
    LOGISTIC,
    MODEL,
    NAMES,
    NAN,
    OLD_KEY,
    POINT,
    POSITIVE,
    ROWS,
    ROWS_SHARED,
    WHOLE,
    T,
    V,
    of,
    over,
)

OUTSIDE, UP_TO_N = "outside of jit", "a whole number, from 1 to 6"
BY = "must be one of 'rows', 'passes', 'seconds'"
ONE_OF = "must be one of 'ld', 'uld', 'sgld', 'sghmc', "
PATH = "the path of a file"


def planned(position=POINT, data=DATA, **changes):
    """Plan with something wrong."""
    arguments = {"key": KEY, "posterior": MODEL, "mode": A_MODE} | changes
    return ewsg.plan(arguments.pop("key"), arguments.pop("posterior"), position, data, **arguments)


@functools.cache
def a_plan():
    """A right one."""
    return planned(methods=["ld"])


of(
    "plan",
    (
        "a number of devices",
        T,
        "mesh",
        "2 (int)",
        "a jax.sharding.Mesh whose axes",
        lambda: planned(mesh=2),
    ),
    (
        "a batch of one for two parts",
        V,
        "batch_size",
        "got 1",
        "multiple of 2",
        lambda: planned(batch_size=1, mesh=over("data")),
    ),
    ("legacy key", T, "key", "uint32", A_KEY, lambda: planned(key=OLD_KEY)),
    ("a kernel", T, "posterior", "kernel(", A_POSTERIOR, lambda: planned(posterior=KERNEL)),
    (
        "a model's maker",
        T,
        "posterior",
        "function",
        "call it",
        lambda: planned(posterior=ewsg.models.softmax_regression),
    ),
    ("whole numbers", T, "position", "int32", A_TREE, lambda: planned(np.zeros(2, np.int32))),
    ("no position", V, "position", "None", A_TREE, lambda: planned(None)),
    (
        "NaN in the position",
        V,
        "position",
        "1 NaN",
        "must be finite",
        lambda: planned(jnp.array([0.0, NAN])),
    ),
    (
        "a position of another model",
        V,
        "position",
        "(3,)",
        "must return a scalar for this position",
        lambda: planned(jnp.zeros(3), mode=None),
    ),
    (
        "labels that are none",
        V,
        "y",
        "2",
        "0 and 1 only",
        lambda: planned(data=ROWS | {"y": 2 * ROWS["y"]}, posterior=LOGISTIC),
    ),
    ("data of no rows", V, "data", "0 rows", ROWS_SHARED, lambda: planned(data=DATA[:0])),
    (
        "a look or not",
        T,
        "check_data",
        "'no' (str)",
        "True or False",
        lambda: planned(check_data="no"),
    ),
    (
        "NaN in the data",
        V,
        "data",
        "1 NaN",
        "must be finite",
        lambda: planned(data=DATA.at[1, 0].set(NAN)),
    ),
    (
        "rows of other lengths",
        V,
        "data",
        "data['b']: 3",
        ROWS_SHARED,
        lambda: planned(data={"a": DATA, "b": DATA[:3]}),
    ),
    ("no tolerance", V, "tolerance", "got 0", POSITIVE, lambda: planned(tolerance=0)),
    ("a negative tolerance", V, "tolerance", "-0.1", POSITIVE, lambda: planned(tolerance=-0.1)),
    ("a tolerance of all", V, "tolerance", "got 1", A_RATE, lambda: planned(tolerance=1)),
    ("tolerance as text", T, "tolerance", "'5 %'", POSITIVE, lambda: planned(tolerance="5 %")),
    ("no chains", V, "num_chains", "got 0", WHOLE, lambda: planned(num_chains=0)),
    ("no mode", T, "mode", "array", "ewsg_jax.find_mode", lambda: planned(mode=POINT)),
    (
        "a mode of something else",
        V,
        "mode",
        "(2,)",
        "of these positions",
        lambda: planned(jnp.zeros(1), DATA[:, :1]),
    ),
    (
        "a mode that is nowhere",
        V,
        "mode",
        "2 NaN",
        "must be finite",
        lambda: planned(mode=A_MODE._replace(position=NAN * POINT)),
    ),
    ("methods as one text", T, "methods", "'sgld'", NAMES, lambda: planned(methods="sgld")),
    (
        "methods as functions",
        T,
        "methods",
        "function",
        NAMES,
        lambda: planned(methods=(ewsg.sgld,)),
    ),
    ("a number of methods", T, "methods", "3 (int)", NAMES, lambda: planned(methods=3)),
    ("no method", V, "methods", "got none", "must name a method", lambda: planned(methods=())),
    (
        "an unknown method",
        V,
        "methods",
        "did you mean 'sgld'",
        ONE_OF,
        lambda: planned(methods=("sglt",)),
    ),
    (
        "a method without a law",
        V,
        "methods",
        "'ewsg'",
        ONE_OF,
        lambda: planned(methods=("ld", "ewsg")),
    ),
    ("a batch above n", V, "batch_size", "got 7", UP_TO_N, lambda: planned(batch_size=7)),
    ("an empty batch", V, "batch_size", "got 0", UP_TO_N, lambda: planned(batch_size=0)),
)
of(
    "plan",
    ("no memory", V, "memory_limit", "got 0", WHOLE, lambda: planned(memory_limit=0)),
    ("memory as text", T, "memory_limit", "'1 GB'", WHOLE, lambda: planned(memory_limit="1 GB")),
    ("by time", V, "by", "'time'", BY, lambda: planned(by="time")),
    ("by a function", V, "by", "function", BY, lambda: planned(by=len)),
    ("no passes", V, "max_passes", "got 0", POSITIVE, lambda: planned(max_passes=0)),
    ("passes without end", V, "max_passes", "inf", POSITIVE, lambda: planned(max_passes=INF)),
    (
        "jitted data",
        T,
        "data",
        "traced",
        OUTSIDE,
        lambda: jax.jit(lambda x: planned(data=x).burn_in)(DATA),
    ),
    (
        "a jitted key",
        T,
        "key",
        "traced",
        OUTSIDE,
        lambda: jax.jit(lambda k: planned(key=k).burn_in)(KEY),
    ),
    (
        "a jitted tolerance",
        T,
        "tolerance",
        "traced",
        OUTSIDE,
        lambda: jax.jit(lambda t: planned(tolerance=t).burn_in)(0.1),
    ),
    (
        "nothing that is right",
        V,
        "methods and batch_size",
        "langevin + full: sds off by",
        "allow a run within the tolerance",
        lambda: planned(methods=("ld",), tolerance=3e-4),
    ),
    (
        "a table too large",
        V,
        "methods and batch_size",
        "a table of",
        "allow a run within",
        lambda: planned(methods=("saga_ld",), batch_size=2, memory_limit=1),
    ),
    (
        "a posterior that ends near its mode",
        V,
        "posterior",
        "draws where it has none",
        "must have a gradient some widths around its mode",
        lambda: planned(posterior=NO_ROOT, mode=A_MODE._replace(position=POINT)),
    ),
)
of(
    "Plan.data_passes",
    ("no draws", V, "ess", "got 0", POSITIVE, lambda: a_plan().data_passes(ess=0)),
    ("draws as text", T, "ess", "'many'", POSITIVE, lambda: a_plan().data_passes(ess="many")),
    ("draws without end", V, "ess", "inf", POSITIVE, lambda: a_plan().data_passes(INF)),
)
of("Plan.seconds", ("a plan by rows", V, "by", "'rows'", "'seconds'", lambda: a_plan().seconds()))
of("Plan.plot", ("a number", T, "path", "3 (int)", PATH, lambda: a_plan().plot(3)))
of(
    "Report.plot",
    ("a number", T, "path", "3 (int)", PATH, lambda: a_plan().gaussian.report.plot(3)),
)
of(
    "Gaussian.report",
    (
        "a text to correct",
        T,
        "samples",
        "'draws' (str)",
        TREE,
        lambda: a_plan().gaussian.report.correct("draws"),
    ),
    (
        "draws of another position",
        V,
        "samples",
        "others",
        "that was checked",
        lambda: a_plan().gaussian.report.correct(a_plan().gaussian.draws[..., :1]),
    ),
)
