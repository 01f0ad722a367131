"""Standard units of `networks.fit`: densities, predictions and chains in units of the data."""

import itertools
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import ewsg_jax as ewsg
from ewsg_jax.networks import _fit
from ewsg_jax.networks._likelihoods import likelihood_of
from ewsg_jax.networks._units import standardised

RNG = np.random.default_rng(0)
X = RNG.uniform(100, 500, (40, 3)) * [1.0, 1e3, 0.0] + [0.0, 0.0, 7.0]
Y = (1e5 + 1e4 * np.sin(X[:, 0] / 60)).astype(np.float32)
PARAMS = {"w": np.array([[0.3, -0.2], [0.1, 0.4], [0.2, 0.2]], np.float32)}


def apply(params, x):
    return x @ params["w"]


def model_of(x, y, likelihood, params=PARAMS, network=apply):
    rows = {"x": x, "y": y}
    network, likelihood = standardised(network, False, likelihood_of(likelihood), rows)
    return ewsg.networks.posterior(network, params, rows, likelihood=likelihood, check_data=False)


def test_densities_and_predictions_are_those_in_units_of_y(x64):
    """By SciPy, from standardised numbers: the Jacobian is in the density."""
    params = jax.tree.map(jnp.float64, PARAMS)
    model = model_of(X, Y.astype(np.float64), "normal", params)
    read = (X - X.mean(0)) / [*X.std(0)[:2], 1.0]
    output = read @ params["w"]
    mean = Y.mean(dtype=np.float64) + Y.std(dtype=np.float64) * output[:, 0]
    sd = Y.std(dtype=np.float64) * (np.logaddexp(0, output[:, 1]) + 1e-6)
    expected = scipy.stats.norm(mean, sd).logpdf(Y.astype(np.float64))
    found = model.log_density(model.position, {"x": X, "y": Y})
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    predicted: Any = model.predict(model.position, X)
    np.testing.assert_allclose(predicted.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(predicted.sd, sd, rtol=1e-12)
    drawn = jax.vmap(lambda key: model.draw(key, model.position, X[:1]))(
        jax.random.split(jax.random.key(0), 4_000)
    )
    z = (np.asarray(drawn)[:, 0] - mean[0]) / sd[0]
    assert scipy.stats.kstest(z, "norm").pvalue > 1e-6


def test_a_known_or_learned_sd_has_its_units(x64):
    """A known one is in units of y; a learned one is 1 in units of the output."""
    y = np.stack([Y, 3 * Y + 1], axis=1).astype(np.float64)
    params = jax.tree.map(jnp.float64, PARAMS)
    known = model_of(X, y, ewsg.networks.normal(scale=250.0), params)
    predicted: Any = known.predict(known.position, X)
    np.testing.assert_allclose(predicted.sd, 250.0, rtol=1e-12)
    learned = model_of(X, y, "normal", params)
    assert learned.position.raw_sd.shape == ()
    sds = np.broadcast_to(y.std(0) * (np.log(2) + 1e-6), y.shape)
    predicted = learned.predict(learned.position, X)
    np.testing.assert_allclose(predicted.sd, sds, rtol=1e-10)


def test_what_is_standardised_of_inputs():
    """Columns of a table by themselves, images as a whole, whole numbers not at all."""
    image, word = RNG.uniform(0, 9, (40, 4, 4)).astype(np.float32), np.arange(40)
    x = {"image": image, "table": X.astype(np.float32), "word": word}
    likelihood = likelihood_of("normal")
    read, _ = standardised(lambda params, x: x, False, likelihood, {"x": x, "y": Y})
    found = jax.vmap(lambda row: read(None, row))(x)
    np.testing.assert_array_equal(found["word"], word)
    np.testing.assert_allclose(found["image"].mean(), 0, atol=1e-5)
    np.testing.assert_allclose(found["image"].std(), 1, rtol=1e-5)
    assert abs(found["image"].mean(0)).max() > 0.05
    np.testing.assert_allclose(found["table"].mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(found["table"].std(0), [1, 1, 0], rtol=1e-5)
    with_key, _ = standardised(lambda params, x, key: key, True, likelihood, {"x": x, "y": Y})
    assert with_key(None, {name: leaf[0] for name, leaf in x.items()}, 3) == 3


def test_a_column_has_the_units_that_it_was_fitted_in():
    """Whole numbers of a column of floats, such as years, and floats of one of whole numbers."""
    years = RNG.uniform(1990, 2020, (40, 1)).astype(np.float32)
    x = {"year": years, "count": np.arange(40)[:, None]}
    read, _ = standardised(lambda params, x: x, False, likelihood_of("normal"), {"x": x, "y": Y})
    for year in (2001, np.float32(2001), np.int8(101)):
        read_as = read(None, {"year": jnp.array([year]), "count": jnp.array([3.5])})
        mean, sd = years.mean(dtype=float), years.std(dtype=float)
        assert read_as["year"].dtype == jnp.float32
        np.testing.assert_allclose(read_as["year"], (year - mean) / sd, rtol=1e-4)
        np.testing.assert_array_equal(read_as["count"], 3.5)


def fitted(y, monkeypatch):
    """A fit whose clock goes a tenth of a second forth at each look."""
    ticks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(ticks) / 10)
    fit = ewsg.networks.fit(
        jax.random.key(0),
        apply,
        PARAMS,
        {"x": X, "y": y},
        likelihood="normal",
        seconds=1.0,
        num_members=2,
    )
    monkeypatch.undo()
    return fit


@pytest.mark.full
def test_other_units_of_y_give_the_same_fit(monkeypatch):
    """A power of 2 changes no digit of what the network reads."""
    plain, scaled = fitted(Y, monkeypatch), fitted(4 * Y, monkeypatch)
    assert plain.report.standardised
    for name in ("mean", "sd", "mean_sd"):
        one, four = (getattr(f.predict(X), name) for f in (plain, scaled))
        np.testing.assert_allclose(four, 4 * one, rtol=1e-5)
    score = plain.log_score(X, Y) - np.log(4)
    assert scaled.log_score(X, 4 * Y) == pytest.approx(score, abs=1e-4)
    for one, four in zip(plain.interval(X), scaled.interval(X), strict=True):
        np.testing.assert_allclose(four, 4 * one, rtol=1e-5)


@pytest.mark.full
def test_rows_in_raw_units_are_covered():
    """1e5 ± 1e4 with noise of 500, inputs in the hundreds and hundred thousands."""
    rng = np.random.default_rng(1)
    x = rng.uniform(100, 500, (200, 2)) * [1.0, 1e3]
    y = 1e5 + 50 * x[:, 0] + 500 * rng.normal(size=200)

    def network(params, x):
        return jnp.tanh(x @ params["in"]) @ params["out"]

    params = {"in": rng.normal(size=(2, 4)), "out": rng.normal(size=4)}
    params = jax.tree.map(np.float32, params)
    data = {"x": x[:150], "y": y[:150]}
    fit = ewsg.networks.fit(
        jax.random.key(0), network, params, data, likelihood="normal", seconds=10.0
    )
    low, high = fit.interval(x[150:], 0.9)
    covered = (low < y[150:]) & (y[150:] < high)
    assert covered.mean() > 0.75
    assert (high - low).mean() < 6 * 500


def test_networks_that_know_their_units_are_not_standardised(monkeypatch):
    """Trained before, with leaves that stay, or with statistics of batches."""

    def called(*arguments):
        raise ArithmeticError

    def broken(params, x):
        raise FloatingPointError("stop here")

    monkeypatch.setattr(_fit, "standardised", called)
    data, more = {"x": X, "y": Y}, PARAMS | {"other": np.ones(1, np.float32)}
    known: list[tuple[Any, dict[str, Any]]] = [
        (PARAMS, {"trained": [PARAMS, PARAMS]}),
        (more, {"fixed": "other"}),
        ({"params": PARAMS, "batch_stats": PARAMS}, {}),
        (PARAMS, {"standardise": False}),
    ]
    for params, options in known:
        with pytest.raises(ValueError, match="stop here"):
            ewsg.networks.fit(
                jax.random.key(0), broken, params, data, likelihood="normal", **options
            )
    unknown: list[dict[str, Any]] = [{}, {"trained": [PARAMS, PARAMS], "standardise": True}]
    for options in unknown:
        with pytest.raises(ArithmeticError):
            ewsg.networks.fit(
                jax.random.key(0), apply, PARAMS, data, likelihood="normal", **options
            )
