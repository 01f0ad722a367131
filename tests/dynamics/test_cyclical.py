"""Cyclical steps: values by the paper's formula, which draws are kept by enumeration, and runs that
go on bit for bit.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg

cyclical = ewsg.dynamics.cyclical
DATA = jnp.array([[0.5, -2.0], [1.5, 4.0], [-1.0, 7.0]])
MODEL = ewsg.models.gaussian_location()


@pytest.mark.parametrize(("period", "share"), [(10, 0.7), (7, 0.5), (2, 0.5), (50, 0.9)])
def test_values_are_the_paper_s(x64, period, share):
    """h_k = (h₀/2)(cos(π mod(k − 1, P)/P) + 1), no noise while mod(k − 1, P)/P < β; k from 1."""
    cycle = cyclical(0.3, period, exploration=share)
    for k in range(1, 3 * period + 1):
        phase = (k - 1) % period
        h = 0.15 * (np.cos(np.pi * phase / period) + 1)
        made = jnp.int32(k - 1)
        np.testing.assert_allclose(cycle(made), h, rtol=1e-14)
        explores = phase * 100 < round(100 * share) * period
        assert float(cycle.temperature(made)) == (0.0 if explores else 1.0)
        assert bool(cycle.keep_when(jnp.int32(k))) == (not explores)


@pytest.mark.usual_parameters("3-*")
@pytest.mark.parametrize(
    ("snapshots", "kept"),
    [(None, [7, 8, 9, 10]), (1, [10]), (2, [8, 10]), (3, [8, 9, 10]), (4, [7, 8, 9, 10])],
)
def test_which_draws_of_a_cycle_are_kept(snapshots, kept):
    cycle = cyclical(1e-2, 10, exploration=0.6, snapshots=snapshots)
    kernel = ewsg.sgld(MODEL, cycle, batch_size=1, temperature=cycle.temperature)
    samples = ewsg.sample(
        jax.random.key(0), kernel, jnp.zeros(2), DATA, 30, keep_when=cycle.keep_when, progress=False
    )
    assert samples.step.tolist() == [10 * c + k for c in range(3) for k in kept]
    assert set(samples.temperature) == {1.0}
    np.testing.assert_allclose(
        samples.step_size, [float(cycle(k - 1)) for k in samples.step], rtol=1e-6
    )


def test_a_cycle_is_descent_and_then_langevin_dynamics(x64):
    """Typed, on V = Σ ‖θ − xᵢ‖²/2 with full gradients: the noise enters the last phase alone."""
    cycle = cyclical(0.1, 5, exploration=0.6)
    kernel = ewsg.ld(MODEL, cycle, temperature=cycle.temperature)
    state, theta = kernel.init(jax.random.key(0), jnp.ones(2), DATA), np.ones(2)
    step = jax.jit(kernel.transition)
    for k in range(10):
        drawn = kernel.draw(jax.random.fold_in(jax.random.key(1), k), state, DATA)
        state, _ = step(drawn, state, DATA)
        h = 0.05 * (np.cos(np.pi * (k % 5) / 5) + 1)
        noise = np.sqrt(2 * h) * np.asarray(drawn.noise) * (k % 5 >= 3)
        theta = theta - h * (3 * theta - np.asarray(DATA).sum(0)) + noise
        np.testing.assert_allclose(state.position, theta, rtol=1e-12)


def test_a_run_goes_on_bit_for_bit(tmp_path):
    cycle = cyclical(1e-2, 8, exploration=0.5, snapshots=2)
    kernel = ewsg.sghmc(MODEL, cycle, friction=5.0, batch_size=1, temperature=cycle.temperature)
    key, path = jax.random.key(2), tmp_path / "run.npz"
    options = {"num_chains": 2, "keep_when": cycle.keep_when, "progress": False}
    whole = ewsg.sample(key, kernel, jnp.zeros(2), DATA, 24, **options)
    part = ewsg.sample(key, kernel, jnp.zeros(2), DATA, 13, **options)
    rest = ewsg.sample(key, kernel, None, DATA, 11, state=part.state, **options)
    np.testing.assert_array_equal(part.concatenate(rest).draws, whole.draws)

    ewsg.sample(key, kernel, jnp.zeros(2), DATA, 24, checkpoint=path, **options)
    equal = cyclical(1e-2, 8, exploration=0.5, snapshots=2).keep_when
    again = ewsg.resume(path, DATA, kernel=kernel, keep_when=equal, progress=False)
    np.testing.assert_array_equal(again.draws, whole.draws)


def test_it_is_a_value_and_a_stack_may_differ_by_its_steps():
    cycle = cyclical(0.1, 10, snapshots=2)
    assert repr(cycle) == "cyclical(step_size=0.1, period=10, snapshots=2)"
    assert repr(cycle.temperature) == f"{cycle!r}.temperature"
    assert cycle.keep_when == cyclical(0.1, 10, snapshots=2).keep_when
    assert cycle != cyclical(0.2, 10, snapshots=2)
    kernels = [ewsg.sgld(MODEL, cyclical(h, 10), batch_size=1) for h in (1e-3, 2e-3)]
    assert ewsg.stack(kernels)[1] == kernels[1]


@pytest.mark.full
def test_a_temperature_of_0_is_no_cause_of_a_divergence():
    cycle = cyclical(10.0, 10)
    kernel = ewsg.sgld(MODEL, cycle, batch_size=1, temperature=cycle.temperature)
    with pytest.warns(RuntimeWarning, match="diverged") as caught:
        ewsg.sample(jax.random.key(0), kernel, jnp.ones(2), DATA, 200, progress=False)
    assert "by its schedule" not in str(caught[0].message)
