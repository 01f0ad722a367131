"""Chains that diverge: when, where they rest, and that the others do not notice."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.run import health, loop

pytestmark = pytest.mark.full

KEY = jax.random.key(4)
DATA = jnp.linspace(-1.0, 1.0, 6)[:, None]
# A quartic: far from its middle a step overshoots, and each overshoot is larger than the last.
QUARTIC = ewsg.Posterior(lambda position, x: -jnp.sum((x - position) ** 4), lambda position: 0.0)
KERNEL = ewsg.sgld(QUARTIC, 0.01, batch_size=2)
NUM_STEPS = 40


def run(start, **options):
    return ewsg.sample(KEY, KERNEL, start, DATA, NUM_STEPS, stacked=True, **options)


def first_bad_step(chain, num_chains, start):
    """The step that is not finite and the position before, by stepping with the run's keys."""
    _, run_key, _ = jax.random.split(KEY, 3)
    key = jax.random.fold_in(run_key, chain)
    state = KERNEL.init(key, start, DATA)
    for step in range(NUM_STEPS):
        moved, info = KERNEL.step(jax.random.fold_in(key, step), state, DATA)
        if not info.is_finite:
            return step + 1, np.asarray(state.position)
        state = moved
    raise AssertionError("did not diverge")


@pytest.mark.full
def test_a_momentum_is_lost_before_the_position():
    """Explicit Euler moves by the momentum of before: a chain is lost where its momentum is."""
    kernel = ewsg.uld(QUARTIC, 0.05, friction=1.0, integrator="euler")
    with pytest.warns(RuntimeWarning, match="1 of 1 chains diverged"):
        lost = ewsg.sample(KEY, kernel, jnp.full(1, 9.0), DATA, NUM_STEPS)
    init_key, run_key, _ = jax.random.split(KEY, 3)
    state = kernel.init(
        jax.random.fold_in(jax.random.fold_in(init_key, 1), 0), jnp.full(1, 9.0), DATA
    )
    step, is_finite = jax.jit(kernel.step), True
    while is_finite:
        state, info = step(
            jax.random.fold_in(jax.random.fold_in(run_key, 0), int(state.step)), state, DATA
        )
        is_finite = bool(info.is_finite)
    assert np.isfinite(state.position).all(), "else the position alone would tell"
    assert lost.diverged_at.tolist() == [int(state.step)]


@pytest.mark.full
def test_one_lost_chain_among_a_thousand():
    calm = jnp.zeros((1000, 1))
    wild = calm.at[500].set(9.0)
    with pytest.warns(
        RuntimeWarning, match=r"1 of 1000 chains diverged, the first \(chain 500\) at step \d+"
    ):
        lost = run(wild, moments=ewsg.moments())
    whole = run(calm, moments=ewsg.moments())
    others = np.arange(1000) != 500
    step, rest = first_bad_step(500, 1000, wild[500])
    assert 2 < step < NUM_STEPS / 2, "the test needs a chain that diverges on the way"
    assert lost.diverged_at[500] == step
    assert np.all(lost.diverged_at[others] == -1)
    assert lost.is_finite.tolist() == others.tolist()

    np.testing.assert_array_equal(lost.position[others], whole.position[others])
    np.testing.assert_array_equal(lost.state.position[others], whole.state.position[others])
    np.testing.assert_array_equal(lost.moments.mean[others], whole.moments.mean[others])

    np.testing.assert_allclose(
        lost.position[500, step - 2 :], np.broadcast_to(rest, (NUM_STEPS - step + 2, 1)), rtol=1e-5
    )
    np.testing.assert_allclose(lost.state.position[500], rest, rtol=1e-5)
    # It counts in nothing that is pooled.
    assert lost.moments.weight[500] == 0
    np.testing.assert_allclose(
        lost.moments.mean[500], lost.position[500, : step - 1].mean(0), rtol=1e-4
    )
    assert np.isfinite(lost.position).all()
    assert lost.state.step.tolist() == [NUM_STEPS] * 1000, (
        "all chains are at one step, for a run that goes on"
    )


def test_chains_lost_in_different_calls(monkeypatch):
    """Cut into calls of a few steps, each chain rests where the uncut run lets it rest."""
    start = jnp.array([[0.0], [3.1], [0.3], [9.0], [0.1]])
    with pytest.warns(RuntimeWarning, match="chains diverged"):
        whole = run(start, moments=ewsg.moments(covariance="dense"), thin=3)
    monkeypatch.setattr(loop, "SECONDS_PER_CALL", 0.0)
    with pytest.warns(RuntimeWarning, match="chains diverged"):
        cut = run(start, moments=ewsg.moments(covariance="dense"), thin=3, randomness_memory=1)
    lost = whole.diverged_at[[1, 3]]
    assert np.all(lost > 0)
    assert len(set(lost.tolist())) == 2, "the test needs chains lost at different steps"
    np.testing.assert_array_equal(cut.diverged_at, whole.diverged_at)
    np.testing.assert_allclose(cut.position, whole.position, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(cut.moments.weight, whole.moments.weight)
    np.testing.assert_allclose(cut.moments.mean, whole.moments.mean, rtol=1e-4)
    np.testing.assert_allclose(
        cut.moments.covariance, whole.moments.covariance, rtol=1e-3, atol=1e-6
    )


@pytest.mark.full
def test_a_replay_may_begin_many_calls_ago(monkeypatch):
    """Where copies of the state take too long, a lost chain is looked for from the start on."""
    start = jnp.array([[0.0], [3.1], [0.3], [9.0], [0.1]])
    monkeypatch.setattr(loop, "SECONDS_PER_CALL", 0.0)
    found = []
    for share in (np.inf, 1e-12):
        monkeypatch.setattr(health, "COPYING_SHARE", share)
        with pytest.warns(RuntimeWarning, match="2 of 5 chains diverged"):
            found.append(run(start, moments=ewsg.moments(), randomness_memory=1))
    young, old = found
    assert len(set(old.diverged_at[[1, 3]].tolist())) == 2
    assert old.diverged_at.max() > 2, (
        "the test needs a chain that is lost some calls after the first"
    )
    np.testing.assert_array_equal(old.diverged_at, young.diverged_at)
    np.testing.assert_array_equal(old.position, young.position)
    np.testing.assert_array_equal(old.moments.mean, young.moments.mean)


@pytest.mark.full
def test_a_run_without_living_chains_ends_and_keeps_its_draws():
    with pytest.warns(RuntimeWarning, match="2 of 2 chains diverged"):
        samples = ewsg.sample(KEY, KERNEL, jnp.full((2, 1), 9.0), DATA, 10**9, stacked=True, thin=2)
    assert samples.num_steps < 10**6
    assert samples.num_draws == samples.num_steps // 2
    assert np.isfinite(samples.position).all()
    assert not samples.is_finite.any()
    assert not samples.interrupted
    assert repr(samples) == (
        f"Samples(num_chains=2, num_draws={samples.num_draws}, num_steps={samples.num_steps}, "
        f"data_passes={samples.data_passes:.4g}, diverged=2)"
    )


@pytest.mark.parametrize("error", [MemoryError(), KeyboardInterrupt()], ids=type)
def test_a_search_for_the_cause_loses_no_run(monkeypatch, error):
    start = jnp.array([[0.0], [9.0]])
    with pytest.warns(RuntimeWarning, match="1 of 2") as told:
        whole = run(start)
    assert told[0].filename == __file__

    def failing(*_, **__):
        raise error

    monkeypatch.setattr(health.divergence, "causes", failing)
    with pytest.warns(RuntimeWarning, match="1 of 2 chains diverged.*a smaller step_size may help"):
        found = run(start)
    np.testing.assert_array_equal(found.position, whole.position)
    np.testing.assert_array_equal(found.diverged_at, whole.diverged_at)
    assert found.interrupted == isinstance(error, KeyboardInterrupt)


@pytest.mark.full
def test_a_lost_chain_starts_again_where_it_rested():
    with pytest.warns(RuntimeWarning, match="1 of 2"):
        lost = run(jnp.array([[0.0], [9.0]]))
    still = ewsg.sgld(
        ewsg.Posterior(lambda position, x: 0.0 * position[0], lambda position: 0.0),
        1e-3,
        batch_size=2,
    )
    more = ewsg.sample(KEY, still, None, DATA, 5, state=lost.state)
    assert more.is_finite.all()
    np.testing.assert_allclose(more.position[1, -1], lost.position[1, -1], rtol=1e-5)
    with pytest.warns(
        RuntimeWarning, match=f"1 of 2 chains diverged, the first .chain 1. at step {NUM_STEPS + 1}"
    ):
        ewsg.sample(KEY, KERNEL, None, DATA, 5, state=lost.state)


def test_lost_draws_of_a_function():
    """What is kept of a lost chain is the function at its last finite position."""
    with pytest.warns(RuntimeWarning, match="1 of 2"):
        lost = run(jnp.array([[0.0], [9.0]]), keep=lambda position: {"square": position**2})
    np.testing.assert_allclose(
        lost.draws["square"][1, -1], np.asarray(lost.state.position[1]) ** 2, rtol=1e-6
    )


@pytest.mark.full
def test_a_schedule_that_reaches_zero():
    """T = 0 is gradient descent; exponential weights have none, and the run says so."""
    cold = lambda step: jnp.where(step < 7, 0.1, 0.0)
    model = ewsg.models.gaussian_location()
    run = lambda kernel: ewsg.sample(
        KEY, kernel, jnp.full(1, 2.0), DATA, 12, num_chains=2, stacked=False
    )
    descent = run(ewsg.ld(model, 0.1, temperature=cold))
    assert descent.is_finite.all()
    # θ' = θ − h n (θ − mean), the mean 0: without noise once T = 0.
    np.testing.assert_allclose(
        descent.position[:, 7:], 0.4 * descent.position[:, 6:-1], rtol=0, atol=1e-6
    )
    with pytest.warns(
        RuntimeWarning, match=r"at step 8; .*: there temperature was 0, by its schedule"
    ):
        weighted = run(ewsg.ewsg_ld(model, 0.1, batch_size=2, temperature=cold))
    assert weighted.diverged_at.tolist() == [8, 8]


def test_a_schedule_beside_a_mass_that_reverses_the_steps():
    falling = lambda step: 0.01 * (1 - step / 7)
    kernel = ewsg.ld(ewsg.models.gaussian_location(), falling, inverse_mass=2.0)
    with pytest.warns(RuntimeWarning, match=r"there step_size was -0.00142857, by its schedule"):
        ewsg.sample(KEY, kernel, jnp.zeros(1), DATA, 12)


WRONG_SIGN = ewsg.Posterior(
    lambda position, x: 0.5 * jnp.sum((x - position["w"]) ** 2),
    lambda position: -0.5 * jnp.sum(position["w"] ** 2),
)
HINT = "has the likelihood the right sign"


@pytest.mark.full
@pytest.mark.parametrize(
    "make", [lambda p: ewsg.sgld(p, 0.5, batch_size=2), lambda p: ewsg.uld(p, 0.5, friction=1.0)]
)
def test_a_likelihood_of_the_wrong_sign_is_told_so(make):
    """With a prior whose term overflows as the likelihood's: their difference is no number."""
    with pytest.warns(RuntimeWarning, match=HINT):
        ewsg.sample(KEY, make(WRONG_SIGN), {"w": jnp.ones(1)}, DATA, 10**5, num_chains=3, keep=None)
