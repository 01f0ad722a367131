"""Wrong calls: for each the error, and what its message says: the argument, what it got and what it takes.

A row's `call` gets a folder that it may write to. Rows of the command line have no error but an exit status.
"""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.__main__ import main
from ewsg_jax.experiments.config import ConfigError, load


class Wrong(NamedTuple):
    """A call of `entry` that must be answered by one `error` whose message holds the three texts."""

    entry: str
    what: str
    call: Callable[[Path], Any]
    error: type[Exception] | None
    argument: str
    got: str
    takes: str


WRONG: list[Wrong] = []


def of(entry: str, *rows: tuple) -> None:
    """Add rows `(what, error, argument, got, takes, call)` of one entry point; `call` may take a folder."""
    for what, error, argument, got, takes, call in rows:
        takes_folder = call.__code__.co_argcount > len(call.__defaults__ or ())
        run = call if takes_folder else lambda folder, call=call: call()
        WRONG.append(Wrong(entry, what, run, error, argument, got, takes))


V, T, C = ValueError, TypeError, ConfigError
NAN, INF = math.nan, math.inf
KEY, KEYS, OLD_KEY = jax.random.key(0), jax.random.split(jax.random.key(0), 3), jax.random.PRNGKey(0)
POINT = jnp.zeros(2)
DATA = jnp.arange(12.0).reshape(6, 2)
ROWS = {"x": np.ones((6, 2), np.float32), "y": np.array([0, 1, 0, 1, 1, 0], np.float32)}
MODEL = ewsg.models.gaussian_location()
LOGISTIC = ewsg.models.logistic_regression()
KERNEL = ewsg.sgld(MODEL, 0.1, batch_size=2)
MLP = eqx.nn.MLP(2, 1, 4, 1, key=KEY)


def likelihood(position: Any, x: Any) -> Any:
    """Of one datum: a scalar."""
    return -0.5 * jnp.sum((x - position) ** 2)


def failing(*arguments: Any) -> Any:
    """Raise what a user's function might, on two lines."""
    raise RuntimeError("the disk is full\nand more")


def posterior(log_likelihood: Any = likelihood, log_prior: Any = lambda position: 0.0) -> ewsg.Posterior:
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
IS_SCALAR, IS_FLOAT = "must return a scalar for this position", "must return a floating-point scalar"
A_POSTERIOR = "must be a Posterior (ewsg_jax.Posterior(…) or one of ewsg_jax.models)"
A_TREE, ROWS_SHARED = "must be a tree of floating-point arrays", "a tree of arrays that share their leading axis"
A_KEY = "must be one typed PRNG key, as jax.random.key(0) makes"
A_STATE = "what init or step of this kernel returned"
POSITIVE, SCHEDULE = "must be a positive number", "or a schedule (a function of the step)"
WHOLE, WHOLE_0 = "must be a whole number, at least 1", "must be a whole number, at least 0"

# What is sampled.

of(
    "Posterior",
    ("likelihood no function", T, "log_likelihood", "3 (int)", LIKELIHOOD, lambda: ewsg.Posterior(3, failing)),
    ("prior left as None", T, "log_prior", "None (NoneType)", PRIOR, lambda: ewsg.Posterior(failing, None)),
    ("prior a number", T, "log_prior", "0.0 (float)", PRIOR, lambda: ewsg.Posterior(failing, 0.0)),
    ("likelihood an array", T, "log_likelihood", "(2,)", LIKELIHOOD, lambda: ewsg.Posterior(POINT, failing)),
    (
        "predictor a function",
        T,
        "predictor",
        "function",
        "LinearPredictor",
        lambda: ewsg.Posterior(abs, abs, failing),
    ),
)
of(
    "Posterior.linear",
    (
        "likelihood",
        T,
        "log_likelihood",
        "None",
        "(predictor, datum) -> scalar",
        lambda: linear(log_likelihood=None),
    ),
    ("prior", T, "log_prior", "0.0 (float)", "(W) -> scalar", lambda: linear(log_prior=0.0)),
    ("inputs", T, "inputs", "'x' (str)", "(datum) -> x", lambda: linear(inputs="x")),
    ("residual", T, "residual", "1 (int)", "(predictors, rows) -> derivatives", lambda: linear(residual=1)),
)
of(
    "Posterior.check",
    (
        "inputs a matrix",
        V,
        "inputs",
        "array of shape (1, 2)",
        "an array of shape (d,)",
        lambda: linear(inputs=lambda row: row["x"][None]).check(POINT, ROWS),
    ),
    (
        "inputs fail",
        V,
        "datum",
        "KeyError: 'z'",
        IS_SCALAR,
        lambda: linear(inputs=lambda row: row["z"]).check(POINT, ROWS),
    ),
    (
        "residual summed",
        V,
        "residual",
        "returned an array of shape ()",
        "like the predictors, (6,)",
        lambda: linear(residual=lambda s, rows: jnp.sum(s)).gradient(POINT, ROWS),
    ),
    (
        "residual fails",
        V,
        "residual",
        "RuntimeError: the disk is full",
        "like the predictors, (6,)",
        lambda: linear(residual=failing).gradient(POINT, ROWS),
    ),
    (
        "linear position a dictionary",
        V,
        "position",
        "position['w']: (2,)",
        "one array of shape (2,) or (2, k)",
        lambda: LOGISTIC.check({"w": POINT}, ROWS),
    ),
    (
        "linear position too long",
        V,
        "position",
        "position: (3,)",
        "one array of shape (2,) or (2, k)",
        lambda: LOGISTIC.check(jnp.zeros(3), ROWS),
    ),
    ("prior a vector", V, "log_prior", "shape (2,)", IS_FLOAT, lambda: posterior(log_prior=abs).check(POINT, DATA)),
    (
        "likelihood that compares",
        V,
        "log_likelihood",
        "dtype bool",
        IS_FLOAT,
        lambda: posterior(lambda p, x: x[0] > 0).check(POINT, DATA),
    ),
    (
        "likelihood of three arguments",
        V,
        "log_likelihood",
        "missing 1 required positional argument",
        IS_SCALAR,
        lambda: posterior(lambda p, x, y: 0.0).check(POINT, DATA),
    ),
    (
        "likelihood with a branch on a value",
        V,
        "log_likelihood",
        "TracerBoolConversionError",
        IS_SCALAR,
        lambda: posterior(lambda p, x: 1.0 if x[0] > 0 else 0.0).check(POINT, DATA),
    ),
)
of(
    "Posterior.gradient",
    ("integer position", T, "position", "int32", A_TREE, lambda: MODEL.gradient(jnp.zeros(2, int), DATA)),
    ("no data", V, "data", "without leaves, None", ROWS_SHARED, lambda: MODEL.gradient(POINT, None)),
    ("no rows", V, "data", "got 0 rows", ROWS_SHARED, lambda: MODEL.gradient(POINT, DATA[:0])),
    ("chunk of none", V, "chunk_size", "got 0", WHOLE, lambda: MODEL.gradient(POINT, DATA, 0)),
    ("chunk of a half", T, "chunk_size", "0.5 (float)", WHOLE, lambda: MODEL.gradient(POINT, DATA, 0.5)),
    ("prior fails", V, "log_prior", "full", IS_SCALAR, lambda: posterior(log_prior=failing).gradient(POINT, DATA)),
    (
        "another dimension",
        V,
        "position",
        "got an array of shape (3,)",
        "shaped like a datum, (2,)",
        lambda: MODEL.gradient(jnp.zeros(3), DATA),
    ),
    (
        "a mean that would broadcast",
        V,
        "position",
        "got an array of shape (1,)",
        "shaped like a datum, (2,)",
        lambda: MODEL.gradient(jnp.zeros(1), DATA),
    ),
)
ROW_NUMBERS = "an array of row numbers, shape (b,), from 0 to 5"
of(
    "Posterior.batch_gradient",
    ("a list", T, "batch", "[0, 1] (list)", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, [0, 1])),
    ("floats", T, "batch", "float32", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, jnp.zeros(2))),
    ("one", V, "batch", "that holds 3", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, jnp.array(3))),
    ("none", V, "batch", "(0,)", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, np.zeros(0, int))),
    ("beyond n", V, "batch", "got 6", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, jnp.array([0, 6]))),
    ("below 0", V, "batch", "got -1", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, np.array([-1]))),
    ("a mask", T, "batch", "bool", ROW_NUMBERS, lambda: MODEL.batch_gradient(POINT, DATA, np.ones(6, bool))),
)
of(
    "Posterior.potential",
    ("complex position", T, "position", "complex64", A_TREE, lambda: MODEL.potential(POINT + 1j, DATA)),
    ("data a list", T, "data[0]", "1.0 (float)", ROWS_SHARED, lambda: MODEL.potential(POINT, [1.0])),
    ("chunks", V, "chunk_size", "got -1", WHOLE, lambda: MODEL.potential(POINT, DATA, -1)),
    (
        "prior",
        V,
        "log_prior",
        "dtype int32",
        IS_FLOAT,
        lambda: posterior(log_prior=lambda p: 0).potential(POINT, DATA),
    ),
)
of(
    "Posterior.likelihood_gradient",
    ("chunks", V, "chunk_size", "got 0", WHOLE, lambda: MODEL.likelihood_gradient(POINT, DATA, 0)),
    ("position", V, "position", "without leaves, {}", A_TREE, lambda: MODEL.likelihood_gradient({}, DATA)),
)
of(
    "Posterior.prior_gradient",
    ("position", T, "position", "'here' (str)", A_TREE, lambda: MODEL.prior_gradient("here")),
    ("prior", V, "log_prior", "shape (2,)", IS_FLOAT, lambda: posterior(log_prior=abs).prior_gradient(POINT)),
)

# Kernels.

LANGEVIN, UNIFORM = ewsg.dynamics.langevin(0.1), ewsg.gradients.uniform(MODEL, batch_size=2)
A_DYNAMICS, AN_ESTIMATOR = (
    "a Dynamics (one of ewsg_jax.dynamics)",
    "a GradientEstimator (one of ewsg_jax.gradients)",
)
of(
    "kernel",
    (
        "posterior for an estimator",
        T,
        "estimator",
        "Posterior(",
        AN_ESTIMATOR,
        lambda: ewsg.kernel(LANGEVIN, MODEL),
    ),
    ("kernel for a dynamics", T, "dynamics", "Kernel(", A_DYNAMICS, lambda: ewsg.kernel(KERNEL, UNIFORM)),
    ("swapped", T, "dynamics", "GradientEstimator(", A_DYNAMICS, lambda: ewsg.kernel(UNIFORM, LANGEVIN)),
    ("a name", T, "dynamics", "'langevin' (str)", A_DYNAMICS, lambda: ewsg.kernel("langevin", UNIFORM)),
    (
        "a dynamics not called",
        T,
        "dynamics",
        "function langevin",
        "call it to make one",
        lambda: ewsg.kernel(ewsg.dynamics.langevin, UNIFORM),
    ),
    ("no estimator", T, "estimator", "None", AN_ESTIMATOR, lambda: ewsg.kernel(LANGEVIN, None)),
    (
        "a frozen noise that the dynamics lacks",
        V,
        "frozen_noise",
        "'rest' (str)",
        "one of 'momentum', 'zero', 'one'",
        lambda: ewsg.kernel(LANGEVIN, ewsg.gradients.exponentially_weighted(UNIFORM, frozen_noise="rest")),
    ),
)
WITHOUT = ewsg.sgld(MODEL, 0.1, batch_size=7, replace=False)
of(
    "Kernel.init",
    ("a seed", T, "key", "0 (int)", A_KEY, lambda: KERNEL.init(0, POINT, DATA)),
    ("legacy key", T, "key", "shape (2,) and dtype uint32", A_KEY, lambda: KERNEL.init(OLD_KEY, POINT, DATA)),
    ("keys", V, "key", "keys of shape (3,)", A_KEY, lambda: KERNEL.init(KEYS, POINT, DATA)),
    ("integers", T, "position", "int32", A_TREE, lambda: KERNEL.init(KEY, {"a": np.zeros(2, np.int32)}, DATA)),
    ("NaN", V, "position", "holds 1 NaN", "must be finite", lambda: KERNEL.init(KEY, POINT.at[0].set(NAN), DATA)),
    (
        "a module",
        T,
        "position",
        "position.activation is",
        "keep the arrays only",
        lambda: KERNEL.init(KEY, MLP, DATA),
    ),
    ("a linen module", T, "position", "Dense(", A_TREE, lambda: KERNEL.init(KEY, nn.Dense(2), DATA)),
    ("texts", T, "position", "dtype <U1", A_TREE, lambda: KERNEL.init(KEY, np.array(["a"]), DATA)),
    (
        "texts as data",
        T,
        "data",
        "dtype <U1",
        "and hold numbers",
        lambda: KERNEL.init(KEY, POINT, np.array([["a"]])),
    ),
    ("unequal", V, "data", "data['y']: 5", ROWS_SHARED, lambda: KERNEL.init(KEY, POINT, ROWS | {"y": np.ones(5)})),
    ("batch above n", V, "batch_size", "got 7", "at most n = 6", lambda: WITHOUT.init(KEY, POINT, DATA)),
    (
        "likelihood a vector",
        V,
        "log_likelihood",
        "an array of shape (2,) and dtype float32",
        IS_FLOAT,
        lambda: ewsg.sgld(posterior(lambda p, x: x - p), 0.1, batch_size=1).init(KEY, POINT, DATA),
    ),
)
STATE = KERNEL.init(KEY, POINT, DATA)
MOVING = ewsg.sghmc(MODEL, 0.1, friction=1.0, batch_size=2)
MOVING_STATE = MOVING.init(KEY, POINT, DATA)
MANY = jax.tree.map(lambda x: jnp.stack([x] * 3), STATE)
HALF = jax.tree.map(lambda x: x.astype(jnp.float16), MOVING_STATE.dynamics.momentum)
of(
    "Kernel.step",
    ("a seed", T, "key", "1 (int)", A_KEY, lambda: KERNEL.step(1, STATE, DATA)),
    ("legacy key", T, "key", "uint32", A_KEY, lambda: KERNEL.step(OLD_KEY, STATE, DATA)),
    ("keys", V, "key", "keys of shape (3,)", A_KEY, lambda: KERNEL.step(KEYS, STATE, DATA)),
    ("a position", T, "state", "an array of shape (2,)", A_STATE, lambda: KERNEL.step(KEY, POINT, DATA)),
    (
        "state and info",
        T,
        "state",
        "(tuple)",
        A_STATE,
        lambda: KERNEL.step(KEY, KERNEL.step(KEY, STATE, DATA), DATA),
    ),
    ("swapped", T, "state", "an array of shape (6, 2)", A_STATE, lambda: KERNEL.step(KEY, DATA, STATE)),
    ("other kernel", V, "state", "without state.dynamics.momentum", A_STATE, lambda: MOVING.step(KEY, STATE, DATA)),
    ("more", V, "state", "with state.dynamics.momentum", A_STATE, lambda: KERNEL.step(KEY, MOVING_STATE, DATA)),
    (
        "other data",
        V,
        "log_likelihood",
        "got an array of shape (2,)",
        IS_SCALAR,
        lambda: KERNEL.step(KEY, STATE, ROWS["x"].T),
    ),
    ("no data", V, "data", "None", ROWS_SHARED, lambda: KERNEL.step(KEY, STATE, None)),
    ("three chains", V, "position", "shape (3, 2)", "shaped like a datum", lambda: KERNEL.step(KEY, MANY, DATA)),
    (
        "another dtype",
        V,
        "state.dynamics.momentum",
        "float16",
        "dtype float32",
        lambda: MOVING.step(
            KEY, MOVING_STATE._replace(dynamics=MOVING_STATE.dynamics._replace(momentum=HALF)), DATA
        ),
    ),
)
BOUND = KERNEL.bind(DATA)
of(
    "Kernel.bind",
    ("no data", V, "data", "None", ROWS_SHARED, lambda: KERNEL.bind(None)),
    ("no rows", V, "data", "got 0 rows", ROWS_SHARED, lambda: KERNEL.bind(DATA[:0])),
    ("a number", V, "data", "is a scalar", ROWS_SHARED, lambda: KERNEL.bind(jnp.array(1.0))),
    ("objects", T, "data", "dtype object", "hold numbers", lambda: KERNEL.bind(np.array([None, 1]))),
    ("a function", T, "data", "function", ROWS_SHARED, lambda: KERNEL.bind(failing)),
    ("init: a seed", T, "rng_key", "5 (int)", A_KEY, lambda: BOUND.init(POINT, 5)),
    ("init: swapped", T, "rng_key", "shape (2,)", A_KEY, lambda: BOUND.init(KEY, POINT)),
    ("step: legacy key", T, "rng_key", "uint32", A_KEY, lambda: BOUND.step(OLD_KEY, STATE)),
    ("step: no state", T, "state", "None", A_STATE, lambda: BOUND.step(KEY, None)),
)


def sampled(key: Any = KEY, kernel: Any = KERNEL, position: Any = POINT, data: Any = DATA, **changes: Any) -> Any:
    """Sample with something wrong; 10 steps."""
    return ewsg.sample(key, kernel, position, data, **({"num_steps": 10, "progress": False} | changes))


of(
    "sample",
    ("a seed", T, "key", "0 (int)", A_KEY, lambda: sampled(key=0)),
    ("a posterior", T, "kernel", "Posterior(", "a Kernel (", lambda: sampled(kernel=MODEL)),
    ("a method", T, "kernel", "function sgld", "call it to make one", lambda: sampled(kernel=ewsg.sgld)),
    ("NaN data", V, "data", "holds 1 NaN", "must be finite", lambda: sampled(data=DATA.at[0, 0].set(NAN))),
    ("objects", T, "data", "dtype object", "hold numbers", lambda: sampled(data=np.array([[1, None]]))),
    ("half a step", T, "num_steps", "9.5 (float)", WHOLE, lambda: sampled(num_steps=9.5)),
    ("no steps", V, "num_steps", "got -1", WHOLE, lambda: sampled(num_steps=-1)),
    ("no chains", V, "num_chains", "got 0", WHOLE, lambda: sampled(num_chains=0)),
    ("thin", V, "thin", "got 0", WHOLE, lambda: sampled(thin=0)),
    ("burn-in", V, "num_steps", "got 10", "at least burn_in + thin = 11", lambda: sampled(burn_in=10)),
    ("neither", V, "num_steps", "data_passes=None", "give either", lambda: sampled(num_steps=None)),
    ("both", V, "data_passes", "data_passes=1.0", "give either", lambda: sampled(data_passes=1.0)),
)


class Start(nn.Module):
    """A module whose class is taken for a function of a key."""


LAST_STATE = sampled().state
A_FUNCTION, A_STATE = "a function of a key", "samples.state of a run of this kernel"


def started(position: Any) -> Any:
    return sampled(position=position, num_chains=2)


def fails(key: Any) -> Any:
    raise RuntimeError("no start")


of(
    "sample: where it starts",
    ("a class", T, "position", "the class Start", A_FUNCTION, lambda: started(Start)),
    ("a function that fails", V, "position", "no start", A_FUNCTION, lambda: started(fails)),
    ("a function of nothing", V, "position", "takes 0 positional", A_FUNCTION, lambda: started(lambda: POINT)),
    (
        "a function that gives integers",
        T,
        "position(key)",
        "int32",
        "floating-point",
        lambda: started(jax.random.bits),
    ),
    ("a function that gives text", V, "position", "TypeError", A_FUNCTION, lambda: started(lambda key: "here")),
    ("a function, stacked", V, "stacked", "got True", "must be False", lambda: sampled(position=len, stacked=True)),
    ("neither", V, "position", "neither", "either position or state", lambda: sampled(position=None)),
    ("both", V, "state", "both", "either position or state", lambda: sampled(state=LAST_STATE)),
    ("a position for a state", T, "state", "shape (2,)", A_STATE, lambda: sampled(position=None, state=POINT)),
    (
        "chains at several steps",
        V,
        "state",
        "[10 11]",
        "chains at one step",
        lambda: sampled(position=None, state=two_steps()),
    ),
    ("too many steps", V, "num_steps", f"got {2**31}", "to 2147483647", lambda: sampled(num_steps=2**31)),
)


def two_steps() -> Any:
    """A state of two chains, one of them a step ahead."""
    state = sampled(num_chains=2).state
    return state.at_step(state.step + jnp.arange(2, dtype=jnp.int32))


of(
    "sample: what it keeps",
    ("a name", T, "keep", "'position'", "a function (position)", lambda: sampled(keep="position")),
    ("a function that fails", V, "keep", "KeyError", "one chain's position", lambda: sampled(keep=lambda p: {}[0])),
    ("nothing", V, "keep", "None", "returns a tree of arrays", lambda: sampled(keep=lambda p: None)),
    (
        "moments by name",
        T,
        "moments",
        "'dense'",
        "a MomentPlan (ewsg_jax.moments(…))",
        lambda: sampled(moments="dense"),
    ),
    (
        "moments of truth values",
        T,
        "moments",
        "dtype bool",
        "floating-point",
        lambda: sampled(moments=ewsg.moments(lambda p: p > 0)),
    ),
)


def no_samples(folder: Path) -> Any:
    """Load a file that holds something else."""
    np.savez(folder / "run.npz", x=X)
    return ewsg.load(folder / "run.npz")


of(
    "load",
    ("a number", T, "path", "3 (int)", "the path of a file", lambda: ewsg.load(3)),
    ("another file", V, "path", "run.npz", "a file that samples.save wrote", no_samples),
)
of(
    "moments",
    ("of what", T, "of", "'mean' (str)", "a function (position)", lambda: ewsg.moments("mean")),
    ("covariance", V, "covariance", "'full' (str)", "'diagonal', 'dense'", lambda: ewsg.moments(covariance="full")),
    ("weights", V, "weights", "None", "'equal', 'step_size'", lambda: ewsg.moments(weights=None)),
)

# Dynamics.


def dynamics(name: str, *rows: tuple, **arguments: Any) -> None:
    """Rows `(what, error, argument, got, takes, value)`: one argument of a dynamics replaced by a value."""
    build, good = getattr(ewsg.dynamics, name), {"step_size": 0.1} | arguments
    of(
        f"dynamics.{name}",
        *((*row[:5], lambda name=row[2], value=row[5]: build(**(good | {name: value}))) for row in rows),
    )


dynamics(
    "langevin",
    ("zero", V, "step_size", "0.0 (float)", SCHEDULE, 0.0),
    ("negative", V, "step_size", "-0.1 (float)", POSITIVE, -0.1),
    ("NaN", V, "step_size", "nan (float)", POSITIVE, NAN),
    ("infinite", V, "step_size", "inf (float)", POSITIVE, INF),
    ("complex", T, "step_size", "1j (complex)", POSITIVE, 1j),
    ("text", T, "step_size", "'0.1' (str)", POSITIVE, "0.1"),
    ("bool", T, "step_size", "True (bool)", POSITIVE, True),
    ("negative array", V, "step_size", "that holds -1.0", POSITIVE, jnp.array(-1.0)),
    ("schedule of vectors", V, "step_size", "shape (2,)", "real scalar", lambda step: jnp.ones(2)),
    ("schedule that fails", V, "step_size", "RuntimeError: the disk is full", SCHEDULE, failing),
    ("schedule of nothing", V, "step_size", "takes 0 positional arguments", SCHEDULE, lambda: 0.1),
    (
        "noise",
        V,
        "noise",
        "'gausian' (str) (did you mean 'gaussian'?)",
        "one of 'gaussian', 'rademacher'",
        "gausian",
    ),
)
dynamics(
    "euler",
    ("friction 0", V, "friction", "0 (int)", POSITIVE, 0),
    ("friction a list", T, "friction", "[1.0] (list)", POSITIVE, [1.0]),
    ("temperature", V, "temperature", "-1.0 (float)", POSITIVE, -1.0),
    ("noise", V, "noise", "1 (int)", "one of 'gaussian', 'rademacher'", 1),
    ("complex schedule", V, "step_size", "dtype complex64", "real scalar", lambda step: jnp.complex64(1)),
    ("a huge whole number", V, "step_size", "too large for a float", POSITIVE, 10**400),
    friction=1.0,
)
dynamics(
    "semi_implicit",
    ("vector", V, "step_size", "shape (2,)", "of floating-point dtype", np.ones(2)),
    ("friction None", T, "friction", "None (NoneType)", SCHEDULE, None),
    ("temperature 0", V, "temperature", "0.0 (float)", POSITIVE, 0.0),
    (
        "step of whole numbers",
        V,
        "step_size",
        "dtype uint32 that holds 1",
        "of floating-point dtype",
        jnp.uint32(1),
    ),
    friction=1.0,
)
dynamics(
    "splitting",
    ("fraction", T, "step_size", "Fraction(1, 10)", POSITIVE, __import__("fractions").Fraction(1, 10)),
    ("friction NaN", V, "friction", "nan (float)", POSITIVE, NAN),
    ("schedule of None", V, "friction", "returned None", "real scalar", lambda step: None),
    ("temperature", T, "temperature", "{} (dict)", POSITIVE, {}),
    friction=1.0,
)
dynamics(
    "exact",
    ("inverse mass 0", V, "inverse_mass", "0 (int)", POSITIVE, 0),
    (
        "inverse mass a schedule",
        T,
        "inverse_mass",
        "function",
        "positive number or a scalar array",
        lambda step: 1.0,
    ),
    ("inverse mass a vector", V, "inverse_mass", "shape (2,)", "scalar array", np.ones(2)),
    ("friction", V, "friction", "-2.0 (float)", SCHEDULE, -2.0),
)

# Estimators.

of(
    "gradients.full",
    ("a kernel", T, "posterior", "Kernel(", A_POSTERIOR, lambda: ewsg.gradients.full(KERNEL)),
    (
        "not called",
        T,
        "posterior",
        "call it",
        A_POSTERIOR,
        lambda: ewsg.gradients.full(ewsg.models.logistic_regression),
    ),
    ("chunk", V, "chunk_size", "got 0", WHOLE, lambda: ewsg.gradients.full(MODEL, chunk_size=0)),
    (
        "chunk a float",
        T,
        "chunk_size",
        "1e3 (float)".replace("1e3", "1000.0"),
        WHOLE,
        lambda: ewsg.gradients.full(MODEL, chunk_size=1e3),
    ),
)


def uniform(**changes: Any) -> Any:
    """The uniform estimator with an argument replaced."""
    return ewsg.gradients.uniform(**({"posterior": MODEL, "batch_size": 2} | changes))


of(
    "gradients.uniform",
    ("no batch", V, "batch_size", "got 0", WHOLE, lambda: uniform(batch_size=0)),
    ("a share", T, "batch_size", "0.1 (float)", WHOLE, lambda: uniform(batch_size=0.1)),
    ("a bool", T, "batch_size", "True (bool)", WHOLE, lambda: uniform(batch_size=True)),
    ("a text", T, "batch_size", "'2' (str)", WHOLE, lambda: uniform(batch_size="2")),
    ("replace", T, "replace", "1 (int)", "must be True or False", lambda: uniform(replace=1)),
    ("class", T, "posterior", "call it to make one", A_POSTERIOR, lambda: uniform(posterior=ewsg.Posterior)),
)
A_BATCH = "from every batch"
FROZEN = "one of 'momentum', 'zero', 'one', 'rest'"
SHAPED = "shaped like the position"


def weighted(estimator: Any = UNIFORM, **changes: Any) -> Any:
    """The exponentially weighted estimator with an argument replaced."""
    return ewsg.gradients.exponentially_weighted(estimator, **changes)


of(
    "gradients.exponentially_weighted",
    ("a posterior", T, "estimator", "Posterior(", AN_ESTIMATOR, lambda: weighted(MODEL)),
    (
        "full",
        V,
        "estimator",
        "the full gradient",
        "must draw batches",
        lambda: weighted(ewsg.gradients.full(MODEL)),
    ),
    ("twice", V, "estimator", "'momentum' (str)", "not be exponentially weighted", lambda: weighted(weighted())),
    ("length -1", V, "chain_length", "got -1", WHOLE_0, lambda: weighted(chain_length=-1)),
    ("length 1.5", T, "chain_length", "1.5 (float)", WHOLE_0, lambda: weighted(chain_length=1.5)),
    ("length NaN", T, "chain_length", "nan (float)", WHOLE_0, lambda: weighted(chain_length=NAN)),
    ("length a text", T, "chain_length", "'inf' (str)", WHOLE_0, lambda: weighted(chain_length="inf")),
    ("x", V, "frozen_noise", "(did you mean 'momentum'?)", FROZEN, lambda: weighted(frozen_noise="momentun")),
    ("x none", V, "frozen_noise", "None (NoneType)", FROZEN, lambda: weighted(frozen_noise=None)),
    ("x a function", T, "frozen_noise", "function failing", SHAPED, lambda: weighted(frozen_noise=failing)),
    ("x NaN", V, "frozen_noise", "holds 2 NaN", "must be finite", lambda: weighted(frozen_noise=POINT + NAN)),
    ("candidates", V, "candidates", "'all' (str)", "'together', 'one_by_one'", lambda: weighted(candidates="all")),
)

# Methods.

INTEGRATORS = "one of 'semi_implicit', 'euler', 'splitting', 'exact'"
NO_RADEMACHER = "must be 'gaussian' for integrator='exact'"
of(
    "ld",
    ("a kernel", T, "posterior", "Kernel(", A_POSTERIOR, lambda: ewsg.ld(KERNEL, 0.1)),
    ("step size", V, "step_size", "-1 (int)", POSITIVE, lambda: ewsg.ld(MODEL, -1)),
    ("temperature", V, "temperature", "inf (float)", POSITIVE, lambda: ewsg.ld(MODEL, 0.1, temperature=INF)),
    ("chunks", T, "chunk_size", "None", WHOLE, lambda: ewsg.ld(MODEL, 0.1, chunk_size=None)),
)


def uld(**changes: Any) -> Any:
    """Underdamped Langevin dynamics with an argument replaced."""
    return ewsg.uld(MODEL, **({"step_size": 0.1, "friction": 1.0} | changes))


of(
    "uld",
    ("integrator", V, "integrator", "(did you mean 'splitting'?)", INTEGRATORS, lambda: uld(integrator="spliting")),
    ("no integrator", V, "integrator", "None", INTEGRATORS, lambda: uld(integrator=None)),
    ("noise", V, "noise", "'rademacher'", NO_RADEMACHER, lambda: uld(integrator="exact", noise="rademacher")),
    ("friction", V, "friction", "0 (int)", POSITIVE, lambda: uld(friction=0)),
    ("temperature", V, "temperature", "-1 (int)", POSITIVE, lambda: uld(temperature=-1)),
    ("inverse mass", V, "inverse_mass", "2.0 (float)", "must be 1 unless", lambda: uld(inverse_mass=2.0)),
    ("inverse mass True", V, "inverse_mass", "True (bool)", "must be 1 unless", lambda: uld(inverse_mass=True)),
)
of(
    "sgld",
    ("a class", T, "posterior", "class 'ewsg_jax", "call it", lambda: ewsg.sgld(ewsg.Posterior, 0.1, batch_size=1)),
    ("a pair", T, "posterior", "(tuple)", A_POSTERIOR, lambda: ewsg.sgld((failing, failing), 0.1, batch_size=1)),
    ("step size", T, "step_size", "None", POSITIVE, lambda: ewsg.sgld(MODEL, None, batch_size=1)),
    ("batch", V, "batch_size", "got -1", WHOLE, lambda: ewsg.sgld(MODEL, 0.1, batch_size=-1)),
    (
        "replace",
        T,
        "replace",
        "'no' (str)",
        "True or False",
        lambda: ewsg.sgld(MODEL, 0.1, batch_size=1, replace="no"),
    ),
)


def sghmc(**changes: Any) -> Any:
    """Stochastic-gradient HMC with an argument replaced."""
    return ewsg.sghmc(MODEL, **({"step_size": 0.1, "friction": 1.0, "batch_size": 1} | changes))


of(
    "sghmc",
    ("friction", T, "friction", "'1' (str)", POSITIVE, lambda: sghmc(friction="1")),
    ("batch", T, "batch_size", "None", WHOLE, lambda: sghmc(batch_size=None)),
    ("noise", V, "noise", "'student'", "one of 'gaussian', 'rademacher'", lambda: sghmc(noise="student")),
    ("integrator", V, "integrator", "3 (int)", INTEGRATORS, lambda: sghmc(integrator=3)),
    ("step size", T, "step_size", "True (bool)", SCHEDULE, lambda: sghmc(step_size=True)),
)


def weighted_method(**changes: Any) -> Any:
    """EWSG with an argument replaced."""
    return ewsg.ewsg(MODEL, **({"step_size": 0.1, "friction": 1.0, "batch_size": 1} | changes))


def tree(x: Any) -> Any:
    """The first state of EWSG with an x given as a tree."""
    return weighted_method(frozen_noise=x).init(KEY, POINT, DATA)


EVERY = "at most 100,000 are listed"
of(
    "ewsg",
    ("length", V, "chain_length", "got -1", WHOLE_0, lambda: weighted_method(chain_length=-1)),
    (
        "rest on exact",
        V,
        "frozen_noise",
        "'rest' (str)",
        "one of 'momentum', 'zero', 'one'",
        lambda: weighted_method(integrator="exact", frozen_noise="rest"),
    ),
    ("x too long", V, "frozen_noise", "frozen_noise: (3,)", SHAPED, lambda: tree(jnp.zeros(3))),
    ("x integers", V, "frozen_noise", "int32", SHAPED, lambda: tree(jnp.zeros(2, int))),
    ("x another tree", V, "frozen_noise", "frozen_noise['a']: (2,)", SHAPED, lambda: tree({"a": POINT})),
    ("candidates", V, "candidates", "None", "'together'", lambda: weighted_method(candidates=None)),
    (
        "too many batches",
        V,
        "batch_size",
        "batch_size = 9",
        EVERY,
        lambda: weighted_method(batch_size=9, chain_length=INF).init(KEY, POINT, DATA),
    ),
    (
        "far too many batches",
        V,
        "batch_size",
        "about 10^7782",
        EVERY,
        lambda: weighted_method(batch_size=10_000, chain_length=INF).init(KEY, POINT, DATA),
    ),
)
of(
    "ewsg_ld",
    (
        "rest",
        V,
        "frozen_noise",
        "'rest' (str)",
        "one of 'momentum', 'zero', 'one'",
        lambda: ewsg.ewsg_ld(MODEL, 0.1, batch_size=1, frozen_noise="rest"),
    ),
    ("step size", V, "step_size", "0 (int)", SCHEDULE, lambda: ewsg.ewsg_ld(MODEL, 0, batch_size=1)),
    (
        "temperature",
        T,
        "temperature",
        "False",
        POSITIVE,
        lambda: ewsg.ewsg_ld(MODEL, 1, batch_size=1, temperature=False),
    ),
)

# Models.

models = ewsg.models
of(
    "models.gaussian_location",
    ("noise 0", V, "noise_scale", "0 (int)", POSITIVE, lambda: models.gaussian_location(noise_scale=0)),
    ("noise inf", V, "noise_scale", "inf (float)", POSITIVE, lambda: models.gaussian_location(noise_scale=INF)),
    ("prior", V, "prior_scale", "-1.0 (float)", POSITIVE, lambda: models.gaussian_location(prior_scale=-1.0)),
)
of(
    "models.linear_regression",
    ("noise", T, "noise_scale", "'1' (str)", POSITIVE, lambda: models.linear_regression(noise_scale="1")),
    ("prior", V, "prior_scale", "nan (float)", POSITIVE, lambda: models.linear_regression(prior_scale=NAN)),
)
of(
    "models.logistic_regression",
    ("prior", V, "prior_scale", "-inf (float)", POSITIVE, lambda: models.logistic_regression(prior_scale=-INF)),
    ("prior None", T, "prior_scale", "None", POSITIVE, lambda: models.logistic_regression(prior_scale=None)),
)
of(
    "models.softmax_regression",
    ("prior", T, "prior_scale", "1j (complex)", POSITIVE, lambda: models.softmax_regression(prior_scale=1j)),
    (
        "weights of one class",
        V,
        "log_likelihood",
        "position: (2,)",
        IS_SCALAR,
        lambda: models.softmax_regression().gradient(POINT, ROWS | {"y": np.zeros(6, np.int32)}),
    ),
    (
        "classes as floats",
        V,
        "log_likelihood",
        "Indexer must have integer or boolean type",
        IS_SCALAR,
        lambda: models.softmax_regression().gradient(jnp.zeros((2, 2)), ROWS),
    ),
)

# Data sets.

datasets = ewsg.datasets
X, Y = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, 6.0]]), np.array([0, 1, 1])


def dataset(x: Any = X, y: Any = Y, feature_names: Any = ("a", "b")) -> Any:
    """A data set with something wrong."""
    return datasets.Dataset(x, y, feature_names, "tiny", "made here")


TINY = dataset()
NUMBERS, NAMES = "a NumPy array of real numbers", "must be a list of texts"
SHAPES, A_DATASET = "x of shape (n, d), y of shape (n,)", "must be a Dataset (as ewsg_jax.datasets"
of(
    "datasets.Dataset",
    ("x a list", T, "x", "(list)", NUMBERS, lambda: dataset(x=[[1.0]])),
    ("x texts", T, "x", "dtype <U1", NUMBERS, lambda: dataset(x=np.array([["a"]]))),
    ("y objects", T, "y", "dtype object", NUMBERS, lambda: dataset(y=np.array([0, None, 1]))),
    ("y too short", V, "y", "y of shape (2,)", SHAPES, lambda: dataset(y=Y[:2])),
    ("names one text", T, "feature_names", "'ab' (str)", NAMES, lambda: dataset(feature_names="ab")),
    ("a name a number", T, "feature_names", "1 (int)", NAMES, lambda: dataset(feature_names=("a", 1))),
    ("one name", V, "feature_names", "1 feature_names", SHAPES, lambda: dataset(feature_names=["a"])),
    ("no rows", V, "x", "shape (0, 2)", "must have rows", lambda: dataset(x=X[:0], y=Y[:0])),
    ("without", V, "columns", "'c' (str)", "one of 'a', 'b'", lambda: TINY.without(["c"])),
    ("without one text", T, "columns", "'ab' (str)", NAMES, lambda: TINY.without("ab")),
    ("take beyond n", V, "rows", "got 3", "from 0 to 2", lambda: TINY.take(np.array([3]))),
    ("take a list", T, "rows", "[0] (list)", "an array of row numbers", lambda: TINY.take([0])),
)
KNOWN = "one of 'breast_cancer', 'covertype', 'heart', 'letter', 'pima'"
of(
    "datasets.load",
    ("unknown", V, "name", "(did you mean 'covertype'?)", KNOWN, lambda: datasets.load("covtype")),
    ("none", V, "name", "None (NoneType)", KNOWN, lambda: datasets.load(None)),
    ("a list", V, "name", "['covertype'] (list)", KNOWN, lambda: datasets.load(["covertype"])),
)
SHARE = "a number above 0 and below 1"
of(
    "datasets.split",
    ("arrays", T, "dataset", "shape (3, 2)", A_DATASET, lambda: datasets.split(X, 0.5, 0)),
    ("all", V, "test_fraction", "got 1.0", SHARE, lambda: datasets.split(TINY, 1.0, 0)),
    ("NaN", V, "test_fraction", "got nan", SHARE, lambda: datasets.split(TINY, NAN, 0)),
    ("a text", T, "test_fraction", "'0.5' (str)", SHARE, lambda: datasets.split(TINY, "0.5", 0)),
    (
        "too much",
        V,
        "test_fraction",
        "got 0.9",
        "leaves rows in both parts of 3",
        lambda: datasets.split(TINY, 0.9, 0),
    ),
    ("seed", V, "seed", "got -1", WHOLE_0, lambda: datasets.split(TINY, 0.5, -1)),
    ("seed a key", T, "seed", "dtype key<fry>", WHOLE_0, lambda: datasets.split(TINY, 0.5, KEY)),
)
OTHER, LOST = dataset(feature_names=("a", "c")), dataset(x=np.where(X == 5, NAN, X))
of(
    "datasets.standardise",
    ("arrays", T, "train", "shape (3, 2)", A_DATASET, lambda: datasets.standardise(X, X)),
    ("a pair", T, "test", "(tuple)", A_DATASET, lambda: datasets.standardise(TINY, (TINY, TINY))),
    (
        "other features",
        V,
        "test",
        "got 2",
        "must have the features of train",
        lambda: datasets.standardise(TINY, OTHER),
    ),
    ("NaN", V, "train.x", "holds 2 NaN", "must be finite", lambda: datasets.standardise(LOST, TINY)),
    ("NaN in test", V, "test.x", "holds 2 NaN", "must be finite", lambda: datasets.standardise(TINY, LOST)),
)
SAME = dataset(x=np.ones((3, 2)))
of(
    "datasets.whiten",
    ("none", T, "train", "None", A_DATASET, lambda: datasets.whiten(None, TINY)),
    ("NaN", V, "train.x", "holds 2 NaN", "must be finite", lambda: datasets.whiten(LOST, TINY)),
    ("constant", V, "train", "shape (3, 2)", "features that vary", lambda: datasets.whiten(SAME, SAME)),
    ("other features", V, "test", "got 2", "must have the features of train", lambda: datasets.whiten(TINY, OTHER)),
)


def covertype(folder: Path, name: str, content: bytes) -> Any:
    """Load Covertype from a file with this content; the test points EWSG_JAX_DATA to the folder."""
    (folder / name).write_bytes(content)
    return datasets.covertype()


CLASSES, COVERTYPE = "a whole number, from 1 to 7", "must hold Covertype"
of(
    "datasets.covertype",
    ("class 8", V, "positive_class", "got 8", CLASSES, lambda: datasets.covertype(positive_class=8)),
    ("a text", T, "positive_class", "'2' (str)", CLASSES, lambda: datasets.covertype(positive_class="2")),
    (
        "no npz",
        V,
        "covertype.npz",
        "cannot be read",
        COVERTYPE,
        lambda folder: covertype(folder, "covertype.npz", b"a"),
    ),
    (
        "no gzip",
        V,
        "covtype.data.gz",
        "BadGzipFile",
        COVERTYPE,
        lambda folder: covertype(folder, "covtype.data.gz", b"a"),
    ),
    ("no numbers", V, "covtype.data", "'a'", COVERTYPE, lambda folder: covertype(folder, "covtype.data", b"a,b\n")),
)

# Diagnostics.

SAMPLES = ewsg.sample(KEY, ewsg.ld(LOGISTIC, 0.1), POINT, ROWS, 4, num_chains=2, progress=False)
A_RUN, TEST_ROWS = "a Samples (what ewsg_jax.sample returns)", 'must be {"x": (n, d), "y": (n,)}'
diagnostics = ewsg.diagnostics
SUMMARY = diagnostics.summary(SAMPLES)
A_SUMMARY = "a Summary (what ewsg_jax.diagnostics.summary returns)"
of(
    "diagnostics.summary",
    ("draws", T, "samples", "shape (2, 4, 2)", A_RUN, lambda: diagnostics.summary(SAMPLES.position)),
    ("ArviZ", T, "samples", "(", A_RUN, lambda: diagnostics.summary(SAMPLES.to_arviz())),
    ("names one text", T, "names", "'ab' (str)", NAMES, lambda: diagnostics.summary(SAMPLES, "ab")),
    ("names numbers", T, "names", "0 (int)", NAMES, lambda: diagnostics.summary(SAMPLES, [0, 1])),
    ("one name", V, "names", "got 1", "must be 2, one for each", lambda: diagnostics.summary(SAMPLES, ["a"])),
)
of(
    "diagnostics.distance",
    ("samples", T, "run", "Samples(", A_SUMMARY, lambda: diagnostics.distance(SAMPLES, SUMMARY)),
    ("no reference", T, "reference", "None", A_SUMMARY, lambda: diagnostics.distance(SUMMARY, None)),
    (
        "other coordinates",
        V,
        "reference",
        "'a'",
        "must have the same coordinates",
        lambda: diagnostics.distance(SUMMARY, diagnostics.summary(SAMPLES, ["a", "b"])),
    ),
)
WITHOUT_Y, WIDE = {"x": ROWS["x"]}, ROWS | {"x": np.ones((6, 3), np.float32)}


def judged(name: str) -> tuple:
    """Rows of a function that takes samples and held-out rows of logistic regression."""
    call = getattr(diagnostics, name)
    return (
        ("draws", T, "samples", "shape (2, 4, 2)", A_RUN, lambda: call(SAMPLES.position, ROWS)),
        ("chunks", V, "chunk_size", "got 0", WHOLE, lambda: call(SAMPLES, ROWS, chunk_size=0)),
        (
            "other features",
            V,
            "samples",
            "shapes [(2,)]",
            "shape (3,), one weight for each",
            lambda: call(SAMPLES, WIDE),
        ),
        ("no data", V, "data", "None", ROWS_SHARED, lambda: call(SAMPLES, None)),
    )


of("diagnostics.trajectory", *judged("trajectory"))
of("diagnostics.predictive", *judged("predictive"))
density = diagnostics.log_predictive_density
of(
    "diagnostics.log_predictive_density",
    ("draws", T, "samples", "shape (2, 4, 2)", A_RUN, lambda: density(SAMPLES.position, LOGISTIC, ROWS)),
    ("a kernel", T, "posterior", "Kernel(", A_POSTERIOR, lambda: density(SAMPLES, KERNEL, ROWS)),
    ("chunks", V, "chunk_size", "got 0", WHOLE, lambda: density(SAMPLES, LOGISTIC, ROWS, chunk_size=0)),
)
PROBABILITIES, LABELS = np.array([0.1, 0.9]), np.array([0, 1])
of(
    "diagnostics.calibration",
    (
        "above one",
        V,
        "probabilities",
        "to 1.9",
        "between 0 and 1",
        lambda: diagnostics.calibration(PROBABILITIES + 1, LABELS),
    ),
    (
        "labels",
        V,
        "labels",
        "shape (1,)",
        "classes from 0 to 1",
        lambda: diagnostics.calibration(PROBABILITIES, LABELS[:1]),
    ),
    ("bins", V, "num_bins", "got 0", WHOLE, lambda: diagnostics.calibration(PROBABILITIES, LABELS, num_bins=0)),
)

# Experiments.

CONFIG = """
title = "A title"
[data]
name = "breast_cancer"
[run]
num_chains = 2
data_passes = 2
[[methods]]
name = "sghmc"
step_size = 1e-3
friction = 1
batch_size = 50
"""


def written(folder: Path, old: str = "", new: str = "") -> Path:
    """A configuration with something wrong, in a file."""
    assert old in CONFIG
    path = folder / "config.toml"
    path.write_text(CONFIG.replace(old, new, 1))
    return path


def config(old: str, new: str) -> Callable[[Path], Any]:
    """Load a configuration with something wrong."""
    return lambda folder: load(written(folder, old, new))


def not_text(folder: Path) -> Any:
    """Load a file that is no text."""
    (folder / "bytes.toml").write_bytes(b"\xff\xfe")
    return load(folder / "bytes.toml")


SEEDS = "must be at most 4294967295"
of(
    "experiments.config.load",
    ("key", C, "run.num_chians", "(did you mean 'num_chains'?)", "unknown key", config("num_chains", "num_chians")),
    (
        "another file",
        C,
        "build-system",
        "'build-system'",
        "known are title",
        config("[data]", "[build-system]\n[data]"),
    ),
    ("text", C, "run.data_passes", "'2' (str)", "must be a number", config("data_passes = 2", 'data_passes = "2"')),
    ("NaN", C, "run.data_passes", "got nan", "must be above 0", config("passes = 2", "passes = nan")),
    ("burn-in", C, "burn_in_passes", "got inf", "a finite number", config("[run]", "[run]\nburn_in_passes = inf")),
    ("spread", C, "start_spread", "got inf", "a finite number", config("[run]", "[run]\nstart_spread = inf")),
    ("seed", C, "run.seed", "got 4294967296", SEEDS, config("[run]", "[run]\nseed = 4294967296")),
    ("split seed", C, "data.split_seed", f"got {2**70}", SEEDS, config("[data]", f"[data]\nsplit_seed = {2**70}")),
    (
        "a huge whole number",
        C,
        "run.data_passes",
        "too large",
        "must be a number",
        config("passes = 2", f"passes = {10**400}"),
    ),
    ("not TOML", C, "TOML", "Invalid value", "valid TOML", config("= 2", "=")),
    ("not text", C, "TOML", "0xff in position 0", "text in UTF-8", not_text),
)


def ran(old: str = "", new: str = "", *arguments: str) -> Callable[[Path], Any]:
    """Run a configuration with something wrong from the command line."""

    def call(folder: Path) -> Any:
        path = written(folder, old, new)
        return main(["run", str(path), "--output", str(folder / "out"), *arguments])

    return call


def into_a_file(folder: Path) -> Any:
    """Run with an output folder that is a file."""
    (folder / "file").write_text("kept")
    return main(["run", str(written(folder)), "--output", str(folder / "file")])


SEED = "a whole number from 0 to 4294967295"
of(
    "main",
    (
        "no file",
        None,
        "none.toml",
        "No such file",
        "none.toml",
        lambda folder: main(["run", str(folder / "none.toml")]),
    ),
    ("a folder", None, "error:", "Is a directory", "", lambda folder: main(["run", str(folder)])),
    ("no command", None, "run", "the following arguments are required", "usage: ewsg_jax", lambda: main([])),
    ("seed", None, "--seed", "got -1", SEED, ran("", "", "--seed", "-1")),
    ("seed a text", None, "--seed", "got 'one'", SEED, ran("", "", "--seed", "one")),
    ("seed too large", None, "--seed", "got 4294967296", SEED, ran("", "", "--seed", "4294967296")),
    ("output a file", None, "output folder", "File exists", "cannot write to", into_a_file),
    ("step size", None, "sghmc: step_size", "-1 (int)", POSITIVE, ran("step_size = 1e-3", "step_size = -1")),
    ("column", None, "columns", "'size' (str)", "one of 'mean_", ran("[data]", '[data]\ndrop_columns = ["size"]')),
    (
        "batch above n",
        None,
        "sghmc: batch_size",
        "got 500",
        "at most n = 455",
        ran("= 50", "= 500\nreplace = false"),
    ),
    (
        "steps",
        None,
        "sghmc",
        "got 9100000000",
        "at most 2147483647 steps",
        ran("data_passes = 2", "data_passes = 1e9"),
    ),
    (
        "x",
        None,
        "sghmc: frozen_noise",
        "frozen_noise[0]: ()",
        SHAPED,
        ran('"sghmc"', '"ewsg"\nlabel = "sghmc"\nfrozen_noise = [0.0, 1.0]'),
    ),
)
