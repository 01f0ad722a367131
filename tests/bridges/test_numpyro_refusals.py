"""What a NumPyro model cannot be: one sentence that names the site, the plate or the argument."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import ewsg_jax as ewsg
from tests.bridges.numpyro_models import (
    BINARY,
    GROUP,
    N,
    X,
    Y,
    gaussian_process,
    hierarchy,
    linear,
    logistic,
    normal,
    series,
)


def two_plates(x, y, z):
    w = numpyro.sample("w", normal(3))
    with numpyro.plate("A", len(x)):
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)
    with numpyro.plate("B", len(z)):
        numpyro.sample("z", dist.Normal(w[0], 1.0), obs=z)


def of_length(x, y, n):
    w = numpyro.sample("w", normal(3))
    with numpyro.plate("N", n):
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)


def discrete(y):
    with numpyro.plate("N", len(y)):
        part = numpyro.sample("part", dist.Bernoulli(0.5))
        numpyro.sample("y", dist.Normal(part, 1.0), obs=y)


def shared(y):
    part = numpyro.sample("part", dist.Bernoulli(0.5))
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(mean + part, 1.0), obs=y)


def counted(y):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("N", len(y)):
        part = numpyro.sample("part", dist.Poisson(1.0))
        numpyro.sample("y", dist.Normal(mean + part, 1.0), obs=y)


def improper(y):
    mean = numpyro.sample("mean", dist.ImproperUniform(dist.constraints.real, (), ()))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(mean, 1.0), obs=y)


def centred(x, y):
    w = numpyro.sample("w", normal(3))
    with numpyro.plate("N", len(x)):
        numpyro.sample("y", dist.Normal((x - x.mean(0)) @ w, 1.0), obs=y)


def normalised(x, y):
    w = numpyro.sample("w", normal(3))
    numpyro.factor("table", -jax.scipy.special.logsumexp(x @ w))
    with numpyro.plate("N", len(x)):
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)


def imputed(x, y, z):
    w = numpyro.sample("w", normal(3))
    with numpyro.plate("N", len(x)):
        filled = numpyro.sample("z", dist.Normal(0, 1), obs=z, obs_mask=z > 0)
        numpyro.sample("y", dist.Normal(x @ w + filled, 1.0), obs=y)


def broken(y):
    raise RuntimeError("the disk is full\nand more")


def observed_alone(y):
    numpyro.sample("y", dist.Normal(0, 1), obs=y)


def impossible(y):
    numpyro.sample("scale", dist.HalfNormal(1.0))
    numpyro.factor("never", jnp.full(len(y), -jnp.inf))


HOLES = np.where(np.arange(N) == 5, np.nan, Y)
REFUSED = {
    "nothing observed": (logistic, (X,), {}, ["observe something", "'w', 'y'"]),
    "two plates": (two_plates, (X, Y, Y[:9]), {}, ["not clear", "'A' (24), 'B' (9)", "9 or 24"]),
    "another length": (of_length, (X, Y, 30), {}, ["x: 24, y: 24", "'N' (30)"]),
    "discrete sites alone": (discrete, (Y,), {}, ["a site to sample"]),
    "a discrete site": (
        shared,
        (Y,),
        {},
        ["'part' (BernoulliProbs)", "not one of each row", "Mix"],
    ),
    "a count": (counted, (Y,), {}, ["'part' (Poisson)", "cannot be listed", "MixtureSameFamily"]),
    "one datum": (counted, (Y,), {"rows": "all"}, ["discrete site 'part'"]),
    "an improper site": (improper, (Y,), {}, ["improper site 'mean'", "dist.Normal(0, 100)"]),
    "a scan": (series, (Y,), {}, ["independent", "'y'", "rows='all'"]),
    "a Gaussian process": (gaussian_process, (X[:, 0], Y), {}, ["'y' has", "()", "rows='all'"]),
    "centred data": (centred, (X, Y), {}, ["independent", "'y'", "rows='all'"]),
    "a sum over the table": (normalised, (X, Y), {}, ["'table' stands outside", "rows='all'"]),
    "NaN": (linear, (X, HOLES), {}, ["'y' observes NaN at [5] (1 of 24)"]),
    "a missing covariate": (imputed, (X, Y, X[:, 1]), {}, ["'z_unobserved'", "obs_mask"]),
    "an error": (broken, (Y,), {}, ["it failed: RuntimeError: the disk is full"]),
    "nothing to sample": (observed_alone, (Y,), {}, ["a site to sample", "'y'"]),
    "no start": (impossible, (Y,), {}, ["finite density"]),
    "no such plate": (logistic, (X, BINARY), {"rows": "M"}, ["'N' (24)", "got 'M'"]),
    "a plate of none": (hierarchy, (X, GROUP, Y), {"rows": "groups"}, ["'groups'", "'y'"]),
}


@pytest.mark.usual_parameters(
    "nothing *",
    "two plates",
    "another length",
    "a discrete site",
    "an improper site",
    "NaN",
    "a scan",
)
@pytest.mark.parametrize("what", REFUSED)
def test_a_model_is_refused_in_one_sentence(what):
    model, arguments, options, texts = REFUSED[what]
    with pytest.raises(ValueError, match=r"model must|rows must") as caught:
        ewsg.from_numpyro(model, *arguments, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 500
    for text in texts:
        assert text in message


@pytest.mark.full
def test_two_plates_are_taken_if_one_is_named():
    model = ewsg.from_numpyro(two_plates, X, Y, Y[:9], rows="A")
    assert sorted(model.data) == ["x", "y"]
    # The rows of the other plate are a part of the prior.
    at = model.position
    wanted = (
        dist.Normal(0, 1).log_prob(at["w"]).sum()
        + dist.Normal(at["w"][0], 1.0).log_prob(Y[:9]).sum()
    )
    np.testing.assert_allclose(model.posterior.log_prior(at), wanted, rtol=1e-5)


def read_while_it_runs(group, y):
    with numpyro.plate("groups", len(np.unique(group))):
        effect = numpyro.sample("effect", dist.Normal(0, 1))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", dist.Normal(effect[group], 1.0), obs=y)


def holding():
    w = numpyro.sample("w", normal(3))
    with numpyro.plate("N", N):
        numpyro.sample("y", dist.Normal(X @ w, 1.0), obs=Y)


@pytest.mark.full
@pytest.mark.parametrize(
    ("model", "arguments", "reason"),
    [(read_while_it_runs, (GROUP, Y), "numpy.unique"), (holding, (), "as arguments")],
)
def test_a_model_that_needs_all_rows_evaluates_them_for_each_batch(model, arguments, reason):
    with pytest.warns(RuntimeWarning, match=f"all 24 rows for each batch.*{reason}"):
        bridged = ewsg.from_numpyro(model, *arguments)
    rows = bridged.posterior.log_likelihoods(bridged.position, bridged.data)
    assert rows.shape == (N,)
    some = jax.tree.map(lambda x: x[jnp.array([7, 3])], bridged.data)
    np.testing.assert_array_equal(
        bridged.posterior.log_likelihoods(bridged.position, some), rows[jnp.array([7, 3])]
    )


def missing(x, y, seen):
    w = numpyro.sample("w", normal(3))
    with numpyro.plate("N", len(x)):
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y, obs_mask=seen)


@pytest.mark.full
def test_missing_observations_are_integrated_out():
    seen = np.arange(N) % 3 > 0
    model = ewsg.from_numpyro(missing, X, np.where(seen, Y, 0.0), seen)
    assert list(model.position) == ["w"]
    wanted = np.where(seen, dist.Normal(X @ np.asarray(model.position["w"]), 1.0).log_prob(Y), 0.0)
    found = model.posterior.log_likelihoods(model.position, model.data)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
