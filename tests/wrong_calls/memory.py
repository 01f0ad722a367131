"""Wrong calls of the estimators with a memory, of what is made of them, and of what is done before a run."""

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
    FROZEN,
    INTEGRATORS,
    KEY,
    LOGISTIC,
    MODEL,
    NAN,
    OLD_KEY,
    POINT,
    POSITIVE,
    ROWS,
    ROWS_SHARED,
    WHOLE,
    T,
    V,
    failing,
    of,
    sampled,
)

G = ewsg.gradients
ROW_LAWS = "one of 'random', 'blocks', 'epochs'"


def started(estimator, data=DATA, position=POINT):
    """Begin a chain of an estimator."""
    return ewsg.kernel(ewsg.dynamics.langevin(0.1), estimator).init(KEY, position, data)


of(
    "gradients.svrg",
    ("a method for a posterior", T, "posterior", "function ld", A_POSTERIOR, lambda: G.svrg(ewsg.ld, batch_size=1)),
    ("no rows", V, "batch_size", "got 0", WHOLE, lambda: G.svrg(MODEL, batch_size=0)),
    (
        "half a step",
        T,
        "refresh_every",
        "1.5 (float)",
        WHOLE,
        lambda: G.svrg(MODEL, batch_size=1, refresh_every=1.5),
    ),
    ("never", V, "refresh_every", "got 0", WHOLE, lambda: G.svrg(MODEL, batch_size=1, refresh_every=0)),
    (
        "a function that gives no number",
        T,
        "refresh_every(n)",
        "3.0 (float)",
        WHOLE,
        lambda: started(G.svrg(MODEL, batch_size=1, refresh_every=lambda n: n / 2)),
    ),
    ("option", V, "option", "1 (int)", "one of 'I', 'II'", lambda: G.svrg(MODEL, batch_size=1, option=1)),
    ("rows", V, "rows", "'block' (str)", ROW_LAWS, lambda: G.svrg(MODEL, batch_size=1, rows="block")),
    (
        "subsets of blocks",
        V,
        "replace",
        "got False",
        "must be True for rows='blocks'",
        lambda: G.svrg(MODEL, batch_size=1, rows="blocks", replace=False),
    ),
    (
        "a block above n",
        V,
        "batch_size",
        "got 7",
        "at most n = 6",
        lambda: started(G.svrg(MODEL, batch_size=7, rows="blocks")),
    ),
)
of(
    "gradients.saga",
    ("no posterior", T, "posterior", "None", A_POSTERIOR, lambda: G.saga(None, batch_size=1)),
    ("no rows", V, "batch_size", "got -1", WHOLE, lambda: G.saga(MODEL, batch_size=-1)),
    ("replace", T, "replace", "1 (int)", "True or False", lambda: G.saga(MODEL, batch_size=1, replace=1)),
    ("chunks", V, "chunk_size", "got 0", WHOLE, lambda: G.saga(MODEL, batch_size=1, chunk_size=0)),
    ("a limit", T, "memory_limit", "'1 GB' (str)", WHOLE, lambda: G.saga(MODEL, batch_size=1, memory_limit="1 GB")),
    (
        "a table that does not fit",
        V,
        "memory_limit",
        "got 47",
        "at least 48 ",
        lambda: started(G.saga(MODEL, batch_size=1, memory_limit=47)),
    ),
    (
        "tables that do not fit",
        V,
        "memory_limit",
        "got 100",
        "for 3 chains",
        lambda: sampled(kernel=ewsg.saga_ld(MODEL, 0.1, batch_size=1, memory_limit=100), num_chains=3),
    ),
)
of(
    "gradients.control_variate",
    ("data", T, "posterior", "array", A_POSTERIOR, lambda: G.control_variate(DATA, batch_size=1)),
    ("half a row", T, "batch_size", "0.5 (float)", WHOLE, lambda: G.control_variate(MODEL, batch_size=0.5)),
    (
        "a name",
        T,
        "center",
        "'mode' (str)",
        "a tree of floating-point arrays",
        lambda: G.control_variate(MODEL, batch_size=1, center="mode"),
    ),
    (
        "a mode for its position",
        T,
        "center",
        "center.converged is",
        "give its position, not the whole Mode",
        lambda: G.control_variate(MODEL, batch_size=1, center=ewsg.find_mode(KEY, MODEL, POINT, DATA)),
    ),
    (
        "NaN",
        V,
        "center",
        "holds 1 NaN",
        "must be finite",
        lambda: G.control_variate(MODEL, batch_size=1, center=POINT.at[0].set(NAN)),
    ),
    (
        "of another shape",
        V,
        "center",
        "shape (3,)",
        "a tree like the position",
        lambda: started(G.control_variate(MODEL, batch_size=1, center=jnp.zeros(3))),
    ),
)
STRATA = {"batch_size": 2, "num_strata": 2}
of(
    "gradients.stratified",
    (
        "no strata",
        V,
        "num_strata",
        "got 0",
        WHOLE,
        lambda: G.stratified(MODEL, batch_size=2, labels="c", num_strata=0),
    ),
    (
        "fewer rows than strata",
        V,
        "batch_size",
        "got 1",
        "at least num_strata = 2",
        lambda: G.stratified(MODEL, batch_size=1, labels="c", num_strata=2),
    ),
    ("labels", T, "labels", "int32", "a function", lambda: G.stratified(MODEL, labels=jnp.zeros(6, int), **STRATA)),
    (
        "no such key",
        V,
        "labels",
        "'c' for the keys ['x', 'y']",
        "a key of data",
        lambda: started(G.stratified(LOGISTIC, labels="c", **STRATA), ROWS),
    ),
    (
        "labels of all",
        V,
        "labels",
        "shape (6, 2)",
        "whole numbers from 0 to 1",
        lambda: started(G.stratified(MODEL, labels=lambda data: data, **STRATA)),
    ),
    (
        "a label too large",
        V,
        "labels",
        "got 2",
        "whole numbers from 0 to 1",
        lambda: started(G.stratified(MODEL, labels=lambda data: np.array([0, 1, 2, 0, 0, 0]), **STRATA)),
    ),
    (
        "labels that fail",
        V,
        "labels",
        "the disk is full",
        "a function of the data",
        lambda: started(G.stratified(MODEL, labels=failing, **STRATA)),
    ),
)
of(
    "gradients.covariance_tracking",
    (
        "structure",
        V,
        "structure",
        "'full' (str)",
        "one of 'dense', 'diagonal', 'low_rank'",
        lambda: G.covariance_tracking(MODEL, batch_size=1, structure="full"),
    ),
    ("rank", V, "rank", "got 0", WHOLE, lambda: G.covariance_tracking(MODEL, batch_size=1, rank=0)),
    (
        "blocks",
        V,
        "rows",
        "got 'blocks'",
        "'random' or 'epochs'",
        lambda: G.covariance_tracking(MODEL, batch_size=1, rows="blocks"),
    ),
    (
        "period",
        T,
        "refresh_every",
        "'epoch' (str)",
        WHOLE,
        lambda: G.covariance_tracking(MODEL, batch_size=1, refresh_every="epoch"),
    ),
)
EPOCHS = G.uniform(MODEL, batch_size=2, rows="epochs")
of(
    "gradients.exponentially_weighted: what it wraps",
    ("epochs", V, "estimator", "rows='epochs'", "exchangeable", lambda: G.exponentially_weighted(EPOCHS)),
    (
        "strata, exactly",
        V,
        "chain_length",
        "got inf",
        "must be finite",
        lambda: G.exponentially_weighted(G.stratified(MODEL, labels="c", **STRATA), chain_length=float("inf")),
    ),
    (
        "shared epochs",
        V,
        "shared_minibatch",
        "got True",
        "epochs of their own",
        lambda: sampled(kernel=ewsg.kernel(ewsg.dynamics.langevin(0.1), EPOCHS), shared_minibatch=True),
    ),
)
CORRECTED = ewsg.dynamics.noise_corrected(0.1, friction=1.0)
of(
    "dynamics.noise_corrected",
    ("step size", V, "step_size", "got 0", POSITIVE, lambda: ewsg.dynamics.noise_corrected(0, friction=1.0)),
    ("friction", V, "friction", "got -1", POSITIVE, lambda: ewsg.dynamics.noise_corrected(0.1, friction=-1.0)),
    (
        "integrator",
        V,
        "integrator",
        "'splitting' (str)",
        "one of 'semi_implicit', 'euler'",
        lambda: ewsg.dynamics.noise_corrected(0.1, friction=1.0, integrator="splitting"),
    ),
    (
        "no covariance",
        V,
        "estimator",
        "one that does not",
        "covariance_tracking",
        lambda: ewsg.kernel(CORRECTED, G.uniform(MODEL, batch_size=1)),
    ),
)

for name in ("svrg_ld", "saga_ld", "cv_ld", "cv_uld", "svrg_hmc", "saga_hmc", "svrg2nd_hmc", "saga2nd_hmc"):
    method = getattr(ewsg, name)
    more = {"friction": 1.0} if name.endswith("hmc") else {}

    def wrongly(method=method, more=more, **changes):
        """Build it with something wrong."""
        step_size = changes.pop("step_size", 0.1)
        return method(MODEL, step_size, **({"batch_size": 2} | more | changes))

    of(
        name,
        ("step size", V, "step_size", "got -0.1", POSITIVE, lambda wrongly=wrongly: wrongly(step_size=-0.1)),
        ("batch", T, "batch_size", "'2' (str)", WHOLE, lambda wrongly=wrongly: wrongly(batch_size="2")),
        ("temperature", V, "temperature", "got 0", POSITIVE, lambda wrongly=wrongly: wrongly(temperature=0)),
        ("rows", V, "rows", "'all' (str)", ROW_LAWS, lambda wrongly=wrongly: wrongly(rows="all")),
    )
of(
    "cp_sghmc",
    (
        "integrator",
        V,
        "integrator",
        "'leapfrog' (str)",
        INTEGRATORS,
        lambda: ewsg.cp_sghmc(MODEL, 0.1, friction=1.0, labels="c", integrator="leapfrog", **STRATA),
    ),
    (
        "friction",
        V,
        "friction",
        "got 0",
        POSITIVE,
        lambda: ewsg.cp_sghmc(MODEL, 0.1, friction=0, labels="c", **STRATA),
    ),
)
of(
    "nc_sghmc",
    ("batch", V, "batch_size", "got 0", WHOLE, lambda: ewsg.nc_sghmc(MODEL, 0.1, friction=1.0, batch_size=0)),
    ("friction", T, "friction", "None", POSITIVE, lambda: ewsg.nc_sghmc(MODEL, 0.1, friction=None, batch_size=1)),
)
of(
    "ewsg_vr",
    ("batch", V, "batch_size", "got 0", WHOLE, lambda: ewsg.ewsg_vr(MODEL, 0.1, friction=1.0, batch_size=0)),
    (
        "visits",
        T,
        "chain_length",
        "inf (float)",
        "a whole number",
        lambda: ewsg.ewsg_vr(MODEL, 0.1, friction=1.0, batch_size=1, chain_length=float("inf")),
    ),
    (
        "x",
        V,
        "frozen_noise",
        "'momenta' (str)",
        FROZEN,
        lambda: ewsg.ewsg_vr(MODEL, 0.1, friction=1.0, batch_size=1, frozen_noise="momenta"),
    ),
)


def searched(**changes):
    """Search for a mode with something wrong."""
    arguments = {"key": KEY, "posterior": MODEL, "position": POINT, "data": DATA, "progress": False} | changes
    return ewsg.find_mode(**arguments)


of(
    "find_mode",
    ("legacy key", T, "key", "uint32", A_KEY, lambda: searched(key=OLD_KEY)),
    ("a kernel", T, "posterior", "Kernel(", A_POSTERIOR, lambda: searched(posterior=ewsg.ld(MODEL, 0.1))),
    ("integers", T, "position", "int32", "floating-point", lambda: searched(position=jnp.zeros(2, int))),
    ("NaN data", V, "data", "holds 1 NaN", "must be finite", lambda: searched(data=DATA.at[0, 0].set(NAN))),
    ("tolerance", V, "tolerance", "got 0", POSITIVE, lambda: searched(tolerance=0)),
    ("no steps", V, "max_steps", "got 0", WHOLE, lambda: searched(max_steps=0)),
    ("batch", T, "batch_size", "2.0 (float)", WHOLE, lambda: searched(batch_size=2.0)),
    ("passes", V, "warm_up_passes", "got -1", POSITIVE, lambda: searched(batch_size=2, warm_up_passes=-1)),
    (
        "optimizer",
        T,
        "optimizer",
        "'adam' (str)",
        "optax.GradientTransformation",
        lambda: searched(batch_size=2, optimizer="adam"),
    ),
)


def pima(folder):
    """Load Pima from a file that holds something else; the test points EWSG_JAX_DATA to the folder."""
    (folder / "pima.npz").write_bytes(b"none")
    return ewsg.datasets.pima()


of("datasets.pima", ("no npz", V, "pima.npz", "cannot be read", "must hold Pima", lambda folder: pima(folder)))
of(
    "cluster",
    ("no data", V, "data", "None", ROWS_SHARED, lambda: ewsg.cluster(None, 2)),
    ("no clusters", V, "k", "got 0", WHOLE, lambda: ewsg.cluster(DATA, 0)),
    ("more clusters than rows", V, "k", "got 7", "at most n = 6", lambda: ewsg.cluster(DATA, 7)),
    ("seed", T, "seed", "key", "a whole number", lambda: ewsg.cluster(DATA, 2, seed=jax.random.key(0))),
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
