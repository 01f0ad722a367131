"""Wrong calls of what is done before a run."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax.preparation.curvature import Curvature
from ewsg_jax.preparation.spectrum import CurvatureOfMany
from tests.wrong_calls.table import (
    A_KEY,
    A_POSTERIOR,
    AT_MOST_2_31,
    DATA,
    KEY,
    MODEL,
    NAN,
    OLD_KEY,
    POINT,
    POSITIVE,
    ROWS,
    ROWS_SHARED,
    TOO_MANY,
    WHOLE,
    WHOLE_0,
    T,
    V,
    of,
    over,
)


def searched(**changes):
    """Search for a mode with something wrong."""
    arguments = {
        "key": KEY,
        "posterior": MODEL,
        "position": POINT,
        "data": DATA,
        "progress": False,
    } | changes
    return ewsg.find_mode(**arguments)


LOOPED = ewsg.Posterior(
    lambda w, x: (
        -jnp.sum((x - jax.lax.while_loop(lambda c: jnp.any(c > 1), lambda c: c / 2, w)) ** 2)
    ),
    lambda w: -jnp.sum(w**2),
)
BETWEEN_WALLS = ewsg.Posterior(
    lambda w, x: -jnp.sum((x - w) ** 2), lambda w: jnp.where(jnp.all(jnp.abs(w) < 1), 0.0, -jnp.inf)
)
of(
    "find_mode",
    ("legacy key", T, "key", "uint32", A_KEY, lambda: searched(key=OLD_KEY)),
    (
        "a kernel",
        T,
        "posterior",
        "kernel(",
        A_POSTERIOR,
        lambda: searched(posterior=ewsg.ld(MODEL, 0.1)),
    ),
    (
        "a number of devices",
        T,
        "mesh",
        "2 (int)",
        "a jax.sharding.Mesh whose axes",
        lambda: searched(mesh=2),
    ),
    (
        "batches on a mesh",
        V,
        "batch_size",
        "got 2",
        "None with mesh",
        lambda: searched(
            batch_size=2, mesh=jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
        ),
    ),
    (
        "integers",
        T,
        "position",
        "int32",
        "floating-point",
        lambda: searched(position=jnp.zeros(2, int)),
    ),
    (
        "NaN data",
        V,
        "data",
        "holds 1 NaN",
        "must be finite",
        lambda: searched(data=DATA.at[0, 0].set(NAN)),
    ),
    (
        "a look or not",
        T,
        "check_data",
        "'no' (str)",
        "True or False",
        lambda: searched(check_data="no"),
    ),
    (
        "a loop without a gradient",
        V,
        "log_likelihood",
        "Reverse-mode differentiation",
        "differentiable by jax.grad",
        lambda: searched(posterior=LOOPED),
    ),
    (
        "a start outside of the support",
        V,
        "position",
        "log_prior is -inf",
        "potential and its derivatives are finite",
        lambda: searched(posterior=BETWEEN_WALLS, position=jnp.full(2, 9.0)),
    ),
    (
        "too many rows",
        V,
        "data",
        "got 3,000,000,000 rows",
        AT_MOST_2_31,
        lambda: searched(data=TOO_MANY),
    ),
    (
        "outside the support",
        V,
        "position",
        "V = nan",
        "a start where the potential and its derivatives are finite",
        lambda: searched(
            posterior=ewsg.Posterior(lambda w, x: jnp.log(w[0]) * x[0], lambda w: -w[0]),
            position=-jnp.ones(2),
        ),
    ),
    ("tolerance", V, "tolerance", "got 0", POSITIVE, lambda: searched(tolerance=0)),
    ("rank", T, "rank", "0.5 (float)", WHOLE_0, lambda: searched(rank=0.5)),
    ("no steps", V, "max_steps", "got 0", WHOLE, lambda: searched(max_steps=0)),
    ("batch", T, "batch_size", "2.0 (float)", WHOLE, lambda: searched(batch_size=2.0)),
    (
        "passes",
        V,
        "warm_up_passes",
        "got -1",
        POSITIVE,
        lambda: searched(batch_size=2, warm_up_passes=-1),
    ),
    (
        "optimizer",
        T,
        "optimizer",
        "'adam' (str)",
        "optax.GradientTransformation",
        lambda: searched(batch_size=2, optimizer="adam"),
    ),
)


of(
    "cluster",
    ("no data", V, "data", "None", ROWS_SHARED, lambda: ewsg.cluster(None, 2)),
    (
        "a look or not",
        T,
        "check_data",
        "0 (int)",
        "True or False",
        lambda: ewsg.cluster(DATA, 2, check_data=0),
    ),
    ("no clusters", V, "k", "got 0", WHOLE, lambda: ewsg.cluster(DATA, 0)),
    ("more clusters than rows", V, "k", "got 7", "at most n = 6", lambda: ewsg.cluster(DATA, 7)),
    (
        "seed",
        T,
        "seed",
        "key",
        "a whole number",
        lambda: ewsg.cluster(DATA, 2, seed=jax.random.key(0)),
    ),
    (
        "no such key",
        V,
        "features",
        "'z' for the keys ['x', 'y']",
        "a key of data",
        lambda: ewsg.cluster(ROWS, 2, features="z"),
    ),
    (
        "features",
        T,
        "features",
        "3 (int)",
        "a key of the data or a function",
        lambda: ewsg.cluster(DATA, 2, features=3),
    ),
    (
        "features of fewer rows",
        V,
        "features",
        "(3, 2)",
        "shape (6, …)",
        lambda: ewsg.cluster(DATA, 2, features=lambda data: data[:3]),
    ),
)


FROM_0 = "a positive number or 0"
of(
    "from_sgd",
    ("rate", V, "learning_rate", "got 0", POSITIVE, lambda: ewsg.from_sgd(0, n=10)),
    ("NaN", V, "learning_rate", "got nan", POSITIVE, lambda: ewsg.from_sgd(NAN, n=10)),
    (
        "a schedule",
        T,
        "learning_rate",
        "function",
        POSITIVE,
        lambda: ewsg.from_sgd(lambda t: 0.1, n=10),
    ),
    ("momentum", V, "momentum", "got 1.0", "in [0, 1)", lambda: ewsg.from_sgd(0.1, 1.0, n=10)),
    (
        "decay",
        V,
        "weight_decay",
        "got -1",
        FROM_0,
        lambda: ewsg.from_sgd(0.1, weight_decay=-1, n=10),
    ),
    (
        "a text",
        T,
        "weight_decay",
        "'0' (str)",
        FROM_0,
        lambda: ewsg.from_sgd(0.1, weight_decay="0", n=10),
    ),
    ("half a row", T, "n", "9.5 (float)", WHOLE, lambda: ewsg.from_sgd(0.1, n=9.5)),
)

A_MODE = ewsg.Mode(
    jnp.zeros(2), True, 0.0, 0.0, 0.0, 1, 1.0, Curvature.of(np.diag([1.0, 4.0]), True)
)
NO_MODE = A_MODE._replace(curvature=Curvature.of(np.diag([1.0, -4.0]), True))
ELSEWHERE = ewsg.Mode(jnp.zeros(5), True, 0.0, 0.0, 0.0, 1, 1.0, Curvature.of(np.eye(5), True))
EYE, UNKNOWN, AFFINE = np.eye(2), A_MODE._replace(curvature=None), ewsg.bijectors.affine
of(
    "Mode.start",
    ("an old key", T, "key", "uint32", A_KEY, lambda: A_MODE.start(OLD_KEY)),
    ("no width", V, "width", "got 0", POSITIVE, lambda: A_MODE.start(KEY, 0)),
)
of(
    "Mode.sd",
    ("of a saddle", V, "mode", "curved downwards", "one for its widths", lambda: NO_MODE.sd),
    ("of no curvature", V, "mode", "rank=0", "its curvature", lambda: UNKNOWN.inverse_mass),
)
of(
    "bijectors.affine",
    (
        "integers",
        T,
        "shift",
        "int32",
        "floating-point",
        lambda: ewsg.bijectors.affine(jnp.zeros(2, int)),
    ),
    (
        "NaN",
        V,
        "shift",
        "holds 1 NaN",
        "must be finite",
        lambda: ewsg.bijectors.affine(jnp.array([NAN])),
    ),
    (
        "no matrix",
        V,
        "covariance",
        "the eigenvalue -1",
        "positive definite",
        lambda: AFFINE(POINT, -EYE),
    ),
    (
        "negative",
        V,
        "covariance",
        "got -1",
        "positive number",
        lambda: ewsg.bijectors.affine(POINT, -1.0),
    ),
    (
        "another position",
        V,
        "position",
        "an array of shape (3,)",
        "like the shift",
        lambda: ewsg.bijectors.affine(jnp.zeros(2)).forward(jnp.zeros(3)),
    ),
    (
        "another size",
        V,
        "covariance",
        "over 2 numbers",
        "d numbers",
        lambda: ewsg.bijectors.affine(jnp.zeros(3), EYE).forward(jnp.zeros(3)),
    ),
)


def told(kernel=None, mode=A_MODE, data=DATA, **changes):
    """Forecast with something wrong."""
    return ewsg.forecast(ewsg.ld(MODEL, 0.1) if kernel is None else kernel, mode, data, **changes)


def made(**changes):
    """Langevin dynamics on an estimator."""
    return ewsg.kernel(
        ewsg.dynamics.langevin(0.1), ewsg.gradients.svrg(MODEL, batch_size=1, **changes)
    )


class Mine(ewsg.gradients.OfRows):
    """An estimator of one's own, of which a forecast knows nothing."""

    def propose(self, randomness, memory, point, data, weight):
        raise NotImplementedError

    def gradient_at(self, estimate, position, data):
        raise NotImplementedError

    def evaluations(self, data):
        return ewsg.gradients.Evaluations(1, 1)


MINE = ewsg.kernel(
    ewsg.dynamics.langevin(0.1),
    Mine(posterior=MODEL, law=ewsg.gradients.uniform(MODEL, batch_size=1).law),
)
BY_SIGN = ewsg.gradients.stratified(
    MODEL, batch_size=2, labels=lambda x: jnp.asarray(x[:, 0] > 0, int), num_strata=2
)
MANY = A_MODE._replace(curvature=CurvatureOfMany(np.ones(2), EYE[:, :1], np.ones(1), 1.0))
NO_FORECAST = "whose noise is known"
of(
    "forecast",
    ("no kernel", T, "kernel", "'sgld' (str)", "ewsg_jax.kernel", lambda: told("sgld")),
    (
        "a number of devices",
        T,
        "mesh",
        "2 (int)",
        "a jax.sharding.Mesh whose axes",
        lambda: told(ewsg.ld(MODEL, 0.1), mesh=2),
    ),
    (
        "labels of rows in parts",
        V,
        "mesh",
        "Stratified",
        "no axis 'data'",
        lambda: told(ewsg.kernel(ewsg.dynamics.langevin(0.1), BY_SIGN), mesh=over("data")),
    ),
    (
        "an exact kernel",
        V,
        "kernel",
        "random_walk_metropolis(",
        "a dynamics with an estimator",
        lambda: told(ewsg.random_walk_metropolis(MODEL, 0.1)),
    ),
    (
        "a preconditioner",
        V,
        "kernel",
        "Preconditioned",
        "no more than a momentum",
        lambda: told(ewsg.psgld(MODEL, 0.1, batch_size=1)),
    ),
    (
        "epochs",
        V,
        "kernel",
        "rows='epochs'",
        NO_FORECAST,
        lambda: told(ewsg.sgld(MODEL, 0.1, batch_size=1, rows="epochs")),
    ),
    (
        "sweeps",
        V,
        "kernel",
        "rows='block_sweeps'",
        NO_FORECAST,
        lambda: told(ewsg.sgld(MODEL, 0.1, batch_size=1, rows="block_sweeps")),
    ),
    ("restarts", V, "kernel", "option='I'", NO_FORECAST, lambda: told(made(option="I"))),
    ("an estimator of one's own", V, "kernel", "Mine", NO_FORECAST, lambda: told(MINE)),
    (
        "weights around a memory",
        V,
        "kernel",
        "around a memory",
        NO_FORECAST,
        lambda: told(
            ewsg.kernel(
                ewsg.dynamics.langevin(0.1), ewsg.gradients.exponentially_weighted(made().estimator)
            )
        ),
    ),
    (
        "a table of rows by probability",
        V,
        "kernel",
        "at unlike rates",
        NO_FORECAST,
        lambda: told(
            ewsg.saga_ld(
                MODEL,
                0.1,
                batch_size=1,
                rows=ewsg.rows.by_probability(np.arange(1.0, len(DATA) + 1)),
            )
        ),
    ),
    ("a position", T, "mode", "float32", "find_mode", lambda: told(mode=POINT)),
    ("a saddle", V, "mode", "curved downwards", "one for its widths", lambda: told(mode=NO_MODE)),
    (
        "weights of many",
        V,
        "kernel",
        "the estimator ExponentiallyWeighted",
        "more than 1,000 numbers",
        lambda: told(ewsg.ewsg_ld(MODEL, 0.1, batch_size=1), MANY),
    ),
    (
        "a thermostat of many",
        V,
        "kernel",
        "the dynamics Thermostat",
        "more than 1,000 numbers",
        lambda: told(ewsg.sgnht(MODEL, 0.1, friction=1.0, batch_size=1), MANY),
    ),
    (
        "a given covariance of many",
        V,
        "kernel",
        "the dynamics NoiseCorrected",
        "more than 1,000 numbers",
        lambda: told(
            ewsg.kernel(
                ewsg.dynamics.noise_corrected(
                    0.1, friction=1.0, covariance=np.ones(MANY.position.size)
                ),
                ewsg.gradients.uniform(MODEL, batch_size=1),
            ),
            MANY,
        ),
    ),
    (
        "another mass of many",
        V,
        "kernel",
        "another inverse_mass",
        "mode.inverse_mass",
        lambda: told(ewsg.sgld(MODEL, 0.1, batch_size=1, inverse_mass=3 * EYE), MANY),
    ),
    ("no data", V, "data", "None", "array", lambda: told(data=None)),
    (
        "NaN data",
        V,
        "data",
        "holds 1 NaN",
        "must be finite",
        lambda: told(data=DATA.at[0, 0].set(NAN)),
    ),
    (
        "a look or not",
        T,
        "check_data",
        "'no' (str)",
        "True or False",
        lambda: told(check_data="no"),
    ),
    ("a mode of another model", V, "position", "(5,)", "shape", lambda: told(mode=ELSEWHERE)),
    ("a step before the first", V, "step", "got -1", WHOLE_0, lambda: told(step=-1)),
)
of(
    "Forecast.passes",
    ("none", V, "ess", "got 0", POSITIVE, lambda: told().passes(0)),
    ("a word", T, "ess", "'many' (str)", POSITIVE, lambda: told().passes("many")),
)
