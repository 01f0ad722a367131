"""Kinetic temperature of runs: stationary covariances of linear steps, known momenta."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import ewsg_jax as ewsg
from ewsg_jax.answers.check import kinetic, settings
from tests import own
from tests.oracles import lyapunov

ROWS = np.random.default_rng(5).normal(size=(20, 3)) * [1.0, 0.1, 4.0]
BATCHES = np.arange(len(ROWS))[:, None]
MODEL = ewsg.models.gaussian_location()
RUN = {"num_chains": 16, "burn_in": 2_000, "thin": 100}


def kernels(name, T):
    dynamics = {
        "splitting": ewsg.dynamics.splitting(0.1, friction=2.0, temperature=T),
        "exact": ewsg.dynamics.exact(0.1, friction=2.0, temperature=T, inverse_mass=0.25),
    }[name]
    return ewsg.kernel(dynamics, ewsg.gradients.uniform(MODEL, batch_size=1))


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "T", "scale", "shared"),
    [("splitting", 3.0, 1.0, False), ("exact", 0.5, 0.25, False), ("splitting", 3.0, 1.0, True)],
    ids=["splitting", "exact", "shared batches"],
)
def test_it_is_that_of_the_stationary_law(linearize, name, T, scale, shared):
    """E p² of the exact distribution, with every batch; largest along the widest coordinate."""
    kernel = kernels(name, T)
    covariance = lyapunov.stationary(linearize(kernel, 3, ROWS, BATCHES).steps)[1][3:, 3:] / (
        T * scale
    )
    ends = np.linalg.eigvalsh(covariance)
    samples = ewsg.sample(
        jax.random.key(1), kernel, jnp.zeros(3), ROWS, 80_000, shared_minibatch=shared, **RUN
    )
    found, passes = kinetic.kinetic(jax.random.key(2), kernel, samples, ROWS, T)
    assert ends[-1] > 1.5 * ends[0]  # there is heat to be seen
    off = (found.coordinates - np.diag(covariance)) / found.errors
    assert abs(off).max() < 5.5, (found.coordinates, np.diag(covariance), off)
    for heat, right in (
        (found.hottest, ends[-1]),
        (found.coldest, ends[0]),
        (found.mean, ends.mean()),
    ):
        assert abs(heat.value - right) < 5.5 * heat.error + 0.01 * right, (heat, right)
    assert found.hottest.error < 0.25 * (ends[-1] - ends[0])
    steps = (
        80_000
        // (settings.STEPS_PER_EXTRA_STEP * settings.MOMENTUM_READS)
        * settings.MOMENTUM_READS
    )
    assert_allclose(passes, 16 * steps / len(ROWS))


def test_squares_of_momenta_by_direction():
    """Chains ±√v along orthogonal directions: E p² is known exactly, of the two extremes too."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    heats = np.array([2.5, 1.0, 1.2, 0.6])
    # Every sign with every other, as often.
    signs = np.tile(np.array(np.meshgrid(*[[-1.0, 1.0]] * 4)).reshape(4, 16).T, (8, 4, 1))
    found = kinetic.from_momenta(signs * np.sqrt(heats) @ turn.T, shared=False)
    assert_allclose(found.coordinates, (turn**2) @ heats)
    assert_allclose(
        [found.mean.value, found.hottest.value, found.coldest.value], [heats.mean(), 2.5, 0.6]
    )
    apart = kinetic.from_momenta(
        np.pad(signs * np.sqrt(heats), ((0, 0), (0, 0), (0, 300))) + 1e-9, shared=False
    )
    assert_allclose([apart.hottest.value, apart.coldest.value], [2.5, 0.0], atol=1e-12)


def test_what_is_hottest_by_chance_is_not_called_so():
    """The largest of 20 directions of a right run is 1 ± its error: one half finds it."""
    rng = np.random.default_rng(7)
    off = []
    for _ in range(40):
        found = kinetic.from_momenta(rng.normal(size=(8, 32, 20)), shared=False)
        off += [
            (each.value - 1) / each.error for each in (found.hottest, found.coldest, found.mean)
        ]
    off = np.array(off).reshape(40, 3)
    # Means of 40 numbers of spread 1 or so; errors from few blocks have wide tails.
    assert (abs(off.mean(0)) < 5 / 40**0.5 * off.std(0)).all(), off.mean(0)
    assert (off.std(0) > 0.6).all()
    assert (off.std(0) < 1.5).all(), off.std(0)


@pytest.mark.full
def test_a_report_tells_it_and_chains_that_are_lost_are_left_out():
    kernel = kernels("splitting", 1.0)
    options = {"burn_in": 2_000, "thin": 100, "stacked": True}
    start = jnp.zeros((4, 3)).at[2].set(3e38)
    with pytest.warns(RuntimeWarning, match="diverged|finite"):
        samples = ewsg.sample(
            jax.random.key(1), kernel, start, ROWS.astype(np.float32), 8_000, **options
        )
    assert samples.is_finite.tolist() == [True, True, False, True]
    report = ewsg.check(jax.random.key(2), samples, MODEL, ROWS, kernel=kernel)
    alone = ewsg.check(jax.random.key(2), samples, MODEL, ROWS)
    assert report.kinetic is not None
    assert alone.kinetic is None
    assert np.isfinite(report.kinetic.coordinates).all()
    assert report.kinetic.hottest.value > 1.2
    assert (
        report.kinetic.errors[1] < 0.15
    )  # a chain at rest, taken for one of them, would make 0.25 of it
    assert str(report.kinetic) in repr(report)
    assert "kinetic" not in repr(alone)
    assert report.data_passes > alone.data_passes
    assert report.verdict == alone.verdict


@pytest.mark.full
def test_a_momentum_of_another_law_is_not_compared_with_a_normal_one():
    """A dynamics of one's own says that its kinetic energy is ‖p‖²/2, in a metric too."""

    class Known(own.Momentum):
        gaussian_momentum = True
        translates = True

    uniform, run = ewsg.gradients.uniform(MODEL, batch_size=5), {"num_chains": 4, "burn_in": 10}
    numbers = ewsg.hyperparameters(step_size=0.1, temperature=1.0, friction=2.0)
    known = ewsg.module(Known)(**numbers, alpha=0.0)
    assert kinetic.why_unknown(ewsg.kernel(known, uniform)) == ""
    in_metric = ewsg.dynamics.in_metric(known, 4.0)
    for dynamics, is_known in ((own.momentum(0.1, 2.0), False), (in_metric, True)):
        kernel = ewsg.kernel(dynamics, uniform)
        samples = ewsg.sample(jax.random.key(1), kernel, jnp.zeros(3), ROWS, 200, **run)
        report = ewsg.check(jax.random.key(2), samples, MODEL, ROWS, kernel=kernel)
        assert (report.kinetic is not None) == is_known
        assert ("kinetic temperature: not known, for momentum" in repr(report)) != is_known
