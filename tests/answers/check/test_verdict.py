"""What is concluded of a check's scores, and of chains that may have been cut off."""

import dataclasses

import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.check import stein
from ewsg_jax.answers.check.draws import draws_of
from ewsg_jax.answers.check.more_draws import AvailableDraws
from ewsg_jax.answers.check.verdict import Evidence, Measured, judge
from ewsg_jax.model_checks.finding import Finding
from tests.answers.check.test_check import KEY, LINEAR, ODD, ROWS, of_target, run_of


@dataclasses.dataclass
class Said:
    """What a verdict is made of, of two coordinates."""

    ratio: tuple[float, float] = (1.01, 0.99)
    shift: tuple[float, float] = (0.01, -0.02)
    error: float = 0.01
    z: float = 1.0
    effect: float = 0.02
    name: str = "u"
    rhat: float = 1.0
    ess: float = 2_000.0
    kurtosis: float = 3.0
    lost: str = ""
    findings: tuple[Finding, ...] = ()
    has_more: bool = False
    apart: str = ""
    spent: AvailableDraws | None = None

    def verdict(self):
        """What is said."""
        worst = dict.fromkeys(stein.STEIN_FUNCTIONS, stein.Score(1.0, 0.01, 0.05))
        worst |= {self.name: stein.Score(self.z, self.effect, 0.05)}
        scores = stein.Scores(worst, 4.0, 0.0, 0.01, self.ess, 60)
        errors = np.full(2, self.error)
        evidence = Evidence(
            scores=scores,
            sd_ratio=Measured(np.array(self.ratio), errors),
            mean_shift=Measured(np.array(self.shift), errors),
            kurtosis=lambda coordinates: np.full(coordinates.shape, self.kurtosis),
            names=("a", "b"),
            rhat=self.rhat,
            tolerance=0.05,
            findings=self.findings,
            worst_mixed=self.apart,
            left_out=self.lost,
            has_more=self.has_more,
            available=self.spent,
        )
        return judge(evidence)


WIDE = (Finding("prior", "error", "impossible: wide"),)
ANOTHER_GRADIENT = (Finding("gradient", "error", "the gradient is another", "see to it"),)
ON_THE_PRIOR = (Finding("prior", "note", "far from the prior: a", "it is too narrow"),)


@pytest.mark.parametrize(
    ("said", "outcome", "words"),
    [
        (Said(), "right", "within tolerance"),
        (Said(z=5.0), "right", "a bias shows, which is smaller"),
        (Said(z=9.0, effect=0.6, ratio=(1.3, 1.0)), "wrong", "too wide by 30 ± 1 % (a)"),
        (Said(z=9.0, effect=-0.4, ratio=(1.0, 0.8)), "wrong", "too narrow by 20 ± 1 % (b)"),
        (
            Said(z=9.0, effect=0.3, name="1", shift=(0.3, 0.0)),
            "wrong",
            "mean off by 0.3 ± 0.01 sd (a)",
        ),
        (Said(z=14.0, effect=0.4, name="exp(-u²/2)"), "wrong", "of another shape"),
        (Said(z=14.0, effect=0.4), "wrong", "too wide in some direction, the variance × 1.4"),
        (Said(z=5.0, shift=(0.15, 0.0)), "wrong", "mean off by 0.15 ± 0.01 sd (a)"),
        # Chance makes 1.6 % of 2,000 effective draws, and 4 % of 300.
        (Said(ratio=(1.12, 1.0)), "wrong", "too wide by 12"),
        (Said(shift=(0.0, -0.2)), "wrong", "mean off by 0.2"),
        (Said(ratio=(1.12, 1.0), ess=300.0), "unsure", "to decide: sd × 1.12"),
        # Heavy tails make 4 % of 2,000 too; of two values a width is known without chance.
        (Said(ratio=(1.12, 1.0), kurtosis=15.0), "unsure", "to decide: sd × 1.12"),
        (Said(ratio=(1.12, 1.0), kurtosis=15.0, ess=5_000.0), "wrong", "too wide by 12"),
        (Said(ratio=(1.12, 1.0), kurtosis=1.0, ess=60.0), "wrong", "too wide by 12"),
        (Said(shift=(0.0, -0.2), ess=300.0), "unsure", "mean off by -0.2"),
        (Said(error=0.08), "unsure", "not enough draws to decide: sd × 1.01 ± 0.08"),
        (Said(error=0.08), "unsure", "Run longer"),
        (Said(error=0.08, has_more=True), "unsure", "Use more of the draws (max_draws=)"),
        # Twice 0.08 of a tolerance of 0.05: 3.2 times as many draws halve it often enough, squared.
        (
            Said(error=0.08, spent=AvailableDraws(4_000, 9_000, 16_000, 5_000)),
            "unsure",
            "Run some 11 times as long (to an ESS of some 21,000, 52,000 steps of each chain), and "
            "check with max_draws=41000, or take",
        ),
        (
            Said(error=0.03, spent=AvailableDraws(4_000, 9_000, 16_000, 0)),
            "unsure",
            "Run some 1.5 times as long (to an ESS of some 2,900), or take",
        ),
        (
            Said(error=0.03, has_more=True, spent=AvailableDraws(4_000, 9_000, 16_000, 0)),
            "unsure",
            "Use more of the draws (max_draws=5800), or take",
        ),
        (
            Said(error=0.05, has_more=True, spent=AvailableDraws(4_000, 9_000, 16_000, 0)),
            "unsure",
            "Run some 1.8 times as long (to an ESS of some 8,000), or take",
        ),
        # What is off without a bias is chance: that of the worst of four means and sds.
        (
            Said(ratio=(1.12, 1.0), spent=AvailableDraws(100, 100, 16_000, 700), ess=100.0),
            "unsure",
            "Run some 7.7 times as long (to an ESS of some 770, 5,400 steps of each chain), or",
        ),
        (
            Said(ess=20.0, spent=AvailableDraws(100, 100, 16_000, 700)),
            "unsure",
            "Run at least 2.5 times as long (to an ESS of at least 50, 1,800 steps of each chain)",
        ),
        (
            Said(ess=0.0, spent=AvailableDraws(100, 100, 16_000, 700)),
            "unsure",
            "Run longer: ten times as long will say how much more it takes",
        ),
        # Moments of no effective draw at all say nothing, however far off they are.
        (Said(ess=0.0, ratio=(1.3, 1.0), shift=(0.5, 0.0)), "unsure", "to decide (ESS 0). Run"),
        # A bias stays, however many draws there are.
        (
            Said(z=5.0, error=0.08, spent=AvailableDraws(4_000, 9_000, 16_000, 5_000)),
            "unsure",
            "Halve the step and run longer: the bias that shows does not shrink with draws",
        ),
        (Said(z=5.0, error=0.08, has_more=True), "unsure", "if that does not decide, halve"),
        (Said(ess=20.0), "unsure", "not enough draws to decide (ESS 20)"),
        (Said(rhat=1.6), "wrong", "chains do not agree (R-hat 1.60)"),
        (Said(rhat=1.6, apart="b"), "wrong", "chains do not agree (R-hat 1.60, b)"),
        (Said(findings=ANOTHER_GRADIENT), "wrong", "the gradient is another: all else here is by"),
        (Said(findings=ANOTHER_GRADIENT), "wrong", "by gradients; see to it"),
        (Said(findings=ON_THE_PRIOR), "right", "within tolerance"),
        (
            Said(z=14.0, effect=-5.5, name="1"),
            "wrong",
            "in which the mean gradient is 5.5 and not 0",
        ),
        (Said(z=14.0, effect=-5.5, name="1"), "wrong", "another gradient than this posterior"),
        (Said(lost="chain 3 diverged"), "right", "; chain 3 diverged: left out"),
        (Said(lost="chain 3 diverged", rhat=1.6), "wrong", "; chain 3 diverged: left out"),
        (Said(findings=WIDE), "wrong", "impossible: wide"),
        (Said(ess=20.0, findings=WIDE), "wrong", "impossible: wide"),
    ],
)
def test_verdicts(said, outcome, words):
    found = said.verdict()
    assert found.outcome == outcome
    assert words in found.text


def test_the_kurtosis_is_that_of_the_draws():
    """By enumeration: 1 for two values, 3/2 for three, 3 if one in three is not 0."""
    two, three = np.tile([-1.0, 1.0], 30), np.tile([-1.0, 0.0, 1.0], 20)
    seldom = np.tile([-1.0, 0.0, 0.0, 0.0, 0.0, 1.0], 10)
    values = 1e30 * np.stack([two, three, seldom], axis=-1).reshape(2, 30, 3) + 1e30
    found = draws_of(values.astype(np.float32), None, 10**6).kurtosis(np.array([2, 0, 1]))
    np.testing.assert_allclose(found, [3.0, 1.0, 1.5], rtol=1e-5)
    assert found[1] >= 1


@pytest.mark.parametrize(
    ("diverged_at", "outcome", "words"),
    [
        # From a bad start, before a draw was kept: right of the others, and said.
        (
            {5: 40},
            "right",
            "right within tolerance (5 % of sds, 0.1 sd of means); chain 5 diverged at step 40, "
            "before its first draw: left out",
        ),
        # Among its draws: what the others have not seen is not known.
        ({5: 400}, "unsure", "chain 5 diverged at step 400, after its first draw: a part of the"),
        ({5: 101}, "unsure", "The other chains: right within tolerance"),
        ({1: 40, 5: 400}, "unsure", "2 of 6 chains diverged (chain 1 at step 40, chain 5 at step"),
        # Half of all: no bad start explains that.
        ({1: 40, 3: 41, 5: 42}, "unsure", ", before their first draws: a part of the posterior"),
    ],
)
def test_no_outcome_is_right_where_a_part_may_be_cut_off(diverged_at, outcome, words):
    draws = of_target(6, 2_500)
    for chain in diverged_at:
        draws[chain] = 1e9
    at = [diverged_at.get(chain, -1) for chain in range(6)]
    report = ewsg.check(KEY, run_of(draws, at), LINEAR, ROWS)
    assert report.outcome == outcome, report.verdict
    assert words in report.verdict
    assert words in str(report).splitlines()[0]


def test_what_is_wrong_stays_wrong_where_a_part_may_be_cut_off():
    found = ewsg.check(KEY, run_of(ODD, [-1, -1, -1, 300]), LINEAR, ROWS)
    assert found.outcome == "wrong"
    assert found.verdict.endswith("chain 3 diverged at step 300, after its first draw: left out")
