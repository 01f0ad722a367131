"""The log weight of an estimate is ½‖ξ‖², ξ the noise that the update needs to reach its frozen
end.

Each ξ is solved from the update as the papers write it and then handed to `move`: the state
must arrive where it was frozen. That ties the weight of every dynamics to its own update.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.dynamics import LangevinState, UnderdampedState
from ewsg_jax.gradients import Estimate
from tests.parts import no_probe

H, GAMMA, TEMPERATURE, INVERSE_MASS = 0.3, 1.7, 0.6, 0.4
SIGMA = np.sqrt(2 * GAMMA * TEMPERATURE)


def tree(seed):
    """A scalar and a matrix of float64."""
    rng = np.random.default_rng(seed)
    return {"intercept": np.float64(rng.normal()), "weights": rng.normal(size=(2, 3))}


POSITION, MOMENTUM = tree(1), tree(2)
GRADIENTS = {"small": tree(4), "large": jax.tree.map(lambda x: 30 * x, tree(5))}
ZERO = jax.tree.map(np.zeros_like, POSITION)
ONE = jax.tree.map(np.ones_like, POSITION)


def estimate_of(gradient):
    return Estimate(jax.tree.map(jnp.asarray, gradient), (), jnp.float32(1.0))


def half_squared_norm(*trees):
    return 0.5 * sum(np.sum(np.square(x)) for x in jax.tree.leaves(trees))


def assert_trees_close(found, expected):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), found, expected
    )


def frozen_momentum(name, how):
    """Where the momentum is frozen: at its old value, at rest, or where x alone would take it."""
    if how == "momentum":
        return MOMENTUM
    if how == "rest":
        return ZERO
    x = {"zero": ZERO, "one": ONE}[how]
    if name == "splitting":
        return jax.tree.map(
            lambda p, x: np.exp(-GAMMA * H) * p + np.exp(-GAMMA * H / 2) * SIGMA * np.sqrt(H) * x,
            MOMENTUM,
            x,
        )
    return jax.tree.map(lambda p, x: (1 - GAMMA * H) * p + SIGMA * np.sqrt(H) * x, MOMENTUM, x)


def noise_to_reach(name, end, gradient):
    """ξ such that the momentum goes to `end`."""
    decay = np.exp(-GAMMA * H / 2)

    def leaf(p, g, end):
        if name == "splitting":  # end = decay (decay p − h g + σ√h ξ)
            return (end / decay - decay * p + H * g) / (SIGMA * np.sqrt(H))
        return (end - (1 - GAMMA * H) * p + H * g) / (SIGMA * np.sqrt(H))

    return jax.tree.map(leaf, MOMENTUM, gradient, end)


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("how", ["momentum", "rest", "zero", "one"])
@pytest.mark.parametrize("name", ["euler", "semi_implicit", "splitting"])
def test_weight_is_that_of_the_noise_that_freezes_the_momentum(x64, name, how, gradient):
    dynamics = getattr(ewsg.dynamics, name)(H, friction=GAMMA, temperature=TEMPERATURE)
    state = UnderdampedState(*jax.tree.map(jnp.asarray, (POSITION, MOMENTUM)), jnp.int32(0))
    end = frozen_momentum(name, how)
    noise = noise_to_reach(name, end, GRADIENTS[gradient])

    estimate = estimate_of(GRADIENTS[gradient])
    weight = dynamics.log_weight(state, estimate, how)
    np.testing.assert_allclose(weight, half_squared_norm(noise), rtol=1e-12)
    moved = dynamics.apply(jax.tree.map(jnp.asarray, noise), state, estimate, no_probe)
    assert_trees_close(moved.momentum, end)


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("how", ["momentum", "zero", "one"])
def test_langevin_weight_is_that_of_the_noise_that_freezes_the_position(x64, how, gradient):
    dynamics = ewsg.dynamics.langevin(H, temperature=TEMPERATURE)
    state = LangevinState(jax.tree.map(jnp.asarray, POSITION), jnp.int32(0))
    spread = np.sqrt(2 * H * TEMPERATURE)
    # Without a momentum its most likely value is no move at all.
    x = {"momentum": ZERO, "zero": ZERO, "one": ONE}[how]
    end = jax.tree.map(lambda theta, x: theta + spread * x, POSITION, x)
    noise = jax.tree.map(
        lambda theta, g, end: (end - theta + H * g) / spread, POSITION, GRADIENTS[gradient], end
    )

    estimate = estimate_of(GRADIENTS[gradient])
    weight = dynamics.log_weight(state, estimate, how)
    np.testing.assert_allclose(weight, half_squared_norm(noise), rtol=1e-12)
    moved = dynamics.apply(jax.tree.map(jnp.asarray, noise), state, estimate, no_probe)
    assert_trees_close(moved.position, end)


@pytest.mark.parametrize("gradient", GRADIENTS)
@pytest.mark.parametrize("how", ["momentum", "zero"])
def test_exact_weight_is_that_of_the_joint_law_of_position_and_velocity(x64, how, gradient):
    # Frozen at v' = v, θ' = θ + h v; "zero" is the same of a state at rest.
    dynamics = ewsg.dynamics.exact(
        H, friction=GAMMA, temperature=TEMPERATURE, inverse_mass=INVERSE_MASS
    )
    velocity = ZERO if how == "zero" else MOMENTUM
    u, e = INVERSE_MASS, np.exp(-GAMMA * H)
    covariance = TEMPERATURE * np.array(
        [
            [u * (1 - e**2), u / GAMMA * (1 - e) ** 2],
            [u / GAMMA * (1 - e) ** 2, u / GAMMA**2 * (2 * GAMMA * H - 3 + 4 * e - e**2)],
        ]
    )

    def residual(v, g):
        mean_velocity = e * v - u / GAMMA * (1 - e) * g
        mean_move = (1 - e) / GAMMA * v - u / GAMMA * (H - (1 - e) / GAMMA) * g
        return np.stack([v - mean_velocity, H * v - mean_move])

    residuals = jax.tree.map(residual, velocity, GRADIENTS[gradient])
    mahalanobis = sum(
        np.sum(r * np.linalg.solve(covariance, r.reshape(2, -1)).reshape(r.shape))
        for r in residuals.values()
    )
    state = UnderdampedState(*jax.tree.map(jnp.asarray, (POSITION, MOMENTUM)), jnp.int32(0))
    estimate = estimate_of(GRADIENTS[gradient])
    np.testing.assert_allclose(
        dynamics.log_weight(state, estimate, how), mahalanobis / 2, rtol=1e-12
    )

    # The first noise drives the velocity, the second what is left of the position: a Cholesky
    # factor.
    factor = np.linalg.cholesky(covariance)
    noises = jax.tree.map(
        lambda r: np.linalg.solve(factor, r.reshape(2, -1)).reshape(r.shape), residuals
    )
    np.testing.assert_allclose(half_squared_norm(noises), mahalanobis / 2, rtol=1e-12)
    noise = tuple({name: jnp.asarray(both[k]) for name, both in noises.items()} for k in (0, 1))
    state = state._replace(momentum=jax.tree.map(jnp.asarray, velocity))
    moved = dynamics.apply(noise, state, estimate, no_probe)
    assert_trees_close(moved.momentum, velocity)
    assert_trees_close(
        moved.position, jax.tree.map(lambda theta, v: theta + H * v, POSITION, velocity)
    )


def test_exact_weight_of_a_frozen_noise_adds_it_to_the_scaled_gradient(x64):
    # The residuals are d numbers times fixed ones, so the joint law has one effective noise: x +
    # √(uh/2γT) g.
    dynamics = ewsg.dynamics.exact(
        H, friction=GAMMA, temperature=TEMPERATURE, inverse_mass=INVERSE_MASS
    )
    state = UnderdampedState(*jax.tree.map(jnp.asarray, (POSITION, MOMENTUM)), jnp.int32(0))
    scale = np.sqrt(INVERSE_MASS * H / (2 * GAMMA * TEMPERATURE))
    expected = half_squared_norm(jax.tree.map(lambda x, g: x + scale * g, ONE, GRADIENTS["small"]))
    weight = dynamics.log_weight(state, estimate_of(GRADIENTS["small"]), "one")
    np.testing.assert_allclose(weight, expected, rtol=1e-12)
