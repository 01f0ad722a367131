"""The running preconditioner against its formulas, and against the laws that it should and should
not have.

m' = α m + (1 − α) ḡ², G = 1/(λ + √m'), θ' = θ − h G g + √(2hTG) ξ; corrected with the stored m in
place of m', and with Γ from D' = α J D + 2(1 − α) ḡ ∂ḡ. Typed here in NumPy, as are the laws that
steps of any size should tend to.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.chains import run
from tests.oracles import transition
from tests.parts import as_drawn

pytestmark = pytest.mark.usefixtures("optimised")

Z = 5.33  # two-sided 1e-7
H, TEMPERATURE, DECAY, DAMPING = 0.03, 0.6, 0.8, 0.3

# Vᵢ = exp(xᵢᵀθ) − yᵢᵀθ and V₀ = ½ θᵀPθ: curved, and with a Hessian that is not diagonal.
RNG = np.random.default_rng(8)
X, Y = 0.5 * RNG.normal(size=(2, 5, 3))
PRECISION = np.array([[1.0, 0.4, 0.0], [0.4, 2.0, -0.5], [0.0, -0.5, 1.5]])
START = RNG.normal(size=3)
DATA = {"x": X, "y": Y}


def model():
    def log_likelihood(theta, row):
        return row["y"] @ theta - jnp.exp(row["x"] @ theta)

    return ewsg.Posterior(log_likelihood, lambda theta: -0.5 * theta @ PRECISION @ theta)


def likelihood_gradient(theta, rows):
    """Of (n/b) Σ Vᵢ over the rows, and its derivative (3, 3)."""
    scale = len(X) / len(rows)
    rates = np.exp(X[rows] @ theta)
    return scale * (rates @ X[rows] - Y[rows].sum(0)), scale * (X[rows].T * rates) @ X[rows]


class Typed:
    """The chain, typed."""

    def __init__(self, correction, decay=DECAY, h=H, T=TEMPERATURE, as_adam=False):
        self.correction, self.decay, self.h, self.T = correction, decay, h, T
        self.as_adam = as_adam
        self.theta, self.m, self.D, self.count = START, np.zeros(3), np.zeros(3), 0

    def metric(self, m):
        return 1 / (DAMPING + np.sqrt(m))

    def drift(self, m, D):
        return -self.T * self.metric(m) ** 2 * D / (2 * np.sqrt(m))

    def step(self, rows, xi, signs):
        likelihood, hessian = likelihood_gradient(self.theta, rows)
        g, mean = likelihood + PRECISION @ self.theta, likelihood / len(X)
        alpha = min(self.decay, self.count / (self.count + 1)) if self.correction else self.decay
        if self.as_adam:  # m = (1 − α) Σ α^age ḡ²/(1 − αᵗ), as a recursion
            powers = [1 - self.decay ** (self.count + later) for later in (0, 1)]
            alpha = self.decay * powers[0] / powers[1]
        m = alpha * self.m + (1 - alpha) * mean**2
        if self.correction:
            used = self.m if self.count else m
            G, gamma = self.metric(used), self.drift(used, self.D)
            J = np.clip(1 - self.h * G * signs * ((hessian + PRECISION) @ signs), 0, 1)
            self.D = alpha * J * self.D + (1 - alpha) * 2 * mean * signs * (hessian @ signs) / len(
                X
            )
        else:
            G, gamma = self.metric(m), 0
        self.theta = self.theta - self.h * (G * g - gamma) + np.sqrt(2 * self.h * self.T * G) * xi
        self.m, self.count = m, self.count + 1


def dynamics_of(correction, h: Any = H, T: Any = TEMPERATURE, decay: Any = DECAY, **options):
    return ewsg.dynamics.preconditioned(
        h, decay=decay, damping=DAMPING, correction=correction, temperature=T, **options
    )


def estimator_of(batch_size):
    return (
        ewsg.gradients.full(model())
        if batch_size is None
        else ewsg.gradients.uniform(model(), batch_size=batch_size)
    )


def run_both(correction, batch_size, steps=12, as_adam=False):
    """Steps of the kernel with noises and rows of our choice, and of the typed chain."""
    dynamics = dynamics_of(correction, bias_correction=as_adam)
    kernel = ewsg.kernel(dynamics, estimator_of(batch_size))
    data, rng = jax.tree.map(jnp.asarray, DATA), np.random.default_rng(9)
    typed = Typed(correction, as_adam=as_adam)
    state = kernel.init(jax.random.key(0), jnp.asarray(START), data)
    transition_of = jax.jit(kernel.transition)
    for _ in range(steps):
        rows = np.arange(5) if batch_size is None else rng.integers(5, size=batch_size)
        xi, signs = rng.normal(size=3), rng.choice([-1.0, 1.0], size=3)
        typed.step(rows, xi, signs)
        batch = () if batch_size is None else jnp.asarray(rows, jnp.int32)
        noise = (jnp.asarray(xi), jnp.asarray(signs)) if correction else jnp.asarray(xi)
        state, info = transition_of(ewsg.Randomness(as_drawn(batch), noise), state, data)
    return state, info, typed, data


@pytest.mark.parametrize("batch_size", [None, 1, 2])
@pytest.mark.parametrize("correction", [False, True])
def test_moves(x64, correction, batch_size):
    state, info, typed, _ = run_both(correction, batch_size)
    np.testing.assert_allclose(state.position, typed.theta, rtol=1e-11)
    np.testing.assert_allclose(state.dynamics.mean_square, typed.m, rtol=1e-11)
    if correction:
        np.testing.assert_allclose(state.dynamics.slope, typed.D, rtol=1e-10)
    else:
        assert state.dynamics.slope == ()
    assert int(state.step) == 12
    assert int(info.gradient_evaluations) == (batch_size or 5) * (2 if correction else 1)


@pytest.mark.parametrize("correction", [pytest.param(False, marks=pytest.mark.full), True])
def test_moves_with_the_weights_of_adam(x64, correction):
    """The same with Adam's mean; after the first step it is ḡ² itself."""
    state, _, typed, _ = run_both(correction, 2, as_adam=True)
    np.testing.assert_allclose(state.position, typed.theta, rtol=1e-11)
    np.testing.assert_allclose(state.dynamics.mean_square, typed.m, rtol=1e-11)
    if correction:
        np.testing.assert_allclose(state.dynamics.slope, typed.D, rtol=1e-10)
    first, _, one, _ = run_both(correction, None, steps=1, as_adam=True)
    np.testing.assert_allclose(
        first.dynamics.mean_square, (likelihood_gradient(START, np.arange(5))[0] / 5) ** 2
    )
    np.testing.assert_allclose(first.position, one.theta, rtol=1e-12)


@pytest.mark.full
def test_the_defaults_are_those_of_the_paper():
    """α = 0.99 and λ = 1e-5, without the correction."""
    assert ewsg.dynamics.preconditioned(H) == ewsg.dynamics.preconditioned(
        H, decay=0.99, damping=1e-5, correction=False
    )


@pytest.mark.full
@pytest.mark.parametrize("correction", [False, True])
def test_noise_may_be_signs_and_probes_are_signs(correction):
    made = dynamics_of(correction, noise="rademacher")
    drawn = made.draw(jax.random.key(0), made.init(jax.random.key(0), jnp.zeros(64)))
    assert made.extra_gradients == int(correction)
    assert all(set(part.tolist()) == {-1.0, 1.0} for part in jax.tree.leaves(drawn))
    if correction:
        assert drawn[0].tolist() != drawn[1].tolist(), "they have keys of their own"
    gaussian = dynamics_of(True)
    noise, signs = gaussian.draw(jax.random.key(0), gaussian.init(jax.random.key(0), jnp.zeros(64)))
    assert len(set(noise.tolist())) == 64
    assert set(signs.tolist()) == {-1.0, 1.0}


def test_one_vector_of_signs_estimates_the_diagonal_without_bias(x64):
    """D after the first step is 2ḡ∂ḡ/∂θ on average over all 2³ vectors."""
    dynamics, data = dynamics_of(True), jax.tree.map(jnp.asarray, DATA)
    kernel = ewsg.kernel(dynamics, ewsg.gradients.full(model()))
    state = jax.jit(kernel.init)(jax.random.key(0), jnp.asarray(START), data)
    every = jnp.array(np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), axis=-1).reshape(-1, 3))

    @jax.jit
    @jax.vmap
    def slope(signs):
        return kernel.transition(ewsg.Randomness((), (jnp.zeros(3), signs)), state, data)[
            0
        ].dynamics.slope

    slopes = slope(every)
    gradient, hessian = likelihood_gradient(START, np.arange(5))
    expected = 2 * gradient / 5 * np.diag(hessian) / 5
    np.testing.assert_allclose(slopes.mean(0), expected, rtol=1e-12)
    assert np.ptp(slopes, axis=0).min() > 0.01


# The laws, in one dimension. Each model is n = 3 data, its V and the gradient of its mean
# likelihood.

ROWS = np.array([0.5, 1.0, 1.5])
A = 6.0
MODELS = {
    # ḡ = exp(θ) has no zero.
    "exponential": (
        lambda: ewsg.Posterior(lambda p, x: -x * jnp.exp(p[0]), lambda p: A * p[0]),
        lambda t: 3 * np.exp(t) - A * t,
        np.exp,
        (-4.5, 3.0),
        1.0,
    ),
    # ḡ = 0.7 θ has one, where |ḡ| has a kink.
    "quadratic": (
        lambda: ewsg.Posterior(
            lambda p, x: -0.35 * (p[0] - x + 1) ** 2, lambda p: -0.3 * p[0] ** 2
        ),
        lambda t: 1.05 * t**2 + 0.3 * t**2,
        lambda t: 0.7 * t,
        (-4.5, 4.5),
        0.5,
    ),
}


def moments_of_the_chain(name, correction, h, T, points):
    """Mean and variance for α = 0: m is this step's ḡ² or, corrected, the one before."""
    build, _, _, bounds, damping = MODELS[name]
    dynamics = ewsg.dynamics.preconditioned(
        h, decay=0, damping=damping, correction=correction, temperature=T
    )
    kernel = ewsg.kernel(dynamics, ewsg.gradients.full(build()))
    data, grid = jnp.asarray(ROWS), np.linspace(*bounds, points)
    some = kernel.init(jax.random.key(0), jnp.zeros(1), data)

    def end(state, x, xi):
        state = state._replace(
            dynamics=state.dynamics._replace(position=x[None], step=jnp.int32(5))
        )
        noise = (xi[None], jnp.ones(1)) if correction else xi[None]
        return kernel.transition(ewsg.Randomness((), noise), state, data)[0]

    @jax.jit
    def mean_and_scale(before):
        ends = [
            jax.vmap(lambda x, xi=xi: end(before, x, xi).position[0])(grid)
            for xi in jnp.array([0.0, 1.0])
        ]
        return ends[0], ends[1] - ends[0]

    if not correction:
        density = transition.stationary(grid, *map(np.asarray, mean_and_scale(some)))
    else:
        before = jax.vmap(lambda x: end(some, x, jnp.float64(0)))(grid)
        density = transition.stationary_of_pairs(
            grid, *map(np.asarray, jax.vmap(mean_and_scale)(before))
        )
    return transition.mean_and_variance(grid, density)


def moments_of_the_limit(name, correction, T):
    """exp(−V/T) with the correction, (λ + |ḡ|) exp(−V/T) without."""
    _, potential, mean_gradient, bounds, damping = MODELS[name]
    grid = np.linspace(*bounds, 20_001)
    factor = 1 if correction else damping + np.abs(mean_gradient(grid))
    return transition.mean_and_variance(grid, transition.tilted(grid, potential(grid), T, factor))


@pytest.mark.parametrize("T", [pytest.param(1.0, marks=pytest.mark.sweep), 0.7])
def test_law_without_correction(x64, T):
    """The law tends to (λ + |ḡ|) exp(−V/T), 0.11 or 0.08 off in the mean, at order h."""
    limit, target = (
        moments_of_the_limit("exponential", correction, T) for correction in (False, True)
    )
    assert limit[0] - target[0] == pytest.approx({1.0: 0.1111, 0.7: 0.0778}[T], abs=1e-4)
    coarse, fine = (
        moments_of_the_chain("exponential", False, h, T, 401) - limit for h in (0.08, 0.04)
    )
    np.testing.assert_allclose(coarse / fine, 2, rtol=0.06)
    assert np.abs(2 * fine - coarse).max() < 0.04 * np.abs(target - limit).max()


def test_law_with_correction(x64):
    """The law tends to exp(−V/T) at the order h."""
    target, T = moments_of_the_limit("exponential", True, 0.7), 0.7
    coarse, fine = (
        moments_of_the_chain("exponential", True, h, T, 141) - target for h in (0.08, 0.04)
    )
    np.testing.assert_allclose(coarse / fine, 2, rtol=0.15)
    assert np.abs(2 * fine - coarse).max() < 2e-3


@pytest.mark.parametrize("correction", [False, pytest.param(True, marks=pytest.mark.sweep)])
def test_law_where_the_metric_has_a_kink(x64, correction):
    """The order stays near h at a kink of G, if steps are within its width: √(2hT/λ) = 0.28 and
    0.2, λ/ḡ' = 0.71.

    Measured between h = 0.02 and 0.01: 1.00 uncorrected, 0.93 corrected.
    """
    limit = moments_of_the_limit("quadratic", correction, 1.0)[1]
    points = 181 if correction else 401
    coarse, fine = (
        moments_of_the_chain("quadratic", correction, h, 1.0, points)[1] - limit
        for h in (0.02, 0.01)
    )
    assert coarse / fine == pytest.approx(1.9 if correction else 2, rel=0.01)
    assert abs(2 * fine - coarse) < 1e-2 * limit
    assert (
        moments_of_the_limit("quadratic", False, 1.0)[1]
        > 1.4 * moments_of_the_limit("quadratic", True, 1.0)[1]
    )


def variance_of_chains(kernel, data, chains, steps, start, seed):
    """Mean and variance over chains in float64, and their standard errors."""
    states = jax.vmap(kernel.init, in_axes=(None, 0, None))(jax.random.key(0), start, data)
    end, _ = run(kernel, states, data, steps, jax.random.split(jax.random.key(seed), chains))
    values = np.asarray(end.position)[:, 0]
    squares = (values - values.mean()) ** 2
    return (values.mean(), values.std() / np.sqrt(chains)), (
        squares.mean(),
        squares.std() / np.sqrt(chains),
    )


@pytest.mark.full
@pytest.mark.parametrize(
    ("correction", "decay"),
    [
        (False, 0.9),
        (True, 0.99),
        *(pytest.param(True, decay, marks=pytest.mark.sweep) for decay in (0.5, 0.9, 0.999)),
    ],
)
def test_law_where_m_remembers(x64, correction, decay):
    """Γ has no factor 1 − α: with it the corrected mean would be off by 0.05 at α = 0.5 and 0.1 at
    α = 0.9.

    Uncorrected, the mean is off by more than half of its limit's 0.11.
    """
    chains, h, T = 10_000, 0.004, 1.0
    build, potential, _, bounds, damping = MODELS["exponential"]
    dynamics = ewsg.dynamics.preconditioned(
        h, decay=decay, damping=damping, correction=correction, temperature=T
    )
    kernel = ewsg.kernel(dynamics, ewsg.gradients.full(build()))
    target = moments_of_the_limit("exponential", True, T)
    grid = np.linspace(*bounds, 4001)
    law = transition.tilted(grid, potential(grid), T)
    start = np.interp(
        np.random.default_rng(1).uniform(size=chains), np.cumsum(law) / law.sum(), grid
    )[:, None]
    mean, variance = variance_of_chains(
        kernel, jnp.asarray(ROWS), chains, 600, jnp.asarray(start), seed=2
    )
    if correction:
        assert abs(mean[0] - target[0]) < Z * mean[1] + 2e-3
        assert abs(variance[0] - target[1]) < Z * variance[1] + 2e-3
    else:
        assert mean[0] - target[0] > 0.055


@pytest.mark.full
@pytest.mark.parametrize("correction", [pytest.param(False, marks=pytest.mark.sweep), True])
def test_law_with_minibatches(x64, correction):
    """With b = 1 the batch is in G and g: uncorrected, the variance is 1.6 times too large."""
    chains, h, decay, damping = 6000, 2e-4, 0.5, 0.1
    rows = np.tile([-1.0, 1.0], 5)
    dynamics = ewsg.dynamics.preconditioned(h, decay=decay, damping=damping, correction=correction)
    kernel = ewsg.kernel(
        dynamics, ewsg.gradients.uniform(ewsg.models.gaussian_location(), batch_size=1)
    )
    start = np.random.default_rng(1).normal(size=(chains, 1)) / np.sqrt(10)
    mean, variance = variance_of_chains(
        kernel, jnp.asarray(rows)[:, None], chains, 1500, jnp.asarray(start), seed=3
    )
    assert abs(mean[0]) < Z * mean[1]
    ratio, error = 10 * variance[0], 10 * variance[1]
    if correction:
        # h n²/(2T) E G = 0.01 of it is the batch's heat.
        assert abs(ratio - 1.01) < Z * error
    else:
        assert ratio - 1.6 > -Z * error
