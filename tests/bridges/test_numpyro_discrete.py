"""Discrete sites of one row each are summed out: against mixtures, by hand, and by funsor."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.infer.util import potential_energy

import ewsg_jax as ewsg
from tests.bridges.numpyro_models import COUNTS, MODELS, N, X, Y, normal

KEY = jax.random.key(0)


def labelled(y=None):
    """The mixture of the twenty models, with its labels."""
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("parts", 3):
        place = numpyro.sample("place", dist.Normal(0, 2))
        width = numpyro.sample("width", dist.Gamma(2.0, 2.0))
    with numpyro.plate("N", N):
        label = numpyro.sample("label", dist.Categorical(weights))
        mean = numpyro.deterministic("mean", place[label])
        numpyro.sample("y", dist.Normal(mean, width[label]), obs=y)


def two_labels(x, k, y, batch=7):
    """Two discrete sites, one of which only some of what is observed depends on, in two plates."""
    w, gate = numpyro.sample("w", normal(3)), numpyro.sample("gate", dist.Beta(2, 2))
    with numpyro.plate("N", N, dim=-2, subsample_size=batch) as rows:
        x, k, y = x[rows], k[rows], y[rows]
        on = numpyro.sample("on", dist.Bernoulli(gate))
        part = numpyro.sample("part", dist.Categorical(jnp.array([0.3, 0.7])))
        rate = jnp.where(on == 1, jnp.exp(x @ w)[:, None], 0.1)
        numpyro.sample("k", dist.Poisson(rate), obs=k[:, None])
        with numpyro.plate("columns", 2, dim=-1):
            numpyro.sample("y", dist.Normal(w[part] + on, 1.0), obs=jnp.stack([y, -y], 1))


def of_both(position, mine, other):
    """Compare a potential, and its gradient, with others."""
    found, wanted = (
        jax.jit(jax.value_and_grad(function))(position)
        for function in (lambda p: mine.posterior.potential(p, mine.data), other)
    )
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-9)
    np.testing.assert_allclose(
        ravel_pytree(found[1])[0], ravel_pytree(wanted[1])[0], rtol=1e-9, atol=1e-9
    )


def away(model):
    random = np.random.default_rng(2)
    return jax.tree.map(lambda x: x + 0.5 * random.normal(size=x.shape), model.position)


def test_labels_are_summed_out_as_in_a_mixture():
    with jax.enable_x64(True):
        mine = ewsg.from_numpyro(labelled, Y)
        mixture, arguments = MODELS["mixture"]
        of_both(away(mine), mine, lambda p: potential_energy(mixture, arguments, {}, p))
        # A deterministic site that depends on a label is none of the position's.
        assert set(mine.constrain(mine.position)) == {"weights", "place", "width"}
    assert mine.posterior.normalised
    assert list(mine.observed) == ["y"]


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:subsample_size does not match")
def test_each_row_is_the_sum_over_its_two_labels():
    """By hand."""
    with jax.enable_x64(True):
        mine = ewsg.from_numpyro(two_labels, X, COUNTS, Y)
        at = away(mine)
        found = mine.posterior.log_likelihoods(at, jax.tree.map(lambda x: x[3:8], mine.data))
        w, gate = at["w"], jax.nn.sigmoid(at["gate"])
        terms = []
        for on in (0, 1):
            for part, weight in enumerate((0.3, 0.7)):
                rate = np.exp(X @ w) if on else np.full(N, 0.1)
                terms.append(
                    jnp.log(gate if on else 1 - gate)
                    + np.log(weight)
                    + dist.Poisson(rate).log_prob(COUNTS)
                    + dist.Normal(w[part] + on, 1.0).log_prob(np.stack([Y, -Y])).sum(0)
                )
        wanted = jax.nn.logsumexp(jnp.stack(terms), axis=0)[3:8]
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:subsample_size does not match")
@pytest.mark.parametrize(("model", "arguments"), [(labelled, (Y,)), (two_labels, (X, COUNTS, Y))])
def test_the_potential_is_that_of_funsor(model, arguments):
    pytest.importorskip("funsor", reason="NumPyro sums discrete sites out by funsor")
    from numpyro.contrib.funsor import config_enumerate, enum

    whole = handlers.substitute(handlers.seed(model, 0), {"N": jnp.arange(N)})
    enumerated = enum(config_enumerate(whole), first_available_dim=-3)
    with jax.enable_x64(True):
        mine = ewsg.from_numpyro(model, *arguments)
        arguments = jax.tree.map(jnp.asarray, arguments)
        of_both(
            away(mine),
            mine,
            lambda p: potential_energy(enumerated, arguments, {}, p, enum=True),
        )


@pytest.mark.full
def test_predictions_draw_labels():
    mine = ewsg.from_numpyro(labelled, Y)
    kernel = ewsg.sghmc(mine.posterior, 1e-2, batch_size=8, friction=1.0)
    samples = ewsg.sample(KEY, kernel, mine.position, mine.data, 50, num_chains=2, progress=False)
    assert mine.predict(KEY, samples)["y"].shape == (2, 50, N)
    assert mine.to_arviz(samples)["observed_data"]["y"].shape == (N,)
