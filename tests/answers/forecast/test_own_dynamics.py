"""Forecasts of dynamics of one's own: exact where a step is linear, refused elsewhere."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests import own
from tests.own import State

KEY = jax.random.key(0)
MODEL = ewsg.models.gaussian_location()
ROWS = jax.random.normal(KEY, (25, 2)) * jnp.array([1.0, 2.0])
FULL, UNIFORM = ewsg.gradients.full(MODEL), ewsg.gradients.uniform(MODEL, batch_size=5)


@pytest.fixture(scope="module")
def mode():
    return ewsg.find_mode(KEY, MODEL, jnp.zeros(2), ROWS)


def forecast(mode, dynamics, estimator=FULL, data=ROWS):
    return ewsg.forecast(ewsg.kernel(dynamics, estimator), mode, data)


@pytest.mark.parametrize("estimator", [FULL, UNIFORM], ids=["full", "batches"])
def test_a_linear_one_is_that_of_the_library(mode, estimator):
    for mine, theirs in (
        (own.plain(0.02), ewsg.dynamics.langevin(0.02)),
        (own.momentum(0.1, 6.0), ewsg.dynamics.semi_implicit(0.1, friction=6.0)),
    ):
        found, expected = (forecast(mode, each, estimator) for each in (mine, theirs))
        for name in ("variance_ratio", "autocorrelation_time", "covariance"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-6)


def test_noise_in_two_places(mode):
    """HFHR by a Lyapunov equation of one coordinate."""
    h, c, a, k = 0.05, 6.0, 0.3, 25.0  # the precision of 25 rows
    matrix = np.array([[1.0, h * (1 - c * h)], [0.0, 1 - c * h]])
    matrix[:, 0] -= k * np.array([h * h + h * a, h])
    noise = np.array([[h * np.sqrt(2 * c * h), np.sqrt(2 * a * h)], [np.sqrt(2 * c * h), 0.0]])
    law = np.linalg.solve(np.eye(4) - np.kron(matrix, matrix), (noise @ noise.T).ravel())
    found = forecast(mode, own.momentum(h, c, alpha=a))
    np.testing.assert_allclose(found.variance_ratio, law[0] * k, rtol=1e-4)


def test_one_with_a_wrong_temperature_is_compared_with_the_target(mode):
    """Not with its own law at a small step."""

    class Hot(own.Plain):
        def draw(self, key, state):
            return jax.random.normal(key, state.position.shape)

        def force(self, g):
            return g / 2

    found = forecast(mode, own.plain(1e-3, ewsg.module(Hot)))
    np.testing.assert_allclose(found.variance_ratio, 2.0, rtol=0.02)


def of(**members):
    return own.plain(
        2e-3, ewsg.module(type("Mine", (own.Plain,), members | {"__annotations__": {}}))
    )


def stepped(end):
    return lambda self, noise, now, estimate, gradient_at: State(
        end(now.position, estimate.gradient, noise), now.step + 1
    )


BY = "whose derivative by the "


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"force": lambda self, g: 3.0 * jnp.tanh(g / 3.0)}, BY + "gradient"),
        ({"force": lambda self, g: g + 0.1 * jnp.abs(g)}, BY + "gradient"),
        ({"force": lambda self, g: g / (1 + jnp.linalg.norm(g))}, "are not finite"),
        (
            {"apply": stepped(lambda x, g, xi: x - 1e-6 * g * (1 + g**2) + 0.1 * xi)},
            BY + "gradient",
        ),
        (
            {"apply": stepped(lambda x, g, xi: x - 1e-3 * g + 0.1 * (1 + x**2) * xi)},
            BY + "position and momentum",
        ),
        ({"apply": stepped(lambda x, g, xi: x - 1e-3 * g + 0.1 * xi**3)}, BY + "noise"),
        (
            {"apply": stepped(lambda x, g, xi: x - 1e-3 * g + 0.1 * xi + 0.01)},
            "without a force or a noise",
        ),
        (
            {"draw": lambda self, key, now: 1.5 * jax.random.normal(key, now.position.shape)},
            "mean 0 and covariance I",
        ),
        (
            {"draw": lambda self, key, now: jax.random.normal(key) * jnp.ones_like(now.position)},
            "mean 0 and covariance I",
        ),
    ],
)
def test_others_are_refused(mode, members, message):
    with pytest.raises(ValueError, match=rf"must have a dynamics whose step is linear.*{message}"):
        forecast(mode, of(**members))


def test_one_that_is_nonlinear_where_batches_lead_alone(mode):
    """Within what the posterior does to the gradient the step is linear."""
    dynamics = of(force=lambda self, g: jnp.clip(g, -40.0, 40.0))
    assert forecast(mode, dynamics).is_settled
    with pytest.raises(ValueError, match=BY + "gradient"):
        forecast(mode, dynamics, ewsg.gradients.uniform(MODEL, batch_size=1))


def test_a_weight_that_is_not_quadratic(mode):
    weighted = ewsg.gradients.exponentially_weighted(UNIFORM, chain_length=1)

    def weight(power):
        return lambda self, now, estimate, x: 1e-6 * jnp.sum(estimate.gradient**power)

    zero = {"frozen_noise": ("zero",)}
    weighted = ewsg.gradients.exponentially_weighted(UNIFORM, chain_length=1, frozen_noise="zero")
    assert forecast(mode, of(log_weight=weight(2), **zero), weighted).is_settled
    with pytest.raises(ValueError, match="whose log_weight is not quadratic"):
        forecast(mode, of(log_weight=weight(4), **zero), weighted)


def test_of_many_coordinates():
    """Whether each moves as one alone is not known of a step of one's own."""
    mode = ewsg.find_mode(KEY, MODEL, jnp.zeros(1_010), jnp.ones((3, 1_010)))
    with pytest.raises(ValueError, match=r"of the library's.*got the dynamics mine"):
        forecast(mode, of(translates=True), FULL, jnp.ones((3, 1_010)))


def test_one_with_a_matrix_has_no_step_of_one_coordinate(mode):
    """A linear step that turns the gradient: the same target, and no largest step that is known."""
    turn = np.array([[1.0, 0.5], [-0.5, 1.0]], np.float32)
    found = forecast(mode, of(translates=True, force=lambda self, g: turn @ g))
    np.testing.assert_allclose(found.variance_ratio, 1.0, atol=0.05)
    assert np.isnan(found.largest_step)
