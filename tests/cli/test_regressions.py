"""Models, priors and groups of `plan` against closed forms, and scipy's densities, in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from ewsg_jax.cli.config import ConfigError, from_toml
from ewsg_jax.cli.counts import CountResidual, Counts, count_regression, overdispersion
from ewsg_jax.cli.plan_data import arguments_of, text_of
from ewsg_jax.cli.problem import prepare
from ewsg_jax.cli.weights import GROUP, WeightPrior, with_prior


def regression(folder, lines, **asked):
    path = folder / "rows.csv"
    path.write_text("\n".join(lines))
    return prepare(arguments_of({"data": str(path), **asked}))


def people(n=60):
    """Rows of columns of very different sizes, a text, groups, and responses of three kinds."""
    generator = np.random.default_rng(0)
    size, dose = generator.normal(5e6, 1e6, n), generator.normal(2e-3, 5e-4, n)
    sex, site = generator.integers(2, size=n), generator.integers(4, size=n)
    cost = 3e-6 * size - 4e3 * dose + 5 * sex + generator.normal(0, 2, n)
    count = generator.poisson(generator.gamma(2, np.exp(0.5 * sex + 1), n))
    lines = ["size,dose,sex,site,cost,count"]
    lines += [
        f"{a!r},{b!r},{'fm'[c]},s{g},{y!r},{k}"
        for a, b, c, g, y, k in zip(
            *(x.tolist() for x in (size, dose, sex, site, cost, count)), strict=True
        )
    ]
    return lines, np.column_stack([size, dose, sex]), site, cost, count


def normal_posterior(problem):
    """Mean and covariance of the weights in the file's units; the posterior is normal."""
    start = jnp.zeros(problem.start.shape)
    with jax.enable_x64(True):
        start, data = jax.tree.map(
            lambda x: jnp.asarray(np.asarray(x, float)), (start, problem.train)
        )
        hessian = np.asarray(jax.hessian(problem.posterior.potential)(start, data))
        gradient = np.asarray(problem.posterior.gradient(start, data))
    covariance = np.linalg.inv(hessian)
    origin = problem.original.of(np.zeros((1, 1, len(gradient))))[0, 0]
    to_file = problem.original.of(np.eye(len(gradient))[None])[0] - origin
    return origin - covariance @ gradient @ to_file, to_file.T @ covariance @ to_file


def test_a_linear_model_has_the_closed_form_s_posterior(tmp_path):
    """With a prior for each weight in the units of the file: sizes of 10⁶ beside 10⁻³."""
    lines, x, _, y, _ = people()
    priors = {
        "size": {"mean": 2e-6, "scale": 1e-6},
        "dose": {"mean": 0.0, "scale": 3e3},
        "sex": {"mean": 1.0, "scale": 2.0},
        "intercept": {"mean": 10.0, "scale": 4.0},
    }
    asked = {"response": "cost", "drop": ["site", "count"], "noise_scale": 2.0, "priors": priors}
    arguments, problem = regression(tmp_path, lines, model="linear", **asked)
    assert problem.names == ("size", "dose", "sex[m]", "intercept")
    centred = np.column_stack([x - x.mean(0), np.ones(len(x))])
    m, s = (np.array([p[name] for p in priors.values()]) for name in ("mean", "scale"))
    covariance = np.linalg.inv(centred.T @ centred / 4 + np.diag(s**-2.0))
    mean = covariance @ (centred.T @ y / 4 + m / s**2)
    # The intercept of the file is at 0, that of the prior at the columns' means.
    to_file = np.eye(4)
    to_file[:3, 3] = -x.mean(0)
    found_mean, found_covariance = normal_posterior(problem)
    sd = np.sqrt(np.diag(to_file.T @ covariance @ to_file))
    np.testing.assert_allclose((found_mean - mean @ to_file) / sd, 0, atol=1e-3)
    np.testing.assert_allclose(np.sqrt(np.diag(found_covariance)) / sd, 1, rtol=1e-3)
    # And what was asked for stands in a text that is read again.
    assert arguments_of(from_toml(text_of(arguments))["plan"]) == arguments


def test_a_prior_of_a_constant_column_is_refused(tmp_path):
    """Scaled it is 0, and no weight of it is that of a column in the units of the file."""
    x = np.column_stack([np.arange(6.0), np.full(6, 2.0)])
    np.savez(tmp_path / "rows.npz", x=x, y=np.arange(6.0) ** 2)
    asked = {"data": str(tmp_path / "rows.npz"), "model": "linear"}
    asked["priors"] = {"x[1]": {"scale": 1.0}}
    with pytest.raises(ConfigError, match=r"must name columns that vary; 'x\[1\]' is constant"):
        prepare(arguments_of(asked))
    _, problem = prepare(arguments_of(asked | {"standardise": False}))
    assert np.isfinite(problem.posterior.log_prior(problem.start))


@pytest.mark.parametrize("order", [1, -1])
def test_the_prior_of_one_class_is_not_that_of_all(tmp_path, order):
    """Whichever of the two was written first."""
    lines = ["x,y", *(f"{i % 7},{'abc'[i % 3]}" for i in range(30))]
    priors = {"x[b]": {"scale": 0.01}, "x": {"scale": 5.0}}
    priors = dict([*priors.items()][::order])
    asked = {"standardise": False, "intercept": False, "priors": priors}
    _, problem = regression(tmp_path, lines, model="softmax", **asked)
    log_prior = problem.posterior.log_prior
    precision = [-2 * float(log_prior(jnp.eye(3)[k : k + 1])) for k in range(3)]
    np.testing.assert_allclose(precision, [0.04, 1e4, 0.04], rtol=1e-5)


def test_one_prior_for_all_is_that_of_scaled_columns(tmp_path):
    lines, x, _, y, _ = people()
    asked = {"response": "cost", "drop": ["site", "count"], "noise_scale": 2.0, "prior_scale": 0.5}
    _, problem = regression(tmp_path, lines, model="linear", **asked)
    z = (x - x.mean(0)) / np.array([*x[:, :2].std(0), 1.0])
    z = np.column_stack([z, np.ones(len(x))])
    of_y = y.std()
    covariance = np.linalg.inv(z.T @ z * (of_y / 2) ** 2 + np.eye(4) / 0.25)
    mean = covariance @ z.T @ (y - y.mean()) / of_y * (of_y / 2) ** 2
    found_mean, found_covariance = normal_posterior(problem)
    factor = of_y / np.array([*x[:, :2].std(0), 1.0])
    np.testing.assert_allclose(found_mean[:3], mean[:3] * factor, rtol=1e-3)
    np.testing.assert_allclose(
        np.sqrt(np.diag(found_covariance))[:3], np.sqrt(np.diag(covariance))[:3] * factor, rtol=1e-3
    )


def check_potential(problem, potential, a, b):
    """The difference of the potential is that by hand, and the gradient that of the potential."""
    with jax.enable_x64(True):
        data = jax.tree.map(
            lambda v: jnp.asarray(np.asarray(v, float if v.dtype == "f" else int)), problem.train
        )
        ours = [float(problem.posterior.potential(jnp.asarray(p), data)) for p in (a, b)]
        slope = jax.grad(problem.posterior.potential)(jnp.asarray(a), data)
        by_hand = problem.posterior.gradient(jnp.asarray(a), data)
    assert ours[0] - ours[1] == pytest.approx(potential(a) - potential(b), rel=1e-5)
    np.testing.assert_allclose(slope, by_hand, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("model", ["linear", "poisson", "negative_binomial", "logistic", "softmax"])
def test_groups_have_the_density_that_is_written(tmp_path, model):
    """Differences of the potential, by scipy's densities at the rows as they stand."""
    lines, x, site, cost, count = people()
    labels = np.minimum(count, 1 if model == "logistic" else 2)
    if model in ("logistic", "softmax"):
        lines = [
            lines[0],
            *(f"{line.rpartition(',')[0]},{k}" for line, k in zip(lines[1:], labels, strict=True)),
        ]
    response, other = ("cost", "count") if model == "linear" else ("count", "cost")
    asked = {"response": response, "drop": [other], "group": "site", "prior_scale": 0.7}
    asked |= {"linear": {"noise_scale": 2.0}, "negative_binomial": {"dispersion": 0.3}}.get(
        model, {}
    )
    asked["priors"] = {"sex[m]": {"mean": 0.1, "scale": 0.2}, "sd of site": {"scale": 0.4}}
    _, problem = regression(tmp_path, lines, model=model, **asked)
    assert problem.train[GROUP].tolist() == site.tolist()
    unit = cost.std() if model == "linear" else 1.0

    def potential(position):
        weights, log_scale, effects = position[:4], position[4], position[5:]
        original = problem.original.of(position[None, None])[0, 0]
        log_mean = x @ original[:3] + original[3] + original[5:][site]
        center = np.zeros_like(weights)
        scale = np.full_like(weights, 0.7)
        center[2], scale[2] = 0.1 / unit, 0.2 / unit
        if "binomial" in model or model == "poisson":
            center[3] = np.log(count.mean())
        log_prior = stats.norm.logpdf(weights, center, scale).sum()
        log_prior += stats.norm.logpdf(effects, 0, np.exp(log_scale)).sum()
        log_prior += (stats.norm.logpdf(np.exp(log_scale), 0, 0.4 / unit) + log_scale).sum()
        if model == "linear":
            rows = stats.norm.logpdf(cost, log_mean, 2.0)
        elif model == "poisson":
            rows = stats.poisson.logpmf(count, np.exp(log_mean))
        elif model == "negative_binomial":
            r, mean = 1 / 0.3, np.exp(log_mean)
            rows = stats.nbinom.logpmf(count, r, r / (r + mean))
        elif model == "logistic":
            rows = stats.bernoulli.logpmf(labels, 1 / (1 + np.exp(-log_mean)))
        else:
            rows = log_mean[np.arange(len(labels)), labels] - np.log(np.exp(log_mean).sum(1))
        return -log_prior - rows.sum()

    shape = np.shape(problem.start)
    assert shape[0] == 4 + 1 + 4
    a, b = 0.3 * np.random.default_rng(1).normal(size=(2, *shape))
    check_potential(problem, potential, a, b)


@pytest.mark.parametrize("group", ["", "site"])
@pytest.mark.parametrize("model", ["poisson", "negative_binomial"])
def test_counts_of_an_exposure_have_its_rates(tmp_path, model, group):
    """Differences of the potential, by scipy's densities of counts of mean exposure × rate."""
    lines, x, site, _, count = people()
    days = np.random.default_rng(2).gamma(2.0, 60.0, len(count))
    rest = zip(lines[1:], days.tolist(), strict=True)
    lines = [f"{lines[0]},days", *(f"{line},{day!r}" for line, day in rest)]
    asked = {"response": "count", "drop": ["cost"], "exposure": "days", "group": group}
    if model == "negative_binomial":
        asked["dispersion"] = 0.3
    if not group:
        asked["drop"] = ["cost", "site"]
    _, problem = regression(tmp_path, lines, model=model, **asked)
    assert problem.names[:4] == ("size", "dose", "sex[m]", "intercept")
    rate = np.log(count.sum() / days.sum())
    assert float(problem.start[3]) == pytest.approx(rate, rel=1e-6)

    def potential(position):
        weights = position[:4]
        original = problem.original.of(position[None, None])[0, 0]
        log_mean = x @ original[:3] + original[3] + np.log(days)
        log_prior = stats.norm.logpdf(weights, [0, 0, 0, rate], 1.0).sum()
        if group:
            log_mean += original[5:][site]
            log_scale = position[4]
            log_prior += stats.norm.logpdf(position[5:], 0, np.exp(log_scale)).sum()
            log_prior += stats.norm.logpdf(np.exp(log_scale)) + log_scale
        if model == "poisson":
            return -log_prior - stats.poisson.logpmf(count, np.exp(log_mean)).sum()
        r, mean = 1 / 0.3, np.exp(log_mean)
        return -log_prior - stats.nbinom.logpmf(count, r, r / (r + mean)).sum()

    step = 0.3 * np.random.default_rng(1).normal(size=(2, *problem.start.shape))
    a, b = np.asarray(problem.start, float) + step
    check_potential(problem, potential, a, b)


def test_groups_have_one_density_in_both_forms():
    """With linear predictors, for groups that surely differ; and without."""
    prior = WeightPrior((0.0, 1.0), (1.0, 4.0), 3, 2.0)
    forms = [with_prior(count_regression(0.5), prior, "", is_linear) for is_linear in (True, False)]
    assert [form.predictor is None for form in forms] == [False, True]
    generator = np.random.default_rng(0)
    x, group = generator.normal(size=(7, 2)), generator.integers(3, size=7)
    rows = {"x": x.astype("f"), "y": np.arange(7, dtype="f"), GROUP: group.astype("i")}
    rows, position = jax.tree.map(jnp.asarray, (rows, generator.normal(size=6).astype("f")))
    potentials = [float(form.potential(position, rows)) for form in forms]
    assert potentials[0] == pytest.approx(potentials[1], rel=1e-5)
    np.testing.assert_allclose(*(form.gradient(position, rows) for form in forms), rtol=1e-4)


@pytest.mark.parametrize(("width", "differ"), [(0.0, False), (0.1, False), (1.0, True)])
def test_groups_that_surely_differ(tmp_path, width, differ):
    generator = np.random.default_rng(0)
    x, site = generator.normal(size=600), generator.integers(5, size=600)
    y = x + width * np.arange(5)[site] + generator.normal(size=600)
    lines = ["x,site,y", *(f"{a},{g},{b}" for a, g, b in zip(x, site, y, strict=True))]
    _, problem = regression(tmp_path, lines, model="linear", group="site")
    assert (problem.posterior.predictor is not None) == differ


@pytest.mark.parametrize("alpha", [0.0, 0.2, 3.0])
def test_counts(alpha):
    """Their gradient is that of their values, also far out, in float32."""
    eta, y = jnp.linspace(-30.0, 30.0, 61), jnp.arange(61.0) % 7
    rows = {"y": y}
    slopes = jax.vmap(jax.grad(Counts(alpha)))(eta, rows)
    np.testing.assert_allclose(CountResidual(alpha)(eta, rows), slopes, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_overdispersion_is_that_of_largest_likelihood(spread):
    """Without an offset, and with one that varies from row to row."""
    generator = np.random.default_rng(0)
    x = np.column_stack([generator.normal(size=2_000), np.ones(2_000)])
    offset = spread * generator.normal(size=2_000)
    y = generator.poisson(generator.gamma(1 / 0.4, 0.4 * np.exp(0.5 * x[:, 0] + 1 + offset)))

    def potential(p):
        r, mean = np.exp(-p[2]), np.exp(x @ p[:2] + offset)
        return -stats.nbinom.logpmf(y, r, r / (r + mean)).sum()

    best = optimize.minimize(potential, np.zeros(3), method="BFGS")
    assert overdispersion(x, y, 0.0, offset) == pytest.approx(np.exp(best.x[2]), rel=1e-3)
    # Counts that vary no more than Poisson's have none.
    assert overdispersion(x, np.tile([1.0, 2.0], 1_000), 0.0) == 0.0


def test_the_noise_of_groups_is_that_within_them(tmp_path):
    lines, x, site, y, _ = people()
    asked = {"response": "cost", "drop": ["count"], "group": "site"}
    _, problem = regression(tmp_path, lines, model="linear", **asked)
    design = np.column_stack([x / x.std(0), np.eye(4)[site]])
    left = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    noise = np.sqrt(np.sum(left**2) / (60 - 7))
    assert any(f"noise scale {noise:.4g}," in line for line in problem.description)


def test_a_flat_prior_of_one_weight():
    prior = WeightPrior((0.0, 1.0), (0.0, 4.0))
    assert float(prior(jnp.array([9.0, 1.5]))) == -0.5
    assert float(prior(jnp.array([-9.0, 1.5]))) == -0.5


def test_too_many_groups_are_refused(tmp_path):
    lines = ["x,site,y", *(f"{i % 7},s{i},{i % 2}" for i in range(1_200))]
    with pytest.raises(ValueError, match="fewer groups or levels: 1,203 weights"):
        regression(tmp_path, lines, model="logistic", group="site")
