"""The theorems on weights: laws of rows by the library, forms by enumeration."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ewsg_jax as ewsg
from benchmarks.papers import theorems
from benchmarks.papers.command import EXPERIMENTS
from benchmarks.papers.figures import png
from benchmarks.papers.running import judged, settings_of, text_of


def test_laws_are_those_of_the_kernel():
    """Where EWSG's step goes, over many keys, is where the listed laws say on average."""
    rows = np.asarray(theorems.rows_of(0), float)[:6]
    theta, momentum, h, gamma = np.array([0.2, -0.1]), np.array([0.7, -0.4]), 0.2, 3.0
    gradients = len(rows) * (theta - rows)
    kernel = ewsg.ewsg(
        ewsg.models.gaussian_location(), h, friction=gamma, batch_size=1, integrator="euler"
    )
    data = jnp.asarray(rows, jnp.float32)
    state = kernel.init(jax.random.key(0), jnp.asarray(theta, jnp.float32), data)
    state = state._replace(
        dynamics=state.dynamics._replace(momentum=jnp.asarray(momentum, jnp.float32))
    )
    keys = jax.random.split(jax.random.key(1), 40_000)
    after = jax.jit(jax.vmap(lambda key: kernel.step(key, state, data)[0].dynamics.momentum))(keys)
    found = np.asarray(after, float)
    law = theorems.law_of(theorems.ONE, theorems.log_weights(gradients, momentum, h, gamma))
    assert law.sum() == pytest.approx(1)
    expected = momentum - h * (gamma * momentum + law @ gradients)
    error = found.std(0) / len(keys) ** 0.5
    np.testing.assert_allclose(found.mean(0), expected, atol=5 * error.max())
    uniform = momentum - h * (gamma * momentum + gradients.mean(0))
    assert np.abs(found.mean(0) - uniform).max() > 10 * error.max()


def test_one_proposal_is_a_sum_over_pairs():
    rng = np.random.default_rng(0)
    logs = rng.normal(size=5)
    by_hand = np.zeros(5)
    for i in range(5):
        for j in range(5):
            taken = min(1.0, np.exp(logs[j] - logs[i]))
            by_hand[j] += taken / 25
            by_hand[i] += (1 - taken) / 25
    np.testing.assert_allclose(theorems.law_of(theorems.ONE, logs), by_hand, rtol=1e-12)
    exact = np.exp(logs) / np.exp(logs).sum()
    np.testing.assert_allclose(theorems.law_of(theorems.EXACT, logs), exact, rtol=1e-12)


@pytest.mark.parametrize("name", [theorems.ONE, theorems.EXACT])
def test_forms_are_first_orders(name):
    rng = np.random.default_rng(1)
    gradients, momentum = rng.gamma(1.0, size=(7, 3)), rng.normal(size=3)
    h, gamma = 1e-6, 2.0
    law = theorems.law_of(name, theorems.log_weights(gradients, momentum, h, gamma))
    found = theorems.change(gradients, law)
    np.testing.assert_allclose(
        found.drift, sum(theorems.first_order(gradients, momentum, h, gamma)), rtol=1e-4
    )
    change = found.trace - theorems.change(gradients, np.full(7, 1 / 7)).trace
    assert change == pytest.approx(
        float(theorems.first_variance_change(gradients, momentum, h, gamma)), rel=1e-3
    )


@pytest.mark.real_data
def test_rows_of_pima_add_up_to_the_gradient():
    each = theorems.pima_gradients(2)
    assert each.shape == (2, 768, 9)
    # At draws of the normal approximation the gradient is some standard deviations of the
    # posterior's.
    assert np.abs(each.mean(1)).max() < 200 < np.abs(each).max()


@pytest.mark.real_data
def test_a_small_experiment():
    settings = settings_of(theorems.Settings, text_of("ewsg-theorems"), "quick")
    settings = dataclasses.replace(
        settings,
        num_data_sets=50,
        mechanism_data_sets=1,
        nodes=4,
        positions=2,
        step_sizes=(1e-5, 1e-3),
    )
    done = {
        name: compute({}) | {"seconds": 0.0} for name, compute in theorems.parts(settings).items()
    }
    result = judged(EXPERIMENTS["ewsg-theorems"], done)
    assert [claim["share"] for claim in result["claims"]] == [1.0, 0.0] + [1.0] * 9
    assert png(EXPERIMENTS["ewsg-theorems"].draw(done))[:4] == b"\x89PNG"
