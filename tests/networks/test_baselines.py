"""Deep ensembles, SWAG and Laplace: moments by NumPy, exact posteriors, the map of their draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.flatten_util import ravel_pytree
from jax.scipy.special import gammaln

# pyright: reportArgumentType=false
import ewsg_jax as ewsg
from ewsg_jax import networks
from ewsg_jax.base.factors import factor_of

RNG = np.random.default_rng(4)
DEVIATIONS = RNG.normal(size=(40, 5))
KEY = jax.random.key(0)


def dense(covariance):
    """A covariance as a matrix, from what is kept of it."""
    diagonal, basis, values = (np.asarray(x, float) for x in covariance)
    middle = np.eye(len(diagonal)) + (basis * (values - 1)) @ basis.T
    return np.sqrt(diagonal)[:, None] * middle * np.sqrt(diagonal)


def test_members_are_draws_and_predictions_their_averages():
    members = [{"w": np.float32(k), "b": np.arange(2.0, dtype=np.float32) + k} for k in range(3)]
    draws = networks.ensemble(members)
    stacked = networks.ensemble(jax.tree.map(lambda *x: jnp.stack(x), *members), stacked=True)
    for one in (draws, stacked):
        assert (one.num_chains, one.num_draws) == (3, 1)
        np.testing.assert_array_equal(one.position["w"], np.arange(3.0)[:, None])
    function, x = lambda p, x: p["w"] * x + p["b"][1], jnp.array([1.0, 2.0])
    np.testing.assert_allclose(draws.predict(function, x), [3.0, 4.0])
    each = draws.predict(function, x, keep_draws=True)
    np.testing.assert_allclose(each, [[[1 + 2 * k, 1 + 3 * k]] for k in range(3)])
    logs = draws.predict(lambda p, x: -p["w"] * x, x, log=True)
    np.testing.assert_allclose(logs, np.log(np.mean(np.exp(-np.outer(range(3), x)), 0)), rtol=1e-6)
    np.testing.assert_allclose(draws.sd["w"], np.std(range(3)))


def by_numpy(path, rank):
    """Mean and covariance of SWAG, typed: columns are deviations from the mean so far."""
    columns = [path[t] - path[: t + 1].mean(0) for t in range(1, len(path))][-rank:]
    low = sum(np.outer(c, c) for c in columns) / (2 * (len(columns) - 1))
    return path.mean(0), np.diag((path**2).mean(0) - path.mean(0) ** 2) / 2 + low


@pytest.mark.parametrize(("count", "rank"), [(12, 4), (12, 11), (4, 20), (40, 20)])
def test_swag_has_the_mean_and_covariance_of_a_path(x64, count, rank):
    path = np.cumsum(DEVIATIONS[:count], axis=0) * [1.0, 0.1, 10.0, 1.0, 1.0]
    tree = {"a": path[:, :4].reshape(count, 2, 2), "b": path[:, 4]}
    (part,) = networks.swag(tree, rank=rank).parts
    mean, covariance = by_numpy(path, rank)
    np.testing.assert_allclose(ravel_pytree(part.center)[0], mean, rtol=1e-12)
    np.testing.assert_allclose(dense(part.covariance), covariance, rtol=1e-10, atol=1e-12)
    # A draw is the mean plus a linear map of normals, found on the unit vectors.
    factor, layout = factor_of(part.covariance, "covariance"), ravel_pytree(part.center)[1]
    rows = [ravel_pytree(factor.times(layout(unit)))[0] for unit in jnp.eye(5)]
    np.testing.assert_allclose(
        np.array(rows).T @ np.array(rows), covariance, rtol=1e-10, atol=1e-12
    )


def test_swag_without_deviations_is_diagonal_and_what_never_moved_stays(x64):
    path = {"a": DEVIATIONS[:30, :3], "still": np.full((30, 2), 7.0)}
    fitted = networks.swag(path, rank=0)
    np.testing.assert_allclose(fitted.sd["a"][0], path["a"].std(0), rtol=1e-12)
    drawn = networks.swag(path).draws(KEY, 50).position
    np.testing.assert_allclose(drawn["still"], 7.0, rtol=1e-12)
    assert drawn["a"].shape == (1, 50, 3)
    assert drawn["a"].std() > 0.3


def test_swag_of_a_run_has_a_part_for_each_chain():
    data = jnp.asarray(DEVIATIONS[:20, :2], jnp.float32)
    kernel = ewsg.sgld(ewsg.models.gaussian_location(), 1e-3, batch_size=2)
    options = {"num_chains": 3, "thin": 10, "progress": False}
    samples = ewsg.sample(KEY, kernel, jnp.zeros(2), data, 300, **options)
    fitted = networks.swag(samples)
    np.testing.assert_allclose(fitted.mean, samples.position.mean(1), rtol=1e-5)
    draws = fitted.draws(KEY, 2_000)
    assert (draws.num_chains, draws.num_draws) == (3, 2_000)
    np.testing.assert_allclose(draws.position.std(1), fitted.sd, rtol=0.12)
    kept = samples.predict(lambda p, x: p @ x, jnp.ones(2))
    assert abs(draws.predict(lambda p, x: p @ x, jnp.ones(2)) - kept) < 0.05


INPUTS = RNG.normal(size=(30, 4)) * [1.0, 0.1, 3.0, 1.0]
LINEAR = {"x": INPUTS, "y": RNG.normal(size=30)}
NOISE, PRIOR = 0.7, 1.5
EXACT = np.linalg.inv(INPUTS.T @ INPUTS / NOISE**2 + np.eye(4) / PRIOR**2)


@pytest.mark.parametrize("as_network", [False, True])
def test_laplace_of_a_linear_model_is_its_posterior(as_network):
    """A built-in model, and a network without a hidden layer, also in float32."""
    position = EXACT @ INPUTS.T @ LINEAR["y"] / NOISE**2
    target = ewsg.models.linear_regression(noise_scale=NOISE, prior_scale=PRIOR)
    start = jnp.asarray(position, jnp.float32)
    if as_network:
        made = networks.posterior(
            lambda w, x: x @ w, start, LINEAR, likelihood=networks.normal(NOISE), prior=PRIOR
        )
        target, start = made.posterior, made.position
    for structure, rank, expected in (
        ("dense", 1, EXACT),
        ("low_rank", 4, EXACT),
        ("diagonal", 1, np.diag(1 / np.diag(np.linalg.inv(EXACT)))),
    ):
        fitted = networks.laplace(target, start, LINEAR, structure=structure, rank=rank)
        (part,) = fitted.parts
        np.testing.assert_allclose(dense(part.covariance), expected, rtol=2e-4, atol=2e-6)
        np.testing.assert_allclose(fitted.sd[0], np.sqrt(expected.diagonal()), rtol=2e-4)
        np.testing.assert_allclose(part.center, position, rtol=1e-6)
        assert fitted.notes == ()


def test_a_mode_has_draws_of_its_normal_approximation():
    target = ewsg.models.linear_regression(noise_scale=NOISE, prior_scale=PRIOR)
    mode = ewsg.find_mode(KEY, target, jnp.zeros(4), LINEAR, progress=False)
    draws = mode.draws(KEY, 20_000)
    assert (draws.num_chains, draws.num_draws) == (1, 20_000)
    np.testing.assert_allclose(
        draws.mean, mode.position, atol=0.05 * np.sqrt(EXACT.diagonal().max())
    )
    # Five standard errors of a variance, 5 √(2/20,000).
    np.testing.assert_allclose(draws.sd**2, EXACT.diagonal(), rtol=0.05)


def residuals(w):
    """Half the sum of squares over the noise's variance."""
    found = jax.vmap(lambda x: hidden(w, x))(INPUTS) - LINEAR["y"]
    return 0.5 * jnp.sum(found**2) / NOISE**2


def two_layers():
    """A network of 15 numbers that is not at a mode, and its posterior."""
    weights = jnp.asarray(np.random.default_rng(5).normal(size=15))
    likelihood = networks.normal(NOISE)
    return networks.posterior(
        hidden, weights, LINEAR, likelihood=likelihood, prior=PRIOR
    ).posterior, weights


def hidden(weights, x):
    first, last = weights[:12].reshape(3, 4), weights[12:]
    return jnp.tanh(x @ first.T) @ last


@pytest.mark.full
def test_a_low_rank_is_of_the_exact_hessian_without_its_negative_part(x64):
    target, weights = two_layers()
    values, vectors = np.linalg.eigh(PRIOR**2 * np.asarray(jax.hessian(residuals)(weights)))
    assert values[0] < -1  # not at a mode
    for structure, rank in (("low_rank", 3), ("low_rank", 15), ("dense", 1)):
        kept = np.zeros(15)
        count = 15 if structure == "dense" else rank
        kept[-count:] = np.maximum(values[-count:], 0)
        expected = PRIOR**2 * (vectors / (1 + kept)) @ vectors.T
        fitted = networks.laplace(target, weights, LINEAR, structure=structure, rank=rank)
        np.testing.assert_allclose(
            dense(fitted.parts[0].covariance), expected, rtol=1e-7, atol=1e-9
        )
        negative = f"along {np.sum(values < 0)} directions"
        assert negative in " ".join(fitted.notes)
        if rank == 3:
            assert f"up to {np.sqrt(1 + values[-4]):.3g} times too wide" in fitted.notes[0]
    draws = fitted.draws(KEY, 20)
    predicted = draws.predict(lambda w, x: jax.vmap(hidden, (None, 0))(w, x), INPUTS)
    assert predicted.shape == (30,)


@pytest.mark.full
def test_a_network_of_many_weights_has_products_in_the_place_of_a_matrix(monkeypatch, x64):
    """The same network, as if it had more than a thousand numbers."""
    arguments = *two_layers(), LINEAR
    options = ({"structure": "diagonal"}, {"rank": 8})
    matrices = [networks.laplace(*arguments, **o).parts[0].covariance for o in options]
    monkeypatch.setattr("ewsg_jax.base.limits.MAX_DENSE_DIMENSION", 10)
    products = [networks.laplace(*arguments, **o).parts[0].covariance for o in options]
    np.testing.assert_allclose(dense(products[0]), dense(matrices[0]), rtol=1e-10)
    np.testing.assert_allclose(dense(products[1]), dense(matrices[1]), rtol=1e-6, atol=1e-8)
    with pytest.raises(ValueError, match=r"^structure must be 'low_rank' or 'diagonal' above 10"):
        networks.laplace(*arguments, structure="dense")


@pytest.mark.full
def test_the_last_layer_alone():
    """A classifier whose first layer is fixed: draws, and the exact Hessian of the last."""
    labels = (LINEAR["y"] > 0).astype(np.int32)
    params = {"first": DEVIATIONS[:4, :3], "last": DEVIATIONS[4:7, :2]}
    params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), params)
    data = {"x": INPUTS.astype(np.float32), "y": labels}

    def apply(p, x):
        return jnp.tanh(x @ p["first"]) @ p["last"]

    made = networks.posterior(apply, params, data, likelihood="categorical", sampled="last")
    fitted = networks.laplace(made.posterior, made.position, data, structure="dense")

    def potential(last):
        logits = jnp.tanh(data["x"] @ params["first"]) @ last.reshape(3, 2)
        return 0.5 * jnp.sum(last**2) - jnp.sum(jax.nn.log_softmax(logits)[jnp.arange(30), labels])

    hessian = np.asarray(jax.hessian(potential)(params["last"].ravel()), float)
    expected = np.linalg.inv(hessian)
    np.testing.assert_allclose(dense(fitted.parts[0].covariance), expected, rtol=1e-3, atol=1e-4)
    probabilities = fitted.draws(KEY, 100).predict(
        lambda p, x: made.predict(p, x).probabilities, data["x"]
    )
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("structure", ["dense", "low_rank"])
def test_laplace_holds_curvatures_that_no_matrix_of_float32_does(structure):
    """Of 4e8 along one column and 1 along another, in a turned basis: Cholesky in float32 fails."""
    draw = np.random.default_rng(0)
    turn = np.linalg.qr(draw.normal(size=(4, 4)))[0]
    x = draw.normal(size=(200, 4)) * np.geomspace(1e-3, 1e3, 4) @ turn
    rows = {"x": x.astype(np.float32), "y": np.zeros(200, np.float32)}
    model = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=1.0)
    fitted = networks.laplace(model, jnp.zeros(4), rows, structure=structure)
    precision = rows["x"].T.astype(float) @ rows["x"] + np.eye(4)
    np.testing.assert_allclose(fitted.sd[0], np.diag(np.linalg.inv(precision)) ** 0.5, rtol=1e-3)
    drawn = np.asarray(fitted.draws(KEY, 500).position[0], float)
    # 500 draws: four errors of a variance are 25 %.
    whitened = np.cov((drawn @ np.linalg.cholesky(precision)).T)
    assert 0.7 < np.linalg.eigvalsh(whitened)[0] < np.linalg.eigvalsh(whitened)[-1] < 1.4


def linear_network():
    """A network without a hidden layer at its mode, in float32."""
    position = jnp.asarray(EXACT @ INPUTS.T @ LINEAR["y"] / NOISE**2, jnp.float32)
    options = {"likelihood": networks.normal(NOISE), "prior": PRIOR}
    return networks.posterior(lambda w, x: x @ w, position, model_data(), **options)


def test_baselines_and_runs_have_the_predictions_of_a_fit():
    """Moments, intervals and scores, typed from the same draws; of Laplace the exact ones."""
    model = linear_network()
    fitted = networks.laplace(model.posterior, model.position, LINEAR, structure="dense")
    kernel = ewsg.uld(model.posterior, 0.05, friction=3.0)
    run = {"num_chains": 2, "thin": 5, "burn_in": 100, "progress": False}
    x, y = INPUTS[:6].astype(np.float32), LINEAR["y"][:6].astype(np.float32)
    for draws in (
        networks.ensemble(list(fitted.draws(KEY, 5).position[0])),
        networks.swag(DEVIATIONS[:, :4].astype(np.float32)).draws(KEY, 50),
        ewsg.sample(KEY, kernel, model.position, model_data(), 400, **run),
        fitted.draws(KEY, 4_000),
    ):
        found = networks.predictions(model, draws)
        f = np.asarray(draws.position, float).reshape(-1, 4) @ x.T
        seen = found.predict(x)
        np.testing.assert_allclose(seen.mean, f.mean(0), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(seen.mean_sd, f.std(0), rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(seen.sd, np.sqrt(NOISE**2 + f.var(0)), rtol=1e-4)
        densities = np.exp(-0.5 * ((y - f) / NOISE) ** 2) / NOISE / np.sqrt(2 * np.pi)
        score = np.log(densities.mean(0)).mean()
        assert found.log_score(x, y) == pytest.approx(score, rel=1e-4)
    low, high = found.interval(x, 0.9)
    width = 2 * 1.645 * np.sqrt(NOISE**2 + np.einsum("ij,jk,ik->i", x, EXACT, x))
    np.testing.assert_allclose(high - low, width, rtol=0.1)


def test_a_log_score_reads_what_the_likelihood_reads_of_a_row():
    """Counts with an exposure, by SciPy."""
    rng = np.random.default_rng(0)
    exposure = rng.uniform(1.0, 9.0, 6).astype(np.float32)
    x, counts = INPUTS[:6].astype(np.float32), rng.poisson(exposure)

    def density(output, row):
        log_rate = output + jnp.log(row["exposure"])
        return row["y"] * log_rate - jnp.exp(log_rate) - gammaln(row["y"] + 1.0)

    model = networks.posterior(
        lambda params, x: x @ params,
        jnp.ones(4),
        {"x": x, "y": counts, "exposure": exposure},
        likelihood=networks.Likelihood(density, mean=jnp.exp),
        check_data=False,
    )
    members = [np.full(4, 0.1, np.float32), np.full(4, -0.2, np.float32)]
    found = networks.predictions(model, networks.ensemble(members))
    rates = np.exp(np.stack([x @ member for member in members]))
    expected = np.log(scipy.stats.poisson(rates * exposure).pmf(counts).mean(0))
    scores = found.log_scores(x, counts, exposure=exposure)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)
    np.testing.assert_allclose(found.predict(x).mean, rates.mean(0), rtol=1e-5)


def test_inputs_and_observations_of_files_are_taken():
    """In the other byte order, and observations in a list."""
    model = linear_network()
    x, y = INPUTS[:3].astype(np.float32), LINEAR["y"][:3].astype(np.float32)
    row = jax.ShapeDtypeStruct((4,), jnp.float32)
    for known in (None, row):
        draws = networks.ensemble([model.position, model.position + 0.1])
        predicted = networks.NetworkPredictions(model, draws, known)
        other = x.astype(x.dtype.newbyteorder())
        np.testing.assert_array_equal(predicted.predict(other).mean, predicted.predict(x).mean)
        np.testing.assert_array_equal(
            predicted.log_scores(other, list(y)), predicted.log_scores(x, y)
        )


def test_predictions_without_a_chain_that_stayed_finite_are_nan():
    """As those of samples are."""
    model = linear_network()
    kernel = ewsg.uld(model.posterior, 1e4, friction=1e-4)
    with pytest.warns(RuntimeWarning, match="diverge"):
        run = ewsg.sample(KEY, kernel, model.position, model_data(), 500, progress=False)
    predicted = networks.predictions(model, run)
    x = INPUTS[:3].astype(np.float32)
    seen = predicted.predict(x)
    assert np.isnan([seen.mean, seen.mean_sd, seen.sd]).all()
    assert np.isnan(predicted.log_score(x, LINEAR["y"][:3]))
    with pytest.raises(ValueError, match="must have a chain that did not diverge"):
        predicted.interval(x)


def test_sds_of_means_far_from_0_do_not_round_to_nothing():
    """Observations of 10⁵ whose means are known to 0.01, in float32."""
    far = np.float32(1e5) + np.arange(-2, 3, dtype=np.float32) / 64
    data = {"x": np.ones((4, 1), np.float32), "y": np.full(4, 1e5, np.float32)}
    options = {"likelihood": networks.normal(NOISE), "prior": 1e6}
    model = networks.posterior(lambda w, x: x @ w, far[:1], data, **options)
    seen = networks.predictions(model, networks.ensemble(list(far[:, None]))).predict(data["x"])
    np.testing.assert_allclose(seen.mean_sd, far.astype(float).std(), rtol=1e-5)
    np.testing.assert_allclose(seen.mean, 1e5, rtol=1e-6)


def model_data():
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), LINEAR)


REFUSED = {
    "draws must hold positions of the model": lambda: networks.predictions(
        linear_network(), networks.ensemble([jnp.ones(3), jnp.ones(3)])
    ),
    "draws must be samples of a run, or what networks.ensemble": lambda: networks.predictions(
        linear_network(), networks.swag(jnp.asarray(DEVIATIONS[:, :4]))
    ),
    "members must be two networks at least, a list of pytrees alike; got 1,": lambda: (
        networks.ensemble([jnp.ones(2)])
    ),
    "members must be two networks at least, a list of pytrees alike; got an array": lambda: (
        networks.ensemble(jnp.ones((3, 2)))
    ),
    "members must be two networks at least, a list of pytrees alike, members ": lambda: (
        networks.ensemble([jnp.ones(2), jnp.ones(3)])
    ),
    "members must be a pytree of arrays with one leading axis of members; got": lambda: (
        networks.ensemble({"a": jnp.ones(2), "b": jnp.ones(3)}, stacked=True)
    ),
    "members must be finite": lambda: networks.ensemble([jnp.ones(2), jnp.full(2, jnp.nan)]),
    "iterates must be a pytree of arrays with one leading axis, of two": lambda: networks.swag(
        jnp.ones((1, 2))
    ),
    "rank must be 0 or at least 2": lambda: networks.swag(jnp.ones((3, 2)), rank=1),
    "iterates must hold floating-point arrays; iterates['count'] is": lambda: networks.swag(
        {"count": jnp.arange(3), "w": jnp.ones((3, 2))}
    ),
    "iterates must be finite": lambda: networks.swag(jnp.full((3, 2), jnp.inf)),
    "posterior must have a prior that is independent between numbers and bends, as a normal one "
    "does; got one without curvature in 2 of 2": lambda: networks.laplace(
        ewsg.models.gaussian_location(), jnp.zeros(2), jnp.ones((3, 2))
    ),
    "posterior must have a prior that is independent between numbers and bends, as a normal one "
    "does; got one whose numbers depend on each other": lambda: networks.laplace(
        ewsg.Posterior(lambda p, x: -jnp.sum((p - x) ** 2), lambda p: -jnp.sum(p**2) - p[0] * p[1]),
        jnp.zeros(2),
        jnp.ones((3, 2)),
    ),
    "structure must be one of 'low_rank', 'diagonal', 'dense'": lambda: networks.laplace(
        ewsg.models.gaussian_location(), jnp.zeros(2), jnp.ones((3, 2)), structure="kfac"
    ),
}


@pytest.mark.full
def test_half_precision_positions_have_float32_widths():
    path = jax.tree.map(lambda x: x.astype(jnp.bfloat16), {"w": jnp.asarray(DEVIATIONS)})
    drawn = networks.swag(path).draws(KEY, 5).position["w"]
    assert drawn.dtype == jnp.bfloat16
    data = {"x": INPUTS.astype(np.float32), "y": LINEAR["y"].astype(np.float32)}
    weights = jnp.zeros(4, jnp.bfloat16)
    likelihood = networks.normal(NOISE)
    made = networks.posterior(lambda w, x: x @ w, weights, data, likelihood=likelihood, prior=PRIOR)
    fitted = networks.laplace(made.posterior, made.position, data, rank=4)
    np.testing.assert_allclose(dense(fitted.parts[0].covariance), EXACT, rtol=0.05, atol=1e-3)


@pytest.mark.parametrize("said", REFUSED, ids=lambda said: said[:40])
def test_a_wrong_call_is_one_sentence(said):
    with pytest.raises((TypeError, ValueError)) as caught:
        REFUSED[said]()
    assert str(caught.value).startswith(said), str(caught.value)
