"""Wrong calls: for each the error, and what its message says: the argument, what it got and what it
takes.
"""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.cli.config import ConfigError

Call = Callable[..., Any]


class Wrong(NamedTuple):
    """A call that must be answered by one `error`, whose message holds all texts of `said`.

    These are the argument, what it got and what it takes, with " | " between them. An error None is
    the command line's: an exit status and a line.
    """

    error: type[Exception] | None
    said: str
    call: Call
    entry: str

    @property
    def texts(self) -> list[str]:
        """Argument, got and takes."""
        return self.said.split(" | ")

    def made(self, folder: Path) -> Any:
        """Make the call, with a folder that it may write to where it takes one."""
        code = getattr(self.call, "__code__", None)
        takes_folder = code and code.co_argcount > len(self.call.__defaults__ or ())
        return self.call(folder) if takes_folder else self.call()


class Rows(dict[str, Call | tuple[Call, ...]]):
    """What is said of wrong calls of an entry point, and the call or calls of which it is said.

    The error comes first in what is said, by a letter; "exit" is None.
    """

    def __ior__(self, more: Any) -> Any:
        assert not self.keys() & more.keys(), "a row in the place of another"
        return super().__ior__(more)


WRONG: defaultdict[str, Rows] = defaultdict(Rows)
V, T = ValueError, TypeError
ERRORS = {"V": V, "T": T, "C": ConfigError, "exit": None}


def every_wrong() -> Iterator[Wrong]:
    """Yield the rows of all entry points."""
    for entry, rows in WRONG.items():
        for said, calls in rows.items():
            error, texts = said.split(" ", 1)
            for call in calls if isinstance(calls, tuple) else (calls,):
                yield Wrong(ERRORS[error], texts, call, entry)


NAN, INF = math.nan, math.inf
KEY = jax.random.key(0)
KEYS = jax.random.split(jax.random.key(0), 3)
OLD_KEY = jax.random.PRNGKey(0)
POINT = jnp.zeros(2)
DATA = jnp.arange(12.0).reshape(6, 2)
ROWS = {"x": np.ones((6, 2), np.float32), "y": np.array([0, 1, 0, 1, 1, 0], np.float32)}
TOO_MANY = np.broadcast_to(np.uint8(1), (3_000_000_000, 2))
"""More rows than there are row numbers, in one byte."""
MODEL = ewsg.models.gaussian_location()
LOGISTIC = ewsg.models.logistic_regression()
KERNEL = ewsg.sgld(MODEL, 0.1, batch_size=2)


def likelihood(position: Any, x: Any) -> Any:
    """Of one datum: a scalar."""
    return -0.5 * jnp.sum((x - position) ** 2)


def failing(*arguments: Any) -> Any:
    """Raise what a user's function might, on two lines."""
    raise RuntimeError("the disk is full\nand more")


def posterior(
    log_likelihood: Any = likelihood, log_prior: Any = lambda position: 0.0
) -> ewsg.Posterior:
    """A posterior with one function replaced."""
    return ewsg.Posterior(log_likelihood, log_prior)


def linear(**changes: Any) -> ewsg.Posterior:
    """Logistic regression with some of its functions replaced."""
    functions = {
        "log_likelihood": lambda s, row: -(s**2),
        "log_prior": lambda w: 0.0,
        "inputs": lambda row: row["x"],
    }
    return ewsg.Posterior.linear(**(functions | changes))


PRIOR, LIKELIHOOD = "(position) -> scalar", "(position, datum) -> scalar"
IS_SCALAR = "must return a scalar for this position"
IS_FLOAT = "must return a floating-point scalar"
A_POSTERIOR = "must be a Posterior (ewsg_jax.Posterior(…) or one of ewsg_jax.models)"
AT_MOST_2_31 = "at most 2,147,483,647"
A_TREE = "must be a pytree of floating-point arrays"
ROWS_SHARED = "a pytree of arrays that share their leading axis"
A_KEY = "must be one typed PRNG key, as jax.random.key(0) makes"
A_STATE = "what init or step of this kernel returned"
POSITIVE, SCHEDULE = "must be a positive number", "or a schedule (a function of the step)"
WHOLE, WHOLE_0 = "must be a whole number, at least 1", "must be a whole number, at least 0"
LANGEVIN, UNIFORM = ewsg.dynamics.langevin(0.1), ewsg.gradients.uniform(MODEL, batch_size=2)
A_DYNAMICS = "a Dynamics (one of ewsg_jax.dynamics)"
AN_ESTIMATOR = "a GradientEstimator (one of ewsg_jax.gradients)"
FROZEN = "one of 'momentum', 'zero', 'one', 'rest'"
INTEGRATORS = "one of 'semi_implicit', 'euler', 'splitting', 'exact', 'ABOBA', 'BAOAB'"
NAMES = "must be a list of texts"
ROW_LAWS = "one of 'random', 'blocks', 'epochs', 'block_epochs', 'block_sweeps'"
STRATA = {"batch_size": 2, "num_strata": 2}


def over(axis: str) -> jax.sharding.Mesh:
    """Two devices along an axis."""
    return jax.sharding.Mesh(np.array(jax.devices()[:2]), (axis,))


def sampled(
    key: Any = KEY, kernel: Any = KERNEL, position: Any = POINT, data: Any = DATA, **changes: Any
) -> Any:
    """Sample with something wrong; 10 steps."""
    return ewsg.sample(key, kernel, position, data, **({"num_steps": 10} | changes))
