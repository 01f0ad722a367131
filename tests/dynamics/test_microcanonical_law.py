"""The stationary distribution of microcanonical dynamics, with exact and with noisy gradients.

On V = ‖θ‖²/2 in two dimensions a chain is a chain of θ in coordinates that turn with u, whatever u
is: a step is ABA and then a rotation by the angle of O. In the polynomials that are orthogonal
under the target, r^k cos(kφ) L_n^(k)(r²/2), a rotation by ω is a factor cos(kω), so that the
transition operator is a small matrix, by quadrature over the target and over ω. Its left
eigenvector is the stationary density: nothing is sampled.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import ewsg_jax as ewsg
from ewsg_jax.gradients import Estimate
from tests.parts import no_probe

DEGREE, NODES = 12, 40
LENGTH = 1.3


@jax.jit
def turned_frame(points, noise, h):
    """θ after ABA, in the coordinates in which u is (1, 0), by the library's own step."""
    dynamics = ewsg.dynamics.microcanonical(h, decoherence_length=1e300)

    def moved(point):
        start = dynamics.init(jax.random.key(0), point)._replace(direction=jnp.array([1.0, 0.0]))
        estimate = Estimate(dynamics.evaluation_point(start) + noise, ())
        end = dynamics.apply(jnp.zeros(2), start, estimate, no_probe)
        (c, s), (x, y) = end.direction, end.position
        return jnp.array([c * x + s * y, c * y - s * x])

    return jax.vmap(moved)(points)


def polynomials(points):
    """Orthonormal polynomials under N(0, I) that are even in the second coordinate, and their k."""
    squared, angle = (points**2).sum(1), np.arctan2(points[:, 1], points[:, 0])
    values, orders = [], []
    for k in range(DEGREE + 1):
        for n in range((DEGREE - k) // 2 + 1):
            norm = 2**k * special.gamma(n + k + 1) / special.gamma(n + 1) / (1 if k == 0 else 2)
            radial = squared ** (k / 2) * special.eval_genlaguerre(n, k, squared / 2)
            values.append(radial * np.cos(k * angle) / np.sqrt(norm))
            orders.append(k)
    return np.stack(values, 1), np.array(orders)


def mean_cosines(h, length, orders):
    """E cos(kω) for the angle ω between u and v, v = e^(−h/L) u + √((1 − e^(−2h/L))/2) ξ."""
    ratio = np.exp(-h / length) / np.sqrt(-np.expm1(-2 * h / length) / 2)
    angle = 2 * np.pi * np.arange(4_000) / 4_000
    along = ratio * np.cos(angle)
    density = np.exp(-(ratio**2) / 2) / np.sqrt(2 * np.pi) + along * special.ndtr(along) * np.exp(
        -((ratio * np.sin(angle)) ** 2) / 2
    )
    return np.array([density @ np.cos(k * angle) for k in orders]) / density.sum()


def grid(nodes):
    """Nodes and weights of N(0, I) in two dimensions."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()
    return (
        np.stack(np.meshgrid(points, points), -1).reshape(-1, 2),
        np.outer(weights, weights).ravel(),
    )


def excess(h, noise_variance=0.0):
    """By how much the stationary mean of θ² exceeds 1."""
    points, weights = grid(NODES)
    before, orders = polynomials(points)
    after = 0.0
    for noise, weight in zip(*grid(1 if noise_variance == 0 else 6), strict=True):
        moved = turned_frame(points, noise_variance**0.5 * noise, h)
        after = after + weight * polynomials(np.asarray(moved))[0]
    operator = (before * weights[:, None]).T @ (after * mean_cosines(h, LENGTH, orders))
    count = len(orders)
    # c = c·operator, with the coefficient 1 of the constant.
    system = np.vstack([operator.T - np.eye(count), np.eye(count)[:1]])
    density = np.linalg.lstsq(system, np.r_[np.zeros(count), 1.0], rcond=None)[0]
    # The second polynomial of k = 0 is 1 − r²/2.
    return -density[1]


def test_the_bias_is_of_second_order(x64):
    sizes = [0.4, 0.2, 0.1]
    biases = [excess(h) for h in sizes]
    assert np.log2(biases[1] / biases[2]) == pytest.approx(2, abs=0.03)
    assert max(biases) < 0


@pytest.mark.full
def test_noise_alike_in_all_directions_adds_at_second_order(x64):
    added = [excess(h, 4.0) - excess(h) for h in (0.2, 0.1, 0.05)]
    assert np.log2(added[1] / added[2]) == pytest.approx(2, abs=0.15)


def run(h, length, curvature, noise, steps, num_chains=100, temperature=1.0, inverse_mass=1.0):
    """Mean squares of positions, with their standard errors."""
    d = len(curvature)
    options = {"decoherence_length": length, "temperature": temperature}
    dynamics = ewsg.dynamics.microcanonical(h, inverse_mass=inverse_mass, **options)
    curvature, noise_sd = jnp.asarray(curvature), jnp.sqrt(jnp.asarray(noise))

    def chain(key):
        first, start, keys = jax.random.split(key, 3)
        position = jax.random.normal(start, (d,)) * jnp.sqrt(temperature / curvature)

        def step(carry, key):
            state, total = carry
            by_dynamics, by_gradient = jax.random.split(key)
            gradient = curvature * dynamics.evaluation_point(state)
            gradient = gradient + noise_sd * jax.random.normal(by_gradient, (d,))
            state = dynamics.apply(
                dynamics.draw(by_dynamics, state), state, Estimate(gradient, ()), no_probe
            )
            return (state, total + (state.step > steps // 4) * state.position**2), None

        carry = dynamics.init(first, position), jnp.zeros(d)
        (_, total), _ = jax.lax.scan(step, carry, jax.random.split(keys, steps))
        return total / (steps - steps // 4)

    squares = jax.jit(jax.vmap(chain))(jax.random.split(jax.random.key(0), num_chains))
    return np.asarray(squares.mean(0)), np.asarray(squares.std(0)) / num_chains**0.5


Z = 5.0  # two-sided 6e-7


@pytest.mark.full
def test_the_kernel_has_that_distribution():
    """The bias of the matrix at h = 0.4, in a sampled chain."""
    with jax.enable_x64(True):
        expected = 1 + excess(0.4)
    mean, error = run(0.4, LENGTH, [1.0, 1.0], [0.0, 0.0], 2_000, 1_000)
    assert expected < 0.99
    np.testing.assert_allclose(mean, expected, atol=Z * error.max())


@pytest.mark.full
def test_unlike_curvatures_at_another_temperature():
    curvature = np.array([0.5, 1.0, 4.0])
    mean, error = run(0.1, 1.5, curvature, np.zeros(3), 4_000, temperature=0.4)
    np.testing.assert_allclose(
        mean * curvature / 0.4, 1, atol=0.01 + Z * (error * curvature).max() / 0.4
    )


@pytest.mark.full
@pytest.mark.parametrize("shorter", [1.0, 0.3])
def test_the_temperatures_of_unlike_noise(shorter):
    """Tᵢ = T (1 + a sᵢ)/(1 + a s̄), a = hL/(2dT²), in many dimensions."""
    d, h, temperature = 50, 0.5, 0.7
    length = shorter * d**0.5
    noise = np.repeat([8.0, 0.0], d // 2)
    a = h * length / (2 * d * temperature**2)
    expected = temperature * (1 + a * noise) / (1 + a * noise.mean())
    mean, error = run(h, length, np.ones(d), noise, 2_000, temperature=temperature)
    for half in (slice(0, d // 2), slice(d // 2, d)):
        found, wanted = mean[half].mean(), expected[half].mean()
        assert abs(wanted / temperature - 1) > 0.04
        assert found == pytest.approx(wanted, abs=float(0.01 + Z * error.max() / d**0.5))


@pytest.mark.full
def test_an_inverse_mass_that_makes_the_noise_alike_keeps_the_distribution():
    d = 50
    noise = np.repeat([8.0, 1.0], d // 2)
    mean, error = run(0.5, d**0.5, np.ones(d), noise, 2_000, inverse_mass=jnp.asarray(1 / noise))
    for half in (slice(0, d // 2), slice(d // 2, d)):
        assert mean[half].mean() == pytest.approx(1, abs=float(0.015 + Z * error.max() / d**0.5))
