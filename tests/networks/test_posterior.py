"""A network as a target: densities by hand, and which leaves are sampled."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.special
import scipy.stats

import ewsg_jax as ewsg
from ewsg_jax.networks._likelihoods import likelihood_of

RNG = np.random.default_rng(0)


def normals(*shape):
    return RNG.normal(size=shape).astype(np.float32)


X = normals(12, 3)
PARAMS = {
    "first": {"kernel": normals(3, 4), "bias": normals(4)},
    "last": {"kernel": normals(4, 2), "bias": normals(2)},
}


def apply(params, x):
    hidden = jnp.tanh(x @ params["first"]["kernel"] + params["first"]["bias"])
    return hidden @ params["last"]["kernel"] + params["last"]["bias"]


def one(params, x):
    return apply(params, x)[:1]


def outputs(params=PARAMS):
    return np.stack([np.asarray(apply(params, x), np.float64) for x in X])


def softplus(x):
    return np.log1p(np.exp(x))


Y = {
    "normal": normals(12),
    "categorical": RNG.integers(0, 2, 12),
    "bernoulli": RNG.integers(0, 2, (12, 2)),
    "poisson": RNG.integers(0, 5, (12, 2)),
}


def density(name, out, y):
    if name == "normal":
        return scipy.stats.norm(out[:, 0], softplus(out[:, 1]) + 1e-6).logpdf(y)
    if name == "categorical":
        return out[np.arange(12), y] - np.log(np.exp(out).sum(1))
    if name == "bernoulli":
        return scipy.stats.bernoulli(1 / (1 + np.exp(-out))).logpmf(y).sum(1)
    return scipy.stats.poisson(np.exp(out)).logpmf(y).sum(1)


@pytest.mark.usual_parameters("normal", "poisson")
@pytest.mark.parametrize("name", Y)
def test_densities_and_prior_are_those_by_hand(name):
    data = {"x": X, "y": Y[name]}
    model = ewsg.networks.posterior(apply, PARAMS, data, likelihood=name, prior=0.5)
    values = model.posterior.log_likelihoods(model.position, data)
    expected = density(name, outputs(), Y[name])
    np.testing.assert_allclose(values, expected, rtol=2e-5, atol=1e-5)
    np.testing.assert_allclose(
        model.log_density(model.position, data), expected, rtol=2e-5, atol=1e-5
    )
    flat = np.concatenate([x.ravel() for x in jax.tree.leaves(PARAMS)])
    prior = scipy.stats.norm(0, 0.5).logpdf(flat).sum()
    np.testing.assert_allclose(model.posterior.log_prior(model.position), prior, rtol=1e-5)
    assert model.posterior.normalised
    assert all(np.all(x == 0.25) for x in jax.tree.leaves(model.prior_variance))


def test_only_sampled_leaves_are_a_position():
    data = {"x": X, "y": Y["normal"]}
    model = ewsg.networks.posterior(
        apply, PARAMS, data, likelihood="normal", sampled="last", fixed="first.bias"
    )
    assert jax.tree.structure(model.position) == jax.tree.structure(
        {"first": {"kernel": None, "bias": None}, "last": PARAMS["last"]}
    )
    whole = model.params(jax.tree.map(lambda x: x + 1, model.position))
    np.testing.assert_array_equal(whole["first"]["kernel"], PARAMS["first"]["kernel"])
    np.testing.assert_array_equal(whole["last"]["bias"], PARAMS["last"]["bias"] + 1)
    assert set(model.roles.values()) == {"sampled", "trained", "fixed"}
    assert len(jax.tree.leaves(model.trainable().position)) == 3


def test_half_precision_is_sampled_in_float32_and_read_as_it_is():
    """Steps of a chain are smaller than what bfloat16 resolves."""
    half = jax.tree.map(lambda x: jnp.asarray(x, jnp.bfloat16), PARAMS)
    data = {"x": X.astype(jnp.bfloat16), "y": Y["categorical"]}
    model = ewsg.networks.posterior(apply, half, data, likelihood="categorical")
    assert {x.dtype for x in jax.tree.leaves(model.position)} == {jnp.dtype("float32")}
    assert {x.dtype for x in jax.tree.leaves(model.prior_variance)} == {jnp.dtype("float32")}
    # A thousandth is nothing to bfloat16, and something to the prior.
    near = jax.tree.map(lambda x: x * 1.001, model.position)
    read = model.params(near)
    jax.tree.map(np.testing.assert_array_equal, read, half)
    out = model.output(near, data["x"])
    np.testing.assert_array_equal(out, jax.vmap(apply, (None, 0))(half, data["x"]))
    assert out.dtype == jnp.bfloat16
    assert model.posterior.log_prior(near) < model.posterior.log_prior(model.position)
    np.testing.assert_array_equal(
        model.with_params(half).params(near)["last"]["bias"], half["last"]["bias"]
    )


def test_likelihoods_of_half_precision_are_in_float32():
    """An output of bfloat16 has 8 bits; its density, its mean and its draws have no fewer."""
    for name, outputs in (("normal", [2.0, 0.5]), ("categorical", [3.0, -3.0])):
        half = jnp.asarray(outputs, jnp.bfloat16)
        data = {"x": np.zeros((4, 1), np.float32), "y": np.array([0, 1, 1, 0])}
        made = functools.partial(ewsg.networks.posterior, data=data, check_data=False)
        networks = [
            made(lambda params, x: params, params, likelihood=name)
            for params in (half, half.astype(jnp.float32))
        ]
        of_half, of_single = (one.log_density(one.position, data) for one in networks)
        assert of_half.dtype == jnp.float32
        np.testing.assert_allclose(of_half, of_single, rtol=1e-6)
        for one, other in zip(*(m.predict(m.position, data["x"]) for m in networks), strict=True):
            if one is not None:
                assert one.dtype == jnp.float32
                np.testing.assert_allclose(one, other, rtol=1e-6)
        if name == "normal":
            drawn = networks[0].draw(jax.random.key(0), networks[0].position, data["x"])
            assert drawn.dtype == jnp.float32


@pytest.mark.parametrize("count", [0, 3, 99, 100, 10**4, 10**6])
def test_densities_of_large_counts_keep_their_digits(count):
    """y log λ, λ and log y! round to units at 10⁶, and log p is their difference."""
    y = np.array([count, count + int(2 * count**0.5)])
    log_rate = np.float32(np.log(max(count, 0.1)))
    likelihood = likelihood_of("poisson")
    densities = jax.vmap(lambda y: likelihood.log_density(log_rate, {"y": y}))(y)
    expected = scipy.stats.poisson(np.exp(np.float64(log_rate))).logpmf(y)
    np.testing.assert_allclose(densities, expected, rtol=1e-4, atol=2e-3)
    gradient = jax.vmap(jax.grad(lambda rate, y: likelihood.log_density(rate, {"y": y})), (None, 0))
    expected = y - np.exp(np.float64(log_rate))
    np.testing.assert_allclose(
        gradient(log_rate, y), expected, rtol=1e-3, atol=1e-3 * max(count, 1) ** 0.5
    )


def test_densities_of_counts_are_the_same_on_both_sides_of_the_series(x64):
    """From 100 on Stirling's series takes the place of log y!; what it leaves out is 8e-14."""
    counts, log_rate = np.array([98, 99, 100, 101, 150, 1_000]), np.log(110.0)
    density = likelihood_of("poisson").log_density
    densities = jax.vmap(lambda y: density(jnp.asarray(log_rate), {"y": y}))(jnp.asarray(counts))
    expected = counts * log_rate - np.exp(log_rate) - scipy.special.gammaln(counts + 1.0)
    np.testing.assert_allclose(densities, expected, atol=2e-12, rtol=2e-15)


def test_a_mean_alone_has_one_learned_sd():
    data = {"x": X, "y": Y["normal"]}
    model = ewsg.networks.posterior(one, PARAMS, data, likelihood="normal")
    position = model.position._replace(raw_sd=jnp.float32(0.3))
    expected = scipy.stats.norm(outputs()[:, 0], softplus(0.3) + 1e-6).logpdf(data["y"])
    np.testing.assert_allclose(model.log_density(position, data), expected, rtol=2e-5, atol=1e-5)
    known = model.predict(position, X)
    np.testing.assert_allclose(known.sd, softplus(0.3) + 1e-6, rtol=1e-5)
    np.testing.assert_allclose(known.mean, outputs()[:, 0], rtol=1e-5)


def test_a_mean_over_rows_and_a_loss_are_warned_of():
    x = RNG.normal(size=(200, 3)).astype(np.float32)
    data = {"x": x, "y": np.zeros(200, np.float32)}

    def density(output, row):
        return -0.5 * jnp.sum((output - row["y"]) ** 2)

    def made(likelihood):
        return ewsg.networks.posterior(one, PARAMS, data, likelihood=likelihood, sampled="last")

    with pytest.warns(UserWarning, match=r"divided by n, here 0.005"):
        made(lambda output, row: density(output, row) / 200)
    with pytest.warns(UserWarning, match="is it a loss"):
        made(lambda output, row: -density(output, row))
    model = made(density)
    assert model.posterior.normalised is None


PRIORS = {
    "a number": (0.5, [0.5] * 4),
    "by fan-in": ("fan_in", [1.0, 1 / np.sqrt(3), 1.0, 0.5]),
    "by name": ({"*/bias": 2.0, "first": 0.1, "last": "fan_in"}, [2.0, 0.1, 2.0, 0.5]),
    "a function": (lambda name, shape: len(shape) + name.startswith("last"), [1, 2, 2, 3]),
}


@pytest.mark.parametrize("name", PRIORS)
def test_priors_by_leaf_are_those_by_hand(name):
    prior, sds = PRIORS[name]
    data = {"x": X, "y": Y["normal"]}
    model = ewsg.networks.posterior(
        apply, PARAMS, data, likelihood="normal", prior=prior, check_data=False
    )
    leaves = jax.tree.leaves(PARAMS)
    expected = sum(
        scipy.stats.norm(0, sd).logpdf(x).sum() for sd, x in zip(sds, leaves, strict=True)
    )
    np.testing.assert_allclose(model.posterior.log_prior(model.position), expected, rtol=1e-5)
    for sd, variance, leaf in zip(sds, jax.tree.leaves(model.prior_variance), leaves, strict=True):
        np.testing.assert_allclose(variance, np.full(leaf.shape, sd**2), rtol=1e-6)


def test_a_learned_scale_is_integrated_over(x64):
    """A multivariate Cauchy density by SciPy, which is the integral by quadrature."""
    params = jax.tree.map(jnp.float64, PARAMS)
    data = {"x": X, "y": Y["categorical"]}
    model = ewsg.networks.posterior(apply, params, data, likelihood="categorical", prior="learned")
    expected = 0.0
    for layer in params.values():
        for name, leaf in layer.items():
            unit = 1 / np.sqrt(leaf.shape[0]) if name == "kernel" else 1.0
            w, d = np.ravel(leaf), leaf.size
            cauchy = scipy.stats.multivariate_t(np.zeros(d), unit**2 * np.eye(d), df=1)
            expected += cauchy.logpdf(w)

            def integrand(t, w=w, unit=unit):
                """t = (unit/s)²."""
                return np.exp(
                    scipy.stats.norm(0, unit / np.sqrt(t)).logpdf(w).sum()
                    + scipy.stats.chi2(1).logpdf(t)
                )

            integral = scipy.integrate.quad(integrand, 0, np.inf, epsabs=0, epsrel=1e-8)[0]
            assert np.log(integral) == pytest.approx(cauchy.logpdf(w), abs=1e-5)
    assert float(model.posterior.log_prior(params)) == pytest.approx(expected, rel=1e-10)
    kernel = model.prior_variance["first"]["kernel"]
    np.testing.assert_allclose(kernel, 1 / 3, rtol=1e-12)
    # The mode of the integral is at weights that are all 0: networks are trained under normal ones.
    normal = ewsg.networks.posterior(apply, params, data, likelihood="categorical", prior="fan_in")
    assert model._assembly.training_prior(params) == normal.posterior.log_prior(params)


@pytest.mark.full
def test_priors_may_be_distributions_of_numpyro():
    dist = pytest.importorskip("numpyro.distributions")
    data = {"x": X, "y": Y["normal"]}
    prior = {
        "*/bias": dist.Laplace(0.0, 2.0),
        "first/kernel": dist.Normal(jnp.ones(4), 3.0).to_event(1),
        "last/kernel": dist.Cauchy(0.0, 0.5),
    }
    model = ewsg.networks.posterior(
        apply, PARAMS, data, likelihood="normal", prior=prior, check_data=False
    )
    first, last = PARAMS["first"], PARAMS["last"]
    biases = np.concatenate([first["bias"], last["bias"]])
    expected = (
        scipy.stats.laplace(0, 2).logpdf(biases).sum()
        + scipy.stats.norm(1, 3).logpdf(first["kernel"]).sum()
        + scipy.stats.cauchy(0, 0.5).logpdf(last["kernel"]).sum()
    )
    np.testing.assert_allclose(model.posterior.log_prior(model.position), expected, rtol=1e-5)
    variance = model.prior_variance
    assert np.all(variance["first"]["bias"] == 8)
    assert np.all(variance["first"]["kernel"] == 9)
    assert np.all(variance["last"]["kernel"] == 0.25)  # none is known: its squared scale
    with pytest.raises(ValueError, match="for all real numbers"):
        ewsg.networks.posterior(
            apply, PARAMS, data, likelihood="normal", prior=dist.HalfNormal(1.0)
        )


@pytest.mark.usual_parameters("bernoulli")
@pytest.mark.parametrize("name", Y)
def test_predictions_and_draws_have_the_moments_of_the_density(name):
    data = {"x": X[:2], "y": Y[name][:2]}
    model = ewsg.networks.posterior(apply, PARAMS, data, likelihood=name, check_data=False)
    keys = jax.random.split(jax.random.key(0), 4_000)
    drawn = np.asarray(jax.vmap(lambda key: model.draw(key, model.position, X[:2]))(keys), float)
    known = model.predict(model.position, X[:2])
    if name == "categorical":
        frequencies = np.stack([np.mean(drawn == k, 0) for k in range(2)], -1)
        np.testing.assert_allclose(frequencies, known.probabilities, atol=5 * 0.5 / np.sqrt(4_000))
        return
    error = known.sd / np.sqrt(4_000)
    assert np.all(np.abs(drawn.mean(0) - known.mean) < 5 * error)
    np.testing.assert_allclose(drawn.std(0), known.sd, rtol=0.15)


@pytest.mark.full
def test_a_run_and_answers_take_the_model():
    data = {"x": X, "y": Y["normal"]}
    model = ewsg.networks.posterior(apply, PARAMS, data, likelihood="normal", sampled="last")
    kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-4), model.estimator(batch_size=4))
    samples = ewsg.sample(jax.random.key(0), kernel, model.position, data, 10, progress=False)
    score = ewsg.diagnostics.log_predictive_density(samples, model.posterior, data)
    densities = jax.vmap(model.log_density, (0, None))(
        jax.tree.map(lambda x: x[0], samples.draws), data
    )
    expected = np.log(np.mean(np.exp(np.asarray(densities, np.float64)), 0))
    np.testing.assert_allclose(score, expected, rtol=1e-4)
    trained = model.with_params(jax.tree.map(lambda x: x + 1, PARAMS))
    np.testing.assert_allclose(
        trained.output(trained.position, X),
        outputs(jax.tree.map(lambda x: x + 1, PARAMS)),
        rtol=1e-4,
        atol=1e-5,
    )
    labels = data | {"y": Y["bernoulli"]}
    wrong = ewsg.networks.posterior(apply, PARAMS, labels, likelihood="bernoulli")
    with pytest.raises(ValueError, match="must hold 0 and 1"):
        wrong.posterior.check(wrong.position, {"x": X, "y": 2 * Y["bernoulli"]})


@pytest.mark.full
def test_a_likelihood_with_a_key_is_random():
    """Labels are read with noise: the batch's gradient is that of the drawn noise."""

    def noisy(output, row, key):
        return -0.5 * jnp.sum((row["y"] + jax.random.normal(key) - output) ** 2)

    data = {"x": X, "y": Y["normal"]}
    model = ewsg.networks.posterior(one, PARAMS, data, likelihood=noisy)
    assert model.takes_key
    keys = jax.random.split(jax.random.key(1), 12)
    rows = zip(X, Y["normal"], keys, strict=True)
    by_hand = [noisy(one(PARAMS, x), {"y": y}, key) for x, y, key in rows]
    np.testing.assert_allclose(
        model.log_density(model.position, data, jax.random.key(1)), by_hand, rtol=1e-5
    )
    kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-4), model.estimator(batch_size=4))
    samples = ewsg.sample(jax.random.key(0), kernel, model.position, data, 5, progress=False)
    assert samples.is_finite.all()


def test_inputs_may_be_a_pytree_and_leaves_that_are_fixed_whole_numbers():
    def looked_up(params, x):
        return params["table"][x["group"] + params["offset"]] * x["size"]

    data = {"x": {"group": np.arange(12) % 3, "size": X[:, 0]}, "y": Y["normal"], "more": X}
    params = {"table": normals(4), "offset": jnp.int32(1)}
    model = ewsg.networks.posterior(
        looked_up, params, data, likelihood=ewsg.networks.normal(0.5), fixed="offset"
    )
    expected = scipy.stats.norm(params["table"][1 + np.arange(12) % 3] * X[:, 0], 0.5)
    np.testing.assert_allclose(
        model.log_density(model.position, data), expected.logpdf(data["y"]), rtol=1e-5
    )
    assert model.position["offset"] is None
