"""Wrong calls of `ewsg_jax.networks`."""

# The arguments are wrong on purpose.
# pyright: reportArgumentType=false, reportCallIssue=false, reportAttributeAccessIssue=false

import functools

import jax.numpy as jnp
import numpy as np

import ewsg_jax as ewsg
from ewsg_jax import networks
from tests.wrong_calls.table import KERNEL, KEY, NAN, WRONG, failing

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(6, 2)
PARAMS = {"hidden": {"kernel": jnp.ones((2, 3))}, "last": jnp.ones((3, 2)) * jnp.array([1.0, -1.0])}
RANDOM = np.random.default_rng(0)
LABELS = np.array([0, 1, 1, 0, 1, 0])


def apply(params, x):
    return jnp.tanh(x @ params["hidden"]["kernel"]) @ params["last"]


def made(apply=apply, params=PARAMS, y=X[:, 0], likelihood="normal", x=X, data=None, **options):
    rows = {"x": x, "y": y} | (data or {})
    return networks.posterior(apply, params, rows, likelihood=likelihood, **options)


def call(*arguments, **options):
    """A call of `made` to be made later."""
    return functools.partial(made, *arguments, **options)


classes = functools.partial(call, likelihood="categorical")
BOTH = "'hidden/kernel', 'last'"


class Bounded:
    """A distribution of positive numbers, as NumPyro has them."""

    event_shape = ()

    def log_prob(self, x):
        return jnp.where(x > 0, -x, -jnp.inf)

    def __repr__(self):
        return "Exponential()"


class Between(Bounded):
    """A flat distribution of numbers from −5 to 5, whose density says nothing of its ends."""

    def log_prob(self, x):
        return jnp.full(x.shape, -2.3)

    def support(self, x):
        return abs(x) < 5

    def __repr__(self):
        return "Uniform(-5, 5)"


class OfMany(Bounded):
    def log_prob(self, x):
        return -(x**2) * jnp.ones((4, *x.shape))


def unread(params, x):
    return apply(params, x) + 0 * jnp.sum(params["unread"])


WRONG["networks.posterior"] |= {
    "T apply | 3 (int) | must be a function (params, x) -> output": call(3),
    "V apply | the disk is full | must return the network's output for one row": call(failing),
    "V apply | (x: (2,) float32) | without an axis of rows": call(lambda p, x: x[:, 0] * p["last"]),
    "V apply | returned ( | one floating-point array | without states": call(
        lambda p, x: (apply(p, x), x)
    ),
    "V apply | NumPy | must return the same for the same arguments": call(
        lambda p, x: apply(p, x) * RANDOM.random()
    ),
    "T apply | (a, b, c, d) | must be a function (params, x), or": call(lambda a, b, c, d: a),
    "T likelihood | (a, b, c, d) | must be a function (output, row), or": call(
        likelihood=lambda a, b, c, d: a
    ),
    "V likelihood | shape (2,) | must return a floating-point scalar": call(
        likelihood=lambda output, row: output - row["y"]
    ),
    "V likelihood | 'z' (output: (2,) float32, row['x']: (2,) | must return a scalar": call(
        likelihood=lambda output, row: jnp.sum(output - row["z"])
    ),
    "V likelihood | on 6 of 6 rows | must be finite at params": call(
        likelihood=lambda output, row: jnp.log(-jnp.sum(output**2))
    ),
    "T params | params['act'] is <function | keep the arrays only": call(
        params={**PARAMS, "act": apply}
    ),
    "V params | params['last'] holds 6 NaN | must be finite": call(
        params={**PARAMS, "last": jnp.full((3, 2), NAN)}
    ),
    "T params | 'count' is an array of shape () and dtype int32 | give fixed='count'": call(
        params={**PARAMS, "count": jnp.int32(3)}
    ),
    "V params | (dict) | must have at least one array": call(params={}),
    "V params | position['unread'] | must all have an effect on the rows": call(
        unread, {**PARAMS, "unread": jnp.ones(3)}
    ),
    "T data | an array of shape (6, 2) | a dictionary of rows": lambda: networks.posterior(
        apply, PARAMS, jnp.asarray(X), likelihood="normal"
    ),
    "V data | data['x']: 6, data['y']: 5 | share their leading axis": call(y=X[:5, 0]),
    "V data | data['x'] holds 12 NaN | must be finite": call(x=X * NAN),
    "V likelihood | 'gaussian' | one of 'normal', 'categorical'": call(likelihood="gaussian"),
    "T likelihood | 3 (int) | one of 'normal', 'categorical'": call(likelihood=3),
    "V apply | an array of shape (2,) | 6, means and then raw standard deviations, or 3": call(
        y=np.ones((6, 3), np.float32)
    ),
    "V data['y'] | shape (6, 2) | one label for each row | argmax(axis=1)": classes(
        y=np.eye(2)[LABELS]
    ),
    "V data['y'] | shape (6, 1) | one label for each row | reshape(-1)": classes(y=LABELS[:, None]),
    "V data['y'] | 2 in row 1 (3 such rows) | 0 and 1 only": classes(y=2 * LABELS),
    "V data['y'] | -1 in row 1 | 0 and 1 only": classes(y=-LABELS),
    "V apply | shape (1, 2) | logits of shape (classes,)": classes(
        lambda p, x: apply(p, x)[None], y=LABELS
    ),
    "V apply | shape (2,) | 1, a logit for each number": call(y=LABELS, likelihood="bernoulli"),
    "V data['y'] | 3 in row 1 (3 such rows) | 0 and 1 only": call(
        y=np.stack([LABELS, 3 * LABELS], 1), likelihood="bernoulli"
    ),
    "V data['y'] | -1 in row 1 | counts, whole numbers from 0 on": call(
        y=-np.stack([LABELS, LABELS], 1), likelihood="poisson"
    ),
    "V prior | 0.0 (float) | a positive standard deviation": call(prior=0.0),
    "T prior | None (NoneType) | a positive standard deviation": call(prior=None),
    "V prior | 'fan_on' | 'fan_in'": call(prior="fan_on"),
    f"V prior | none that matches 'last' | {BOTH}": call(prior={"hidden": 1.0}),
    f"V prior | 'lost', which matches none (did you mean 'last'?) | {BOTH}": call(
        prior={"*": 1.0, "lost": 2.0}
    ),
    "V prior | 'last', which comes after keys that match the same leaves": call(
        prior={"*": 1.0, "last": 2.0}
    ),
    "V prior | the disk is full | a function (name, shape)": call(prior=failing),
    "V prior | Exponential() (Bounded), which has none at -1 | for all real numbers": call(
        prior=Bounded()
    ),
    "V prior | Uniform(-5, 5) (Between), which has none at -3.4 | for all real numbers": call(
        prior=Between()
    ),
    "V prior | shape (4, 2, 3) | 'hidden/kernel', of shape (2, 3)": call(prior=OfMany()),
    f"V sampled | 'lost', which matches none | {BOTH}": call(sampled="lost"),
    "T sampled | returned 'yes' (str) for 'hidden/kernel' | True or False": call(
        sampled=lambda name, leaf: "yes"
    ),
    "T fixed | 3 (int) | a name or a pattern of leaves": call(fixed=3),
    f"V sampled | {BOTH} | must leave one leaf to sample": call(fixed="*"),
}
MODEL = made(check_data=False)
WRONG["networks.model"] |= {
    "V params | one without params['last'] | like those that the model was made with": lambda: (
        MODEL.with_params({"hidden": PARAMS["hidden"]})
    ),
    "V likelihood | a function | must have a draw(key, output)": lambda: made(
        likelihood=lambda output, row: -jnp.sum((output - row["y"]) ** 2), check_data=False
    ).draw(KEY, PARAMS, X),
}
OWN = made(likelihood=lambda output, row: -jnp.sum((output - row["z"]) ** 2), data={"z": X[:, 0]})
PREDICTIONS = networks.predictions(OWN, networks.ensemble([PARAMS, PARAMS]))
COUNTS = made(lambda p, x: apply(p, x)[0], y=LABELS, likelihood="poisson", check_data=False)
RANDOM_CLASSES = made(lambda p, x, key: apply(p, x), y=LABELS, likelihood="categorical")


def scores(model, y, x=X):
    return networks.predictions(model, networks.ensemble([PARAMS, PARAMS])).log_score(x, y)


WRONG["networks.predictions"] |= {
    "V likelihood | a function | must say a mean or class probabilities": lambda: (
        PREDICTIONS.predict(X)
    ),
    "V likelihood | a function | must have a draw(key, output)": lambda: PREDICTIONS.interval(X),
    "V likelihood | 'z' | must have what it reads of a row | by name": lambda: (
        PREDICTIONS.log_score(X, X[:, 0])
    ),
    "V z | shape (2,) | an observation for each of 6 rows": lambda: PREDICTIONS.log_score(
        X, X[:, 0], z=X[:2, 0]
    ),
    "V y | int32 | must hold numbers that int32 holds": lambda: scores(
        COUNTS, np.full(6, 2**32 + 1)
    ),
    "V data['y'] | 2 in row 1 (3 such rows) | 0 and 1 only": lambda: scores(
        RANDOM_CLASSES, 2 * LABELS
    ),
    "V x | x: (6, 3) float32 | rows of inputs like data['x']": lambda: PREDICTIONS.interval(
        np.ones((6, 3), np.float32)
    ),
}
WRONG["networks.normal"] |= {
    "V scale | 'known' (str) | a positive number, 'learned' or None": lambda: networks.normal(
        "known"
    ),
    "V scale | -1.0 (float) | a positive number": lambda: networks.normal(-1.0),
    "V floor | 0.0 (float) | a positive number": lambda: networks.normal(floor=0.0),
}
WRONG["networks.from_nnx"] |= {
    "T module | 3 (int) | a network of flax.nnx": lambda: networks.from_nnx(3),
}
WRONG["networks.from_equinox"] |= {
    "T module | 3 (int) | a network of Equinox": lambda: networks.from_equinox(3),
}
LANGEVIN = ewsg.dynamics.langevin(1e-3)
WRONG["networks.as_gradient_transformation"] |= {
    "T dynamics | kernel( | one of ewsg_jax.dynamics": lambda: networks.as_gradient_transformation(
        KERNEL, 10, KEY
    ),
    "T n | 1.5 (float) | a whole number": lambda: networks.as_gradient_transformation(
        LANGEVIN, 1.5, KEY
    ),
    "T key | 3 (int) | one typed PRNG key": lambda: networks.as_gradient_transformation(
        LANGEVIN, 10, 3
    ),
    "V dynamics | preconditioned( | must take one gradient a step": lambda: (
        networks.as_gradient_transformation(
            ewsg.dynamics.preconditioned(1e-3, correction=True, damping=1.0), 10, KEY
        )
    ),
}
WRONG["networks.running_predictive"] |= {
    "T model | 3 (int) | what ewsg_jax.networks.posterior returns": lambda: (
        networks.running_predictive(3, X)
    ),
    "V x | x: (6, 3) float32 | rows of inputs like data['x']": lambda: networks.running_predictive(
        MODEL, np.ones((6, 3), np.float32)
    ),
}
WRONG["networks.predictive_of"] |= {
    "T averages | 3 (int) | samples.moments of a run": lambda: networks.predictive_of(3),
}
WRONG["networks.warm_start"] |= {
    "T model | 3 (int) | what ewsg_jax.networks.posterior returns": lambda: networks.warm_start(
        KEY, 3, {"x": X, "y": LABELS}
    ),
    "V num_members | 0 | a whole number, at least 1": lambda: networks.warm_start(
        KEY, MODEL, {"x": X, "y": LABELS}, num_members=0
    ),
    "T data | {'x' | a dictionary of rows": lambda: networks.warm_start(KEY, MODEL, {"x": X}),
    "V data | data['x'] holds 12 NaN | must be finite": lambda: networks.warm_start(
        KEY, MODEL, {"x": X * NAN, "y": LABELS}
    ),
}
WRONG["networks.carry"] |= {
    "T kernel | 3 (int) | one of ewsg_jax's methods": lambda: networks.carry(3, MODEL),
    "T model | 3 (int) | what ewsg_jax.networks.posterior returns": lambda: networks.carry(
        KERNEL, 3
    ),
    "V kernel | kernel( | must be of model.posterior": lambda: networks.carry(KERNEL, MODEL),
}
WRONG["networks.observe"] |= {
    "T kernel | 3 (int) | one of ewsg_jax's methods": lambda: networks.observe(3, 3, X),
    "T state | 3 (int) | samples.state of a run": lambda: networks.observe(KERNEL, 3, X),
}
WRONG["networks.fan_in"] |= {
    "T shape | 3 (int) | a tuple of whole numbers": lambda: networks.fan_in("kernel", 3),
}


def fitted(params=PARAMS, y=X[:, 0], likelihood="normal", key=KEY, x=X, **options):
    return functools.partial(
        networks.fit, key, apply, params, {"x": x, "y": y}, likelihood=likelihood, **options
    )


BROKEN = {"hidden": PARAMS["hidden"], "last": NAN * PARAMS["last"]}
WRONG["networks.fit"] |= {
    "T key | 3 (int) | one typed PRNG key": fitted(key=3),
    "V seconds | 0.0 (float) | a positive number": fitted(seconds=0.0),
    "V temperature | 0.0 (float) | a positive number": fitted(temperature=0.0),
    "V num_members | got 1 | must be at least 2": fitted(num_members=1),
    "T num_members | 2.5 (float) | a whole number": fitted(num_members=2.5),
    "V trained | got 1 | must be a list of the parameters of at least 2 networks": fitted(
        trained=[PARAMS]
    ),
    "T trained | {'hidden' | a list of the parameters": fitted(trained=PARAMS),
    "V trained[1] | NaN | finite": fitted(trained=[PARAMS, BROKEN]),
    "V params | NaN | finite": fitted(params=BROKEN),
    "V params | takes 0 positional arguments | a function of a key that returns them": fitted(
        params=lambda: PARAMS
    ),
    "V params | ['more'] | have an effect on the rows": fitted(
        params=PARAMS | {"more": jnp.ones(2)}
    ),
    "V data['y'] | (6, 2) | one label for each row": fitted(
        y=np.eye(2)[LABELS], likelihood="categorical"
    ),
    "V data['y'] | (6, 1) | give data['y'].reshape(-1)": fitted(
        y=LABELS[:, None], likelihood="categorical"
    ),
    "V data['y'] | got 2 in row 1 | must hold 0 and 1": fitted(
        y=LABELS + 1, likelihood="categorical"
    ),
    "V data | 5 | 6": fitted(y=X[:5, 0]),
    "V data['x'] | 12 NaN | finite": fitted(x=np.full_like(X, NAN)),
    "V data['y'] | 6 NaN | finite": fitted(y=np.full(6, NAN, np.float32)),
    "V apply | (2,) | 8, means and then raw standard deviations, or 4, means": fitted(
        y=np.zeros((6, 2, 1)).repeat(2, 2)
    ),
    "T standardise | 3 (int) | True or False": fitted(standardise=3),
    "T apply | 3 (int) | must be a function (params, x) -> output": functools.partial(
        networks.fit, KEY, 3, PARAMS, {"x": X, "y": X[:, 0]}, likelihood="normal"
    ),
}
