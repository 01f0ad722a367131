"""The exact stationary mean and covariance of every dynamics on Gaussian posteriors, without Monte
Carlo.

The map of one step comes from the Jacobians of `transition`; its stationary law solves a linear
equation. Both are compared with matrices typed from the equations and with closed forms
(tests/oracles/lyapunov.py).
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.oracles import lyapunov

EXACT = 1e-10

UNDERDAMPED = ("euler", "semi_implicit", "splitting", "exact")
DYNAMICS = ("langevin", *UNDERDAMPED)

# h, γ, T, λ: all stable, also for "euler" (hλ < γ).
SETTINGS = [(0.25, 2.5, 1.0, 3.0), (0.1, 1.0, 0.4, 2.0), (0.05, 0.8, 2.5, 7.0)]

BATCHES = [(1, True), (2, True), (2, False)]

LOCATIONS = np.array([[-1.0], [0.3], [0.7], [2.2], [5.0]])
INPUTS = np.array([[1.0, 0.2], [0.5, -1.0], [-0.4, 0.9], [1.5, 1.2], [0.3, 2.0]])
OUTPUTS = np.array([0.5, -1.2, 2.0, 0.1, 1.0])


def full_kernel(name, posterior, h, gamma, T, **options):
    if name == "langevin":
        return ewsg.ld(posterior, h, temperature=T, **options)
    return ewsg.uld(posterior, h, friction=gamma, integrator=name, temperature=T, **options)


def minibatch_kernel(name, posterior, h, gamma, T, batch_size, replace):
    options = {"batch_size": batch_size, "replace": replace, "temperature": T}
    if name == "langevin":
        return ewsg.sgld(posterior, h, **options)
    return ewsg.sghmc(posterior, h, friction=gamma, integrator=name, **options)


def all_batches(rows, batch_size, replace):
    """Every batch once, all equally probable."""
    if replace:
        return np.array(list(itertools.product(range(rows), repeat=batch_size)))
    return np.array(list(itertools.combinations(range(rows), batch_size)))


def numbers(name, h, gamma, T):
    """What the oracle's functions take: no γ for Langevin."""
    return (h, T) if name == "langevin" else (h, gamma, T)


def with_momentum(mean, name):
    """The stationary mean of z: the momentum's is 0."""
    return mean if name == "langevin" else np.concatenate([mean, np.zeros_like(mean)])


def location_gradients(batches, noise_scale, prior_scale):
    """(H, k) of every batch: ∇V₀ = θ/prior², ∇Vᵢ = (θ − xᵢ)/noise²; a batch counts n/b times."""
    n = len(LOCATIONS)
    h = np.array([[n / noise_scale**2 + 1 / prior_scale**2]])
    return [(h, n * LOCATIONS[batch].mean(0) / noise_scale**2) for batch in batches]


def regression_gradients(batches, noise_scale, prior_scale):
    """(H, k) of every batch: ∇V₀ = θ/prior², ∇Vᵢ = xᵢ(xᵢᵀθ − yᵢ)/noise²; n/b times."""
    n = len(INPUTS)
    found = []
    for batch in batches:
        x, y, weight = INPUTS[batch], OUTPUTS[batch], n / len(batch) / noise_scale**2
        found.append((weight * x.T @ x + np.eye(2) / prior_scale**2, weight * x.T @ y))
    return found


def assert_maps_equal(maps, steps):
    np.testing.assert_allclose(maps.matrix, [s.matrix for s in steps], rtol=EXACT, atol=1e-14)
    np.testing.assert_allclose(maps.shift, [s.shift for s in steps], rtol=EXACT, atol=1e-14)
    np.testing.assert_allclose(maps.noise, [s.noise for s in steps], rtol=EXACT, atol=1e-14)


def assert_same_law(found, expected):
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=EXACT, atol=EXACT * np.abs(want).max())


def regression_data():
    return {"x": jnp.asarray(INPUTS), "y": jnp.asarray(OUTPUTS)}


@pytest.mark.usual_parameters("*-0.1-1.0-0.4-2.0")
@pytest.mark.parametrize(("h", "gamma", "T", "lam"), SETTINGS)
@pytest.mark.parametrize("name", DYNAMICS)
def test_full_gradient_in_one_dimension(linearize, name, h, gamma, T, lam):
    posterior = ewsg.models.gaussian_location(noise_scale=(len(LOCATIONS) / lam) ** 0.5)
    maps = linearize(full_kernel(name, posterior, h, gamma, T), 1, jnp.asarray(LOCATIONS))

    step = lyapunov.UPDATES[name](
        np.array([[lam]]), lam * LOCATIONS.mean(0), *numbers(name, h, gamma, T)
    )
    assert_maps_equal(maps, [step])
    mean, covariance = lyapunov.stationary(maps.steps)
    np.testing.assert_allclose(mean, with_momentum(LOCATIONS.mean(0), name), rtol=EXACT, atol=EXACT)
    if name in lyapunov.CLOSED_FORMS:
        expected = lyapunov.CLOSED_FORMS[name](lam, *numbers(name, h, gamma, T))
        np.testing.assert_allclose(covariance, expected, rtol=EXACT, atol=EXACT)


@pytest.mark.usual_parameters("*-0.05-1.2-0.3-0.7")
@pytest.mark.parametrize(
    ("h", "gamma", "T", "noise_scale"), [(0.1, 2.5, 1.0, 0.8), (0.05, 1.2, 0.3, 0.7)]
)
@pytest.mark.parametrize("name", DYNAMICS)
def test_full_gradient_with_correlations(linearize, name, h, gamma, T, noise_scale):
    posterior = ewsg.models.linear_regression(noise_scale=noise_scale, prior_scale=2.0)
    maps = linearize(full_kernel(name, posterior, h, gamma, T), 2, regression_data())

    ((precision, k),) = regression_gradients([np.arange(5)], noise_scale, 2.0)
    assert_maps_equal(maps, [lyapunov.UPDATES[name](precision, k, *numbers(name, h, gamma, T))])
    mean, covariance = lyapunov.stationary(maps.steps)
    posterior_mean = np.linalg.solve(precision, k)
    np.testing.assert_allclose(mean, with_momentum(posterior_mean, name), rtol=EXACT, atol=EXACT)
    if name in lyapunov.CLOSED_FORMS:
        closed_form = lyapunov.CLOSED_FORMS[name]
        expected = lyapunov.rotated(
            lambda lam: closed_form(lam, *numbers(name, h, gamma, T)), precision
        )
        np.testing.assert_allclose(covariance, expected, rtol=EXACT, atol=EXACT)


def test_semi_implicit_has_the_variance_worked_out_by_hand(linearize):
    # λ = 3, h = 1/4, γ = 5/2, T = 1: 2 (2 − 5/8) / (3 (4 − 5/4 − 3/16)) = 44/123.
    posterior = ewsg.models.gaussian_location(noise_scale=3**-0.5)
    maps = linearize(ewsg.uld(posterior, 0.25, friction=2.5), 1, jnp.zeros((1, 1)))
    _, covariance = lyapunov.stationary(maps.steps)
    assert covariance[0, 0] == pytest.approx(0.35772357723577275, rel=1e-12)
    assert covariance[0, 0] == pytest.approx(44 / 123, rel=1e-12)


@pytest.mark.usual_parameters("*-2-False")
@pytest.mark.parametrize(("batch_size", "replace"), BATCHES)
@pytest.mark.parametrize("name", DYNAMICS)
def test_minibatch_noise_that_does_not_depend_on_the_position(linearize, name, batch_size, replace):
    h, gamma, T, noise_scale, prior_scale = 0.05, 2.5, 0.6, 0.9, 0.7
    posterior = ewsg.models.gaussian_location(noise_scale=noise_scale, prior_scale=prior_scale)
    kernel = minibatch_kernel(name, posterior, h, gamma, T, batch_size, replace)
    batches = all_batches(5, batch_size, replace)
    maps = linearize(kernel, 1, jnp.asarray(LOCATIONS), jnp.asarray(batches))

    gradients = location_gradients(batches, noise_scale, prior_scale)
    steps = [
        lyapunov.UPDATES[name](*gradient, *numbers(name, h, gamma, T)) for gradient in gradients
    ]
    assert_maps_equal(maps, steps)
    assert_same_law(lyapunov.stationary(maps.steps), lyapunov.stationary(steps))

    # The estimate is unbiased and its noise enters where ξ does, with variance h²C beside 2hT or
    # 2γhT: the law is that of the full gradient at a higher temperature. C = n²s²/b, s² the
    # variance of ∇Vᵢ over the rows.
    lam, shift = gradients[0][0].item(), 5 * LOCATIONS.mean(0) / noise_scale**2
    mean, covariance = lyapunov.stationary(maps.steps)
    np.testing.assert_allclose(mean, with_momentum(shift / lam, name), rtol=EXACT, atol=EXACT)
    C = 5**2 * LOCATIONS.var() / noise_scale**4 / batch_size
    if not replace:
        C *= (5 - batch_size) / (5 - 1)
    if name == "langevin":
        np.testing.assert_allclose(
            covariance, (2 * h * T + h**2 * C) / (1 - (1 - h * lam) ** 2), rtol=EXACT
        )
    elif name in lyapunov.CLOSED_FORMS:
        expected = lyapunov.CLOSED_FORMS[name](lam, h, gamma, T + h * C / (2 * gamma))
        np.testing.assert_allclose(covariance, expected, rtol=EXACT, atol=EXACT)


@pytest.mark.usual_parameters("*-2-True")
@pytest.mark.parametrize(("batch_size", "replace"), BATCHES)
@pytest.mark.parametrize("name", DYNAMICS)
def test_minibatch_noise_that_depends_on_the_position(linearize, name, batch_size, replace):
    h, gamma, T, noise_scale, prior_scale = 0.03, 2.0, 0.6, 0.8, 2.0
    posterior = ewsg.models.linear_regression(noise_scale=noise_scale, prior_scale=prior_scale)
    kernel = minibatch_kernel(name, posterior, h, gamma, T, batch_size, replace)
    batches = all_batches(5, batch_size, replace)
    maps = linearize(kernel, 2, regression_data(), jnp.asarray(batches))

    gradients = regression_gradients(batches, noise_scale, prior_scale)
    steps = [
        lyapunov.UPDATES[name](*gradient, *numbers(name, h, gamma, T)) for gradient in gradients
    ]
    assert_maps_equal(maps, steps)
    mean, covariance = lyapunov.stationary(maps.steps)
    assert_same_law((mean, covariance), lyapunov.stationary(steps))

    ((precision, k),) = regression_gradients([np.arange(5)], noise_scale, prior_scale)
    np.testing.assert_allclose(
        mean, with_momentum(np.linalg.solve(precision, k), name), rtol=EXACT, atol=EXACT
    )
    # The minibatch heats: the variance along every axis exceeds that of the full gradient.
    _, quiet = lyapunov.stationary(
        [lyapunov.UPDATES[name](precision, k, *numbers(name, h, gamma, T))]
    )
    assert np.all(np.diag(covariance) > 1.01 * np.diag(quiet))


@pytest.mark.full
@pytest.mark.parametrize("name", ["langevin", "euler", "semi_implicit"])
def test_rademacher_noise_has_the_same_stationary_covariance(linearize, name):
    # On a linear system the covariance only sees that the noise has mean 0 and variance 1.
    h, gamma, T = 0.05, 1.2, 0.4
    posterior = ewsg.models.linear_regression(noise_scale=0.8, prior_scale=2.0)
    kernel = full_kernel(name, posterior, h, gamma, T, noise="rademacher")
    data = regression_data()

    state = kernel.init(jax.random.key(0), jnp.array([0.3, -1.0]), data)
    drawn = jax.vmap(lambda key: kernel.draw(key, state, data).noise)(
        jax.random.split(jax.random.key(1), 200)
    )
    signs = jnp.array(list(itertools.product([-1.0, 1.0], repeat=2)))
    assert {tuple(row) for row in drawn.tolist()} == {tuple(row) for row in signs.tolist()}

    def moved(noise):
        new = kernel.transition(ewsg.Randomness((), noise), state, data)[0].dynamics
        return jnp.concatenate([x for x in new if x.shape])

    ends = np.asarray(jax.vmap(moved)(signs))
    np.testing.assert_allclose(ends.mean(0), moved(jnp.zeros(2)), rtol=EXACT)
    noise = np.cov(ends, rowvar=False, bias=True)

    maps = linearize(kernel, 2, data)
    law = lyapunov.stationary([lyapunov.Step(maps.matrix[0], maps.shift[0], noise)])
    assert_same_law(
        law,
        lyapunov.stationary(linearize(full_kernel(name, posterior, h, gamma, T), 2, data).steps),
    )


@pytest.mark.parametrize("u", [0.25, 3.0])
def test_inverse_mass_sets_the_velocity_variance_and_leaves_the_position(linearize, u):
    h, gamma, T, lam = 0.02, 2.0, 0.6, 3.0
    posterior = ewsg.models.gaussian_location(noise_scale=lam**-0.5)
    maps = linearize(
        full_kernel("exact", posterior, h, gamma, T, inverse_mass=u), 1, jnp.zeros((1, 1))
    )

    assert_maps_equal(maps, [lyapunov.exact(np.array([[lam]]), np.zeros(1), h, gamma, T, u)])
    _, covariance = lyapunov.stationary(maps.steps)
    # The gradient is old by h/2 on average: the friction is γ − huλ/2, the temperature T γ/(γ −
    # huλ/2).
    heat = 1 / (1 - h * u * lam / (2 * gamma))
    assert covariance[0, 0] == pytest.approx(T / lam * heat, rel=h**2)
    assert covariance[1, 1] == pytest.approx(u * T * heat, rel=h**2)
