"""A network as a target: densities by hand, and which leaves are sampled."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import ewsg_jax as ewsg

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


def test_a_mean_alone_has_one_learned_sd():
    data = {"x": X, "y": Y["normal"]}
    model = ewsg.networks.posterior(one, PARAMS, data, likelihood="normal")
    position = model.position._replace(raw_sd=jnp.float32(0.3))
    expected = scipy.stats.norm(outputs()[:, 0], softplus(0.3) + 1e-6).logpdf(data["y"])
    np.testing.assert_allclose(model.log_density(position, data), expected, rtol=2e-5, atol=1e-5)
    known = model.predict(position, X)
    np.testing.assert_allclose(known.sd, softplus(0.3) + 1e-6, rtol=1e-5)
    np.testing.assert_allclose(known.mean, outputs()[:, 0], rtol=1e-5)
