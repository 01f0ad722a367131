"""The exact stationary laws of every linear dynamics with anchors, tables and strata, without Monte
Carlo.

The map of one step over the whole state, dynamics and memory, comes from the Jacobians of
`transition`. Maps and laws are compared with those typed from the equations
(tests/oracles/memory_laws.py) and with closed forms.
"""

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients._svrg import SVRGDraw
from tests.linear_maps import linearize
from tests.oracles import enumeration, lyapunov, memory_laws

EXACT = 1e-10

UNDERDAMPED = ("euler", "semi_implicit", "splitting", "exact")
DYNAMICS = ("langevin", *UNDERDAMPED)
WITH_CLOSED_FORM = tuple(lyapunov.CLOSED_FORMS)
ESTIMATORS = ("control_variate", "svrg", "saga")
K = 3
"""Steps from one anchor of SVRG to the next."""

GAMMA, T = 2.0, 0.6
NOISE_SCALE, PRIOR_SCALE = 0.8, 2.0
CENTER = np.array([0.4, -0.9])
INPUTS = np.array([[1.0, 0.2], [0.5, -1.0], [-0.4, 0.9], [1.5, 1.2]])
OUTPUTS = np.array([0.5, -1.2, 2.0, 0.1])

TWO_STRATA, ONE_STRATUM = ((1, 0, 1, 1), (1, 2)), ((0, 0, 0, 0), (1,))
"""The stratum of each row, and how many rows each stratum gives to a batch."""


class Problem(NamedTuple):
    """A model of the library, its data, and the same rows for the oracle."""

    posterior: ewsg.Posterior
    data: Any
    rows: memory_laws.Rows

    @property
    def dimension(self):
        return len(self.rows.prior)


def regression(n, d):
    """Curvatures differ from row to row, so an estimate's noise depends on the place."""
    x, y = INPUTS[:n, :d], OUTPUTS[:n]
    return Problem(
        ewsg.models.linear_regression(noise_scale=NOISE_SCALE, prior_scale=PRIOR_SCALE),
        {"x": jnp.asarray(x), "y": jnp.asarray(y)},
        memory_laws.linear_regression(x, y, NOISE_SCALE, PRIOR_SCALE),
    )


def location(n, d):
    """All rows have one curvature."""
    x = INPUTS[:n, :d]
    posterior = ewsg.models.gaussian_location(noise_scale=NOISE_SCALE)
    return Problem(posterior, jnp.asarray(x), memory_laws.gaussian_location(x, NOISE_SCALE))


def estimator_of(name, problem, batch_size):
    options = {"batch_size": batch_size}
    if name == "control_variate":
        options["center"] = jnp.asarray(CENTER[: problem.dimension])
    elif name == "svrg":
        options["refresh_every"] = K
    return getattr(ewsg.gradients, name)(problem.posterior, **options)


def dynamics_of(name, h):
    if name == "langevin":
        return ewsg.dynamics.langevin(h, temperature=T)
    return getattr(ewsg.dynamics, name)(h, friction=GAMMA, temperature=T)


def numbers(name, h):
    """What the oracle's functions take: no γ for Langevin."""
    return (h, T) if name == "langevin" else (h, GAMMA, T)


def size_of(name, dimension):
    """How many numbers z has."""
    return dimension if name == "langevin" else 2 * dimension


def maps_of(build, hs, problem, batches, stages=(0,), with_memory=True):
    """Return `steps[h][stage]`: (matrix, shift, noise) of every batch, of a kernel `build(h)`."""
    of = lambda h, stage: linearize(
        build(h), problem.dimension, problem.data, batches, stage, with_memory
    )
    return [[[lyapunov.Step(*step) for step in of(h, stage).steps] for stage in stages] for h in hs]


PROBLEMS = {
    "line": lambda: regression(3, 1),
    "plane": lambda: regression(4, 2),
    "location": lambda: location(4, 2),
}
STEP_SIZES = {"line": (0.05, 0.02, 0.01, 0.005), "plane": (0.05,), "location": (0.02, 0.1)}
BATCH_SIZE = {"line": 1, "plane": 2, "location": 1}


@functools.cache
def library_maps(name, estimator, problem):
    """The library's steps of the whole state at each h and SVRG stage, for every ordered batch."""
    made = PROBLEMS[problem]()
    listed, _ = enumeration.batches(len(made.rows.basis), BATCH_SIZE[problem], replace=True)
    gradient = estimator_of(estimator, made, BATCH_SIZE[problem])
    build = lambda h: ewsg.kernel(dynamics_of(name, h), gradient)
    batches = jnp.asarray(listed, jnp.int32)
    if estimator == "svrg":
        return maps_of(build, STEP_SIZES[problem], made, SVRGDraw(batches, ()), range(K))
    return maps_of(build, STEP_SIZES[problem], made, batches)


def oracle_maps(name, estimator, problem, h):
    """The same at one h, typed."""
    rows = PROBLEMS[problem]().rows
    listed, _ = enumeration.batches(len(rows.basis), BATCH_SIZE[problem], replace=True)
    drift = memory_laws.drift(name, len(rows.prior), *numbers(name, h))
    if estimator == "saga":
        return [memory_laws.saga(drift, rows, listed)]
    stages = range(K) if estimator == "svrg" else (1,)
    return [memory_laws.anchored(drift, rows, listed, refresh=stage == 0) for stage in stages]


def without_repeats(cycle, problem):
    """Of the steps of every ordered batch those whose rows differ: each subset in every order."""
    rows = len(PROBLEMS[problem]().rows.basis)
    listed, _ = enumeration.batches(rows, BATCH_SIZE[problem], replace=True)
    return [
        [step for step, batch in zip(steps, listed, strict=True) if len(set(batch)) == len(batch)]
        for steps in cycle
    ]


def law_of(name, estimator, problem, cycle):
    """Mean and covariance of what is not fixed by the rest, before each stage of the cycle."""
    rows = PROBLEMS[problem]().rows
    size = size_of(name, len(rows.prior))
    if estimator == "svrg":
        return memory_laws.periodic(cycle)
    if estimator == "saga":
        reduced = memory_laws.with_sum_of_table(cycle[0], rows, size)
    else:
        reduced = memory_laws.with_fixed_anchor(cycle[0], rows, size, CENTER[: len(rows.prior)])
    return [lyapunov.stationary(reduced)]


def assert_maps_equal(found, expected):
    for ours, typed in zip(found, expected, strict=True):
        for part in lyapunov.Step._fields:
            np.testing.assert_allclose(
                [getattr(step, part) for step in ours],
                [getattr(step, part) for step in typed],
                rtol=EXACT,
                atol=1e-12,
                err_msg=part,
            )


def assert_same_laws(found, expected):
    for ours, typed in zip(found, expected, strict=True):
        for got, want in zip(ours, typed, strict=True):
            np.testing.assert_allclose(got, want, rtol=EXACT, atol=EXACT * np.abs(want).max())


def full_covariance(name, precision, h):
    """The law of the full gradient."""
    step = lyapunov.UPDATES[name](precision, np.zeros(len(precision)), *numbers(name, h))
    return lyapunov.stationary([step])[1]


# Maps and laws of every linear kernel.


@pytest.mark.usual_parameters("langevin-*-line", "*-saga-plane")
@pytest.mark.parametrize("problem", ["line", "plane"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", DYNAMICS)
def test_noise_that_depends_on_position_and_memory(x64, name, estimator, problem):
    found, h = library_maps(name, estimator, problem)[0], STEP_SIZES[problem][0]
    expected = oracle_maps(name, estimator, problem, h)
    assert_maps_equal(found, expected)

    rows = PROBLEMS[problem]().rows
    d, size = len(rows.prior), size_of(name, len(rows.prior))
    full = full_covariance(name, rows.precision, h)
    chosen = [lambda cycle: cycle] + [lambda cycle: without_repeats(cycle, problem)] * (
        BATCH_SIZE[problem] > 1
    )
    for batches in chosen:
        laws = law_of(name, estimator, problem, batches(found))
        assert_same_laws(laws, law_of(name, estimator, problem, batches(expected)))
        for mean, covariance in laws:
            # Unbiased: the means are the posterior's, and those of a table are its entries there.
            np.testing.assert_allclose(mean[:d], rows.mean, rtol=EXACT)
            np.testing.assert_allclose(mean[d:size], 0, atol=EXACT)
            if estimator == "svrg":
                np.testing.assert_allclose(mean[size : size + d], rows.mean, rtol=EXACT)
            if estimator == "saga":
                entries = rows.slope @ rows.mean - rows.offset
                np.testing.assert_allclose(mean[size:], entries.ravel(), rtol=EXACT)
            assert np.all(np.diag(covariance)[:d] > (1 + 1e-4) * np.diag(full)[:d]), (
                "the estimate has no noise"
            )


@pytest.mark.parametrize("estimator", ["svrg", "saga"])
@pytest.mark.parametrize("name", ["langevin", "splitting"])
def test_sums_in_memory_follow_what_they_sum(x64, name, estimator):
    """SAGA's G stays Σ Bᵢαᵢ, SVRG's Σᵢ ∇Vᵢ(w), for every batch from any state that agrees."""
    rows, size = PROBLEMS["plane"]().rows, size_of(name, 2)
    if estimator == "saga":
        total, constant = rows.basis[:, :, 0].T, np.zeros(2)
    else:
        total, constant = rows.hessians.sum(0), rows.constants.sum(0)
    start = np.random.default_rng(1).normal(size=size + total.shape[1])
    s = np.concatenate([start, total @ start[size:] - constant])
    for matrix, shift, _ in itertools.chain(*library_maps(name, estimator, "plane")[0]):
        moved = matrix @ s + shift
        np.testing.assert_allclose(moved[-2:], total @ moved[size:-2] - constant, rtol=1e-12)


@pytest.mark.parametrize("estimator", ["control_variate", "saga"])
def test_memory_starts_with_what_is_summed_there(x64, estimator):
    """Gradients at the centre; a table of those at the start, and their sum."""
    problem = PROBLEMS["plane"]()
    rows, start = problem.rows, np.array([1.3, 0.2])
    made = estimator_of(estimator, problem, 2)
    memory = made.init(jax.random.key(0), jnp.asarray(start), problem.data)
    at = start if estimator == "saga" else CENTER
    np.testing.assert_allclose(
        memory.gradient, rows.hessians.sum(0) @ at - rows.constants.sum(0), rtol=1e-12
    )
    if estimator == "saga":
        np.testing.assert_allclose(memory.table, (rows.slope @ at - rows.offset)[:, 0], rtol=1e-12)
    else:
        np.testing.assert_array_equal(memory.center, CENTER)


@pytest.mark.usual_parameters("semi_implicit-labels2-seats2", "exact-labels4-seats4")
@pytest.mark.parametrize(
    ("name", "labels", "seats"),
    [*((name, *TWO_STRATA) for name in DYNAMICS), ("langevin", *ONE_STRATUM)],
)
def test_strata(x64, name, labels, seats):
    h, problem, labels = 0.03, regression(4, 2), np.array(labels)
    data = problem.data | {"stratum": jnp.asarray(labels)}
    made = ewsg.gradients.stratified(
        problem.posterior,
        batch_size=sum(seats),
        labels=lambda data: data["stratum"],
        num_strata=len(seats),
    )
    strata = [np.flatnonzero(labels == c).tolist() for c in range(len(seats))]
    # The word w chooses ⌊w m/2³²⌋ of m rows.
    choices = [range(len(rows)) for rows, b in zip(strata, seats, strict=True) for _ in range(b)]
    words = [
        [-(-(place << 32) // len(of)) for place, of in zip(chosen, choices, strict=True)]
        for chosen in itertools.product(*choices)
    ]
    build = lambda h: ewsg.kernel(dynamics_of(name, h), made)
    batches = jnp.asarray(np.array(words)[:, None], jnp.uint32)
    ((found,),) = maps_of(build, [h], problem._replace(data=data), batches, with_memory=False)

    expected = memory_laws.stratified(
        memory_laws.drift(name, 2, *numbers(name, h)), problem.rows, strata, seats
    )
    assert_maps_equal([found], [expected])
    mean, covariance = lyapunov.stationary(found)
    assert_same_laws([(mean, covariance)], [lyapunov.stationary(expected)])
    np.testing.assert_allclose(mean[:2], problem.rows.mean, rtol=EXACT)
    if len(seats) == 1:  # one stratum is no strata
        plain = [
            lyapunov.UPDATES[name](problem.rows.prior + 4 * H, 4 * k, *numbers(name, h))
            for H, k in zip(problem.rows.hessians, problem.rows.constants, strict=True)
        ]
        assert_same_laws([(mean, covariance)], [lyapunov.stationary(plain)])


# Closed forms.


@pytest.mark.usual_parameters("langevin-control_variate", "splitting-svrg")
@pytest.mark.parametrize("estimator", ["control_variate", "svrg"])
@pytest.mark.parametrize("name", ["langevin", "semi_implicit", "splitting"])
def test_one_curvature_leaves_an_anchor_no_noise(x64, name, estimator):
    """∇Vᵢ(θ) − ∇Vᵢ(w) is the same of all rows: the full gradient's law for any batch."""
    rows, size = PROBLEMS["location"]().rows, size_of(name, 2)
    for found, h in zip(
        library_maps(name, estimator, "location"), STEP_SIZES["location"], strict=True
    ):
        expected = full_covariance(name, rows.precision, h)
        closed_form = lyapunov.CLOSED_FORMS[name](rows.precision[0, 0], *numbers(name, h))
        np.testing.assert_allclose(
            expected, np.kron(closed_form, np.eye(2)), rtol=EXACT, atol=EXACT
        )
        for mean, covariance in law_of(name, estimator, "location", found):
            np.testing.assert_allclose(mean[:2], rows.mean, rtol=EXACT)
            np.testing.assert_allclose(covariance[:size, :size], expected, rtol=EXACT, atol=EXACT)


def test_one_curvature_leaves_a_table_the_noise_of_its_ages(x64):
    """SAGA's rows were last seen at different points: noise of a higher order in h remains."""
    rows = PROBLEMS["location"]().rows
    n, lam = len(rows.basis), rows.precision[0, 0]
    for found, h in zip(
        library_maps("langevin", "saga", "location"), STEP_SIZES["location"], strict=True
    ):
        ((mean, covariance),) = law_of("langevin", "saga", "location", found)
        variance = memory_laws.saga_location_variance(n, lam, h, T)
        np.testing.assert_allclose(mean[:2], rows.mean, rtol=EXACT)
        np.testing.assert_allclose(covariance[:2, :2], variance * np.eye(2), rtol=EXACT, atol=EXACT)
        # Each entry of the table is spread as the position is.
        entries = np.eye(2) * variance / NOISE_SCALE**4
        for i in range(n):
            own = slice(2 + 2 * i, 4 + 2 * i)
            np.testing.assert_allclose(covariance[own, own], entries, rtol=EXACT, atol=EXACT)
        assert variance > (1 + (h * lam) ** 2) * lyapunov.langevin_variances(lam, h, T)[0, 0]


@pytest.mark.parametrize("name", WITH_CLOSED_FORM)
def test_control_variates_have_the_law_worked_out_by_hand(x64, name):
    curvatures = INPUTS[:3, 0] ** 2 / NOISE_SCALE**2
    lam = curvatures.sum() + 1 / PRIOR_SCALE**2
    posterior_mean = (INPUTS[:3, 0] @ OUTPUTS[:3] / NOISE_SCALE**2) / lam
    distance = posterior_mean - CENTER[0]
    for found, h in zip(
        library_maps(name, "control_variate", "line"), STEP_SIZES["line"], strict=True
    ):
        ((mean, covariance),) = law_of(name, "control_variate", "line", found)
        expected = memory_laws.control_variate_variances(
            name, lam, 9 * curvatures.var(), distance, *numbers(name, h)
        )
        np.testing.assert_allclose(mean, [posterior_mean, 0][: len(mean)], rtol=EXACT, atol=EXACT)
        np.testing.assert_allclose(covariance, expected, rtol=EXACT, atol=EXACT)


@pytest.mark.usual_parameters("langevin-svrg", "splitting-saga", "exact-control_variate")
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("name", DYNAMICS)
def test_order_and_constant_of_the_excess(x64, name, estimator):
    """What the batches add to Var θ is, beside the full gradient's law at the same h, a constant
    times hᵏ.

    k = 1 for control variates; for SVRG and SAGA 2 under Langevin and 3 under the underdamped
    dynamics. The ratio to that term is 1 + O(h): extrapolated from three step sizes.
    """
    curvatures = INPUTS[:3, 0] ** 2 / NOISE_SCALE**2
    rows = PROBLEMS["line"]().rows
    lam, gamma = rows.precision[0, 0], None if name == "langevin" else GAMMA
    if estimator == "control_variate":
        second_moment = T / lam + (rows.mean[0] - CENTER[0]) ** 2
        leading, order = memory_laws.control_variate_excess(curvatures, second_moment / T, gamma)
    elif estimator == "svrg":
        leading, order = memory_laws.svrg_excess(curvatures, K, gamma)
    else:
        leading, order = memory_laws.saga_excess(curvatures, gamma)
    assert order == {"control_variate": 1}.get(estimator, 2 if name == "langevin" else 3)

    ratios = []
    for found, h in list(
        zip(library_maps(name, estimator, "line"), STEP_SIZES["line"], strict=True)
    )[1:]:
        variance = law_of(name, estimator, "line", found)[0][1][0, 0]
        excess = variance / full_covariance(name, rows.precision, h)[0, 0] - 1
        ratios.append(excess / (leading * h**order))
    first = [2 * fine - coarse for coarse, fine in itertools.pairwise(ratios)]
    assert ratios[-1] == pytest.approx(1, abs=0.03)
    assert (4 * first[1] - first[0]) / 3 == pytest.approx(1, abs=3e-4)
