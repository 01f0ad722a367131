"""A matched kernel without its noise is the optimiser, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

N, RATE, DECAY = 40, 0.3, 0.02
GENERATOR = np.random.default_rng(0)
ROWS = {
    "x": GENERATOR.normal(size=(N, 3)).astype(np.float32),
    "y": (np.arange(N) % 3 == 0).astype(np.float32),
}
START = np.array([0.5, -1.0, 0.2])


def by_the_optimiser(momentum, steps):
    """The recursion on the mean loss with weight decay, in float64."""
    x, y = ROWS["x"].astype(np.float64), ROWS["y"].astype(np.float64)
    theta, velocity, path = START, np.zeros(3), []
    for _ in range(steps):
        gradient = x.T @ (1 / (1 + np.exp(-x @ theta)) - y) / N + DECAY * theta
        velocity = momentum * velocity - RATE * gradient
        theta = theta + velocity
        path.append(theta)
    return np.array(path)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_noiseless_step_is_the_optimisers(momentum):
    match = ewsg.from_sgd(RATE, momentum, DECAY, n=N)
    posterior = ewsg.models.logistic_regression(prior_scale=match.prior_scale)
    if momentum:
        kernel = ewsg.uld(posterior, match.step_size, friction=match.friction)
    else:
        assert match.friction is None
        kernel = ewsg.ld(posterior, match.step_size)
    state = kernel.init(jax.random.key(0), jnp.asarray(START, jnp.float32), ROWS)
    if momentum:
        # The optimiser starts at rest.
        still = state.dynamics._replace(momentum=jnp.zeros(3))
        state = state._replace(dynamics=still)
    drawn = kernel.draw(jax.random.key(1), state, ROWS)
    drawn = drawn._replace(noise=jax.tree.map(jnp.zeros_like, drawn.noise))
    step, path = jax.jit(kernel.transition), []
    for _ in range(4):
        state, _ = step(drawn, state, ROWS)
        path.append(state.position)
    expected = by_the_optimiser(momentum, 4)
    assert np.abs(expected[-1] - START).max() > 0.1, "the test needs an optimiser that moves"
    np.testing.assert_allclose(np.array(path), expected, rtol=2e-5, atol=2e-6)
