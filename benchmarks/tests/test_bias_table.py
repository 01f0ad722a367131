"""The table of biases: the library's numbers, and those of oracles sharing no code."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks.pages import bias, bias_laws, bias_page
from tests.oracles import enumeration, grid_laws, index_chain, lyapunov, memory_laws

DOCS = Path(__file__).parents[2] / "docs"
STORED = json.loads((DOCS / "bias.json").read_text(encoding="utf-8"))

# The regression of the page, typed again: s² and the prior's variance 5 make λ = 1.
GAMMA, PRIOR_SCALE = 2.0, 5**0.5
X = np.array([0.4, -0.7, 1.0, -1.3, 1.6, 0.9])
Y = np.array([2.0, -4.1, 3.9, 1.6, 0.4, -3.0])
NOISE_SCALE = (6.71 / 0.8) ** 0.5
ROWS = memory_laws.linear_regression(X[:, None], Y, NOISE_SCALE, PRIOR_SCALE)
MEAN = ROWS.mean.item()


def stored(method, b, h, *, model="regression", integrator="", is_reset=False):
    return STORED[bias_page.label(model, method, integrator, b, is_reset)]["laws"][repr(h)]


def test_the_page_tells_its_numbers():
    text = bias.PAGE.read_text(encoding="utf-8")
    assert bias_page.page(text, STORED) == text, (
        "run python -m benchmarks.pages.bias: the page is out of date"
    )


def test_every_method_is_there_with_every_integrator():
    """A new row of the table of methods joins by itself, or `options_of` says what it lacks."""
    labels = {bias_page.label(*key): key for key in bias.entries([])}
    assert set(STORED) <= set(labels), (
        "docs/bias.json holds entries of no method: run python -m benchmarks.pages.bias"
    )
    missing = {label for label, key in labels.items() if key[0] != "regression in 2-D"} - set(
        STORED
    )
    assert not missing, (
        f"run python -m benchmarks.pages.bias {' '.join(sorted({labels[x][1] for x in missing}))}"
    )
    assert {entry["method"] for entry in STORED.values()} == set(ewsg.METHODS)


IN_EVERY_RUN = (
    "location, uld, semi_implicit",
    "location, nc_sghmc, euler, b=1, K=1",
    "regression, sgld, b=2",
    "regression, saga2nd_hmc, b=1",
    "regression, svrg_ld, b=2",
    "regression, ewsg_ld, b=1",
    "regression in 2-D, cv_uld, b=1",
)
MADE_ANEW = [label for label, entry in STORED.items() if entry["way"] in ("Lyapunov", "Galerkin")]


@pytest.mark.usual_parameters("location, uld, semi_implicit", "regression, svrg_ld, b=2")
@pytest.mark.parametrize(
    "label",
    [pytest.param(x, marks=[] if x in IN_EVERY_RUN else [pytest.mark.sweep]) for x in MADE_ANEW],
)
def test_stored_numbers_are_made_by_the_library(x64, label):
    key = next(key for key in bias.entries([]) if bias_page.label(*key) == label)
    model = bias.MODELS[key[0]]()
    found = bias.measured(model, bias.case_of(model, *key[1:]), key[1])
    expected = STORED[label]
    assert found["way"] == expected["way"]
    assert set(found["laws"]) == set(expected["laws"])
    for h, law in expected["laws"].items():
        for name in ("mean", "variance", "momentum", "passes"):
            # Of a Galerkin law a coarser grid, which some entries were made on, changes no more
            # than its error.
            tolerance = 1e-8 if found["way"] == "Lyapunov" else 1e-6 + law["error"]
            assert found["laws"][h][name] == pytest.approx(
                law[name], rel=tolerance, abs=tolerance
            ), (h, name)


# What the library says of itself.

EXACT = [
    (label, entry)
    for label, entry in STORED.items()
    if set(entry.get("orders", {}).values()) - {None}
]


@pytest.mark.parametrize(("label", "entry"), EXACT, ids=[label for label, _ in EXACT])
def test_the_order_is_that_of_the_table_of_methods(label, entry):
    """√(mean² + (Var θ)² + (Var p)²), all biases, extrapolated to 0 from the three least h."""
    stated = ewsg.METHODS[entry["method"]].bias
    if stated == "h or h²":
        stated = "h²" if entry["integrator"] in ("splitting", "ABOBA", "BAOAB") else "h"
    stated = stated.removesuffix(" on a Gaussian")
    bias = {
        float(h): np.linalg.norm([law[name] for name in ("mean", "variance", "momentum")])
        for h, law in entry["laws"].items()
    }
    pairs = list(itertools.pairwise(sorted(bias)[:3]))
    (first, at), (second, beyond) = (
        (np.log(bias[coarse] / bias[fine]) / np.log(coarse / fine), (fine * coarse) ** 0.5)
        for fine, coarse in pairs
    )
    measured = first + (first - second) * at / (beyond - at)
    assert measured == pytest.approx({"h": 1, "h²": 2}[stated], abs=0.05)


def test_methods_without_bias_have_none():
    for label, entry in STORED.items():
        if entry["method"] == "uld" and entry["integrator"] in ("ABOBA", "BAOAB"):
            assert all(
                max(abs(law["mean"]), abs(law["variance"])) < 1e-9 for law in entry["laws"].values()
            ), label
    for label, entry in STORED.items():
        if entry["way"] == "simulated" and ewsg.METHODS[entry["method"]].bias == "none":
            law = entry["laws"]["2.4"]
            assert abs(law["variance"]) < 5 * law["error"] < 0.03, label
            assert abs(law["mean"]) < 0.02, label


FORMS = [(label, entry) for label, entry in STORED.items() if entry.get("form")]


@pytest.mark.parametrize(("label", "entry"), FORMS, ids=[label for label, _ in FORMS])
def test_the_leading_term_is_the_typed_one(label, entry):
    form = entry["form"]
    assert bias_page.constant(entry["laws"], form["order"]) == pytest.approx(
        form["constant"], rel=1e-3
    )


# Linear kernels from their equations, at h = 1/8, b = 1 or 2.


def oracle_variance(dynamics, estimator, h, b):
    """Var θ, typed."""
    numbers = (h, 1.0) if dynamics == "langevin" else (h, GAMMA, 1.0)
    size = 1 if dynamics == "langevin" else 2
    drift, n = memory_laws.drift(dynamics, 1, *numbers), len(X)
    listed, _ = enumeration.batches(n, b, replace=True)
    if estimator in ("full", "uniform"):
        chosen = [range(n)] if estimator == "full" else listed
        hessians = [ROWS.prior + n * np.mean(ROWS.hessians[list(rows)], axis=0) for rows in chosen]
        constants = [n * np.mean(ROWS.constants[list(rows)], axis=0) for rows in chosen]
        steps = [
            lyapunov.UPDATES[dynamics](H, k, *numbers)
            for H, k in zip(hessians, constants, strict=True)
        ]
        return lyapunov.stationary(steps)[1][0, 0]
    if estimator == "stratified":
        return lyapunov.stationary(
            memory_laws.stratified(drift, ROWS, [[0, 1, 2], [3, 4, 5]], (1, 1))
        )[1][0, 0]
    if estimator == "control_variate":
        steps = memory_laws.with_fixed_anchor(
            memory_laws.anchored(drift, ROWS, listed), ROWS, size, ROWS.mean
        )
        return lyapunov.stationary(steps)[1][0, 0]
    if estimator == "saga":
        steps = memory_laws.with_sum_of_table(memory_laws.saga(drift, ROWS, listed), ROWS, size)
        return lyapunov.stationary(steps)[1][0, 0]
    cycle = [
        memory_laws.anchored(drift, ROWS, listed, refresh=stage == 0) for stage in range(-(-n // b))
    ]
    return np.mean([covariance[0, 0] for _, covariance in memory_laws.periodic(cycle)])


LINEAR = [
    entry
    for entry in STORED.values()
    if entry["model"] == "regression" and entry["way"] == "Lyapunov" and entry["method"] != "hamcmc"
]


@pytest.mark.parametrize(
    "entry", LINEAR, ids=[f"{e['method']}-{e['integrator']}-{e['b']}" for e in LINEAR]
)
def test_linear_kernels_have_the_law_of_their_equations(entry):
    method = ewsg.METHODS[entry["method"]]
    dynamics = entry["integrator"] or method.dynamics[0]
    variance = oracle_variance(dynamics, method.estimator, 0.125, entry["b"])
    assert entry["laws"]["0.125"]["variance"] == pytest.approx(variance - 1, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("b", [1, 2])
def test_quasi_newton_is_langevin_with_the_curvature_of_another_batch(b):
    """One dimension, one pair: H = 1/(λ_Ω + 1), Ω the last step's batch, independent."""
    h, n = 0.125, len(X)
    listed, _ = enumeration.batches(n, b, replace=True)
    curvature = (ROWS.prior + n * ROWS.hessians[listed].mean(1)).ravel()
    force = curvature * MEAN - n * ROWS.constants[listed].mean(1).ravel()
    H = 1 / (curvature[:, None] + 1)
    variance = np.mean(h**2 * H**2 * force**2 + 2 * h * H) / (
        1 - np.mean((1 - h * H * curvature) ** 2)
    )
    assert stored("hamcmc", b, h)["variance"] == pytest.approx(variance - 1, rel=1e-8)


# What is not linear, on grids. Their errors are of the third order in the spacing, from the kinks
# of the weights.


def gradients(theta):
    """The gradients of the six batches of one row."""
    return theta / PRIOR_SCALE**2 + 6 * X * (X * theta - Y) / NOISE_SCALE**2


UNIFORM = np.full(6, 1 / 6)


@pytest.mark.parametrize("h", [0.5, 0.125])
def test_exponential_weights_on_langevin(h):
    def place(theta):
        g = gradients(theta)
        # ½‖√(h/2T) g‖²: that of a momentum with x = 0 and σ² = 2.
        w = index_chain.log_weights(g[:, None], np.zeros(1), h, 1.0, 1.0, "zero")
        return theta - h * g, index_chain.law(w, 1)

    mean, variance = grid_laws.overdamped(place, lambda theta: 2 * h, np.arange(-11, 11, 0.025))
    law = stored("ewsg_ld", 1, h)
    assert variance == pytest.approx(1 + law["variance"], rel=1e-5)
    assert mean - MEAN == pytest.approx(law["mean"], abs=1e-5)


def test_a_metric():
    h = 0.125

    def place(theta):
        D, slope = 0.5 + 1 / (1 + theta**2), -2 * theta / (1 + theta**2) ** 2
        return theta - h * (D * gradients(theta) - slope), UNIFORM

    variance_at = lambda theta: 2 * h * (0.5 + 1 / (1 + theta**2))
    mean, variance = grid_laws.overdamped(place, variance_at, np.arange(-10, 10, 0.025))
    law = stored("sgrld", 1, h)
    assert variance == pytest.approx(1 + law["variance"], rel=1e-5 + 3 * law["error"])
    assert mean - MEAN == pytest.approx(law["mean"], abs=1e-5 + 3 * law["error"])


@pytest.mark.usual_parameters("ewsg-0.5-0.15-60-0.0003")
@pytest.mark.parametrize(
    ("method", "h", "spacing", "steps", "tolerance"),
    [
        ("ewsg", 0.5, 0.15, 60, 3e-4),
        ("nc_sghmc", 0.125, 0.08, 350, 1e-5),
        ("ewsg_vr", 0.125, 0.08, 350, 1e-4),
    ],
)
def test_kicks_with_weights_and_with_matrix_friction(method, h, spacing, steps, tolerance):
    """The noise of θ' given θ and p, h^1.5 σ, is wider than the spacing."""
    sigma = (2 * GAMMA) ** 0.5

    def kick(theta, p):
        g = gradients(theta)
        friction = GAMMA if method == "ewsg" else GAMMA + h * np.var(g) / 2
        x = np.array([np.sqrt(h) * friction * p / sigma])
        w = index_chain.log_weights(g[:, None], np.array([p]), h, GAMMA, 1.0, x)
        return p - h * (g + friction * p), UNIFORM if method == "nc_sghmc" else index_chain.law(
            w, 1
        )

    end = 7.5 if h == 0.5 else 5.7
    grid = np.arange(-end, end + spacing / 2, spacing)
    mean, variance, momentum = grid_laws.semi_implicit(kick, h, sigma, grid, steps)
    law = stored(method, 1, h, integrator="semi_implicit", is_reset=method != "ewsg")
    assert variance == pytest.approx(1 + law["variance"], rel=tolerance)
    assert momentum == pytest.approx(1 + law["momentum"], rel=tolerance)
    assert mean - MEAN == pytest.approx(law["mean"], abs=tolerance)


# What has more numbers than a grid: against many chains of the equations in NumPy.


def chains_of(step, states, burn_in, steps, seed):
    """Mean and variance of θ, the first of the arrays, over time in each chain."""
    rng = np.random.default_rng(seed)
    total = square = 0.0
    for k in range(burn_in + steps):
        states = step(rng, *states)
        if k >= burn_in:
            total, square = total + states[0], square + (states[0] - MEAN) ** 2
    return total / steps, square / steps


def assert_z(values, expected, error, limit=5.5):
    """|z| < 5.5 has a probability of 4e-8 against it."""
    spread = np.hypot(values.std() / len(values) ** 0.5, error)
    assert abs(values.mean() - expected) < limit * spread
    assert spread < 0.01


def rows_of(rng, count):
    return rng.integers(0, 6, count)


def gradient_of(theta, i):
    return theta / PRIOR_SCALE**2 + 6 * X[i] * (X[i] * theta - Y[i]) / NOISE_SCALE**2


def test_a_thermostat():
    h, count = 0.125, 4000

    def step(rng, theta, p, zeta):
        g = gradient_of(theta, rows_of(rng, count))
        p = (1 - h * zeta) * p - h * g + np.sqrt(2 * GAMMA * h) * rng.normal(size=count)
        return theta + h * p, p, zeta + h * (p**2 - 1)

    start = np.random.default_rng(0).normal(size=(2, count))
    means, squares = chains_of(
        step, (MEAN + start[0], start[1], np.full(count, GAMMA)), 300, 2000, 1
    )
    law = stored("sgnht", 1, h)
    assert_z(means, MEAN + law["mean"], 0.0)
    assert_z(squares, 1 + law["variance"] + law["mean"] ** 2, law["error"])
    # ζ is at rest in the mean only where E p² = T.
    assert abs(law["momentum"]) < 1e-4


def test_a_preconditioner():
    h, count = 0.125, 2000

    def step(rng, theta, m):
        g = gradient_of(theta, rows_of(rng, count))
        m = 0.99 * m + 0.01 * ((g - theta / PRIOR_SCALE**2) / 6) ** 2
        G = 1 / (1e-5 + np.sqrt(m))
        return theta - h * G * g + np.sqrt(2 * h * G) * rng.normal(size=count), m

    start = MEAN + np.random.default_rng(0).normal(size=count)
    means, squares = chains_of(step, (start, np.full(count, 0.1)), 1000, 2000, 1)
    law = stored("psgld", 1, h)
    assert_z(means, MEAN + law["mean"], law["error"])
    assert_z(squares, 1 + law["variance"] + law["mean"] ** 2, law["error"] * (1 + law["variance"]))


def test_batches_are_counted_once():
    """Multisets with their probabilities are all ordered batches."""
    model = bias.MODELS["location"]()
    case = bias.case_of(model, "sgld", "", 2, False)
    batches, p = bias_laws.listed_batches(case)
    found = {
        tuple(rows): weight
        for rows, weight in zip(np.asarray(batches.indices).tolist(), p, strict=True)
    }
    ordered = [tuple(sorted(rows)) for rows in itertools.product(range(6), repeat=2)]
    assert found == pytest.approx({rows: ordered.count(rows) / 36 for rows in ordered})
