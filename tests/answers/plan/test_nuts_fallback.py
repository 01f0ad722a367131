"""NUTS, where no fixed step gets round a posterior: taken with its reason, with a budget as other
kernels have.
"""

import contextlib
import importlib.util
import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.check import kinetic
from ewsg_jax.answers.plan import (
    nuts_fallback,
    pilot_run,
    pilot_search,
    settings,
    step_time,
    warm_up,
)
from ewsg_jax.answers.plan.stiff_directions import StiffDirection
from ewsg_jax.answers.plan.whitening import Whitening
from ewsg_jax.metropolis.nuts import Nuts
from ewsg_jax.run import sample as run_sample
from ewsg_jax.run.request import num_steps_of

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
ROWS = np.random.default_rng(0).normal(1.0, 1.0, 200).astype(np.float32)
BENT = ewsg.Posterior(
    lambda p, row: -0.5 * (row - p[0] - p[1] ** 2) ** 2, lambda p: -0.5 * jnp.sum(p**2)
)
"""A ridge a + b² that bends: far narrower than long, and nowhere straight."""


def by_quadrature():
    """Means and standard deviations of BENT on a grid, float64."""
    a, b = np.meshgrid(np.linspace(-6, 3, 1_801), np.linspace(-3.5, 3.5, 1_401), indexing="ij")
    log_density = -0.5 * (a**2 + b**2)
    total, n = ROWS.astype(np.float64).sum(), len(ROWS)
    at = a + b**2
    log_density += at * total - 0.5 * n * at**2
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    means = np.array([(weight * a).sum(), (weight * b).sum()])
    squares = np.array([(weight * a**2).sum(), (weight * b**2).sum()])
    return means, np.sqrt(squares - means**2)


def planned(key=KEY, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return ewsg.plan(key, BENT, jnp.array([0.5, 0.5]), ROWS, **options)


@pytest.mark.full
def test_a_ridge_that_bends_is_given_to_nuts(monkeypatch):
    """The plan says so, its budget is what a run takes, and the run has the widths of
    quadrature.

    On this ridge the two are near each other, and trials as long as a test may be are worth some
    hundred draws: fewer do here, and what was best before is said to be slower.
    """
    pytest.importorskip("blackjax")
    monkeypatch.setattr(pilot_search, "passes_per_draw", lambda request, result: np.inf)
    monkeypatch.setattr(settings, "FEWEST_PILOT_ESS", 40.0)
    monkeypatch.setattr(settings, "NUTS_RUN_RATIO", 0.0)
    # Such trials are chance: of one key in five or so that of NUTS is too short to be taken.
    plans = (planned(jax.random.key(seed)) for seed in (4, 5, 6))
    plan = next(each for each in plans if isinstance(each.kernel, Nuts))
    assert any("NUTS is the better tool here" in note for note in plan.notes)
    assert "taken" not in repr(plan)
    # A chain may stay in an end of the ridge for a long time, which so short a trial may not see.
    ess = 4_000
    samples = ewsg.sample(
        jax.random.key(1),
        plan.kernel,
        plan.start,
        ROWS,
        data_passes=plan.data_passes(ess=ess),
        num_chains=8,
        burn_in=plan.burn_in,
    )
    assert samples.num_steps == pytest.approx(
        plan.burn_in + plan.autocorrelation_time * ess / 8, rel=0.01
    )
    means, sds = by_quadrature()
    # Five standard errors of some 250 effective draws, the fewest that there are.
    np.testing.assert_allclose(samples.mean, means, atol=5 * sds.max() / 250**0.5)
    np.testing.assert_allclose(samples.sd, sds, rtol=5 / 500**0.5)


@pytest.mark.full
def test_without_blackjax_it_is_said(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *args: None if name == "blackjax" else real(name, *args),
    )
    plan = planned(max_passes=300.0)
    assert not isinstance(plan.kernel, Nuts)
    assert any("pip install 'ewsg_jax[nuts]'" in note for note in plan.notes)


def test_what_was_restricted_is_not_handed_over():
    class Restricted:
        names_methods, num_row_shards, data = True, 1, ROWS

    assert "methods" in nuts_fallback.why_no_nuts(Restricted())  # pyright: ignore[reportArgumentType]


def test_a_budget_of_passes_goes_by_what_a_step_was_measured_to_take():
    """(P n − n) / (p n) steps for P passes at p a step."""
    pytest.importorskip("blackjax")
    kernel = ewsg.nuts(BENT, 0.05, max_depth=3, passes_per_step=4.0)
    assert num_steps_of(kernel.evaluations(ROWS), len(ROWS), None, 41.0, None) == 10


def test_an_interrupted_run_ends_the_call_that_made_it(monkeypatch):
    """Wherever `plan` and `check` make runs: what a part of one says is not what was asked."""
    pytest.importorskip("blackjax")
    monkeypatch.setattr(run_sample, "sample", lambda *_, **__: SimpleNamespace(interrupted=True))
    monkeypatch.setattr(warm_up, "stiffest_direction", lambda *_: StiffDirection(1.0))
    asked = SimpleNamespace(
        posterior=BENT,
        data_for_runs=ROWS,
        data=ROWS,
        mesh=None,
        max_passes=1e6,
        requirements=SimpleNamespace(tolerance=0.05),
        compiling=SimpleNamespace(wait=lambda name: None),
        timed=lambda name: contextlib.nullcontext(),
        seconds_of_a_run=None,
        has_time_for=lambda *_, **__: True,
    )
    whitening = Whitening(jnp.zeros(2), jnp.eye(2), mode=None)  # pyright: ignore[reportArgumentType]
    kernel, full = ewsg.uld(BENT, 0.1, friction=1.0), ewsg.gradients.full(BENT)
    places = np.zeros((8, 2))
    warm = warm_up.WarmUp(whitening, places)
    window = warm_up.WarmUpWindow(estimator=full, damping=1.0, num_steps=16, thin=1)
    before = SimpleNamespace(num_steps=100, state=None, shared_minibatch=False)
    calls = {
        "windows": lambda: warm_up.run_window(KEY, asked, warm, places, window),  # pyright: ignore[reportArgumentType]
        "trial": lambda: pilot_run.make_pilot_run(KEY, asked, kernel, 1.0, whitening.start),  # pyright: ignore[reportArgumentType]
        "NUTS": lambda: nuts_fallback.pilot_run_of_nuts(
            KEY,
            asked,  # pyright: ignore[reportArgumentType]
            whitening,
            whitening.start_among(places),
        ),
        "steps": lambda: step_time.seconds_per_step(KEY, kernel, whitening.start, ROWS, 8),
        "check": lambda: kinetic.kinetic(KEY, kernel, before, ROWS, 1.0, None),  # pyright: ignore[reportArgumentType]
    }
    for call in calls.values():
        with pytest.raises(KeyboardInterrupt):
            call()
