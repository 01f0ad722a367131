"""What a run does with a memory: shared where it may be, exactly counted, in a file."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from ewsg_jax.gradients import Evaluations
from ewsg_jax.run.request import steps_reaching, steps_within

KEY = jax.random.key(0)
X = np.random.default_rng(1).normal(size=(12, 3))
DATA = {"x": X, "y": (X[:, 0] > 0).astype(float), "stratum": np.arange(12) % 3}
MODEL = ewsg.models.logistic_regression(prior_scale=2.0)
CENTER = jnp.array([0.5, -0.2, 0.1])
STARTS = np.random.default_rng(2).normal(size=(4, 3))


def control_variate(**options):
    return ewsg.cv_ld(MODEL, 0.05, batch_size=2, **options)


def strata():
    return ewsg.cp_sghmc(MODEL, 0.05, friction=2.0, batch_size=4, labels="stratum", num_strata=3)


def run(kernel, position, steps=30, **options):
    return ewsg.sample(KEY, kernel, position, DATA, steps, **options)


def shapes(memory):
    return {np.shape(leaf) for leaf in jax.tree.leaves(memory)}


@pytest.mark.full
def test_one_center_serves_all_chains(x64):
    given = run(control_variate(center=CENTER), STARTS, stacked=True)
    assert shapes(given.state.memory) == {(3,)}
    own = run(control_variate(), STARTS, stacked=True)
    assert shapes(own.state.memory) == {(4, 3)}
    np.testing.assert_array_equal(own.state.memory.center, STARTS)
    common = run(control_variate(), CENTER, num_chains=4)
    assert shapes(common.state.memory) == {(3,)}
    np.testing.assert_array_equal(common.state.memory.center, CENTER)


NARROW = ewsg.models.logistic_regression(prior_scale=0.01)


@pytest.mark.full
@pytest.mark.parametrize(
    "kernel",
    [
        ewsg.cv_ld(NARROW, 1e-6, batch_size=2, center=CENTER),
        ewsg.saga_ld(NARROW, 1e-6, batch_size=2),
    ],
)
def test_a_lost_chain_leaves_the_memory_alone(kernel):
    """One chain starts where its first step is not finite; the others' bits do not change."""
    positions = np.float32(STARTS)
    healthy = run(kernel, positions, 30, stacked=True)
    positions[1] = 3e38
    with pytest.warns(RuntimeWarning, match="1 of 4 chains diverged"):
        ill = run(kernel, positions, 30, stacked=True)
    others = [0, 2, 3]
    np.testing.assert_array_equal(ill.position[others], healthy.position[others])
    assert ill.diverged_at.tolist()[0] == -1 < ill.diverged_at[1]
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(ill.state.memory)), (
        "it rests with its chain"
    )
    for mine, theirs in zip(
        jax.tree.leaves(ill.state.memory), jax.tree.leaves(healthy.state.memory), strict=True
    ):
        if mine.shape[0] == 4:
            mine, theirs = mine[jnp.array(others)], theirs[jnp.array(others)]
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.full
@pytest.mark.parametrize("kernel", [control_variate(center=CENTER), strata()])
def test_shared_minibatch_with_a_shared_memory(kernel):
    """Chains are apart, and the first one is what it is alone."""
    together, alone = (
        run(kernel, starts, stacked=True, shared_minibatch=True).position
        for starts in (np.float32(STARTS), np.float32(STARTS[:1]))
    )
    assert len(np.unique(together[:, -1], axis=0)) == 4
    np.testing.assert_allclose(together[:1], alone, rtol=1e-4, atol=1e-5)


def test_cost_of_any_steps_is_the_sum_over_them():
    cost = Evaluations(4, 2, at_init=7, per_refresh=12, refresh_every=5)
    each = np.array([4 + 12 * (t % 5 == 0) for t in range(60)])
    for first in range(12):
        for count in range(30):
            assert cost.of_steps(first, count) == each[first : first + count].sum()
    np.testing.assert_array_equal(
        cost.of_steps(3, np.arange(30)), [each[3 : 3 + k].sum() for k in range(30)]
    )


@pytest.mark.usual_parameters("0")
@pytest.mark.parametrize("first", [0, 1, 4, 5])
def test_a_budget_counts_refreshes(first):
    """The largest number of steps that fits, found by trying all of them."""
    cost = Evaluations(4, 2, at_init=7, per_refresh=12, refresh_every=5)
    for passes in np.arange(0.25, 30, 0.25):
        fits = [k for k in range(200) if 7 + cost.of_steps(first, k) <= passes * 12]
        assert steps_within(cost, 12, float(passes), first) == max(fits, default=-1)


@pytest.mark.full
def test_a_budget_beyond_all_counting_is_refused_as_such():
    cost = Evaluations(4, 2, at_init=7)
    assert min(steps_within(cost, 12, 1e30), steps_reaching(cost, 12, 1e30)) >= 2**31
    kernel = ewsg.sgld(ewsg.models.gaussian_location(), 0.01, batch_size=2)
    with pytest.raises(ValueError, match="steps are counted in 32 bits"):
        ewsg.sample(jax.random.key(0), kernel, jnp.zeros(2), jnp.ones((6, 2)), data_passes=1e30)
