"""Errors of corrections: algebra by least squares, unbiased expectations, how errors cover."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks.answers import check_errors
from ewsg_jax.answers.check import settings, stein
from ewsg_jax.answers.check.correction import Correction
from ewsg_jax.answers.check.crossfit import (
    CrossFit,
    fitted,
    groups,
    jackknife,
    spread_of,
    standardised,
)

KEY = jax.random.key(0)


def with_one(functions):
    return np.column_stack([np.ones(len(functions)), functions])


def test_coefficients_are_those_of_least_squares_on_other_folds():
    rng = np.random.default_rng(0)
    functions = rng.normal(size=(83, 6)) @ rng.normal(size=(6, 6))
    targets = rng.normal(size=(83, 3))
    fit = CrossFit(functions, functions)
    coefficients = fit.coefficients(targets)
    predicted, again = fit.predicted(coefficients)
    assert again is predicted
    for fold, own in zip(groups(83, settings.FOLDS), coefficients, strict=True):
        others = np.delete(np.arange(83), np.arange(83)[fold])
        expected = np.linalg.lstsq(with_one(functions[others]), targets[others])[0][1:]
        np.testing.assert_allclose(own, expected, atol=1e-9)
        np.testing.assert_allclose(predicted[fold], functions[fold] @ expected, atol=1e-8)
    # The variance of an intercept over that of a mean, less 1.
    design = with_one(functions)
    np.testing.assert_allclose(
        fit.stretch, 83 * np.linalg.inv(design.T @ design)[0, 0] - 1, rtol=1e-8
    )


def test_a_fit_is_least_squares_of_each_function():
    rng = np.random.default_rng(1)
    targets, one, other = rng.normal(size=(3, 400, 5))
    found = fitted(targets + one, [(one, one), (other, other)], 400)
    for k in range(5):
        design = np.column_stack([np.ones(400), one[:, k], other[:, k]])
        expected, (squares,) = np.linalg.lstsq(design, targets[:, k] + one[:, k])[:2]
        np.testing.assert_allclose(
            [found.expectation[k], *found.coefficients[k]], expected, atol=1e-9
        )
        np.testing.assert_allclose(found.residual[k] ** 2, squares / 400)
        left = targets[:, k] + one[:, k] - design @ expected
        # With each draw a group of its own: White's errors.
        half = np.linalg.inv(design.T @ design)
        white = np.sqrt((half @ (design.T * left**2) @ design @ half)[0, 0])
        np.testing.assert_allclose(found.error[k], white * 400 / 397, rtol=1e-9)


def test_functions_that_say_the_same_share_their_part():
    rng = np.random.default_rng(2)
    one = rng.normal(size=(300, 2))
    found = fitted(3 + 2 * one, [(one, one), (one, one), (5 * one, 5 * one)], 32)
    np.testing.assert_allclose(found.expectation, 3)
    np.testing.assert_allclose(found.residual, 0, atol=1e-7)


@pytest.mark.full
def test_many_functions_leave_no_bias():
    """If residuals go with the functions' size, least squares have a bias of the order d/m."""
    d, count, rng = 60, 150, np.random.default_rng(3)
    ours, least = [], []
    for _ in range(100):
        g = rng.standard_normal((count, d))
        f = (np.sum(g**2, axis=1) - d)[:, None] / np.sqrt(2 * d)
        fit = CrossFit(g, g)
        ours.append(fitted(f, [fit.predicted(fit.coefficients(f))], 32).expectation[0])
        least.append(np.linalg.lstsq(with_one(g), f)[0][0, 0])
    assert abs(np.mean(ours)) < 5 * np.std(ours) / 10
    assert abs(np.mean(least)) > 5 * np.std(least) / 10, (
        "least squares are biased here: else this shows nothing"
    )


def test_the_identity_of_a_scale_has_no_bias():
    """Its mean is 0; with the mean of the same draws it would be 1/m: over five of its errors."""
    rng = np.random.default_rng(4)
    found = []
    for _ in range(30):
        draws = rng.standard_normal((40, 400))
        found.append(Correction(draws, draws, draws, 0.0)._of_scale[0].mean())
    error = np.std(found) / 30**0.5
    assert abs(np.mean(found)) < 5 * error < 1 / 40


def test_what_outliers_make_hides_nothing():
    values = np.ones((1_000, 2)) + np.random.default_rng(5).normal(size=(1_000, 2))
    values[3, 1] = 1e90
    size = spread_of(values)
    assert size[0] == pytest.approx(1, rel=0.1)
    assert size[1] == pytest.approx(10, rel=0.2)
    assert standardised(values, values)[1] > 1e80


def test_noise_of_batches_is_no_spread():
    rng = np.random.default_rng(6)
    value = 1 + rng.normal(size=(20_000, 1))
    first, second = (value + rng.normal(size=value.shape) for _ in range(2))
    np.testing.assert_allclose(standardised(first, second), 1, rtol=0.05)


def test_the_response_of_a_scale():
    """The change of E[g u]: 2 for a normal, 2ν/(ν + 3) for Student's t; it gives 10 % as 10 %."""
    rng = np.random.default_rng(7)
    for draws, gradient, right in (
        (rng.standard_normal((8, 20_000, 1)), lambda u: u, 2.0),
        (rng.standard_t(5, size=(8, 20_000, 1)), lambda u: 6 * u / (5 + u**2), 1.25),
    ):
        wide = 1.1 * draws
        score = stein.scores_of(stein.by_halves(wide, gradient(wide), None, True), 0.02).worst["u"]
        assert score.response == pytest.approx(right, rel=0.1)
        assert score.effect / score.response == pytest.approx(0.1, abs=0.015)


def test_errors_are_no_smaller_than_rounding():
    draws = np.random.default_rng(8).standard_normal((1_000, 3)) * 1.1
    found = Correction(draws, draws, draws, 0.2).moments
    np.testing.assert_allclose(found.sd_error, settings.MIN_ERROR, rtol=0.2)
    np.testing.assert_allclose(found.mean_error / found.sd, settings.MIN_ERROR, rtol=0.2)
    np.testing.assert_allclose(found.sd, 1, atol=settings.MIN_ERROR)


@pytest.mark.full
@pytest.mark.parametrize("kind", check_errors.KINDS)
def test_errors_cover(kind):
    """A slice of `docs/check_errors.md`: of wide draws a third was over three errors, worst 37."""
    found = check_errors.cell("hierarchical", 86, 1_000, kind, 2)
    assert max(found["beyond_three"]) <= 0.02
    assert max(found["worst"]) < 8
    assert found["wrong"] == (0 if kind == "none" else 2)


class Ridge:
    """y = ab + noise, an over-parametrised mean with a ridge; draws and moments by a grid."""

    ends, count = 4.5, 900

    def __init__(self):
        self.rows = np.full(40, 1.0)
        side = np.linspace(-self.ends, self.ends, self.count)
        a, b = np.meshgrid(side, side, indexing="ij")
        log = -20 * 0.5 * (1.0 - a * b) ** 2 - 0.5 * (a**2 + b**2)
        mass = np.exp(log - log.max()).ravel()
        mass /= mass.sum()
        rng = np.random.default_rng(9)
        chosen = rng.choice(len(mass), size=4_000, p=mass)
        cell = side[1] - side[0]
        draws = np.stack([a.ravel()[chosen], b.ravel()[chosen]], axis=1)
        self.draws = (draws + cell * (rng.random(draws.shape) - 0.5)).reshape(8, 500, 2)
        self.square = float(mass @ (a**2).ravel())
        self.sd = float(np.sqrt(self.square))
        self.posterior = ewsg.Posterior(
            lambda p, row: -0.25 * (row - p[0] * p[1]) ** 2, lambda p: -0.5 * jnp.sum(p**2)
        )


@pytest.mark.usual_parameters("1.1")
@pytest.mark.parametrize("scale", [1.0, 1.05, 1.1, 1.2, 1.5])
def test_a_ridge_is_corrected_within_errors_or_not_at_all(scale):
    ridge = Ridge()
    report = ewsg.check(KEY, scale * ridge.draws, ridge.posterior, ridge.rows)
    assert ("report.corrected" in report.verdict) <= (report.corrected is not None)
    if report.corrected is None:
        assert report.not_corrected in repr(report)
        return
    found, error = report.expectation(lambda p: p[0] ** 2)
    assert abs(found - ridge.square) < 4 * error
    np.testing.assert_array_less(abs(report.corrected.sd - ridge.sd), 4 * report.corrected.sd_error)
    assert report.outcome == "wrong" or scale < 1.05


def test_what_is_not_known_is_not_advised():
    """Draws on a ridge, three times as wide: the reason, instead of wrong numbers."""
    ridge = Ridge()
    report = ewsg.check(KEY, 3 * ridge.draws, ridge.posterior, ridge.rows)
    assert report.outcome == "wrong"
    assert report.corrected is None
    assert "a target that is not normal" in report.not_corrected
    assert "report.corrected" not in report.verdict
    assert report.not_corrected in repr(report)


@pytest.mark.parametrize("noise", [0.0, 0.5], ids=["all rows", "batches"])
def test_errors_are_nearly_those_of_fits_without_a_group(noise):
    """The influence of groups is linear; leaving each out, by a fit each, says the same."""
    rng, count, num_groups = np.random.default_rng(10), 4_000, 32
    true = rng.standard_t(6, size=(2, count, 4))
    pairs = []
    for one in true:
        first = one + noise * rng.standard_normal(one.shape)
        pairs.append((first, one + noise * rng.standard_normal(one.shape) if noise else first))
    targets = 2 * true[0] - true[1] + np.abs(rng.standard_normal((count, 4)))
    # Draws of a group have something in common, as those of a chain that forgets slowly.
    parts = groups(count, num_groups)
    targets += 0.3 * np.repeat(
        rng.standard_normal((num_groups, 4)), [len(targets[part]) for part in parts], axis=0
    )
    found = fitted(targets, pairs, num_groups)
    for k in range(4):
        first, second = (
            with_one(np.stack([pair[i][:, k] for pair in pairs], axis=1)) for i in (0, 1)
        )
        both = (first + second) / 2
        exact = []
        for part in parts:
            a, b, m, t = (
                np.delete(each, np.arange(count)[part], axis=0)
                for each in (first, second, both, targets)
            )
            exact.append(np.linalg.solve((a.T @ b + b.T @ a) / 2, m.T @ t[:, k])[0])
        np.testing.assert_allclose(found.error[k], jackknife(np.array(exact)), rtol=0.05)


def test_squares_that_overflow_are_of_functions_in_other_units():
    rng = np.random.default_rng(11)
    targets, one, other = rng.normal(size=(3, 400, 2))
    right = fitted(targets + one, [(one, one), (other, other)], 32)
    found = fitted(targets + one, [(1e200 * one, 1e200 * one), (other, other)], 32)
    np.testing.assert_allclose(found.expectation, right.expectation, rtol=1e-12)
    np.testing.assert_allclose(found.error, right.error, rtol=1e-9)
    np.testing.assert_allclose(found.coefficients * [1e200, 1], right.coefficients, rtol=1e-9)
