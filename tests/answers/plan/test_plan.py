"""Whole plans against quadrature: which kernel, from where and how long."""

import dataclasses
import gc
import io
import itertools
import sys
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.plan import settings, stiff_directions
from ewsg_jax.answers.plan.candidate_table import CandidateTable
from ewsg_jax.answers.plan.candidates import PLANNED_ESTIMATORS, candidates_for, plannable_methods
from ewsg_jax.answers.plan.run_requirements import RunRequirements, ess_for_tolerance
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.base.progress import Clock
from ewsg_jax.draws import convergence
from ewsg_jax.kernels.in_coordinates import InCoordinates

KEY = jax.random.key(0)
RNG = np.random.default_rng(4)
N = 600
X = RNG.normal(size=(N, 3)) @ [[1.0, 0.8, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 20.0]]
ROWS = {
    "x": X.astype(np.float32),
    "y": (X @ [0.3, -0.5, 0.02] + RNG.normal(size=N)).astype(np.float32),
}
LINEAR = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=5.0)
COVARIANCE = np.linalg.inv(X.T @ X + np.eye(3) / 25)
MEAN = COVARIANCE @ X.T @ ROWS["y"]
SD = np.sqrt(np.diag(COVARIANCE))
LOGISTIC = ewsg.models.logistic_regression(prior_scale=3.0)
REQUIREMENTS = RunRequirements(0.05, 5_000.0, 8, None, 2**30, is_restricted=True)


def a_mode(model, start, data):
    return ewsg.find_mode(KEY, model, start, data, progress=False)


MODE = a_mode(LINEAR, jnp.zeros(3), ROWS)
WHITENING = Whitening.at_mode(MODE)


@pytest.fixture(scope="module")
def planned():
    return ewsg.plan(KEY, LINEAR, jnp.zeros(3), ROWS)


@pytest.mark.full
def test_the_cheapest_that_is_right_is_taken(planned):
    right = [each for each in planned.table if not each.why_not]
    assert planned.table[0] is right[0]
    assert right[0].cost == min(each.cost for each in right)
    assert all(each.sd_error <= 0.025 and each.mean_error <= 0.05 for each in right)
    full = [way for way in candidates_for(LINEAR, None) if way.estimator == "full"]
    assert {str(each.candidate) for each in planned.table} == {str(way) for way in full}


def test_a_normal_posterior_needs_no_chain(planned):
    gaussian = planned.gaussian
    assert gaussian.is_right
    assert gaussian.is_normal
    assert planned.report is None
    np.testing.assert_allclose((np.asarray(gaussian.mean) - MEAN) / SD, 0, atol=0.01)
    np.testing.assert_allclose(np.asarray(gaussian.sd) / SD, 1, atol=0.01)
    assert "without a chain" in repr(planned)
    # What it took: the search for the mode, and gradients at draws of the approximation.
    assert planned.data_passes_spent == planned.mode.data_passes + gaussian.report.data_passes > 0


def test_a_planned_run_is_right(planned):
    passes = planned.data_passes()
    run = {"data_passes": passes, "num_chains": 8, "burn_in": planned.burn_in, "progress": False}
    samples = ewsg.sample(KEY, planned.kernel, planned.start, ROWS, **run)
    draws = np.asarray(samples.position, float).reshape(-1, 3)
    np.testing.assert_allclose(draws.std(0) / SD, 1, atol=0.05)
    np.testing.assert_allclose((draws.mean(0) - MEAN) / SD, 0, atol=0.1)
    # What is promised of the run's length: so many effective draws, of means and of squares.
    values = draws.reshape(8, -1, 3)
    for each in (values, (values - draws.mean(0)) ** 2):
        ess = convergence.ess(each)
        assert 0.75 * planned.ess < np.min(ess) < 1.6 * planned.ess
    assert abs(samples.data_passes - passes) <= planned.cost.per_step / N


def test_passes_follow_from_the_draws_that_are_asked_for(planned):
    few, many = planned.data_passes(ess=500), planned.data_passes(ess=5_000)
    per_step = planned.cost.per_step / N
    wanted = 4_500 * planned.autocorrelation_time / 8 * per_step
    assert many - few == pytest.approx(wanted, rel=0.01)
    # Burn-in is among them, and no run is shorter than it.
    least = planned.cost.at_init + planned.cost.of_steps(0, planned.burn_in)
    assert planned.data_passes(ess=1e-6) == pytest.approx(
        (least + 16 * planned.cost.per_step) / N, rel=1e-6
    )
    # Three standard errors of a sd, 1/√(2 ESS) each, are half of the tolerance.
    assert ess_for_tolerance(0.05) == np.ceil((3.3 / 0.025) ** 2 / 2)


def test_starts_are_wider_than_the_posterior(planned):
    starts = np.asarray(jax.vmap(planned.start)(jax.random.split(KEY, 4_000)), float)
    np.testing.assert_allclose(starts.std(0) / SD, 1.5, rtol=0.06)
    np.testing.assert_allclose((starts.mean(0) - MEAN) / SD, 0, atol=0.12)


@pytest.mark.full
def test_methods_and_batches_may_be_restricted():
    found = ewsg.plan(
        KEY, LINEAR, jnp.zeros(3), ROWS, mode=MODE, methods=("sgld", "cv_ld"), batch_size=32
    )
    pairs = {(each.candidate.dynamics, each.candidate.estimator) for each in found.table}
    assert pairs == {("langevin", "uniform"), ("langevin", "control_variate")}
    assert {each.batch_size for each in found.table} == {32}
    assert "batch_size=32" in repr(found.kernel)
    assert {"sgld", "sghmc", "uld", "saga_ld", "cv_uld"} <= set(plannable_methods())
    assert not {"ewsg", "flymc", "psgld"} & set(plannable_methods())


@pytest.mark.full
def test_the_rows_own_curvatures_bound_the_steepest():
    """Above the Hessian's largest eigenvalue at every place, below ¼ XᵀX's."""
    # Seldom 0: curvatures are small at the mode, and larger where a row's predictor is nearer to 0.
    inputs = np.column_stack([np.ones(N), X[:, :2]]).astype(np.float32)
    labels = {"x": inputs, "y": (RNG.random(N) < 0.98).astype(np.float32)}
    mode = a_mode(LOGISTIC, jnp.zeros(3), labels)
    whitening = Whitening.at_mode(mode)
    places = jnp.concatenate([whitening.draw_places(KEY, 8, width) for width in (4.0, 0.1)])
    root = np.linalg.cholesky(np.asarray(mode.covariance))
    bound = stiff_directions.stiffest_direction(LOGISTIC, whitening, places, labels).curvature

    def potential(w):
        each = jax.vmap(LOGISTIC.log_likelihood, (None, 0))(w, labels)
        return -(each.sum() + LOGISTIC.log_prior(w))

    hessians = jax.vmap(jax.hessian(potential))(mode.position + places)
    met = max(np.linalg.eigvalsh(root.T @ np.asarray(h, float) @ root)[-1] for h in hessians)
    whole = root.T @ (labels["x"].T @ labels["x"] / 4 + np.eye(3) / 9) @ root
    assert met * (1 - 1e-4) <= bound <= np.linalg.eigvalsh(whole)[-1] * (1 + 1e-4)
    # And where a model has no predictor the curvature itself is looked at, at some of them.
    plain = ewsg.Posterior(LOGISTIC.log_likelihood, LOGISTIC.log_prior)
    assert stiff_directions.stiffest_direction(
        plain, whitening, places, labels
    ).curvature <= met * (1 + 1e-3)


@pytest.mark.full
def test_a_wall_that_no_place_is_on_is_seen_between_them():
    """A row of x = 1e3 is steep for |w| < 1e-2 alone: ¼ x², where places are at ±1."""
    rows = {"x": np.float32([[1e3]]), "y": np.float32([0.0])}
    whitening = Whitening(jnp.zeros(1), jnp.eye(1), mode=None)
    found = stiff_directions.stiffest_direction(
        LOGISTIC, whitening, np.float32([[1.0], [-1.0]]), rows
    ).curvature
    assert found == pytest.approx(0.25e6, rel=0.01)


def rare_column(rows=2_000, few=2, size=400.0):
    """A logistic regression with one column of zeros but for a few rows, all without a success."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(rows), rng.normal(size=rows), np.zeros(rows)])
    x[:few, 2] = size
    y = rng.random(rows) < 1 / (1 + np.exp(0.3 - 0.4 * x[:, 1]))
    y[:few] = False
    return {"x": x.astype(np.float32), "y": y.astype(np.float32)}


@pytest.mark.full
def test_a_posterior_on_one_side_of_a_wall_is_planned():
    """Against quadrature: of the third weight its prior's half, behind a wall of width 1 / 400."""
    rows = rare_column()
    model = ewsg.models.logistic_regression(prior_scale=1.0)
    x, y = (each.astype(np.float64) for each in (rows["x"], rows["y"]))
    # Fine near the wall, and the others' grid about their mode.
    third = np.unique(np.r_[np.linspace(-5, 0.1, 1_500), np.linspace(-0.05, 0.05, 500)])
    one, two = np.meshgrid(np.linspace(-0.6, 0.1, 41), np.linspace(0.1, 0.8, 41), indexing="ij")
    whole = sum(
        label * eta - np.logaddexp(0, eta)
        for (_, slope, rare), label in zip(x, y, strict=True)
        if rare == 0
        for eta in [one + slope * two]
    )
    log_density = (whole - 0.5 * (one**2 + two**2))[..., None] - 0.5 * third**2
    for _, slope, size in x[x[:, 2] != 0]:
        log_density -= np.logaddexp(0, (one + slope * two)[..., None] + size * third)
    weight = np.exp(log_density - log_density.max()) * np.gradient(third)
    weight /= weight.sum()
    mean = (weight * third).sum()
    sd = ((weight * third**2).sum() - mean**2) ** 0.5

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        plan = ewsg.plan(KEY, model, jnp.zeros(3), rows)
        run = {"data_passes": plan.data_passes(ess=2_000), "burn_in": plan.burn_in}
        samples = ewsg.sample(
            jax.random.key(1), plan.kernel, plan.start, rows, num_chains=8, progress=False, **run
        )
    assert plan.is_trusted, plan.doubts
    draws = np.asarray(samples.position, np.float64)[..., 2]
    assert (draws.mean() - mean) / sd == pytest.approx(0, abs=0.15)
    assert draws.std() / sd == pytest.approx(1, abs=0.08)


def test_a_prior_is_steep_too():
    """A linear regression is as steep anywhere as at its mode, 1 in its coordinates: here that is
    the prior's.
    """
    model = ewsg.models.linear_regression(prior_scale=1e-3)
    mode = a_mode(model, jnp.zeros(3), ROWS)
    whitening = Whitening.at_mode(mode)
    found = stiff_directions.stiffest_direction(
        model, whitening, whitening.draw_places(KEY, 8, 1.0), ROWS
    ).curvature
    assert found == pytest.approx(1.0, rel=1e-4)


def quadrature(potential, axes):
    """Means and sds of exp(−V) on a grid."""
    points = np.array(list(itertools.product(*axes)))
    value = np.asarray(jax.vmap(potential)(jnp.asarray(points, jnp.float32)), float)
    weight = np.exp(-(value - value.min()))
    weight /= weight.sum()
    mean = weight @ points
    return mean, np.sqrt(weight @ (points - mean) ** 2)


def skewed():
    """Few rows, of which a column separates the classes: one steep side, one held by the prior
    alone.
    """
    x = np.stack([np.linspace(-1, 1, 24), np.r_[np.zeros(18), np.full(6, 3.0)]], axis=1)
    return {
        "x": x.astype(np.float32),
        "y": np.r_[np.tile([0.0, 1.0], 9), np.ones(6)].astype(np.float32),
    }


@pytest.mark.full
def test_a_posterior_that_is_far_from_normal_is_planned_by_trials():
    data = skewed()

    def potential(w):
        return -(
            jax.vmap(LOGISTIC.log_likelihood, (None, 0))(w, data).sum() + LOGISTIC.log_prior(w)
        )

    mean, sd = quadrature(potential, [np.linspace(-4, 4, 161), np.linspace(-2, 13, 301)])
    plan = ewsg.plan(KEY, LOGISTIC, jnp.zeros(2), data)
    assert plan.report is not None
    assert plan.report.outcome != "wrong"
    assert any("not near normal" in note for note in plan.notes)
    assert any("stiff directions" in note and "along position[1]," in note for note in plan.notes)
    passes = plan.data_passes()
    samples = ewsg.sample(
        KEY,
        plan.kernel,
        plan.start,
        data,
        data_passes=passes,
        num_chains=8,
        burn_in=plan.burn_in,
        progress=False,
    )
    draws = np.asarray(samples.position, float).reshape(-1, 2)
    np.testing.assert_allclose(draws.std(0) / sd, 1, atol=0.05)
    np.testing.assert_allclose((draws.mean(0) - mean) / sd, 0, atol=0.1)


@pytest.mark.full
def test_where_the_mode_has_no_widths_chains_find_them():
    """V = Σ θ⁴ has no curvature at its mode: E θ⁴ = 1/4 in each coordinate."""
    flat = ewsg.Posterior(lambda w, x: -jnp.sum(w**4) * x, lambda w: 0.0)
    data = jnp.full(40, 1 / 40)
    plan = ewsg.plan(KEY, flat, jnp.full(2, 0.5), data, max_passes=5_000)
    assert plan.gaussian is None
    assert plan.is_trusted
    assert any("in coordinates by the draws of a warm-up" in note for note in plan.notes)
    samples = ewsg.sample(
        KEY,
        plan.kernel,
        plan.start,
        data,
        data_passes=plan.data_passes(ess=2_000),
        num_chains=8,
        burn_in=plan.burn_in,
        progress=False,
    )
    np.testing.assert_allclose(np.mean(np.asarray(samples.position) ** 4, (0, 1)), 0.25, rtol=0.15)


@pytest.mark.full
def test_many_numbers_are_planned_coordinate_by_coordinate():
    rows = jnp.asarray(RNG.normal(size=(300, 1_100)), jnp.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        plan = ewsg.plan(
            KEY, ewsg.models.gaussian_location(), jnp.zeros(1_100), rows, methods=("cv_ld", "ld")
        )
    assert plan.table[0].sd_error <= 0.025
    assert plan.gaussian is not None
    assert plan.gaussian.is_right


@pytest.mark.full
def test_a_plan_keeps_no_data(planned):
    gc.collect()
    assert not any(isinstance(each, CandidateTable) for each in gc.get_objects())


def test_a_plan_prints_and_draws(planned, tmp_path):
    lines = repr(planned).splitlines()
    assert lines[0].startswith("Plan: kernel(")
    assert sum("times the cost" in line or "taken" in line for line in lines) == len(planned.table)
    planned.plot(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").stat().st_size > 10_000
    assert "Gaussian: " in repr(planned.gaussian)


def test_the_table_says_which_candidate_is_taken(planned):
    """In other coordinates as well; NUTS is none of them, and its steps were not measured."""
    moved = InCoordinates(
        kernel=planned.kernel, posterior=LINEAR, bijector=ewsg.bijectors.identity()
    )
    assert "taken" in repr(dataclasses.replace(planned, kernel=moved))
    pytest.importorskip("blackjax")
    measured = planned.table[0]._replace(seconds=1.0)
    by_seconds = dataclasses.replace(planned, by="seconds", table=(measured,))
    assert by_seconds.seconds() > 0
    nuts = dataclasses.replace(by_seconds, kernel=ewsg.nuts(LINEAR, 0.1))
    assert "taken" not in repr(nuts)
    unfit = dataclasses.replace(by_seconds, table=(planned.table[0],))
    for plan in (nuts, unfit):
        with pytest.raises(ValueError, match=r"kernel must be one of plan\.table"):
            plan.seconds()


@pytest.mark.full
def test_a_trial_that_is_too_short_to_tell_is_no_alarm(planned):
    """And a header that says more steps than the table says why."""
    assert "by its pilot run" not in repr(planned)
    report = planned.gaussian.report
    unsure = dataclasses.replace(report, sd_ratio_error=report.sd_ratio_error + 0.1)
    wrong = dataclasses.replace(report, rhat=1.5)
    assert (unsure.outcome, wrong.outcome) == ("unsure", "wrong")
    tried = dataclasses.replace(
        planned, report=unsure, autocorrelation_time=2 * planned.autocorrelation_time
    )
    assert f"its pilot run: no bias seen in its {report.scores.ess:.0f} effective draws" in repr(
        tried
    )
    assert "Run longer" not in repr(tried).split("candidate")[0]
    assert "steps an effective draw, by its pilot run" in repr(tried)
    assert wrong.verdict in repr(dataclasses.replace(planned, report=wrong))


@pytest.mark.full
def test_where_all_rows_are_cheap_no_batches_are_compared(planned):
    """A run over all 400 rows takes less than compiling what measures the noise of batches."""
    assert {each.candidate.estimator for each in planned.table} == {"full"}
    cheapest = min(each.cost for each in planned.table)
    assert cheapest <= settings.CHEAP_ROWS
    found = CandidateTable(
        LINEAR,
        WHITENING,
        ROWS,
        WHITENING.draw_places(KEY, 64, 1.0),
        candidates_for(LINEAR, None),
        1.0,
        REQUIREMENTS,
    )
    assert {each.candidate.estimator for each in found.forecasts} == set(PLANNED_ESTIMATORS)
    free = dataclasses.replace(REQUIREMENTS, is_restricted=False)
    many = jax.tree.map(lambda x: jnp.asarray(np.concatenate(250 * [x])), ROWS)
    narrow = Whitening.of_covariance(MODE, MODE.position, np.asarray(MODE.covariance) / 250)
    found = CandidateTable(
        LINEAR,
        narrow,
        many,
        narrow.draw_places(KEY, 64, 1.0),
        candidates_for(LINEAR, None),
        1.0,
        free,
    )
    assert not found.is_cheap
    by_rows = next(each for each in found.forecasts if each.candidate.estimator == "uniform")
    assert "around a centre" in by_rows.why_not


@pytest.mark.full
def test_a_plan_is_the_same_again(planned):
    again = ewsg.plan(KEY, LINEAR, jnp.zeros(3), ROWS)
    assert again.kernel == planned.kernel
    assert again.table == planned.table


@pytest.mark.full
@pytest.mark.parametrize("progress", [True, False])
def test_a_terminal_says_what_is_under_way(monkeypatch, progress):
    terminal, said = io.StringIO(), []
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(Clock, "says", lambda clock, what: said.append(what))
    ewsg.plan(KEY, LINEAR, jnp.zeros(3), ROWS, progress=progress)
    assert said[:2] == [
        "plan: the mode is searched for",
        "plan: the normal approximation at the mode is checked",
    ]
    assert bool(terminal.getvalue()) == progress
