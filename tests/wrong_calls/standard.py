"""Standard wrong values: what each kind of argument refuses, and which argument is of which kind.

An argument has the same name and takes the same wherever it stands, so one table of names serves
every public function.
"""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.wrong_calls.table import (
    A_KEY,
    A_POSTERIOR,
    A_TREE,
    DATA,
    INF,
    KERNEL,
    KEY,
    KEYS,
    LOGISTIC,
    MODEL,
    NAMES,
    NAN,
    OLD_KEY,
    POINT,
    POSITIVE,
    ROW_LAWS,
    ROWS_SHARED,
    SCHEDULE,
    STRATA,
    TOO_MANY,
    UNIFORM,
    WHOLE,
    WHOLE_0,
    T,
    V,
    Wrong,
    failing,
)


class Kind(NamedTuple):
    """What an argument takes, and wrong values `(error, value, got)`."""

    takes: str
    wrong: tuple[tuple[type[Exception], Any, str], ...]

    def without(self, *got: str) -> "Kind":
        """The kind of an argument that takes some of the values, named by what is got."""
        return self._replace(wrong=tuple(wrong for wrong in self.wrong if wrong[2] not in got))


def sum_with_key(first, second, third):
    """A function of a key, a position and data, in any order."""
    return 0.0


NO_NUMBER = (
    (V, 0, "got 0"),
    (V, -1.0, "got -1.0"),
    (V, NAN, "got nan"),
    (T, "1", "'1' (str)"),
    (T, True, "True (bool)"),
    (T, 1j, "1j (complex)"),
    (T, [1.0], "[1.0] (list)"),
)
NO_SCALAR = (V, np.ones(2), "shape (2,)")
NUMBER = Kind(POSITIVE, (*NO_NUMBER, NO_SCALAR, (V, INF, "got inf"), (T, failing, "function")))
STEP = Kind(
    SCHEDULE,
    (
        *NO_NUMBER,
        NO_SCALAR,
        (V, jnp.complex64(1), "dtype complex64"),
        (V, INF, "got inf"),
        (T, None, "None"),
        (V, failing, "RuntimeError: the disk is full"),
        (V, lambda step: jnp.ones(2), "shape (2,)"),
    ),
)
MASS = Kind(
    POSITIVE,
    (
        (V, 0, "got 0"),
        (V, -2.0, "-2.0 (float)"),
        (T, "dense", "'dense' (str)"),
        (T, True, "True (bool)"),
    ),
)
RATE = Kind("must be a number", ((V, 1, "got 1"), (V, 1.5, "1.5")))
DECAY = Kind(
    "decay must be a number from 0 up to but not including 1",
    (
        (V, 1.0, "1.0 (float)"),
        (V, -0.1, "-0.1 (float)"),
        (V, NAN, "got nan"),
        (T, failing, "function"),
        (T, False, "False (bool)"),
        (T, "0.9", "'0.9' (str)"),
        NO_SCALAR,
    ),
)
COUNT = Kind(
    WHOLE,
    (
        (V, 0, "got 0"),
        (V, -1, "got -1"),
        (T, 0.5, "0.5 (float)"),
        (T, "2", "'2' (str)"),
        (T, True, "True (bool)"),
    ),
)
COUNT_0 = Kind(
    WHOLE_0,
    (
        (V, -1, "got -1"),
        (T, 1.5, "1.5 (float)"),
        (T, NAN, "got nan"),
        (T, "inf", "'inf' (str)"),
        (T, KEY, "dtype key<fry>"),
    ),
)
FLAG = Kind("must be True or False", ((T, 1, "1 (int)"), (T, "no", "'no' (str)")))
POSTERIOR = Kind(
    A_POSTERIOR,
    (
        (T, KERNEL, "kernel("),
        (T, None, "None"),
        (T, DATA, "an array"),
        (T, (failing, failing), "(tuple)"),
        (T, ewsg.ld, "function ld"),
        (T, ewsg.Posterior, "call it to make one"),
    ),
)
A_RANDOM_KEY = Kind(
    A_KEY,
    (
        (T, 0, "0 (int)"),
        (T, OLD_KEY, "shape (2,) and dtype uint32"),
        (V, KEYS, "keys of shape (3,)"),
    ),
)
ROWS_OF_DATA = Kind(
    ROWS_SHARED,
    (
        (V, None, "None"),
        (T, 1.0, "1.0 (float)"),
        (T, {"x": [1.0], "y": [1.0]}, "'x'"),
        (V, DATA[:0], "got 0 rows"),
        (V, {"a": DATA, "b": DATA[:3]}, "data['b']: 3"),
        (V, jnp.array(1.0), "is a scalar"),
        (T, np.array([[None, 1]]), "dtype object"),
        (T, np.array([["a"]]), "dtype <U1"),
        (T, failing, "function"),
        (V, TOO_MANY, "got 3,000,000,000 rows"),
    ),
)
PARAMETERS = Kind(
    A_TREE,
    (
        (T, np.zeros(2, np.int32), "int32"),
        (T, POINT + 1j, "complex64"),
        (T, np.array(["a"]), "dtype <U1"),
        (T, "here", "'here' (str)"),
        (V, {}, "without leaves, {}"),
    ),
)
TEXTS = Kind(NAMES, ((T, "ab", "'ab' (str)"), (T, 3, "3 (int)"), (T, ("a", 1), "1 (int)")))
FILE = Kind("the path of a file", ((T, 3, "3 (int)"), (T, b"a", "(bytes)")))


def choice(*options: str) -> Kind:
    """One name of several."""
    misspelt = options[0][:-1]
    return Kind(
        "one of " + ", ".join(map(repr, options)),
        (
            (V, misspelt, f"(did you mean {options[0]!r}?)"),
            (V, "none such", "'none such' (str)"),
            (V, None, "None"),
            (V, 1, "1 (int)"),
        ),
    )


KINDS = {
    "key": A_RANDOM_KEY,
    "posterior": POSTERIOR,
    "position": PARAMETERS,
    "data": ROWS_OF_DATA,
    "step_size": STEP,
    "friction": STEP,
    "decoherence_length": STEP.without("None"),
    "temperature": STEP,
    "inverse_mass": MASS,
    "noise": choice("gaussian", "rademacher", "moment_matched"),
    "integrator": choice("semi_implicit", "euler", "splitting", "exact", "ABOBA", "BAOAB"),
    "batch_size": COUNT,
    "chunk_size": COUNT,
    "memory_limit": COUNT,
    "refresh_every": COUNT,
    "rank": COUNT,
    "num_strata": COUNT,
    "replace": FLAG,
    "correction": FLAG,
    "bias_correction": FLAG,
    "carry_index": FLAG,
    "check_data": FLAG,
    "shared_minibatch": FLAG,
    "rows": Kind(ROW_LAWS, ((V, "block", "'block' (str)"), (V, None, "None"))),
    "option": Kind("must be one of 'I', 'II'", ((V, 1, "1 (int)"), (V, "III", "'III'"))),
    "num_proposals": COUNT_0,
    "chain_length": COUNT_0,
    "decay": DECAY,
    "trust_region": NUMBER,
    "initial_scale": NUMBER,
    "curvature_threshold": NUMBER,
    "noise_scale": NUMBER,
    "prior_scale": NUMBER.without("got inf"),
    "tolerance": NUMBER.without("got inf"),
    "error_rate": NUMBER.without("got inf"),
    "scale": NUMBER,
    "names": TEXTS,
    "num_chains": COUNT,
    "num_data": COUNT,
    "num_evaluations": COUNT,
    "num_steps": COUNT,
    "burn_in": COUNT_0,
    "thin": COUNT,
    "num_resampled": COUNT,
    "k": COUNT,
    "n": COUNT,
    "window": COUNT,
    "pieces": COUNT,
    "num_bins": COUNT,
    "seed": COUNT_0,
    "learning_rate": NUMBER,
    "seconds": NUMBER,
    "max_passes": NUMBER,
    "passes": NUMBER,
    "ess": NUMBER,
    "width": NUMBER,
    "mesh": Kind("a jax.sharding.Mesh whose axes", ((T, 2, "2 (int)"),)),
    "log_concave": FLAG,
    "normalised": FLAG,
    "path": FILE,
}
"""The kind of an argument, by its name."""

STANDARD: list[tuple[str, str, tuple[Wrong, ...]]] = []
"""An entry, its argument, and the rows of all wrong values of that."""


def every(entry: str, build: Callable[..., Any], **kinds: Kind | None) -> None:
    """Add the standard wrong values of each argument of `build` that the table knows.

    Args:
        entry: the name of what is called.
        build: what is called with one argument replaced, all others of which are right.
        kinds: arguments of other kinds; None for one without standard values here.
    """
    known = inspect.signature(build).parameters
    refuses(entry, build, **({a: KINDS[a] for a in known if a in KINDS} | kinds))


def refuses(entry: str, build: Callable[..., Any], **kinds: Kind | None) -> None:
    """Add the wrong values of these arguments of `build`, and of no others."""
    for argument, kind in kinds.items():
        if kind is not None:
            STANDARD.append((entry, argument, tuple(rows_of(entry, build, argument, kind))))


def rows_of(entry: str, build: Callable[..., Any], argument: str, kind: Kind) -> Iterator[Wrong]:
    """Yield the rows of one argument."""
    for error, value, got in kind.wrong:
        call = functools.partial(build, **{argument: value})
        yield Wrong(error, f"{argument} | {got} | {kind.takes}", call, entry)


D, G, M = ewsg.dynamics, ewsg.gradients, ewsg.models
IN_TWO = choice("semi_implicit", "euler")
"""Integrators of a dynamics that takes covariances."""
of_two = {"ewsg_vr": IN_TWO, "nc_sghmc": IN_TWO}
for name, method in ewsg.METHODS.items():
    # Without an argument that has two names: each is replaced alone.
    example = {key: value for key, value in method.example.items() if key != "num_proposals"}
    right = functools.partial(method.build, posterior=LOGISTIC, step_size=0.1, **example)
    every(name, right, **({"integrator": of_two[name]} if name in of_two else {}))
right = functools.partial(ewsg.nuts, posterior=MODEL, step_size=0.1)
every("nuts", right, max_depth=COUNT, passes_per_step=NUMBER)
for build in (D.langevin, D.preconditioned, D.quasi_newton, D.microcanonical):
    every(f"dynamics.{build.__name__}", functools.partial(build, step_size=0.1))
for build in (D.euler, D.semi_implicit, D.splitting, D.exact, D.thermostat):
    every(f"dynamics.{build.__name__}", functools.partial(build, step_size=0.1, friction=1.0))
for build in (D.noise_corrected, D.noise_reduced):
    right = functools.partial(build, step_size=0.1, friction=1.0)
    every(f"dynamics.{build.__name__}", right, integrator=IN_TWO)
every(
    "dynamics.splitting_scheme",
    functools.partial(D.splitting_scheme, letters="BAOAB", step_size=0.1, friction=1.0),
)
every(
    "dynamics.adaptive_mass",
    functools.partial(D.adaptive_mass, dynamics=D.langevin(0.1), burn_in=10),
    burn_in=COUNT,
    decay=DECAY,
)
every(
    "dynamics.cyclical", functools.partial(D.cyclical, period=10, step_size=0.1), step_size=NUMBER
)
every("dynamics.riemannian", functools.partial(D.riemannian, step_size=0.1, inverse_metric=abs))
every("gradients.full", functools.partial(G.full, posterior=MODEL))
for build in (
    G.uniform,
    G.svrg,
    G.saga,
    G.control_variate,
    G.covariance_tracking,
    G.periodic_covariance,
):
    every(f"gradients.{build.__name__}", functools.partial(build, posterior=MODEL, batch_size=2))
every(
    "gradients.stratified", functools.partial(G.stratified, posterior=MODEL, labels="c", **STRATA)
)
right = functools.partial(G.covariance_at, position=POINT, data=DATA, batch_size=2, posterior=MODEL)
every("gradients.covariance_at", right, passes=COUNT)
every(
    "gradients.random",
    functools.partial(G.random, sum_with_key, returns="potential"),
    posterior=POSTERIOR.without("None"),
)
every(
    "gradients.random_likelihood",
    functools.partial(G.random_likelihood, sum_with_key, abs, batch_size=2),
)
every("gradients.streamed", functools.partial(G.streamed, posterior=MODEL, num_data=6))
every("gradients.exponentially_weighted", functools.partial(G.exponentially_weighted, UNIFORM))
for build in (
    M.gaussian_location,
    M.linear_regression,
    M.logistic_regression,
    M.softmax_regression,
    M.normal,
):
    every(f"models.{build.__name__}", build)
