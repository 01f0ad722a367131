"""Wrong calls of what is done before a run."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.curvature import Curvature
from ewsg_jax.answers.mode.spectrum import CurvatureOfMany
from tests import own
from tests.wrong_calls.standard import COUNT, COUNT_0, NUMBER, every
from tests.wrong_calls.table import DATA, KEY, MODEL, NAN, POINT, ROWS, WRONG, over


def searched(**changes):
    """Search for a mode with something wrong."""
    arguments = {
        "key": KEY,
        "posterior": MODEL,
        "position": POINT,
        "data": DATA,
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
right = functools.partial(ewsg.find_mode, key=KEY, posterior=MODEL, position=POINT, data=DATA)
every("find_mode", right, max_steps=COUNT, rank=COUNT_0)
of_batches = functools.partial(right, batch_size=2)
every("find_mode: batches", of_batches, warm_up_passes=NUMBER, rank=None, mesh=None)
every("cluster", functools.partial(ewsg.cluster, data=DATA, k=2))
from_sgd = functools.partial(ewsg.from_sgd, learning_rate=0.1, n=10)
every("from_sgd", from_sgd, learning_rate=NUMBER.without("shape (2,)"))
every("Mode.start", lambda key=KEY, width=1.0: A_MODE.start(key, width))
every(
    "forecast",
    lambda data=DATA, check_data=True, step=0, mesh=None: told(
        data=data, check_data=check_data, step=step, mesh=mesh
    ),
    step=COUNT_0,
)
every("Forecast.passes", lambda ess=1: told().passes(ess))
WRONG["find_mode"] |= {
    "V batch_size | got 2 | None with mesh": lambda: searched(
        batch_size=2, mesh=jax.sharding.Mesh(np.array(jax.devices()[:1]), ("data",))
    ),
    "V batch_size | got None | if an optimizer is given": lambda: searched(
        optimizer=optax.sgd(1e-2)
    ),
    "V position | (0,) | at least one number": lambda: searched(position=POINT[:0]),
    "V data | holds 1 NaN | must be finite": lambda: searched(data=DATA.at[0, 0].set(NAN)),
    "V log_likelihood | Reverse-mode differentiation | differentiable by jax.grad": lambda: (
        searched(posterior=LOOPED)
    ),
    "V position | log_prior is -inf | potential and its derivatives are finite": lambda: searched(
        posterior=BETWEEN_WALLS, position=jnp.full(2, 9.0)
    ),
    "V position | V = nan | a start at which the potential and its derivatives": lambda: searched(
        posterior=ewsg.Posterior(lambda w, x: jnp.log(w[0]) * x[0], lambda w: -w[0]),
        position=-jnp.ones(2),
    ),
    "T optimizer | 'adam' (str) | optax.GradientTransformation": lambda: searched(
        batch_size=2, optimizer="adam"
    ),
}


WRONG["cluster"] |= {
    "V features | holds 1 NaN | must be finite": lambda: ewsg.cluster(DATA.at[0, 0].set(NAN), 2),
    "V k | got 7 | at most n = 6": lambda: ewsg.cluster(DATA, 7),
    "V features | 'z' for the keys ['x', 'y'] | a key of data": lambda: ewsg.cluster(
        ROWS, 2, features="z"
    ),
    "T features | 3 (int) | a key of the data or a function": lambda: ewsg.cluster(
        DATA, 2, features=3
    ),
    "V features | (3, 2) | shape (6, …)": lambda: ewsg.cluster(
        DATA, 2, features=lambda data: data[:3]
    ),
}


FROM_0 = "a positive number or 0"
WRONG["from_sgd"] |= {
    "V momentum | got 1.0 | in [0, 1)": lambda: ewsg.from_sgd(0.1, 1.0, n=10),
    f"V weight_decay | got -1 | {FROM_0}": lambda: ewsg.from_sgd(0.1, weight_decay=-1, n=10),
    f"T weight_decay | '0' (str) | {FROM_0}": lambda: ewsg.from_sgd(0.1, weight_decay="0", n=10),
    "V loss_factor | got 0 | a positive number": lambda: ewsg.from_sgd(0.1, n=10, loss_factor=0),
    "T loss_factor | None | a positive number": lambda: ewsg.from_sgd(0.1, n=10, loss_factor=None),
}

A_MODE = ewsg.Mode(
    jnp.zeros(2), True, 0.0, 0.0, 0.0, 1, 1.0, Curvature.of(np.diag([1.0, 4.0]), True)
)
NO_MODE = A_MODE._replace(curvature=Curvature.of(np.diag([1.0, -4.0]), True))
ELSEWHERE = ewsg.Mode(jnp.zeros(5), True, 0.0, 0.0, 0.0, 1, 1.0, Curvature.of(np.eye(5), True))
EYE, UNKNOWN, AFFINE = np.eye(2), A_MODE._replace(curvature=None), ewsg.bijectors.affine

WRONG["Mode.sd"] |= {
    "V mode | curved downwards | one for its widths": lambda: NO_MODE.sd,
    "V mode | rank=0 | its curvature": lambda: UNKNOWN.inverse_mass,
}
WRONG["bijectors.affine"] |= {
    "T shift | int32 | floating-point": lambda: ewsg.bijectors.affine(jnp.zeros(2, int)),
    "V shift | holds 1 NaN | must be finite": lambda: ewsg.bijectors.affine(jnp.array([NAN])),
    "V covariance | the eigenvalue -1 | positive definite": lambda: AFFINE(POINT, -EYE),
    "V covariance | got -1 | positive number": lambda: ewsg.bijectors.affine(POINT, -1.0),
    "V position | an array of shape (3,) | like the shift": lambda: ewsg.bijectors.affine(
        jnp.zeros(2)
    ).forward(jnp.zeros(3)),
    "V covariance | over 2 numbers | d numbers": lambda: ewsg.bijectors.affine(
        jnp.zeros(3), EYE
    ).forward(jnp.zeros(3)),
}


def told(kernel=None, mode=A_MODE, data=DATA, **changes):
    """Forecast with something wrong."""
    return ewsg.forecast(ewsg.ld(MODEL, 0.1) if kernel is None else kernel, mode, data, **changes)


def made(**changes):
    """Langevin dynamics on an estimator."""
    return ewsg.kernel(
        ewsg.dynamics.langevin(0.1), ewsg.gradients.svrg(MODEL, batch_size=1, **changes)
    )


@ewsg.module
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


@ewsg.module
class TwoGradients(type(ewsg.dynamics.langevin(0.1))):
    """A dynamics that asks for another gradient a step."""

    extra_gradients = 1


TWICE = ewsg.dynamics.in_metric(TwoGradients(**vars(ewsg.dynamics.langevin(0.1))), 4.0)
BY_SIGN = ewsg.gradients.stratified(
    MODEL, batch_size=2, labels=lambda x: jnp.asarray(x[:, 0] > 0, int), num_strata=2
)
MANY = A_MODE._replace(curvature=CurvatureOfMany(np.ones(2), EYE[:, :1], np.ones(1), 1.0))
NO_FORECAST = "whose noise is known"
WRONG["forecast"] |= {
    "V step | got 2147483648 | below 2³¹": lambda: told(ewsg.ld(MODEL, 0.1), step=2**31),
    "T kernel | 'sgld' (str) | ewsg_jax.kernel": lambda: told("sgld"),
    "V mesh | stratified | no axis 'data'": lambda: told(
        ewsg.kernel(ewsg.dynamics.langevin(0.1), BY_SIGN), mesh=over("data")
    ),
    "V kernel | random_walk_metropolis( | a dynamics with an estimator": lambda: told(
        ewsg.random_walk_metropolis(MODEL, 0.1)
    ),
    "V kernel | got two_gradients. Run | library's dynamics": lambda: told(
        ewsg.kernel(TWICE, ewsg.gradients.uniform(MODEL, batch_size=1))
    ),
    "V kernel | got preconditioned | no more in its state than a momentum": lambda: told(
        ewsg.psgld(MODEL, 0.1, batch_size=1)
    ),
    f"V kernel | rows='epochs' | {NO_FORECAST}": lambda: told(
        ewsg.sgld(MODEL, 0.1, batch_size=1, rows="epochs")
    ),
    f"V kernel | rows='block_sweeps' | {NO_FORECAST}": lambda: told(
        ewsg.sgld(MODEL, 0.1, batch_size=1, rows="block_sweeps")
    ),
    f"V kernel | option='I' | {NO_FORECAST}": lambda: told(made(option="I")),
    f"V kernel | got mine, one of your own | {NO_FORECAST}": lambda: told(MINE),
    f"V kernel | around a memory | {NO_FORECAST}": lambda: told(
        ewsg.kernel(
            ewsg.dynamics.langevin(0.1), ewsg.gradients.exponentially_weighted(made().estimator)
        )
    ),
    f"V kernel | at different rates | {NO_FORECAST}": lambda: told(
        ewsg.saga_ld(
            MODEL,
            0.1,
            batch_size=1,
            rows=ewsg.rows.by_probability(np.arange(1.0, len(DATA) + 1)),
        )
    ),
    "T mode | float32 | find_mode": lambda: told(mode=POINT),
    "V mode | curved downwards | one for its widths": lambda: told(mode=NO_MODE),
    "V mode | got 2. Run | at most 1,000 coordinates": lambda: told(mode=MANY),
    "V kernel | got plain. Run the kernel for some steps and check | library's dynamics": (
        lambda: told(ewsg.kernel(own.plain(0.1), ewsg.gradients.full(MODEL)))
    ),
    "V data | holds 1 NaN | must be finite": lambda: told(data=DATA.at[0, 0].set(NAN)),
    "V position | (5,) | shape": lambda: told(mode=ELSEWHERE),
}
