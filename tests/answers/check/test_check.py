"""How wrong draws are: targets of known moments, and Stein's identities by themselves."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

import ewsg_jax as ewsg
from ewsg_jax.answers.check import affine, basis, settings, stein
from ewsg_jax.answers.check.correction import Correction
from ewsg_jax.answers.check.draws import draws_of
from ewsg_jax.answers.check.gradients import fresh_gradients
from tests.oracles import real_posteriors

KEY = jax.random.key(0)
RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 4)) @ [
    [1.0, 0.9, 0.0, 0.0],
    [0.0, 0.4, 0.0, 0.0],
    [0.0, 0.0, 30.0, 0.0],
    [0.2, 0.0, 0.0, 0.1],
]
ROWS = {"x": X, "y": X @ [0.3, -0.5, 0.02, 1.0] + RNG.normal(size=60)}
LINEAR = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=5.0)
COVARIANCE = np.linalg.inv(X.T @ X + np.eye(4) / 25)
MEAN = COVARIANCE @ X.T @ ROWS["y"]
SD = np.sqrt(np.diag(COVARIANCE))
# Draws of no normal law, too wide and elsewhere: uniform ones, a coordinate of them squared.
ODD = (
    RNG.uniform(-2, 2, (4, 60, 4)) ** [1, 1, 2, 1] @ np.linalg.cholesky(COVARIANCE).T
    + MEAN
    + 0.5 * SD
)


@pytest.mark.parametrize("count", [60, 12], ids=["all polynomials", "by the spread"])
def test_the_moments_of_a_normal_target_are_exact_whatever_the_draws(count):
    """With all rows there is no noise, and Stein functions of a normal target span its moments."""
    report = ewsg.check(KEY, ODD[:, :count], LINEAR, ROWS)
    right = report.corrected
    np.testing.assert_allclose((right.mean - MEAN) / SD, 0, atol=2e-4)
    np.testing.assert_allclose(
        right.covariance / SD / SD[:, None], COVARIANCE / SD / SD[:, None], atol=1e-3
    )
    flat = ODD[:, :count].reshape(-1, 4)
    np.testing.assert_allclose(report.sd_ratio, flat.std(0) / SD, rtol=1e-3)
    np.testing.assert_allclose(report.mean_shift, (flat.mean(0) - MEAN) / SD, atol=1e-3)


@pytest.mark.parametrize("count", [240, 40], ids=["all polynomials", "by the spread"])
def test_one_correction_is_exact_for_a_normal_target(count):
    flat = ODD.reshape(-1, 4)[:count]
    gradients = (flat - MEAN) @ np.linalg.inv(COVARIANCE)
    found = Correction(flat, gradients, gradients, 0.0).moments
    np.testing.assert_allclose((found.mean - MEAN) / SD, 0, atol=1e-8)
    np.testing.assert_allclose(
        found.covariance / SD / SD[:, None], COVARIANCE / SD / SD[:, None], atol=1e-8
    )


@pytest.mark.full
def test_all_draws_are_moved_however_many_they_are(monkeypatch):
    """With more than 2^26 numbers only some were moved, which had another shape than all."""
    report = ewsg.check(KEY, ODD, LINEAR, ROWS)
    wanted = report.correct(ODD)
    monkeypatch.setattr(settings, "MAX_USED_NUMBERS", ODD.size // 2)
    np.testing.assert_array_equal(report.correct(ODD), wanted)


def test_expectations_of_squares_are_exact_and_draws_are_moved_to_them():
    report = ewsg.check(KEY, ODD, LINEAR, ROWS)
    found, error = report.expectation(lambda w: {"square": w[0] ** 2, "all": w})
    np.testing.assert_allclose(found["square"], COVARIANCE[0, 0] + MEAN[0] ** 2, rtol=1e-4)
    np.testing.assert_allclose(found["all"], MEAN, atol=2e-4 * SD.max())
    above, _ = report.expectation(lambda w: w[0] > MEAN[0])
    assert abs(above - 0.5) < 0.1
    assert float(error["square"]) < 1e-3 * found["square"]
    moved = report.correct(ODD).reshape(-1, 4)
    np.testing.assert_allclose((moved.mean(0) - MEAN) / SD, 0, atol=1e-3)
    np.testing.assert_allclose(
        np.cov(moved.T, ddof=0) / SD / SD[:, None], COVARIANCE / SD / SD[:, None], atol=2e-3
    )


def test_a_temperature_scales_the_target():
    hot = ewsg.check(KEY, ODD, LINEAR, ROWS, temperature=4.0)
    np.testing.assert_allclose(hot.corrected.sd, 2 * SD, rtol=1e-3)
    np.testing.assert_allclose((hot.corrected.mean - MEAN) / SD, 0, atol=1e-3)


def test_positions_that_are_trees():
    """The same numbers as for one array, in the pytree of the position."""
    posterior = ewsg.Posterior(
        lambda p, row: -0.5 * (row["y"] - row["x"][:3] @ p["w"] - row["x"][3] * p["b"]) ** 2,
        lambda p: -0.02 * (jnp.sum(p["w"] ** 2) + p["b"] ** 2),
    )
    draws = {"b": ODD[..., 3], "w": ODD[..., :3]}
    report = ewsg.check(KEY, draws, posterior, ROWS)
    np.testing.assert_allclose((report.corrected.mean["w"] - MEAN[:3]) / SD[:3], 0, atol=5e-4)
    np.testing.assert_allclose((report.corrected.sd["b"]) / SD[3], 1, atol=1e-3)
    assert report.sd_ratio["b"].shape == ()
    assert report.names == ("b", "w[0]", "w[1]", "w[2]")
    assert report.correct(draws)["w"].shape == (4, 60, 3)


def test_coordinate_by_coordinate():
    """With more parameters than draws; exact for a normal target without correlations."""
    sd = np.exp(np.linspace(-2, 2, 40))
    flat = RNG.uniform(-2, 3, (60, 40))[:32] * sd
    found = Correction(flat, flat / sd**2, flat / sd**2, 0.0).moments
    assert found.covariance is None
    np.testing.assert_allclose(found.sd / sd, 1, rtol=1e-8)
    np.testing.assert_allclose(found.mean / sd, 0, atol=1e-8)


@pytest.mark.parametrize("name", stein.STEIN_FUNCTIONS)
def test_functions_of_steins_identity(name):
    """Zero under N(0, 1), and 1 for an effect of 1; derivatives are those of the values."""
    function = stein.STEIN_FUNCTIONS[name]
    at = np.linspace(-2, 2, 9)
    derivative = (function.value(at + 1e-5) - function.value(at - 1e-5)) / 2e-5
    np.testing.assert_allclose(function.derivative(at), derivative, atol=1e-8)

    def identity(mean, scale):
        density = stats.norm(mean, scale).pdf
        inside = lambda u: (
            (u * function.value(np.array(u)) - function.derivative(np.array(u)))
            / function.size
            * density(u)
        )
        return integrate.quad(inside, -12, 12)[0]

    assert abs(identity(0.0, 1.0)) < 1e-9
    effect = identity(0.0, 1.02**0.5) / 0.02 if name == "u" else identity(1e-4, 1.0) / 1e-4
    assert effect == pytest.approx(1.0, abs=1e-3)


def test_two_batches_undo_the_attenuation_by_their_noise():
    """For a normal target one noisy gradient twice would put means a tenth of the shift off."""
    rng = np.random.default_rng(5)
    draws = 1.0 + 1.3 * rng.standard_normal((6_000, 3))
    first, second = (draws + 0.8 * rng.standard_normal(draws.shape) for _ in range(2))
    both = Correction(draws, first, second, 0.0).moments
    np.testing.assert_allclose(both.mean, 0, atol=5 * both.mean_error.max())
    # What noise hides of the rest of a fit is in the error, beside the chance of 0.02.
    assert both.mean_error.max() < 0.08
    np.testing.assert_allclose(np.sqrt(np.diag(both.covariance)), 1, atol=5 * both.sd_error.max())
    once = Correction(draws, first, first.copy(), 0.0).moments
    assert np.abs(once.mean).min() > 0.1


def test_bases_have_mean_zero_under_their_target():
    """All Stein functions of N(0, C), summed over its Gauss-Hermite points."""
    points, weights = np.polynomial.hermite_e.hermegauss(6)
    grid = np.stack(np.meshgrid(points, points, indexing="ij"), -1).reshape(-1, 2)
    mass = np.outer(weights, weights).ravel() / weights.sum() ** 2
    root = np.array([[1.3, 0.0], [-0.4, 0.7]])
    u = grid @ root.T
    h = u @ np.linalg.inv(root @ root.T)
    for functions, count in ((basis.linear, 2), (basis.quadratic, 5)):
        np.testing.assert_allclose(mass @ functions(u, h), np.zeros(count), atol=1e-9)


def test_a_map_between_covariances():
    flat = ODD.reshape(-1, 4)
    to = affine.between(flat, MEAN, COVARIANCE)
    np.testing.assert_allclose(np.cov(to(flat).T, ddof=0), COVARIANCE, atol=1e-9 * COVARIANCE.max())
    same = affine.between(flat, flat.mean(0), np.cov(flat.T, ddof=0))
    np.testing.assert_allclose(same(flat), flat, atol=1e-9 * np.abs(flat).max())


def skewed():
    """A logistic regression of few rows, and its moments by importance sampling."""
    rng = np.random.default_rng(6)
    x = np.column_stack([rng.standard_normal((60, 2)), np.ones(60)])
    y = (rng.random(60) < 1 / (1 + np.exp(-x @ [2.0, -1.0, 2.0]))).astype(float)
    return {"x": x, "y": y}, real_posteriors.logistic(x, y, 100_000, 10.0)


@pytest.mark.full
def test_a_hot_run_of_a_skewed_posterior():
    """Sds half as wide again, means 0.3 sd off: found, and put right to the stated percents."""
    data, known = skewed()
    model = ewsg.models.logistic_regression()
    mode = ewsg.find_mode(KEY, model, jnp.zeros(3), data)
    kernel = ewsg.kernel(
        ewsg.dynamics.splitting(0.4, friction=1.5, inverse_mass=mode.inverse_mass),
        ewsg.gradients.uniform(model, batch_size=8),
    )
    options = {
        "num_chains": 8,
        "burn_in": 200,
        "thin": 7,
        "moments": ewsg.moments(),
    }
    run = ewsg.sample(KEY, kernel, mode.start, data, 3_000, **options)
    raw = run.position.std((0, 1)) / known.sd
    assert raw.min() > 1.2
    report = ewsg.check(KEY, run, model, data, mode=mode)
    assert report.outcome == "wrong"
    assert "too wide by" in report.verdict
    assert "Halve the step" in report.verdict
    right = report.corrected
    # Errors of the truth are below 0.01 sd.
    assert np.abs((right.mean - known.mean) / known.sd).max() < 0.012
    assert np.abs(right.sd / known.sd - 1).max() < 0.015
    np.testing.assert_allclose(report.sd_ratio, raw, rtol=0.015)
    assert np.all(
        np.abs(right.mean - known.mean) < 4 * np.hypot(right.mean_error, 0.005 * known.sd)
    )
    assert np.all(np.abs(right.sd - known.sd) < 4 * np.hypot(right.sd_error, 0.005 * known.sd))
    assert not draws_of(run, None, 100).shared
    assert draws_of(dataclasses.replace(run, shared_minibatch=True), None, 100).shared
    moved = report.correct(run)
    assert moved.num_draws == run.num_draws
    assert moved.state is run.state
    assert moved.moments is None, "they are those of the draws that were not right"
    np.testing.assert_allclose(moved.position.std((0, 1)), right.sd, rtol=2e-3)


@pytest.mark.full
def test_batches_of_many_rows():
    """Fresh batches, by leverage, of a run that is right: what all rows say, and no alarm."""
    rng = np.random.default_rng(7)
    x = np.column_stack([rng.standard_normal((6_000, 2)), np.ones(6_000)])
    data = {"x": x, "y": (rng.random(6_000) < 0.5).astype(float)}
    model = ewsg.models.logistic_regression()
    mode = ewsg.find_mode(KEY, model, jnp.zeros(3), data)
    draws = jax.vmap(jax.vmap(lambda key: mode.start(key, 1.0)))(
        jax.random.split(jax.random.key(1), (4, 250))
    )
    fresh = fresh_gradients(KEY, model, draws_of(draws, None, 1000), data, 100, None, 1.0)
    apart = (fresh.first - fresh.second) * np.asarray(mode.sd)
    assert 0.01 < apart.std() < 1.0
    assert abs(apart.mean()) < 5 * apart.std() / 3000**0.5
    report = ewsg.check(KEY, draws, model, data, batch_size=100)
    assert report.data_passes == pytest.approx(1 + 1000 * 100 / 6000)
    assert report.outcome == "right"
    np.testing.assert_allclose(report.corrected.sd / mode.sd, 1, atol=0.03)
    np.testing.assert_allclose((report.corrected.mean - mode.position) / mode.sd, 0, atol=0.03)


def test_a_report_is_a_table_with_the_largest_bias_first(tmp_path):
    report = ewsg.check(
        KEY, ODD * [1, 1, 1, 3], LINEAR, ROWS, names=["one", "two", "three", "four"]
    )
    lines = str(report).splitlines()
    assert lines[0] == f"Check: {report.verdict}"
    assert lines[5].startswith("four")
    assert report.plot(tmp_path / "check.png") is not None
    assert (tmp_path / "check.png").stat().st_size > 1000


@pytest.mark.full
def test_half_precision_and_few_draws():
    """Errors are reported in float32; without draws for a covariance coordinate by coordinate."""
    report = ewsg.check(
        KEY,
        jnp.asarray(ODD[:, :, :2], jnp.bfloat16),
        ewsg.models.gaussian_location(),
        ODD[0, :, :2],
    )
    assert report.sd_ratio.dtype == jnp.float32
    few = ewsg.check(KEY, ODD[:1, :10], LINEAR, ROWS)
    assert few.moments.covariance is None


def test_lost_chains_are_left_out():
    draws = np.concatenate([ODD, np.full((1, *ODD.shape[1:]), np.nan)])
    report, whole = ewsg.check(KEY, draws, LINEAR, ROWS), ewsg.check(KEY, ODD, LINEAR, ROWS)
    assert (report.num_chains, report.num_lost) == (5, 1)
    assert "; chain 4 is not finite, before its first draw: left out. " in report.verdict
    assert "5 chains (1 diverged, left out) of" in str(report)
    np.testing.assert_array_equal(report.corrected.mean, whole.corrected.mean)


def run_of(draws, diverged_at, first_step=101):
    """A run with these draws, of which chains diverged."""
    kernel, rows = ewsg.ld(ewsg.models.gaussian_location(), 1e-3), jnp.zeros((4, draws.shape[2]))
    start = jnp.zeros(draws.shape[2])
    made = ewsg.sample(KEY, kernel, start, rows, 1, num_chains=len(draws))
    return dataclasses.replace(
        made,
        draws=draws,
        diverged_at=np.array(diverged_at),
        step=first_step + np.arange(draws.shape[1]),
    )


def of_target(num_chains, num_draws):
    normal = np.random.default_rng(8).standard_normal((num_chains, num_draws, 4))
    return normal @ np.linalg.cholesky(COVARIANCE).T + MEAN


def test_what_is_off_is_that_of_all_draws():
    """The first half is too wide, every 25th draw is used: the ratio is that of all draws."""
    draws = of_target(4, 2_500)
    draws[:, :1_250] += 0.3 * (draws[:, :1_250] - MEAN)
    report = ewsg.check(KEY, draws, LINEAR, ROWS, max_draws=400)
    assert report.num_used == 400
    assert report.num_unseen == 9_600
    flat = draws.reshape(-1, 4)
    np.testing.assert_allclose(report.sd_ratio, flat.std(0) / SD, rtol=1e-3)
    np.testing.assert_allclose(report.mean_shift, (flat.mean(0) - MEAN) / SD, atol=2e-3)


@pytest.mark.full
def test_more_draws_are_looked_at_while_nothing_can_be_told(monkeypatch):
    """Batches of two rows are so noisy that a hundred draws decide nothing."""
    monkeypatch.setattr(settings, "DRAWS_TO_USE", (128, 1_024, 8_000))
    draws = of_target(8, 1_000)

    def ask(**options):
        return ewsg.check(KEY, draws, LINEAR, ROWS, batch_size=4, rows="random", **options)

    few = ask(max_draws=128)
    assert few.outcome == "unsure"
    assert "max_draws=" in few.verdict
    found = ask()
    assert found.outcome == "right"
    assert found.num_used > 128
    assert found.data_passes > found.num_used * 4 / 60
    monkeypatch.setattr(settings, "MAX_FUNCTIONS_BYTES", 16 * 1_024 * 14)
    assert ask().num_used == 128
    # One that is wrong at first sight is not looked at again.
    monkeypatch.setattr(settings, "MAX_FUNCTIONS_BYTES", 2**30)
    draws *= 3.0
    assert ask().num_used == 128


def test_a_chain_that_is_not_finite_where_nobody_looks_is_left_out():
    draws = of_target(4, 500)
    draws[2, 3] = np.nan
    report = ewsg.check(KEY, draws, LINEAR, ROWS, max_draws=80)
    assert report.num_lost == 1
    assert np.isfinite(report.sd_ratio).all()


@pytest.mark.full
def test_as_many_draws_as_are_asked_for_decide():
    """Nearly independent draws of the target, too few, and as many more as the verdict says."""
    few = ewsg.check(KEY, run_of(of_target(4, 50), [-1] * 4), LINEAR, ROWS)
    assert few.outcome == "unsure"
    assert few.num_steps == 49
    times = float(re.search(r"Run some ([\d.]+) times as long", few.verdict)[1])
    assert 1.5 < times < 20, few.verdict
    more = ewsg.check(KEY, of_target(4, int(50 * times)), LINEAR, ROWS)
    assert more.outcome == "right", more.verdict
