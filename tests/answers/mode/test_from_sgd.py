"""A matched kernel without its noise is the optimiser, step by step."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
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


NOISE = 0.3
LINE = {"x": ROWS["x"], "y": (ROWS["x"] @ START + 0.5 * ROWS["y"]).astype(np.float32)}


@pytest.mark.full
@pytest.mark.parametrize(
    ("loss_factor", "of_squares"), [(1 / (2 * NOISE**2), 1.0), (1 / NOISE**2, 0.5)]
)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_squares_need_the_noise_to_be_a_likelihood(loss_factor, of_squares, momentum):
    """The step on a mean of squares is the sampler's with `loss_factor` alone, by hand."""
    match = ewsg.from_sgd(RATE, momentum, DECAY, n=N, loss_factor=loss_factor)
    posterior = ewsg.models.linear_regression(noise_scale=NOISE, prior_scale=match.prior_scale)

    def loss(theta):
        return of_squares * jnp.mean((LINE["y"] - LINE["x"] @ theta) ** 2)

    start = jnp.asarray(START, jnp.float32)
    moved = -RATE * (jax.grad(loss)(start) + DECAY * start)
    # The first step from rest, h² ∇V with a momentum and h ∇V without.
    time = match.step_size**2 if momentum else match.step_size
    by_sampler = -time * posterior.gradient(start, LINE)
    np.testing.assert_allclose(by_sampler, moved, rtol=1e-4)
    if momentum:
        np.testing.assert_allclose(1 - match.friction * match.step_size, momentum, rtol=1e-12)
    naive = ewsg.from_sgd(RATE, momentum, DECAY, n=N)
    np.testing.assert_allclose(naive.prior_scale / match.prior_scale, loss_factor**0.5, rtol=1e-12)


@pytest.mark.full
def test_decoupled_decay_is_a_prior_of_another_width_for_each_weight():
    """AdamW rests where the gradient is −λ√s θ, s the mean square of a batch's gradient."""
    decay, size = 0.3, 4
    rows = {name: jnp.asarray(leaf) for name, leaf in LINE.items()}
    rows["x"] = rows["x"] * jnp.array([3.0, 1.0, 0.3])
    optimizer = optax.adamw(1e-3, weight_decay=decay)

    def loss(theta, x, y):
        return jnp.mean((y - x @ theta) ** 2) / 2

    def step(carry, key):
        theta, state = carry
        chosen = jax.random.randint(key, (size,), 0, N)
        slope = jax.grad(loss)(theta, rows["x"][chosen], rows["y"][chosen])
        updates, state = optimizer.update(slope, state, theta)
        theta = optax.apply_updates(theta, updates)
        return (theta, state), (theta, state[0].nu)

    def run(key):
        keys = jax.random.split(key, 40_000)
        path, squares = jax.lax.scan(step, (jnp.zeros(3), optimizer.init(jnp.zeros(3))), keys)[1]
        return path[10_000:].mean(0), jnp.sqrt(squares[10_000:]).mean(0)

    rest, root = jax.tree.map(
        lambda leaf: np.asarray(leaf.mean(0), float),
        jax.jit(jax.vmap(run))(jax.random.split(jax.random.key(0), 8)),
    )
    x, y = np.asarray(rows["x"], float), np.asarray(rows["y"], float)

    def by_penalty(penalty):
        return np.linalg.solve(x.T @ x / N + np.diag(penalty), x.T @ y / N)

    np.testing.assert_allclose(rest, by_penalty(decay * root), rtol=0.02)
    assert np.abs(rest / by_penalty(decay * np.ones(3)) - 1).max() > 0.2, "SGD's decay rests there"
