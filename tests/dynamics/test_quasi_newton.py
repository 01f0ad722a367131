"""The quasi-Newton dynamics against dense matrices, the two-loop recursion and chains typed in
NumPy.

The model of whole steps is logistic regression, its gradients typed here.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax import Randomness
from ewsg_jax.dynamics import _lbfgs as lbfgs
from tests.chains import run
from tests.oracles import quasi_newton as oracle
from tests.parts import altered, as_drawn

Z = 5.33  # two-sided 1e-7
G = ewsg.gradients


# Whole steps.

N, D = 7, 3
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, D))
LABELS = (RNG.random(N) < 0.5).astype(float)
START = np.array([0.3, -0.4, 0.1])
PRIOR_SCALE = 1.5
OPTIONS = {"memory_size": 3, "trust_region": 0.7, "initial_scale": 0.3, "curvature_threshold": 0.05}
T = 0.8
ARGUMENTS = (OPTIONS["memory_size"], OPTIONS["trust_region"], OPTIONS["initial_scale"], 0.05, T)


def data():
    return {"x": jnp.asarray(X), "y": jnp.asarray(LABELS)}


def rows_gradient(theta, rows):
    """∇Vᵢ, shape (rows, D)."""
    return (1 / (1 + np.exp(-X[rows] @ theta)) - LABELS[rows])[:, None] * X[rows]


def batch_gradient(theta, rows):
    return theta / PRIOR_SCALE**2 + N / len(rows) * rows_gradient(theta, rows).sum(0)


def full_gradient(theta):
    return batch_gradient(theta, np.arange(N))


def schedule(step):
    return 0.4 / (1 + 0.1 * step)


def held(t, memory_size=3):
    """The schedule at the first step of the block that step number t (from 0) is in."""
    return schedule(memory_size * (t // memory_size))


def posterior():
    return ewsg.models.logistic_regression(prior_scale=PRIOR_SCALE)


def dynamics(**changes):
    return ewsg.dynamics.quasi_newton(schedule, **(OPTIONS | {"temperature": T} | changes))


def trajectory(kernel, draws):
    """Positions of every step with given randomness."""
    transition = jax.jit(kernel.transition)
    state, positions = kernel.init(jax.random.key(0), jnp.asarray(START), data()), []
    for randomness in draws:
        state, _ = transition(randomness, state, data())
        positions.append(np.asarray(state.position))
    return state, np.array(positions)


STEPS = 30
NOISE = RNG.normal(size=(STEPS, D))
ROWS = RNG.integers(0, N, size=(STEPS, 2))


def test_steps_are_those_of_the_oracle(x64):
    kernel = ewsg.kernel(dynamics(), G.uniform(posterior(), batch_size=2))
    draws = [
        Randomness(as_drawn(jnp.asarray(ROWS[t])), jnp.asarray(NOISE[t])) for t in range(STEPS)
    ]
    state, found = trajectory(kernel, draws)
    chain, skipped = oracle.Chain(START, *ARGUMENTS), 0
    for t in range(STEPS):
        gradient = functools.partial(batch_gradient, rows=ROWS[t])
        np.testing.assert_allclose(
            found[t], chain.move(held(t), gradient, NOISE[t]), rtol=1e-8, atol=1e-10
        )
        if t >= 3:
            s, y = chain.pairs[t]
            skipped += s @ y <= 0.05 * np.linalg.norm(s) * np.linalg.norm(y)
    assert skipped == 0, "a logistic posterior is convex"
    np.testing.assert_allclose(state.dynamics.point, chain.point, rtol=1e-8)


@pytest.mark.full
def test_steps_with_pairs_left_out(x64):
    """A wild y on purpose: the estimator's probe gives pairs of any curvature."""
    estimator = G.uniform(posterior(), batch_size=2)
    bent = np.array([[0.0, 3.0, 0.0], [-3.0, 0.0, 1.0], [0.0, 2.0, -1.0]])
    crooked = altered(
        estimator,
        gradient_at=lambda estimate, position, data: (
            estimate.gradient + jnp.asarray(bent) @ position
        ),
    )
    _, found = trajectory(
        ewsg.kernel(dynamics(), crooked),
        [Randomness(as_drawn(jnp.asarray(ROWS[t])), jnp.asarray(NOISE[t])) for t in range(STEPS)],
    )
    chain, skipped = oracle.Chain(START, *ARGUMENTS), 0
    for t in range(STEPS):
        at_start = batch_gradient(chain.point, ROWS[t])
        gradient = lambda theta, g=at_start, start=chain.point: (
            g if theta is start else g + bent @ theta
        )
        np.testing.assert_allclose(
            found[t], chain.move(held(t), gradient, NOISE[t]), rtol=1e-7, atol=1e-9
        )
        s, y = chain.pairs.get(t + 1, (np.ones(1), np.ones(1)))
        skipped += s @ y <= 0.05 * np.linalg.norm(s) * np.linalg.norm(y)
    assert 3 < skipped < 25


@pytest.mark.parametrize("option", ["I", "II"])
def test_steps_with_anchors_are_those_of_the_oracle(x64, option):
    """SVRG, K = 4; option I goes on from up to three steps ago, without the pairs from before."""
    every = 4
    kernel = ewsg.kernel(
        dynamics(), G.svrg(posterior(), batch_size=2, refresh_every=every, option=option)
    )
    start = kernel.init(jax.random.key(0), jnp.asarray(START), data())
    blank = kernel.draw(jax.random.key(1), start, data())
    words = RNG.integers(0, 2**32, size=STEPS, dtype=np.uint32)
    draws = []
    for t in range(STEPS):
        batch = blank.batch._replace(batch=jnp.asarray(ROWS[t]))
        if option == "I":
            batch = batch._replace(word=jnp.asarray(words[t : t + 1]))
        draws.append(Randomness(as_drawn(batch), jnp.asarray(NOISE[t])))
    _, found = trajectory(kernel, draws)

    chain, candidate, restarts = oracle.Chain(START, *ARGUMENTS), None, 0
    for t in range(STEPS):
        if option == "I":
            place = (t - 1) % every + 1
            if t == 0 or (int(words[t]) * place) >> 32 == 0:
                candidate = chain.point
        if t % every == 0:
            if option == "I":
                restarts += not np.array_equal(candidate, chain.point)
                chain.restart(candidate)
            anchor = chain.point
        shift = full_gradient(anchor) - batch_gradient(anchor, ROWS[t])
        gradient = lambda theta, rows=ROWS[t], shift=shift: batch_gradient(theta, rows) + shift
        np.testing.assert_allclose(
            found[t], chain.move(held(t), gradient, NOISE[t]), rtol=1e-8, atol=1e-10
        )
    assert (restarts > 2) == (option == "I")


# What H knows.


def of_points(points, gradient, t, memory_size, trust_region):
    """The state after t moves, from its last 2M − 1 points, newest last, by the definitions."""
    count = memory_size - 1
    by_number = {t - k: points[len(points) - 1 - k] for k in range(len(points))}
    pairs = dict.fromkeys(range(t - count + 1, t + 1))
    for i in pairs:
        s = by_number[i] - by_number[i - memory_size]
        pairs[i] = (
            s,
            gradient(by_number[i]) - gradient(by_number[i - memory_size]) + trust_region * s,
        )
    place = [next(i for i in pairs if i % count == k) for k in range(count)]
    of_place = [
        next(i for i in range(t - count, t + 1) if i % memory_size == k) for k in range(memory_size)
    ]
    return ewsg.dynamics.QuasiNewtonState(
        by_number[t],
        by_number[t + 1 - memory_size],
        jnp.stack([by_number[i] for i in of_place]),
        jnp.stack([jnp.stack([pairs[i][part] for i in place]) for part in (0, 1)]),
        jnp.ones(count, bool),
        jnp.int32(t),
    )


@pytest.mark.full
@pytest.mark.parametrize("memory_size", [2, 4])
def test_the_matrix_does_not_depend_on_the_point_that_moves(x64, memory_size):
    """Its derivative by θ_{t−M} is 0 exactly, by every other of the 2M − 1 points it is not."""
    t, lam = 3 * memory_size + 1, OPTIONS["trust_region"]
    made = dynamics(memory_size=memory_size)
    gradient = jax.grad(lambda p: posterior().potential(p, data()))
    kernel = ewsg.kernel(made, G.full(posterior()))
    state, step = kernel.init(jax.random.key(0), jnp.asarray(START), data()), jax.jit(kernel.step)
    visited = [state.position]
    for k in range(t):
        state, _ = step(jax.random.key(k), state, data())
        visited.append(state.position)
    points = jnp.stack(visited[-(2 * memory_size - 1) :])
    rebuilt = of_points(points, gradient, t, memory_size, lam)
    jax.tree.map(
        functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-12),
        state.dynamics,
        rebuilt,
    )

    def root(points):
        prepared = made.prepare(of_points(points, gradient, t, memory_size, lam), gradient, data())
        return jax.vmap(functools.partial(lbfgs.times, prepared.factor))(jnp.eye(D))

    by_point = np.abs(np.asarray(jax.jit(jax.jacfwd(root))(points))).max(axis=(0, 1, 3))
    moves = 2 * memory_size - 1 - memory_size
    assert by_point[moves] == 0
    assert np.delete(by_point, moves).min() > 1e-4
    np.testing.assert_array_equal(points[moves], made.evaluation_point(state.dynamics))


# A quadratic, with the full gradient.

PRECISION = np.array([[3.0, 1.0, 0.2], [1.0, 2.0, -0.5], [0.2, -0.5, 1.0]])


def gaussian():
    """V = θᵀAθ/2."""
    return ewsg.Posterior(
        lambda p, row: 0.0 * row[0], lambda p: -0.5 * p @ jnp.asarray(PRECISION) @ p
    )


@pytest.mark.parametrize("temperature", [0.3])
def test_exact_moments_of_a_step_on_a_quadratic(x64, temperature):
    """θ_{t−M} ~ N(0, T A⁻¹) goes to covariance T (A⁻¹ + h² H A H), given H; and H y = s."""
    h, lam = 0.05, 0.4
    made = ewsg.dynamics.quasi_newton(h, memory_size=3, trust_region=lam, temperature=temperature)
    kernel, rows = ewsg.kernel(made, G.full(gaussian())), jnp.zeros((2, 1))
    state, step = kernel.init(jax.random.key(0), jnp.asarray(START), rows), jax.jit(kernel.step)
    for k in range(10):
        state, _ = step(jax.random.key(k), state, rows)
    s, y = (np.asarray(x) for x in state.dynamics.pairs)
    np.testing.assert_allclose(y, s @ (PRECISION + lam * np.eye(D)), rtol=1e-9)
    oldest = 11 % 2
    H = oracle.inverse_hessian([(s[k], y[k]) for k in (oldest, 1 - oldest)], 1.0, D)
    np.testing.assert_allclose(H @ y[1 - oldest], s[1 - oldest], rtol=1e-9)

    def end(point, noise):
        there = state._replace(dynamics=state.dynamics._replace(point=point))
        return kernel.transition(Randomness((), noise), there, rows)[0].position

    by_point, by_noise = jax.jit(jax.jacfwd(end, argnums=(0, 1)))(jnp.asarray(START), jnp.zeros(D))
    np.testing.assert_allclose(by_point, np.eye(D) - h * H @ PRECISION, rtol=1e-9)
    np.testing.assert_allclose(end(jnp.zeros(D), jnp.zeros(D)), 0, atol=1e-15)
    target = temperature * np.linalg.inv(PRECISION)
    found = by_point @ target @ by_point.T + by_noise @ by_noise.T
    np.testing.assert_allclose(found, target + temperature * h**2 * H @ PRECISION @ H, rtol=1e-9)


@pytest.mark.sweep
def test_a_bias_stays_where_the_curvature_changes():
    """x ~ N(0, 1), y | x ~ N(2 tanh x, 1/4): E x² is 1; at h = 0.01 1.17, Langevin alone 1.02."""
    chains, h = 4_000, 0.01
    model = ewsg.Posterior(
        lambda p, row: 0.0 * row[0],
        lambda p: -0.5 * p[0] ** 2 - 2 * (p[1] - 2 * jnp.tanh(p[0])) ** 2,
    )
    rng, rows = np.random.default_rng(1), jnp.zeros((1, 1))
    x, noise = rng.normal(size=(2, chains, 2))
    points = jnp.asarray(np.stack([x, 2 * np.tanh(x) + 0.5 * noise], axis=-1), jnp.float32)
    quasi_newton = ewsg.dynamics.quasi_newton(h, memory_size=2, trust_region=20.0)
    found = []
    for made, steps in ((quasi_newton, 3200), (ewsg.dynamics.langevin(h), 1600)):
        kernel = ewsg.kernel(made, G.full(model))
        states = jax.vmap(kernel.init, in_axes=(None, 0, None))(
            jax.random.key(0), points[:, 1], rows
        )
        if made is quasi_newton:
            states = states._replace(
                dynamics=states.dynamics._replace(points=points[:, ::-1], point=points[:, 0])
            )

        ends, _ = run(kernel, states, rows, steps, jax.random.split(jax.random.key(2), chains))
        found.append(float(np.mean(np.asarray(ends.position, np.float64)[:, 0] ** 2)))
    error = np.sqrt(2 / chains)
    assert found[0] > 1 + 5 * error
    assert found[1] < 1.02 + 3 * error


# With everything else.


def test_step_sizes_are_constant_on_blocks(x64):
    kernel = ewsg.kernel(dynamics(), G.uniform(posterior(), batch_size=2))
    state, step = kernel.init(jax.random.key(0), jnp.asarray(START), data()), jax.jit(kernel.step)
    for t in range(8):
        state, info = step(jax.random.key(t), state, data())
        np.testing.assert_allclose(
            info.step_size, 0.4 / (1 + 0.1 * (0, 0, 0, 3, 3, 3, 6, 6)[t]), rtol=1e-12
        )
        np.testing.assert_allclose(kernel.step_size(t), info.step_size, rtol=1e-12)


@pytest.mark.full
def test_traced_numbers_and_many_chains_are_one_by_one(x64):
    """A grid over all numbers, and chains at different steps of blocks, together under `vmap`."""

    def end(h, lam, gamma, start, steps, key):
        made = ewsg.dynamics.quasi_newton(h, memory_size=3, trust_region=lam, initial_scale=gamma)
        kernel = ewsg.kernel(made, G.uniform(posterior(), batch_size=2))
        state = kernel.init(key, start, data())
        return jax.lax.fori_loop(
            0, steps, lambda t, s: kernel.step(jax.random.fold_in(key, t), s, data())[0], state
        )

    rng = np.random.default_rng(3)
    arguments = (*jnp.asarray(rng.uniform(0.05, 0.4, (3, 4))), jnp.asarray(rng.normal(size=(4, D))))
    steps, keys = jnp.array([5, 6, 7, 9]), jax.random.split(jax.random.key(1), 4)
    together = jax.jit(jax.vmap(end))(*arguments, steps, keys)
    for c in range(4):
        alone = jax.jit(end)(*(x[c] for x in arguments), steps[c], keys[c])
        jax.tree.map(
            lambda a, b, c=c: np.testing.assert_allclose(a, b[c], rtol=1e-8, atol=1e-11),
            alone,
            together,
        )


@pytest.mark.full
def test_a_leaf_without_numbers_is_no_matter():
    """A network without a bias may hold one."""

    def ends(start):
        model = ewsg.Posterior(
            lambda p, row: -0.5 * jnp.sum((p["x"] - row) ** 2),
            lambda p: -0.5 * jnp.sum(p["x"] ** 2),
        )
        rows = jnp.arange(8.0).reshape(4, 2)
        kernel = ewsg.hamcmc(model, 0.05, batch_size=2, memory_size=3)
        state = kernel.init(jax.random.key(0), start, rows)
        for key in jax.random.split(jax.random.key(1), 7):
            state, _ = kernel.step(key, state, rows)
        return state.position

    plain = ends({"x": jnp.ones(2)})
    found = ends({"none": jnp.zeros((0, 3)), "x": jnp.ones(2)})
    assert found["none"].shape == (0, 3)
    np.testing.assert_allclose(found["x"], plain["x"], rtol=1e-5)
