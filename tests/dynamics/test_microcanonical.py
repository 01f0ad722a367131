"""Microcanonical dynamics: its step, its Jacobian, and its stationary distribution."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients import Estimate
from tests.parts import no_probe

H, LENGTH, TEMPERATURE = 0.7, 1.3, 0.6


def potential(x):
    """Five numbers; neither convex nor separable."""
    return 0.5 * x**2 @ jnp.arange(1.0, 6.0) + 0.1 * jnp.sum(x**4) + jnp.sin(3 * x[0] * x[1])


POSTERIOR = ewsg.Posterior(lambda x, row: 0.0 * row[0], lambda x: -potential(x))
NO_ROWS = np.zeros((1, 1))


def kernel_of(h=H, length=LENGTH, **options):
    dynamics = ewsg.dynamics.microcanonical(h, decoherence_length=length, **options)
    return ewsg.kernel(dynamics, ewsg.gradients.full(POSTERIOR))


@pytest.mark.full
def test_steps_and_energies_are_those_of_blackjax(x64):
    """BlackJAX's own integrator with no first kick, and its refreshed direction."""
    integrators = pytest.importorskip("blackjax.mcmc.integrators")
    kernel, coefficients = kernel_of(), [0.0, 0.5, 1.0, 0.5, 0.0]
    log_density = lambda x: -potential(x)
    step = jax.jit(integrators.generate_isokinetic_integrator(coefficients)(log_density))
    state = kernel.init(jax.random.key(0), jnp.arange(5.0) / 3, NO_ROWS)
    theirs = integrators.new_integrator_state(log_density, state.position, state.dynamics.direction)
    mine = jax.jit(kernel.transition)
    for key in jax.random.split(jax.random.key(1), 50):
        randomness = kernel.draw(key, state, NO_ROWS)
        state, _ = mine(randomness, state, NO_ROWS)
        theirs, kinetic_change = step(theirs, H)
        # The noise that BlackJAX adds to a direction, and its norm.
        turned = theirs.momentum + np.sqrt(np.expm1(2 * H / LENGTH) / 5) * randomness.noise
        theirs = theirs._replace(momentum=turned / jnp.linalg.norm(turned))
        np.testing.assert_allclose(state.position, theirs.position, atol=1e-10)
        np.testing.assert_allclose(state.dynamics.direction, theirs.momentum, atol=1e-10)
        np.testing.assert_allclose(state.dynamics.kinetic_change, kinetic_change, atol=1e-10)


GRADIENT = jax.grad(potential)


def deterministic(position, direction, h, gradient=GRADIENT):
    """A step without a refreshed direction: L so long that the noise is lost in rounding."""
    dynamics = ewsg.dynamics.microcanonical(h, decoherence_length=1e300, temperature=TEMPERATURE)
    state = dynamics.init(jax.random.key(0), position)._replace(direction=direction)
    estimate = Estimate(gradient(dynamics.evaluation_point(state)), ())
    return dynamics.apply(jnp.zeros_like(position), state, estimate, no_probe)


def at(seed):
    position, direction = np.random.default_rng(seed).normal(size=(2, 5))
    return jnp.array(position), jnp.array(direction / np.linalg.norm(direction))


def test_a_step_is_reversible(x64):
    position, direction = at(1)
    end = deterministic(position, direction, H)
    back = deterministic(end.position, -end.direction, H)
    np.testing.assert_allclose(back.position, position, rtol=1e-13)
    np.testing.assert_allclose(back.direction, -direction, rtol=1e-12)
    np.testing.assert_allclose(back.kinetic_change, -end.kinetic_change, rtol=1e-12)
    # Bounded, whatever the gradient.
    assert np.linalg.norm(end.position - position) <= H


def test_the_energy_is_that_of_the_jacobian(x64):
    """Its determinant on the sphere and the position is exp(−ΔK)."""
    position, direction = at(2)

    def moved(z):
        # A neighbourhood of u in the tangent plane, and of u' in that of u'.
        u = direction + tangent @ z[5:]
        end = deterministic(position + z[:5], u / jnp.linalg.norm(u), H)
        return jnp.concatenate([end.position, end.direction])

    def plane(u):
        return np.linalg.svd(np.asarray(u)[None])[2][1:].T

    tangent = plane(direction)
    end = deterministic(position, direction, H)
    jacobian = np.asarray(jax.jacfwd(moved)(jnp.zeros(9)))
    jacobian = np.concatenate([jacobian[:5], plane(end.direction).T @ jacobian[5:]])
    assert abs(end.kinetic_change) > 0.5
    np.testing.assert_allclose(np.linalg.slogdet(jacobian)[1], -end.kinetic_change, rtol=1e-10)


def test_the_energy_error_of_a_step_is_of_third_order(x64):
    position, direction = at(3)
    errors = []
    for h in (0.01, 0.005, 0.0025):
        end = deterministic(position, direction, h)
        change = potential(end.position) - potential(position)
        errors.append(abs(change / TEMPERATURE + end.kinetic_change))
    assert np.log2(np.divide(errors[:-1], errors[1:]))[-1] == pytest.approx(3, abs=0.05)


def test_no_gradient_and_the_largest(x64):
    position, direction = at(4)
    still = deterministic(position, direction, H, jnp.zeros_like)
    np.testing.assert_allclose(still.direction, direction, rtol=1e-14)
    assert still.kinetic_change == 0
    far = deterministic(position, direction, H, lambda x: 1e150 * position)
    np.testing.assert_allclose(far.direction, -position / np.linalg.norm(position), rtol=1e-12)
    assert np.isfinite(far.kinetic_change)


@pytest.mark.parametrize("size", [1.0, 2.0**5, 2.0**13, 2.0**500])
def test_straight_uphill_the_direction_stays(x64, size):
    """Along the gradient there is nothing that turns it, and ΔK = −δ (d − 1) is its least value."""
    uphill = jnp.array([0.0, 0.0, -1.0, 0.0, 0.0])
    end = deterministic(jnp.zeros(5), uphill, H, lambda x: size * uphill)
    np.testing.assert_allclose(end.direction, uphill, rtol=1e-12)
    np.testing.assert_allclose(end.kinetic_change, -H * size / TEMPERATURE, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_types_stay_and_the_direction_is_one_of_a_sphere(x64, dtype):
    """With numbers of 64 bits too; a direction at first is uniform: of norm 1, whatever the key."""
    numbers = {"decoherence_length": jnp.float64(0.5), "temperature": lambda step: 1.0 + step}
    dynamics = ewsg.dynamics.microcanonical(jnp.float64(0.1), **numbers)
    position = {"a": jnp.ones(400, dtype), "b": jnp.zeros((2, 3), dtype)}
    state = dynamics.init(jax.random.key(0), position)
    noise = dynamics.draw(jax.random.key(1), state)
    end = dynamics.apply(noise, state, Estimate(position, ()), no_probe)
    described = lambda tree: jax.tree.map(lambda x: (x.shape, x.dtype), tree)
    assert described(end) == described(state)
    eps = float(jnp.finfo(dtype).eps)
    for each in (state, end):
        squares = sum(np.sum(np.asarray(x, float) ** 2) for x in jax.tree.leaves(each.direction))
        assert squares == pytest.approx(1, abs=2 * eps)
    assert int(end.step) == 1


def test_a_position_of_one_number_has_no_direction():
    with pytest.raises(ValueError, match=r"at least 2 numbers for microcanonical.*; got 1: take"):
        kernel_of().init(jax.random.key(0), jnp.zeros(1), NO_ROWS)
