"""Whether a plan says beforehand that the check of its run will not decide."""

from types import SimpleNamespace

import numpy as np
import pytest

from ewsg_jax.answers.plan.run_requirements import check_note, ess_to_decide


def pilot(mean_error, sd_error, ess=200.0):
    """What a note reads of a pilot run's report."""
    return SimpleNamespace(
        corrected=SimpleNamespace(errors=(mean_error, sd_error)),
        not_corrected="",
        scores=SimpleNamespace(ess=ess),
        tolerance=0.05,
    )


@pytest.mark.parametrize(("mean_error", "sd_error"), [(0.2, 0.0), (0.0, 0.1)])
def test_errors_fall_with_the_root_of_the_draws(mean_error, sd_error):
    """Two errors are four tolerances: sixteen times the draws have one."""
    assert ess_to_decide(pilot(mean_error, sd_error)) == pytest.approx(16 * 200)
    assert check_note(pilot(mean_error, sd_error), 3_300) == []
    (note,) = check_note(pilot(mean_error, sd_error), 3_100)
    assert note.startswith("check is expected to say unsure of a run of 3,100 effective draws")
    assert "with some 3,200 (sample_options(ess=…)" in note


def test_nothing_is_said_of_a_normal_posterior():
    assert check_note(None, 1.0) == []


def test_a_pilot_run_that_is_not_corrected_says_nothing_of_the_length():
    report = pilot(0.1, 0.1)
    report.corrected, report.not_corrected = None, "too few draws"
    assert np.isinf(ess_to_decide(report))
    (note,) = check_note(report, 8_712)
    assert "not known: its pilot run was not corrected (too few draws)" in note
