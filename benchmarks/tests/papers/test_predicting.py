"""Methods judged by predictions: scores of `diagnostics` and NumPy, passes, the tuner."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks.papers import metrics
from benchmarks.papers.predicting import (
    Budget,
    Problem,
    folds,
    kernel_of,
    measured,
    run,
    scores,
    tuned,
)
from ewsg_jax.cli.config import ConfigError, method_of

KEY = jax.random.key(0)
CLASSES = ewsg.models.logistic_regression()
LINE = ewsg.models.linear_regression(noise_scale=0.5)
SGLD = method_of({"name": "sgld", "step_size": 1e-3, "batch_size": 5}, 1)


@functools.cache
def rows(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)).astype(np.float32)
    y = x @ np.array([1.0, -1.0, 0.5], np.float32)
    return x, y + 0.5 * rng.normal(size=n).astype(np.float32)


def two_classes():
    train, test = ({"x": x, "y": (y > 0).astype(np.float32)} for x, y in (rows(60, 0), rows(41, 1)))
    of = {"log_likelihood": metrics.log_likelihood(CLASSES), "accuracy": metrics.accuracy(CLASSES)}
    return Problem(CLASSES, train, test, jnp.zeros(3), of)


def regression():
    train, test = ({"x": x, "y": y} for x, y in (rows(60, 0), rows(41, 1)))
    return Problem(LINE, train, test, jnp.zeros(3), {"rmse": metrics.rmse(), "mse": metrics.mse()})


def test_scores_are_those_of_the_trajectory():
    problem = two_classes()
    budget = Budget(10, 1, ensemble=4, num_draws=6)
    samples = run(KEY, kernel_of(SGLD, CLASSES), problem, budget)
    expected = ewsg.diagnostics.trajectory(samples, problem.test)
    together = scores(samples, problem, budget)
    running = scores(samples, problem, Budget(10, 1, ensemble=4, running=True))
    single = scores(samples, problem, Budget(10, 4))
    for name in problem.metrics:
        np.testing.assert_allclose(
            together[name][0], getattr(expected, f"ensemble_{name}"), rtol=1e-5
        )
        np.testing.assert_allclose(
            running[name][0], getattr(expected, f"running_{name}"), rtol=1e-5
        )
        np.testing.assert_allclose(single[name], getattr(expected, f"chain_{name}"), rtol=1e-5)


def test_errors_of_means_are_those_of_numpy():
    problem, budget = regression(), Budget(10, 3, ensemble=2, num_draws=5, running=True)
    samples = run(KEY, kernel_of(SGLD, LINE), problem, budget)
    found = scores(samples, problem, budget)
    draws = np.asarray(samples.position, float).reshape(3, 2, -1, 3)
    for last in range(draws.shape[2]):
        off = (
            problem.test["x"] @ draws[:, :, : last + 1].mean((1, 2)).T - problem.test["y"][:, None]
        )
        np.testing.assert_allclose(found["mse"][:, last], np.mean(off**2, 0), rtol=1e-4)
        np.testing.assert_allclose(found["rmse"][:, last], np.mean(off**2, 0) ** 0.5, rtol=1e-4)


def test_passes_are_equal():
    """Of one gradient a row and of two; where steps say themselves what they took, at most."""
    problem, budget = two_classes(), Budget(10, 2, num_draws=4, burn_in_passes=2)
    for name, options in {
        "sgld": {"step_size": 1e-3, "batch_size": 5},
        "ewsg": {"step_size": 1e-3, "friction": 5.0, "batch_size": 5},
        "svrg_ld": {"step_size": 1e-3, "batch_size": 5},
        "flymc": {"step_size": 0.1, "capacity": 60},
    }.items():
        samples = run(KEY, ewsg.METHODS[name].build(CLASSES, **options), problem, budget)
        assert samples.step[-1] == samples.num_steps
        assert samples.num_draws >= 4
        assert samples.evaluations[0] > 2 * 60
        least = 0 if name == "flymc" else 9
        assert least <= samples.data_passes < 10.5
    with pytest.raises(ConfigError, match="keep no draw"):
        run(KEY, kernel_of(SGLD, CLASSES), problem, Budget(2, 1, burn_in_passes=3))


def test_draws_are_checked_and_lost_repeats_told():
    problem, budget = regression(), Budget(1_500, 2, ensemble=4, num_draws=500, burn_in_passes=100)
    right = measured(KEY, ewsg.uld(LINE, 0.02, friction=10.0), problem, budget)
    wrong = measured(
        KEY, kernel_of(SGLD, LINE, step_size=5e-3), problem, Budget(200, 512, num_draws=2)
    )
    assert right["check"]["outcome"] == "right"
    assert wrong["check"]["outcome"] == "wrong"
    assert wrong["check"]["sd_ratio"] > 1.5
    assert len(wrong["rmse"]["last"]) == 512
    np.testing.assert_allclose(np.mean(wrong["rmse"]["last"]), wrong["rmse"]["mean"][-1], rtol=1e-4)
    gone = measured(KEY, kernel_of(SGLD, LINE, step_size=9.0), problem, Budget(200, 3, num_draws=2))
    assert gone["lost"] == 3
    assert np.isnan(gone["rmse"]["last"]).all()
    assert gone["check"]["outcome"] is None


def test_the_tuner_takes_what_predicts_best():
    problem, budget = regression(), Budget(5, 4)
    parts = folds(problem, 3, seed=1)
    assert sorted(x for part in parts for x in part.test["y"]) == sorted(problem.train["y"])
    assert all(len(part.train["y"]) == 40 for part in parts)
    assert len(folds(problem, 3, seed=1, num_used=1)) == 1
    steps = (1e-6, 2e-3, 9.0)
    found = tuned(KEY, SGLD, parts, [{"step_size": h} for h in steps], budget, "rmse")
    assert found["best"] == {"step_size": 2e-3}
    assert found["scores"][2] is None
    assert found["evaluations"] <= 3 * 3 * 4 * 5 * 40
    by_hand = [
        scores(
            run(jax.random.fold_in(KEY, i), kernel_of(SGLD, LINE, step_size=2e-3), part, budget),
            part,
            budget,
        )
        for i, part in enumerate(parts)
    ]
    np.testing.assert_allclose(
        found["scores"][1], np.mean([x["rmse"][:, -1].mean() for x in by_hand]), rtol=1e-3
    )
    assert tuned(KEY, SGLD, parts, [{"step_size": 9.0}], budget, "rmse")["best"] is None
