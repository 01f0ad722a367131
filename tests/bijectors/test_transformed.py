"""Transformed posteriors: constants and means of conjugate models by quadrature over u."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import ewsg_jax as ewsg
from ewsg_jax import bijectors

COUNTS = np.array([0, 0, 1, 1, 1, 0, 1, 2, 1])


def log_gamma_density(x, shape, rate):
    return shape * jnp.log(rate) - math.lgamma(shape) + (shape - 1) * jnp.log(x) - rate * x


def log_normal_density(x, mean, variance):
    return -0.5 * (jnp.log(2 * jnp.pi * variance) + (x - mean) ** 2 / variance)


def log_beta(*parts):
    return sum(math.lgamma(a) for a in parts) - math.lgamma(sum(parts))


def rate_of_exponential_data():
    """Gamma(2, 1.5) prior, exponential data."""
    x = np.array([0.4, 1.1, 2.3])
    shape, rate = 2 + len(x), 1.5 + x.sum()
    evidence = 1.5**2 * math.gamma(shape) / math.gamma(2) / rate**shape
    model = ewsg.Posterior(
        lambda theta, x: jnp.log(theta) - theta * x,
        lambda theta: log_gamma_density(theta, 2.0, 1.5),
    )
    return model, bijectors.positive(), x, jnp.zeros(()), evidence, shape / rate


def share_between_bounds():
    """θ on (−1, 3) with (θ + 1)/4 ~ Beta(2, 3), and coins that fall with that probability."""
    y = np.array([1.0, 0.0, 1.0, 1.0])

    def prior(theta):
        p = (theta + 1) / 4
        return jnp.log(p) + 2 * jnp.log1p(-p) - log_beta(2, 3) - jnp.log(4.0)

    model = ewsg.Posterior(lambda t, y: jnp.log(jnp.where(y == 1, (t + 1) / 4, (3 - t) / 4)), prior)
    evidence = math.exp(log_beta(5, 4) - log_beta(2, 3))
    return model, bijectors.interval(-1.0, 3.0), y, jnp.zeros(()), evidence, -1 + 4 * 5 / 9


def shares_of_counts():
    """Dirichlet(1.5, 2, 1) prior, categorical data."""
    prior, counts = np.array([1.5, 2.0, 1.0]), np.bincount(COUNTS)
    model = ewsg.Posterior(
        lambda theta, k: jnp.log(theta[k]),
        lambda theta: jnp.sum((prior - 1) * jnp.log(theta)) - log_beta(*prior),
    )
    evidence = math.exp(log_beta(*(prior + counts)) - log_beta(*prior))
    return (
        model,
        bijectors.simplex(),
        COUNTS,
        jnp.zeros(2),
        evidence,
        (prior + counts) / (prior + counts).sum(),
    )


def two_ordered_normals():
    """Two standard normals in order: half of the plane, means ∓1/√π. The data say nothing."""
    model = ewsg.Posterior(
        lambda theta, x: 0.0 * x, lambda theta: jnp.sum(log_normal_density(theta, 0.0, 1.0))
    )
    means = np.array([-1, 1]) / math.sqrt(math.pi)
    return model, bijectors.ordered(), np.zeros(1), jnp.zeros(2), 0.5, means


def mean_and_precision():
    """Normal-gamma prior (Murphy 2007, section 3): the precision's posterior mean is a_n/b_n."""
    x = np.array([0.2, -0.5, 1.4, 0.9])
    n, center = len(x), x.mean()
    a, b, kappa, mu = 2.5, 1.2, 0.7, 0.3
    a_n, kappa_n, mu_n = a + n / 2, kappa + n, (kappa * mu + n * center) / (kappa + n)
    b_n = b + 0.5 * ((x - center) ** 2).sum() + kappa * n * (center - mu) ** 2 / (2 * (kappa + n))
    evidence = (
        math.gamma(a_n)
        / math.gamma(a)
        * b**a
        / b_n**a_n
        * math.sqrt(kappa / kappa_n)
        * (2 * math.pi) ** (-n / 2)
    )

    def prior(theta):
        precision = theta["precision"]
        return log_normal_density(theta["mean"], mu, 1 / (kappa * precision)) + log_gamma_density(
            precision, a, b
        )

    model = ewsg.Posterior(
        lambda theta, x: log_normal_density(x, theta["mean"], 1 / theta["precision"]), prior
    )
    both = bijectors.tree({"mean": bijectors.identity(), "precision": bijectors.positive()})
    start = {"mean": jnp.zeros(()), "precision": jnp.zeros(())}
    return model, both, x, start, evidence, {"mean": mu_n, "precision": a_n / b_n}


CASES = [
    rate_of_exponential_data,
    share_between_bounds,
    shares_of_counts,
    two_ordered_normals,
    mean_and_precision,
]


@pytest.mark.parametrize("case", CASES)
def test_integral_and_mean_over_the_unconstrained_position(x64, case):
    """The trapezoid rule converges faster than any power for densities that die out."""
    model, bijector, data, start, evidence, mean = case()
    transformed = model.transformed(bijector)
    flat, unravel = jax.flatten_util.ravel_pytree(start)
    line, step = np.linspace(-36, 36, 1441 if flat.size == 1 else 577, retstep=True)
    grid = np.stack(np.meshgrid(*[line] * flat.size, indexing="ij"), axis=-1).reshape(-1, flat.size)

    def at(u):
        position = unravel(u)
        return jnp.exp(-transformed.potential(position, jnp.asarray(data))), bijector.forward(
            position
        )

    density, theta = jax.jit(jax.vmap(at))(grid)
    integral = float(jnp.sum(density)) * step**flat.size
    assert integral == pytest.approx(evidence, rel=1e-7)
    found = jax.tree.map(lambda x: jnp.tensordot(density, x, 1) * step**flat.size / integral, theta)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-7), found, mean)


@pytest.mark.full
def test_a_kernel_runs_on_it():
    model, bijector, data, _, _, mean = rate_of_exponential_data()
    kernel = ewsg.uld(model.transformed(bijector), 0.1, friction=1.0)
    samples = ewsg.sample(
        jax.random.key(0),
        kernel,
        bijector.inverse(jnp.float32(0.8)),
        data,
        1_000,
        num_chains=50,
        burn_in=200,
    )
    assert np.mean(bijector.forward(samples.position)) == pytest.approx(mean, rel=0.02)


class Own:
    """θ = exp(u), with a log determinant of the test's choice."""

    def __init__(self, log_det):
        self.log_det = log_det

    def forward(self, position):
        return jnp.exp(position)


@pytest.mark.full
def test_a_users_own_bijector(x64):
    model, _, data, *_ = rate_of_exponential_data()
    own = model.transformed(Own(lambda u: u))
    u = 0.4
    theta = np.exp(u)
    log_density = (
        2 * np.log(1.5) + np.log(theta) - 1.5 * theta + len(data) * u - theta * data.sum() + u
    )
    np.testing.assert_allclose(
        own.potential(jnp.array(u), jnp.asarray(data)), -log_density, rtol=1e-12
    )
    # d/du of (2 + n) u − (1.5 + Σx) eᵘ
    expected = -(2 + len(data)) + (1.5 + data.sum()) * theta
    np.testing.assert_allclose(own.gradient(jnp.array(u), jnp.asarray(data)), expected, rtol=1e-12)


@pytest.mark.full
def test_a_linear_posterior_keeps_its_law_and_loses_its_predictor(x64):
    model = ewsg.models.linear_regression()
    data = {"x": jnp.array([[1.0, -1.0], [0.5, 2.0]]), "y": jnp.array([0.3, -0.2])}
    same, u = model.transformed(bijectors.identity()), jnp.array([0.2, -0.4])
    assert model.predictor is not None
    assert same.predictor is None
    np.testing.assert_allclose(same.gradient(u, data), model.gradient(u, data), rtol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("dtype", [jnp.int32, jnp.bool_, jnp.bfloat16, jnp.float32])
@pytest.mark.parametrize("covariance", [0.01, [0.01, 0.02], [[0.01, 0.004], [0.004, 0.02]]])
def test_inputs_of_any_dtype_are_moved_in_that_of_the_shift(dtype, covariance):
    """Against the same inputs, 0 and 1, in float64 NumPy: Lᵀx and xᵀm are no whole numbers."""
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 2, size=(20, 2)), rng.normal(size=20)
    mean, u = np.array([0.37, -1.24]), np.array([0.3, -0.2])
    covariance = np.asarray(covariance)
    is_dense = covariance.ndim == 2
    factor = np.linalg.cholesky(covariance if is_dense else np.eye(2) * covariance)
    theta = mean + factor @ u
    expected = factor.T @ (theta - x.T @ (y - x @ theta))
    given = covariance.item() if covariance.ndim == 0 else jnp.asarray(covariance)
    data = {"x": jnp.asarray(x, dtype), "y": jnp.asarray(y, jnp.float32)}
    model = ewsg.models.linear_regression().transformed(
        bijectors.affine(jnp.asarray(mean, jnp.float32), given)
    )
    assert model.predictor is not None
    found = model.gradient(jnp.asarray(u, jnp.float32), data)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    below = (
        stats.norm(0, 1).logpdf([*theta, *(y - x @ theta)]).sum() + np.log(np.diag(factor)).sum()
    )
    np.testing.assert_allclose(
        model.potential(jnp.asarray(u, jnp.float32), data), -below, rtol=1e-5
    )


@pytest.mark.full
def test_whole_numbers_are_no_positions_of_an_affine_map():
    whitened = bijectors.affine(jnp.array([0.5, 1.5]), 4.0)
    for each in (whitened.forward, whitened.inverse, whitened.log_det):
        with pytest.raises(TypeError, match="position must be a pytree of floating-point arrays"):
            each(jnp.array([3, 5]))
    assert bijectors.affine(0.5, 4.0).inverse(1.0) == 0.25


@pytest.mark.full
@pytest.mark.parametrize(
    ("log_det", "message"),
    [
        (lambda u: jnp.stack([u, u]), r"shape \(2,\)"),
        (lambda u: 1, "dtype int"),
        (lambda u: u[3], "it failed on them"),
    ],
)
def test_log_det_must_return_a_scalar(log_det, message):
    model, _, data, start, *_ = rate_of_exponential_data()
    transformed = model.transformed(Own(log_det))
    with pytest.raises(ValueError, match="bijector.log_det must return .*" + message):
        transformed.log_prior(start)
    with pytest.raises(ValueError, match="bijector.log_det must return .*" + message):
        transformed.check(start, jnp.asarray(data))


@pytest.mark.full
def test_refuses_what_is_no_bijector():
    model = rate_of_exponential_data()[0]
    for wrong in (jnp.exp, Own(None), bijectors.positive, None):
        with pytest.raises(TypeError, match="bijector must be an object with the methods forward"):
            model.transformed(wrong)
