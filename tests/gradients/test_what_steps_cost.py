"""What a step costs: one full gradient for all chains where it is due, and what is reported."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from tests.gradients.six_rows import MODELS, N, W, X, Y, as_jax

pytestmark = pytest.mark.full

CHAINS = 4


def counting(calls):
    """Linear regression whose residual notes for how many rows and chains it is run."""

    def on_host(predictors, y):
        calls.append(np.broadcast_shapes(predictors.shape, y.shape))
        return (y - predictors).astype(predictors.dtype)

    def residual(predictors, rows):
        like = jax.ShapeDtypeStruct(predictors.shape, predictors.dtype)
        return jax.pure_callback(on_host, like, predictors, rows["y"], vmap_method="expand_dims")

    return ewsg.Posterior.linear(
        lambda s, row: -0.5 * (row["y"] - s) ** 2,
        lambda w: -0.5 * jnp.sum(w**2),
        inputs=lambda row: row["x"],
        residual=residual,
    )


REFRESHED = {
    "svrg-II": lambda posterior: ewsg.gradients.svrg(posterior, batch_size=2),
    "svrg-I": lambda posterior: ewsg.gradients.svrg(posterior, batch_size=2, option="I"),
    "covariance_tracking": lambda posterior: ewsg.gradients.covariance_tracking(
        posterior, batch_size=2
    ),
    "exponentially_weighted": lambda posterior: ewsg.gradients.exponentially_weighted(
        ewsg.gradients.svrg(posterior, batch_size=2)
    ),
}


@pytest.mark.usual_parameters("svrg-II")
@pytest.mark.parametrize("name", REFRESHED)
def test_chains_in_phase_share_a_refresh(name):
    """K = 3: one full gradient for all chains in steps 0, 3, 6, and no row of it in others."""
    calls = []
    kernel = ewsg.kernel(
        ewsg.dynamics.splitting(0.05, friction=1.0), REFRESHED[name](counting(calls))
    )
    data = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), {"x": X, "y": Y})
    keys = jax.random.split(jax.random.key(0), CHAINS)
    starts = jnp.asarray(np.random.default_rng(2).normal(size=(CHAINS, 3)), jnp.float32)
    states = jax.jit(jax.vmap(kernel.init, (0, 0, None)))(keys, starts, data)
    step = jax.jit(jax.vmap(kernel.step, (0, 0, None))).lower(keys, states, data).compile()
    assert str(step.as_text()).count(" conditional(") == 1, "the refresh is computed in every step"

    full = []
    for _ in range(7):
        calls.clear()
        states, info = jax.block_until_ready(step(keys, states, data))
        full.append([shape for shape in calls if shape[-1] == N])
        assert {shape[-1] for shape in calls} <= {N, 2}
        assert np.ptp(info.gradient_evaluations) == 0
    assert [len(x) for x in full] == [1, 0, 0, 1, 0, 0, 1]
    assert {shape for x in full for shape in x} == {(CHAINS, N)}


def test_only_the_accepted_batch_looks_at_the_tracked_anchor():
    """b = 2, M = 4, a step without a reset: 5 candidates here, one at the anchor, 12 rows."""
    calls = []
    estimator = ewsg.gradients.exponentially_weighted(
        ewsg.gradients.covariance_tracking(counting(calls), batch_size=2), chain_length=4
    )
    kernel = ewsg.kernel(ewsg.dynamics.noise_corrected(0.05, friction=1.0), estimator)
    data = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), {"x": X, "y": Y})
    state = kernel.init(jax.random.key(0), jnp.asarray(W, jnp.float32), data).at_step(jnp.int32(1))
    calls.clear()
    _, info = jax.block_until_ready(jax.jit(kernel.step)(jax.random.key(1), state, data))
    assert sum(map(math.prod, calls)) == info.gradient_evaluations == 12


@pytest.mark.usual_parameters("svrg-II")
@pytest.mark.parametrize("name", ["svrg-II", "svrg-I", "covariance_tracking"])
def test_chains_out_of_phase_have_their_own_refresh(x64, name):
    """Chains at steps 0 to 3, side by side and one by one: the same states, memories and counts."""
    kernel = ewsg.kernel(
        ewsg.dynamics.splitting(0.05, friction=1.0),
        REFRESHED[name](MODELS["linear_regression"].posterior),
    )
    data = as_jax({"x": X, "y": Y})
    init, step = jax.jit(kernel.init), jax.jit(kernel.step)
    keys = jax.random.split(jax.random.key(1), (CHAINS, 12))
    alone = []
    for chain in range(CHAINS):
        state = init(keys[chain, 0], jnp.asarray(W), data)
        for ahead in range(chain):
            state, _ = step(keys[chain, ahead], state, data)
        alone.append(state)
    together = stack(alone)
    assert together.step.tolist() == list(range(CHAINS))
    all_steps = jax.jit(jax.vmap(kernel.step, (0, 0, None)))
    differ = 0
    for later in range(CHAINS, 12):
        together, info = all_steps(keys[:, later], together, data)
        counted = info.gradient_evaluations.tolist()
        pairs = [step(keys[chain, later], alone[chain], data) for chain in range(CHAINS)]
        alone = [state for state, _ in pairs]
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(stack(alone)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
        assert counted == [int(info.gradient_evaluations) for _, info in pairs]
        differ += len(set(counted)) == 2
    assert differ > 4, "the chains are in phase"


def stack(states):
    return jax.tree.map(lambda *x: np.stack(x), *states)


# Evaluations.

PLAIN = {
    "full": lambda p: ewsg.gradients.full(p),
    "uniform": lambda p: ewsg.gradients.uniform(p, batch_size=2),
    "uniform-epochs": lambda p: ewsg.gradients.uniform(p, batch_size=2, rows="epochs"),
    "svrg-II": lambda p: ewsg.gradients.svrg(p, batch_size=2, refresh_every=4),
    "svrg-I": lambda p: ewsg.gradients.svrg(p, batch_size=2, refresh_every=5, option="I"),
    "saga": lambda p: ewsg.gradients.saga(p, batch_size=2),
    "control_variate": lambda p: ewsg.gradients.control_variate(p, batch_size=2),
    "stratified": lambda p: ewsg.gradients.stratified(
        p, batch_size=2, labels=lambda data: jnp.arange(N) % 2, num_strata=2
    ),
    "covariance_tracking": lambda p: ewsg.gradients.covariance_tracking(p, batch_size=2),
    "low_rank": lambda p: ewsg.gradients.covariance_tracking(
        p, batch_size=2, structure="low_rank", rank=2
    ),
}
# Per step, at init, per refresh and K, for n = 6 and b = 2: methods.md.
COSTS = {
    "full": (N, 0, 0, 1),
    "uniform": (2, 0, 0, 1),
    "uniform-epochs": (2, 0, 0, 1),
    "svrg-II": (4, 0, N, 4),
    "svrg-I": (4, 0, N, 5),
    "saga": (2, N, 0, 1),
    "control_variate": (4, N, 0, 1),
    "stratified": (2, 0, 0, 1),
    "covariance_tracking": (4, 0, N, 3),
    "low_rank": (4, 0, 2 * N, 3),
}


@pytest.mark.parametrize("chain_length", [None, 2])
@pytest.mark.parametrize("name", COSTS)
def test_steps_report_what_evaluations_say_beforehand(name, chain_length):
    """All runs of up to 14 steps, from any step: the sum of reports, and NumPy's count."""
    estimator = PLAIN[name](MODELS["linear_regression"].posterior)
    per_step, at_init, per_refresh, every = COSTS[name]
    if chain_length is not None:
        if name in ("full", "uniform-epochs"):
            return
        estimator = ewsg.gradients.exponentially_weighted(estimator, chain_length=chain_length)
        # What a candidate does not take, but the accepted batch does: the tracked covariance's look
        # at its anchor.
        late = 2 if "rank" in name or "covariance" in name else 0
        per_step = (per_step - late) * (chain_length + 1) + late
    kernel = ewsg.kernel(ewsg.dynamics.semi_implicit(0.01, friction=1.0), estimator)
    data = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), {"x": X, "y": Y})
    evaluations = kernel.evaluations(data)
    assert evaluations._replace(per_accepted=0)._asdict() == {
        "per_step": per_step,
        "per_extra_gradient": N if name == "full" else 2,
        "at_init": at_init,
        "per_refresh": per_refresh,
        "refresh_every": every,
        "counted": False,
        "per_accepted": 0,
        "expected": 0.0,
    }

    def counted(key, step, data):
        state = kernel.init(key, jnp.zeros(3), data).at_step(step)
        return kernel.step(key, state, data)[1].gradient_evaluations

    # Nothing else of a step is asked for, so that nothing else is compiled.
    reported = jax.jit(jax.vmap(counted, (None, 0, None)))(
        jax.random.key(0), jnp.arange(14, dtype=jnp.int32), data
    )
    assert reported.dtype == jnp.int32
    expected = per_step + per_refresh * (np.arange(14) % every == 0)
    np.testing.assert_array_equal(reported, expected)
    for first, count in itertools.product(range(14), range(15)):
        if first + count <= 14:
            assert evaluations.of_steps(first, count) == expected[first : first + count].sum()
