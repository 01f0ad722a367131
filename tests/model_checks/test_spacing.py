"""Numbers of a dtype that are far apart for the posterior: days of a calendar in float32."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.check.draws import draws_of
from ewsg_jax.answers.plan.search import MODEL_QUESTIONS, look_at_spacing
from ewsg_jax.model_checks import spacing
from ewsg_jax.vectors.layout import Layout

ANY, ROWS = ewsg.Posterior(lambda t, y: y, lambda t: t), np.zeros(4)
KEY, ALL = jax.random.key(0), np.ones(4, bool)
QUANTILES = np.random.default_rng(0).permutation(np.linspace(-3, 3, 256)).reshape(4, 64)


def judged(center, sd, dtype=np.float32):
    layout = Layout.of(np.zeros(2, dtype))
    return spacing.coarse_numbers(layout, np.array([0.0, center]), np.array([1.0, sd]), "ab")


@pytest.mark.parametrize(
    ("center", "sd", "severity"),
    [(59_000, 0.0032, "doubt"), (9_000, 0.0032, "note"), (100, 0.0032, ""), (59_000, 1.0, "")],
)
def test_days_are_judged_by_the_sd(center, sd, severity):
    findings = judged(center, sd)
    assert [finding.severity for finding in findings] == [severity] * bool(severity)
    if findings:
        assert "the sd of b is 0.0032" in findings[0].text
        assert f"difference from {center}" in findings[0].cure
    assert not judged(center, sd, np.float64)
    assert not judged(center, sd, jnp.bfloat16)


def test_draws_on_a_grid_and_draws_that_never_move():
    days = np.stack([59_000 + 0.003 * QUANTILES, QUANTILES], axis=-1).astype(np.float32)
    (coarse,) = spacing.of_draws({"t": days}, ALL)
    assert coarse.text.startswith("numbers near 59000 are 0.0039 apart in float32")
    still = np.where([True, False], np.float32(2_459_000.5), days)
    (never,) = spacing.of_draws({"t": still}, ALL)
    assert never.text.startswith("t[0] stayed at 2459000.5 in all draws of all chains")
    assert "0.25 apart" in never.text
    assert not spacing.of_draws({"t": days - np.float32([59_000, 0])}, ALL)
    assert not spacing.of_draws(days[:, :4], ALL)
    # A chain that diverged stands still, and says nothing.
    assert not spacing.of_draws({"t": still}, ~ALL)


def test_a_run_says_that_a_coordinate_never_moves():
    model = ewsg.Posterior(lambda t, y: -0.5 * (y - t) ** 2, lambda t: 0.0)
    rows = jnp.full(10_000, 2_459_000.0)
    kernel = ewsg.ld(model, 1e-5)
    with pytest.warns(RuntimeWarning, match="position stayed at 2459000 in all draws"):
        ewsg.sample(KEY, kernel, jnp.float32(2_459_000), rows, 64, num_chains=2, progress=False)


def test_corrected_means_are_those_that_float64_holds():
    """The mean of a normal target is exact whatever the draws, to less than float32's spacing."""
    days = 59_000.0015
    model = ewsg.Posterior(
        lambda t, y: y * 0.0, lambda t: (t - 59_000) * 93.75 - 0.5 * ((t - 59_000) / 0.004) ** 2
    )
    draws = (59_000 + 0.003 * QUANTILES).astype(np.float32)
    report = ewsg.check(KEY, draws, model, np.zeros(4, np.float32))
    assert report.corrected.mean.dtype == np.float64
    assert abs(report.corrected.mean - days) < 0.05 * 0.004
    assert [finding.kind for finding in report.findings] == ["spacing"]
    mean, _ = report.expectation(lambda t: t)
    assert abs(mean - days) < 0.05 * 0.004
    assert draws_of(draws, None, None).numbers(np.array([days]))[()] == days


def test_a_plan_in_days_is_not_trusted():
    days = SimpleNamespace(
        layout=Layout.of(np.float32(0)), center=np.float32(59_000), sd=np.array([0.0032])
    )
    assert look_at_spacing in [question for question, _ in MODEL_QUESTIONS]
    (finding,) = look_at_spacing(ANY, days, ROWS, None)
    assert finding.severity == "doubt"
    assert "the sd of position is 0.0032" in finding.text
