"""Twenty NumPyro models of the kinds that its tutorials have, each with its call."""

import equinox
import flax.nnx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro import handlers
from numpyro.contrib.control_flow import scan
from numpyro.contrib.module import random_eqx_module, random_nnx_module
from numpyro.infer.reparam import LocScaleReparam

N = 24
RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(N, 3))
Y = X @ [1.0, -0.5, 0.2] + RANDOM.normal(size=N)
BINARY = (Y > 0).astype(int)
COUNTS = RANDOM.poisson(np.exp(0.3 * X[:, 0])) * RANDOM.integers(0, 2, N)
GROUP = RANDOM.integers(0, 4, N)
LEVEL = RANDOM.integers(0, 4, N)
CENSORED = RANDOM.integers(0, 2, N).astype(bool)
TABLE = RANDOM.normal(size=(N, 2))
KEY = jax.random.key(0)


def normal(*shape, scale=1.0):
    return dist.Normal(0.0, scale).expand(shape).to_event(len(shape))


def linear(x, y=None):
    w = numpyro.sample("w", normal(3))
    sigma = numpyro.sample("sigma", dist.HalfCauchy(1.0))
    mean = numpyro.deterministic("mean", x @ w)
    numpyro.sample("y", dist.Normal(mean, sigma), obs=y)


def logistic(x, y=None):
    w = numpyro.sample("w", normal(3))
    with numpyro.plate("N", len(x)):
        numpyro.sample("y", dist.Bernoulli(logits=x @ w), obs=y)


def subsampled(x, y, batch=5):
    w = numpyro.sample("w", normal(3))
    with numpyro.plate("N", N, subsample_size=batch) as rows:
        mean = numpyro.subsample(x, event_dim=1) @ w
        numpyro.sample("y", dist.StudentT(4.0, mean, 1.0), obs=y[rows])


def hierarchy(x, group, y=None):
    mu, tau = numpyro.sample("mu", dist.Normal(0, 5)), numpyro.sample("tau", dist.HalfNormal(2))
    with numpyro.plate("groups", 4):
        effect = numpyro.sample("effect", dist.Normal(mu, tau))
    with numpyro.plate("N", len(x)):
        numpyro.sample("y", dist.Normal(effect[group] + x[:, 0], 1.0), obs=y)


def not_centred(group, y=None):
    tau = numpyro.sample("tau", dist.HalfNormal(2))
    with numpyro.plate("groups", 4):
        z = numpyro.sample("z", dist.Normal(0, 1))
    effect = numpyro.deterministic("effect", tau * z)
    with numpyro.plate("N", len(group)):
        numpyro.sample("y", dist.Normal(effect[group], 1.0), obs=y)


reparametrised = handlers.reparam(hierarchy, {"effect": LocScaleReparam(centered=None)})


def ordinal(x, y=None):
    slope = numpyro.sample("slope", dist.Normal(0, 1))
    cuts = numpyro.sample(
        "cuts",
        dist.TransformedDistribution(
            dist.Normal(0, 1).expand([3]), dist.transforms.OrderedTransform()
        ),
    )
    numpyro.sample("y", dist.OrderedLogistic(slope * x[:, 0], cuts), obs=y)


def zero_inflated(x, y=None):
    w, gate = numpyro.sample("w", normal(3)), numpyro.sample("gate", dist.Beta(1, 1))
    with numpyro.plate("N", len(x)):
        numpyro.sample("y", dist.ZeroInflatedPoisson(gate, jnp.exp(x @ w)), obs=y)


def mixture(y=None):
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))
    with numpyro.plate("parts", 3):
        place = numpyro.sample("place", dist.Normal(0, 2))
        width = numpyro.sample("width", dist.Gamma(2.0, 2.0))
    parts = dist.MixtureSameFamily(dist.Categorical(weights), dist.Normal(place, width))
    with numpyro.plate("N", len(y)):
        numpyro.sample("y", parts, obs=y)


def horseshoe(x, y=None):
    n, d = x.shape
    tau = numpyro.sample("tau", dist.HalfCauchy(1 / np.sqrt(n)))
    local = numpyro.sample("local", dist.HalfCauchy(jnp.ones(d)))
    w = numpyro.sample("w", normal(d))
    numpyro.sample("y", dist.Normal(x @ (tau * local * w), 1.0), obs=y)


def item_response(person, item, y=None):
    with numpyro.plate("persons", 4):
        ability = numpyro.sample("ability", dist.Normal(0, 1))
    with numpyro.plate("items", 4):
        difficulty = numpyro.sample("difficulty", dist.Normal(0, 1))
        slope = numpyro.sample("slope", dist.LogNormal(0, 0.5))
    with numpyro.plate("answers", len(y)):
        logits = slope[item] * (ability[person] - difficulty[item])
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=y)


def network(x, y=None):
    hidden = jnp.tanh(x @ numpyro.sample("first", normal(3, 4)))
    mean = (hidden @ numpyro.sample("second", normal(4, 1)))[:, 0]
    precision = numpyro.sample("precision", dist.Gamma(3.0, 1.0))
    with numpyro.plate("N", len(x)):
        numpyro.sample("y", dist.Normal(mean, precision**-0.5), obs=y)


def survival(x, time, censored):
    w = numpyro.sample("w", normal(3))
    rate = jnp.exp(x @ w)
    with numpyro.plate("N", len(time)):
        with handlers.mask(mask=~censored):
            numpyro.sample("time", dist.Exponential(rate), obs=time)
        numpyro.factor("beyond", jnp.where(censored, -rate * time, 0.0))


def series(y=None):
    persistence = numpyro.sample("persistence", dist.Uniform(-1, 1))

    def step(before, now):
        numpyro.sample("y", dist.Normal(persistence * before, 1.0), obs=now)
        return now, None

    scan(step, 0.0, y)


def two_sites(x, y, k):
    w, sigma = numpyro.sample("w", normal(3)), numpyro.sample("sigma", dist.InverseGamma(2.0, 1.0))
    with numpyro.plate("N", len(x)):
        numpyro.sample("y", dist.Normal(x @ w, sigma), obs=y)
        numpyro.sample("k", dist.NegativeBinomial2(jnp.exp(x @ w), 2.0), obs=k)


def nested(table):
    mean = numpyro.sample("mean", dist.Normal(0, 1).expand([2]).to_event(1))
    with numpyro.plate("N", len(table), dim=-2), numpyro.plate("columns", 2, dim=-1):
        numpyro.sample("y", dist.Laplace(mean, 1.0), obs=table)


def effects_of_rows(k, y):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    with numpyro.plate("N", len(k)):
        z = numpyro.sample("z", dist.Normal(mu, 0.5))
        numpyro.sample("y", dist.Binomial(k, logits=z), obs=y)


def covariance(table):
    corr = numpyro.sample("corr", dist.LKJCholesky(2, 1.5))
    sd = numpyro.sample("sd", dist.HalfNormal(1.0).expand([2]).to_event(1))
    numpyro.factor("more", -0.1 * jnp.sum(sd**2))
    with numpyro.plate("N", len(table)):
        scale = sd[:, None] * corr
        numpyro.sample("y", dist.MultivariateNormal(0.0, scale_tril=scale), obs=table)


def weighted(x, weights, y=None):
    w = numpyro.sample("w", dist.Normal(jnp.zeros(3), 1.0).to_event(1))
    with numpyro.plate("N", len(x)), handlers.scale(scale=weights):
        numpyro.sample("y", dist.Normal(x @ w, 1.0), obs=y)


def gaussian_process(x, y):
    length = numpyro.sample("length", dist.LogNormal(0, 1))
    distances = (x[:, None] - x) ** 2
    covariance = jnp.exp(-0.5 * distances / length**2) + jnp.eye(len(x))
    numpyro.sample("y", dist.MultivariateNormal(0.0, covariance), obs=y)


conditioned = handlers.condition(linear, {"y": Y})
NNX = flax.nnx.Linear(3, 1, rngs=flax.nnx.Rngs(0))
EQX = equinox.nn.MLP(3, 1, 4, 1, key=KEY)


def nnx(x, y=None):
    net = random_nnx_module("net", NNX, prior=lambda name, shape: dist.Normal(0, 0.5))
    with numpyro.plate("N", len(x)):
        numpyro.sample("y", dist.Normal(net(x)[:, 0], 1.0), obs=y)


def eqx(x, y=None):
    net = random_eqx_module("net", EQX, prior=dist.Normal(0, 0.5))
    with numpyro.plate("N", len(x)):
        numpyro.sample("y", dist.Normal(jax.vmap(net)(x)[:, 0], 1.0), obs=y)


MODELS = {
    "linear": (linear, (X, Y)),
    "logistic": (logistic, (X, BINARY)),
    "subsampled": (subsampled, (X, Y)),
    "hierarchy": (hierarchy, (X, GROUP, Y)),
    "not centred": (not_centred, (GROUP, Y)),
    "LocScaleReparam": (reparametrised, (X, GROUP, Y)),
    "ordinal": (ordinal, (X, LEVEL)),
    "zero-inflated": (zero_inflated, (X, COUNTS)),
    "mixture": (mixture, (Y,)),
    "horseshoe": (horseshoe, (X, Y)),
    "item response": (item_response, (GROUP, LEVEL, BINARY)),
    "network": (network, (X, Y)),
    "censored survival": (survival, (X, np.exp(Y), CENSORED)),
    "time series": (series, (Y,)),
    "two sites": (two_sites, (X, Y, COUNTS)),
    "nested plates": (nested, (TABLE,)),
    "effects of rows": (effects_of_rows, (np.full(N, 9), COUNTS)),
    "covariance": (covariance, (TABLE,)),
    "weights": (weighted, (X, np.exp(X[:, 0]), Y)),
    "Gaussian process": (gaussian_process, (X[:, 0], Y)),
    "condition": (conditioned, (X,)),
    "nnx": (nnx, (X, Y)),
    "eqx": (eqx, (X, Y)),
}
ONE_DATUM = {"time series", "Gaussian process"}
"""Models that are taken with `rows="all"`."""
