"""Which coordinates are effects: by derivatives of priors that are written in many ways."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import laplace, norm, t

from ewsg_jax.hierarchy.conditionals import VectorPrior
from ewsg_jax.hierarchy.effects import levels_of
from ewsg_jax.vectors.layout import Layout

PARENTS = np.repeat(np.arange(4, dtype=np.int32), 3)


def centred(p):
    return norm.logpdf(p["a"], p["m"], jnp.exp(p["t"])).sum() - p["m"] ** 2 / 50 - p["t"] ** 2


def one_array(p):
    return -0.5 * jnp.sum((p[2:] - p[0]) ** 2) * jnp.exp(-2 * p[1]) - 6 * p[1] - jnp.sum(p[:2] ** 2)


def not_centred(p):
    return norm.logpdf(p["a"]).sum() - p["m"] ** 2 / 50 - p["t"] ** 2


def nested(p):
    of_rows = norm.logpdf(p["a"], p["b"][PARENTS], jnp.exp(p["t"][0])).sum()
    of_groups = norm.logpdf(p["b"], p["m"], jax.nn.softplus(p["t"][1])).sum()
    return of_rows + of_groups - p["m"] ** 2 / 50 - jnp.sum(p["t"] ** 2)


def crossed(p):
    first = norm.logpdf(p["a"], p["m"], jnp.exp(p["t"][0])).sum()
    return first + norm.logpdf(p["b"], 0, jnp.exp(p["t"][1])).sum() - p["m"] ** 2 - jnp.sum(p["t"])


def horseshoe(p):
    widths = jnp.exp(p["l"] + p["t"])
    return norm.logpdf(p["a"], 0, widths).sum() + jnp.sum(p["l"] - jnp.log1p(jnp.exp(2 * p["l"])))


def correlated(p):
    """Intercepts and gradients of groups, with a correlation."""
    root = jnp.exp(p["t"])[:, None] * jnp.array(
        [[1.0, 0.0], [jnp.tanh(p["r"]), jnp.sqrt(1 - jnp.tanh(p["r"]) ** 2)]]
    )
    off = jax.scipy.linalg.solve_triangular(root, (p["a"] - p["m"]).T, lower=True)
    return -0.5 * jnp.sum(off**2) - 5 * jnp.log(jnp.diag(root)).sum() - p["r"] ** 2


def flat(p):
    return 0.0 * jnp.sum(p["a"])


def heavy(p):
    return t.logpdf(p["a"], 4, p["m"], jnp.exp(p["t"])).sum() - p["m"] ** 2 - p["t"] ** 2


def double_exponential(p):
    return laplace.logpdf(p["a"], p["m"], jnp.exp(p["t"])).sum() - p["m"] ** 2 - p["t"] ** 2


def product(p):
    """Means that are products of two effects: given one of them the other is normal."""
    return norm.logpdf(p["a"], p["b"] * p["c"], jnp.exp(p["t"])).sum() - jnp.sum(p["b"] ** 2)


ONE = {"a": 6, "m": (), "t": ()}
CASES = {
    "centred": (centred, ONE, [["a"] * 6]),
    "one array": (one_array, 8, [["position"] * 6]),
    "not centred": (not_centred, ONE, []),
    "nested": (nested, {"a": 12, "b": 4, "m": (), "t": 2}, [["a"] * 12, ["b"] * 4]),
    "crossed": (crossed, {"a": 5, "b": 7, "m": (), "t": 2}, [["b"] * 7, ["a"] * 5]),
    "horseshoe": (horseshoe, {"a": 5, "l": 5, "t": ()}, [["a"] * 5]),
    "correlated": (correlated, {"a": (5, 2), "m": 2, "r": (), "t": 2}, [["a"] * 5, ["a"] * 5]),
    "flat": (flat, {"a": 4}, []),
    "heavy tails": (heavy, ONE, []),
    "double exponential": (double_exponential, ONE, []),
    "two effects": (centred, {"a": 2, "m": (), "t": ()}, []),
}


def levels(log_prior, shapes):
    is_shape = lambda x: isinstance(x, int | tuple)
    position = jax.tree.map(lambda n: jnp.zeros(n), shapes, is_leaf=is_shape)
    layout = Layout.of(position)
    points = 0.5 * np.random.default_rng(0).normal(size=(3, layout.size))
    found = levels_of(VectorPrior(log_prior, layout), points)
    return [[layout.names[k].split("[")[0] for k in level] for level in found], found


@pytest.mark.parametrize("name", CASES)
def test_effects_are_found_by_derivatives_alone(name):
    log_prior, shapes, expected = CASES[name]
    assert levels(log_prior, shapes)[0] == expected


def test_one_array_has_its_effects_where_they_are():
    assert levels(one_array, 8)[1] == ((2, 3, 4, 5, 6, 7),)


def test_a_mean_of_groups_is_no_effect_of_the_lowest_level():
    names, _ = levels(nested, {"a": 12, "b": 4, "m": (), "t": 2})
    assert "m" not in {name for level in names for name in level}


def test_a_prior_that_is_not_finite_has_none():
    assert levels(lambda p: jnp.sum(jnp.log(p["a"])), {"a": 4})[0] == []


def test_products_of_effects_are_no_joint_normal():
    names, _ = levels(product, {"a": 4, "b": 4, "c": (), "t": ()})
    assert names in ([], [["a"] * 4])
