"""The distance from the target that identities state, against a shift that is known."""

import numpy as np
import pytest

from ewsg_jax.answers.check import stein


@pytest.mark.parametrize("width", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("shift", [0.2, 0.5])
def test_the_distance_of_a_shift_is_the_shift_in_sds_whatever_the_units(width, shift):
    rng = np.random.default_rng(0)
    u = width * (shift + rng.standard_normal((8, 4_000, 1)))
    # Gradients of the target N(0, width²).
    directions = stein.Directions(u, u / width**2, None, 1)
    scores = stein.scores_of(directions, 0.02)
    assert scores.worst["1"].z > scores.bound
    assert scores.distance == pytest.approx(shift, rel=0.1)


def test_draws_of_the_target_have_no_distance():
    u = np.random.default_rng(1).standard_normal((8, 4_000, 3))
    scores = stein.scores_of(stein.Directions(u, u, None, 3), 0.02)
    assert scores.distance == 0.0
    assert 0.0 < scores.hidden < 0.05
