"""EWSG-VR with Algorithm 2's printed friction, along a run typed from the listing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks.papers.lagged_covariance import lagged_covariance
from ewsg_jax.gradients._index_chain import ChainDraw
from ewsg_jax.rows import Batch
from tests.oracles import enumeration

N, EVERY, STEPS = 5, 3, 8
STEP_SIZE, FRICTION, TEMPERATURE, PRIOR_SCALE = 0.05, 2.0, 1.5, 2.0
RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(N, 2)), np.array([0, 1, 1, 0, 1])
START = np.array([0.4, -0.3])


def printed(rows, integrator):
    """Positions and Γ of every step: lines 5 to 20 with `ω ← θ`, inner loops, Cov clipped at 0."""
    h, theta, momentum = STEP_SIZE, START, np.zeros(2)
    b = rows.shape[1]
    gamma, positions, gammas = FRICTION * np.eye(2), [], []
    for step, batch in enumerate(rows):
        here = enumeration.logistic_regression(theta, X, Y)
        if step % EVERY == 0:
            at_anchor = here
            m1, m2 = here.sum(axis=0), N * here.T @ here
        gradient = theta / PRIOR_SCALE**2 + N / b * here[batch].sum(axis=0)
        gammas.append(gamma)
        next_momentum = momentum - h * (gradient + gamma @ momentum)
        theta = theta + h * (next_momentum if integrator == "semi_implicit" else momentum)
        momentum = next_momentum
        for i in batch:
            m1 = m1 + here[i] - at_anchor[i]
            m2 = m2 + N * (np.outer(here[i], here[i]) - np.outer(at_anchor[i], at_anchor[i]))
        covariance = enumeration.without_negative_part((m2 - np.outer(m1, m1)) / b)
        gamma = (2 * FRICTION * TEMPERATURE * np.eye(2) + h * covariance) / (2 * TEMPERATURE)
        positions.append(theta)
    return np.array(positions), np.array(gammas)


def kernel_of(integrator, batch_size, estimator=lagged_covariance):
    dynamics = ewsg.dynamics.noise_corrected(
        STEP_SIZE, friction=FRICTION, temperature=TEMPERATURE, integrator=integrator
    )
    posterior = ewsg.models.logistic_regression(prior_scale=PRIOR_SCALE)
    tracking = estimator(posterior, batch_size=batch_size, refresh_every=EVERY)
    return ewsg.kernel(dynamics, ewsg.gradients.exponentially_weighted(tracking, chain_length=0))


@pytest.mark.parametrize("integrator", ["semi_implicit", "euler"])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_ewsg_vr_is_algorithm_two_as_it_is_printed(x64, batch_size, integrator):
    rows = np.random.default_rng(5).integers(N, size=(STEPS, batch_size))
    data = {"x": jnp.asarray(X), "y": jnp.asarray(Y, float)}

    def run(kernel):
        state = kernel.init(jax.random.key(0), jnp.asarray(START), data)
        state = state._replace(dynamics=state.dynamics._replace(momentum=jnp.zeros(2)))

        def step(state, batch):
            draw = ewsg.Randomness(ChainDraw(Batch(batch[None]), jnp.zeros(0)), jnp.zeros(2))
            state, info = kernel.transition(draw, state, data)
            return state, (state.position, info.gradient_evaluations)

        return jax.jit(lambda: jax.lax.scan(step, state, jnp.asarray(rows, jnp.int32))[1])()

    positions, gammas = printed(rows, integrator)
    ours, counts = run(kernel_of(integrator, batch_size))
    np.testing.assert_allclose(ours, positions, rtol=1e-10)
    np.testing.assert_array_equal(gammas[0], FRICTION * np.eye(2))
    assert np.abs(gammas[1:] - gammas[0]).max() > 0.05, "the covariance is felt"
    at_once, same = run(kernel_of(integrator, batch_size, ewsg.gradients.covariance_tracking))
    assert np.abs(at_once - positions).max() > 1e-6, "a reset at once is another run"
    np.testing.assert_array_equal(counts, same)
