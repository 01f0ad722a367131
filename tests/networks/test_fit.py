"""`networks.fit` against closed forms: a linear network, whose posterior predictive is normal."""

import dataclasses
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import ewsg_jax as ewsg
from ewsg_jax.base import rng
from ewsg_jax.networks import _chains, _cores, _curvature, _train
from ewsg_jax.networks._result import FitReport
from ewsg_jax.run import layout, plan

RNG = np.random.default_rng(0)
NOISE = 0.3
X = RNG.normal(size=(60, 3)).astype(np.float32)
Y = (X @ np.array([1.0, -0.5, 0.2]) + NOISE * RNG.normal(size=60)).astype(np.float32)
NEW = RNG.normal(size=(7, 3)).astype(np.float32)
PARAMS = RNG.normal(size=3).astype(np.float32)
DATA = {"x": X, "y": Y}
LIKELIHOOD = ewsg.networks.normal(scale=NOISE)


def linear(params, x):
    return x @ params


def predictive():
    """Means, sds of the mean and sds of new observations, in float64."""
    x, y = X.astype(np.float64), Y.astype(np.float64)
    covariance = np.linalg.inv(x.T @ x / NOISE**2 + np.eye(3))
    mean = NEW @ (covariance @ x.T @ y) / NOISE**2
    mean_sd = np.sqrt(np.einsum("ij,jk,ik->i", NEW, covariance, NEW))
    return mean, mean_sd, np.sqrt(mean_sd**2 + NOISE**2)


@pytest.fixture(scope="module")
def fit():
    return ewsg.networks.fit(
        jax.random.key(0),
        linear,
        PARAMS,
        DATA,
        likelihood=LIKELIHOOD,
        seconds=600.0,
        standardise=False,
    )


def test_the_posterior_predictive_is_that_of_linear_regression(fit):
    mean, mean_sd, sd = predictive()
    found = fit.predict(NEW)
    np.testing.assert_allclose(found.mean, mean, atol=0.15 * mean_sd.max())
    np.testing.assert_allclose(found.mean_sd, mean_sd, rtol=0.15)
    np.testing.assert_allclose(found.sd, sd, rtol=0.02)
    assert found.probabilities is None
    low, high = fit.interval(NEW, 0.9)
    reach = scipy.stats.norm.ppf(0.95) * sd
    np.testing.assert_allclose(low, mean - reach, atol=0.1 * sd.max())
    np.testing.assert_allclose(high, mean + reach, atol=0.1 * sd.max())


@pytest.mark.full
def test_a_cold_posterior_is_narrower():
    """exp(−V/T) of a quadratic V has the same mean and √T times the sds."""
    cold = ewsg.networks.fit(
        jax.random.key(1),
        linear,
        PARAMS,
        DATA,
        likelihood=LIKELIHOOD,
        temperature=0.25,
        seconds=600.0,
        standardise=False,
    )
    mean, mean_sd, _ = predictive()
    found = cold.predict(NEW)
    np.testing.assert_allclose(found.mean, mean, atol=0.1 * mean_sd.max())
    np.testing.assert_allclose(found.mean_sd, mean_sd / 2, rtol=0.15)
    assert cold.report.doubts == [], cold.report
    assert "θ·∇V/d, 0.25 under exp(−V/0.25)" in str(cold.report)


def test_the_report_of_a_settled_run_has_no_doubts(fit):
    assert fit.report.doubts == [], fit.report
    assert fit.report.stopped == "R-hat"
    assert fit.report.rhat < 1.01
    assert abs(fit.report.temperature - 1) < 5 * fit.report.temperature_error
    text = str(fit.report)
    for part in ("microcanonical", "R-hat of predictions", "θ·∇V/d", "not known"):
        assert part in text


def test_rhat_of_the_report_is_that_of_diagnostics(fit):
    chosen = np.unique(np.linspace(0, 59, 50).astype(int))
    curves = np.einsum("cdk,nk->cdn", fit.samples.draws.astype(np.float64), X[chosen])
    worst = max(float(_chains.rhat(curves[..., k : k + 1]).max()) for k in range(50))
    assert abs(worst - fit.report.rhat) < 1e-4


def test_the_log_score_is_that_of_the_mixture(fit):
    """By NumPy in float64, from the draws."""
    y = RNG.normal(size=7)
    means = fit.samples.draws.reshape(-1, 3).astype(np.float64) @ NEW.T
    densities = scipy.stats.norm(means, NOISE).logpdf(y)
    each = scipy.special.logsumexp(densities, axis=0) - np.log(len(means))
    np.testing.assert_allclose(fit.log_scores(NEW, y), each, rtol=1e-4)
    assert abs(fit.log_score(NEW, y) - each.mean()) < 1e-4 * abs(each.mean())


def test_quantiles_are_those_of_the_mixture(fit):
    means = fit.samples.draws.reshape(-1, 3).astype(np.float64) @ NEW.T
    low, median = fit.quantiles(NEW, [0.1, 0.5])
    for column, (a, b) in zip(means.T, zip(low, median, strict=True), strict=True):
        distribution = scipy.stats.norm(column, NOISE)
        # 4,000 draws of new observations and more.
        assert abs(distribution.cdf(a).mean() - 0.1) < 5 * 0.005
        assert abs(distribution.cdf(b).mean() - 0.5) < 5 * 0.008


def test_inputs_are_checked_against_those_of_the_data(fit):
    with pytest.raises(ValueError, match=r"x must be like data\['x'\].*got"):
        fit.predict(NEW[:, :2])
    with pytest.raises(ValueError, match=r"y must have an observation for each of 7 rows"):
        fit.log_score(NEW, np.zeros(3))
    with pytest.raises(ValueError, match=r"probability must be"):
        fit.interval(NEW, 1.5)


@pytest.mark.full
def test_the_largest_curvature_is_that_of_the_hessian():
    model = ewsg.networks.posterior(linear, PARAMS, DATA, likelihood=LIKELIHOOD, prior=2.0)
    positions = jnp.stack([jnp.asarray(PARAMS), jnp.zeros(3)])
    data = jax.tree.map(jnp.asarray, DATA)
    found = _curvature.largest_curvature(jax.random.key(0), model, positions, data, 60)
    hessian = 4.0 * (X.T.astype(np.float64) @ X / NOISE**2 + np.eye(3) / 4)
    np.testing.assert_allclose(found, np.linalg.eigvalsh(hessian)[-1], rtol=0.01)


def test_members_start_with_the_numbers_of_a_leaf_in_another_order():
    params = {"w": np.arange(6.0).reshape(2, 3), "b": np.zeros(4)}
    first, second = _train.starts(jax.random.key(0), params, 2)
    assert first is params
    assert sorted(np.ravel(second["w"])) == list(range(6))
    assert second["w"].shape == (2, 3)
    assert not np.array_equal(second["w"], params["w"])
    assert (second["b"] == 0).all()


@pytest.mark.full
def test_groups_of_chains_in_threads_are_one_run():
    model = ewsg.networks.posterior(linear, PARAMS, DATA, likelihood=LIKELIHOOD)
    kernel = ewsg.sghmc(model.posterior, 0.01, friction=1.0, batch_size=10)
    data, key = jax.tree.map(jnp.asarray, DATA), jax.random.key(2)
    start = jnp.broadcast_to(model.position, (4, 3))
    state = jax.vmap(kernel.init, (0, 0, None))(jax.random.split(key, 4), start, data)
    options = {"groups": 2, "thin": 5, "all_steps": 20}
    requests = _cores.requests_of_groups(key, kernel, state, data, 20, **options)
    one, two = (_cores.sample_groups(requests, in_threads=threads) for threads in (False, True))
    whole = ewsg.sample(key, kernel, None, data, 20, state=state, thin=5, progress=False)
    assert (one.draws == two.draws).all()
    assert one.draws.shape == (4, 4, 3)
    np.testing.assert_allclose(one.draws, whole.draws, rtol=1e-5, atol=1e-6)
    assert one.num_chains == 4
    assert one.gradient_evaluations == whole.gradient_evaluations


def test_rounds_are_compiled_for_the_run_of_which_they_are(monkeypatch):
    layouts, choose = [], plan.choose_layout

    def chosen(*arguments, **options):
        layouts.append(choose(*arguments, **options))
        return layouts[-1]

    monkeypatch.setattr(plan, "choose_layout", chosen)
    monkeypatch.setattr(layout, "SMALL_STEP_NUMBERS", 0)
    model = ewsg.networks.posterior(linear, PARAMS, DATA, likelihood=LIKELIHOOD)
    kernel = ewsg.sghmc(model.posterior, 0.01, friction=1.0, batch_size=10)
    data, keys = jax.tree.map(jnp.asarray, DATA), jax.random.split(jax.random.key(2), 2)
    state = jax.vmap(kernel.init, (0, None, None))(keys, model.position, data)
    for all_steps in (0, layout.SHORT_RUN_NUMBERS):
        options = {"groups": 1, "thin": 5, "all_steps": all_steps}
        requests = _cores.requests_of_groups(keys[0], kernel, state, data, 20, **options)
        _cores.sample_groups(requests, in_threads=False)
    assert [one[0].small for one in layouts] == [True, False]


def test_what_a_report_doubts():
    report = FitReport(
        dynamics="microcanonical(step_size=0.1)",
        batch_size=10,
        num_members=4,
        epochs=0,
        trained_log_score=np.nan,
        num_steps=100,
        burn_in=50,
        num_draws=40,
        rhat=2.5,
        temperature=0.45,
        temperature_error=0.02,
        halved_change=0.3,
        halved_error=0.01,
        seconds={"train": 1.0},
        stopped="seconds",
    )
    (gone,) = dataclasses.replace(
        report, rhat=1.0, temperature=1.0, halved_change=0.0, num_diverged=2
    ).doubts
    assert gone == "2 of 4 chains diverged: the draws are those of the others"
    # Errors of the two chains that are left say little.
    assert dataclasses.replace(report, rhat=1.0, num_diverged=2).doubts == [gone]
    disagree, unsettled, biased = report.doubts
    assert "R-hat of predictions is 2.50" in disagree
    assert "θ·∇V/d is 0.45" in unsettled
    assert "half the step" in biased
    assert "4 networks: given" in str(report)
    cold = dataclasses.replace(
        report, rhat=1.0, halved_change=0.0, temperature=0.15, sampled_temperature=0.1
    )
    assert not cold.doubts  # Within three errors.
    (unsettled,) = dataclasses.replace(cold, temperature_error=0.001).doubts
    assert "θ·∇V/d is 0.15 and not 0.1" in unsettled
    # V/d is in units of the temperature: this change is 0.2 of its mean d T/2.
    (biased,) = dataclasses.replace(cold, halved_change=0.01, halved_error=0.001).doubts
    assert "half the step changes V/d by +0.010" in biased
    assert not dataclasses.replace(cold, halved_change=0.001, halved_error=0.0).doubts
    # Of a network with a key nothing is measured.
    nothing = {"temperature": np.nan, "temperature_error": np.nan, "halved_change": np.nan}
    keyed = dataclasses.replace(cold, **nothing)
    (unknown,) = keyed.doubts
    assert "θ·∇V/d is not known" in unknown
    assert "nan" not in str(keyed)


@pytest.mark.full
def test_classes_and_a_random_network():
    """Probabilities sum to one and find the classes; a network with a key runs on minibatches."""
    labels = (X[:, 0] > 0).astype(np.int32)

    def apply(params, x, key):
        kept = jax.random.bernoulli(key, 0.9, x.shape)
        return jnp.where(kept, x, 0) @ params["w"] + params["b"]

    def init(key):
        return {"w": jax.random.normal(key, (3, 2)), "b": jnp.zeros(2)}

    data = {"x": X, "y": labels}
    fit = ewsg.networks.fit(
        jax.random.key(0), apply, init, data, likelihood="categorical", seconds=5.0, num_members=4
    )
    assert "sghmc" in str(fit.report)
    assert np.isnan(fit.report.temperature)
    assert "under the posterior: not measured" in str(fit.report)
    found = fit.predict(X)
    np.testing.assert_allclose(found.probabilities.sum(1), 1, atol=1e-5)
    assert (found.probabilities.argmax(1) == labels).mean() > 0.9
    with pytest.raises(ValueError, match="has classes"):
        fit.interval(X)


@pytest.mark.full
def test_trained_leaves_are_trained_once_and_shared():
    """Only the last layer is sampled, from one trained network; the rest is carried."""

    def apply(params, x):
        return jnp.tanh(x @ params["body"]) @ params["head"]

    params = {"body": RNG.normal(size=(3, 4)).astype(np.float32), "head": np.ones(4, np.float32)}
    fit = ewsg.networks.fit(
        jax.random.key(0),
        apply,
        params,
        DATA,
        likelihood=LIKELIHOOD,
        sampled="head",
        seconds=5.0,
        num_members=4,
    )
    assert fit.samples.draws["body"] is None
    assert fit.samples.draws["head"].shape[2:] == (4,)
    at = fit.model.params(jax.tree.map(lambda x: x[0, 0], fit.samples.draws))
    assert not np.array_equal(at["body"], params["body"])
    assert np.sqrt(np.mean((fit.predict(X).mean - Y) ** 2)) < 1.5 * NOISE


@pytest.mark.full
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("RESOURCE_EXHAUSTED: memory")])
def test_what_ends_a_fit_early_keeps_what_it_has(monkeypatch, error):
    """By an error after two rounds, and by an interrupt while draws are measured at the end."""
    options = {"likelihood": LIKELIHOOD, "trained": [PARAMS, PARAMS + 0.1], "seconds": 2.0}
    if isinstance(error, KeyboardInterrupt):
        monkeypatch.setattr(_chains.Chains, "worth", _interrupted(lambda self: None, after=0))
        fit = ewsg.networks.fit(jax.random.key(0), linear, PARAMS, DATA, **options)
        assert fit.report.stopped == "an interrupt"
        assert np.isnan(fit.report.temperature)
    else:
        ended = _interrupted(_chains.sample_groups, after=2, error=error)
        monkeypatch.setattr(_chains, "sample_groups", ended)
        with pytest.warns(RuntimeWarning, match="ended at round 3 by an error: Runtime"):
            fit = ewsg.networks.fit(jax.random.key(0), linear, PARAMS, DATA, **options)
        assert fit.report.stopped == "an error"
    assert fit.report.num_draws > 0
    assert np.isfinite(fit.predict(NEW).mean).all()


@pytest.mark.full
def test_an_interrupt_keeps_the_rounds_so_far(monkeypatch):
    """The third round is interrupted; two are there."""
    monkeypatch.setattr(_chains, "sample_groups", _interrupted(_chains.sample_groups, after=2))
    few = ewsg.networks.fit(
        jax.random.key(0),
        linear,
        PARAMS,
        DATA,
        likelihood=LIKELIHOOD,
        trained=[PARAMS, PARAMS + 0.1],
        seconds=60.0,
    )
    assert few.report.stopped == "an interrupt"
    assert few.report.epochs == 0
    assert np.isfinite(few.predict(NEW).mean).all()
    monkeypatch.undo()
    monkeypatch.setattr(_chains, "sample_groups", _interrupted(_chains.sample_groups, after=0))
    members = [PARAMS, PARAMS + 0.1]
    none = ewsg.networks.fit(
        jax.random.key(0), linear, PARAMS, DATA, likelihood=LIKELIHOOD, trained=members
    )
    np.testing.assert_array_equal(none.samples.finite_draws, np.stack(members)[:, None])
    assert none.report.doubts == [
        "chains made no step: the draws are the trained networks, an ensemble"
    ]
    assert "an interrupt" in str(none.report)
    np.testing.assert_allclose(none.predict(NEW).mean, NEW @ (PARAMS + 0.05), rtol=1e-4)


def test_an_interrupt_of_training_keeps_the_networks_so_far(monkeypatch):
    """The third round of training is interrupted; without a first one there is nothing to keep."""
    monkeypatch.setattr(jax, "block_until_ready", _interrupted(jax.block_until_ready, after=2))
    key, options = jax.random.key(0), {"likelihood": LIKELIHOOD, "num_members": 2, "seconds": 60.0}
    fit = ewsg.networks.fit(key, linear, PARAMS, DATA, **options)
    assert fit.report.stopped == "an interrupt"
    assert fit.report.epochs == 2 * 50  # A step has all rows that are not held out.
    assert (fit.report.num_steps, fit.report.num_draws) == (0, 2)
    np.testing.assert_array_equal(fit.samples.finite_draws, np.asarray(fit.members)[:, None])
    monkeypatch.undo()
    monkeypatch.setattr(jax, "block_until_ready", _interrupted(jax.block_until_ready, after=0))
    with pytest.raises(KeyboardInterrupt):
        ewsg.networks.fit(key, linear, PARAMS, DATA, **options)


@pytest.mark.full
def test_a_scale_is_trained_with_leaves_that_are_shared():
    """The learned standard deviation starts where training left it, not where it began."""

    def apply(params, x):
        return x @ params["body"] * params["head"]

    params = {"body": PARAMS, "head": np.float32(1.0)}
    model = ewsg.networks.posterior(apply, params, DATA, likelihood="normal", sampled="head")
    rows = jax.tree.map(jnp.asarray, DATA)
    _, starts, record = _train.trained_starts(jax.random.key(0), model, [params] * 2, rows, 60.0)
    np.testing.assert_array_equal(starts.raw_sd, record.members.raw_sd.repeat(2))
    sd = np.log1p(np.exp(float(starts.raw_sd[0])))
    assert abs(sd - NOISE) < 0.3 * NOISE < abs(np.log(2) - NOISE)


def test_trained_networks_share_what_is_not_sampled():
    def apply(params, x):
        return x @ params["body"] * params["head"]

    trained = [{"body": PARAMS + k, "head": np.float32(1.0)} for k in range(2)]
    with pytest.raises(ValueError, match=r"trained\[1\] and trained\[0\] differ in 'body'"):
        ewsg.networks.fit(
            jax.random.key(0),
            apply,
            trained[0],
            DATA,
            likelihood=LIKELIHOOD,
            trained=trained,
            sampled="head",
        )


def test_chains_that_diverged_do_not_count():
    """They repeat a position, by which R-hat would never fall, and are named in the report."""
    model = ewsg.networks.posterior(linear, PARAMS, DATA, likelihood=LIKELIHOOD)
    options = {"deadline": time.perf_counter() + 60, "least_seconds": 5.0, "temperature": 1.0}
    chains = _chains.Chains(jax.random.key(0), model, DATA, 3, **options)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-4), ewsg.gradients.full(model.posterior))
    samples = ewsg.sample(jax.random.key(1), kernel, model.position, DATA, 40, num_chains=3)
    far = samples.draws.copy()
    far[2] = 1e3
    diverged = np.array([-1, -1, 5])
    for diverged_at, draws in ((samples.diverged_at, far), (diverged, far)):
        one = dataclasses.replace(samples, diverged_at=diverged_at, draws=draws)
        chains.rounds, chains._predictions = [], []
        chains._add(one)
        is_counted = (diverged_at < 0).all()
        assert (chains.burn_in()[1] > 3) is bool(is_counted)


def test_many_rows_are_trained_on_in_parts_of_an_epoch(monkeypatch):
    """A thousand steps of 128 rows in a round; 10,000 rows, and no tenth, are held out."""
    n, key, members = 266_000, jax.random.key(3), jnp.stack([PARAMS, -PARAMS])
    x = RNG.normal(size=(n, 3)).astype(np.float32)
    y = x @ PARAMS + NOISE * RNG.normal(size=n)
    data = {"x": x, "y": y.astype(np.float32)}
    model = ewsg.networks.posterior(linear, PARAMS, data, likelihood=LIKELIHOOD)
    monkeypatch.setattr(jax, "block_until_ready", _interrupted(jax.block_until_ready, after=3))
    record = _train.train(key, model, members, jax.tree.map(jnp.asarray, data), 600.0)
    assert record.epochs == round(3 * 1_000 * 128 / (n - 10_000)) == 2
    held = rng.host_generator(jax.random.split(key)[0]).permutation(n)[:10_000]
    rows = jax.tree.map(lambda leaf: leaf[held], data)
    scores = [model.log_density(one, rows).mean() for one in record.members]
    np.testing.assert_allclose(record.log_score, scores, rtol=1e-4)


def test_draws_are_measured_in_a_part_of_the_run():
    """A fiftieth of its time for the gradients of draws, and none if one takes a tenth."""
    model = ewsg.networks.posterior(linear, PARAMS, DATA, likelihood=LIKELIHOOD)
    options = {"deadline": time.perf_counter() + 60, "least_seconds": 5.0, "temperature": 1.0}
    chains = _chains.Chains(jax.random.key(0), model, DATA, 3, **options)
    kernel = ewsg.kernel(ewsg.dynamics.langevin(1e-4), ewsg.gradients.full(model.posterior))
    samples = ewsg.sample(jax.random.key(1), kernel, model.position, DATA, 20, num_chains=3)
    chains._add(dataclasses.replace(samples, run_seconds=100.0))
    chains.stopped = "an interrupt"
    calls = []
    measure = chains._virials
    chains.__dict__["_virials"] = lambda *rows: calls.append(1) or measure(*rows)
    for seconds, num_measured in ((0.01, 20), (0.6, 3), (9.0, 1), (10.1, 0)):
        calls.clear()
        chains._gradient_seconds = seconds
        assert np.isnan(chains.worth().temperature[0]) == (num_measured == 0)
        assert len(calls) == num_measured


@pytest.mark.parametrize("is_late", [False, True])
def test_full_gradients_need_time_for_a_thousand_steps(is_late):
    """With a core for each group of chains; what is left is five seconds at least."""
    model = ewsg.networks.posterior(linear, PARAMS, DATA, likelihood=LIKELIHOOD)
    chains = _chains.Chains(
        jax.random.key(0),
        model,
        DATA,
        4,
        deadline=time.perf_counter() + (-60 if is_late else 60),
        least_seconds=5.0,
        temperature=1.0,
    )
    chains._groups = 2
    left = 5 if is_late else 60
    for share, has_time in ((0.9, True), (1.1, False)):
        chains._gradient_seconds = share * 2 * left / 1_000
        assert chains._has_time_for_all_rows is has_time


def test_a_mean_over_rows_is_told_of_at_trained_weights():
    def mean(output, row):
        return -0.5 * ((output - row["y"]) / NOISE) ** 2 / len(Y)

    good = np.linalg.lstsq(X, Y, rcond=None)[0].astype(np.float32)
    with pytest.warns(UserWarning, match="is it divided by n, here 0.02"):
        ewsg.networks.fit(
            jax.random.key(0),
            linear,
            -3 * PARAMS,
            DATA,
            likelihood=mean,
            trained=[good, good + 0.01],
            seconds=2.0,
        )


def _interrupted(function, after, error=KeyboardInterrupt):
    calls = []

    def wrapped(*arguments, **options):
        calls.append(1)
        if len(calls) > after:
            raise error
        return function(*arguments, **options)

    return wrapped
