"""Wrong calls of the exact methods, the likelihood bounds, and models that have them."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false

import functools

import jax
import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from tests.parts import altered
from tests.wrong_calls.standard import COUNT, Kind, refuses
from tests.wrong_calls.table import (
    DATA,
    KEY,
    LOGISTIC,
    MODEL,
    NAN,
    POINT,
    ROWS,
    WHOLE,
    WRONG,
    T,
    V,
)

A_BOUND = "one of ewsg_jax.bounds"
A_SHARE = Kind("a number between 0 and 1", ((V, 1.0, "got 1.0"), (T, "all", "'all' (str)")))
LOOP = ewsg.Posterior(
    lambda p, x: (
        -jnp.sum((x - jax.lax.while_loop(lambda c: jnp.any(c > 1), lambda c: c / 2, p)) ** 2)
    ),
    lambda p: 0.0,
)
SUPPORT = ewsg.Posterior(
    lambda p, x: -jnp.sum((x - p) ** 2), lambda p: jnp.where(jnp.all(p > 0), 0.0, -jnp.inf)
)


def walk(posterior=MODEL, step_size=0.1, **options):
    """Begin a chain of random-walk Metropolis."""
    return ewsg.random_walk_metropolis(posterior, step_size, **options).init(KEY, POINT, DATA)


def fly(posterior=LOGISTIC, position=POINT, rows=ROWS, **options):
    """Begin a chain of FlyMC."""
    return ewsg.flymc(posterior, 0.1, **({"capacity": 6} | options)).init(KEY, position, rows)


WRONG["random_walk_metropolis"] |= {
    "V position | is inf there | must have a finite potential": lambda: walk(SUPPORT),
    "V position | holds 1 NaN | must be finite": lambda: ewsg.random_walk_metropolis(
        MODEL, 0.1
    ).init(KEY, jnp.array([NAN, 0.0]), DATA),
}


def paths(posterior=MODEL, step_size=0.1, position=POINT, **options):
    """Begin a chain of NUTS."""
    return ewsg.nuts(posterior, step_size, **options).init(KEY, position, DATA)


A_MASS = "must be a positive number, a pytree of positive numbers like the position"
WRONG["nuts"] |= {
    "V max_depth | got 40 | must be at most 28 for n = 6": lambda: paths(max_depth=40),
    f"V inverse_mass | (3,) | {A_MASS}": lambda: paths(inverse_mass=np.ones(3)),
    f"V inverse_mass | 3 numbers | {A_MASS}": lambda: paths(inverse_mass=np.eye(3)),
    "V position | is inf there | must have a finite potential": lambda: paths(SUPPORT),
    "V position | is not finite there | must have a finite gradient": lambda: paths(
        ewsg.Posterior(lambda p, x: -jnp.sqrt(jnp.sum(p**2)), lambda p: 0.0)
    ),
    "V position | holds 1 NaN | must be finite": lambda: paths(position=jnp.array([NAN, 0.0])),
    "V position | got bfloat16 | must be of float32 or float64": lambda: paths(
        position=jnp.zeros(2, jnp.bfloat16)
    ),
    "V log_likelihood | while_loop | must be differentiable by jax.grad": lambda: paths(LOOP),
    "V data_passes | got 5 | must be None for a method whose steps cost": lambda: ewsg.sample(
        KEY, ewsg.nuts(MODEL, 0.1), POINT, DATA, data_passes=5
    ),
}

refuses(
    "flymc",
    fly,
    capacity=COUNT,
    proposal_capacity=COUNT.without("0.5 (float)", "'2' (str)", "True (bool)"),
    resample_probability=A_SHARE,
)
refuses(
    "flymc",
    functools.partial(fly, target_acceptance=0.3, adapt_steps=5),
    target_acceptance=A_SHARE,
    adapt_steps=COUNT,
)
WRONG["flymc"] |= {
    f"V bound | got None | {A_BOUND}": lambda: fly(MODEL, rows=DATA),
    f"T bound | function jaakkola_jordan | {A_BOUND}": lambda: fly(
        bound=ewsg.bounds.jaakkola_jordan
    ),
    "V num_resampled | got 7 | at most n = 6": lambda: fly(num_resampled=7),
    "V num_resampled | got 3 | must be None if resample_probability": lambda: fly(
        num_resampled=3, resample_probability=0.2
    ),
    "V target_acceptance | adapt_steps=None | together with adapt_steps": lambda: fly(
        target_acceptance=0.3
    ),
    f"T proposal_capacity(n) | 3.0 (float) | {WHOLE}": lambda: ewsg.flymc(
        LOGISTIC, 0.1, capacity=6, proposal_capacity=lambda n: n / 2
    ).step(KEY, fly(), jax.tree.map(jnp.asarray, ROWS)),
    "V center | (3,) | must be a pytree like the position": lambda: fly(center=np.zeros(3)),
    "V bound | it failed on them | must be one for this position and these data": lambda: fly(
        bound=ewsg.bounds.bohning(inputs=lambda row: row["z"])
    ),
    "V bound | an array of shape () | one number for each of 6 rows": lambda: fly(
        bound=altered(LOGISTIC.bound, gaps=lambda p, c, rows: jnp.float32(0))
    ),
    "V capacity | got 1 | at least 6, the number of data that are bright": lambda: fly(
        position=np.full(2, 300.0), center=np.array([0.5, 0.0]), capacity=1
    ),
}

for bound in (ewsg.bounds.jaakkola_jordan, ewsg.bounds.bohning):
    refuses(
        f"bounds.{bound.__name__}",
        bound,
        inputs=Kind("must be a function (datum) -> x", ((T, "x", "'x' (str)"),)),
        targets=Kind("must be a function (datum) -> y", ((T, 1, "1 (int)"),)),
    )
shared = functools.partial(ewsg.sample, KEY, position=POINT, data=ROWS, shared_minibatch=True)
WRONG["sample"] |= {
    "V shared_minibatch | got True | a kernel that draws no batches": tuple(
        functools.partial(shared, kernel, num_steps=5)
        for kernel in (
            ewsg.flymc(LOGISTIC, 0.1, capacity=6),
            ewsg.random_walk_metropolis(LOGISTIC, 0.1),
            ewsg.ld(LOGISTIC, 0.1),
        )
    )
}
WRONG["models.normal"] |= {
    "V position | (3,) | the mean and the log of the scale": lambda: fly(
        ewsg.models.normal(), jnp.zeros(3), jnp.ones(4)
    ),
}
WRONG["Posterior"] |= {
    f"T bound | function <lambda> | {A_BOUND}": lambda: ewsg.Posterior(
        lambda p, x: 0.0, lambda p: 0.0, bound=lambda p, x: 0.0
    ),
}
