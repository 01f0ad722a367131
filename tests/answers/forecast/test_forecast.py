"""Forecasts against exact laws: docs/bias.json's, by listing every batch, and formulas."""

import gc
import json
import weakref
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks.pages import bias
from ewsg_jax.answers.forecast import batch_noise, settings, stationary, target
from ewsg_jax.answers.forecast.batch_noise import noise_of
from ewsg_jax.answers.forecast.dynamics_step import AffineStep, QuadraticWeight

KEY = jax.random.key(0)
EXACT = json.loads((Path(__file__).parents[3] / "docs" / "bias.json").read_text())
RNG = np.random.default_rng(5)
X = RNG.normal(size=(40, 3)) * [1.0, 30.0, 0.1] + [0.0, 20.0, 0.0]
ROWS = {"x": X, "y": X @ [0.3, 0.02, -1.0] + RNG.normal(size=40)}
LINEAR = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=5.0)


def a_mode(model, start, data):
    return ewsg.find_mode(KEY, model, start, data, tolerance=1e-6)


def stored(key, h):
    """What the exact law of a case is, and what is told of it."""
    entry = EXACT[key]
    model = bias.MODELS[entry["model"]]()
    case = bias.case_of(model, entry["method"], entry["integrator"], entry["b"], entry["reset"])
    kernel = case.build(h)
    mode = a_mode(kernel.estimator.posterior, case.start, case.data)
    return entry["laws"][str(h)], ewsg.forecast(kernel, mode, case.data)


def worst(told):
    """The excess of the direction that is furthest off."""
    return max(told.direction_ratios, key=lambda ratio: abs(ratio - 1)) - 1


# A step that is affine for every batch has the law that is told: to the rounding of points in
# float32, and where batches are drawn and not listed to the few percent that some thousand pairs
# leave.
@pytest.mark.usual_parameters(
    "*2-D, ld*",
    "*uld, splitting*",
    "*uld, exact*",
    "*sghmc, euler*",
    "*semi_implicit, b=2-0.25-0.001",
    "*cv_ld*",
    "*svrg_ld*",
    "*saga_ld*",
    "location, ewsg,*",
    "location, sgnht*",
)
@pytest.mark.parametrize(
    ("key", "h", "tolerance"),
    [
        ("regression in 2-D, ld", 0.125, 1e-6),
        ("regression in 2-D, uld, splitting", 0.25, 1e-6),
        ("regression in 2-D, uld, exact", 0.25, 1e-6),
        ("regression in 2-D, sgld, b=1", 0.125, 1e-3),
        ("regression in 2-D, sghmc, semi_implicit, b=2", 0.25, 1e-3),
        ("regression in 2-D, sghmc, euler, b=1", 0.125, 1e-3),
        ("regression in 2-D, sghmc, splitting, b=1", 0.25, 1e-3),
        ("regression in 2-D, cp_sghmc, semi_implicit, b=2", 0.25, 0.06),
        # Noise and law are settled to a percent of the variance.
        ("regression in 2-D, cv_ld, b=1", 0.25, 5e-3),
        ("regression in 2-D, cv_uld, b=2", 0.25, 5e-3),
        # Anchors in the middle of their period, and rows whose anchors are unlike: six rows are
        # few.
        ("regression in 2-D, svrg_ld, b=1", 0.25, 0.05),
        ("regression in 2-D, svrg_hmc, b=2", 0.25, 0.05),
        ("regression in 2-D, saga_ld, b=2", 0.25, 0.05),
        ("regression in 2-D, saga_hmc, b=1", 0.25, 0.12),
        # Exponential weights, whose law is no normal one.
        ("location, ewsg, semi_implicit, b=1", 0.03125, 0.02),
        ("regression, ewsg, semi_implicit, b=2", 0.125, 0.04),
        ("regression, ewsg, exact, b=1", 0.125, 0.1),
        ("regression, ewsg_ld, b=1", 0.125, 0.04),
        ("regression, ewsg_vr, semi_implicit, b=1, K=1", 0.125, 0.04),
        ("location, nc_sghmc, euler, b=1, K=1", 0.25, 1e-3),
        # A thermostat that fluctuates, and a metric that changes over the width of the posterior.
        ("location, sgnht, b=1", 0.125, 0.05),
        ("location, sgrld, b=2", 0.03125, 0.06),
    ],
)
def test_the_exact_law(x64, key, h, tolerance):
    exact, told = stored(key, h)
    np.testing.assert_allclose(worst(told), exact["variance"], rtol=tolerance)
    if "ewsg" in key:
        np.testing.assert_allclose(
            told.mean_shift, exact["mean"], atol=0.05 * abs(exact["mean"]) + 2e-3
        )
    if "sgnht" not in key and "sgrld" not in key:
        np.testing.assert_allclose(
            told.passes(1.0) - told.passes_at_start, exact["passes"], rtol=0.02
        )
    assert told.is_settled


@pytest.mark.full
@pytest.mark.parametrize("form", ["dense", "diagonal"])
def test_with_a_mass_the_coordinates_do_not_matter(x64, form):
    mode = a_mode(LINEAR, jnp.zeros(3), ROWS)
    mass = mode.inverse_mass if form == "dense" else jnp.asarray(mode.sd) ** 2
    told = ewsg.forecast(ewsg.sgld(LINEAR, 0.1, batch_size=10, inverse_mass=mass), mode, ROWS)
    # The same in coordinates in which the mass is 1.
    factor = ewsg.bijectors.affine(mode.position, mode.covariance if form == "dense" else mass)
    moved = LINEAR.transformed(factor)
    there = a_mode(moved, jnp.zeros(3), ROWS)
    other = ewsg.forecast(ewsg.sgld(moved, 0.1, batch_size=10), there, ROWS)
    np.testing.assert_allclose(told.direction_ratios, other.direction_ratios, rtol=0.02)
    np.testing.assert_allclose(told.largest_step, other.largest_step, rtol=1e-4)
    if form == "dense":
        np.testing.assert_allclose(told.largest_step, 2.0, rtol=1e-4)
        np.testing.assert_allclose(told.autocorrelation_time, 2 / 0.1 - 1, rtol=1e-4)


@pytest.mark.parametrize(
    ("dynamics", "largest"),
    [
        (lambda h: ewsg.dynamics.langevin(h), 2 / 4),
        (lambda h: ewsg.dynamics.semi_implicit(h, friction=1.0), (-1 + (1 + 4 * 4) ** 0.5) / 4),
        (lambda h: ewsg.dynamics.euler(h, friction=1.0), 1 / 4),
    ],
)
def test_the_largest_step(dynamics, largest):
    # Curvature 4: hλ < 2; h²λ < 4 − 2γh; hλ < γ.
    model = ewsg.models.gaussian_location(noise_scale=(4 / (4 - 1e-8)) ** 0.5, prior_scale=1e4)
    data = jnp.array([[0.0], [1.0], [2.0], [3.0]])
    mode = a_mode(model, jnp.zeros(1), data)
    kernel = ewsg.kernel(dynamics(0.9 * largest), ewsg.gradients.full(model))
    told = ewsg.forecast(kernel, mode, data)
    np.testing.assert_allclose(told.largest_step, largest, rtol=1e-4)
    assert told.is_stable
    over = ewsg.forecast(
        ewsg.kernel(dynamics(1.1 * largest), ewsg.gradients.full(model)), mode, data
    )
    assert not over.is_stable
    assert np.isinf(over.variance_ratio).all()
    assert "UNSTABLE" in repr(over)


@pytest.mark.full
@pytest.mark.parametrize(
    ("dynamics", "largest"),
    [
        (ewsg.dynamics.langevin(1e-9), 2 / 4),
        (ewsg.dynamics.semi_implicit(1e-2, friction=1e-9), 2 / 4**0.5),
    ],
)
def test_the_largest_step_of_what_float32_rounds_away(dynamics, largest):
    """1 − hλ and 1 − γh are 1 in float32, or the squares of eigenvalues that are."""
    model = ewsg.models.gaussian_location(noise_scale=(4 / (4 - 1e-8)) ** 0.5, prior_scale=1e4)
    data = jnp.array([[0.0], [1.0], [2.0], [3.0]])
    kernel = ewsg.kernel(dynamics, ewsg.gradients.full(model))
    told = ewsg.forecast(kernel, a_mode(model, jnp.zeros(1), data), data)
    np.testing.assert_allclose(told.largest_step, largest, rtol=1e-4)
    assert told.is_stable


@pytest.mark.full
def test_full_weights_choose_among_all_batches():
    """Two hundred skewed rows: the shift of the mean by what their weights add, over the law."""
    n, h = 200, 2e-6
    x = np.random.default_rng(0).exponential(size=n)
    model, data = ewsg.models.gaussian_location(), jnp.asarray(x[:, None])
    kernel = ewsg.ewsg_ld(model, h, batch_size=1, chain_length=np.inf)
    told = ewsg.forecast(kernel, a_mode(model, jnp.zeros(1), data), data)
    nodes, shares = np.polynomial.hermite_e.hermegauss(40)
    z = nodes * float(told.variance_ratio[0] / n) ** 0.5
    gradients = n * (x.mean() + z[:, None] - x)
    weights = np.exp(h / 4 * gradients**2)
    chosen = (weights * gradients).sum(1) / weights.sum(1) - n * z
    added, stiffer = shares @ chosen / shares.sum(), shares @ (chosen * z) / (shares @ z**2)
    assert float(told.mean_shift[0]) == pytest.approx(-added / (n + stiffer) * n**0.5, rel=0.01)


def test_full_weights_of_too_many_batches_are_refused(monkeypatch):
    monkeypatch.setattr(settings, "MAX_FULL_WEIGHT_NUMBERS", 64 * 10)
    model, data = ewsg.models.gaussian_location(), jnp.zeros((11, 1))
    kernel = ewsg.ewsg_ld(model, 0.01, batch_size=1, chain_length=np.inf)
    with pytest.raises(ValueError, match=r"^kernel must have at most 10 batches .* chain_length=m"):
        ewsg.forecast(kernel, a_mode(model, jnp.zeros(1), data), data)


def test_under_jit_it_is_refused():
    model, data = ewsg.models.gaussian_location(), jnp.zeros((4, 1))
    mode = a_mode(model, jnp.zeros(1), data)
    with pytest.raises(TypeError, match=r"^forecast must be called on the host, not under jit"):
        jax.jit(lambda h: ewsg.forecast(ewsg.ld(model, h), mode, data).largest_step)(0.1)


@pytest.mark.full
def test_walls_away_from_the_mode_set_the_largest_step():
    # −log likelihood is softplus(50 (w − 1)), flat at the mode, of curvature 625 at 1; the prior
    # N(0, 1).
    model = ewsg.Posterior(
        lambda w, x: -jax.nn.softplus(50 * (w[0] - x)), lambda w: -0.5 * jnp.sum(w**2)
    )
    data = jnp.linspace(0.9, 1.1, 9)
    mode = a_mode(model, jnp.zeros(1), data)
    told = ewsg.forecast(ewsg.ld(model, 0.05), mode, data)
    assert float(mode.sd[0]) > 0.9
    assert told.largest_step < 2 / 500
    assert not told.is_stable
    # Its law sees hundreds of times the mode's curvature: no normal posterior.
    assert told.curvature_seen[1] > 50
    assert not told.is_near_normal
    assert "NOT NEAR NORMAL" in repr(told)


def test_the_mean_of_a_skewed_posterior_shifts_with_the_heat(x64):
    # V = λ(eˣ − x) has V'' = V''' = λ at the mode: a variance too large by Δ shifts the mean by
    # −Δ/2.
    model = ewsg.Posterior(lambda w, x: x * (w[0] - jnp.exp(w[0])), lambda w: 0.0)
    data = jnp.full(100, 4.0)
    mode = a_mode(model, jnp.zeros(1), data)
    told = ewsg.forecast(ewsg.ld(model, 0.2 / 400), mode, data)
    excess = (float(told.variance_ratio[0]) - 1) / 400
    np.testing.assert_allclose(told.mean_shift[0], -0.5 * excess * 20, rtol=0.02)
    # And the law sees a curvature that is larger than the mode's, by half of the variance.
    np.testing.assert_allclose(told.target[0, 0], 1 / (400 * np.exp(0.5 / 400)), rtol=1e-4)
    np.testing.assert_allclose(
        told.curvature_seen[1], np.exp(0.5 * told.covariance[0, 0]), rtol=1e-4
    )
    assert told.is_near_normal


def test_temperature_and_schedules(x64):
    model, data = ewsg.models.gaussian_location(), jnp.arange(8.0)[:, None]
    mode = a_mode(model, jnp.zeros(1), data)

    def falling(step):
        return jnp.where(step < 10, 0.1, 0.05)

    for step, h in ((0, 0.1), (10, 0.05)):
        told = ewsg.forecast(ewsg.ld(model, falling, temperature=3.0), mode, data, step=step)
        curvature = 1 / float(mode.sd[0]) ** 2
        np.testing.assert_allclose(told.variance_ratio, 1 / (1 - h * curvature / 2), rtol=1e-6)
        np.testing.assert_allclose(
            told.covariance, 3 / curvature / (1 - h * curvature / 2), rtol=1e-6
        )
        assert told.step_size == h


@pytest.mark.full
@pytest.mark.parametrize("size", [1, 3])
def test_without_a_gradient_around_the_mode_there_is_no_forecast(size):
    """That of √θ is not a number below 0, and one draw in twenty of the normal approximation is
    below it.
    """
    model = ewsg.Posterior(
        lambda p, row: -5e-4 * jnp.sum((row - p) ** 2), lambda p: jnp.sum(4 * jnp.sqrt(p) - p)
    )
    data = jnp.linspace(1.0, 5.0, 50)
    mode = a_mode(model, jnp.full(size, 2.0), data)
    kernel = ewsg.ld(model, 0.1, inverse_mass=mode.inverse_mass)
    with pytest.raises(ValueError, match="posterior must have a finite gradient around its mode"):
        ewsg.forecast(kernel, mode, data)


def test_it_prints_a_table():
    model, data = LINEAR, ROWS
    mode = a_mode(model, {"w": jnp.zeros(3)}["w"], data)
    text = repr(ewsg.forecast(ewsg.sghmc(model, 1e-3, friction=1.0, batch_size=5), mode, data))
    for part in (
        "Forecast of kernel(",
        "variance ratio",
        "largest stable",
        "[1]",
        "batches drawn around the mode",
    ):
        assert part in text
    many = ewsg.models.gaussian_location()
    rows = jnp.ones((4, 13))
    text = repr(ewsg.forecast(ewsg.ld(many, 0.01), a_mode(many, jnp.zeros(13), rows), rows))
    assert "median" in text
    assert "of all 13" in text


def test_stationary_covariance_and_times():
    matrix = np.array([[0.9, 0.1], [-0.2, 0.7]])
    noise = np.array([[0.2, 0.05], [0.05, 0.4]])
    found = stationary.stationary(matrix, noise)
    np.testing.assert_allclose(found, matrix @ found @ matrix.T + noise, rtol=1e-12)
    lags = sum(np.linalg.matrix_power(matrix, k) @ found for k in range(1, 500))
    np.testing.assert_allclose(
        stationary.autocorrelation_times(matrix, found, 2),
        1 + 2 * np.diag(lags) / np.diag(found),
        rtol=1e-10,
    )
    assert stationary.stationary(1.01 * np.eye(2), noise) is None
    assert stationary.stationary(np.eye(2), noise) is None


def test_draws_have_the_covariance_itself():
    draws = stationary.normal(3, 20, 4)
    np.testing.assert_allclose(draws.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(draws.T @ draws / 20, np.eye(4), atol=1e-12)
    np.testing.assert_allclose(
        stationary.root(np.array([[4.0, 0.0], [0.0, 9.0]])), np.diag([2.0, 3.0])
    )


@pytest.mark.full
def test_anchors_of_rows_against_sums():
    matrix, rate = np.array([[0.8, 0.1], [0.0, 0.6]]), 0.3
    covariance = stationary.stationary(matrix, np.eye(2))
    shares = rate * (1 - rate) ** np.arange(400)
    powers = [np.linalg.matrix_power(matrix, k + 1) for k in range(400)]
    one = covariance  # of any one anchor
    mean = np.zeros((2, 2))
    for j in range(200):
        for k in range(200):
            gap = np.linalg.matrix_power(matrix, abs(j - k)) @ covariance
            mean += shares[j] * shares[k] * (gap if k >= j else gap.T)
    np.testing.assert_allclose(
        stationary.covariance_of_own_anchors(matrix, covariance, rate),
        one - mean,
        rtol=1e-8,
        atol=1e-10,
    )
    # Draws of now and then have the law's own covariance, and that between them.
    now, then = stationary.pairs(matrix, covariance, [2], 64)
    np.testing.assert_allclose(now.T @ now / len(now), covariance, rtol=1e-9)
    np.testing.assert_allclose(
        now.T @ then / len(now), powers[1] @ covariance, rtol=1e-9, atol=1e-12
    )
    assert set(batch_noise.uniform_lags(5)) == {0, 1, 2, 3, 4}
    np.testing.assert_allclose(batch_noise.uniform_lags(1000).mean(), 499.5, rtol=2e-3)
    np.testing.assert_allclose(batch_noise.geometric_lags(0.01).mean(), 100, rtol=0.1)
    # Half of the rows were last seen one step ago, a quarter two: a step does not know what it sees
    # itself.
    assert np.bincount(batch_noise.geometric_lags(0.5))[:4].tolist() == [0, 8, 4, 2]


def test_the_index_chain_on_a_few_batches():
    # Two listed batches, of log weights 0 and 1: the second is accepted with probability 1, the
    # first with e⁻¹.
    gradients, points = np.array([[[0.0], [1.0]]]), np.array([[0.0]])
    weight = QuadraticWeight(np.zeros((1, 1)), np.zeros((1, 1)), np.ones(1))
    slope = np.ones((1, 1))
    once = noise_of(gradients, points, weight, 1, slope, drawn=False)
    second = 0.5 * (0.5 + 0.5) + 0.5 * (1 - 0.5 * np.exp(-1.0)) - 0.25
    np.testing.assert_allclose(once.shift, second - 0.5)
    exact = noise_of(gradients, points, weight, np.inf, slope, drawn=False)
    share = 1 / (1 + np.exp(-1.0))
    np.testing.assert_allclose(exact.shift, share - 0.5)
    np.testing.assert_allclose(exact.covariance, share * (1 - share))
    plain = noise_of(gradients, points, None, None, slope, drawn=True)
    np.testing.assert_allclose(plain.covariance, 0.5)


def test_weights_of_many_gradients():
    weight = QuadraticWeight(np.diag([2.0, 4.0]), np.array([[1.0], [0.0]]), np.array([0.0, 3.0]))
    found = weight.of(np.array([[[1.0, 2.0]]]), np.array([[5.0]]))
    np.testing.assert_allclose(found, 0.5 * (2 + 16) + 5 + 6)
    wide = QuadraticWeight(
        np.diag([2.0, 4.0]), np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([0.0, 3.0])
    )
    scaled = wide.scaled(np.array([10.0, 0.1]))
    np.testing.assert_allclose(scaled.of(np.array([[[0.1, 20.0]]]), np.array([[50.0, 7.0]])), found)


@pytest.mark.full
def test_scaled_steps_are_the_same_map():
    made = AffineStep(*(RNG.normal(size=shape) for shape in ((4, 4), (4, 2), (4, 3), (2, 4))))
    scale = np.array([2.0, 5.0, 1.0, 1.0])
    scaled = made.scaled(scale)
    z, g, xi = RNG.normal(size=4), RNG.normal(size=2), RNG.normal(size=3)
    moved = made.matrix @ z + made.gradient @ g + made.noise @ xi
    there = scaled.matrix @ (scale * z) + scaled.gradient @ (g / scale[:2]) + scaled.noise @ xi
    np.testing.assert_allclose(there, scale * moved)
    np.testing.assert_allclose(scaled.wanted @ (scale * z), scale[:2] * (made.wanted @ z))


@pytest.mark.full
def test_rows_by_probability_are_told_cooler():
    # One row of the size of all others together: by its size the gradient has less noise.
    x = np.concatenate([np.ones((99, 1)), [[10.0]]])
    rows = {"x": x, "y": x[:, 0] * 0.5 + np.random.default_rng(0).normal(size=100)}
    model = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=5.0)
    mode = a_mode(model, jnp.zeros(1), rows)
    excess = []
    for law_of_rows in ("random", ewsg.rows.by_probability(np.abs(x[:, 0]) ** 2)):
        estimator = ewsg.gradients.control_variate(
            model, batch_size=5, center=mode.position, rows=law_of_rows
        )
        dynamics = ewsg.dynamics.langevin(0.1, inverse_mass=mode.inverse_mass)
        told = ewsg.forecast(ewsg.kernel(dynamics, estimator), mode, rows)
        excess.append(float(told.variance_ratio[0]) - 1)
    # (1/b)(n Σ xᵢ⁴ − (Σ xᵢ²)²)/(Σ xᵢ²)² of the variance, and (1/b)((Σ xᵢ²)² − (Σ xᵢ²)²) = 0.
    fourth, second, prior = np.sum(x**4), np.sum(x**2), 1 / 25
    noise = (100 * fourth - second**2) / 5 / (second + prior) ** 2
    h = 0.1
    ratio = 2 * h / (2 * h - h**2 - h**2 * noise)
    np.testing.assert_allclose(excess[0], ratio - 1, rtol=0.15)
    np.testing.assert_allclose(excess[1], 1 / (1 - h / 2) - 1, rtol=1e-3)


@pytest.mark.full
def test_a_mode_is_looked_at_once(monkeypatch):
    data = jax.tree.map(jnp.asarray, ROWS)
    mode = a_mode(LINEAR, jnp.zeros(3), data)
    asked = []

    def counted(name):
        true = getattr(target, name) if name == "averaged" else getattr(target.stability, name)
        return lambda *arguments: [asked.append(name), true(*arguments)][1]

    monkeypatch.setattr(target, "averaged", counted("averaged"))
    monkeypatch.setattr(target.stability, "largest_curvature", counted("largest_curvature"))

    def ask(h, inverse_mass, at=mode, rows=data):
        asked.clear()
        told = ewsg.forecast(ewsg.ld(LINEAR, h, inverse_mass=inverse_mass), at, rows)
        return told, asked.count("averaged"), asked.count("largest_curvature")

    first, slopes, walls = ask(0.1, mode.inverse_mass)
    assert walls == 1
    again, less, none = ask(0.1, mode.inverse_mass)
    assert (less, none) == (slopes - settings.TARGET_ROUNDS, 0)
    assert again.largest_step == first.largest_step
    np.testing.assert_array_equal(again.covariance, first.covariance)
    # Another mass has other walls; another mode or other rows, all anew.
    assert ask(0.1, 2 * mode.inverse_mass)[2] == 1
    assert ask(1e-4, 0.5)[2] == ask(1e-4, 0.25)[2] == 1
    assert ask(1e-4, 0.5)[2] == 0
    elsewhere = a_mode(LINEAR, jnp.ones(3), data)
    assert ask(0.1, mode.inverse_mass, at=elsewhere)[1:] == (slopes, 1)
    more = jax.tree.map(lambda x: jnp.concatenate([x, x]), data)
    of_more = a_mode(LINEAR, jnp.zeros(3), more)
    assert ask(0.05, mode.inverse_mass, at=of_more, rows=more)[2] == 1

    # Nothing of the data is kept.
    held = [weakref.ref(leaf) for leaf in jax.tree.leaves(more)]
    del more
    gc.collect()
    assert all(leaf() is None for leaf in held)


@pytest.mark.full
def test_temperatures_of_one_mode():
    data = jax.tree.map(jnp.asarray, ROWS)
    mode = a_mode(LINEAR, jnp.zeros(3), data)
    targets = [
        ewsg.forecast(
            ewsg.ld(LINEAR, 0.1, temperature=t, inverse_mass=mode.inverse_mass), mode, data
        ).target
        for t in (1.0, 0.25)
    ]
    np.testing.assert_allclose(targets[1], targets[0] / 4, rtol=1e-4)


@pytest.mark.usual_parameters("True-True-100.0")
@pytest.mark.parametrize("curvature", [1.0, 100.0, 1e4])
@pytest.mark.parametrize("is_massive", [False, True])
@pytest.mark.parametrize("is_given", [False, True])
def test_the_friction_of_batches_bounds_the_step(curvature, is_massive, is_given):
    """With friction γ + hC/2 a step is stable where h²λ < 4 − 2h(γ + hC/2); a mass makes λ one."""
    n, friction = 10, 1.0
    scale = (n / curvature) ** 0.5
    data = jnp.asarray(2 * scale * np.linspace(-1, 1, n)[:, None])
    model = ewsg.models.gaussian_location(noise_scale=scale)
    mode = a_mode(model, jnp.zeros(1), data)
    noise = n**2 / 2 * np.var(np.asarray(data, float)) / scale**4
    unit = curvature if is_massive else 1.0
    bound = np.roots([(curvature + noise) / unit, 2 * friction, -4]).max()
    estimator, covariance = ewsg.gradients.kept_covariance(model, batch_size=2), None
    if is_given:
        estimator = ewsg.gradients.uniform(model, batch_size=2)
        covariance = ewsg.gradients.covariance_at(model, mode.position, data, batch_size=2)
    for part in (0.3, 0.97, 1.03):
        dynamics = ewsg.dynamics.noise_corrected(
            part * bound, friction=friction, inverse_mass=1 / unit, covariance=covariance
        )
        told = ewsg.forecast(ewsg.kernel(dynamics, estimator), mode, data)
        np.testing.assert_allclose(told.largest_step, bound, rtol=0.015)
        assert told.is_stable is (part < 1)


@pytest.mark.full
def test_a_covariance_that_is_given_is_told_like_one_that_is_kept():
    """Of a location it is the same everywhere, so that the laws are the same."""
    data = jax.random.normal(jax.random.key(4), (30, 2)) * jnp.array([1.0, 5.0])
    model = ewsg.models.gaussian_location()
    mode = a_mode(model, jnp.zeros(2), data)
    given = ewsg.gradients.covariance_at(model, mode.position, data, batch_size=3)
    kept, told = (
        ewsg.forecast(
            ewsg.kernel(
                ewsg.dynamics.noise_corrected(0.03, friction=3.0, covariance=covariance), estimator
            ),
            mode,
            data,
        )
        for covariance, estimator in (
            (None, ewsg.gradients.kept_covariance(model, batch_size=3)),
            (given, ewsg.gradients.uniform(model, batch_size=3)),
        )
    )
    np.testing.assert_allclose(told.variance_ratio, kept.variance_ratio, rtol=0.02)
    np.testing.assert_allclose(told.largest_step, kept.largest_step, rtol=0.02)
