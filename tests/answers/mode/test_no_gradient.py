"""Likelihoods without any gradient are refused at the first door, by name."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.densities import normal
from tests.once import opaque

KEY = jax.random.key(0)
DATA = jnp.linspace(-1.0, 1.0, 12)
START = jnp.array([0.3, -0.2])


def by_while_loop(w, row):
    return -((row - jax.lax.while_loop(lambda c: jnp.abs(c) > 1, lambda c: c / 2, w[0])) ** 2)


def by_callback(w, row):
    like = jax.ShapeDtypeStruct((), jnp.float32)
    return jax.pure_callback(
        lambda w, row: np.float32(-((w[0] - row) ** 2)), like, w, row, vmap_method="sequential"
    )


NONE = {
    "while_loop": (
        by_while_loop,
        "Reverse-mode differentiation .*lax.scan or a fori_loop with static",
    ),
    "fori_loop": (
        lambda w, row: (
            -((row - jax.lax.fori_loop(0, jnp.int32(row), lambda i, c: c / 2, w[0])) ** 2)
        ),
        "Reverse-mode differentiation",
    ),
    "callback": (by_callback, "callbacks do not support JVP.*jax.custom_vjp"),
    "no rule": (lambda w, row: -((opaque(w[0]) - row) ** 2), "'opaque' not implemented"),
    "argmax": (lambda w, row: -((jnp.argmax(w) - row) ** 2), "gradient is 0 everywhere.*argmax"),
    "argsort": (lambda w, row: -1.0 * (jnp.argsort(w)[0] - row) ** 2, "gradient is 0 everywhere"),
    "a comparison": (
        lambda w, row: jnp.where(jnp.abs(row - w[0]) < 2, 0.0, -jnp.inf),
        "gradient is 0 everywhere",
    ),
    "rounding": (lambda w, row: -((jnp.round(w[0]) - row) ** 2), "gradient is 0 everywhere"),
    "stop_gradient": (
        lambda w, row: -(jax.lax.stop_gradient(w[0] - row) ** 2),
        "gradient is 0 everywhere",
    ),
}


@pytest.mark.usual_parameters("while_loop", "no rule", "a comparison")
@pytest.mark.parametrize("name", NONE)
def test_no_gradient_is_said_at_the_first_door(name):
    log_likelihood, message = NONE[name]
    posterior = ewsg.Posterior(log_likelihood, normal)
    kernel = ewsg.sgld(posterior, 1e-3, batch_size=2)
    draws = jax.random.normal(KEY, (2, 40, 2))
    doors = [
        lambda: kernel.init(KEY, START, DATA),
        lambda: ewsg.sample(KEY, kernel, START, DATA, 3),
        lambda: ewsg.find_mode(KEY, posterior, START, DATA),
        lambda: ewsg.plan(KEY, posterior, START, DATA),
        lambda: ewsg.check(KEY, draws, posterior, DATA),
    ]
    for door in doors:
        with pytest.raises(
            ValueError, match=f"^log_likelihood must be differentiable by jax.grad.*{message}"
        ):
            door()


def test_a_prior_without_a_gradient_is_named():
    posterior = ewsg.Posterior(
        lambda w, row: -jnp.sum((w - row) ** 2), lambda w: by_while_loop(w, 0.0)
    )
    with pytest.raises(ValueError, match=r"^log_prior must be differentiable by jax\.grad"):
        ewsg.find_mode(KEY, posterior, START, DATA)


ONE = {
    "constant": lambda w, row: 0.0,
    "of the row alone": lambda w, row: -(row**2),
    "zero by its numbers": lambda w, row: 0.0 * w[0],
    "linear": lambda w, row: w[0],
    "sorted": lambda w, row: -((jnp.sort(w)[0] - row) ** 2),
    "a support that moves": lambda w, row: jnp.where(row < 2 + jnp.exp(w[0]), -w[0], -jnp.inf),
    "masked": lambda w, row: jnp.where(row > 0, -((w[0] - row) ** 2), 0.0),
}


@pytest.mark.usual_parameters("constant", "linear")
@pytest.mark.parametrize("name", ONE)
def test_what_has_a_gradient_or_is_no_function_of_the_position_is_taken(name):
    posterior = ewsg.Posterior(ONE[name], normal)
    ewsg.sgld(posterior, 1e-3, batch_size=2).init(KEY, START, DATA)
    # A prior between walls has none by its structure, and is taken: a likelihood leads.
    walls = ewsg.Posterior(ONE[name], lambda w: jnp.where(jnp.all(jnp.abs(w) < 1), 0.0, -jnp.inf))
    ewsg.sgld(walls, 1e-3, batch_size=2).init(KEY, START, DATA)


def test_methods_without_gradients_need_none():
    kernel = ewsg.random_walk_metropolis(ewsg.Posterior(by_while_loop, normal), 0.1)
    samples = ewsg.sample(KEY, kernel, START, DATA, 5)
    assert np.isfinite(samples.position).all()


def test_a_residual_in_closed_form_is_the_derivative():
    """The likelihood itself may then have none."""
    posterior = ewsg.Posterior.linear(
        lambda s, row: -0.5 * (row["y"] - opaque(s)) ** 2,
        normal,
        inputs=lambda row: row["x"],
        residual=lambda s, rows: rows["y"] - s,
    )
    rows = {"x": jax.random.normal(KEY, (12, 2)), "y": DATA}
    assert ewsg.sgld(posterior, 1e-3, batch_size=2).init(KEY, START, rows).position.shape == (2,)
