"""What a plan predicts of candidates: their laws and noise by formula, and by forecasts."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import ewsg_jax as ewsg
from ewsg_jax.answers.forecast.stationary import (
    covariance_at_geometric_age,
    covariance_at_uniform_age,
)
from ewsg_jax.answers.plan.candidate_table import CandidateTable
from ewsg_jax.answers.plan.candidates import Candidate, candidates_for, plannable_methods
from ewsg_jax.answers.plan.minibatch_noise import measure_noise
from ewsg_jax.answers.plan.run_requirements import burn_in_steps, steps_for_ess
from ewsg_jax.answers.plan.scheme_errors import scheme_forecasts
from ewsg_jax.answers.plan.whitening import Whitening
from tests.answers.plan.test_plan import (
    COVARIANCE,
    KEY,
    LINEAR,
    MEAN,
    MODE,
    REQUIREMENTS,
    ROWS,
    SD,
    WHITENING,
    N,
    X,
    a_mode,
)


def test_the_law_of_langevin_dynamics_is_the_formula_s():
    """Var θ = (2 + h λ)/(2 − h), of autocorrelation (1 − h)^lag; E(θ − ω)² = 2 Var (1 − mean of
    these).
    """
    found = scheme_forecasts("langevin", 1.0)
    assert len(found) > 10
    for scheme in found:
        h = scheme.step_size
        rho = 1 - h
        np.testing.assert_allclose(scheme.variance, 2 / (2 - h), rtol=1e-6)
        np.testing.assert_allclose(scheme.noise_response, h / (2 - h), rtol=1e-5)
        np.testing.assert_allclose(scheme.time, max((1 + rho) / (1 - rho), 1), rtol=1e-5)
        ages = rho ** np.arange(7)
        apart = scheme.squared_distance(
            covariance_at_uniform_age(scheme.matrix, scheme.covariance, 7)
        )
        np.testing.assert_allclose(apart, 2 * scheme.variance * (1 - ages.mean()), rtol=1e-4)
        rate, lags = 0.3, np.arange(1, 200)
        share = rate * (1 - rate) ** (lags - 1)
        apart = scheme.squared_distance(
            covariance_at_geometric_age(scheme.matrix, scheme.covariance, rate)
        )
        np.testing.assert_allclose(apart, 2 * scheme.variance * (1 - share @ rho**lags), rtol=1e-4)


def test_a_mean_is_moved_by_how_wide_the_gradient_sees():
    """Splitting asks for the gradient half a step on: E(θ + hp/2)²; Langevin where it is."""
    for scheme in scheme_forecasts("langevin", 1.0):
        np.testing.assert_allclose(scheme.evaluation_variance, scheme.variance, rtol=1e-6)
    for scheme in scheme_forecasts("splitting", 1.0):
        ahead = np.array([1, scheme.step_size / 2])
        np.testing.assert_allclose(
            scheme.evaluation_variance, ahead @ scheme.covariance @ ahead, rtol=1e-5
        )


def test_letters_are_off_by_batches_alone():
    """Var θ = 1, κ = h²/4 coth(γh/2), 1/(1 − q) where the gradient is wanted, q = h²/4. BAOAB: κ/(1
    − q), and 1.
    """
    for name, is_wider in (("ABOBA", True), ("BAOAB", False)):
        found = scheme_forecasts(name, 1.0)
        assert len(found) > 60
        for scheme in found:
            h, gamma, q = scheme.step_size, scheme.friction, scheme.step_size**2 / 4
            heat = h**2 / 4 / np.tanh(gamma * h / 2)
            np.testing.assert_allclose(scheme.variance, 1, rtol=1e-9)
            np.testing.assert_allclose(
                scheme.noise_response, heat / (1 if is_wider else 1 - q), rtol=1e-6
            )
            np.testing.assert_allclose(
                scheme.evaluation_variance, 1 / (1 - q) if is_wider else 1, rtol=1e-9
            )


@pytest.mark.full
def test_the_mean_of_a_skewed_posterior_is_as_far_off_as_told():
    """V = eᶿ − aθ: θ = log of a Gamma variable of shape a; its chain's mean against that of tiny
    steps.
    """
    gamma = ewsg.Posterior(lambda w, x: w * x - jnp.exp(w) / 8, lambda w: 0.0)
    data, shape = jnp.full(8, 6.0 / 8), 6.0
    mean, sd = special.digamma(shape), np.sqrt(special.polygamma(1, shape))
    mode = a_mode(gamma, jnp.zeros(()), data)
    whitening = Whitening.of_covariance(mode, jnp.asarray(mean), np.array([[sd**2]]))
    wanted = dataclasses.replace(REQUIREMENTS, tolerance=0.07)
    choice = CandidateTable(
        gamma,
        whitening,
        data,
        whitening.draw_places(KEY, 64, 1.0),
        candidates_for(gamma, ("uld",)),
        1.0,
        wanted,
    )
    run = {"num_chains": 8_000, "burn_in": 40}
    found = {}
    for told in [
        each for each in choice.forecasts if each.candidate.dynamics in ("splitting", "BAOAB")
    ]:
        samples = ewsg.sample(
            KEY, choice.kernel(told), jnp.asarray(mean, jnp.float32), data, 240, **run
        )
        found[told.candidate.dynamics] = (
            told,
            abs(np.asarray(samples.draws, float).mean() - mean) / sd,
        )
    told, off = found["splitting"]
    assert told.mean_error > 0.01
    assert 0.7 * told.mean_error < off < 1.4 * told.mean_error
    # BAOAB sees where it is, as wide as it should be.
    other, its_off = found["BAOAB"]
    assert other.step_size >= told.step_size
    assert its_off < 0.1 * off
    assert other.mean_error < 1e-6


def test_the_splitting_s_law_and_memory():
    """By listing the lags of its own linear step: means as Geyer's pairs count them, which end
    where it swings to the other side; squares over all lags.
    """
    scheme = min(
        scheme_forecasts("splitting", 1.0),
        key=lambda each: abs(each.step_size - 0.35) + abs(each.friction - 0.7),
    )
    lags = [np.linalg.matrix_power(scheme.matrix, k) @ scheme.covariance for k in range(400)]
    rho = np.array([x[0, 0] for x in lags]) / scheme.variance
    pairs = rho[::2] + rho[1::2]
    counted = 2 * pairs[: np.argmax(pairs < 0)].sum() - 1
    assert counted > 1.5 * (2 * rho.sum() - 1)
    np.testing.assert_allclose(scheme.time, max(counted, 2 * (rho**2).sum() - 1), rtol=1e-6)
    kicked = np.zeros((2, 2))
    kicked[1, 1] = scheme.covariance[1, 1]
    assert 0.95 < scheme.variance < 1
    assert scheme.covariance[1, 1] > 0.9


@pytest.mark.parametrize(("dynamics", "power"), [("splitting", 0.5), ("langevin", 1.0)])
def test_steps_end_below_what_a_wall_allows(dynamics, power):
    """Stable is h < 2 λ^-½ (more with friction), of Langevin dynamics h < 2/λ; 0.7 of it, or its
    square.
    """
    for wall in (4.0, 9.0, 900.0):
        largest = max(scheme.step_size for scheme in scheme_forecasts(dynamics, wall))
        bound = 0.7 ** (2 * power) * 2 / wall**power
        assert bound / 2**0.5 < largest * (1 + 1e-9) <= 1.02 * bound


@pytest.mark.usual_parameters("random-uniform", "leverage-control_variate")
@pytest.mark.parametrize("estimator", ["uniform", "control_variate"])
@pytest.mark.parametrize("rows", ["random", "leverage"])
def test_noise_is_that_of_the_rows_by_formula(estimator, rows):
    """Var(C g)ⱼ/Cⱼⱼ = (Σᵢ E(C gᵢ)ⱼ²/pᵢ − E(C Σ gᵢ)ⱼ²)/(b Cⱼⱼ), δ ~ N(0, C) for the mean and at each
    point.
    """
    scheme = WHITENING.leverage(LINEAR, ROWS) if rows == "leverage" else None
    p = np.full(N, 1 / N) if scheme is None else np.asarray(scheme.probabilities, float)
    turned = X @ COVARIANCE
    lengths = np.einsum("ij,ij->i", turned, X)
    # gᵢ = xᵢ(xᵢᵀδ − rᵢ) with the residual r at the mode, and none for control variates.
    residual = (ROWS["y"] - X @ MEAN) * (estimator == "uniform")
    square = (turned**2 * ((lengths + residual**2) / p)[:, None]).sum(0)
    inner = COVARIANCE @ (X.T @ X) @ COVARIANCE @ (X.T @ X) @ COVARIANCE
    mean = np.diag(inner) + (turned.T @ residual) ** 2
    told = (square - mean) / SD**2
    way = Candidate("langevin", estimator, rows)
    made = way.make_estimator(LINEAR, 8, WHITENING, scheme or "random")
    found = measure_noise(made, 8, WHITENING, WHITENING.draw_places(KEY, 4_000, 1.0), ROWS)
    np.testing.assert_allclose(found.coordinates, told, rtol=0.1)
    # Of directions: Σᵢ E gᵢgᵢᵀ/pᵢ less the mean's, in coordinates in which the posterior is N(0,
    # I).
    root = np.linalg.cholesky(COVARIANCE)
    rows = X @ root
    whole = (rows * ((lengths + residual**2) / p)[:, None]).T @ rows
    inner = root.T @ (X.T @ X) @ COVARIANCE @ (X.T @ X) @ root + np.outer(
        rows.T @ residual, rows.T @ residual
    )
    np.testing.assert_allclose(found.largest, np.linalg.eigvalsh(whole - inner)[-1], rtol=0.1)


def test_noise_along_no_coordinate_is_seen():
    """Rows that differ along (1, …, 1) alone: eight times the noise of a coordinate there."""
    model = ewsg.models.gaussian_location()
    rows = np.outer(np.random.default_rng(4).normal(size=200), np.ones(8)).astype(np.float32)
    mode = a_mode(model, jnp.zeros(8), rows)
    whitening = Whitening.at_mode(mode)
    made = Candidate("langevin", "uniform", "random").make_estimator(model, 8, whitening, "random")
    found = measure_noise(
        made, 8, whitening, whitening.draw_places(KEY, 4_000, 1.0), jnp.asarray(rows)
    )
    np.testing.assert_allclose(found.coordinates, 200 * rows[:, 0].var(), rtol=0.1)
    np.testing.assert_allclose(found.largest, 8 * 200 * rows[:, 0].var(), rtol=0.15)


@pytest.mark.full
def test_what_candidates_are_told_is_what_a_forecast_of_their_kernels_tells():
    """Another reckoning: Jacobians of the whole kernel and a Lyapunov equation in d dimensions."""
    methods = plannable_methods()
    choice = CandidateTable(
        LINEAR,
        WHITENING,
        ROWS,
        WHITENING.draw_places(KEY, 2_000, 1.0),
        list(dict.fromkeys(candidates_for(LINEAR, None) + candidates_for(LINEAR, methods))),
        1.0,
        REQUIREMENTS,
    )
    judged = {}
    for forecast in choice.forecasts:
        if forecast.why_not or forecast.candidate.dynamics not in ("BAOAB", "langevin"):
            continue
        told = ewsg.forecast(choice.kernel(forecast), MODE, ROWS)
        ratio = np.sqrt(np.asarray(told.variance_ratio))
        still = np.sqrt(
            next(
                scheme.variance
                for scheme in scheme_forecasts(forecast.candidate.dynamics, 1.0)
                if (scheme.step_size, scheme.friction) == (forecast.step_size, forecast.friction)
            )
        )
        # A candidate's errors are added: the scheme's, and the worst coordinate's heat.
        off = abs(still - 1) + ratio.max() - still
        judged[str(forecast.candidate)] = (
            forecast.sd_error / off if off > 1e-5 else 1 + forecast.sd_error
        )
        assert (
            abs(
                forecast.passes
                - 8
                * told.passes_per_step
                * (burn_in_steps(forecast.time) + steps_for_ess(forecast.time, REQUIREMENTS.ess, 8))
            )
            < 8 * (1 + told.passes_at_start) + 0.05 * forecast.passes
        )
    assert len(judged) >= 14
    assert all(0.75 < value < 1.35 for value in judged.values()), judged
