"""The thermostat against its formulas, its invariant law, and the bias and the heat it should have;
mostly exact.

p' = p − hζp − h g + √(2Ah) ξ, θ' = θ + h p', ζ' = ζ + h(‖p'‖²/d − T), A = γT: typed here in NumPy.
"""

import itertools
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.dynamics import ThermostatState
from ewsg_jax.gradients import Estimate
from tests.chains import run
from tests.dynamics.test_noise_corrected import flat, tree
from tests.oracles import hermite, lyapunov
from tests.parts import no_probe

H, GAMMA, TEMPERATURE, ZETA = 0.07, 1.7, 0.6, 2.9
SIZE = 7
Z = 5.33  # two-sided 1e-7


POSITION, MOMENTUM = np.random.default_rng(3).normal(size=(2, SIZE))


def stepped(theta, p, zeta, gradient, xi, h=H, gamma=GAMMA, T=TEMPERATURE):
    """One step as typed above, for points on a leading axis too."""
    p = p - h * zeta * p - h * gradient + np.sqrt(2 * gamma * T * h) * xi
    return theta + h * p, p, zeta + h * (np.mean(p**2, axis=-1, keepdims=True) - T)


def dynamics_of(h: Any = H, gamma: Any = GAMMA, T: Any = TEMPERATURE, **options):
    return ewsg.dynamics.thermostat(h, friction=gamma, temperature=T, **options)


def state_of(zeta=ZETA, step=0):
    return ThermostatState(tree(POSITION), tree(MOMENTUM), jnp.asarray(zeta), jnp.int32(step))


# The formulas.


def test_moves(x64):
    """Ten steps with other gradients and noises: one ζ for all leaves, which changes."""
    dynamics, state = dynamics_of(), state_of()
    theta, p, zeta = POSITION, MOMENTUM, np.array([ZETA])
    for gradient, xi in np.random.default_rng(4).normal(size=(10, 2, SIZE)):
        theta, p, zeta = stepped(theta, p, zeta, gradient, xi)
        state = dynamics.apply(tree(xi), state, Estimate(tree(gradient), ()), no_probe)
    np.testing.assert_allclose(flat(state.position), theta, rtol=1e-12)
    np.testing.assert_allclose(flat(state.momentum), p, rtol=1e-12)
    np.testing.assert_allclose(state.thermostat, zeta[0], rtol=1e-12)
    assert int(state.step) == 10


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_start(dtype, request):
    """Momenta from N(0, T), ζ = γ at least in float32; and dtypes stay."""
    if dtype == "float64":
        request.getfixturevalue("x64")
    dynamics = dynamics_of(gamma=lambda step: GAMMA + step, T=4.0)
    position = {"a": jnp.ones(20_000, dtype), "b": jnp.zeros((2, 3), dtype)}
    state = dynamics.init(jax.random.key(1), position)
    p = np.asarray(state.momentum["a"], float)
    assert abs(p.mean()) < Z * np.sqrt(4 / p.size)
    assert abs((p**2).mean() / 4 - 1) < Z * np.sqrt(2 / p.size) + 1e-3
    assert state.thermostat.dtype == jnp.promote_types(dtype, jnp.float32)
    np.testing.assert_allclose(state.thermostat, GAMMA, rtol=1e-6)
    moved = dynamics.apply(
        dynamics.draw(jax.random.key(2), state), state, Estimate(position, ()), no_probe
    )
    assert jax.tree.map(lambda x: (x.shape, x.dtype), moved) == jax.tree.map(
        lambda x: (x.shape, x.dtype), state
    )


# The law. V = ½ Σ λᵢθᵢ²; the invariant density is that of V + ‖p‖²/2 + d(ζ − γ)²/2 over T, so ζ ~
# N(γ, T/d).


@pytest.mark.usual_parameters("1")
@pytest.mark.parametrize("d", [1, 6])
def test_invariant_density_solves_the_fokker_planck_equation(x64, d):
    """Drift and noise as h → 0, from `move`, in ∇·(bπ) = ½ Σ ∂∂(Bπ) by central differences."""
    h, gamma, T = 1e-7, 1.3, 0.6
    curvature = 0.5 + np.arange(d)
    dynamics = dynamics_of(h, gamma, T)

    @jax.vmap
    def moved(z, xi):
        state = ThermostatState(z[:d], z[d:-1], z[-1], jnp.int32(0))
        end = dynamics.apply(xi, state, Estimate(curvature * z[:d], ()), no_probe)
        return jnp.concatenate([end.position, end.momentum, end.thermostat[None]])

    def density(z, variance_of_zeta):
        energy = curvature @ z[:d] ** 2 / 2 + z[d:-1] @ z[d:-1] / 2
        return np.exp(-energy / T - (z[-1] - gamma) ** 2 / (2 * variance_of_zeta))

    rng, eps = np.random.default_rng(d), 1e-3
    for _ in range(5):
        z = rng.normal(size=2 * d + 1) * np.sqrt(T)
        z[-1] = gamma + np.sqrt(T / d) * rng.normal()
        near = np.concatenate([z + eps * np.eye(len(z)), z - eps * np.eye(len(z))])
        drift = (np.asarray(moved(near, np.zeros((len(near), d)))) - near) / h
        # The noise's part of a step is linear in it, and the same everywhere.
        unit = np.eye(d) / np.sqrt(h)
        noise = np.asarray(moved(np.tile(z, (d, 1)), unit) - moved(np.tile(z, (d, 1)), 0 * unit))[
            :, d:-1
        ]
        np.testing.assert_allclose(noise, np.sqrt(2 * gamma * T) * np.eye(d), atol=1e-6)

        def residual(variance, z=z, near=near, drift=drift):
            pi = np.array([density(point, variance) for point in near])
            flux = sum(
                (drift[k, k] * pi[k] - drift[k + len(z), k] * pi[k + len(z)]) / (2 * eps)
                for k in range(len(z))
            )
            ps = range(d, 2 * d)
            laplacian = sum(
                (pi[k] + pi[k + len(z)] - 2 * density(z, variance)) / eps**2 for k in ps
            )
            size = abs(density(z, variance)) * np.abs(drift).max()
            return (-flux + gamma * T * laplacian) / size

        assert abs(residual(T / d)) < 1e-4
        assert abs(residual(2 * T / d)) > 1e-3, "another law of the thermostat would show"


def moments_in_one_dimension(h, gamma, T, curvature, pushes=(0.0,)):
    """Var θ · λ/T, E p²/T and E ζ of the library's steps, gradient λθ plus one of `pushes`."""
    dynamics = dynamics_of(h, gamma, T)

    def push(by):
        @jax.jit
        @jax.vmap
        def moved(z, xi):
            state = ThermostatState(z[:1], z[1:2], z[2], jnp.int32(0))
            end = dynamics.apply(xi[None], state, Estimate(curvature * z[:1] + by, ()), no_probe)
            return jnp.concatenate([end.position, end.momentum, end.thermostat[None]])

        return lambda z, xi: np.asarray(moved(z, xi))

    deviation = np.sqrt([T / curvature, T, T])
    expectation = hermite.stationary(
        [push(by) for by in pushes], [0, 0, gamma], deviation, 6, 14, 10
    )
    return np.array(
        [
            expectation(lambda z: z[:, 0] ** 2) * curvature / T,
            expectation(lambda z: z[:, 1] ** 2) / T,
            expectation(lambda z: z[:, 2]),
        ]
    )


def slope(values, steps):
    """The limit of (value − limit)/h as h → 0, from steps halved twice."""
    ratios = [v / h for v, h in zip(values, steps, strict=True)]
    first = [2 * b - a for a, b in itertools.pairwise(ratios)]
    return (4 * first[1] - first[0]) / 3


STEPS = (0.04, 0.02, 0.01)


@pytest.mark.full
@pytest.mark.parametrize(("gamma", "T", "curvature"), [(2.0, 0.6, 3.0), (4.0, 1.0, 1.0)])
def test_order_and_constant_of_the_bias(x64, gamma, T, curvature):
    """The law by Hermite polynomials: E p² = T at every h, E ζ − γ = h(γ²/2 − T/2), θ off O(h)."""
    found = np.array([moments_in_one_dimension(h, gamma, T, curvature) for h in STEPS])
    np.testing.assert_allclose(found[:, 1], 1, atol=1e-9)
    assert slope(found[:, 2] - gamma, STEPS) == pytest.approx(gamma**2 / 2 - T / 2, rel=1e-2)
    # −γ/2 for many dimensions; in one it is near that once γ² is above T.
    assert slope(found[:, 0] - 1, STEPS) == pytest.approx(-gamma / 2, rel=2e-2)


def test_thermostat_takes_up_the_noise_of_the_gradient(x64):
    """Two batches with gradients apart by ±√s: E ζ rises by hs/(2T), the law of θ stays."""
    gamma, T, curvature, s = 2.0, 0.6, 3.0, 4.0
    found = np.array(
        [moments_in_one_dimension(h, gamma, T, curvature, (np.sqrt(s), -np.sqrt(s))) for h in STEPS]
    )
    np.testing.assert_allclose(found[:, 1], 1, atol=1e-9)
    assert slope(found[:, 2] - gamma, STEPS) == pytest.approx(
        s / (2 * T) + gamma**2 / 2 - T / 2, rel=2e-2
    )
    # Without a thermostat the variance of θ would rise by hs/(2γT), a slope of 1.67.
    assert slope(found[:, 0] - 1, STEPS) == pytest.approx(-gamma / 2, rel=3e-2)


def linear_variance(h, gamma, T, curvature):
    """In many dimensions ζ is constant: the linear step's with E p² = T; and its Var θ."""

    def of(zeta):
        one = np.ones((1, 1))
        return lyapunov.stationary(
            [lyapunov.semi_implicit(curvature * one, np.zeros(1), h, zeta, gamma * T / zeta)]
        )[1]

    low, high = gamma / 2, 2 * gamma
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if of(middle)[1, 1] > T else (low, middle)
    return SimpleNamespace(zeta=low, variance=of(low)[0, 0])


def assert_law(end, kinds):
    """z-tests of values by their mean squares: `(name, values, variance, allowance for h)`."""
    for name, values, variance, allowance in kinds:
        squares = np.asarray(values, float) ** 2
        error = squares.std() / np.sqrt(squares.size)
        assert abs(squares.mean() - variance) < Z * error + allowance * variance, (
            name,
            squares.mean(),
            variance,
        )


@pytest.mark.full
@pytest.mark.parametrize("d", [pytest.param(1, marks=pytest.mark.sweep), 5, 100])
def test_marginal_laws_at_another_temperature(d):
    """Chains started in the invariant law stay; the step moves it by less than is seen."""
    gamma, T, curvature, chains = 1.5, 0.6, 2.0, 40_000 // d
    h, steps = 0.02, 300
    posterior = ewsg.Posterior(lambda p, row: 0.0 * row, lambda p: -0.5 * curvature * jnp.sum(p**2))
    kernel = ewsg.kernel(dynamics_of(h, gamma, T), ewsg.gradients.full(posterior))
    rng, data = np.random.default_rng(d), jnp.zeros(2)
    states = jax.vmap(kernel.init, in_axes=(0, 0, None))(
        jax.random.split(jax.random.key(d), chains), jnp.zeros((chains, d)), data
    )
    expected = linear_variance(h, gamma, T, curvature)
    states = states._replace(
        dynamics=states.dynamics._replace(
            position=jnp.asarray(
                np.sqrt(T / curvature) * rng.normal(size=(chains, d)), jnp.float32
            ),
            thermostat=jnp.asarray(gamma + np.sqrt(T / d) * rng.normal(size=chains), jnp.float32),
        )
    )
    end = run(kernel, states, data, steps, jax.random.split(jax.random.key(7 + d), chains))[
        0
    ].dynamics
    zeta = np.asarray(end.thermostat, float)
    shift = h * (gamma**2 / 2 - T / (2 * d))
    assert abs(zeta.mean() - gamma - shift) < Z * zeta.std() / np.sqrt(chains)
    # The thermostat's own variance is T/d (1 + O(h)).
    assert_law(
        end,
        [
            ("position", end.position, expected.variance, 0.002),
            ("momentum", end.momentum, T, 0),
            ("thermostat", zeta - zeta.mean(), T / d, 0.05),
        ],
    )
