"""PyMC models of the kinds that its users have: a dictionary of functions that make one each."""

import numpy as np
import pymc as pm
import pymc.dims as pmd
import pytensor.tensor as pt

N = 24
RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(N, 3))
Y = X @ [1.0, -0.5, 0.2] + RANDOM.normal(size=N)
BINARY = (Y > 0).astype(int)
COUNTS = RANDOM.poisson(np.exp(0.3 * X[:, 0])) * RANDOM.integers(0, 2, N)
GROUP = RANDOM.integers(0, 4, N)
LEVEL = RANDOM.integers(0, 4, N)
TABLE = RANDOM.normal(size=(N, 2))
COORDS = {
    "obs": np.arange(N),
    "feature": ["a", "b", "c"],
    "group": list("wxyz"),
    "pair": ["p", "q"],
}


def linear():
    """Arrays of NumPy, as most people write them."""
    w, sigma = pm.Normal("w", 0, 1, shape=3), pm.HalfCauchy("sigma", 1)
    mean = pm.Deterministic("mean", X @ w)
    pm.Normal("y", mean, sigma, observed=Y)


def logistic():
    """pm.Data with dims; an interval."""
    x = pm.Data("x", X, dims=("obs", "feature"))
    y = pm.Data("labels", BINARY, dims="obs")
    w = pm.Normal("w", 0, 1, dims="feature")
    intercept = pm.Uniform("intercept", -2, 3)
    pm.Bernoulli("y", logit_p=x @ w + intercept, observed=y, dims="obs")


def hierarchy():
    """Centred, with lengths in `shape`; a half-open and an ordered support."""
    mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 2)
    effect = pm.Normal("effect", mu, tau, shape=4)
    nu = pm.Gamma("nu", 2, 0.1)
    pm.StudentT("y", nu, mu=effect[GROUP] + X[:, 0], sigma=1, observed=Y, shape=N)


def not_centred():
    group = pm.Data("idx", GROUP, dims="obs")
    tau = pm.LogNormal("tau", 0, 1)
    z = pm.ZeroSumNormal("z", dims="group")
    effect = pm.Deterministic("effect", tau * z, dims="group")
    pm.Normal("y", effect[group], 1.0, observed=Y, dims="obs")


def ordinal():
    slope = pm.Normal("slope", 0, 1)
    cuts = pm.Normal(
        "cuts",
        0,
        1,
        shape=3,
        transform=pm.distributions.transforms.ordered,
        initval=np.array([-1.0, 0.0, 1.0]),
    )
    pm.OrderedLogistic("y", eta=slope * X[:, 0], cutpoints=cuts, observed=LEVEL)


def zero_inflated():
    w, gate = pm.Normal("w", shape=3), pm.Beta("gate", 1, 1)
    pm.ZeroInflatedPoisson("y", gate, pm.math.exp(pt.dot(X, w)), observed=COUNTS)


def mixture():
    weights = pm.Dirichlet("weights", np.ones(3))
    means = pm.Normal("means", 0, 3, shape=3)
    scale = pm.InverseGamma("scale", 3, 2)
    parts = [pm.Normal.dist(means[k], scale) for k in range(3)]
    pm.Mixture("y", weights, parts, observed=Y)


def horseshoe():
    tau = pm.HalfCauchy("tau", 1)
    lam = pm.HalfCauchy("lam", 1, dims="feature")
    w = pm.Normal("w", 0, tau * lam, dims="feature")
    pm.Laplace("y", pt.dot(X, w), 1.0, observed=Y)


def multivariate():
    """A Cholesky factor with LKJ, rows that are vectors."""
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    mu = pm.Normal("mu", 0, 1, shape=2)
    pm.MvNormal("y", mu, chol=chol, observed=TABLE)


def two_observed():
    """Two variables observed in each row, with a link between them."""
    w, rate = pm.Normal("w", 0, 1, shape=3), pm.Exponential("rate", 1)
    mean = X @ w
    pm.Normal("y", mean, 1, observed=Y)
    pm.NegativeBinomial("count", pm.math.exp(0.3 * mean) + 0.1, rate, observed=COUNTS)


def effects_of_rows():
    """One effect for each row."""
    scale = pm.HalfNormal("scale", 1)
    effect = pm.Normal("effect", 0, scale, dims="obs")
    positive = pm.Gamma("positive", 2, 2, shape=N)
    pm.Poisson("y", positive * pm.math.exp(effect + 0.1 * X[:, 1]), observed=COUNTS)


def censored():
    w, alpha = pm.Normal("w", 0, 1, shape=3), pm.HalfNormal("alpha", 1)
    limits = {"lower": -0.5, "upper": 0.7}
    pm.Censored("y", pm.Normal.dist(X @ w, alpha), **limits, observed=Y.clip(-0.5, 0.7))


def survival_by_potential():
    """A likelihood of one's own: an observed variable, and a potential for each row."""
    scale = pm.HalfNormal("scale", 3)
    time = np.abs(Y) + 0.1
    is_censored = LEVEL > 1
    pm.Weibull("shape_of", 1.5, scale, observed=np.array([0.5, 1.0]))
    log_survival = -pt.sqrt(time) / scale
    pm.Potential("censored", pt.switch(is_censored, log_survival, log_survival - pt.log(scale)))


def with_potential():
    """A potential for each row, with an array of its own, and one of the coefficients."""
    w = pm.Normal("w", 0, 1, shape=3)
    pm.Normal("y", X @ w, 1, observed=Y)
    pm.Potential("weighted", TABLE[:, 1] * pm.math.tanh(w[0]))
    pm.Potential("penalty", -pm.math.abs(w).sum())


def named_dims():
    """Written with `pymc.dims`, whose variables know the names of their axes."""
    x, y = pmd.Data("x", X, dims=("obs", "feature")), pmd.Data("of_y", Y, dims="obs")
    w, sigma = pmd.Normal("w", 0, 1, dims="feature"), pmd.HalfNormal("sigma", 1)
    pmd.Normal("y", (x * w).sum("feature"), sigma, observed=y, dims="obs")


def minibatch():
    x, y = pm.Minibatch(X, Y, batch_size=7)
    w, sigma = pm.Normal("w", 0, 1, shape=3), pm.HalfNormal("sigma", 1)
    pm.Normal("y", x @ w, sigma, observed=y, total_size=N)


def of_minibatch():
    """The same, of whole arrays: what it is compared with."""
    w, sigma = pm.Normal("w", 0, 1, shape=3), pm.HalfNormal("sigma", 1)
    pm.Normal("y", X @ w, sigma, observed=Y)


def total_size():
    """A part of more rows."""
    w = pm.VonMises("w", 0, 1)
    pm.Normal("y", w * X[:, 0], 1, observed=Y, total_size=100)


def network():
    hidden = pm.Normal("hidden", 0, 1, shape=(3, 5))
    out = pm.Normal("out", 0, 1, shape=(5, 4))
    logits = pm.math.tanh(pm.Data("x", X) @ hidden) @ out
    pm.Categorical("y", logit_p=logits, observed=LEVEL)


def ratings():
    """Item response: rows by two indices."""
    ability = pm.Normal("ability", shape=4)
    difficulty = pm.Normal("difficulty", dims="group")
    slope = pm.TruncatedNormal("slope", 1, 1, lower=0, dims="group")
    pm.Bernoulli("y", logit_p=slope[LEVEL] * (ability[GROUP] - difficulty[LEVEL]), observed=BINARY)


def time_series():
    """One datum."""
    rho = pm.Uniform("rho", -1, 1)
    sigma = pm.HalfNormal("sigma", 1)
    pm.AR("y", rho=rho, sigma=sigma, init_dist=pm.Normal.dist(0, 1), observed=Y)


def gaussian_process():
    """One datum."""
    length, eta = pm.InverseGamma("length", 3, 2), pm.HalfNormal("eta", 1)
    process = pm.gp.Marginal(cov_func=eta**2 * pm.gp.cov.ExpQuad(1, ls=length))
    process.marginal_likelihood("y", X=X[:, :1], y=Y, sigma=0.5)


def latent_process():
    """One value for each row, which have a joint density."""
    length = pm.LogNormal("length", 0, 0.5)
    process = pm.gp.Latent(cov_func=pm.gp.cov.Matern52(1, ls=length))
    value = process.prior("value", X=X[:, :1], jitter=1e-4)
    pm.Bernoulli("y", logit_p=value, observed=BINARY)


def process_of_a_basis():
    length = pm.LogNormal("length", 0, 0.5)
    process = pm.gp.HSGP(m=[8], c=1.5, cov_func=pm.gp.cov.Matern52(1, ls=length))
    pm.Normal("y", process.prior("value", X=X[:, :1]), 0.5, observed=Y)


def missing():
    """Missing observations, which PyMC samples: one datum."""
    w = pm.Normal("w", 0, 1, shape=3)
    pm.Normal("y", X @ w, 1, observed=np.where(LEVEL == 0, np.nan, Y))


ONE_DATUM = {"time_series", "gaussian_process", "latent_process", "missing"}
ROWS = {"survival_by_potential": "censored"}
MODELS = {
    function.__name__: function
    for function in (
        linear,
        logistic,
        hierarchy,
        not_centred,
        ordinal,
        zero_inflated,
        mixture,
        horseshoe,
        multivariate,
        two_observed,
        effects_of_rows,
        censored,
        survival_by_potential,
        with_potential,
        named_dims,
        minibatch,
        total_size,
        network,
        ratings,
        time_series,
        gaussian_process,
        latent_process,
        process_of_a_basis,
        missing,
    )
}


def model(name, write=None):
    """The model that a function of this file writes, or another one."""
    with pm.Model(coords=COORDS) as made:
        (write or globals()[name])()
    return made
