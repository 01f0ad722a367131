"""A mass that is learned and then frozen: its recursions typed by hand, and its distribution.

τ' = τ(1 − ḡ²/v) + 1, ḡ' = ḡ + (g − ḡ)/τ', v' = v + (g² − v)/τ', or Adam's mean of squares; then
the inner dynamics in G = 1/√v. Once frozen, the stationary distribution is that of the inner
dynamics in this inverse mass, which solves a linear equation on a Gaussian posterior.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ewsg_jax as ewsg
from tests.chains import run
from tests.oracles import lyapunov
from tests.parts import as_drawn, no_probe

D = ewsg.dynamics
H, GAMMA, T = 0.1, 2.0, 0.6
Z = 5.33  # two-sided 1e-7
INNER = {
    "langevin": lambda **o: D.langevin(0.05, temperature=T, **o),
    "semi_implicit": lambda **o: D.semi_implicit(H, friction=GAMMA, temperature=T, **o),
    "exact": lambda **o: D.exact(H, friction=GAMMA, temperature=T, **o),
    "ABOBA": lambda **o: D.splitting_scheme("ABOBA", H, friction=GAMMA, temperature=T, **o),
}
ROWS = np.array([[0.5, -2.0], [1.5, 40.0], [-1.0, 7.0]])
GRADIENTS = np.array([[3.0, -1e3], [-1.0, 2e3], [0.0, -4e3], [2.0, 1e3], [5.0, 0.0], [-4.0, 3e3]])


def by_hand(decay, gradients):
    """v, ḡ and τ after each gradient, typed one number at a time."""
    moments = []
    tau, mean, v, powers = np.ones(2), np.zeros(2), np.zeros(2), np.zeros(2)
    for t, g in enumerate(gradients, start=1):
        for i in range(2):
            if decay is None:
                tau[i] = tau[i] * (1 - (mean[i] ** 2 / v[i] if v[i] else 0)) + 1
                mean[i] += (g[i] - mean[i]) / tau[i]
                v[i] += (g[i] ** 2 - v[i]) / tau[i]
            else:  # Adam's: a mean that starts from 0, divided by the weight it has
                powers[i] = decay * powers[i] + (1 - decay) * g[i] ** 2
                v[i] = powers[i] / (1 - decay**t)
        moments.append((v.copy(), mean.copy(), tau.copy()))
    return moments


@pytest.mark.parametrize("decay", [None, 0.0, 0.9])
def test_what_is_learned_is_the_recursion_and_nothing_after_the_burn_in(x64, decay):
    learns = 4
    dynamics = D.adaptive_mass(INNER["semi_implicit"](), burn_in=learns, decay=decay)
    state, position, q = dynamics.init(jax.random.key(0), jnp.zeros(2)), np.zeros(2), np.zeros(2)
    xis = np.random.default_rng(0).normal(size=GRADIENTS.shape)
    expected = by_hand(decay, GRADIENTS[:learns])
    for k, (g, xi) in enumerate(zip(GRADIENTS, xis, strict=True)):
        estimate = ewsg.gradients.Estimate(jnp.asarray(g), ())
        state = dynamics.apply(jnp.asarray(xi), state, estimate, no_probe)
        v, mean, tau = expected[min(k, learns - 1)]
        root = np.where(v > 0, v, 1) ** -0.25
        q = (1 - GAMMA * H) * q - H * root * g + np.sqrt(2 * GAMMA * T * H) * xi
        position = position + H * root * q
        np.testing.assert_allclose(state.mean_square, v, rtol=1e-13)
        np.testing.assert_allclose(state.position, position, rtol=1e-12)
        np.testing.assert_allclose(state.momentum, q, rtol=1e-12)
        if decay is None:
            np.testing.assert_allclose(state.mean_gradient, mean, rtol=1e-13)
            np.testing.assert_allclose(state.window, tau, rtol=1e-13)
        else:
            assert state.window == state.mean_gradient == ()
    assert int(state.step) == len(GRADIENTS)


@pytest.mark.parametrize("decay", [None, 0.9])
def test_types_stay_whatever_the_types_of_numbers_are(x64, decay):
    """With numbers of 64 bits too, as a network's float32 weights have."""
    inner = D.semi_implicit(jnp.float64(H), friction=GAMMA)
    dynamics = D.adaptive_mass(inner, burn_in=4, decay=decay)
    position = {"a": jnp.ones(3, jnp.float32), "b": jnp.ones(2, jnp.bfloat16)}
    state = dynamics.init(jax.random.key(0), position)
    noise = dynamics.draw(jax.random.key(1), state)
    end = dynamics.apply(noise, state, ewsg.gradients.Estimate(position, ()), no_probe)
    described = lambda tree: jax.tree.map(lambda x: x.dtype, tree)
    assert described(end) == described(state)


def test_with_no_noise_it_moves_as_adam_does(x64):
    """η and β₁ of Adam are h² = η(1 − β₁), γh = 1 − β₁; the average itself is not divided by
    1 − β₁ᵗ.
    """
    rate, first, second = 1e-2, 0.9, 0.99
    h = (rate * (1 - first)) ** 0.5
    inner = D.semi_implicit(h, friction=(1 - first) / h)
    dynamics = D.adaptive_mass(inner, burn_in=1, decay=second)
    state = dynamics.init(jax.random.key(0), jnp.zeros(2))
    theta, average = np.zeros(2), np.zeros(2)
    for g in GRADIENTS:
        estimate = ewsg.gradients.Estimate(jnp.asarray(g), ())
        state = dynamics.apply(jnp.zeros(2), state, estimate, no_probe)
        average = first * average + (1 - first) * g
        theta = theta - rate * average / np.abs(GRADIENTS[0])
        np.testing.assert_allclose(state.position, theta, rtol=1e-12)


def frozen_state(kernel, data, v):
    """A state after the burn-in with this mean square."""
    state = kernel.init(jax.random.key(0), jnp.zeros(2), data)
    state = state._replace(dynamics=state.dynamics._replace(mean_square=v))
    return state.at_step(jnp.int32(7))


@pytest.mark.usual_parameters("semi_implicit")
@pytest.mark.parametrize("name", INNER)
def test_a_frozen_step_is_that_of_the_inner_dynamics_in_this_inverse_mass(x64, name):
    data, v = jnp.asarray(ROWS), jnp.array([4.0, 2500.0])
    uniform = ewsg.gradients.uniform(ewsg.models.gaussian_location(prior_scale=3.0), batch_size=1)
    estimator = ewsg.gradients.exponentially_weighted(uniform, chain_length=2)
    kernel = ewsg.kernel(D.adaptive_mass(INNER[name](), burn_in=7), estimator)
    plain = ewsg.kernel(INNER[name](inverse_mass=v**-0.5), estimator)
    state, other = frozen_state(kernel, data, v), plain.init(jax.random.key(0), jnp.zeros(2), data)
    other = other.at_step(jnp.int32(7))
    steps = jax.jit(kernel.step), jax.jit(plain.step)
    for key in jax.random.split(jax.random.key(1), 5):
        state, info = steps[0](key, state, data)
        other, other_info = steps[1](key, other, data)
        np.testing.assert_allclose(state.position, other.position, rtol=1e-13)
        np.testing.assert_array_equal(info.index_acceptance, other_info.index_acceptance)
    np.testing.assert_array_equal(state.dynamics.mean_square, v)
    assert kernel.evaluations(data) == plain.evaluations(data)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_stationary_law_after_the_burn_in(x64, batch_size):
    """Exactly, over all batches: that of `semi_implicit` in the coordinates z = θ/√G."""
    data, v = jnp.asarray(ROWS), np.array([4.0, 2500.0])
    posterior = ewsg.models.gaussian_location(noise_scale=2.0, prior_scale=3.0)
    uniform = ewsg.gradients.uniform(posterior, batch_size=batch_size)
    kernel = ewsg.kernel(D.adaptive_mass(INNER["semi_implicit"](), burn_in=7), uniform)
    start = frozen_state(kernel, data, jnp.asarray(v))
    batches = np.stack(np.meshgrid(*[np.arange(3)] * batch_size), -1).reshape(-1, batch_size)

    @jax.jit
    def moved(z, xi, rows):
        inner = start.dynamics._replace(position=z[:2], momentum=z[2:])
        randomness = ewsg.Randomness(as_drawn(rows), xi)
        end = kernel.transition(randomness, start._replace(dynamics=inner), data)[0].dynamics
        return ravel_pytree((end.position, end.momentum))[0]

    zero, steps = jnp.zeros(4), []
    for rows in jnp.asarray(batches, jnp.int32):
        matrix = jax.jacfwd(moved)(zero, zero[:2], rows)
        factor = jax.jacfwd(moved, 1)(zero, zero[:2], rows)
        shift, noise = np.asarray(moved(zero, zero[:2], rows)), np.asarray(factor @ factor.T)
        steps.append(lyapunov.Step(np.asarray(matrix), shift, noise))
    mean, covariance = lyapunov.stationary(steps)

    root = np.diag(v**-0.25)  # θ = root z
    precision = (3 / 4 + 1 / 9) * np.eye(2)
    typed = [
        lyapunov.semi_implicit(
            root @ precision @ root, root @ (3 * ROWS[rows].mean(0) / 4), H, GAMMA, T
        )
        for rows in batches
    ]
    expected_mean, expected = lyapunov.stationary(typed)
    back = np.kron(np.diag([1, 0]), root) + np.kron(np.diag([0, 1]), np.eye(2))
    np.testing.assert_allclose(mean, back @ expected_mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(covariance, back @ expected @ back, rtol=1e-9, atol=1e-12)


@pytest.mark.full
def test_the_noise_of_batches_and_the_heat_of_momenta_are_known_of_a_frozen_mass():
    """As of `semi_implicit`, whose friction it shares: h Cov G/(2γT) in each coordinate."""
    rows = jnp.asarray(np.random.default_rng(2).normal(size=(40, 2)) * [1.0, 5.0], jnp.float32)
    model = ewsg.models.gaussian_location()
    uniform = ewsg.gradients.uniform(model, batch_size=2)
    kernel = ewsg.kernel(
        D.adaptive_mass(D.semi_implicit(0.1, friction=5.0), burn_in=100, decay=0.99), uniform
    )
    options = {"num_chains": 8, "burn_in": 200, "progress": False}
    samples = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(2), rows, 2_000, **options)
    noise = ewsg.diagnostics.gradient_noise(jax.random.key(1), kernel, samples, rows)
    inverse_mass = samples.state.dynamics.mean_square**-0.5
    covariance = 40**2 / 2 * np.var(np.asarray(rows), 0)
    expected = np.sort(0.1 * (covariance * inverse_mass).mean(0) / (2 * 5.0))
    assert noise.reason == ""
    np.testing.assert_allclose(noise.largest, expected[-1], rtol=0.3)
    report = ewsg.check(jax.random.key(2), samples, rows)
    assert report.outcome == "wrong"  # this noise doubles the variance and more


@pytest.mark.full
def test_a_mass_that_adapts_for_ever_has_another_law():
    """With v = g² at once, a density |θ|^½ exp(−θ²/2): the variance is 3/2, and 1 once frozen."""
    data, chains = jnp.zeros((1, 1)), 4_000
    estimator = ewsg.gradients.full(ewsg.models.gaussian_location())

    def variance(burn_in):
        inner = D.semi_implicit(0.02, friction=1.0)
        kernel = ewsg.kernel(D.adaptive_mass(inner, burn_in=burn_in, decay=0.0), estimator)
        keys = jax.random.split(jax.random.key(2), chains)
        starts = jax.random.normal(jax.random.key(3), (chains, 1))
        states = jax.vmap(kernel.init, (0, 0, None))(keys, starts, data)
        # Frozen at the gradient of a width: each chain at its own would take longer to forget.
        if burn_in == 1:
            ones = jnp.ones((chains, 1))
            states = states._replace(dynamics=states.dynamics._replace(mean_square=ones))
            states = states.at_step(jnp.full(chains, 1, jnp.int32))
        states, _ = run(kernel, states, data, 1_000, keys)
        squares = np.asarray(states.position, float) ** 2
        return squares.mean(), Z * squares.std() / chains**0.5

    (frozen, error), (adapting, its_error) = variance(1), variance(2**30)
    assert abs(frozen - 1) < error
    assert abs(adapting - 1.5) < its_error < 0.3


def test_noise_beside_an_averaged_gradient_is_biased_by_its_lag():
    """θ' = θ − h m' + √(2h) ξ with m' = βm + (1 − β)λθ: λ Var θ − 1 = hλ (1 + β)/(2(1 − β)) + …"""
    lam, beta = 2.0, 0.9
    for h, tolerance in ((1e-3, 0.05), (1e-5, 1e-3)):
        row = np.array([(1 - beta) * lam, beta])  # m' of (θ, m)
        step = np.array([[1, 0] - h * row, row])
        noise = np.diag([2 * h, 0.0])
        _, covariance = lyapunov.stationary([lyapunov.Step(step, np.zeros(2), noise)])
        excess = (lam * covariance[0, 0] - 1) / (h * lam)
        assert abs(excess / ((1 + beta) / (2 * (1 - beta))) - 1) < tolerance


def test_draws_that_are_made_while_it_learns_are_refused():
    data = jnp.asarray(ROWS, jnp.float32)
    uniform = ewsg.gradients.uniform(ewsg.models.gaussian_location(), batch_size=1)
    kernel = ewsg.kernel(D.adaptive_mass(D.langevin(1e-3), burn_in=20), uniform)
    options = {"num_chains": 2, "progress": False}
    message = r"^burn_in must be at least 20, the steps in which the mass is learned.*; got 19"
    with pytest.raises(ValueError, match=message):
        ewsg.sample(jax.random.key(0), kernel, jnp.zeros(2), data, 40, burn_in=19, **options)
    first = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(2), data, 30, burn_in=20, **options)
    assert first.step[0] == 21
    # A run that goes on has learned.
    more = ewsg.sample(jax.random.key(1), kernel, None, data, 10, state=first.state, progress=False)
    assert more.step[0] == 31
    np.testing.assert_array_equal(more.state.dynamics.mean_square, first.state.dynamics.mean_square)
    stack = ewsg.stack(
        [kernel, ewsg.kernel(D.adaptive_mass(D.langevin(2e-3), burn_in=30), uniform)]
    )
    with pytest.raises(ValueError, match=r"^burn_in must be at least 30"):
        ewsg.sample(jax.random.key(0), stack, jnp.zeros(2), data, 40, burn_in=20, **options)
