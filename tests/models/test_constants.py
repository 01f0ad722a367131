"""Densities of ready models: quadrature, closed forms, and float32's digits of sums."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import ewsg_jax as ewsg
from ewsg_jax.metropolis.random_walk_metropolis import RandomWalkMetropolis
from ewsg_jax.rows._padded import Padded
from ewsg_jax.rows._shards import Shard

pytestmark = pytest.mark.full

models, bijectors = ewsg.models, ewsg.bijectors
RNG = np.random.default_rng(0)
N = 60
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, -0.5] + 0.5 * RNG.normal(size=N)
CLASSES = RNG.integers(0, 3, N)

NORMAL_MODELS = {
    "gaussian_location": (models.gaussian_location, np.array([0.3]), lambda y: jnp.array([y])),
    "linear_regression": (
        models.linear_regression,
        np.array([0.3, -1.0]),
        lambda y: {"x": jnp.ones(2), "y": y},
    ),
}


@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
@pytest.mark.parametrize("name", NORMAL_MODELS)
def test_a_normal_datum_has_a_density(x64, name, scale):
    make, position, datum = NORMAL_MODELS[name]
    log_likelihood = make(noise_scale=scale).log_likelihood
    grid = jnp.linspace(-12 * scale - 2, 12 * scale + 2, 20_001)
    density = jnp.exp(jax.vmap(lambda y: log_likelihood(jnp.asarray(position), datum(y)))(grid))
    assert integrate.trapezoid(np.asarray(density), np.asarray(grid)) == pytest.approx(1, rel=1e-9)


def test_other_data_have_densities(x64):
    grid = jnp.linspace(-40, 40, 40_001)
    for log_scale in (-2.0, 0.0, 1.2):
        at = jnp.array([0.3, log_scale])
        density = jnp.exp(jax.vmap(lambda y, at=at: models.normal().log_likelihood(at, y))(grid))
        assert integrate.trapezoid(np.asarray(density), np.asarray(grid)) == pytest.approx(
            1, rel=1e-9
        )
    # In several dimensions the constant counts each.
    ours = models.gaussian_location(noise_scale=0.3).log_likelihoods(
        jnp.array([0.3, -1.0]), jnp.asarray(X)
    )
    np.testing.assert_allclose(ours, stats.norm([0.3, -1.0], 0.3).logpdf(X).sum(1), rtol=1e-12)
    x = jnp.array([0.4, -2.0])
    logistic, softmax = models.logistic_regression(), models.softmax_regression()
    w = jnp.array([[0.3, -1.0, 0.2], [1.0, 2.0, -0.7]])
    both = [logistic.log_likelihood(w[:, 0], {"x": x, "y": y}) for y in (0, 1)]
    three = [softmax.log_likelihood(w, {"x": x, "y": y}) for y in (0, 1, 2)]
    for logs in (both, three):
        assert sum(math.exp(value) for value in logs) == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
def test_the_prior_is_a_density(x64, scale):
    position = {"a": jnp.asarray(RNG.normal(size=(2, 3))), "b": jnp.asarray(1.5)}
    prior = models._priors.normal_prior(scale)
    flat = np.concatenate([np.ravel(x) for x in jax.tree.leaves(position)])
    assert float(prior(position)) == pytest.approx(
        stats.norm(0, scale).logpdf(flat).sum(), rel=1e-12
    )
    assert float(models._priors.normal_prior(math.inf)(position)) == 0


WHOLE = {
    "gaussian_location": (models.gaussian_location(noise_scale=0.3, prior_scale=2.0), X, (2,)),
    "normal": (models.normal(prior_scale=2.0), Y, (2,)),
    "linear": (models.linear_regression(noise_scale=0.3, prior_scale=2.0), {"x": X, "y": Y}, (2,)),
    "logistic": (models.logistic_regression(prior_scale=2.0), {"x": X, "y": CLASSES > 0}, (2,)),
    "softmax": (models.softmax_regression(prior_scale=2.0), {"x": X, "y": CLASSES}, (2, 3)),
    "affine": (
        models.linear_regression(noise_scale=0.3, prior_scale=2.0).transformed(
            bijectors.affine(jnp.array([0.1, 0.2]), jnp.array([[2.0, 0.3], [0.3, 1.0]]))
        ),
        {"x": X, "y": Y},
        (2,),
    ),
    "interval": (
        models.gaussian_location(noise_scale=0.3, prior_scale=2.0).transformed(
            bijectors.interval(-4.0, 3.0)
        ),
        X,
        (2,),
    ),
}


@pytest.mark.usual_parameters("normal")
@pytest.mark.parametrize("name", [name for name in WHOLE if name not in ("linear", "logistic")])
def test_the_potential_has_the_constants_of_all_rows(x64, name):
    """Of whole data, of rows in chunks, of rows that do not count, and of data in parts."""
    model, data, shape = WHOLE[name]
    position = jnp.asarray(RNG.normal(size=shape))
    data = jax.tree.map(jnp.asarray, data)
    expected = -model.log_prior(position) - jnp.sum(
        jax.vmap(lambda row: model.log_likelihood(position, row))(data)
    )
    found = (
        model.potential(position, data),
        jax.jit(model.potential, static_argnums=2)(position, data, 7),
    )
    np.testing.assert_allclose(found, [expected] * 2, rtol=1e-12)
    constants = model.constants(position, data)
    np.testing.assert_allclose(
        model.varying.potential(position, data) - constants, expected, rtol=1e-12
    )
    assert (constants == 0) == (model.varying is model)
    more = jax.tree.map(lambda x: jnp.concatenate([x, x[:9]]), data)
    padded = Padded(rows=more, size=jnp.where(jnp.arange(N + 9) < N, N, 0).astype(jnp.int32))
    np.testing.assert_allclose(model.potential(position, padded), expected, rtol=1e-12)
    halves = jax.tree.map(lambda x: x.reshape(2, N // 2, *x.shape[1:]), data)
    parts = Shard(
        rows=halves,
        size=jnp.full((2, N // 2), N // 2, jnp.int32),
        total=N,
        parts=2,
        axes=("parts",),
    )
    of_parts = jax.vmap(lambda part: model.potential(position, part), axis_name="parts")(parts)
    np.testing.assert_allclose(of_parts, [expected] * 2, rtol=1e-12)


def log_evidence(noise, prior):
    """log ∫ p(y | w) p(w) dw of the linear regression, in closed form."""
    return stats.multivariate_normal(np.zeros(N), noise**2 * np.eye(N) + prior**2 * X @ X.T).logpdf(
        Y
    )


@pytest.mark.usual_parameters("in other coordinates")
@pytest.mark.parametrize("affine", [False, True], ids=["as it is", "in other coordinates"])
def test_scales_are_chosen_by_evidence(affine):
    """Laplace, exact here: −V(mode) + (d/2) log 2π − ½ log det ∇²V, in any coordinates."""
    found, right = {}, {}
    for noise in (0.25, 0.5, 2.0):
        for prior in (0.1, 1.0):
            model = models.linear_regression(noise_scale=noise, prior_scale=prior)
            if affine:
                model = model.transformed(bijectors.affine(jnp.array([0.4, -1.0]), 3.0))
            data = {"x": jnp.asarray(X, jnp.float32), "y": jnp.asarray(Y, jnp.float32)}
            mode = ewsg.find_mode(jax.random.key(0), model, jnp.zeros(2), data)
            log_det = np.linalg.slogdet(np.asarray(mode.covariance, float))[1]
            found[noise, prior] = -mode.potential + math.log(2 * math.pi) + 0.5 * log_det
            right[noise, prior] = log_evidence(noise, prior)
            assert found[noise, prior] == pytest.approx(right[noise, prior], rel=1e-5)
    assert max(found, key=found.get) == max(right, key=right.get) == (0.5, 1.0)


def plain_regression(noise, prior):
    """The linear regression as it is written without constants."""
    return ewsg.Posterior.linear(
        lambda mean, row: -0.5 * noise**-2 * jnp.square(row["y"] - mean),
        lambda w: -0.5 * prior**-2 * jnp.sum(w**2),
        inputs=lambda row: row["x"],
        residual=lambda means, rows: noise**-2 * (rows["y"] - means),
    )


@pytest.mark.full
def test_sums_over_a_million_rows_are_as_good_as_without_constants():
    """Differences of potentials decide what Metropolis accepts: bit for bit without constants."""
    n, noise = 1_000_000, 0.01
    x = RNG.normal(size=(n, 1)).astype(np.float32)
    data = {
        "x": jnp.asarray(x),
        "y": jnp.asarray(x[:, 0] + noise * RNG.normal(size=n).astype(np.float32)),
    }
    model = models.linear_regression(noise_scale=noise, prior_scale=1.0)
    plain = plain_regression(noise, 1.0)
    kernel = ewsg.random_walk_metropolis(model, 1e-5)
    assert isinstance(kernel, RandomWalkMetropolis)
    rows = {name: np.asarray(value, float) for name, value in data.items()}

    def exact(w):
        return 0.5 * np.sum((rows["y"] - rows["x"][:, 0] * w) ** 2) / noise**2 + 0.5 * w**2

    constant = -n * (math.log(noise) + 0.5 * math.log(2 * math.pi)) - 0.5 * math.log(2 * math.pi)
    for at in (1.0, 1.00001, 1.0001):
        here = jnp.array([at], jnp.float32)
        value = plain.potential(here, data)
        assert kernel.potential(here, data) == value
        # With the constant added last there is one rounding more, of a number eight times as large.
        assert float(model.potential(here, data)) == pytest.approx(
            exact(float(here[0])) - constant, rel=3e-6
        )
        np.testing.assert_array_equal(model.gradient(here, data), plain.gradient(here, data))


@pytest.mark.usual_parameters("float32")
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_gradients_do_not_see_constants(dtype):
    data = {"x": jnp.asarray(X, dtype), "y": jnp.asarray(Y, dtype)}
    model = models.linear_regression(noise_scale=0.3, prior_scale=2.0)
    plain = plain_regression(0.3, 2.0)
    location = models.gaussian_location(noise_scale=0.3, prior_scale=2.0)
    squares = ewsg.Posterior(
        lambda p, x: -0.5 * 0.3**-2 * jnp.sum(jnp.square(x - p)),
        lambda p: -0.5 * 2.0**-2 * jnp.sum(p**2),
    )
    position = jnp.asarray([0.3, -0.7], dtype)
    for ours, theirs, rows in ((model, plain, data), (location, squares, data["x"])):
        for of in (
            lambda m, rows: m.gradient(position, rows, 7),
            lambda m, rows: m.batch_gradient(position, rows, jnp.array([3, 3, 17])),
            lambda m, rows: m.row_gradients(position, rows),
        ):
            ours_, theirs_ = (jax.jit(of, static_argnums=0)(m, rows) for m in (ours, theirs))
            np.testing.assert_array_equal(*(np.asarray(x, np.float32) for x in (ours_, theirs_)))


@pytest.mark.usual_parameters("logistic")
@pytest.mark.parametrize("name", ["normal", "logistic", "softmax"])
def test_bounds_lie_below_the_densities(x64, name):
    """log B(θ) = log L(c) + its change, and the gap is what is left to log L(θ)."""
    model, data, shape = WHOLE[name]
    bound, center = model.bound, jnp.asarray(RNG.normal(size=shape))
    for shift in (0.1, 1.0):
        position = center + shift * jnp.asarray(RNG.normal(size=shape))
        for i in range(2):
            row = jax.tree.map(lambda x, i=i: jnp.asarray(x)[i : i + 1], data)
            change = bound.total(position, center, bound.summarize(center, row, 1))
            log_bound = model.log_likelihoods(center, row)[0] + change
            gap = bound.gaps(position, center, row)[0]
            assert gap >= -1e-12
            np.testing.assert_allclose(
                log_bound + gap, model.log_likelihoods(position, row)[0], atol=1e-10
            )


def drawn(model, data, draws):
    """A run of a model with these draws."""
    kernel = ewsg.uld(model, 1e-3, friction=1.0)
    run = ewsg.sample(jax.random.key(0), kernel, jnp.zeros(draws.shape[2]), data, 2, num_chains=2)
    return dataclasses.replace(run, draws=draws.astype(np.float32), step=np.arange(draws.shape[1]))


def regression(noise, prior):
    """A run of exact draws of a one-weight linear regression, its data, and those held out."""
    x, y = X[:, :1], X[:, 0] + 0.5 * RNG.normal(size=N)
    model = models.linear_regression(noise_scale=noise, prior_scale=prior)
    x, y = x.astype(np.float32), y.astype(np.float32)
    halves = [{"x": x[half], "y": y[half]} for half in (slice(30), slice(30, N))]
    train = halves[0]
    precision = float((train["x"] ** 2).sum()) / noise**2 + prior**-2
    mean = float(train["x"][:, 0] @ train["y"]) / noise**2 / precision
    normal = np.random.default_rng(1).normal(size=(4, 4_000, 1))
    return model, halves, drawn(model, train, mean + precision**-0.5 * normal), (mean, precision)


def test_a_posterior_says_whether_it_is_a_density():
    model, (train, test), run, _ = regression(0.5, 1.0)
    half = dataclasses.replace(model, normalised=False)
    assert model.normalised
    assert model.transformed(bijectors.identity()).normalised
    assert half.transformed(bijectors.identity()).normalised is False
    assert plain_regression(1.0, 1.0).normalised is None
    # Sampling needs no constant.
    ewsg.sample(
        jax.random.key(0),
        ewsg.sgld(half, 1e-4, batch_size=5),
        jnp.zeros(1),
        train,
        3,
    )
    for unlike in (
        plain_regression(0.5, 1.0),
        dataclasses.replace(plain_regression(0.5, 1.0), normalised=True),
    ):
        assert np.isfinite(ewsg.diagnostics.log_predictive_density(run, unlike, test)).all()


def test_likelihoods_that_do_not_fit_in_memory_are_refused(monkeypatch):
    model, (train, _), run, _ = regression(0.5, 1.0)
    many = {
        name: np.broadcast_to(value[:1], (10**9, *value.shape[1:])) for name, value in train.items()
    }
    with pytest.raises(
        ValueError, match=r"16,000 draws × 1,000,000,000 rows .*, 3 times 5\.96e\+04 GiB"
    ):
        run.to_arviz(posterior=model, data=many)
