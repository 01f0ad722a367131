"""What a plan leaves out if time is short, or if a slow pilot run cannot win; no clock is read but
that of a plan which has no time at all.
"""

import time
import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.mode.mode import Mode
from ewsg_jax.answers.plan import pilot_run, pilot_search
from ewsg_jax.answers.plan.request import PlanRequest, PlanResult
from ewsg_jax.answers.plan.run_requirements import RunRequirements
from ewsg_jax.answers.plan.warm_up import LONGER_WINDOWS
from ewsg_jax.model_checks.finding import Finding

KEY = jax.random.key(0)
MODEL = ewsg.models.gaussian_location()
ROWS = jnp.linspace(-1, 1, 20)[:, None]
DOUBT = Finding("pilot_run", "doubt", "it is too short", "more")


def a_request(**options: Any) -> PlanRequest:
    return PlanRequest(
        posterior=MODEL,
        data=ROWS,
        start_position=jnp.zeros(1),
        mode=Mode(jnp.zeros(1), True, 0.0, 0.0, 0.0, 0, 0.0),
        candidates=[],
        requirements=RunRequirements(0.05, 8_712.0, 8, None, 2**30),
        max_passes=1e9,
        **options,
    )


def test_what_there_is_no_time_for_is_noted_once():
    request = a_request(budget=1_000.0, started=time.perf_counter() - 600)
    assert request.has_time_for("windows")
    assert not request.left_out
    for _ in range(2):
        assert not request.has_time_for("windows", share=0.5)
        assert not request.has_time_for("NUTS", seconds=500.0)
    assert request.left_out == ["windows", "NUTS"]
    assert request.seconds_of_a_run == pytest.approx(200, abs=20)
    assert a_request().seconds_of_a_run is None
    assert a_request().has_time_for("windows", 1e9, 0.5)


@pytest.mark.parametrize(
    ("slowest", "first", "runs"),
    [(np.inf, 10.0, 4), (500.0, 10.0, 4), (499.0, 10.0, 1), (499.0, 1.0, 3), (499.0, 0.1, 4)],
)
def test_a_pilot_run_that_is_slow_is_continued_while_that_is_cheap(
    monkeypatch, slowest, first, runs
):
    """It is short at any length, and shows 500 steps an effective draw. The seconds of the first
    part are 3, 9 and 27 times as many in those that follow, of which NUTS takes 10.
    """
    made = []

    def run(key: Any, request: Any, kernel: Any, steps: int, burn_in: int, **_: Any) -> Any:
        made.append(steps)
        return SimpleNamespace(num_steps=steps, run_seconds=0.0, state=None)

    class Short(SimpleNamespace):
        is_short, time, data_passes = True, 500.0, 0.0
        step_seconds = property(lambda self: first / made[0])

        def _replace(self, **_: Any) -> "Short":
            return self

    monkeypatch.setattr(pilot_run, "_run", run)
    monkeypatch.setattr(pilot_run, "_judge", lambda *_: Short())
    kernel = ewsg.uld(MODEL, 0.1, friction=1.0)
    pilot_run.make_pilot_run(
        KEY, a_request(), kernel, 4.0, lambda _: jnp.zeros((8, 1)), np.inf, slowest
    )
    assert len(made) == runs
    assert made == [made[0] * 3**k for k in range(runs)]


def a_result(*findings: Finding, steps: float = 1.0) -> PlanResult:
    return PlanResult(
        kernel=ewsg.uld(MODEL, 0.1, friction=1.0),
        start=None,
        time=steps,
        burn_in=1,
        table=[],
        gaussian=None,
        report=None,
        data_passes=1.0,
        findings=findings,
    )


@pytest.mark.parametrize("nuts_is_right", [True, False])
def test_nuts_comes_before_what_remains_of_the_pilot_runs(monkeypatch, nuts_is_right):
    """If it is no better they are made to their end."""
    calls, warm = [], SimpleNamespace(why_not_settled="", data_passes=0.0, whitening=None)

    def in_turn(*_: Any, hurries: bool) -> Any:
        calls.append(hurries)
        result = a_result(*([DOUBT] if hurries else []))
        return pilot_search.Turn(result, None, 0.0, hurries)  # pyright: ignore[reportArgumentType]

    def nuts(*_: Any) -> Any:
        calls.append("NUTS")
        pilot = SimpleNamespace(
            report=True,
            time=1.0,
            data_passes=1.0,
            findings=() if nuts_is_right else (DOUBT,),
            is_wrong=True,
            kernel="NUTS",
        )
        return pilot, 7.0

    monkeypatch.setattr(pilot_search, "run_warm_up", lambda *_: warm)
    monkeypatch.setattr(pilot_search, "why_no_nuts", lambda _: "")
    monkeypatch.setattr(pilot_search, "_pilot_runs_in_turn", in_turn)
    monkeypatch.setattr(pilot_search, "pilot_run_of_nuts", nuts)
    found = pilot_search.choose_by_pilot_runs(KEY, a_request(), None, None)
    assert calls == ([True, "NUTS"] if nuts_is_right else [True, "NUTS", False])
    assert (found.kernel == "NUTS") is nuts_is_right
    assert not found.doubts


def test_the_passes_of_each_part_are_counted_once(monkeypatch):
    """In a plan whose pilot runs were given up for NUTS and made again: 2 of the warm-up, 5 of the
    normal approximation, 30 and 40 of pilot runs and 1 of NUTS.
    """
    normal: Any = SimpleNamespace(report=SimpleNamespace(data_passes=5.0))
    warm = SimpleNamespace(why_not_settled="", data_passes=2.0, whitening=None)
    nuts = SimpleNamespace(
        report=True, time=1.0, data_passes=1.0, findings=(DOUBT,), is_wrong=True, kernel="NUTS"
    )

    def in_turn(*_: Any, hurries: bool) -> Any:
        result = a_result(*([DOUBT] if hurries else []))
        result = replace(result, data_passes=2.0 + 5.0 + (30.0 if hurries else 40.0))
        return pilot_search.Turn(result, None, 0.0, hurries)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(pilot_search, "run_warm_up", lambda *_: warm)
    monkeypatch.setattr(pilot_search, "why_no_nuts", lambda _: "")
    monkeypatch.setattr(pilot_search, "_pilot_runs_in_turn", in_turn)
    monkeypatch.setattr(pilot_search, "pilot_run_of_nuts", lambda *_: (nuts, 7.0))
    result = pilot_search.choose_by_pilot_runs(KEY, a_request(), normal, None)
    assert result.data_passes == 2 + 5 + 30 + 40 + 1


def test_a_warm_up_that_was_cut_short_is_a_doubt(monkeypatch):
    """Though its pilot run shows none; one that did not settle in all its windows is a note."""
    warm = SimpleNamespace(why_not_settled="a mean still moved", data_passes=0.0, whitening=None)
    right = pilot_search.Turn(a_result(), None, 0.0, False)  # pyright: ignore[reportArgumentType]
    monkeypatch.setattr(pilot_search, "run_warm_up", lambda *_: warm)
    monkeypatch.setattr(pilot_search, "_pilot_runs_in_turn", lambda *_, **__: right)
    for left_out in ([], [LONGER_WINDOWS]):
        request = a_request(left_out=left_out, budget=90.0)
        doubts = pilot_search.choose_by_pilot_runs(KEY, request, None, None).doubts
        assert len(doubts) == 2 * len(left_out)
    assert "not settled" in doubts[0]
    assert doubts[1] == f"in 90 s there was no time for {LONGER_WINDOWS}"


@pytest.mark.full
def test_a_plan_without_time_has_a_kernel_and_says_what_is_missing():
    """A ridge that bends; each of its parts is cut short where it can be."""
    bent = ewsg.Posterior(
        lambda p, row: -0.5 * (row - p[0] - p[1] ** 2) ** 2, lambda p: -0.5 * jnp.sum(p**2)
    )
    rows = np.random.default_rng(0).normal(1.0, 1.0, 200).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        plan = ewsg.plan(KEY, bent, jnp.array([0.5, 0.5]), rows, seconds=1e-3)
    assert not plan.is_trusted
    assert any("there was no time for" in doubt and "NUTS" in doubt for doubt in plan.doubts)
    assert "seconds=" in plan.advice
    assert np.isfinite(np.asarray(plan.start(KEY))).all()
