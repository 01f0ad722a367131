"""How a plan is carried out: what it gives `sample`, and that its doubts go on to the report."""

import copy
import dataclasses
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.answers.plan.run_requirements import thin_of
from ewsg_jax.diagnostics import summary
from ewsg_jax.kernels.notes import findings_of
from ewsg_jax.model_checks.finding import Finding, of_kinds
from ewsg_jax.run import archive, compiled_loop
from ewsg_jax.run.samples import HOLDS_SAMPLES, stored

KEY = jax.random.key(0)
MODEL = ewsg.models.gaussian_location()
DATA = jnp.asarray(np.random.default_rng(0).normal(size=(400, 2)), jnp.float32)
QUIET = {"progress": False}
SHORT = Finding("pilot_run", "doubt", "its pilot run was short", "give more passes")
NOTE = Finding("prior", "note", "the prior is wide")
TEXT = "the plan was not trusted: its pilot run was short"


@pytest.fixture(scope="module")
def trusted():
    # Of Langevin dynamics, whose effective draw takes some ten steps and more.
    return ewsg.plan(KEY, MODEL, jnp.zeros(2), DATA, methods=["ld"], **QUIET)


@pytest.fixture(scope="module")
def doubted(trusted):
    return dataclasses.replace(trusted, findings=(SHORT, NOTE))


@pytest.fixture(scope="module")
def samples(doubted):
    options = doubted.sample_options(ess=1_000)
    return ewsg.sample(KEY, doubted.kernel, doubted.start, DATA, **options, **QUIET)


# How long, and which steps are kept.


def test_some_five_draws_are_kept_of_an_effective_one():
    kept = {time: time / thin_of(time, 10**6) for time in (0.3, 1, 4.9, 10, 12, 97.3, 785)}
    assert kept[0.3] == 0.3  # more than one effective draw a step: all are kept
    assert all(5 <= number < 10 for time, number in kept.items() if time >= 5)
    assert kept[785] == 5
    # A run has as many draws as it must have steps, 16, if it is that short.
    assert [thin_of(785, steps) for steps in (16, 31, 32, 3_200)] == [1, 1, 2, 157]


def test_thinning_to_five_draws_costs_what_the_setting_says():
    """Of an autoregression, whose sums are geometric: 1.3 % of the effective draws."""
    for time in (20.0, 785.0):
        memory = (time - 1) / (time + 1)
        thinned = memory ** thin_of(time, 10**6)
        of_thinned = thin_of(time, 10**6) * (1 + thinned) / (1 - thinned)
        assert time / of_thinned == pytest.approx(0.987, abs=0.001)


def test_the_arguments_carry_the_plan_out(trusted, samples):
    options = trusted.sample_options(ess=1_000)
    assert options["data_passes"] == trusted.data_passes(ess=1_000)
    assert options["burn_in"] == trusted.burn_in
    assert options["num_chains"] == trusted.num_chains == 8
    assert options["thin"] == trusted.thin == int(trusted.autocorrelation_time / 5) > 1
    assert f"thin {trusted.thin}; " in repr(trusted)
    # As by the arguments one by one, which keep every step.
    passes = trusted.data_passes(ess=1_000)
    by_hand = {"data_passes": passes, "num_chains": 8, "burn_in": trusted.burn_in}
    every = ewsg.sample(KEY, trusted.kernel, trusted.start, DATA, **by_hand, **QUIET)
    assert every.num_steps == samples.num_steps
    np.testing.assert_array_equal(
        samples.position, every.position[:, trusted.thin - 1 :: trusted.thin]
    )
    # Moments are those of all steps; ESS and errors count the thinned draws as what they are.
    np.testing.assert_allclose(samples.moments.pooled().mean, every.mean, atol=1e-5)
    np.testing.assert_allclose(samples.moments.pooled().variance ** 0.5, every.sd, rtol=1e-4)
    few, many = summary(samples), summary(every)
    np.testing.assert_allclose(few.ess_bulk, many.ess_bulk, rtol=0.25)
    np.testing.assert_allclose(few.mcse, many.mcse, rtol=0.15)
    assert 0.7 < few.least_ess / 1_000 < 1.5


def test_a_longer_run_is_counted_in_steps(trusted, samples):
    """What `check` asks for are steps, not draws, whether the run was thinned or not."""
    report = ewsg.check(KEY, samples, MODEL, DATA, tolerance=0.004)
    assert report.outcome == "unsure"
    assert report.num_steps == samples.step[-1] - samples.step[0]
    assert report.num_steps == (samples.num_draws - 1) * trusted.thin
    times, steps = report.verdict.split("Run some ")[1].split(" times as long (to an ESS of ")
    steps = int(steps.split(" steps of each chain")[0].split(", ")[-1].replace(",", ""))
    assert steps == pytest.approx(float(times) * report.num_steps, rel=0.12)


@pytest.mark.parametrize("ess", [1e-6, 30.0])
def test_the_shortest_run_keeps_draws(trusted, ess):
    options = trusted.sample_options(ess)
    run = ewsg.sample(KEY, trusted.kernel, trusted.start, DATA, **options, **QUIET)
    assert run.num_draws >= 16


# What was doubted.


def test_a_kernel_with_doubts_is_the_same_value(trusted, doubted):
    kernel, other = doubted.kernel, trusted.kernel
    assert findings_of(kernel) == (Finding("plan", "doubt", TEXT, "give more passes"),)
    assert findings_of(other) == ()
    assert kernel == other
    assert hash(kernel) == hash(other)
    assert repr(kernel) == repr(other)
    assert jax.tree.structure(kernel) == jax.tree.structure(other)
    for same in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        assert findings_of(same) == findings_of(kernel)
    # A plan of which nothing is doubted any more has a kernel that says so.
    assert findings_of(dataclasses.replace(doubted, findings=()).kernel) == ()


def test_doubts_compile_nothing(trusted, doubted):
    """A run of the kernel with the note finds the program of a run without it."""
    counts = []
    for kernel in (trusted.kernel, doubted.kernel):
        ewsg.sample(KEY, kernel, jnp.zeros(2), DATA, 20, num_chains=3, **QUIET)
        counts.append(compiled_loop.advance_small._cache_size())
    assert counts[0] == counts[1] > 0


def test_the_report_of_its_run_begins_with_its_doubts(samples):
    assert of_kinds(samples.findings, "plan")[0].text == TEXT
    report = ewsg.check(KEY, samples, MODEL, DATA)
    alone = ewsg.check(KEY, dataclasses.replace(samples, findings=()), MODEL, DATA)
    assert report.outcome == alone.outcome
    assert report.verdict == f"{TEXT}; {alone.verdict}"
    lines = repr(report).splitlines()
    assert lines[0] == f"Check: {TEXT}; {alone.verdict}"
    assert "the plan advised: give more passes" in lines
    assert report.findings[0].kind == "plan"
    assert report.note == alone.note
    assert "plan" not in repr(alone)
    # Whatever else is given, and of a run whose draws were moved.
    corrected = report.correct(samples)
    again = ewsg.check(KEY, corrected, MODEL, DATA, tolerance=0.2)
    assert again.verdict.startswith(TEXT)


def test_a_file_and_a_run_that_goes_on_keep_the_doubts(samples, doubted, trusted, tmp_path):
    samples.save(tmp_path / "run.npz")
    assert ewsg.load(tmp_path / "run.npz").findings == samples.findings
    # A file of an earlier version says nothing of them.
    about, arrays = stored(samples)
    del about["findings"]
    archive.write(tmp_path / "old.npz", HOLDS_SAMPLES, about, arrays)
    old = ewsg.load(tmp_path / "old.npz")
    assert old.findings == ()
    np.testing.assert_array_equal(old.position, samples.position)
    more = ewsg.sample(
        KEY,
        trusted.kernel,
        None,
        DATA,
        40,
        state=samples.state,
        moments=ewsg.moments(steps="all"),
        **QUIET,
    )
    assert more.findings == ()
    assert samples.concatenate(more).findings == samples.findings


def test_a_resumed_run_keeps_the_doubts(doubted, trusted, tmp_path):
    """By its checkpoint, if the kernel was made anew; its moments need not be given again."""
    options = doubted.sample_options(ess=50) | {"checkpoint": tmp_path / "run"}
    run = ewsg.sample(KEY, doubted.kernel, doubted.start, DATA, **options, **QUIET)
    again = ewsg.resume(tmp_path / "run", DATA, kernel=trusted.kernel, **QUIET)
    assert again.findings == run.findings != ()
    np.testing.assert_array_equal(again.position, run.position)
    np.testing.assert_array_equal(again.moments.weight, run.moments.weight)


@pytest.mark.full
def test_several_data_sets_and_batches_of_chains_keep_the_doubts(doubted):
    both = ewsg.stack_data([DATA, DATA[:200]])
    runs = ewsg.sample(KEY, doubted.kernel, doubted.start, both, 40, num_chains=2, **QUIET)
    assert runs[1].findings == findings_of(doubted.kernel)
    batches = {"num_chains": 4, "chain_batch_size": 2}
    run = ewsg.sample(KEY, doubted.kernel, doubted.start, DATA, 40, **batches, **QUIET)
    assert run.findings == findings_of(doubted.kernel)
