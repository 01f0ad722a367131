"""The run: what is kept, what is counted, how it starts and how it stops."""

import dataclasses
import os
import signal
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.base.compiling import Ahead
from ewsg_jax.base.progress import Progress
from ewsg_jax.gradients import Evaluations
from ewsg_jax.run import layout, loop, plan
from tests.parts import altered

KEY = jax.random.key(0)
DATA = jnp.arange(12.0).reshape(6, 2)
MODEL = ewsg.models.gaussian_location()
KERNEL = ewsg.sgld(MODEL, 0.01, batch_size=2)


@pytest.mark.full
@pytest.mark.parametrize(("burn_in", "thin"), [(0, 1), (7, 4), (3, 20), (0, 13)])
def test_small_buffers_and_calls_keep_the_same_draws(monkeypatch, burn_in, thin):
    """Many calls, with a draw in progress at their ends, keep what one call keeps."""
    kernel = ewsg.sgld(MODEL, 0.01, batch_size=2)
    whole = ewsg.sample(
        KEY, kernel, jnp.zeros(2), DATA, 60, num_chains=2, burn_in=burn_in, thin=thin
    )
    monkeypatch.setattr(plan.limits, "BYTES_AT_ONCE", 3 * 16)  # three draws of two chains
    monkeypatch.setattr(layout, "MOST_STEPS_PER_BLOCK", 4)
    monkeypatch.setattr(loop, "SECONDS_PER_CALL", 0.0)  # one block a call
    cut = ewsg.sample(KEY, kernel, jnp.zeros(2), DATA, 60, num_chains=2, burn_in=burn_in, thin=thin)
    np.testing.assert_allclose(cut.position, whole.position, rtol=1e-5)
    np.testing.assert_array_equal(cut.step, whole.step)
    np.testing.assert_array_equal(cut.evaluations, whole.evaluations)
    assert cut.gradient_evaluations == whole.gradient_evaluations == 2 * 60 * 2


def test_data_passes():
    """The most steps within the budget; a weighted kernel spends M+1 batches a step."""
    samples = ewsg.sample(KEY, KERNEL, jnp.zeros(2), DATA, data_passes=5)
    assert (samples.num_steps, samples.data_passes) == (15, 5.0)
    weighted = ewsg.ewsg_ld(MODEL, 0.01, batch_size=2, chain_length=2)
    samples = ewsg.sample(KEY, weighted, jnp.zeros(2), DATA, data_passes=5.5, num_chains=3)
    assert (samples.num_steps, samples.data_passes) == (5, 5.0)
    assert samples.gradient_evaluations == 3 * 5 * 6
    assert samples.evaluations.tolist() == [6, 12, 18, 24, 30]


def test_evaluations_at_the_start_count_once():
    """What `init` costs is in the budget and totals of its own run, not of one that goes on."""
    kernel = altered(
        KERNEL, evaluations=lambda data: Evaluations(per_step=2, per_extra_gradient=2, at_init=6)
    )
    first = ewsg.sample(KEY, kernel, jnp.zeros(2), DATA, data_passes=5, num_chains=3)
    assert (first.num_steps, first.data_passes) == (12, 5.0)
    assert first.evaluations.tolist() == list(range(8, 31, 2))
    more = ewsg.sample(KEY, kernel, None, DATA, data_passes=5, state=first.state)
    assert (more.num_steps, more.data_passes) == (15, 5.0)
    assert more.evaluations.tolist() == list(range(2, 31, 2))


@pytest.mark.full
def test_evaluations_beyond_32_bits():
    """Totals are Python's integers, however much a step costs."""
    many = 2**31 - 1
    kernel = altered(KERNEL, evaluations=lambda data: Evaluations(many, many))
    samples = ewsg.sample(KEY, kernel, jnp.zeros(2), DATA, 20, num_chains=2)
    assert samples.gradient_evaluations == 2 * 20 * many
    assert samples.evaluations.tolist() == [step * many for step in range(1, 21)]


def test_starts():
    from_function = ewsg.sample(
        KEY, KERNEL, lambda key: jax.random.normal(key, (2,)), DATA, 1, num_chains=5
    )
    assert not from_function.common_start
    assert len(np.unique(from_function.position[:, 0], axis=0)) == 5
    stacked = jnp.arange(6.0).reshape(3, 2) * 1000
    far = ewsg.sample(KEY, KERNEL, stacked, DATA, 1, stacked=True)
    assert far.num_chains == 3
    assert not far.common_start
    assert np.all(np.diff(far.position[:, 0, 0]) > 1000)
    assert ewsg.sample(KEY, KERNEL, jnp.zeros(2), DATA, 1, num_chains=2).common_start


def test_shared_minibatches_are_shared_and_noise_is_not():
    kernel = ewsg.sgld(MODEL, 1e-12, batch_size=1)

    def increments(shared):
        samples = ewsg.sample(
            KEY, kernel, jnp.zeros(2), DATA * 1e6, 30, num_chains=4, shared_minibatch=shared
        )
        assert samples.shared_minibatch is shared
        notes = ewsg.diagnostics.summary(samples).notes
        assert any("share their batches" in note for note in notes) is shared
        return np.diff(samples.position, axis=1)

    drift = increments(True)
    assert np.all(np.ptp(drift, axis=0) < 2e-5), "one batch for all chains"
    assert np.all(np.ptp(drift, axis=0) > 0), "each chain has its own noise"
    assert np.any(np.ptp(increments(False), axis=0) > 2e-5), "own batches differ"


def test_interrupt_keeps_what_was_sampled(monkeypatch):
    calls = []

    def update(self, steps):
        calls.append(steps)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Progress, "update", update)
    before = signal.getsignal(signal.SIGINT)
    samples = ewsg.sample(KEY, KERNEL, jnp.zeros(2), DATA, 10**9, num_chains=2, thin=100)
    assert samples.interrupted
    assert samples.num_steps == sum(calls) < 10**9
    assert samples.position.shape[:2] == (2, samples.num_steps // 100)
    assert samples.gradient_evaluations == 2 * 2 * samples.num_steps
    assert signal.getsignal(signal.SIGINT) is before, "the handler is put back"


def reporting(counted):
    """Step t costs t + 1 evaluations, accepts in every third and overflows in every fourth."""

    def transition(randomness, state, data):
        moved, info = KERNEL.transition(randomness, state, data)
        return moved, info._replace(
            gradient_evaluations=state.step + 1,
            acceptance=(state.step % 3 == 0).astype(jnp.float32),
            overflow=state.step % 4 == 0,
        )

    return altered(
        KERNEL,
        transition=transition,
        evaluations=lambda data: Evaluations(7, 0, at_init=5, counted=counted),
    )


def test_what_steps_report_is_summed_up(monkeypatch):
    """In calls of one block each, so that evaluations up to a draw are those of whole calls."""
    monkeypatch.setattr(loop, "SECONDS_PER_CALL", 0.0)
    arguments = KEY, reporting(counted=True), jnp.zeros(2), DATA
    with pytest.warns(
        RuntimeWarning, match=r"3 of 3 chains .* in up to 6 steps \(samples.overflow\)"
    ):
        samples = ewsg.sample(*arguments, 24, num_chains=3, thin=4, randomness_memory=1)
    assert samples.gradient_evaluations == 3 * (5 + sum(range(1, 25)))
    assert samples.gradient_evaluations.__class__ is int
    expected = 5 + np.cumsum(np.arange(1, 25))
    assert samples.evaluations.tolist() == expected[3::4].tolist()
    np.testing.assert_allclose(samples.acceptance, [8 / 24] * 3, rtol=1e-6)
    assert samples.overflow.tolist() == [6] * 3
    with pytest.warns(RuntimeWarning, match="in up to 2 steps"):
        more = ewsg.sample(KEY, arguments[1], None, DATA, 6, state=samples.state)
    assert more.gradient_evaluations == 3 * sum(range(25, 31))
    assert more.overflow.tolist() == [2] * 3


def test_costs_that_are_known_are_not_counted():
    with pytest.warns(
        RuntimeWarning, match="2 of 2 chains had more bright or selected data than there is room"
    ):
        samples = ewsg.sample(KEY, reporting(counted=False), jnp.zeros(2), DATA, 10, num_chains=2)
    assert samples.gradient_evaluations == 2 * (5 + 70)
    plain = ewsg.sample(KEY, KERNEL, jnp.zeros(2), DATA, 10, num_chains=2)
    assert plain.acceptance.tolist() == [1.0, 1.0]
    assert plain.overflow.tolist() == [0, 0]


def test_index_acceptance():
    """Equal rows have equal weights, so every proposal is accepted; unequal ones reject some."""
    kernel = ewsg.ewsg_ld(MODEL, 0.1, batch_size=1, chain_length=3)
    equal = ewsg.sample(KEY, kernel, jnp.zeros(2), jnp.ones((6, 2)), 50, num_chains=2)
    assert equal.index_acceptance.tolist() == [1.0, 1.0]
    assert np.all(
        ewsg.sample(KEY, kernel, jnp.zeros(2), DATA, 50, num_chains=2).index_acceptance < 0.9
    )


@pytest.mark.full
def test_to_arviz_keeps_names_and_shapes():
    model = ewsg.Posterior(
        lambda p, x: -0.5 * jnp.sum((x - p["mean"]) ** 2) - 0.5 * p["rest"][0] ** 2, lambda p: 0.0
    )
    position = {"mean": jnp.zeros(2), "rest": (jnp.zeros(()), None)}
    samples = ewsg.sample(
        KEY, ewsg.sgld(model, 0.01, batch_size=2), position, DATA, 8, num_chains=3, burn_in=4
    )
    assert {k: v.shape for k, v in samples.named().items()} == {"mean": (3, 4, 2), "rest.0": (3, 4)}
    converted = samples.to_arviz(dims={"mean": ["axis"]})
    np.testing.assert_array_equal(converted.posterior["mean"].values, samples.position["mean"])
    assert converted.posterior["mean"].dims == ("chain", "draw", "axis")
    plain = ewsg.sample(KEY, KERNEL, jnp.zeros(2), DATA, 8)
    np.testing.assert_array_equal(plain.to_arviz().posterior["position"].values, plain.position)


@pytest.mark.full
def test_means_and_sds_far_from_zero():
    """In float32 NumPy's sums have lost them: by most of the spread."""
    rng = np.random.default_rng(0)
    far = 1e4 + 0.05 * rng.standard_normal((8, 6_000, 2))
    narrow = ewsg.sample(KEY, KERNEL, jnp.zeros(2), DATA, 2, num_chains=8)
    diverged = np.where(np.arange(8) == 3, 17, -1)
    run = dataclasses.replace(
        narrow, draws={"a": far.astype(np.float32), "b": far[..., 0]}, diverged_at=diverged
    )
    fine = np.delete(far, 3, axis=0).reshape(-1, 2)
    kept = np.delete(run.draws["a"].astype(float), 3, axis=0).reshape(-1, 2)
    assert np.abs(run.draws["a"].mean((0, 1)) - kept.mean(0)).max() > 0.5 * 0.05
    for found, wanted in ((run.mean, "mean"), (run.sd, "std")):
        assert found["a"].dtype == found["b"].dtype == np.float64
        np.testing.assert_allclose(found["a"], getattr(kept, wanted)(0), rtol=1e-9)
        np.testing.assert_allclose(found["b"], getattr(fine[:, 0], wanted)(), rtol=1e-9)
    lost = dataclasses.replace(run, diverged_at=np.full(8, 5))
    assert np.isnan(lost.mean["a"]).all()
    assert np.isnan(lost.sd["b"])
    bare = ewsg.sample(KEY, KERNEL, jnp.zeros(2), DATA, 5, keep=None, moments=ewsg.moments())
    for name in ("mean", "sd"):
        with pytest.raises(AttributeError, match=r"no draws.*samples\.moments"):
            getattr(bare, name)


def test_an_interrupt_while_programs_are_traced_is_not_lost():
    """Python drops what a callback of its garbage collector raises, and lowering has many."""

    class Collected:
        """An object whose end has a callback."""

    def work():
        one = Collected()
        watched = weakref.ref(one, lambda _: signal.raise_signal(signal.SIGINT))
        del one
        assert watched() is None

    with pytest.raises(KeyboardInterrupt):
        Ahead().add("steps", work)
