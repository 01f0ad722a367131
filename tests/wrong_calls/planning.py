"""Wrong calls of plans."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import jax
import jax.numpy as jnp

import ewsg_jax as ewsg
from tests.wrong_calls.checking import A_MODE, A_RATE, NO_ROOT, TREE
from tests.wrong_calls.standard import TEXTS, every
from tests.wrong_calls.table import (
    A_TREE,
    DATA,
    KEY,
    LOGISTIC,
    MODEL,
    NAN,
    POINT,
    ROWS,
    WRONG,
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


right = functools.partial(
    ewsg.plan, key=KEY, posterior=MODEL, position=POINT, data=DATA, mode=A_MODE
)
every("plan", right, batch_size=None, methods=TEXTS)
every("Plan.data_passes", lambda ess=1: a_plan().data_passes(ess))
every("Plan.sample_options", lambda ess=1: a_plan().sample_options(ess))
WRONG["plan"] |= {
    "V batch_size | got 1 | multiple of 2": lambda: planned(batch_size=1, mesh=over("data")),
    "T posterior | function | call it": lambda: planned(posterior=ewsg.models.softmax_regression),
    f"V position | None | {A_TREE}": lambda: planned(None),
    "V position | (0,) | at least one number": lambda: planned(POINT[:0]),
    "V position | 1 NaN | must be finite": lambda: planned(jnp.array([0.0, NAN])),
    "V position | (3,) | must return a scalar for this position": lambda: planned(
        jnp.zeros(3), mode=None
    ),
    "V y | 2 | 0 and 1 only": lambda: planned(data=ROWS | {"y": 2 * ROWS["y"]}, posterior=LOGISTIC),
    "T data | 2 data sets | such as data[0]": lambda: planned(data=ewsg.stack_data([DATA, DATA])),
    "V data | 1 NaN | must be finite": lambda: planned(data=DATA.at[1, 0].set(NAN)),
    f"V tolerance | got 1 | {A_RATE}": lambda: planned(tolerance=1),
    "T mode | array | ewsg_jax.find_mode": lambda: planned(mode=POINT),
    "V mode | (2,) | of these positions": lambda: planned(jnp.zeros(1), DATA[:, :1]),
    "V mode | 2 NaN | must be finite": lambda: planned(mode=A_MODE._replace(position=NAN * POINT)),
    "V methods | got none | must name a method": lambda: planned(methods=()),
    f"V methods | did you mean 'sgld' | {ONE_OF}": lambda: planned(methods=("sglt",)),
    f"V methods | 'ewsg' | {ONE_OF}": lambda: planned(methods=("ld", "ewsg")),
    f"V batch_size | got 7 | {UP_TO_N}": lambda: planned(batch_size=7),
    f"V batch_size | got 0 | {UP_TO_N}": lambda: planned(batch_size=0),
}
WRONG["plan"] |= {
    f"V by | 'time' | {BY}": lambda: planned(by="time"),
    f"V by | function | {BY}": lambda: planned(by=len),
    f"T data | traced | {OUTSIDE}": lambda: jax.jit(lambda x: planned(data=x).burn_in)(DATA),
    f"T key | traced | {OUTSIDE}": lambda: jax.jit(lambda k: planned(key=k).burn_in)(KEY),
    f"T tolerance | traced | {OUTSIDE}": lambda: jax.jit(lambda t: planned(tolerance=t).burn_in)(
        0.1
    ),
    "V methods and batch_size | langevin + full: error of sds | allow a run within": lambda: (
        planned(methods=("ld",), tolerance=3e-4)
    ),
    "V methods and batch_size | a table of | allow a run within": lambda: planned(
        methods=("saga_ld",), batch_size=2, memory_limit=1
    ),
    "V posterior | draws where it has none | must have a gradient some widths": lambda: planned(
        posterior=NO_ROOT, mode=A_MODE._replace(position=POINT, origin=type(A_MODE.origin)())
    ),
    "V mode | other rows of data | must be one of this posterior": lambda: planned(data=DATA + 1),
}

WRONG["Plan.seconds"] |= {
    "V by | 'rows' | 'seconds'": lambda: a_plan().seconds(),
}
WRONG["Plan.plot"] |= {
    f"T path | 3 (int) | {PATH}": lambda: a_plan().plot(3),
}
WRONG["Report.plot"] |= {
    f"T path | 3 (int) | {PATH}": lambda: a_plan().gaussian.report.plot(3),
}
WRONG["Gaussian.report"] |= {
    f"T samples | 'draws' (str) | {TREE}": lambda: a_plan().gaussian.report.correct("draws"),
    "V samples | others | that was checked": lambda: a_plan().gaussian.report.correct(
        a_plan().gaussian.draws[..., :1]
    ),
}
