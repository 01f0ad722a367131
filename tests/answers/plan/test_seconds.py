"""Plans by the time that steps take: with times given, whose quickest run is known, and with a
clock of our own.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.plan import candidate_table, settings, step_time
from ewsg_jax.answers.plan.run_requirements import burn_in_steps, steps_for_ess

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
X = np.random.default_rng(4).normal(size=(600, 3)) @ [
    [1.0, 0.8, 0.0],
    [0.0, 0.5, 0.0],
    [0.0, 0.0, 20.0],
]
ROWS = {"x": X.astype(np.float32), "y": (X @ [0.3, -0.5, 0.02]).astype(np.float32)}
LINEAR = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=5.0)


def planned(**options):
    return ewsg.plan(KEY, LINEAR, jnp.zeros(3), ROWS, **options)


@pytest.mark.full
@pytest.mark.parametrize("quick", ["SVRG", "Full", "SAGA"])
def test_the_quickest_run_is_taken(monkeypatch, quick):
    """Steps of one estimator take a millionth of the others' time."""
    asked = []

    def seconds(key, kernel, start, data, num_chains, mesh):
        assert (num_chains, mesh) == (8, None)
        asked.append((jax.random.key_data(key).tolist(), type(kernel.estimator).__name__))
        return 1e-9 if type(kernel.estimator).__name__ == quick else 1e-3

    monkeypatch.setattr(candidate_table, "seconds_per_step", seconds)
    # All ways are compared, though all rows are cheap.
    monkeypatch.setattr(settings, "CHEAP_ROWS", 0)
    monkeypatch.setattr(settings, "UNIFORM_NOISE_RATIO", 0.0)
    by_rows, plan = planned(), planned(by="seconds")
    assert type(plan.kernel.estimator).__name__ == quick
    assert {each.candidate for each in plan.table} == {each.candidate for each in by_rows.table}
    measured = [each for each in plan.table if np.isfinite(each.seconds)]
    assert plan.table[: len(measured)] == tuple(measured)
    # The best of each estimator and law of rows, in the order of what costs least, unless it is far
    # too dear.
    best = {}
    for each in by_rows.table:
        if not each.why_not and each.cost <= settings.MEASURED_COST_RATIO * by_rows.table[0].cost:
            best.setdefault((each.candidate.estimator, each.candidate.rows), each.candidate)
    assert {each.candidate for each in measured} == set(best.values())
    assert len(asked) == len(measured) == len({str(key) for key, _ in asked})
    for each in measured:
        steps = burn_in_steps(each.time) + steps_for_ess(each.time, plan.ess, 8)
        of_step = 1e-9 if each.candidate.estimator == quick.lower() else 1e-3
        assert each.seconds == pytest.approx(of_step * steps)
    assert [each.seconds for each in measured] == sorted(each.seconds for each in measured)
    assert plan.seconds() == pytest.approx(measured[0].seconds)
    steps = plan.burn_in + steps_for_ess(plan.autocorrelation_time, 100.0, 8)
    assert plan.seconds(100.0) == pytest.approx(1e-9 * steps)
    table = repr(plan)
    assert "seconds: of steps measured here" in table
    assert "times the time" in table
    fit = [each for each in plan.table if not each.why_not]
    assert ("not measured" in table) == (len(measured) < len(fit))
    assert np.isnan([each.seconds for each in by_rows.table]).all()
    assert "seconds" not in repr(by_rows)


@pytest.mark.full
def test_rows_alone_may_count():
    """Steps are free: batches are no larger, and nothing takes fewer passes than what is taken."""
    by_rows, plan = planned(), planned(by="passes")
    sizes = [
        {each.candidate: each.batch_size for each in one.table if not each.why_not}
        for one in (by_rows, plan)
    ]
    assert all(sizes[1][way] <= size for way, size in sizes[0].items())
    assert sizes[0] != sizes[1]
    best = plan.table[0]
    assert (
        best.passes
        == min(each.passes for each in plan.table if not each.why_not)
        < by_rows.table[0].passes
    )
    assert best.cost == pytest.approx(best.passes * len(X))
    assert "cost: these" in repr(plan)


def test_a_step_is_measured_for_long_enough(monkeypatch):
    """On a clock of 10 µs a step: the first call, which compiles, does not count, and runs go on
    from states.
    """
    runs = []

    def run(key, kernel, start, data, steps, *, num_chains=1, state=None, **options):
        runs.append((start, steps, num_chains, state))
        return SimpleNamespace(
            num_steps=steps,
            run_seconds=99.0 if len(runs) == 1 else 1e-5 * steps,
            state=len(runs),
        )

    monkeypatch.setattr(step_time, "inner_run", run)
    assert step_time.seconds_per_step(KEY, None, "start", None, 5) == pytest.approx(1e-5)
    assert (
        runs
        == [
            ("start", 64, 5, None),
            (None, 64, 1, 1),
            (None, 512, 1, 2),
            (None, 4096, 1, 3),
            (None, 32768, 1, 4),
        ][: len(runs)]
    )
    assert 1e-5 * runs[-1][1] >= settings.TIMED_SECONDS > 1e-5 * runs[-2][1]


@pytest.mark.full
def test_seconds_are_those_of_runs():
    """The run itself is made; how long it takes is not judged."""
    kernel = ewsg.sgld(LINEAR, 1e-4, batch_size=4)
    start = lambda key: jax.random.normal(key, (3,))
    seconds = step_time.seconds_per_step(KEY, kernel, start, ROWS, 2)
    assert 0 < seconds < 1
