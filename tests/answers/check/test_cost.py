"""What a check costs: programs, rounds, and the coordinates that are judged by more than sums."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from arviz_stats.base import array_stats

import ewsg_jax as ewsg
from ewsg_jax.answers.check import mixing, moved_draws
from ewsg_jax.answers.check.correction import TargetMoments
from ewsg_jax.answers.check.gradients import FreshGradients
from ewsg_jax.answers.check.stein import Scores
from tests.answers.check.test_alarms import autocorrelated

pytestmark = pytest.mark.full

KEY = jax.random.key(0)
RNG = np.random.default_rng(0)
MOST_PROGRAMS = 8
"""Gradients and their memory, the prior's curvature, the likelihood's size or a check of indices,
gradients along lines and along coordinates; and a key's two of JAX's own.
"""


@pytest.fixture
def programs():
    """Names of what is compiled."""
    found = []

    def heard(event, _, **named):
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(named)

    jax.monitoring.register_event_duration_secs_listener(heard)
    yield found
    jax.monitoring.unregister_event_duration_listener(heard)


@pytest.mark.parametrize("kind", ["linear predictors", "groups"])
def test_a_check_on_batches_compiles_a_handful_of_programs_and_again_none(programs, kind):
    """Both kinds of arrays, as draws and as data, in pytrees; a second call is equal."""
    n, rows = 9_000, np.random.default_rng(1)
    x, group = rows.standard_normal((n, 3)).astype(np.float32), rows.integers(0, 3, n)
    y = (x @ np.array([0.3, -0.2, 0.1]) + rows.standard_normal(n)).astype(np.float32)
    draws = (
        0.01 * np.random.default_rng(2).standard_normal((4, 500, 3)) + [0.3, -0.2, 0.1]
    ).astype(np.float32)
    if kind == "groups":
        posterior = ewsg.Posterior(
            lambda p, row: -0.5 * (row["y"] - p["u"][row["group"]] - p["v"]) ** 2,
            lambda p: -0.5 * jnp.sum(p["u"] ** 2) - 0.5 * p["v"] ** 2,
        )
        data = {"y": jnp.asarray(y), "group": jnp.asarray(group)}
        samples = {"u": draws, "v": draws[..., 0]}
    else:
        posterior = ewsg.models.linear_regression(noise_scale=1.0, prior_scale=2.0)
        data, samples = {"x": x, "y": y}, jnp.asarray(draws)
    jax.random.key(1)
    programs.clear()
    first = ewsg.check(KEY, samples, posterior, data)
    assert 0 < len(programs) <= MOST_PROGRAMS, [str(each["fun_name"]) for each in programs]
    programs.clear()
    second = ewsg.check(KEY, samples, posterior, data)
    assert not programs
    for name in ("sd_ratio", "sd_ratio_error", "mean_shift", "mean_shift_error"):
        jax.tree.map(np.testing.assert_array_equal, getattr(first, name), getattr(second, name))
    assert first.verdict == second.verdict


def ended(distances, changes):
    """Return which round's answer is taken, and how many are made, of draws that are so far off in
    each round.

    The answer of a round is off the one before by the change, of one coordinate.
    """
    answers = np.cumsum([0.0, *changes])

    class Known:
        def __init__(self, number):
            self.number = number
            self.moments = TargetMoments(answers[number : number + 1], *np.ones((3, 1)), np.eye(1))

    def reckoned(draws, fresh, number=0):
        return moved_draws.Analysis(
            draws, draws.flat, SCORES._replace(distance=distances[number]), Known(number)
        )

    class Standing:
        flat = np.array([[-1.0], [1.0]])

        def moved(self, to):
            return self

    made = []

    def gradients(number, draws):
        made.append(number)
        return FreshGradients(np.ones((2, 1)), np.ones((2, 1)), 1.0)

    def next_reckoned(draws, fresh):
        return reckoned(draws, fresh, made[-1])

    end, passes = moved_draws.move_draws(reckoned(Standing(), None), gradients, next_reckoned)
    assert passes == len(made)
    return end.correction.number, len(made)


SCORES = Scores({}, 4.0, 0.0, 0.01, 1_000.0, 60)


@pytest.mark.parametrize(
    ("distances", "changes", "taken", "made"),
    [
        ([0.05], [], 0, 0),
        ([1.0, 0.5, 0.05], [0.3, 0.2], 2, 2),
        # Farther, and the answer has changed by more than before: it does not settle.
        ([0.3, 0.4, 0.5, 0.0], [0.1, 0.2, 0.1], 0, 2),
        # Farther at first, but by steps that get smaller: it settles.
        ([0.3, 0.4, 0.35, 0.0], [0.3, 0.2, 0.1], 3, 3),
        # Nearer than ever is no reason to end, whatever the step.
        ([1.0, 0.8, 0.6, 0.5, 0.4], [0.1, 0.2, 0.3, 0.4], 4, 4),
        # The answer is the same: no reason to go on.
        ([1.0, 0.6, 0.5], [0.3, 0.001], 2, 2),
        # The nearest is not the last.
        ([1.0, 0.3, 0.5, 0.6], [0.2, 0.1, 0.15], 1, 3),
    ],
)
def test_rounds_end_where_they_neither_come_nearer_nor_settle(distances, changes, taken, made):
    assert ended(distances, changes) == (taken, made)


@pytest.mark.parametrize("memory", [0.0, 0.9])
@pytest.mark.parametrize("shape", [(4, 75, 60), (1, 400, 40), (8, 200, 120)])
def test_the_slowest_directions_are_those_of_arviz(shape, memory):
    draws = np.sinh(autocorrelated(RNG, shape, memory=memory))
    both = np.concatenate([draws, (draws - draws.mean((0, 1))) ** 2], axis=2)
    every = array_stats.ess(both, chain_axis=0, draw_axis=1, method="mean")
    found = mixing.least_ess(draws)[0]
    np.testing.assert_allclose(found, min(np.min(every), draws[..., 0].size), rtol=1e-9)


@pytest.mark.parametrize("kind", ["a place", "a width"])
@pytest.mark.parametrize("shape", [(1, 800, 300), (8, 100, 300)])
def test_no_slow_direction_is_missed_among_many(shape, kind):
    # As the scale of groups is among their effects: one of many, wherever it stands.
    for number in (17, 158, 296):
        draws = RNG.standard_normal(shape)
        slow = autocorrelated(RNG, (*shape[:2], 1), memory=0.97)
        # What is slow is where it is, or how far it is from its middle.
        width = np.exp(slow) if kind == "a width" else 0.1
        place = slow if kind == "a place" else 0.0
        draws[..., [number]] = place + width * draws[..., [number]]
        every = mixing.ess(np.concatenate([draws, (draws - draws.mean((0, 1))) ** 2], axis=2))
        assert np.argmin(every) % shape[2] == number
        np.testing.assert_allclose(mixing.least_ess(draws)[0], np.min(every))


@pytest.mark.parametrize(
    "kind", ["alike", "a place", "a width", "heavy tails", "an outlier", "two values"]
)
def test_the_largest_r_hat_is_that_of_all_coordinates(kind):
    for memory in (0.0, 0.95):
        draws = autocorrelated(RNG, (4, 250, 60), memory=memory)
        if kind == "a place":
            draws[1, :, 7] += 0.5
        elif kind == "a width":
            draws[2, :, 9] *= 2
        elif kind == "heavy tails":
            draws = draws**5 + 1e6
            draws[0, :, 11] *= 3
        elif kind == "an outlier":
            draws[0, 0, 3], draws[1, :, 3] = 1e90, 1 + draws[1, :, 3]
        elif kind == "two values":
            draws[..., 5] = draws[..., 5] > 0
        every = array_stats.rhat(draws, chain_axis=0, draw_axis=1)
        largest, where = mixing.worst_rhat(draws)
        assert where == np.argmax(every)
        np.testing.assert_allclose(largest, np.max(every), rtol=1e-12)


def test_one_chain_has_no_r_hat():
    assert np.isnan(mixing.worst_rhat(RNG.standard_normal((1, 40, 30)))[0])
