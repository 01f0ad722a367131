"""The excess temperature of gradient noise, where it is known in closed form."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.diagnostics._gradient_noise import ratios
from tests import own

KEY = jax.random.key(0)
DATA = jax.random.normal(KEY, (1000, 3)) * jnp.array([1.0, 0.5, 0.2])
MODEL, SHARP = ewsg.models.gaussian_location(), ewsg.models.gaussian_location(noise_scale=1000**0.5)
START = jnp.zeros(3)
COVARIANCE = 1000**2 / 5 * np.asarray(DATA).var(0)
"""Of the gradient of five rows."""


def run(kernel, num_chains=4, num_steps=40, position=START, data=DATA, **options):
    return ewsg.sample(KEY, kernel, position, data, num_steps, num_chains=num_chains, **options)


def noise(kernel, samples=None, data=DATA):
    return ewsg.diagnostics.gradient_noise(
        KEY, kernel, run(kernel) if samples is None else samples, data
    )


@pytest.mark.usual_parameters("kernel1-2.5e-05")
@pytest.mark.parametrize(
    ("kernel", "ratio"),
    [
        (ewsg.sgld(MODEL, 1e-5, batch_size=5), 1e-5 / 2),
        (
            ewsg.sghmc(MODEL, 1e-3, friction=10.0, batch_size=5, temperature=2.0),
            1e-3 / (2 * 10 * 2),
        ),
    ],
)
def test_it_is_the_formula(kernel, ratio):
    """h Cov(g)/(2T), h Cov(g)/(2γT)."""
    found = noise(kernel)
    assert found.largest == pytest.approx(ratio * COVARIANCE.max(), rel=0.25)
    assert found.median == pytest.approx(ratio * np.median(COVARIANCE), rel=0.25)
    assert found.reason == ""


@pytest.mark.full
def test_it_is_that_of_the_position():
    """BAOAB at γ = 2: friction takes most of a batch's kick once it has moved the position."""
    kernel = ewsg.sghmc(SHARP, 0.8, friction=2.0, batch_size=5, integrator="BAOAB")
    expected = 0.8**2 / 4 / np.tanh(0.8) * COVARIANCE.max() / 1000**2
    assert noise(kernel).largest == pytest.approx(expected, rel=0.25)


def anchored(**options):
    return ewsg.kernel(
        ewsg.dynamics.langevin(1e-5), ewsg.gradients.svrg(MODEL, batch_size=5, **options)
    )


@pytest.mark.usual_parameters("kernel0-", "kernel7-weights")
@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (ewsg.sgld(MODEL, 1e-5, batch_size=5), ""),
        (ewsg.cv_ld(MODEL, 1e-5, batch_size=5, center=np.zeros(3)), ""),
        (ewsg.saga_ld(MODEL, 1e-5, batch_size=5), ""),
        (ewsg.psgld(MODEL, 1e-5, batch_size=5), ""),
        (ewsg.sgld(MODEL, 1e-5, batch_size=5, temperature=lambda step: 1.0), "schedule"),
        (ewsg.sgld(MODEL, 1e-5, batch_size=5, rows="epochs"), "epoch"),
        (ewsg.svrg_ld(MODEL, 1e-5, batch_size=5, refresh_every=10), "age of the snapshot"),
        (ewsg.ewsg(MODEL, 1e-5, friction=1.0, batch_size=5), "weights"),
        (ewsg.nc_sghmc(MODEL, 1e-5, friction=1.0, batch_size=5), "compensates the noise"),
        (ewsg.sgnht(MODEL, 1e-5, friction=1.0, batch_size=5), "thermostat"),
        (ewsg.hamcmc(MODEL, 1e-5, batch_size=5), "several points"),
    ],
)
def test_where_it_is_known(kernel, reason):
    found = noise(kernel)
    assert (found.reason == "") == (reason == "")
    assert reason in found.reason
    assert (found.largest is None) == (found.median is None) == (reason != "")


def test_without_batches_there_is_none():
    assert noise(ewsg.ld(MODEL, 1e-4))[:2] == (0.0, 0.0)


@pytest.mark.full
@pytest.mark.parametrize(
    "kernels",
    [
        [ewsg.sgld(MODEL, h, batch_size=5) for h in (1e-4, 2e-7)],
        [ewsg.sgld(MODEL, 1e-5, batch_size=5, temperature=t) for t in (1.0, 4.0)],
        [ewsg.sghmc(SHARP, 0.8, friction=f, batch_size=5, integrator="BAOAB") for f in (2.0, 0.5)],
    ],
    ids=["step sizes", "temperatures", "frictions"],
)
def test_members_of_a_stack_have_that_of_their_own_runs(kernels):
    runs = run(ewsg.stack(kernels))
    for each, one in zip(kernels, runs, strict=True):
        assert noise(each, one).largest == pytest.approx(noise(each).largest, rel=1e-3)


@pytest.mark.full
def test_data_sets_have_theirs():
    """h Cov(g)/2 of each, by batches of its own."""
    rows = [DATA, DATA[:250]]
    kernel = ewsg.sgld(MODEL, 1e-5, batch_size=5)
    runs = run(kernel, data=ewsg.stack_data(rows))
    for one, some in zip(runs, rows, strict=True):
        expected = 1e-5 / 2 * len(some) ** 2 / 5 * np.asarray(some).var(0).max()
        assert noise(kernel, one, some).largest == pytest.approx(expected, rel=0.25)


@pytest.mark.full
def test_diverged_chains_are_left_out():
    starts = jnp.zeros((4, 3)).at[1].set(1e38)
    kernel = ewsg.sgld(MODEL, 1e-4, batch_size=5)
    with pytest.warns(RuntimeWarning, match="1 of 4 chains diverged"):
        samples = run(kernel, position=starts, stacked=True, num_chains=1)
    assert noise(kernel, samples).largest == pytest.approx(1e-4 / 2 * COVARIANCE.max(), rel=0.25)


@pytest.mark.full
@pytest.mark.parametrize("d", [1, 300])
def test_the_largest_of_many_estimates_is_not_so_by_chance(d):
    """With one half for both, 300 coordinates of 0.05 come out at 0.9."""
    rng = np.random.default_rng(1)
    batch, noise = rng.standard_normal((2, 8, 8, d))
    assert ratios(batch * 0.05**0.5, noise)[0] == pytest.approx(0.05, rel=0.5)


@pytest.mark.full
def test_a_direction_may_be_hotter_than_any_coordinate():
    """Along (1, …, 1) it is d times that of a coordinate."""
    rng = np.random.default_rng(2)
    common, noise = rng.standard_normal((8, 32, 1)) * np.ones(20), rng.standard_normal((8, 32, 20))
    assert ratios(0.1 * common, noise)[0] == pytest.approx(0.01 * 20, rel=0.4)
    # What moves by no more than rounding is left out, and what does not move at all.
    still = np.concatenate([noise[..., :2], 1e-9 * noise[..., :1], np.zeros((8, 32, 1))], axis=2)
    assert ratios(common[..., :4], still, 1e-7)[0] == pytest.approx(2.0, rel=0.4)
    assert ratios(common, np.zeros((8, 32, 20))) is None


# Parts of one's own.


@pytest.mark.full
def test_a_memory_of_earlier_batches_adds_up():
    """Averaged over two steps: a quarter of the variance in each, and as much in all of them."""
    dynamics = ewsg.dynamics.langevin(1e-5)
    estimator = own.of_rows(own.Averaged, MODEL)
    found = noise(ewsg.kernel(dynamics, estimator))
    assert found.largest is None
    assert found.median is None
    assert "the memory of averaged depends on earlier batches" in found.reason


def test_an_estimator_with_a_memory_may_say_that_it_is_unbiased():
    class Unbiased(own.Averaged):
        unbiased = True

    estimator = own.of_rows(ewsg.module(Unbiased), MODEL)
    assert noise(ewsg.kernel(ewsg.dynamics.langevin(1e-5), estimator)).reason == ""


@pytest.mark.full
def test_a_gradient_that_moves_the_position_in_another_proportion():
    uniform = ewsg.gradients.uniform(MODEL, batch_size=5)
    found = noise(ewsg.kernel(own.momentum(1e-3, 10.0, alpha=0.5), uniform))
    assert found.largest is None
    assert "in other proportions" in found.reason


def test_one_that_moves_it_as_the_noise_does():
    """The scheme of `semi_implicit`, and its number."""
    uniform = ewsg.gradients.uniform(MODEL, batch_size=5)
    found = noise(ewsg.kernel(own.momentum(1e-3, 10.0), uniform))
    assert found.largest == pytest.approx(1e-3 / 20 * COVARIANCE.max(), rel=0.25)


@pytest.mark.full
@pytest.mark.parametrize(
    ("kept", "reason"),
    [("trace", "the state of follows has trace in addition"), ("temperature", "no field named")],
)
def test_a_state_or_a_temperature_that_is_not_known(kept, reason):
    class State(NamedTuple):
        position: jax.Array
        trace: jax.Array
        step: jax.Array

    class Follows(own.Plain):
        def init(self, key, position):
            return State(position, position, jnp.int32(0))

        def apply(self, noise, prepared, estimate, gradient_at):
            trace = 0.9 * prepared.trace + estimate.gradient
            moved = prepared.position - self.step_size(0) * trace + 1e-3 * noise
            return State(moved, trace, prepared.step + 1)

    class Cold(ewsg.dynamics.Dynamics):
        step_size: object

        def init(self, key, position):
            return own.State(position, jnp.int32(0))

        def apply(self, noise, prepared, estimate, gradient_at):
            moved = prepared.position - self.step_size(0) * estimate.gradient + 1e-3 * noise
            return own.State(moved, prepared.step + 1)

    h = ewsg.hyperparameters(step_size=1e-5)
    dynamics = own.plain(1e-5, ewsg.module(Follows)) if kept == "trace" else ewsg.module(Cold)(**h)
    found = noise(ewsg.kernel(dynamics, ewsg.gradients.uniform(MODEL, batch_size=5)))
    assert found.largest is None
    assert reason in found.reason
