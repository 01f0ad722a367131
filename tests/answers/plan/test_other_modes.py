"""Components of different widths that are exchanged are another mode, wherever they stand; models
with one mode have none.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.plan.other_modes import find_other_modes
from ewsg_jax.answers.plan.symmetries import exact_symmetries, exchanges
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.vectors.layout import Layout, vector
from ewsg_jax.vectors.some_rows import SomeRows
from tests.answers.plan.test_trusted import mode_of

RNG = np.random.default_rng(0)
N = 300
# Three components: a narrow one, a wide one with few rows, and one between.
COMPONENT = RNG.choice(3, N, p=[0.6, 0.1, 0.3])
Y = np.array([-4.0, 1.0, 6.0])[COMPONENT] + np.array([0.3, 1.5, 0.8])[COMPONENT] * RNG.normal(
    size=N
)
TWO = Y[COMPONENT != 1]
X = RNG.normal(size=(N, 3))
GROUP = np.repeat(np.arange(6), N // 6)
NORMAL = X @ [1.0, -2.0, 0.5] + RNG.normal(size=N)
BINARY = (RNG.uniform(size=N) < 1 / (1 + np.exp(-NORMAL))).astype(float)
ROWS = {"y": NORMAL, "x": X, "group": GROUP, "binary": BINARY, "count": RNG.poisson(4.0, N)}


def mixture(mean, log_sd, logit, y):
    log_weight = jax.nn.log_softmax(logit)
    z = (y - mean) * jnp.exp(-log_sd)
    return jax.nn.logsumexp(log_weight - 0.5 * z**2 - log_sd)


def standard(p):
    return -0.5 * sum(jnp.sum((x / 3) ** 2) for x in jax.tree.leaves(p))


MEANS, LOG_SDS, LOGITS = [-4.0, 1.0, 6.0], [-1.2, 0.4, -0.2], [0.7, -1.0, 0.0]
MIXTURES = {
    "arrays of three": (
        lambda p, y: mixture(p["mean"], p["log_sd"], p["logit"], y),
        {"mean": MEANS, "log_sd": LOG_SDS, "logit": LOGITS},
        Y,
    ),
    "one vector, part by part": (
        lambda p, y: mixture(p[:3], p[3:6], p[6:], y),
        [*MEANS, *LOG_SDS, *LOGITS],
        Y,
    ),
    "one vector, component by component": (
        lambda p, y: mixture(p[::3], p[1::3], p[2::3], y),
        np.stack([MEANS, LOG_SDS, LOGITS], 1).ravel(),
        Y,
    ),
    "one matrix": (
        lambda p, y: mixture(p[0], p[1], p[2], y),
        [MEANS, LOG_SDS, LOGITS],
        Y,
    ),
    "two, arrays and a log odds": (
        lambda p, y: mixture(p["mean"], p["log_sd"], jnp.stack([p["odds"], 0.0 * p["odds"]]), y),
        {"mean": [-4.0, 6.0], "log_sd": [-1.2, -0.2], "odds": 0.7},
        TWO,
    ),
    "two, all numbers apart": (
        lambda p, y: mixture(
            jnp.stack([p["m1"], p["m2"]]),
            jnp.stack([p["s1"], p["s2"]]),
            jnp.stack([p["odds"], -p["odds"]]),
            y,
        ),
        {"m1": -4.0, "m2": 6.0, "s1": -1.2, "s2": -0.2, "odds": 0.3},
        TWO,
    ),
    "two, one vector with a log odds": (
        lambda p, y: mixture(p[:2], p[2:4], jnp.stack([p[4], 0.0 * p[4]]), y),
        [-4.0, 6.0, -1.2, -0.2, 0.7],
        TWO,
    ),
    "two, one after the other": (
        lambda p, y: mixture(
            jnp.stack([p["a"]["mean"], p["b"]["mean"]]),
            jnp.stack([p["a"]["sd"], p["b"]["sd"]]),
            jnp.array([0.6, 0.6]),
            y,
        ),
        {"a": {"mean": -4.0, "sd": -1.2}, "b": {"mean": 6.0, "sd": -0.2}},
        TWO,
    ),
    # Not the same exchanged, as the priors of the means differ: searches must find it.
    "means with priors of their own": (
        lambda p, y: (
            mixture(p["mean"], p["log_sd"], p["logit"], y)
            - 0.5 * jnp.sum((p["mean"] - jnp.array([-1.0, 0.0, 1.0])) ** 2) / 9 / N
        ),
        {"mean": MEANS, "log_sd": LOG_SDS, "logit": LOGITS},
        Y,
    ),
}


def ordered(p, y):
    mean = p["first"] + jnp.cumsum(jnp.concatenate([jnp.zeros(1), jnp.exp(p["gaps"])]))
    return mixture(mean, p["log_sd"], p["logit"], y)


def grouped(p, r):
    return -0.5 * (r["y"] - p["effects"][r["group"]]) ** 2


def hierarchy(p):
    z = (p["effects"] - p["mean"]) * jnp.exp(-p["log_scale"])
    size = len(p["effects"])
    return -0.5 * jnp.sum(z**2) - size * p["log_scale"] - 0.5 * p["mean"] ** 2 - p["log_scale"] ** 2


ONE_MODE = {
    "an ordered mixture of three": (
        ordered, standard,
        {"first": -4.0, "gaps": np.log([5.0, 5.0]), "log_sd": LOG_SDS, "logit": LOGITS}, Y,
    ),
    "an ordered mixture of two": (
        ordered, standard,
        {"first": -4.0, "gaps": np.log([10.0]), "log_sd": [-1.2, -0.2], "logit": [0.7, 0.0]}, TWO,
    ),
    "a linear regression": (
        lambda p, r: -0.5 * ((r["y"] - r["x"] @ p["w"]) * jnp.exp(-p["log_sd"])) ** 2 - p["log_sd"],
        standard, {"w": [1.0, -2.0, 0.5], "log_sd": 0.0}, ROWS,
    ),
    "a logistic regression": (
        lambda p, r: r["binary"] * (r["x"] @ p) - jax.nn.softplus(r["x"] @ p),
        standard, [1.0, -2.0, 0.5], ROWS,
    ),
    "a Poisson regression": (
        lambda p, r: r["count"] * (p[0] + r["x"] @ p[1:]) - jnp.exp(p[0] + r["x"] @ p[1:]),
        standard, [1.4, 0.0, 0.0, 0.0], ROWS,
    ),
    "a centred hierarchy": (
        grouped, hierarchy, {"effects": np.zeros(6), "mean": 0.0, "log_scale": 0.0}, ROWS,
    ),
    "a hierarchy that is not centred": (
        lambda p, r: -0.5
        * (r["y"] - p["mean"] - jnp.exp(p["log_scale"]) * p["z"][r["group"]]) ** 2,
        lambda p: -0.5 * (jnp.sum(p["z"] ** 2) + p["mean"] ** 2 + (p["log_scale"] - 1) ** 2 * 9),
        {"z": np.zeros(6), "mean": 0.0, "log_scale": 1.0}, ROWS,
    ),
    "two scales alike": (
        lambda p, r: -0.5 * ((r["y"] * jnp.exp(-p[0])) ** 2 + (r["x"][0] * jnp.exp(-p[1])) ** 2)
        - jnp.sum(p),
        standard, [0.8, 0.0], ROWS,
    ),
    "Student's t with its degrees of freedom": (
        lambda p, r: -(jnp.exp(p["b"]) + 1) / 2
        * jnp.log1p((r["y"] - p["a"]) ** 2 * jnp.exp(-p["b"]) / 4),
        standard, {"a": 0.1, "b": 1.0}, ROWS,
    ),
    "coefficients with a sum": (
        lambda p, r: -0.5 * (r["y"] - r["x"][0] * (p[0] + p[1]) - p[2]) ** 2,
        standard, [0.5, 0.5, 0.0], ROWS,
    ),
    "a mixture of known places": (
        lambda p, y: mixture(jnp.array(MEANS), p["log_sd"], p["logit"], y),
        standard, {"log_sd": LOG_SDS, "logit": LOGITS}, Y,
    ),
}  # fmt: skip


def is_list(x):
    return isinstance(x, list | np.ndarray)


def found(log_likelihood, log_prior, start, rows):
    posterior = ewsg.Posterior(log_likelihood, log_prior)
    start = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), start, is_leaf=is_list)
    rows = jax.tree.map(
        lambda x: jnp.asarray(x, jnp.int32 if x.dtype.kind == "i" else jnp.float32), rows
    )
    mode = mode_of(posterior, start, rows)
    assert mode.converged
    return posterior, mode, rows, find_other_modes(posterior, Whitening.at_mode(mode), rows)


@pytest.mark.full
@pytest.mark.parametrize("name", MIXTURES)
def test_exchanged_components_are_another_mode(name):
    log_likelihood, start, rows = MIXTURES[name]
    posterior, mode, rows, others = found(log_likelihood, standard, start, rows)
    assert others
    heights = [
        -float(posterior.potential(mode.position, rows)),
        *(
            -float(posterior.potential(Layout.of(mode.position).tree(np.float32(x.place)), rows))
            for x in others
        ),
    ]
    assert max(heights) - min(heights) < 12
    assert bool(others[0].exchange) is (name != "means with priors of their own")


@pytest.mark.full
@pytest.mark.parametrize("name", ONE_MODE)
def test_a_model_of_one_mode_has_no_other(name):
    assert not found(*ONE_MODE[name])[-1]


def test_an_exchange_is_its_own_inverse_and_moves_each_gradient_with_its_number():
    shapes = {"a": np.zeros(3), "b": np.zeros((2, 3)), "c": np.zeros(()), "d": np.zeros(())}
    layout = Layout.of(jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), shapes))
    numbers = np.arange(1.0, layout.size + 1)
    names = []
    for exchange, name in exchanges(layout):
        np.testing.assert_array_equal(exchange(exchange(numbers)), numbers)
        jacobian = np.stack([exchange(row) for row in np.eye(layout.size)], 1)
        np.testing.assert_array_equal(jacobian @ jacobian.T, np.eye(layout.size))
        np.testing.assert_array_equal(jacobian.T @ numbers, exchange(numbers))
        names.append(name)
    assert "b[0,0] and b[1,0] exchanged" in names
    assert "a[0] and a[1], b[0,0] and b[0,1] exchanged" in names
    assert "c and d exchanged" in names


def test_a_sum_of_two_is_the_same_with_its_terms_exchanged_and_nothing_else():
    model = ewsg.Posterior(lambda p, y: -0.5 * (y - p[0] - p[1] - 2 * p[2]) ** 2, standard)
    layout = Layout.of(jnp.zeros(3))
    subset = SomeRows.of(model, layout, jnp.asarray(TWO, jnp.float32))
    ((exchange, name),) = exact_symmetries(subset, layout, RNG.normal(size=(2, 3)))
    assert name == "position[0] and position[1] exchanged"
    np.testing.assert_array_equal(exchange(vector(jnp.arange(3.0))), [1, 0, 2])
